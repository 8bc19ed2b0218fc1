"""Staggered projections: Coulomb's law where the single programme errs, and bearings of joints by what the joints carry."""

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from redmax_scenes import four_bar

import dynamics
from dynamics import ModelError
from dynamics import algorithms as alg
from dynamics.constraints import Closure
from dynamics.forces import Place
from dynamics.mechanism import Mechanism
from dynamics.model import BodyInertia, Builder, Joint, Placement
from dynamics.model.shapes import box
from dynamics.redmax import redmax
from dynamics.redmax.equations import body_inertias
from dynamics.redmax.free_bodies import in_maximal_coordinates, maximal_state
from dynamics.redmax.friction import Bearing, BearingStep, Rounds, contacts, staggered
from dynamics.redmax.programs import Touch, touch_rows
from ocp.solvers.qp import QP, solve_qp

H, G = 0.01, 9.81


def solve(P, g, lower, upper):
    """A weight of 1e-12 makes impulses unique where contacts share a load."""
    small = 1e-12 * max(np.trace(P) / max(len(P), 1), 1e-12)
    return np.asarray(solve_qp(QP((P + P.T) / 2 + small * np.eye(len(P)), g, np.eye(len(P)), lower, upper)).x)


def point(v, mu=0.5, start=None, rounds=None):
    """A unit mass on the ground after one step."""
    N, T, W = np.array([[0.0, 0.0, 1.0]]), np.eye(3)[:2], np.eye(3)
    f = np.asarray(v, float) + H * np.array([0.0, 0.0, -G])
    return staggered(W, f, T, contacts(W, N, [0, 0], [mu], solve), solve, start, rounds)


