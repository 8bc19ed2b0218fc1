"""Joints as constraints between free bodies, programmes over velocities, contact and friction; the same in reduced coordinates."""

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from joint_examples import tree_of_kinds
from redmax_scenes import four_bar
from scipy.integrate import solve_ivp
from states import state

import dynamics
from dynamics import ModelError, spatial
from dynamics import algorithms as alg
from dynamics.constraints import Closure, Coupling, Rod
from dynamics.forces import Place
from dynamics.mechanism import Mechanism
from dynamics.model import BodyInertia, Builder, Joint, Placement
from dynamics.model.shapes import box
from dynamics.redmax import maximal, redmax
from dynamics.redmax.equations import body_inertias, body_wrenches
from dynamics.redmax.free_bodies import in_maximal_coordinates, joint_rows, joint_rows_drift, maximal_state, post_stabilised
from dynamics.redmax.programs import Touch, dual_contact, equality, friction_program, pyramid, recovered, touch_rows
from ocp.solvers.qp import QP, solve_qp

TREE = tree_of_kinds("revolute", "spherical", "prismatic", "fixed", "planar", "revolute", seed=3, damping=False)


def solved(programme):
    k = len(programme.A)
    result = solve_qp(QP(programme.P, programme.g, programme.A, np.zeros(k), np.full(k, np.inf)))
    return np.asarray(result.x)


# ------------------------------------------------------------------------------------------------ joints as constraints
@pytest.mark.row("003:C01", "003:C02")
def test_rows_of_joints():
    """``G J = 0``, full rank, the closures span the same rows; drift by differences; the pattern of two hinges."""
    q, v, _ = state(TREE)
    at = maximal(TREE, q, v)
    G, J = number(joint_rows(TREE, q)), number(at.J)
    assert G.shape == (6 * len(TREE.bodies) - TREE.nv, 6 * len(TREE.bodies))
    assert np.linalg.matrix_rank(G) == len(G)
    np.testing.assert_allclose(G @ J, 0, atol=1e-12)
    np.testing.assert_allclose(G @ number(at.J_dot) @ v + column(joint_rows_drift(TREE, q, at.J @ v)), 0, atol=1e-11)
    h = 1e-6
    ends = [number(joint_rows(TREE, alg.integrate(TREE, q, s * h * v))) for s in (1, -1)]
    np.testing.assert_allclose(column(joint_rows_drift(TREE, q, at.J @ v)), (ends[0] - ends[1]) / (2 * h) @ (J @ v), atol=1e-8)
    free = in_maximal_coordinates(TREE)
    q_m, v_m = maximal_state(TREE, q, v)
    np.testing.assert_allclose(column(v_m), J @ v, atol=1e-13)
    closures = np.vstack([number(c.jacobian(free.model, q_m)) for c in free.constraints])
    assert np.linalg.matrix_rank(closures) == np.linalg.matrix_rank(np.vstack([closures, G])) == len(G)
    for c in free.constraints:
        np.testing.assert_allclose(column(c.value(free.model, q_m)), 0, atol=1e-13)
    # two hinges about z between three bodies: rows of the turn about z are dropped, [10, 18] in blocks
    b = Builder("three")
    b.body("b0", parent="world", joint=Joint("base", "free_flyer"), inertia=box(1.0, (1.0, 1.0, 1.0)))
    for k in (1, 2):
        hinge = Joint(f"j{k}", "revolute", Placement(position=(1.0, 0.0, 0.0)), ((0.0, 0.0, 1.0),))
        b.body(f"b{k}", parent=f"b{k - 1}", joint=hinge, inertia=box(1.0, (1.0, 1.0, 1.0)))
    chain = b.build()
    G = number(joint_rows(chain, alg.neutral(chain)))
    assert G.shape == (10, 18)
    np.testing.assert_allclose(G[:5, 6:12], np.eye(6)[:5])
    np.testing.assert_allclose(G[5:, 12:], np.eye(6)[:5])
    assert not G[:5, 12:].any()
    assert not G[5:, :6].any()


