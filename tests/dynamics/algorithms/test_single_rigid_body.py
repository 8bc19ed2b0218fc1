"""One rigid body: Newton-Euler with gravity, its closed forms, what it conserves, and its steps."""

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from scipy.integrate import solve_ivp
from scipy.special import ellipj
from states import free_body

import dynamics
from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.forces import Place, PointForce
from dynamics.lie import se3
from dynamics.model import BodyInertia
from dynamics.model.synthetic import random_inertia, random_rotation
from dynamics.notation.inertia import free_body_acceleration

GRAVITY = np.array([0.0, 0.0, -9.81])


def random_pose(rng):
    return se3.Pose(ca.DM(random_rotation(rng)), ca.DM(rng.standard_normal(3)))


@pytest.mark.row("003:M10", "001:D02", "001:D06")
def test_newton_euler_of_a_free_body():
    """The tree's forward dynamics, the law about the centre of mass written out, and what it conserves."""
    rng = np.random.default_rng(4)
    inertia = random_inertia(rng)
    centred = BodyInertia(inertia.mass, (0.0, 0.0, 0.0), inertia.inertia)
    model, I = free_body(centred), np.array(inertia.inertia)
    q, v = alg.random_configuration(model, rng), rng.standard_normal(6)
    f = dynamics.make(model, "forward_dynamics")
    w, speed = column(spatial.angular(ca.DM(v))), column(spatial.linear(ca.DM(v)))
    a = ca.DM(f(q, v, np.zeros(6)))
    np.testing.assert_allclose(column(spatial.angular(a)), -np.linalg.solve(I, np.cross(w, I @ w)), atol=1e-12)
    np.testing.assert_allclose(column(spatial.linear(a)), -np.cross(w, speed), atol=1e-12)
    wrench = rng.standard_normal(6)
    M = spatial.inertia_matrix(spatial.inertia_from_com(inertia.mass, inertia.com, inertia.inertia))
    offset = dynamics.make(free_body(inertia), "forward_dynamics")
    np.testing.assert_allclose(column(offset(q, v, wrench)), column(free_body_acceleration(random_pose(rng), v, wrench, M)),
                               atol=1e-11)
    rate, momentum, energy = (ca.Function("f", [x, y], [g]) for x, y in [(ca.SX.sym("q", 7), ca.SX.sym("v", 6))] for g in (
        alg.rate_matrix(model, x) @ y, alg.momentum(model, x, y), alg.kinetic_energy(model, x, y)))
    run = solve_ivp(lambda t, s: np.r_[column(rate(s[:7], s[7:])), column(f(s[:7], s[7:], np.zeros(6)))], (0, 2),
                    np.r_[q, v], rtol=1e-11, atol=1e-12)
    for conserved in (momentum, energy):
        np.testing.assert_allclose(column(conserved(run.y[:7, -1], run.y[7:, -1])), column(conserved(q, v)), atol=1e-9)
    assert np.abs(run.y[7:, -1] - v).max() > 0.1


