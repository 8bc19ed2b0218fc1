"""Angular momentum of parts of a robot, against the mass matrix, sums over bodies and the law of motion."""


import casadi as ca
import numpy as np
import pytest
from repository import ROOT

from dynamics import algorithms as alg
from dynamics.model.urdf import read_urdf

MODELS = ROOT / "problems" / "models"


def state(model, seed):
    rng = np.random.default_rng(seed)
    return np.asarray(alg.random_configuration(model, rng)).ravel(), rng.standard_normal(model.nv)


def axis_and_place(model, q, i):
    """World axis and origin of the joint of body i, a revolute one."""
    pose = alg.body_poses(model, q)[i]
    J = np.array(ca.DM(alg.frame_jacobian(model, q, model.bodies[i].name)))
    columns = np.array(ca.DM(pose.R)) @ J[3:]
    return columns[:, i], np.array(ca.DM(pose.p)).ravel()


@pytest.mark.parametrize("robot", ["ur5", "rabbit", "panda"])
def test_about_its_joint_it_is_the_generalised_momentum(robot):
    """On a chain of revolute joints, (M v)_i is the momentum of what joint i carries about the axis of the joint."""
    model = read_urdf(MODELS / f"{robot}.urdf")
    q, v = state(model, 3)
    generalised = np.array(ca.DM(alg.mass_matrix(model, q))) @ v
    for i in range(model.nv):
        axis, place = axis_and_place(model, q, i)
        L = np.array(ca.DM(alg.subtree_angular_momentum(model, ca.DM(q), ca.DM(v), i, ca.DM(place)))).ravel()
        assert axis @ L == pytest.approx(generalised[i], abs=1e-10 * (1 + abs(generalised).max()))


def test_of_the_whole_it_is_that_of_all_bodies():
    """Point by point: sum of m (c - P) x c' + I w over the links, each by frames and finite differences of their places."""
    model = read_urdf(MODELS / "rabbit.urdf")
    q, v = state(model, 5)
    point, h = np.array([0.3, -0.2, 0.7]), 1e-6

    def centre(body, at):
        pose = alg.body_poses(model, ca.DM(at))[body]
        return np.array(ca.DM(pose.R)) @ np.array(model.bodies[body].inertia.com) + np.array(ca.DM(pose.p)).ravel()

    for first in (-1, 0, 2, 3):
        L = np.array(ca.DM(alg.subtree_angular_momentum(model, ca.DM(q), ca.DM(v), first, ca.DM(point)))).ravel()
        expected = 0.0
        for i in range(max(first, 0), model.nv):  # the bodies of this robot carry each other in a row
            rate = (centre(i, q + h * v) - centre(i, q - h * v)) / (2 * h)
            spin = -v[: i + 1].sum()  # all axes are -y
            body = model.bodies[i].inertia
            expected += body.mass * np.cross(centre(i, q) - point, rate)[1] + np.array(body.inertia)[1, 1] * spin
        assert L[1] == pytest.approx(expected, rel=1e-8)


def test_gravity_alone_turns_it_about_a_fixed_point():
    """dL/dt about the foot that stands = moment of gravity, as the ankle is left free."""
    model = read_urdf(MODELS / "rabbit.urdf")
    q, v = state(model, 7)
    tau = np.array([0.0, 4.0, -3.0, 2.0, 1.0])
    a = np.array(ca.DM(alg.forward_dynamics(model, ca.DM(q), ca.DM(v), ca.DM(tau)))).ravel()
    h = 1e-6

    def momentum(t):
        return np.array(ca.DM(alg.subtree_angular_momentum(model, ca.DM(q + t * v), ca.DM(v + t * a), -1, ca.DM.zeros(3)))).ravel()

    com = np.array(ca.DM(alg.centre_of_mass(model, ca.DM(q)))).ravel()
    turning = np.cross(com, model.mass * np.array(model.gravity))[1]
    assert (momentum(h) - momentum(-h))[1] / (2 * h) == pytest.approx(turning, rel=1e-6)
