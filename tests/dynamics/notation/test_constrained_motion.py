"""Constrained motion by Lagrange's equations of the first kind: closed forms, minimal coordinates, the records of mechanisms."""

import casadi as ca
import numpy as np
import pytest
from row_trees import frame_jacobian, moved, numbers, pose, state

import dynamics
from dynamics import algorithms as alg
from dynamics.algorithms import jacobians
from dynamics.constraints import JointMotion, Rod, Skate, VelocityEquation
from dynamics.errors import ModelError
from dynamics.forces import Place
from dynamics.lie import quaternion
from dynamics.mechanism import Mechanism, direct_motors
from dynamics.model import BodyInertia, Builder, Joint
from dynamics.model.model import Placement
from dynamics.model.synthetic import random_tree
from dynamics.notation.lagrange_first_kind import first_kind

KINDS = ["revolute", "prismatic", "spherical", "universal"]


def floating(seed, bodies=7):
    return random_tree(bodies, np.random.default_rng(seed), root="free_flyer", branching=0.6, kinds=KINDS)


def values(function, *arguments):
    return [np.array(x).ravel() for x in function(*arguments)]


def inputs(model):
    return ca.SX.sym("q", model.nq), ca.SX.sym("t")


def particle(mass=1.4, kind="translation", inertia=0.0):
    b = Builder("body")
    b.body("body", parent="world", joint=Joint("at", kind), inertia=BodyInertia(mass, (0, 0, 0), tuple(
        tuple(inertia * (i == j) for j in range(3)) for i in range(3))))
    return b.build()


# ------------------------------------------------------------------------------------------------ holonomic
@pytest.mark.row("001:D15", "001:D16")
def test_a_pendulum_is_a_particle_on_a_sphere():
    """f = (|x|² - l²)/2: the particle's acceleration is that of the angle, its multiplier the pull of the rod."""
    model, length, g = particle(), 0.7, 9.81
    q, t = inputs(model)
    law = first_kind(model, ca.Function("f", [q, t], [(ca.sumsqr(q) - length**2) / 2]))
    for phi, rate in ((0.4, 1.3), (2.5, -0.6), (-1.2, 2.0)):
        along, across = np.array([np.cos(phi), 0, np.sin(phi)]), np.array([np.sin(phi), 0, -np.cos(phi)])
        a, _, pull = values(law, length * across, length * rate * along, np.zeros(3), 0.0)
        turn = -g / length * np.sin(phi)
        np.testing.assert_allclose(a, length * (turn * along - rate**2 * across), atol=1e-12)
        np.testing.assert_allclose(pull * length, -1.4 * (length * rate**2 + g * np.cos(phi)), atol=1e-12)


@pytest.mark.row("001:D15", "001:D16")
@pytest.mark.parametrize("seed", range(3))
def test_a_hinge_is_what_five_conditions_leave_of_two_bodies(seed):
    """Minimal coordinates: a floating body with another on a hinge, and the two cut apart, both floating, with the hinge as five
    conditions on their poses; the motor's torque acts on both. Accelerations agree, the conditions do no work."""
    rng = np.random.default_rng(seed)
    r, com, theta = rng.standard_normal(3), tuple(0.2 * rng.standard_normal(3)), ((0.3, 0, 0), (0, 0.4, 0), (0, 0, 0.5))
    models = []
    for parent, joint in (("one", Joint("hinge", "revolute", axes=((0.0, 1.0, 0.0),), placement=Placement(position=tuple(r)))),
                          ("world", Joint("free", "free_flyer"))):
        b = Builder("pair")
        b.body("one", parent="world", joint=Joint("base", "free_flyer"), inertia=BodyInertia(2.0, (0.1, 0, -0.1), theta))
        b.body("two", parent=parent, joint=joint, inertia=BodyInertia(1.1, com, theta))
        models.append(b.build())
    tree, cut = models
    (q, v, _), motor = state(tree, seed), 1.7
    R, at = pose(tree, q, "two")
    apart = np.r_[q[:7], at, np.array(quaternion.from_matrix(ca.DM(R))).ravel()]
    twist = frame_jacobian(tree, q, "two", "body") @ v
    s, t = inputs(cut)
    first, second = (alg.frame_pose(cut, s, name) for name in ("one", "two"))
    f = ca.Function("f", [s, t], [ca.vertcat(second.p - first.p - first.R @ ca.DM(r), first.R[:, 1].T @ second.R[:, 0],
                                             first.R[:, 1].T @ second.R[:, 2])])
    np.testing.assert_allclose(np.array(f(apart, 0.0)), 0, atol=1e-9)
    tau = np.r_[0, 0, 0, 0, -motor, 0, 0, 0, 0, 0, motor, 0]
    a, _, force = values(first_kind(cut, f), apart, np.r_[v[:6], twist], tau, 0.0)
    judge = np.array(dynamics.make(tree, "forward_dynamics")(q, v, np.r_[np.zeros(6), motor])).ravel()
    drift = numbers(lambda m, x, y: jacobians.frame_jacobian_drift(m, x, y, "two", "body"), tree, q, v)
    other = frame_jacobian(tree, q, "two", "body") @ judge + drift
    np.testing.assert_allclose(a, np.r_[judge[:6], other], atol=1e-8 * (1 + np.abs(a).max()))
    assert np.abs(force).max() > 0.1


def efforts(model, seed):
    """Random ones at every joint, none on the floating base."""
    return np.r_[np.zeros(6), np.random.default_rng(seed).standard_normal(model.nv - 6)]


