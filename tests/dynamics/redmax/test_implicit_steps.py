"""Implicit steps: published energies, orders, residuals and matrices by independent roads, stiffness, failures by name."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from arrays import column
from joint_examples import tree_of_kinds
from redmax_scenes import NUMBERS, scene
from scipy.integrate import solve_ivp

import dynamics
from dynamics import ModelError
from dynamics.constraints import Rod
from dynamics.forces import Bushing, Drag, Expression, JointDamper, JointSpring, Place, PointForce
from dynamics.mechanism import Mechanism, Thruster, direct_motors
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.redmax import redmax
from dynamics.redmax.implicit import NewtonError, linearly_implicit, simulate, system
from dynamics.steps.march import Newton
from dynamics.steps.schemes import ALPHA, METHODS, plan
from ocp.bridge import robot_system
from ocp.simulation import stepper

MODEL = tree_of_kinds("revolute", "exponential", "prismatic", "universal", seed=1)
TREE = Mechanism(MODEL, direct_motors(MODEL), forces=(JointSpring("s", MODEL.bodies[0].joint.name, 4.0),))
START = (np.full(MODEL.nv, 0.2), np.full(MODEL.nv, 0.3))


@pytest.fixture(scope="module")
def tree():
    return system(TREE, mode="interpreted")


def vjp(steps):
    return 0.3 * np.cos(np.outer(np.arange(steps), np.arange(1, MODEL.nv + 1)) / steps)


def one_joint(kind="revolute", k=0.0, c=0.0, mass=1.0):
    b = Builder("one", gravity=(0.0, 0.0, 0.0))
    b.body("b", parent="world", joint=Joint("j", kind, axes=((1.0, 0.0, 0.0),)), inertia=BodyInertia(mass, (0.0, 0.0, 0.0), (
        (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))))
    return Mechanism(b.build(), forces=(JointSpring("k", "j", k), JointDamper("c", "j", c)))


@pytest.mark.row("003:I01", "003:I04", "003:I05", "003:I06")
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("method", ["bdf1", "bdf2"])
def test_published_energies(number, method):
    s = scene(number)
    n = s.mechanism.model.nv
    q, v = ca.SX.sym("q", n), ca.SX.sym("v", n)
    energy = ca.Function("E", [q, v], [s.mechanism.energy(q, v)])
    run = simulate(system(s.mechanism, mode="interpreted"), method, (s.q, s.v), s.h, s.steps)
    found = float(energy(run.q[-1], run.v[-1])) - float(energy(s.q, np.zeros(n)))
    assert found == pytest.approx(getattr(s, method), rel=1e-8)


@pytest.mark.row("003:I01", "003:I06", "003:I07")
@pytest.mark.parametrize(("method", "order"), [("bdf1", 1), ("sdirk2", 2), ("bdf2", 2)])
def test_orders_against_an_adaptive_integration(tree, method, order):
    n, until = MODEL.nv, 0.5
    f = dynamics.make(MODEL, "forward_dynamics")
    spring = TREE.forces[0]

    def slope(t, s):
        tau = column(spring.effort(MODEL, ca.DM(s[:n]), ca.DM(s[n:])))
        return np.r_[s[n:], column(f(s[:n], s[n:], tau + 0.3))]

    exact = solve_ivp(slope, (0, until), np.concatenate(START), rtol=1e-11, atol=1e-12).y[:, -1]
    errors = []
    for steps in (40, 80, 160):
        run = simulate(tree, method, START, until / steps, steps, u=np.full((steps, n), 0.3))
        errors.append([np.abs(run.q[-1] - exact[:n]).max(), np.abs(run.v[-1] - exact[n:]).max()])
    measured = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    np.testing.assert_allclose(measured, order, atol=0.2)


PISTON = Thruster("piston", MODEL.bodies[-1].name, (0.2, -0.4, 0.6), 0.1, (0.1, 0.0, 0.2), against=MODEL.bodies[1].name)
ROCKET = Thruster("rocket", MODEL.bodies[2].name, (0.0, 0.6, 0.8), 0.05, (0.1, 0.2, 0.0))


@pytest.mark.parametrize("thrusters", [(ROCKET,), (ROCKET, PISTON)], ids=["alone", "against another body"])
def test_derivatives_with_springs_dampers_and_thrusts_by_differences(thrusters):
    """r_q and r_v of the kernel against central differences of its residual; thrusts between bodies and from outside."""
    first, last = MODEL.bodies[0].name, MODEL.bodies[-1].name
    forces = (Bushing("b", Place(first, (0.2, 0.0, 0.0)), Place(last, (0.0, 0.1, 0.0)), 30.0, 4.0), Drag("d", last, (0.5,) * 6),
              JointDamper("c", MODEL.bodies[2].joint.name, 0.9))
    tested = system(Mechanism(MODEL, direct_motors(MODEL), thrusters, forces), mode="interpreted")
    rng, n = np.random.default_rng(8), MODEL.nv
    q, v, a = rng.uniform(-0.6, 0.6, (3, n))
    u = np.r_[rng.standard_normal(n), 20.0, -30.0][:n + len(thrusters)]
    r, r_q, r_v, M = tested.linearised((q, v, a), u, np.zeros(0))

    def residual(*node):
        return tested.linearised(node, u, np.zeros(0))[0]

    units = 1e-5 * np.eye(n)
    np.testing.assert_allclose(r, residual(q, v, a), atol=1e-12)
    for found, move in ((r_q, lambda e: (q + e, v, a)), (r_v, lambda e: (q, v + e, a)), (M, lambda e: (q, v, a + e))):
        slopes = np.column_stack([(residual(*move(e)) - residual(*move(-e))) / 2e-5 for e in units])
        np.testing.assert_allclose(found, slopes, atol=1e-7 * (1 + np.abs(slopes).max()))


@pytest.mark.row("003:I01", "003:I02", "003:I04", "003:I05", "003:I06")
@pytest.mark.parametrize("method", METHODS)
def test_residuals_and_newton_matrices_as_printed(tree, method):
    """The nodes satisfy the document's equations with M and f of RedMax, and H is M + dM w - h D - h^2 K with its slices."""
    h, u = 0.05, vjp(3)
    run = simulate(tree, method, START, h, 3, u=u)

    def at(node, k):
        return redmax(TREE, run.nodes[node, 0], run.nodes[node, 1], u[k])

    def residual(node, k, w, s):
        found = at(node, k)
        return np.array(found.M) @ w - s**2 * column(found.f)

    if method == "bdf1":
        (q0, v0), (q1, v1) = run.nodes[0, :2], run.nodes[1, :2]
        np.testing.assert_allclose(residual(1, 0, q1 - q0 - h * v0, h), 0, atol=1e-10)
        np.testing.assert_allclose(v1, (q1 - q0) / h, atol=1e-12)
        w, s, node = q1 - q0 - h * v0, h, 1
    else:
        a = ALPHA
        (q0, v0), (qa, va), (q1, v1) = run.nodes[0, :2], run.nodes[1, :2], run.nodes[2, :2]
        np.testing.assert_allclose(residual(1, 0, qa - q0 - a * h * v0, a * h), 0, atol=1e-10)
        np.testing.assert_allclose(residual(2, 0, q1 - q0 - (2 * a - 1) * h * v0 - 2 * (1 - a) * h * va, a * h), 0, atol=1e-10)
        np.testing.assert_allclose(v1, (q1 + (1 / a - 2) * q0 - (1 - a) / a * qa) / (a * h), atol=1e-11)
        w, s, node = q1 - q0 - (2 * a - 1) * h * v0 - 2 * (1 - a) * h * va, a * h, 2
    if method == "bdf2":
        q2, v2 = run.nodes[3, :2]
        w, s, node = q2 - 4 / 3 * q1 + q0 / 3 - 8 / 9 * h * v1 + 2 / 9 * h * v0, 2 / 3 * h, 3
        np.testing.assert_allclose(residual(3, 1, w, s), 0, atol=1e-10)
        np.testing.assert_allclose(v2, 3 / (2 * h) * (q2 - 4 / 3 * q1 + q0 / 3), atol=1e-12)
    k = run.solves[node - 1].step
    found = at(node, k)
    H = np.array(found.M) + np.column_stack([np.array(x) @ w for x in found.dM]) - s * np.array(found.D) - s**2 * np.array(found.K)
    _, r_q, r_v, M = tree.linearised(run.nodes[node], u[k], run.p)
    np.testing.assert_allclose(M + s * r_v + s**2 * r_q, H, atol=1e-10)


