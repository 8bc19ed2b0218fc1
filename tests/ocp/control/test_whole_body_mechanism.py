"""Whole-body control of mechanisms: forces, gears, thrusters, loops; and steps laid out once against levels made anew."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from row_trees import numbers
from standing import tree

from dynamics import algorithms as alg
from dynamics.constraints import Rod
from dynamics.errors import ModelError
from dynamics.forces import JointSpring, Place, Spring
from dynamics.mechanism import Mechanism, Motor, Thruster, direct_motors
from ocp.control.stance import Stance
from ocp.control.tasks import com_task, orientation_task, position_task
from ocp.control.whole_body import EffortTask, ForceTask, MomentumTask, WholeBody
from ocp.errors import ProblemError
from ocp.solvers.hqp import Level


def whole_of(robot, mechanism, *, stances=2, horizon=None, efforts=60.0, rest_gain=5.0):
    feet = [Stance(c.frame, point=c.point, least=0.5) for c in robot.where[:stances]]
    R = np.eye(3)
    tasks = [com_task(np.zeros(3), gain=2.0, damping_ratio=0.6), orientation_task("b1", R, gain=3.0),
             position_task("b8", np.ones(3), components=(0, 2))]
    return WholeBody(mechanism, feet, tasks, efforts=efforts, rest_gain=rest_gain, horizon=horizon,
                     mode="interpreted"), feet, tasks


def steps_agree(whole, q, v, priorities, stances=None):
    """A prepared step, and the same levels made and solved anew."""
    items = [i for p in priorities for i in (p if isinstance(p, list) else [p])]
    terms = whole.terms(q, v, [i for i in items if hasattr(i, "shape")])
    levels = whole.levels(terms, priorities, stances)
    one, other = whole.step(q, v, priorities, stances), whole.solve(levels, stances)
    assert one.ok
    assert other.ok
    for a, b in zip(one.solution.levels, other.solution.levels, strict=True):
        assert (a.name, a.limits, a.rank) == (b.name, b.limits, b.rank)
        np.testing.assert_allclose(a.residual, b.residual, atol=1e-7)
        np.testing.assert_allclose(a.slack, b.slack, atol=1e-7)
    np.testing.assert_allclose(one.solution.x, other.solution.x, atol=1e-6 * (1 + np.abs(other.solution.x).max()))
    return one


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("horizon", [None, 0.1])
def test_prepared_steps_are_those_of_levels_made_anew(seed, horizon):
    """Every kind of item, rates and weights by rows, targets, normals, frictions and limits that change, stances that come and
    go."""
    robot, rng = tree(3, seed), np.random.default_rng(seed)
    model = robot.model
    whole, feet, (com, trunk, hand) = whole_of(robot, model, stances=3, horizon=horizon)
    turned = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turned *= np.sign(np.linalg.det(turned))
    for k in range(4):
        q = np.array(alg.integrate(model, ca.DM(robot.q), ca.DM(0.1 * rng.standard_normal(model.nv)))).ravel()
        v = rng.standard_normal(model.nv)
        com = replace(com, target=rng.standard_normal(3), rate=rng.standard_normal(3), acceleration=0.3,
                      weight=np.array([1.0, 2, 3]))
        trunk = orientation_task("b1", turned if k % 2 else np.eye(3), gain=3.0 + k)
        hand = replace(hand, gain=float(k), weight=0.5)
        efforts = EffortTask(0.2 * (k // 2), 0.01 + 0.01 * (k % 2))
        priorities = [MomentumTask(rng.standard_normal(6), np.ones(6), 0.7, (5, 0)), [com, trunk, efforts],
                      [hand, ForceTask(feet[0].name, rng.standard_normal(3), (2, 0), 3.0)]]
        feet = [replace(feet[0], friction=0.3 + 0.1 * k, normal=(0.1 * k, 0.0, 1.0)), *feet[1:]]
        steps_agree(whole, q, v, priorities, feet)
        steps_agree(whole, q, v, priorities, feet[:2])
        steps_agree(whole, q, v, [[com, hand], EffortTask()], [])


def mechanism_of(model, robot, **more):
    joint = next(b.joint.name for b in model.bodies[1:] if b.joint.kind == "revolute")
    ends = Place("b3", (0.1, 0.0, 0.2)), Place("b5", (0.0, -0.2, 0.1))
    forces = (JointSpring("spring", joint, 9.0, (0.4,)), Spring("band", ends, 40.0, 2.0, 0.3))
    return Mechanism(model, more.pop("motors", direct_motors(model)), forces=forces, **more)


@pytest.mark.parametrize("seed", range(2))
def test_forces_gears_and_thrusters_of_a_mechanism(seed):
    """The accelerations that a step promises are those of the mechanism's own forward dynamics under its controls and the forces of
    the ground; springs, gears, a transmission between two joints and thrusters are all in it."""
    robot = tree(2, seed)
    model = robot.model
    direct = direct_motors(model)
    (a, _), (b, _) = direct[0].gears[0], direct[1].gears[0]
    motors = (Motor("both", ((a, 2.0), (b, -1.5)), -30, 20), Motor("geared", ((b, 7.0),), -4, 6), *direct[2:])
    thrusters = (Thruster("jet", "b2", (0.2, 0.1, 1.0), 0.05, (0.1, 0.0, 0.0), lower=0.0, upper=50.0),
                 Thruster("piston", "b4", (1.0, 0.0, 0.0), against="b7", lower=-40.0, upper=40.0))
    mechanism = mechanism_of(model, robot, motors=motors, thrusters=thrusters)
    whole, feet, tasks = whole_of(robot, mechanism, efforts=None, rest_gain=0.0)
    assert whole.driven == mechanism.controls
    control = steps_agree(whole, robot.q, robot.v, [tasks[:2], EffortTask()], feet)
    assert (control.torque >= mechanism.control_limits[:, 0] - 1e-9).all()
    assert (control.torque <= mechanism.control_limits[:, 1] + 1e-9).all()
    terms = whole.terms(robot.q, robot.v)
    pushed = sum(terms.J_c[whole.stance_rows(s.name)].T @ control.forces[s.name] for s in feet)
    q, v, u = (ca.DM(x) for x in (robot.q, robot.v, control.torque))
    effort = np.array(ca.DM(mechanism.motor_effort(u) + mechanism.force(q, v) + mechanism.thrust_effort(q, u[len(motors):])))
    a = np.array(ca.DM(alg.forward_dynamics(model, q, v, ca.DM(effort.ravel() + pushed)))).ravel()
    np.testing.assert_allclose(control.acceleration, a, atol=1e-6 * (1 + np.abs(a).max()))


@pytest.mark.parametrize("seed", range(2))
def test_closed_loops_stay_closed(seed):
    """Two branches tied by a rod, on one foot: the loop's multiplier is a force in the equations, and its rows are met by the
    motion as constrained dynamics of the mechanism have it."""
    robot = tree(1, seed)
    model = robot.model
    ends = Place("b4", (0.1, 0.0, 0.1)), Place("b7", (0.0, 0.2, 0.0))
    x = [numbers(end.at, model, robot.q) for end in ends]
    rod = Rod("rod", *ends, float(np.linalg.norm(x[0] - x[1])))
    mechanism = mechanism_of(model, robot, constraints=(rod,))
    whole, _, tasks = whole_of(robot, mechanism, stances=0, efforts=None, rest_gain=0.0)
    control = steps_agree(whole, robot.q, robot.v, [tasks[:1], EffortTask()])
    assert control.closures.shape == (1,)
    assert control.solution["closures"].cost < 1e-8
    q, v, u = (ca.DM(y) for y in (robot.q, robot.v, control.torque))
    a, force = mechanism.constrained_dynamics(q, v, u)
    np.testing.assert_allclose(control.acceleration, np.array(ca.DM(a)).ravel(), atol=1e-6)
    np.testing.assert_allclose(control.closures, np.array(ca.DM(force)).ravel(), atol=1e-6 * (1 + abs(control.closures).max()))


def test_drives_of_a_mechanism_are_not_given_again():
    robot = tree(2, 0)
    mechanism = mechanism_of(robot.model, robot)
    with pytest.raises(ProblemError, match="drives say what is driven"):
        WholeBody(mechanism, [], driven=[])
    with pytest.raises(ModelError):
        Mechanism(robot.model, (Motor("one", (("no such", 1.0),)),))
    whole, feet, tasks = whole_of(robot, mechanism)
    own = Level("own", np.eye(whole.S.shape[0] + whole.model.nv + 6)[:2], np.zeros(2))
    assert whole.step(robot.q, robot.v, [own, tasks[0]], feet).ok  # a level of one's own goes the way of `levels`
