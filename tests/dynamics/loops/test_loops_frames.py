"""Constraints between frames in the loops: first derivatives against complex steps, second ones against differences of those."""

import casadi as ca
import numpy as np
import pytest
from loop_references import close

from dynamics import algorithms as alg
from dynamics import constraints as con
from dynamics.derivatives.complex_step import complex_step_jacobian
from dynamics.forces import JointSpring, Place
from dynamics.loops import LoopDynamics, acting, layout, make_tables, residual, ties
from dynamics.mechanism import Mechanism, Motor
from dynamics.mechanism.constrained import accelerations, demanded, reduced, stacked
from dynamics.model.synthetic import random_tree

t = ca.SX.sym("t")
PATH = ca.Function("path", [t], [ca.vertcat(ca.sin(t), t**2, ca.cos(2 * t))])
TURN = ca.Function("turn", [t], [ca.blockcat([[ca.cos(t), -ca.sin(t), 0], [ca.sin(t), ca.cos(t), 0], [0, 0, 1]])])
TREE = random_tree(7, np.random.default_rng(6), kinds=["revolute", "prismatic", "spherical"], root="free_flyer", branching=0.4)
FOOT = con.PointContact("foot", "f5", ((0.1, 0.2, 0.3),), normal=(0.2, 0.1, 1.0), gains=(30.0, 7.0))
PATCH = con.PointContact("patch", "f5", ((0.1, 0.2, 0.3), (0.0, 0.0, 0.2), (0.3, 0.0, 0.0), (0.2, -0.2, -0.1)))
SOLE = con.FlatContact("sole", "f2", (0.1, 0.0, -0.2), (0.0, 0.6, 0.8))
ROD = con.Rod("rod", Place("f2", (0.1, 0.0, 0.0)), Place("f4", (0.0, 0.2, 0.0)), 0.4)
LOOP = con.Closure("pin", "f4", "f2", "spherical")
RECORDS = {
    "foot": [FOOT], "sole": [SOLE], "foot and sole": [FOOT, SOLE], "patch": [PATCH], "loop": [LOOP], "loop and foot": [LOOP, FOOT],
    "rod and foot": [ROD, FOOT], "wheel": [con.RollingContact("wheel", "f3", 0.3, (1.0, 0.0, 0.2))],
    "pin to the world": [con.Closure("pin", "world", "f4", "spherical"), FOOT],
    "guided": [con.FrameMotion("guided", "f5", PATH, TURN)],
    "belt and foot": [con.Coupling("belt", (("j1", 1.0), ("j6", 2.0))), FOOT],
    "twice": [FOOT, FOOT.but(name="again")]}
T = 0.3


def robot(name, forces=()):
    return Mechanism(TREE, tuple(Motor(v, ((v, 1.0),)) for v in TREE.velocity_names), (), forces, tuple(RECORDS[name]))


def point(seed=0):
    rng = np.random.default_rng(seed)
    return alg.random_configuration(TREE, rng), *rng.standard_normal((3, TREE.nv))


def differences(f, n, h=2e-3):
    """Central differences of sixth order of an array along n directions, which come last."""
    weights = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
    return np.stack([sum(c * (f(k * h * e) - f(-k * h * e)) for k, c in weights) / h for e in np.eye(n)], axis=-1)


def moved(q, d):
    return np.array(alg.integrate(TREE, q, d)).ravel()


def first_by_complex_steps(made, q, v, tau):
    d = ca.SX.sym("d", TREE.nv)
    steps = (made.forward_dynamics(alg.jet(TREE, q, d), v, tau, T), made.forward_dynamics(q, v + d, tau, T),
             made.forward_dynamics(q, v, tau + d, T))
    return [np.array(complex_step_jacobian(ca.Function("a", [d], [ca.densify(a)]))(np.zeros(TREE.nv))) for a in steps]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", RECORDS)
def test_first_and_second_derivatives(name):
    made, (q, v, tau, mu) = robot(name, (JointSpring("k", "j1", 3.0, (0.1,)),) if "belt" in name else ()), point()
    loops, n, loose = LoopDynamics(made), TREE.nv, 1e-6 if name == "twice" else 1e-9
    a, multipliers = loops.constrained_dynamics(q, v, tau, t=T)
    theirs = accelerations(TREE, made.constraints, q, v, tau + made.force(q, v), T)
    close(a, np.array(theirs[0]).ravel(), loose)
    close(multipliers, np.array(theirs[1]).ravel(), loose)
    a, first, second = loops.forward_contracted_second_order(q, v, tau, mu, t=T)
    for x, y in zip(first, first_by_complex_steps(made, q, v, tau), strict=True):
        close(x, y, loose)

    def slopes(q, v):
        return mu @ loops.forward_dynamics_derivatives(q, v, tau, t=T)[1]  # [3, nv]

    by_q, by_v = differences(lambda d: slopes(moved(q, d), v), n), differences(lambda d: slopes(q, v + d), n)
    for x, y in zip(second, ((by_q[0] + by_q[0].T) / 2, by_q[1], by_v[1], by_q[2]), strict=True):
        close(x, y, max(loose, 1e-8))