@pytest.mark.row("003:I03")
def test_newton_converges_quadratically(tree):
    """Each further iteration squares the error: seen by letting it stop early."""
    sizes = []
    for most in (1, 2, 3):
        with pytest.raises(NewtonError) as failed:
            simulate(tree, "bdf1", START, 0.02, 1, options=Newton(tolerance=0.0, iterations=most))
        sizes.append(failed.value.residual)
    assert sizes[1] < 0.1 * sizes[0]
    assert sizes[2] / sizes[1] ** 2 < 5 * sizes[1] / sizes[0] ** 2


@pytest.mark.row("003:I03")
def test_the_line_search_brings_back_what_full_steps_lose():
    """A force that saturates: full steps of Newton jump to and fro with growing size, halved ones converge."""
    q, v = ca.SX.sym("q", 1), ca.SX.sym("v", 1)
    hold = Expression("hold", ca.Function("f", [q, v], [-1e3 * ca.atan(50 * q)]))
    robot = system(replace(one_joint("prismatic"), forces=(hold,)), mode="interpreted")
    run = simulate(robot, "bdf1", ([0.3], [0.0]), 1.0, 3)
    x = run.q[1, 0]
    assert x - 0.3 + 1e3 * np.arctan(50 * x) == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(NewtonError, match="step 0"):
        simulate(robot, "bdf1", ([0.3], [0.0]), 1.0, 3, options=Newton(halvings=0))