@pytest.mark.row("003:C03", "003:C04")
def test_velocities_of_joined_bodies():
    """The programme over twists is the reduced step; it takes energy away from twists that break joints; impulses do no work."""
    q, v, _ = state(TREE, 1)
    at, M_m, h = maximal(TREE, q, v), number(body_inertias(TREE)), 0.01
    J, G = number(at.J), number(joint_rows(TREE, q))
    w = np.random.default_rng(2).standard_normal(len(M_m))
    twists, impulse = equality(M_m, M_m @ w, G)
    np.testing.assert_allclose(twists, J @ np.linalg.solve(J.T @ M_m @ J, J.T @ M_m @ w), atol=1e-10)
    assert twists @ M_m @ twists < w @ M_m @ w
    np.testing.assert_allclose(J.T @ G.T @ impulse, 0, atol=1e-9)
    np.testing.assert_allclose(G @ twists, 0, atol=1e-11)
    # a step of the tree: J' (M J v+) = J' (M J v + h f)
    f = column(body_wrenches(Mechanism(TREE), ca.DM(q), at.J @ v, ca.DM(0, 1)).f)
    stepped, _ = equality(M_m, M_m @ J @ v + h * f, G)
    np.testing.assert_allclose(stepped, J @ np.linalg.solve(J.T @ M_m @ J, J.T @ (M_m @ J @ v + h * f)), atol=1e-9)
    # hanging at rest, the joint carries the weight
    b = Builder("hanging")
    b.body("b", parent="world", joint=Joint("j", "revolute", axes=((0.0, 1.0, 0.0),)), inertia=BodyInertia(2.0, (0.0, 0.0, -0.5), (
        (0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1))))
    still = b.build()
    M = number(body_inertias(still))
    weight = column(body_wrenches(Mechanism(still), ca.DM([0.0]), ca.DM.zeros(6), ca.DM(0, 1)).f)
    rows = number(joint_rows(still, np.zeros(1)))
    x, impulse = equality(M, h * weight, rows)
    np.testing.assert_allclose(x, 0, atol=1e-14)
    reaction = column(spatial.linear(ca.DM(rows.T @ impulse / h)))
    np.testing.assert_allclose(reaction, [0, 0, 2.0 * 9.81], atol=1e-12)


@pytest.mark.row("003:R19", "003:C08")
def test_maximal_coordinates_accelerate_like_the_tree():
    """As a mechanism of closures, Baumgarte's terms vanish on the constraint."""
    q, v, _ = state(TREE, 3)
    free = in_maximal_coordinates(TREE)
    q_m, v_m = maximal_state(TREE, q, v)
    a_m = column(free.constrained_dynamics(ca.DM(q_m), ca.DM(v_m), ca.DM(0, 1))[0])
    a = column(dynamics.make(TREE, "forward_dynamics")(q, v, np.zeros(TREE.nv)))
    at = maximal(TREE, q, v)
    theirs = number(at.J) @ a + number(at.J_dot) @ v
    np.testing.assert_allclose(a_m, theirs, atol=1e-6 * np.abs(theirs).max())


def pendulum():
    b = Builder("pendulum")
    b.body("b", parent="world", joint=Joint("j", "revolute", axes=((0.0, 1.0, 0.0),)), inertia=BodyInertia(1.0, (0.0, 0.0, -0.5), (
        (0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1))))
    return b.build()


@pytest.mark.row("003:C08")
def test_errors_decay_as_a_critically_damped_filter():
    """g follows ``g'' + 2 RATE g' + RATE^2 g = 0``: at t with g' = 0 at the start, ``g (1 + RATE t) exp(-RATE t)``."""
    from dynamics.constraints.constraint import RATE

    free = in_maximal_coordinates(pendulum())
    model, closure = free.model, free.constraints[0]
    q, v = maximal_state(pendulum(), ca.DM([0.4]), ca.DM([0.0]))
    q = alg.integrate(model, q, ca.DM([1e-3, 2e-3, -1e-3, 0, 0, 0]))
    x, w = ca.SX.sym("q", 7), ca.SX.sym("v", 6)
    f = ca.Function("f", [x, w], [alg.rate_matrix(model, x) @ w, free.constrained_dynamics(x, w, ca.SX(0, 1))[0]])
    g = ca.Function("g", [x], [closure.value(model, x)])
    start = column(g(q))
    run = solve_ivp(lambda t, s: np.concatenate([column(y) for y in f(s[:7], s[7:])]), (0, 0.3),
                    np.r_[column(q), column(v)], rtol=1e-9, atol=1e-11)
    expected = start * (1 + RATE * 0.3) * np.exp(-RATE * 0.3)
    np.testing.assert_allclose(column(g(run.y[:7, -1])), expected, atol=2e-8)
    assert np.abs(start).max() > 1e-3