@pytest.mark.row("003:M11")
def test_gravity_is_a_body_wrench_with_a_potential_and_a_body_falls_as_it_must():
    rng = np.random.default_rng(5)
    inertia = random_inertia(rng)
    model = free_body(BodyInertia(inertia.mass, (0.0, 0.0, 0.0), inertia.inertia), tuple(GRAVITY))
    q = alg.random_configuration(model, rng)
    R = number(alg.frame_pose(model, q, "body").R)
    wrench = -column(dynamics.make(model, "gravity_force")(q))
    np.testing.assert_allclose(wrench, np.r_[R.T @ GRAVITY * inertia.mass, np.zeros(3)], atol=1e-13)
    move, V, h = dynamics.make(model, "integrate"), dynamics.make(model, "potential_energy"), 1e-5
    slope = [float(V(move(q, h * e)) - V(move(q, -h * e))) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(wrench, -np.array(slope), atol=1e-8)
    # a weight as a force of its own is the same wrench
    bare = free_body(BodyInertia(inertia.mass, (0.0, 0.0, 0.0), inertia.inertia))
    pull = PointForce("weight", Place("body"), tuple(inertia.mass * GRAVITY))
    np.testing.assert_allclose(column(pull.effort(bare, ca.DM(q), ca.DM(np.zeros(6)))), wrench, atol=1e-13)
    f, N = dynamics.make(model, "forward_dynamics"), ca.Function("N", [x := ca.SX.sym("q", 7)], [alg.rate_matrix(model, x)])
    v = rng.standard_normal(6)
    run = solve_ivp(lambda t, s: np.r_[number(N(s[:7])) @ s[7:], column(f(s[:7], s[7:], np.zeros(6)))], (0, 1),
                    np.r_[q, v], rtol=1e-10, atol=1e-11)
    thrown = q[:3] + R @ v[:3] + GRAVITY / 2
    np.testing.assert_allclose(run.y[:3, -1], thrown, atol=1e-8)


@pytest.mark.row("003:M16")
def test_semi_implicit_steps_of_a_spinning_body():
    """``M phi+ = M phi + h (...)``, ``E+ = E exp(h [phi+])``: first order in energy, and the pose stays one."""
    model = free_body(BodyInertia(1.0, (0.0, 0.0, 0.0), ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0))))
    f, move = dynamics.make(model, "forward_dynamics"), dynamics.make(model, "integrate")
    energy = dynamics.make(model, "kinetic_energy")
    start, drift, M = np.r_[1.0, 0.0, 0.0, 0.1, 2.0, 0.1], [], np.diag([1.0, 1.0, 1.0, 1.0, 2.0, 3.0])
    for n in (100, 1000):
        q, v, h = ca.DM(alg.neutral(model)), ca.DM(start), 1 / n
        for _ in range(n):
            push = M @ column(v) + h * column(-spatial.cross_force(v, ca.DM(M) @ v))
            v = v + h * f(q, v, ca.DM.zeros(6))
            np.testing.assert_allclose(M @ column(v), push, atol=1e-13)
            q = move(q, h * v)
        R = number(alg.frame_pose(model, q, "body").R)
        np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
        drift.append(float(energy(q, v)) / float(energy(q, start)) - 1)
    assert abs(drift[0]) == pytest.approx(4.57e-3, rel=0.01)
    assert abs(drift[1]) == pytest.approx(4.49e-4, rel=0.01)


def motion(model, q0, v0, duration, rtol=1e-11):
    """Unforced motion."""
    q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    rate = ca.vertcat(alg.rate_matrix(model, q) @ v, alg.forward_dynamics(model, q, v, ca.DM(model.nv, 1)))
    field = ca.Function("f", [q, v], [rate])
    flow = solve_ivp(lambda t, y: np.array(field(y[:model.nq], y[model.nq:])).ravel(), (0, duration), np.r_[q0, v0],
                     method="DOP853", rtol=rtol, atol=1e-13)
    return flow.y[:model.nq, -1], flow.y[model.nq:, -1]


def test_torque_free_spin_follows_jacobis_elliptic_functions():
    """Euler's equations of an asymmetric top: closed form with sn, cn, dn (Landau and Lifshitz, Mechanics, section 37)."""
    I1, I2, I3 = 1.0, 2.0, 3.5
    model = free_body(BodyInertia(1.0, (0.0, 0.0, 0.0), ((I1, 0.0, 0.0), (0.0, I2, 0.0), (0.0, 0.0, I3))))
    w = np.array([0.4, 0.0, 1.0])
    E2, M2 = I1 * w[0] ** 2 + I3 * w[2] ** 2, (I1 * w[0]) ** 2 + (I3 * w[2]) ** 2
    assert M2 > E2 * I2  # rotation about the axis of largest inertia
    k2 = (I2 - I1) * (E2 * I3 - M2) / ((I3 - I2) * (M2 - E2 * I1))
    rate = np.sqrt((I3 - I2) * (M2 - E2 * I1) / (I1 * I2 * I3))
    T = 2.7
    sn, cn, dn, _ = ellipj(rate * T, k2)
    expected = [np.sqrt((E2 * I3 - M2) / (I1 * (I3 - I1))) * cn, np.sqrt((E2 * I3 - M2) / (I2 * (I3 - I2))) * sn,
                np.sqrt((M2 - E2 * I1) / (I3 * (I3 - I1))) * dn]
    q, v = motion(model, alg.neutral(model), np.r_[0, 0, 0, w], T)
    np.testing.assert_allclose(v[3:], expected, atol=1e-9)
    momentum = [np.array(dynamics.make(model, "momentum")(*s)).ravel() for s in ((alg.neutral(model), np.r_[0, 0, 0, w]), (q, v))]
    np.testing.assert_allclose(momentum[1], momentum[0], atol=1e-9)
