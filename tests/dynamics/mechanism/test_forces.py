"""Forces as records: the harness that every record passes by itself, laws in closed form, and refusals."""

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynamics
import dynamics.forces
from dynamics import ModelError, UnknownNameError, forces
from dynamics import algorithms as alg
from dynamics.mechanism import Mechanism, Thruster
from dynamics.model.synthetic import random_tree
from tests.support.force_harness import along_tangent, check, functions, state
from tests.support.row_trees import coupled

TREE = random_tree(7, np.random.default_rng(4), kinds=["revolute", "spherical", "universal", "prismatic"], root="free_flyer",
                   branching=0.5)
PLANAR = random_tree(5, np.random.default_rng(2), kinds=["revolute", "planar", "continuous"], root="planar")
WRITTEN = (lambda q, v: forces.Expression("written", ca.Function("f", [q, v], [ca.densify(
    ca.vertcat(ca.sin(q[7]) * v[0], ca.SX(TREE.nv - 2, 1), -v[3] * q[1] ** 2))])))(ca.SX.sym("q", TREE.nq), ca.SX.sym("v", TREE.nv))

A, B, C = forces.Place("f2", (0.1, -0.2, 0.3)), forces.Place("f5", (0.0, 0.2, 0.1)), forces.Place("world", (1.0, 0.5, 2.0))
joints = {body.joint.kind: body.joint.name for body in TREE.bodies}
RECORDS = {
    "joint spring": forces.JointSpring("s", joints["revolute"], 3.0, (0.4,)),
    "joint spring, universal": forces.JointSpring("s", joints["universal"], 3.0, (0.4, -0.3)),
    "joint spring, spherical": forces.JointSpring("s", joints["spherical"], 3.0, (0.8, 0.6, 0.0, 0.0)),
    "joint spring, free": forces.JointSpring("s", joints["free_flyer"], 2.0),
    "joint damper": forces.JointDamper("d", joints["spherical"], 0.7, 0.4),
    "joint friction": forces.JointFriction("c", joints["prismatic"], 2.0, 0.5),
    "spring": forces.Spring("s", (A, B), 50.0, 0.4, 3.0),
    "spring through three points": forces.Spring("s", (A, C, B), 50.0, 0.4, 3.0),
    "taut cable": forces.Cable("c", (A, C), 50.0, 0.1, 0.02),
    "slack cable": forces.Cable("c", (A, C), 50.0, 100.0, 3.0),
    "bushing": forces.Bushing("b", A, B, 40.0, 2.0),
    "bushing to the world": forces.Bushing("b", C, B, 40.0, 2.0),
    "torsion": forces.Torsion("t", "f2", "f5", 4.0, 0.3, (0.2, -0.4, 0.1)),
    "torsion to the world": forces.Torsion("t", "world", "f5", 4.0, 0.3),
    "point force": forces.PointForce("w", B, (1.0, -2.0, 3.0)),
    "drag": forces.Drag("d", "f4", (1.0, 2.0, 3.0, 0.1, 0.2, 0.3), (0.5, 0.6, 0.7, 0.05, 0.06, 0.07)),
    "expression": WRITTEN,
    "stop below": forces.JointStop("e", joints["prismatic"], (3.0,), (4.0,), 50.0, 2.0),
    "stop above": forces.JointStop("e", joints["universal"], (-9.0, -9.0), (-4.0, 8.0), 50.0, 2.0),
    "sliding on the ground": forces.Ground("g", (A, B), 30.0, 2.0, 0.4, 1e3, (0.1, -0.2, 1.0), (0.0, 0.0, 9.0)),
    "creeping on the ground": forces.Ground("g", (A, B), 30.0, 2.0, 0.4, 0.1, (0.1, -0.2, 1.0), (0.0, 0.0, 9.0)),
    "on ground that dissipates": forces.Ground("g", (A, B), 30.0, 0.0, 0.4, 1e3, (0.1, -0.2, 1.0), (0.0, 0.0, 9.0), 0.1),
    "above the ground": forces.Ground("g", (A, B), 30.0, 2.0, 0.4, 0.1, origin=(0.0, 0.0, -9.0)),
}


@pytest.mark.row("003:D26")
def test_every_kind_of_force_is_in_the_harness():
    kinds = {x for x in vars(dynamics.forces).values() if isinstance(x, type) and issubclass(x, dynamics.forces.Force)}
    assert {type(record) for record in RECORDS.values()} == kinds - {dynamics.forces.Force}


