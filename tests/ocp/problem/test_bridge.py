"""From a robot to a system: dynamics, manifold, energy, thrusters, and errors by name."""


import casadi as ca
import numpy as np
import pytest
from repository import ROOT
from states import energy_rate

import dynamics
from dynamics import algorithms as alg
from dynamics.mechanism import Thruster, drivable_joints
from dynamics.model.synthetic import random_tree
from dynamics.model.urdf import read_urdf
from ocp.bridge import inverse_dynamics_system, model_space, residual_dynamics_system, robot_system
from ocp.errors import ProblemError
from ocp.guesses.sampling import on_manifold
from ocp.problem import Form
from ocp.robot_terms import RobotTerms


@pytest.fixture
def robot():
    rng = np.random.default_rng(4)
    return random_tree(6, rng, root="free_flyer", damping=True)


def state(model, seed=0):
    rng = np.random.default_rng(seed)
    return np.r_[alg.random_configuration(model, rng), rng.standard_normal(model.nv)]


def test_rate_is_velocity_and_forward_dynamics(robot):
    system = robot_system(robot)
    x, u = state(robot), np.random.default_rng(1).standard_normal(system.nu)
    xi = np.array(system.rate(0, x, u, [])).ravel()
    q, v = x[:robot.nq], x[robot.nq:]
    tau = np.zeros(robot.nv)
    tau[6:] = u  # the floating base is not driven
    np.testing.assert_allclose(xi[:robot.nv], v)
    np.testing.assert_allclose(xi[robot.nv:], np.array(dynamics.make(robot, "forward_dynamics")(q, v, tau)).ravel(), atol=1e-11)
    assert system.controls == robot.velocity_names[6:]


def test_space_is_the_configuration_manifold(robot):
    space = model_space(robot)
    x, d = state(robot), 0.3 * np.random.default_rng(2).standard_normal(2 * robot.nv)
    X, D, Y = ca.SX.sym("x", space.nx), ca.SX.sym("d", space.ndx), ca.SX.sym("y", space.nx)
    plus = ca.Function("p", [X, D], [space.plus(X, D)])
    minus = ca.Function("m", [X, Y], [space.minus(X, Y)])
    rate = ca.Function("r", [X], [ca.densify(space.rate(X))])
    back = ca.Function("b", [X], [ca.densify(space.rate_inverse(X))])
    np.testing.assert_allclose(np.array(minus(x, plus(x, d))).ravel(), d, atol=1e-11)
    h = 1e-6
    numeric = (np.array(plus(x, h * d)) - np.array(plus(x, -h * d))).ravel() / (2 * h)
    np.testing.assert_allclose(np.array(rate(x)) @ d, numeric, atol=1e-8)
    np.testing.assert_allclose(np.array(back(x)) @ np.array(rate(x)), np.eye(space.ndx), atol=1e-12)
    for i, j in enumerate(space.tangent_index):
        if j >= 0:  # a flat coordinate moves with its tangent component alone
            assert np.flatnonzero(np.array(rate(x))[i]).tolist() == [j]
    assert [space.names[k] for k in space.quaternions][0].endswith(".w")


def test_energy_changes_by_the_power(robot):
    system = robot_system(robot)
    x, u = state(robot, 5), np.random.default_rng(6).standard_normal(system.nu)
    assert energy_rate(system, x, u) == pytest.approx(float(system.power(0, x, u, [])), rel=1e-6)


def test_thrusters_push_along_their_frames(robot):
    frame = robot.frames[-1].name
    system = robot_system(robot, actuated=[], thrusters=[Thruster("jet", frame, (0.0, 0.6, 0.8), 0.3)])
    x = state(robot, 7)
    q, v = x[:robot.nq], x[robot.nq:]
    J = np.array(dynamics.make_frame(robot, "jacobian", frame, "body")(q))
    wrench = 2.0 * np.r_[0.0, 0.6, 0.8, 0.0, 0.18, 0.24]
    a = np.array(system.rate(0, x, [2.0], [])).ravel()[robot.nv:]
    expected = np.array(dynamics.make(robot, "forward_dynamics")(q, v, J.T @ wrench)).ravel()
    np.testing.assert_allclose(a, expected, atol=1e-10)
    twist = J @ v
    loss = -sum(v * np.array(ca.densify(alg.tree.diagonal(robot, "damping"))).ravel() * v)
    assert float(system.power(0, x, [2.0], [])) == pytest.approx(twist @ wrench + loss, rel=1e-10)