@pytest.mark.row("003:C08")
@pytest.mark.parametrize("gamma", [10.0, 50.0, 100.0])
def test_errors_decay_by_rows_of_velocities(gamma):
    """``G v = -gamma g``: by a factor ``1 - gamma h`` a step, gone in one with ``gamma = 1 / h``, up to the square of the error."""
    free, h = in_maximal_coordinates(TREE), 0.01
    q, _ = maximal_state(TREE, *state(TREE, 4)[:2])
    q = alg.integrate(free.model, q, 1e-5 * ca.DM(np.random.default_rng(5).standard_normal(free.model.nv)))
    M, sizes, x = number(body_inertias(TREE)), [], ca.SX.sym("q", free.model.nq)
    rows = ca.Function("rows", [x], [ca.vertcat(*parts) for parts in zip(*(
        (c.value(free.model, x), c.jacobian(free.model, x)) for c in free.constraints), strict=True)])
    for _ in range(5):
        g, G = (number(part) for part in rows(q))
        sizes.append(g.ravel())
        v, _ = equality(M, np.zeros(len(M)), G, -gamma * g.ravel())
        q = alg.integrate(free.model, q, ca.DM(h * v))
    for before, after in zip(sizes[:-1], sizes[1:], strict=True):
        np.testing.assert_allclose(after, (1 - gamma * h) * before, atol=20 * np.abs(sizes[0]).max() ** 2)
    assert np.abs(sizes[0]).max() > 1e-5


@pytest.mark.row("003:C09")
def test_post_stabilisation_is_of_second_order():
    q, v, _ = state(TREE, 4)
    free = in_maximal_coordinates(TREE)
    q_m, _ = maximal_state(TREE, q, v)
    M, push = body_inertias(TREE), np.random.default_rng(5).standard_normal(6 * len(TREE.bodies))
    left = []
    for size in (1e-2, 5e-3):
        off = alg.integrate(free.model, q_m, ca.DM(size * push))
        back = alg.integrate(free.model, off, post_stabilised(free, off, M))
        error = [max(np.abs(column(c.value(free.model, x))).max() for c in free.constraints) for x in (off, back)]
        left.append(error)
    assert left[0][1] < 0.1 * left[0][0]
    assert left[0][1] / left[1][1] == pytest.approx(4.0, rel=0.3)
    assert left[0][0] / left[1][0] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: in_maximal_coordinates(tree_of_kinds("revolute", "universal")), r"joint 'j1'.*kind 'universal' has no closure"),
    (lambda: joint_rows(tree_of_kinds("exponential"), np.zeros(3)), r"joint 'j0'.*subspace of kind 'exponential' varies"),
    (lambda: equality(np.eye(2), np.ones(2), np.ones((2, 2))), r"2 rows of rank 1"),
])
def test_what_cannot_be_constrained_is_named(make, words):
    with pytest.raises(ModelError, match=words):
        make()


# ------------------------------------------------------------------------------------------------ reduced coordinates
def pinned():
    """Three links about y that close a loop at the tip."""
    b = four_bar()
    b.frame("pin", body="world", placement=Placement(position=(1.1, 0.0, -0.4)))
    return b.build()