@pytest.mark.row("001:D12")
@pytest.mark.parametrize("record", RECORDS)
def test_every_record_passes_the_harness(record):
    check(TREE, RECORDS[record], *state(TREE, 0))


def test_records_on_a_planar_root_and_on_coupled_joints():
    line = forces.Place("f1"), forces.Place("f4", (0.1, 0.0, 0.2)), forces.Place("world")
    check(PLANAR, forces.Spring("s", line, 20.0, 0.3, 1.0), *state(PLANAR, 3))
    model = coupled()
    check(model, forces.Spring("s", (forces.Place("tip"), forces.Place("side", (0.1, 0.1, 0.0))), 20.0, 0.3, 1.0), *state(model, 3))
    check(model, forces.Drag("d", "tip", (1.0,) * 6, (1.0,) * 6), *state(model, 4))


@pytest.mark.parametrize("field", ["effort", "stiffness", "damping"])
def test_the_harness_sees_a_wrong_sign(field):
    class Wrong(forces.Spring):
        pass

    setattr(Wrong, field, lambda self, model, q, v: -getattr(forces.Spring, field)(self, model, q, v))
    with pytest.raises(AssertionError):
        check(TREE, Wrong("s", (A, B), 50.0, 0.4, 3.0), *state(TREE, 0))


def test_a_spring_pulls_its_ends_together_with_equal_forces():
    # the virtual power of a spring on a robot moved as a whole is nothing, whatever it pulls
    q, v = state(TREE, 5)
    f = functions(TREE, forces.Spring("s", (A, B), 50.0, 0.0, 3.0))[0]
    assert np.max(np.abs(np.array(f(q, v))[:6])) < 1e-9  # a free root feels no inner force
    assert np.max(np.abs(np.array(f(q, v))[6:])) > 1
    # power is tension times rate of length, both seen from outside
    L = ca.Function("L", [qs := ca.SX.sym("q", TREE.nq)], [ca.norm_2(A.at(TREE, qs) - B.at(TREE, qs))])
    rate = float((along_tangent(TREE, lambda q, v: L(q), q, v) @ v).item())
    assert float(v @ np.array(f(q, v)).ravel()) == pytest.approx(-(50.0 * float(L(q)) + 3.0 * rate) * rate, rel=1e-6)


def test_a_cable_only_pulls():
    model = random_tree(1, np.random.default_rng(0), kinds=["prismatic"])
    body, q0 = model.bodies[0], np.zeros(1)
    axis = np.array(body.joint.placement.rotation) @ np.array(body.joint.axes[0])
    far = forces.Place("world", tuple((np.array(body.joint.placement.position) - 2.0 * axis).tolist()))
    f = functions(model, forces.Cable("c", (far, forces.Place("b0")), 10.0, 2.5, 4.0))[0]
    # length 2 + q: slack below 0.5, then 10 N/m, and the damper never makes it push
    for q, v, expected in ((0.0, 1.0, 0.0), (0.4, -1.0, 0.0), (1.0, 0.0, -5.0), (1.0, 0.5, -7.0), (1.0, -0.5, -3.0),
                           (1.0, -2.0, 0.0)):
        assert float(f(q0 + q, np.array([v]))) == pytest.approx(expected, abs=1e-12)


def test_drag_takes_power_from_the_twist_of_its_frame():
    q, v = state(TREE, 6)
    drag = RECORDS["drag"]
    f = np.array(functions(TREE, drag)[0](q, v)).ravel()
    V = np.array(ca.Function("V", [], [alg.frame_velocity(TREE, ca.DM(q), ca.DM(v), drag.frame, "body")])()["o0"]).ravel()
    expected = -np.sum(np.array(drag.linear) * V**2 + np.array(drag.quadratic) * np.abs(V) ** 3)
    assert float(v @ f) == pytest.approx(expected, rel=1e-12)


@pytest.mark.row("003:R10")
def test_a_spring_at_a_joint_makes_an_oscillator():
    model = random_tree(1, np.random.default_rng(0), kinds=["revolute"], armature=False)
    model = replace(model, gravity=(0.0, 0.0, 0.0))
    mechanism = Mechanism(model, forces=(forces.JointSpring("k", "j0", 7.0, (0.2,)), forces.JointDamper("c", "j0", 0.3)))
    M = float(dynamics.make(model, "mass_matrix")(0.0))
    frequency, decay = np.sqrt(7.0 / M - (0.3 / (2 * M)) ** 2), 0.3 / (2 * M)
    x = [ca.SX.sym(n, 1) for n in "qv"]
    f = ca.Function("f", x, [mechanism.forward_dynamics(*x, ca.SX(0, 1))])
    found = solve_ivp(lambda t, y: [y[1], float(f(*y))], (0, 2), [1.2, 0.0], rtol=1e-10, atol=1e-12, t_eval=[0.3, 1.0, 2.0])
    for t, y in zip(found.t, found.y[0], strict=True):
        swing = np.cos(frequency * t) + decay / frequency * np.sin(frequency * t)
        assert y - 0.2 == pytest.approx(np.exp(-decay * t) * swing, abs=1e-7)