@pytest.mark.row("003:I04", "003:I07")
@pytest.mark.parametrize("method", METHODS)
def test_stiff_oscillators_are_damped(method):
    """``h^2 k = 1e8``: L-stable methods end at rest where an explicit step would blow up."""
    robot = system(one_joint(k=1e10), mode="interpreted")
    run = simulate(robot, method, ([0.1], [0.0]), 0.1, 40)
    assert abs(run.q[-1, 0]) < 1e-6
    assert np.abs(run.q[:, 0]).max() <= 0.1 + 1e-12


@pytest.mark.row("003:R11", "003:R12")
def test_linearly_implicit_steps():
    """With constant J and linear forces one is a step of BDF1, stiff or not; on a tree it is of first order."""
    for k, c in ((30.0, 0.7), (1e8, 1e3)):
        oscillator = one_joint("prismatic", k, c, 2.0)
        q, v = linearly_implicit(oscillator)(0.4, -0.2, ca.DM(0, 1), 0.05)
        run = simulate(system(oscillator, mode="interpreted"), "bdf1", ([0.4], [-0.2]), 0.05, 1)
        np.testing.assert_allclose([float(q), float(v)], [run.q[1, 0], run.v[1, 0]], rtol=1e-9)
    # K and D of bodies: sliders in a row, whose J is constant, springs between bodies, drag
    b = Builder("sliders")
    for k, axis in enumerate(((1.0, 0.0, 0.0), (0.6, 0.0, 0.8), (0.0, 0.6, 0.8))):
        b.body(f"b{k}", parent=f"b{k - 1}" if k else "world", joint=Joint(f"j{k}", "prismatic", axes=(axis,)),
               inertia=BodyInertia(1.0 + k))
    sliders = Mechanism(b.build(), forces=(
        Bushing("tie", Place("b0", (0.1, 0.2, 0.0)), Place("b2"), 300.0, 2.0), Drag("air", "b1", (3.0, 2.0, 1.0, 0.1, 0.2, 0.3)),
        JointSpring("own", "j2", 40.0), PointForce("push", Place("b2"), (1.0, -2.0, 3.0))))
    start = np.array([[0.1, -0.2, 0.3], [1.0, 2.0, -1.0]])
    found = linearly_implicit(sliders)(*start, ca.DM(0, 1), 0.1)
    run = simulate(system(sliders, mode="interpreted"), "bdf1", tuple(start), 0.1, 1)
    np.testing.assert_allclose([column(x) for x in found], [run.q[1], run.v[1]], rtol=1e-9)
    first_order(linearly_implicit(TREE), TREE)


def first_order(step, robot):
    """Errors of steps (q, v, u, h) -> (q, v) at 0.5 s over the steps."""
    exact, errors = simulate(system(robot, mode="interpreted"), "sdirk2", START, 5e-4, 1000), []
    for n in (50, 100, 200):
        q, v = map(ca.DM, START)
        for _ in range(n):
            q, v = step(q, v, ca.DM.zeros(MODEL.nv), 0.5 / n)
        errors.append(np.abs(column(q) - exact.q[-1]).max())
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 1, atol=0.25)


