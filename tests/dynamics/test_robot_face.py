"""``dynamics.load``: a robot's functions called with numbers and with symbols, inside one's own program too."""

from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import dynamics

MODELS = Path(__file__).parents[2] / "problems" / "models"


@pytest.fixture(scope="module")
def robot():
    return dynamics.load(MODELS / "ur5.urdf")


def test_functions_of_numbers_agree_with_pinocchio(robot):
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(str(MODELS / "ur5.urdf"))
    data = model.createData()
    rng = np.random.default_rng(0)
    q, v, a = (rng.uniform(-1, 1, 6) for _ in range(3))
    np.testing.assert_allclose(robot.inverse_dynamics(q, v, a), pin.rnea(model, data, q, v, a), atol=1e-10)
    tau = robot.inverse_dynamics(q, v, a)
    np.testing.assert_allclose(robot.forward_dynamics(q, v, tau), a, atol=1e-8)
    np.testing.assert_allclose(robot.mass_matrix(q), np.triu(M := pin.crba(model, data, q)) + np.triu(M, 1).T, atol=1e-10)
    np.testing.assert_allclose(robot.gravity_force(q), pin.computeGeneralizedGravity(model, data, q), atol=1e-10)
    np.testing.assert_allclose(robot.centre_of_mass(q), pin.centerOfMass(model, data, q), atol=1e-10)
    pin.forwardKinematics(model, data, q, v)
    pose = pin.updateFramePlacement(model, data, tool := model.getFrameId("tool0"))
    rotation, origin = robot.pose("tool0", q)
    np.testing.assert_allclose(rotation, pose.rotation, atol=1e-12)
    np.testing.assert_allclose(robot.position("tool0", q), pose.translation, atol=1e-12)
    J = pin.computeFrameJacobian(model, data, q, tool, pin.LOCAL_WORLD_ALIGNED)
    np.testing.assert_allclose(robot.jacobian("tool0", q), J, atol=1e-12)
    np.testing.assert_allclose(robot.velocity("tool0", q, v), J @ v, atol=1e-12)
    by_q, by_v, *_ = (np.asarray(part) for part in robot.derivatives("inverse_dynamics")(q, v, a))
    dq, dv, _ = pin.computeRNEADerivatives(model, data, q, v, a)
    np.testing.assert_allclose(by_q, dq, atol=1e-9)
    np.testing.assert_allclose(by_v, dv, atol=1e-9)


def test_a_robot_stands_in_ones_own_program(robot):
    """The pose of least torque with the tool at a height: by Opti on the robot's own expressions."""
    opti = ca.Opti()
    q = opti.variable(6)
    opti.minimize(ca.sumsqr(robot.gravity_force(q)) + 1e-3 * ca.sumsqr(q))
    opti.subject_to(robot.position("tool0", q)[2] == 0.3)
    opti.set_initial(q, [0, -1, 1, 0, 0, 0])
    opti.solver("ipopt", {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}})
    found = np.asarray(opti.solve().value(q))
    assert robot.position("tool0", found)[2] == pytest.approx(0.3, abs=1e-8)
    assert isinstance(robot.mass_matrix(ca.SX.sym("q", 6)), ca.SX)


def test_errors_are_reported(robot):
    for build, words in ((lambda: robot.function("inverse_dynamic"), "did you mean 'inverse_dynamics'"),
                         (lambda: robot.pose("tool", np.zeros(6)), "did you mean 'tool0'"),
                         (lambda: robot.mass_matrix(np.zeros(5)), "q has 5 components; 6 are expected"),
                         (lambda: robot.derivatives("mass_matrix"), "no derivatives of"),
                         (lambda: dynamics.load(MODELS / "ur.urdf"), "did you mean 'ur5.urdf'")):
        with pytest.raises(dynamics.ModelError, match=words):
            build()
    assert "nv = 6" in repr(robot)
    np.testing.assert_array_equal(robot.neutral, np.zeros(6))
    q0, q1 = robot.random(0), robot.random(1)
    np.testing.assert_allclose(robot.integrate(q0, robot.difference(q0, q1)), q1, atol=1e-12)


def test_functions_are_made_of_whatever_carries_a_model():
    robot = dynamics.load(MODELS / "ur5.urdf")
    q = robot.random(3)
    for one in (robot, robot.mechanism, robot.model):
        assert np.array_equal(np.asarray(dynamics.make(one, "mass_matrix")(q)), robot.mass_matrix(q))
        assert np.array_equal(np.asarray(dynamics.make_frame(one, "pose", "tool0")(q)[1]).ravel(), robot.position("tool0", q))