def agree(model, constraints, q, v, t, found, seed):
    """What the first kind found, and the dynamics of the mechanism with these records, holonomic ones last."""
    a, pull, force = found
    judge = Mechanism(model, direct_motors(model), constraints=constraints)
    assert judge.driven == model.velocity_names[6:]
    u = ca.DM(efforts(model, seed)[6:])
    other, rows = (np.array(ca.DM(x)).ravel() for x in judge.constrained_dynamics(ca.DM(q), ca.DM(v), u, t))
    np.testing.assert_allclose(a, other, atol=1e-7 * (1 + np.abs(a).max()))
    np.testing.assert_allclose(np.r_[pull, force], rows, atol=1e-7 * (1 + np.abs(rows).max()))
    assert np.abs(rows).min() > 1e-3


# ------------------------------------------------------------------------------------------------ velocities alone
@pytest.mark.row("001:D14", "001:D16")
@pytest.mark.parametrize("seed", range(2))
def test_a_conveyor_and_a_driven_joint_on_a_floating_tree(seed):
    """a_0(t) that does not vanish: a point of a branch is carried along by a belt that speeds up (velocities alone), a joint is led
    along a path (rheonomic); against the records of mechanisms, by their own derivatives, and by the power of what drives them."""
    model = floating(20 + seed)
    q, v, _ = state(model, seed)
    joint = next(b.joint.name for b in model.bodies[1:] if b.joint.kind == "revolute")
    own = model.v_slice(model.joint_index(joint)).start
    at = model.q_slice(model.joint_index(joint)).start
    s, t, w, now = *inputs(model), ca.SX.sym("v", model.nv), 0.3
    grip = Place("b5", (0.1, 0.2, -0.1))
    J_grip = ca.jacobian(grip.at(model, s), s) @ alg.rate_matrix(model, s)
    belt = ca.Function("belt", [s, t], [J_grip[:2, :], -ca.vertcat(0.5 * ca.sin(2 * t), 0.2 * t)])
    path = ca.Function("path", [t], [q[at] - 0.4 * now - 0.3 * now**2 + 0.4 * t + 0.3 * t**2])
    lead = ca.Function("lead", [s, t], [s[at] - path(t)])
    J, off = (np.array(x) for x in belt(q, now))
    rows, speeds = np.vstack([J, np.eye(model.nv)[own]]), np.r_[-off.ravel(), 0.4 + 0.6 * now]
    v = v + np.linalg.pinv(rows) @ (speeds - rows @ v)  # the state obeys
    found = values(first_kind(model, lead, belt), q, v, efforts(model, seed), now)
    rates = VelocityEquation("belt", ca.Function("rate", [s, w, t], [J_grip[:2, :] @ w + belt(s, t)[1]]))
    agree(model, (rates, JointMotion("lead", joint, path)), q, v, now, found, seed)
    np.testing.assert_allclose(found[0][own], 0.6, atol=1e-8)
    fast, late = first_kind(model, lead, belt, rate=10.0), v + 0.1 * np.random.default_rng(seed).standard_normal(model.nv)
    one, other = (values(fast, q, w, efforts(model, seed), now)[0] for w in (v, late))  # off the belt: what it lacks decays
    np.testing.assert_allclose(one, found[0], atol=1e-8)
    h, lack = 1e-6, []
    for k in (1, -1):
        J, off = (np.array(x) for x in belt(moved(model, q, k * h * late), now + k * h))
        lack.append(J @ (late + k * h * other) + off.ravel())
    np.testing.assert_allclose((lack[0] - lack[1]) / (2 * h), -10.0 * (lack[0] + lack[1]) / 2, atol=1e-6)
    h = 1e-5  # the belt's own acceleration: of the grip's velocity along the motion, by differences
    ahead, behind = (numbers(grip.at, model, moved(model, q, k * h * v + h * h / 2 * found[0])) for k in (1, -1))
    middle = numbers(grip.at, model, q)
    np.testing.assert_allclose(((ahead - 2 * middle + behind) / h**2)[:2], [np.cos(2 * now), 0.2], atol=2e-3)


@pytest.mark.row("001:D14", "001:D15", "001:D16")
@pytest.mark.parametrize("seed", range(2))
def test_drift_comes_back_and_a_skate_holds(seed):
    """Off a rod's length, with a rate of its own: the drift decays like a critically damped oscillator, as in mechanisms; a skate
    on another branch holds velocities alone."""
    model = floating(40 + seed)
    q, v, _ = state(model, seed)
    rod, skate = Rod("rod", Place("b3", (0.1, 0, 0.2)), Place("b5", (0, -0.3, 0.1)), 0.9), Skate("skate", "b2", (0.0, 1.0, 0.0))
    s, t = inputs(model)
    f = ca.Function("f", [s, t], [ca.norm_2(rod.second.at(model, s) - rod.first.at(model, s)) - 0.9])
    frame = alg.frame_pose(model, s, "b2")
    blade = ca.Function("m", [s, t], [frame.R[:, 1].T @ ca.jacobian(frame.p, s) @ alg.rate_matrix(model, s), ca.DM(1, 1)])
    J = np.array(blade(q, 0.0)[0])
    v = v - np.linalg.pinv(J) @ (J @ v)
    assert abs(float(f(q, 0.0))) > 0.01
    agree(model, (skate, rod), q, v, 0.0, values(first_kind(model, f, blade, rate=10.0), q, v, efforts(model, seed), 0.0), seed)


def test_wrong_sizes_are_reported():
    model = particle()
    q, t = inputs(model)
    with pytest.raises(ModelError, match="expected"):
        first_kind(model, motion=ca.Function("m", [q, t], [ca.DM.zeros(1, 2), ca.DM.zeros(1)]))