@pytest.mark.parametrize("part", [1, 2])
def test_derivatives_are_those_of_the_functions(part, monkeypatch):
    """With a wrong function of slopes, or of second derivatives, the results are wrong."""
    q, v, tau, mu = point(1)
    right = LoopDynamics(robot("foot")).forward_contracted_second_order(q, v, tau, mu, t=T)
    true = ties.functions
    monkeypatch.setattr(ties, "functions", lambda *given: ties.Parts(*(
        [(1.0 + (k == part)) * x for x in parts] for k, parts in enumerate(true(*given)))))
    acting._compiled.cache_clear()
    wrong = LoopDynamics(robot("foot")).forward_contracted_second_order(q, v, tau, mu, t=T)
    acting._compiled.cache_clear()
    np.testing.assert_allclose(wrong.a, right.a)
    assert (np.abs(wrong.first - right.first).max() > 1e-2) == (part == 1)
    assert np.abs(wrong.second - right.second).max() > 1e-2


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["foot and sole", "loop and foot", "belt and foot", "guided", "twice"])
def test_residuals(name):
    """Equations of motion with multipliers as unknowns, at two points: values against expressions, first derivatives against
    complex steps, second ones against differences of these."""
    made, n = robot(name, (JointSpring("k", "j1", 3.0, (0.1,)),)), TREE.nv
    held, tables, rng = made.constraints, make_tables(made), np.random.default_rng(2)
    x = [np.array(z) for z in zip(*(point(seed) for seed in (3, 4)), strict=True)]
    q, v, a, psi = x
    rows = int(tables.integers[layout.N_ROWS])
    lam, mu, times = rng.standard_normal((2, rows)), np.hstack([psi, rng.standard_normal((2, rows))]), np.full((2, 1), T)

    def results():
        return residual.Results(*(np.zeros((2, *shape)) for shape in ((n + rows,), (3, n, n), (3, rows, n), (4, n, n), (rows, n))))

    start = tables.integers, tables.reals, tables.workspace()
    residual.contracted(*start, q, v, a, lam, times, mu, to := results())
    out, first, by, second, turned = to

    def expression(q, v, a, lam):
        J = stacked(TREE, reduced(held), "jacobian", q, T)
        return ca.vertcat(made.inverse_dynamics(q, v, a) - J.T @ lam, J @ a - demanded(TREE, reduced(held), q, v, T))

    def slopes(k, d, w):
        there, found = q.copy(), results()
        there[k] = moved(q[k], d)
        residual.derivatives(*start, there, v + w, a, lam, times, found)
        return mu[k, :n] @ found.first[k] + mu[k, n:] @ found.by[k]

    alone = np.zeros((2, n + rows))
    residual.values(*start, q, v, a, lam, times, alone)
    np.testing.assert_array_equal(alone, out)
    d = ca.SX.sym("d", n)
    for k in range(2):
        close(out[k], np.array(expression(q[k], v[k], a[k], lam[k])).ravel(), 1e-9)
        for which, moved_by in enumerate((lambda k: (alg.jet(TREE, q[k], d), v[k], a[k]), lambda k: (q[k], v[k] + d, a[k]),
                                          lambda k: (q[k], v[k], a[k] + d))):
            value = ca.Function("F", [d], [ca.densify(expression(*moved_by(k), lam[k]))])
            theirs = np.array(complex_step_jacobian(value)(np.zeros(n)))
            close(np.vstack([first[k, which], by[k, which]]), theirs, 1e-9)
        by_q, by_v = differences(lambda d, k=k: slopes(k, d, 0.0), n), differences(lambda w, k=k: slopes(k, np.zeros(n), w), n)
        for ours, theirs in zip(second[k], ((by_q[0] + by_q[0].T) / 2, by_q[1], by_v[1], by_q[2]), strict=True):
            close(ours, theirs, 1e-8)
        J = ca.Function("J", [d], [ca.densify(stacked(TREE, reduced(held), "jacobian", alg.jet(TREE, q[k], d), T) @ psi[k])])
        close(turned[k], -np.array(complex_step_jacobian(J)(np.zeros(n))), 1e-9)