@pytest.mark.row("003:L03", "003:L04")
def test_a_mass_slides_and_sticks_as_coulomb_says():
    np.testing.assert_allclose(point([1.0, 0.0, 0.0]).x, [0.95095, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(point([0.02, -0.03, 0.0]).x, 0.0, atol=1e-9)
    leaving = point([1.0, 0.0, 0.5])
    np.testing.assert_allclose(leaving.x, [1.0, 0.0, 0.5 - H * G], atol=1e-9)
    np.testing.assert_allclose(leaving.friction, 0, atol=1e-10)


def sliding_box():
    """A cube on four corners: normal and friction impulses depend on each other."""
    b = Builder("box")
    b.body("b", parent="world", joint=Joint("j", "free_flyer"), inertia=box(1.0, (1.0, 1.0, 1.0)))
    model = b.build()
    touches = [Touch(Place("b", (x, y, -0.5)), Place("world", (0.0, 0.0, -0.5)), (0.0, 0.0, 1.0))
               for x in (-0.5, 0.5) for y in (-0.5, 0.5)]
    N, T = (number(x) for x in touch_rows(model, ca.DM(alg.neutral(model)), touches))
    return number(body_inertias(model)), N, T[::2]


@pytest.mark.row("003:L03", "003:L04", "003:L05")
def test_rounds_of_a_sliding_box_end_in_both_laws():
    M, N, T = sliding_box()
    W, f = np.linalg.inv(M), M @ np.r_[1.0, 0.2, 0.0, 0.0, 0.0, 0.3] + H * np.r_[0, 0, -G, 0, 0, 0]
    owner, mu = np.repeat(np.arange(4), 2), [0.5] * 4
    normal = contacts(W, N, owner, mu, solve)
    found = staggered(W, f, T, normal, solve, rounds=Rounds(1e-9, 300))
    assert found.converged
    push, limits = normal(f + T.T @ found.friction, found.friction)
    a = limits[::2] / 0.5
    gap = N @ found.x
    assert np.all(a >= 0)
    assert gap.min() > -1e-7
    np.testing.assert_allclose(a * gap, 0, atol=1e-7)
    assert np.all(np.abs(found.friction) <= found.limits + 1e-9)
    # friction at its limit opposes the slip; below it there is none
    slip = T @ found.x
    for b, limit, speed in zip(found.friction, found.limits, slip, strict=True):
        if abs(b) < limit - 1e-6:
            assert abs(speed) < 1e-6
        elif abs(speed) > 1e-6:
            assert b * speed < 0
    again = staggered(W, f, T, normal, solve, start=found.friction, rounds=Rounds(1e-9, 300))
    assert again.rounds < found.rounds
    np.testing.assert_allclose(again.x, found.x, atol=1e-7)
    cut = staggered(W, f, T, normal, solve, rounds=Rounds(0.0, 2))
    assert (cut.rounds, cut.converged) == (2, False)


# ------------------------------------------------------------------------------------------------ joints that rub
def pendulum(kind="revolute", axis=(0.0, 1.0, 0.0)):
    b = Builder("pendulum")
    joint = Joint("j", kind, axes=(axis,) if kind in ("revolute", "prismatic") else ())
    b.body("b", parent="world", joint=joint, inertia=BodyInertia(2.0, (0.0, 0.0, -0.5), (
        (0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1))))
    return Mechanism(b.build())


@pytest.mark.row("003:L08")
def test_a_bearing_carries_its_load_with_the_smallest_impulses():
    """``N' a`` is the wrench on the range of N', for any weight that the constraint forces have."""
    step = BearingStep(pendulum(), [Bearing("j", 0.1, 0.3, 0.2)], solve)
    N = step.rows[0][0]
    assert np.linalg.matrix_rank(N) == 4  # all but the turn about the axis and the slide along it
    load = N.T @ np.random.default_rng(0).standard_normal(8)
    for size in (1.0, 1e4):
        a = step._shared(0, size * load)
        np.testing.assert_allclose(N.T @ a, size * load, atol=1e-6 * size)
        np.testing.assert_allclose(a, np.linalg.pinv(N.T) @ load * size, atol=1e-5 * size)
    ball = BearingStep(pendulum("spherical"), [Bearing("j", 0.1, 0.3)], solve)
    np.testing.assert_allclose(np.linalg.matrix_rank(ball.rows[0][0]), 3)
    for t in (step.rows[0][1], ball.rows[0][1]):  # friction acts where the joint moves, at the radius
        assert np.abs(t @ np.r_[0, 0, 0, 0, 1, 0]).max() == pytest.approx(0.1)


@pytest.mark.row("003:L09")
def test_friction_of_a_pendulum_in_closed_form():
    """Through the lowest point the joint carries weight and centripetal force: torque ``mu r m (g + l w^2)``; slow, it holds."""
    robot, mu, r = pendulum(), 0.3, 0.1
    rubbing, smooth = (BearingStep(robot, [Bearing("j", r, m, 0.2)], solve) for m in (mu, 0.0))
    at = redmax(robot, np.zeros(1), np.array([1.5]))
    free = 1.5 + H * column(at.f)[0] / number(at.M).item()
    assert smooth(np.zeros(1), np.array([1.5]), H).x[0] == pytest.approx(free, rel=1e-12)
    found = rubbing(np.zeros(1), np.array([1.5]), H)
    assert found.converged
    inertia = number(at.M).item()
    x = found.x[0]
    axial = 2.0 * (G + 0.5 * 1.5**2)
    sideways = 2.0 * 0.5 * (x - 1.5) / H  # the change of speed itself loads the joint
    assert x == pytest.approx(free - H * mu * r * (axial + abs(sideways)) / inertia, rel=1e-6)
    assert x < free
    assert rubbing(np.zeros(1), np.array([1e-4]), H).x[0] == pytest.approx(0.0, abs=1e-9)
    held = rubbing(np.array([0.01]), np.zeros(1), H)
    np.testing.assert_allclose(held.x, 0, atol=1e-9)
    assert np.all(np.abs(held.friction) <= held.limits + 1e-12)
    slid = rubbing(np.array([0.5]), np.zeros(1), H)
    assert abs(slid.x[0]) > 1e-3


@pytest.mark.row("003:L09")
def test_every_joint_of_a_tree_loses_energy_and_none_gains():
    from joint_examples import tree_of_kinds

    model = tree_of_kinds("revolute", "prismatic", "exponential", "revolute", seed=3, damping=False)
    robot = Mechanism(model)
    rng = np.random.default_rng(1)
    q, v = alg.random_configuration(model, rng), rng.standard_normal(model.nv)
    bearings = [Bearing(body.joint.name, 0.05, 0.4, 0.1) for body in model.bodies]
    M = number(dynamics.make(model, "mass_matrix")(q))
    free = BearingStep(robot, [], solve)(q, v, 1e-3)
    np.testing.assert_allclose(free.x, v + 1e-3 * np.linalg.solve(M, column(redmax(robot, q, v).f)), atol=1e-9)
    rub = BearingStep(robot, bearings, solve)(q, v, 1e-3)
    assert rub.converged
    assert rub.x @ M @ rub.x < free.x @ M @ free.x


@pytest.mark.row("003:L10")
def test_a_four_bar_linkage_rubs_and_stays_closed():
    """Rows of the loop take part in both solves and in what joints carry; without them it is the open chain."""
    builder, q = four_bar(), np.array([0.5, -1.1, 0.9])
    tip = alg.frame_pose(builder.build(), q, "tip")
    builder.frame("pin", body="world", placement=Placement(position=tuple(column(tip.p))))
    model = builder.build()
    free = in_maximal_coordinates(model)
    closure = Closure("loop", "pin", "tip", "spherical")
    x = ca.SX.sym("q", 3)
    q_m = maximal_state(model, x, ca.SX(3, 1))[0]
    loops = ca.Function("loops", [x], [ca.densify(closure.jacobian(free.model, q_m)[[0, 2], :])])
    robot, bearings = Mechanism(model), [Bearing(f"j{k}", 0.05, 0.3, 0.1) for k in range(3)]
    rows = number(closure.jacobian(model, ca.DM(q)))[[0, 2]]
    v = np.linalg.svd(rows)[2][2]
    M, f = number(redmax(robot, q, v).M), column(redmax(robot, q, v).f)
    smooth = BearingStep(robot, [], solve, loops)(q, v, 1e-3)
    K = np.block([[M, -rows.T], [rows, np.zeros((2, 2))]])
    np.testing.assert_allclose(smooth.x, np.linalg.solve(K, np.r_[M @ v + 1e-3 * f, 0, 0])[:3], atol=1e-9)
    rub, openly = BearingStep(robot, bearings, solve, loops)(q, v, 1e-3), BearingStep(robot, bearings, solve)(q, v, 1e-3)
    assert rub.converged
    np.testing.assert_allclose(rows @ rub.x, 0, atol=1e-9)
    assert rub.x @ M @ rub.x < smooth.x @ M @ smooth.x
    assert np.abs(rub.limits - openly.limits).max() > 1e-6  # the pin carries its share
    # joints carry what keeps the bodies on their way: with the pin's force, all body momenta balance
    still = BearingStep(robot, bearings, solve, ca.Function("none", [x], [ca.SX(0, 18)]))(q, v, 1e-3)
    np.testing.assert_allclose(still.x, openly.x, atol=1e-12)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: BearingStep(pendulum(), [Bearing("k", 0.1, 0.3)], solve), r"no joint named 'k'"),
    (lambda: BearingStep(pendulum(), [Bearing("j", -0.1, 0.3)], solve), r"joint 'j'.*must not be negative"),
    (lambda: BearingStep(pendulum("free_flyer"), [Bearing("j", 0.1, 0.3)], solve), r"kind 'free_flyer' has no bearing"),
])
def test_wrong_bearings_are_named(make, words):
    with pytest.raises(ModelError, match=words):
        make()