@pytest.mark.row("003:F03")
def test_symmetric_parts_of_stiffness_serve_linear_steps():
    """Off by default, since they are no derivatives; the step's matrix is then symmetric, and the order stays."""
    tie = Bushing("tie", Place("world", (0.5, 0.2, 1.0)), Place(MODEL.bodies[-1].name, (0.1, 0.2, 0.0)), 30.0, 1.0)
    robot = replace(TREE, forces=(*TREE.forces, tie))
    at, h, (q, v) = redmax(robot, *START), 0.02, START
    M, f, K, D = (np.array(ca.densify(ca.DM(x))) for x in (at.M, at.f, at.K_forces, at.D_forces))
    assert min(np.abs(X - X.T).max() for X in (K, D)) > 1e-3
    for symmetric in (False, True):
        k, d = ((X + X.T) / 2 if symmetric else X for X in (K, D))
        matrix = M - h * d - h**2 * k
        assert np.allclose(matrix, matrix.T, atol=1e-12) == symmetric
        found = linearly_implicit(robot, symmetric)(q, v, ca.DM.zeros(MODEL.nv), h)[1]
        np.testing.assert_allclose(column(found), np.linalg.solve(matrix, M @ v + h * (f.ravel() - d @ v)), atol=1e-10)
    first_order(linearly_implicit(robot, symmetric=True), robot)


@pytest.mark.row("003:R08")
def test_semi_implicit_steps_are_of_first_order():
    """Those of ``ocp simulate``: ``M v+ = M v + h f`` with M and f of RedMax, ``q+ = q + h v+``."""
    plant = stepper(robot_system(TREE), "semi_implicit_euler", mode="interpreted")

    def step(q, v, u, h):
        plant.reset(np.concatenate([column(q), column(v)]))
        return np.split(plant.step(column(u), h), 2)

    at, (q, v) = redmax(TREE, *START), START
    new = step(q, v, np.zeros(MODEL.nv), 0.02)
    np.testing.assert_allclose(np.array(ca.DM(at.M)) @ (new[1] - v), 0.02 * column(at.f), atol=1e-12)
    np.testing.assert_allclose(new[0], q + 0.02 * new[1], atol=1e-14)
    first_order(step, TREE)


# ------------------------------------------------------------------------------------------------ what goes wrong
def test_a_failed_step_is_named_and_the_rest_is_kept():
    """A spring of negative stiffness as an expression: the step's matrix turns singular on the way."""
    robot = one_joint("prismatic")
    q, v = ca.SX.sym("q", 1), ca.SX.sym("v", 1)
    burst = Expression("burst", ca.Function("f", [q, v], [ca.if_else(q > 0.35, ca.log(0.5 - q) * 1e3, 1.0)]))
    robot = replace(robot, forces=(burst,))
    with pytest.raises(NewtonError, match=r"step \d+ \(t = .* at joint 'j'") as failed:
        simulate(system(robot, mode="interpreted"), "bdf1", ([0.3], [2.0]), 0.02, 50, options=Newton(iterations=12))
    error = failed.value
    assert error.joint == "j"
    assert error.step >= 1
    assert error.time == pytest.approx(0.02 * (error.step + 1))
    assert error.simulation.q.shape == (error.step + 1, 1)
    assert np.all(np.isfinite(error.simulation.q))
    assert error.residual > 0


def single():
    return system(one_joint(), mode="interpreted")


@pytest.mark.parametrize(("make", "words"), [
    (lambda: system(Mechanism(tree_of_kinds("revolute", "spherical"))), r"joint 'j1'.*kind 'spherical' has not.*'exponential'"),
    (lambda: system(replace(one_joint(), constraints=(Rod("rod", Place("b"), Place("world", (0.0, 1.0, 0.0)), 1.0),))),
     r"constraint 'rod'.*do not support constraints"),
    (lambda: simulate(single(), "bdf3", ([0.0], [0.0]), 0.1, 1), r"no implicit method 'bdf3'.*did you"),
    (lambda: simulate(single(), "bdf1", ([0.0, 1.0], [0.0]), 0.1, 1), r"q has shape \(2,\), expected"),
    (lambda: simulate(single(), "bdf1", ([0.0], [0.0]), -0.1, 1), r"step must be positive, got -0.1"),
])
def test_wrong_input_is_named(make, words):
    with pytest.raises(ModelError, match=words):
        make()


def test_plans():
    assert [len(s.past) for s in plan("bdf2", 3)] == [1, 2, 2, 2]
    assert [s.past for s in plan("bdf2", 3)] == [(0,), (0, 1), (2, 0), (3, 2)]
    assert [s.past for s in plan("sdirk2", 2)] == [(0,), (0, 1), (2,), (2, 3)]