@pytest.mark.row("003:R18", "003:R20", "003:R21", "003:R22")
def test_constraints_of_bodies_and_of_joints_at_both_levels():
    """Velocities and accelerations of a closed loop with coupled joints; the rate of the rows off the constraint, too."""
    model = pinned()
    q, v, _ = state(model, 6)
    loop, belt = Closure("loop", "pin", "tip", "planar", (0.0, 0.0, 1.0)), Coupling("belt", (("j0", 1.0), ("j2", -0.5)))
    records = (loop, belt)
    h = 1e-5
    for record in records:
        ends = [number(record.jacobian(model, alg.integrate(model, q, s * h * v))) for s in (1, -1)]
        np.testing.assert_allclose(column(record.drift(model, ca.DM(q), ca.DM(v))), (ends[0] - ends[1]) / (2 * h) @ v, atol=1e-8)
    J = np.vstack([number(record.jacobian(model, ca.DM(q))) for record in records])
    J = J[[0, len(J) - 1]]  # one row of the loop and the belt: independent
    drift = np.concatenate([column(record.drift(model, ca.DM(q), ca.DM(v))) for record in records])[[0, -1]]
    found = redmax(Mechanism(model), q, v)
    M, f = number(found.M), column(found.f)
    new, impulse = equality(M, M @ v + 0.01 * f, J)
    np.testing.assert_allclose(J @ new, 0, atol=1e-12)
    np.testing.assert_allclose(M @ (new - v), 0.01 * f + J.T @ impulse, atol=1e-11)
    a, force = equality(M, f, J, -drift)
    np.testing.assert_allclose(J @ a + drift, 0, atol=1e-11)
    # one after the other in the space that the first leaves is the same
    null = np.linalg.svd(J[:1])[2][1:].T
    a0 = -J[:1].T @ np.linalg.solve(J[:1] @ J[:1].T, drift[:1])
    inner, _ = equality(null.T @ M @ null, null.T @ (f - M @ a0), J[1:] @ null, -drift[1:] - J[1:] @ a0)
    np.testing.assert_allclose(a0 + null @ inner, a, atol=1e-10)
    np.testing.assert_allclose(M @ a, f + J.T @ force, atol=1e-10)


@pytest.mark.row("003:R18", "003:R19", "003:R20")
def test_the_rows_of_a_loop_over_twists():
    """``G_r = G_m J`` and ``dG_r/dt v = dG_m/dt J v + G_m dJ/dt v``; the joints as rows beside them, bodies on their own come to
    the velocities and accelerations of the tree."""
    model = pinned()
    q, v, _ = state(model, 6)
    loop, free = Closure("loop", "pin", "tip", "planar", (0.0, 0.0, 1.0)), in_maximal_coordinates(model)
    (q_m, v_m), at = maximal_state(model, q, v), maximal(model, q, v)
    J, J_dot, M_m = number(at.J), number(at.J_dot), number(body_inertias(model))
    G_m, G = number(loop.jacobian(free.model, q_m)), number(loop.jacobian(model, ca.DM(q)))
    drift_m, drift = column(loop.drift(free.model, q_m, v_m)), column(loop.drift(model, ca.DM(q), ca.DM(v)))
    np.testing.assert_allclose(G_m @ J, G, atol=1e-13)
    np.testing.assert_allclose(drift_m + G_m @ J_dot @ v, drift, atol=1e-12)
    found, f_m = redmax(Mechanism(model), q, v), column(body_wrenches(Mechanism(model), ca.DM(q), at.J @ v, ca.DM(0, 1)).f)
    M, f, h = number(found.M), column(found.f), 0.01
    joints, own = number(joint_rows(model, q)), slice(0, 1)  # the loop's first row: the others repeat what the plane says
    new, impulse = equality(M, M @ v + h * f, G[own])
    over, impulses = equality(M_m, M_m @ (J - h * J_dot) @ v + h * f_m, np.vstack([joints, G_m[own]]))
    np.testing.assert_allclose(over, J @ new, atol=1e-10)
    np.testing.assert_allclose(impulses[-1:], impulse, atol=1e-10)
    a, force = equality(M, f, G[own], -drift[own])
    over, forces = equality(M_m, f_m, np.vstack([joints, G_m[own]]),
                            np.concatenate([-column(joint_rows_drift(model, q, at.J @ v)), -drift_m[own]]))
    np.testing.assert_allclose(over, J @ a + J_dot @ v, atol=1e-9)
    np.testing.assert_allclose(forces[-1:], force, atol=1e-9)


