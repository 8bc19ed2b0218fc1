"""Accelerations and forces of constraints inside other functions: found in their graphs, and differentiated in closed form."""

import casadi as ca
import numpy as np
import pytest

from dynamics import algorithms as alg
from dynamics import constraints as con
from dynamics.derivatives import inner
from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.forces import Place, Spring
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model.synthetic import random_tree

TREE = random_tree(3, np.random.default_rng(4), kinds=["revolute", "prismatic"], root="free_flyer", branching=0.5)
MOTORS = direct_motors(TREE, [body.joint.name for body in TREE.bodies if body.joint.kind != "free_flyer"][1:])
FOOT = con.PointContact("foot", "f1", ((0.1, 0.2, 0.3),), normal=(0.2, 0.1, 1.0))
ROD = con.Rod("rod", Place("f1", (0.1, 0.0, 0.0)), Place("f2", (0.0, 0.2, 0.0)), 0.4)
HELD = {"foot": (FOOT,), "sole": (con.FlatContact("sole", "f2", (0.1, 0.0, -0.2), (0.0, 0.6, 0.8)),), "foot and loop": (FOOT, ROD)}


def mechanism_of(name):
    spring = Spring("spring", (Place("f0", (0.1, 0.0, 0.2)), Place("f2", (0.0, 0.1, 0.0))), 30.0, 0.2, 0.5)
    return Mechanism(TREE, MOTORS, forces=(spring,), constraints=HELD[name])


def point(mechanism, seed=2):
    rng, model = np.random.default_rng(seed), mechanism.model
    return np.r_[alg.random_configuration(model, rng), rng.normal(size=model.nv)], rng.normal(size=mechanism.nu)


def test_forces_have_the_derivatives_of_differences():
    mechanism = mechanism_of("foot")
    model, (x, u), nq = mechanism.model, point(mechanism), mechanism.model.nq
    known, size = inner.forces(mechanism), 2 * model.nv + mechanism.nu
    X, U, D, W = (ca.SX.sym(n, k) for n, k in (("x", len(x)), ("u", len(u)), ("d", size), ("w", known.count)))
    moved = ca.vertcat(alg.jet(model, X[:nq], D[:model.nv]), X[nq:] + D[model.nv:2 * model.nv])
    value = known.sought(0, moved, U + D[2 * model.nv:])
    road = ca.Function("road", [D, X, U, W], [value, ca.gradient(ca.dot(W, value), D)])
    w, h = np.random.default_rng(8).normal(size=known.count), 1e-3
    expected = [sum(c * np.array(road(k * h * e, x, u, w)[i]).ravel() for k, c in (
        (1, 3 / 4), (-1, -3 / 4), (2, -3 / 20), (-2, 3 / 20), (3, 1 / 60), (-3, -1 / 60))) / h
        for i in (0, 1) for e in np.eye(size)]
    k, T = (np.array(y) for y in known.first(0, x, u))
    H = np.array(known.second(0, x, u, w))
    for ours, theirs in ((T, np.array(expected[:size]).T), (H, np.array(expected[size:]))):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7 * np.abs(theirs).max())
    np.testing.assert_allclose(k, np.array(road(np.zeros(size), x, u, w)[0]), rtol=0, atol=1e-10 * np.abs(k).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
def test_forces_have_the_derivatives_of_complex_steps(name):
    """First derivatives by complex steps through the equations; second ones by complex steps through their gradient."""
    mechanism = mechanism_of(name)
    model, (x, u), nq = mechanism.model, point(mechanism), mechanism.model.nq
    known = inner.forces(mechanism)
    size = 2 * model.nv + mechanism.nu
    X, U, D, W = (ca.SX.sym(n, k) for n, k in (("x", len(x)), ("u", len(u)), ("d", size), ("w", known.count)))
    moved = ca.vertcat(alg.jet(model, X[:nq], D[:model.nv]), X[nq:] + D[model.nv:2 * model.nv])
    control, w = U + D[2 * model.nv:], np.random.default_rng(8).normal(size=known.count)
    value = ca.Function("value", [D, X, U], [known.sought(0, moved, control)])
    k, T = (np.array(y) for y in known.first(0, x, u))
    np.testing.assert_allclose(k, np.array(value(np.zeros(size), x, u)), rtol=0, atol=1e-10 * np.abs(k).max())
    J = np.array(complex_step_jacobian(value)(np.zeros(size), x, u))
    np.testing.assert_allclose(T, J, rtol=0, atol=1e-9 * np.abs(J).max())
    gradient = ca.Function("gradient", [D, X, U, W], [ca.gradient(ca.dot(W, known.sought(0, moved, control)), D)])
    expected = np.array(complex_step_jacobian(gradient)(np.zeros(size), x, u, w))
    H = np.array(known.second(0, x, u, w))
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-9 * np.abs(H).max())
    assert np.abs(H[:model.nv, 2 * model.nv:]).max() > 1e-3  # forces bend with torques as the configuration moves


def test_cones_hold_forces_as_symbols():
    mechanism = mechanism_of("foot")
    (x, u), known = point(mechanism), inner.forces(mechanism)
    X, U = ca.SX.sym("x", len(x)), ca.SX.sym("u", len(u))
    nq = mechanism.model.nq
    found = mechanism.constraint_forces(X[:nq], X[nq:], U)["foot"]
    f = ca.Function("cone", [ca.SX.sym("t"), X, U, ca.SX.sym("p", 0)], [ca.cse(ca.vertcat(FOOT.pushes(found), X[0] * found[2]))])
    rest = inner.split(f, known.sought)
    assert rest.n_instructions() < 40 < 0.05 * f.n_instructions()
    k = np.array(known.first(0, x, u)[0])
    np.testing.assert_allclose(np.array(rest(0, x, u, [], k)), np.array(f(0, x, u, [])), rtol=0, atol=1e-9 * np.abs(k).max())
    assert np.abs(np.array(rest(0, x, u, [], k + 1.0)) - np.array(f(0, x, u, []))).max() > 1e-2
    # the forces under other efforts are not those of this motion
    doubled = mechanism.constraint_forces(X[:nq], X[nq:], 2 * U)["foot"]
    other = ca.Function("other", [ca.SX.sym("t"), X, U, ca.SX.sym("p", 0)], [doubled])
    assert inner.split(other, known.sought) is None


def test_no_closed_form_is_promised_where_none_is_written():
    swing = ca.Function("swing", [t := ca.SX.sym("t")], [ca.sin(3 * t)])
    patch = con.PointContact("patch", "f1", ((0.1, 0.2, 0.3), (0.0, 0.0, 0.2)))
    for held in ((), (FOOT, con.JointMotion("guided", MOTORS[0].name, swing)), (FOOT, con.PointContact("again", "f1", FOOT.points)),
                 (patch, con.PointContact("third", "f1", ((0.3, 0.0, 0.0),)))):
        assert inner.forces(Mechanism(TREE, MOTORS, constraints=held)) is None