def test_friction_holds_its_level():
    friction = forces.JointFriction("c", joints["revolute"], 2.0, 0.01)
    q, _ = state(TREE, 0)
    at = TREE.v_slice(TREE.joint_index(joints["revolute"])).start
    for speed in (-1.0, 1.0):
        v = np.zeros(TREE.nv)
        v[at] = speed
        assert float(functions(TREE, friction)[0](q, v)[at]) == pytest.approx(-2.0 * speed)


def test_thrusts_between_two_bodies_move_no_robot_as_a_whole():
    """What pushes from within leaves the momentum of a free robot alone; without what bears it, it does not."""
    q, v = state(TREE, 7)
    within = Thruster("t", "f5", (0.2, -0.4, 0.6), 0.1, (0.1, 0.0, 0.2), (0.1, 0.2, -0.3), against="f2")
    robots = [Mechanism(TREE, (), (thruster,)) for thruster in (within, replace(within, against=""))]
    f, other = (np.array(ca.densify(ca.DM(robot.thrust_effort(ca.DM(q), ca.DM([7.0]))))).ravel() for robot in robots)
    assert np.abs(f[:6]).max() < 1e-12
    assert np.abs(f[6:]).max() > 0.1
    assert np.abs(other[:6]).max() > 0.1
    # its power: thrust by the rate of the distance along the axis, and the moment by the relative turn
    ends = ("f5", "f2")
    twists = [np.array(alg.frame_velocity(TREE, ca.DM(q), ca.DM(v), name, "world_aligned")).ravel() for name in ends]
    (R, p), (_, r) = ([np.array(x) for x in alg.frame_pose(TREE, ca.DM(q), name)] for name in ends)
    p, r = p.ravel(), r.ravel()
    axis, at = R @ [0.2, -0.4, 0.6] / np.linalg.norm([0.2, -0.4, 0.6]), p + R @ [0.1, 0.0, 0.2]
    speed = twists[0][:3] + np.cross(twists[0][3:], at - p) - twists[1][:3] - np.cross(twists[1][3:], at - r)
    moment = 0.1 * axis + R @ [0.1, 0.2, -0.3]
    assert f @ v == pytest.approx(7.0 * (axis @ speed + moment @ (twists[0][3:] - twists[1][3:])), rel=1e-10)


@pytest.mark.parametrize(("force", "words"), [
    (forces.JointSpring("s", "j77", 1.0), "j77"),
    (forces.JointSpring("s", joints["revolute"], -1.0), "stiffness must be finite"),
    (forces.JointSpring("s", joints["spherical"], 1.0, (1.0,)), "rest needs 4 coordinates"),
    (forces.JointFriction("c", joints["revolute"], 1.0, 0.0), "speed must be positive"),
    (forces.Spring("s", (A,), 1.0, 1.0), "at least two points"),
    (forces.Spring("s", (A, forces.Place("nowhere")), 1.0, 1.0), "nowhere"),
    (forces.Cable("c", (A, B), 1.0, float("nan")), "length must be finite"),
    (forces.Drag("d", "f1", (1.0,)), "six values"),
    (forces.PointForce("p", A, (1.0, float("inf"), 0.0)), "three finite components"),
    (forces.Expression("e", ca.Function("f", [ca.SX.sym("q", 2)], [ca.SX(2, 1)])), "needs a function"),
])
def test_records_that_do_not_fit_are_refused(force, words):
    with pytest.raises((ModelError, UnknownNameError), match=words):
        force.check(TREE)


def test_records_compare_by_content():
    q, v = ca.SX.sym("q", TREE.nq), ca.SX.sym("v", TREE.nv)
    again = forces.Expression("written", ca.Function("f", [q, v], [ca.densify(
        ca.vertcat(ca.sin(q[7]) * v[0], ca.SX(TREE.nv - 2, 1), -v[3] * q[1] ** 2))]))
    assert again == WRITTEN
    assert hash(again) == hash(WRITTEN)
    assert RECORDS["spring"] == replace(RECORDS["spring"]) != replace(RECORDS["spring"], k=51.0)