@pytest.mark.row("003:R23")
def test_inequalities_of_joints_and_of_bodies_beside_equations():
    """``C a >= -dC/dt v`` with limits of joints and points of bodies on a wall, ``G a = -dG/dt v`` with a rod: the primal programme
    meets the conditions of its optimum with the multipliers of the dual one."""
    q, v = state(TREE, 7)[0], 3 * state(TREE, 7)[1]
    found = redmax(Mechanism(TREE), q, v)
    M, f = number(found.M), column(found.f)
    last, rod = TREE.bodies[-1].name, Rod("rod", Place("world", (0.3, 2.0, 0.1)), Place(TREE.bodies[4].name, (0.1, 0.2, 0.0)), 1.0)
    touches = [Touch(Place(body, (0.1, 0.2, 0.0)), Place("world"), (0.6, 0.0, 0.8)) for body in (last, TREE.bodies[1].name)]
    limits = np.vstack([np.eye(TREE.nv)[0], -np.eye(TREE.nv)[4]])

    def rows(x):
        return np.vstack([limits, number(touch_rows(TREE, x, touches)[0]), number(rod.jacobian(TREE, x))])

    h = 1e-5
    ends = [rows(alg.integrate(TREE, ca.DM(q), ca.DM(s * h * v))) for s in (1, -1)]
    A, least = rows(ca.DM(q)), -(ends[0] - ends[1]) / (2 * h) @ v
    np.testing.assert_allclose(least[-1:], -column(rod.drift(TREE, ca.DM(q), ca.DM(v))), atol=1e-8)
    assert np.abs(least[2:]).min() > 0.1
    bound = np.r_[np.full(4, np.inf), least[-1]]
    primal = np.asarray(solve_qp(QP(M, -f, A, least, bound)).x)
    dual = dual_contact(M, f, A, least)
    force = np.asarray(solve_qp(QP(dual.P, dual.g, np.eye(5), np.r_[np.zeros(4), -np.inf], np.full(5, np.inf))).x)
    np.testing.assert_allclose(recovered(M, f, A, force), primal, atol=1e-8 * np.abs(primal).max())
    gap = A @ primal - least
    assert gap[:4].min() > -1e-8
    assert gap[4] == pytest.approx(0.0, abs=1e-8)
    assert force[:4].min() > -1e-9
    np.testing.assert_allclose(force[:4] * gap[:4], 0, atol=1e-6)
    assert 0 < np.sum(force[:4] > 1e-6) < 4  # some hold, some do not
    assert abs(force[4]) > 1e-3


@pytest.mark.row("003:R24", "003:R25", "003:R26")
@pytest.mark.parametrize("held", [(0,), (1, 3, 4), tuple(range(TREE.nv))])
def test_prescribed_joints(held):
    """Torques of prescribed motions, fed back into forward dynamics, give those motions; all prescribed is inverse dynamics."""
    q, v, wanted = state(TREE, 8)
    found = redmax(Mechanism(TREE), q, v)
    M, f, P = number(found.M), column(found.f), np.eye(TREE.nv)[list(held)]
    a, torque = equality(M, f, P, P @ wanted)
    np.testing.assert_allclose(P @ a, P @ wanted, atol=1e-12)
    back = column(dynamics.make(TREE, "forward_dynamics")(q, v, P.T @ torque))
    np.testing.assert_allclose(back, a, atol=1e-7)
    h = 0.01
    new, impulse = equality(M, M @ v + h * f, P, P @ (v + h * wanted))
    np.testing.assert_allclose(np.linalg.solve(M, M @ v + h * (f + P.T @ impulse / h)), new, atol=1e-10)
    np.testing.assert_allclose(impulse / h, torque, atol=1e-8 * (1 + np.abs(torque).max()))
    if len(held) == TREE.nv:
        np.testing.assert_allclose(torque, column(dynamics.make(TREE, "inverse_dynamics")(q, v, wanted)), atol=1e-9)


# ------------------------------------------------------------------------------------------------ contact
def blocks(count):
    b = Builder("blocks")
    for k in range(count):
        b.body(f"b{k}", parent="world", joint=Joint(f"j{k}", "free_flyer"), inertia=box(1.0, (1.0, 1.0, 1.0)))
    return b.build()


def corner(body, x, y):
    return Place(body, (x, y, -0.5))


GROUND = (0.0, 0.0, 1.0)


