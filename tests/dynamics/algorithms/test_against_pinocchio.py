"""The algorithms against Pinocchio, body by body built the same robot, with every joint kind that both have."""

import numpy as np
import pytest

import dynamics
from dynamics import algorithms as alg
from dynamics.model.synthetic import random_tree

pin = pytest.importorskip("pinocchio")
import pinocchio_twin as twin  # noqa: E402  # needs Pinocchio

COMMON = ["revolute", "continuous", "prismatic", "spherical", "planar", "free_flyer"]


@pytest.fixture(params=[(n, seed) for n in (1, 5, 12) for seed in range(3)], ids=lambda p: f"tree{p[0]}-{p[1]}")
def case(request):
    n, seed = request.param
    rng = np.random.default_rng(1000 * n + seed)
    model = random_tree(n, rng, kinds=COMMON, depth_first=True)  # Pinocchio wants contiguous subtrees
    q = alg.random_configuration(model, rng)
    other = twin.build(model)
    return model, other, other.createData(), q, rng.standard_normal(model.nv), rng.standard_normal(model.nv)


def call(model, name, *args):
    return np.array(dynamics.make(model, name)(*args))


def close(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.size == theirs.size  # Pinocchio drops the second dimension of a single column
    np.testing.assert_allclose(ours.ravel(), theirs.ravel(), atol=1e-9 * (1 + np.abs(theirs).max()), rtol=0)


@pytest.mark.sample(3)
def test_dynamics(case):
    model, other, data, q, v, a = case
    x = twin.configuration(model, q)
    tau = pin.rnea(other, data, x, v, a)
    close(call(model, "inverse_dynamics", q, v, a).ravel(), tau)
    close(call(model, "forward_dynamics", q, v, tau).ravel(), pin.aba(other, data, x, v, tau))
    close(call(model, "bias_force", q, v).ravel(), pin.nonLinearEffects(other, data, x, v))
    close(call(model, "gravity_force", q).ravel(), pin.computeGeneralizedGravity(other, data, x))
    M = np.triu(pin.crba(other, data, x))
    close(call(model, "mass_matrix", q), M + np.triu(M, 1).T)


def test_energy_and_centre_of_mass(case):
    model, other, data, q, v, _ = case
    x = twin.configuration(model, q)
    rotors = v @ (other.armature * v) / 2
    other.armature = np.zeros(model.nv)  # whether kinetic energy has the rotors in it depends on Pinocchio's version
    kinetic = pin.computeKineticEnergy(other, data, x, v)
    close(call(model, "kinetic_energy", q, v).item() - rotors, np.array(kinetic))
    close(call(model, "potential_energy", q).item(), np.array(pin.computePotentialEnergy(other, data, x)))
    close(call(model, "centre_of_mass", q).ravel(), pin.centerOfMass(other, data, x))
    close(call(model, "centre_of_mass_jacobian", q), pin.jacobianCenterOfMass(other, data, x))


@pytest.mark.parametrize(("ours", "theirs"), [("body", "LOCAL"), ("world", "WORLD"), ("world_aligned", "LOCAL_WORLD_ALIGNED")])
@pytest.mark.sample(4)
def test_frames(case, ours, theirs):
    model, other, data, q, v, a = case
    x, reference = twin.configuration(model, q), getattr(pin.ReferenceFrame, theirs)
    pin.computeJointJacobians(other, data, x)
    pin.framesForwardKinematics(other, data, x)
    for frame in (model.frames[0].name, model.frames[-1].name):
        index = other.getFrameId(frame)
        R, p = dynamics.make_frame(model, "pose", frame)(q)
        close(np.array(R), data.oMf[index].rotation)
        close(np.array(p).ravel(), data.oMf[index].translation)
        close(np.array(dynamics.make_frame(model, "jacobian", frame, ours)(q)),
              pin.getFrameJacobian(other, data, index, reference))
    pin.forwardKinematics(other, data, x, v, np.zeros(model.nv))
    pin.updateFramePlacements(other, data)
    index = other.getFrameId(frame)
    close(np.array(dynamics.make_frame(model, "velocity", frame, ours)(q, v)).ravel(),
          pin.getFrameVelocity(other, data, index, reference).vector)
    getter = pin.getFrameClassicalAcceleration if ours == "world_aligned" else pin.getFrameAcceleration
    close(np.array(dynamics.make_frame(model, "drift", frame, ours)(q, v)).ravel(), getter(other, data, index, reference).vector)


def test_manifold(case):
    model, other, _, q, v, a = case
    x = twin.configuration(model, q)
    moved = call(model, "integrate", q, v).ravel()
    there = pin.integrate(other, x, v)
    # a quaternion and its negative are one rotation: compare through the difference
    np.testing.assert_allclose(pin.difference(other, twin.configuration(model, moved), there), 0, atol=1e-12)
    q1 = call(model, "integrate", q, 0.5 * a).ravel()
    close(call(model, "difference", q, q1).ravel(), pin.difference(other, x, twin.configuration(model, q1)))
