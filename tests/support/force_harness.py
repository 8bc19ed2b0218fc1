"""What every record of a force has to satisfy on any robot: its derivatives and its energy against differences on the manifold."""

from __future__ import annotations

import casadi as ca
import numpy as np

import dynamics
from dynamics import algorithms as alg


def state(model, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    return alg.random_configuration(model, rng), spread * rng.standard_normal(model.nv)


def functions(model, force):
    """(effort, K, D, V) of q and v as CasADi Functions."""
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    return [ca.Function(name, [q, v], [ca.densify(ca.SX(value))]) for name, value in (
        ("f", force.effort(model, q, v)), ("K", force.stiffness(model, q, v)), ("D", force.damping(model, q, v)),
        ("V", force.energy(model, q)))]


def along_tangent(model, f, q, v, step=1e-6):
    """Central differences of f(q, v) along every right perturbation of q [., nv]."""
    move = dynamics.make(model, "integrate")
    rows = []
    for k in range(model.nv):
        d = np.zeros(model.nv)
        d[k] = step
        rows.append((f(move(q, d), v) - f(move(q, -d), v)) / (2 * step))
    return np.array(ca.horzcat(*rows))


def along_velocity(model, f, q, v, step=1e-6):
    eye = step * np.eye(model.nv)
    return np.array(ca.horzcat(*((f(q, v + d) - f(q, v - d)) / (2 * step) for d in eye)))


def check(model, force, q, v, tolerance=2e-7):
    """Raises AssertionError where a derivative is wrong, or where a force at rest is not that of its potential."""
    force.check(model)
    f, K, D, V = functions(model, force)
    size = 1 + float(np.max(np.abs(np.array(f(q, v))))) + float(np.max(np.abs(np.array(K(q, v)))))
    np.testing.assert_allclose(np.array(K(q, v)) / size, along_tangent(model, f, q, v) / size, atol=tolerance, err_msg="stiffness")
    np.testing.assert_allclose(np.array(D(q, v)) / size, along_velocity(model, f, q, v) / size, atol=tolerance, err_msg="damping")
    rest = np.zeros(model.nv)
    if not isinstance(force.energy(model, ca.SX.sym("q", model.nq)), ca.DM):
        gradient = along_tangent(model, V, q, rest).ravel()
        np.testing.assert_allclose(np.array(f(q, rest)).ravel() / size, -gradient / size, atol=tolerance, err_msg="energy")