def test_robot_terms():
    robot = read_urdf(ROOT / "problems" / "models" / "ur5.urdf")
    terms = RobotTerms(robot)
    q = ca.SX.sym("q", robot.nq)
    x = alg.random_configuration(robot, np.random.default_rng(3))
    R, p = (np.array(m) for m in dynamics.make_frame(robot, "pose", "tool0")(x))
    error = ca.Function("e", [q], [terms.pose_error("tool0", q, R, p.ravel()), terms.orientation_error("tool0", q, R)])
    for value in error(x):
        np.testing.assert_allclose(np.array(value), 0, atol=1e-9)
    # moving along a body twist d from the target gives log = d, for a small d
    d = 1e-4 * np.array([1.0, -2.0, 0.5, 0.3, 0.7, -0.2])
    J = np.array(dynamics.make_frame(robot, "jacobian", "tool0", "body")(x))
    moved = x + np.linalg.solve(J, d)
    np.testing.assert_allclose(np.array(error(moved)[0]).ravel(), d, atol=1e-6)


def test_errors_name_joints_and_frames(robot):
    joint = drivable_joints(robot)[0]
    with pytest.raises(ProblemError, match=f"cannot drive joint '{joint}x'; did you mean '{joint}'"):
        robot_system(robot, actuated=[joint + "x"])
    with pytest.raises(ProblemError, match="must be 'all' or a list"):
        robot_system(robot, actuated="most")
    with pytest.raises(ProblemError, match="fixed to the world"):
        robot_system(robot, thrusters=[Thruster("jet", "world")])
    with pytest.raises(ProblemError, match="used twice"):
        robot_system(robot, thrusters=[Thruster("jet", "b1"), Thruster("jet", "b2")])


def test_units_name_every_state_and_control(robot):
    system = robot_system(robot, thrusters=[Thruster("jet", "b1")])
    assert set(system.units) == {*system.space.names, *system.controls}
    assert system.units["q.j0.px"] == "m"
    assert system.units["q.j0.w"] == ""
    assert system.units["v.j0.wz"] == "rad/s"
    assert system.units["jet"] == "N"


def test_a_guess_may_be_off_the_sphere_but_not_at_its_centre(robot):
    space = model_space(robot)
    x = np.tile(space.neutral, (3, 1))
    x[1, 3:7] = [0.0, 3.0, 0.0, 4.0]
    np.testing.assert_allclose(on_manifold(space, x)[1, 3:7], [0.0, 0.6, 0.0, 0.8])
    x[2, 3:7] = 0.0
    with pytest.raises(ProblemError, match="length zero"):
        on_manifold(space, x)


@pytest.mark.parametrize(("make", "form"), [
    (robot_system, Form.EXPLICIT), (inverse_dynamics_system, Form.INVERSE), (residual_dynamics_system, Form.IMPLICIT)])
def test_a_robot_stands_in_one_form(make, form):
    """The equations of motion hold in each with what it calls accelerations and efforts."""
    rng = np.random.default_rng(4)
    model = random_tree(3, rng, kinds=["revolute"])
    system = make(model)
    assert [one is system.robot for one in (system.mechanism, system.inverse, system.implicit)] == [form is other for other in Form]
    assert system.formulation.form is form
    x, u = rng.standard_normal(system.nx), rng.standard_normal(system.nu)
    a = np.array(system.rate(0, x, u, [])).ravel()[model.nv:]
    tau = np.array(system.robot.inverse_dynamics(*(ca.DM(part) for part in (x[:model.nq], x[model.nq:], a)))).ravel()
    if form is Form.EXPLICIT:
        np.testing.assert_allclose(tau, u, atol=1e-9)
    elif form is Form.IMPLICIT:
        np.testing.assert_allclose(np.array(system.residual(0, x, u, [])).ravel(), tau - u[:model.nv], atol=1e-9)
    else:
        np.testing.assert_array_equal(a, u)
    other = system.with_controls(("one", *system.controls), system.rate)
    assert (other.robot is system.robot) is (form is Form.IMPLICIT)  # whose own unknowns stay behind the controls
    assert other.motion is None
