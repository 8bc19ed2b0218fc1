"""Quaternions and roll-pitch-yaw: algebra, conversions on every branch, double cover, rates."""

import itertools
import warnings

import casadi as ca
import numpy as np
import pytest
from arrays import column, number
from scipy.spatial.transform import Rotation

from dynamics.lie import quaternion, rpy, so3

AXES = [np.array(a, dtype=float) / np.linalg.norm(a) for a in itertools.product((-1, 0, 1), repeat=3) if any(a)]


def random_quaternions(count: int, seed: int) -> np.ndarray:
    samples = np.random.default_rng(seed).normal(size=(count, 4))
    return samples / np.linalg.norm(samples, axis=1)[:, None]


def scipy_rotation(q: np.ndarray) -> Rotation:
    return Rotation.from_quat([q[1], q[2], q[3], q[0]])


@pytest.mark.parametrize("turn", [0.0, 1e-6, 0.7, 2.0, 3.0])
def test_from_matrix_is_differentiable_along_the_group(turn):
    """d/dδ of q(R exp(δ)) at 0 is N(q), whichever branch is taken."""
    delta = ca.SX.sym("delta", 3)
    for axis in AXES:
        matrix = Rotation.from_rotvec(turn * axis).as_matrix()
        moved = quaternion.from_matrix(so3.integrate(matrix, delta))
        jacobian = ca.Function("j", [delta], [ca.jacobian(moved, delta)])(np.zeros(3))
        expected = quaternion.rate_map(quaternion.from_matrix(matrix))
        np.testing.assert_allclose(number(jacobian), number(expected), atol=1e-14)


def test_logarithm_at_and_around_a_half_turn():
    np.testing.assert_allclose(column(quaternion.log([0.0, 0.0, 1.0, 0.0])), [0.0, np.pi, 0.0], atol=1e-15)
    np.testing.assert_allclose(column(quaternion.log([1e-9, 0.0, 1.0, 0.0])), [0.0, np.pi - 2e-9, 0.0], atol=1e-15)
    np.testing.assert_allclose(column(quaternion.log([-1e-9, 0.0, 1.0, 0.0])), [0.0, 2e-9 - np.pi, 0.0], atol=1e-15)


def test_logarithm_of_the_zero_quaternion_is_not_a_number():
    assert np.isnan(column(quaternion.log(np.zeros(4)))).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("symbol", [ca.SX, ca.MX])
def test_logarithm_derivatives_at_plus_and_minus_identity(symbol, sign):
    """Along the group, log(±exp(δ)) = δ: Jacobian I, Hessian 0."""
    delta = symbol.sym("delta", 3)
    value = quaternion.log(sign * quaternion.exp(delta))
    jacobian = ca.jacobian(value, delta)
    evaluate = ca.Function("f", [delta], [value, jacobian, ca.jacobian(ca.vec(jacobian), delta)])
    got_value, got_jacobian, got_hessian = evaluate(np.zeros(3))
    np.testing.assert_array_equal(number(got_value), 0.0)
    np.testing.assert_allclose(number(got_jacobian), np.eye(3), atol=1e-15)
    np.testing.assert_allclose(number(got_hessian), 0.0, atol=1e-15)


def test_integrate_returns_unit_quaternions():
    q = 1.01 * random_quaternions(1, 4)[0]
    moved = column(quaternion.integrate(q, [0.3, -0.2, 0.9]))
    assert np.linalg.norm(moved) == pytest.approx(1.0, abs=1e-15)


def test_roll_pitch_yaw_agrees_with_scipy():
    for angles in np.random.default_rng(6).uniform([-3, -1.5, -3], [3, 1.5, 3], size=(30, 3)):
        reference = Rotation.from_euler("xyz", angles)  # lower case: about fixed axes
        np.testing.assert_allclose(number(rpy.to_matrix(angles)), reference.as_matrix(), atol=1e-15)
        np.testing.assert_allclose(column(rpy.from_matrix(reference.as_matrix())), angles, atol=1e-13)
        np.testing.assert_allclose(rpy.from_matrix_numeric(reference.as_matrix()), angles, atol=1e-13)
        q = column(rpy.to_quaternion(angles))
        np.testing.assert_allclose(scipy_rotation(q).as_matrix(), reference.as_matrix(), atol=1e-15)
        np.testing.assert_allclose(column(rpy.from_quaternion(q)), angles, atol=1e-13)


@pytest.mark.parametrize("pitch", [np.pi / 2, -np.pi / 2])
def test_gimbal_lock_takes_the_branch_without_yaw(pitch):
    matrix = Rotation.from_euler("xyz", [0.4, pitch, 1.3]).as_matrix()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = Rotation.from_matrix(matrix).as_euler("xyz")
    angles = rpy.from_matrix_numeric(matrix)
    assert angles[2] == 0.0
    np.testing.assert_allclose(angles, expected, atol=1e-7)
    np.testing.assert_allclose(number(rpy.to_matrix(angles)), matrix, atol=1e-15)


@pytest.mark.parametrize("distance", [0.0, 1e-15, 1e-11, 1e-8, 1e-4])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_angles_near_gimbal_lock_still_give_the_rotation(distance, side):
    matrix = Rotation.from_euler("xyz", [0.4, side * (np.pi / 2 - distance), 1.3]).as_matrix()
    np.testing.assert_allclose(number(rpy.to_matrix(rpy.from_matrix(matrix))), matrix, atol=1e-15)
    np.testing.assert_allclose(number(rpy.to_matrix(rpy.from_matrix_numeric(matrix))), matrix, atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.diag([1.0, 1.0, -1.0]), "det R = -1"),
        (1.1 * np.eye(3), r"\|RᵀR - I\| = 0.21"),
        (np.full((3, 3), np.nan), "expected a rotation matrix"),
        (np.eye(4), r"expected shape \(3, 3\), got \(4, 4\)"),
    ],
)
def test_matrices_that_are_no_rotations_are_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        rpy.from_matrix_numeric(matrix)