@pytest.mark.row("003:C05", "003:C06")
def test_rows_of_contacts_are_rates_of_gaps():
    model = blocks(2)
    q, v, _ = state(model, 9)
    n = np.array([0.6, 0.0, 0.8])
    touches = [Touch(Place("b0", (0.1, 0.2, 0.3)), Place("world"), tuple(n)),
               Touch(Place("b1", (0.1, -0.2, 0.3)), Place("b0", (-0.3, 0.2, 0.1)), tuple(n))]
    N, T = (number(x) for x in touch_rows(model, ca.DM(q), touches))
    h = 1e-6
    for k, touch in enumerate(touches):
        moved = [touch.first.at(model, x) - touch.second.at(model, x) for x in (
            alg.integrate(model, q, s * h * v) for s in (1, -1))]
        speed = column(moved[0] - moved[1]) / (2 * h)
        assert (N @ v)[k] == pytest.approx(n @ speed, abs=1e-8)  # apart: positive
        slip = speed - n * (n @ speed)
        along = (T @ v)[4 * k:4 * k + 4]
        np.testing.assert_allclose(along[[0, 2]], -along[[1, 3]], atol=1e-14)
        assert np.hypot(along[0], along[2]) == pytest.approx(np.linalg.norm(slip), abs=1e-8)


@pytest.mark.row("003:C07", "003:C10")
def test_resting_and_leaving():
    """A box on the ground stays, one that moves up leaves; primal and dual programme agree; also with a joint between the two."""
    model, h = blocks(2), 0.01
    q = alg.neutral(model)
    q[7] = 3.0
    touches = [Touch(corner(b, x, y), Place("world", (0.0, 0.0, -0.5)), GROUND) for b in ("b0", "b1") for x in (-0.5, 0.5)
               for y in (-0.5, 0.5)]
    N = number(touch_rows(model, ca.DM(q), touches)[0])
    M, weight = number(body_inertias(model)), np.zeros(12)
    weight[[2, 8]] = -9.81
    v = np.zeros(12)
    v[8] = 1.0
    f = M @ v + h * weight
    primal = solve_qp(QP(M, -f, N, np.zeros(8), np.full(8, np.inf)))
    impulse = solved(dual_contact(M, f, N))
    new = recovered(M, f, N, impulse)
    np.testing.assert_allclose(new, primal.x, atol=1e-9)
    np.testing.assert_allclose(new[:6], 0, atol=1e-9)
    assert new[8] == pytest.approx(1.0 - 9.81 * h)
    assert impulse[:4].sum() == pytest.approx(9.81 * h)
    np.testing.assert_allclose(impulse * (N @ new), 0, atol=1e-9)
    # welded together, the one that wants to leave lifts and turns the other
    G = np.hstack([-np.eye(6), np.eye(6)])
    G[1, 5] = -3.0  # b1 sits at x = 3 of b0: v1 = v0 + w x (3, 0, 0)
    G[2, 4] = 3.0
    rows, low, high = np.vstack([G, N]), np.zeros(14), np.r_[np.zeros(6), np.full(8, np.inf)]
    joined = np.asarray(solve_qp(QP(M, -f, rows, low, high)).x)
    np.testing.assert_allclose(G @ joined, 0, atol=1e-9)
    assert np.all(N @ joined > -1e-9)
    assert joined[8] < new[8]


@pytest.mark.row("003:C11")
def test_the_friction_pyramid():
    np.testing.assert_allclose(pyramid([0.5]), [[0.5, -1, -1, -1, -1]])
    np.testing.assert_allclose(pyramid([0.5, 0.7]), [[0.5, 0, -1, -1, -1, -1, 0, 0, 0, 0], [0, 0.7, 0, 0, 0, 0, -1, -1, -1, -1]])


@pytest.mark.row("003:C12")
def test_one_program_of_friction_and_its_artefact():
    """A unit mass that slides lifts off at ``v_n = mu v_t``, and Coulomb would leave it 0.95095; below the cone it sticks."""
    M, N = np.eye(3), np.array([[0.0, 0.0, 1.0]])
    T, h = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]]), 0.01

    def step(v):
        f = v + h * np.array([0.0, 0.0, -9.81])
        return recovered(M, f, np.vstack([N, T]), solved(friction_program(M, f, N, T, [0.5])))

    sliding = step(np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(sliding, [0.7608, 0.0, 0.3804], atol=5e-5)
    assert sliding[0] == pytest.approx(1.0 - 0.5 * (0.5 + 0.0981) / 1.25, abs=1e-10)
    assert sliding[2] == pytest.approx(0.5 * sliding[0])
    assert sliding[0] < 1.0 - 0.5 * 9.81 * h  # Coulomb: 0.95095
    np.testing.assert_allclose(step(np.array([0.02, 0.0, 0.0])), 0, atol=1e-9)
