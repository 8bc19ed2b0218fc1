"""SE(3): poses, twists and the exponential map, body frame (left-trivialised tangent).

A pose is `Pose(rotation, position)`, the A_H_B of a frame B in A, or the 7-vector (p, w, x, y, z) that a
free-flying joint stores. A tangent ξ (6 x 1) is [ρ; φ], linear part (m) first, rotation vector (rad) second.

Each Jacobian of SE(3) is [J, dJ; 0, J], with J the one of SO(3) at φ and dJ its derivative along ρ, because
SE(3) is to SO(3) as dual numbers are to numbers. With J = a I + b φ^ + c φφᵀ, dJ takes a few products; it
equals the long forms of Barfoot and Furgale 2014, Eq. 102, and Solà, Deray, Atchuthan 2018, Eq. 180.
"""

from typing import NamedTuple

import casadi as ca

from dynamics.lie import quaternion, series, so3
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix, rows, zeros

LINEAR = slice(0, 3)
"""Rows of the linear part in every twist, wrench and tangent of this module."""

ANGULAR = slice(3, 6)
"""Rows of the angular part in every twist, wrench and tangent of this module."""


class Pose(NamedTuple):
    """Pose of a frame B in a frame A: a point x of B is R x + p in A."""

    R: Expression
    """Rotation matrix A_R_B (3 x 3)."""
    p: Expression
    """Origin of B in A (3 x 1, m)."""


def identity() -> Pose:
    """The pose of a frame in itself."""
    return Pose(ca.DM.eye(3), ca.DM.zeros(3))


def exp(xi: ExpressionLike) -> Pose:
    """Pose (exp(φ), J_l(φ) ρ) reached by the constant body twist ξ in unit time (Solà 2018, Eq. 172)."""
    rho, phi = _parts(xi, "xi")
    cosine, first, second, third = series.stumpff(ca.dot(phi, phi), 3)
    rotation = so3.assemble(cosine, first * phi, so3.square(second, phi))
    return Pose(rotation, _apply(first, second, third, phi, rho))


def log(pose: Pose) -> Expression:
    """Tangent ξ (6 x 1) with exp(ξ) = X, |φ| <= π; smooth for |φ| < π (Solà 2018, Eq. 173)."""
    rotation, position = _checked(pose, "pose")
    return _log_with(so3.log(rotation), position)


def compose(a: Pose, b: Pose) -> Pose:
    """Pose a b."""
    (a_rotation, a_position), (b_rotation, b_position) = _checked(a, "a"), _checked(b, "b")
    return Pose(ca.mtimes(a_rotation, b_rotation), a_position + ca.mtimes(a_rotation, b_position))


def inverse(pose: Pose) -> Pose:
    """Pose X⁻¹ = (Rᵀ, -Rᵀ p)."""
    rotation, position = _checked(pose, "pose")
    return Pose(rotation.T, -ca.mtimes(rotation.T, position))


def act(pose: Pose, point: ExpressionLike) -> Expression:
    """R x + p (3 x 1, m): a point given in B, in A."""
    rotation, position = _checked(pose, "pose")
    return position + ca.mtimes(rotation, column(point, 3, "point"))


def to_matrix(pose: Pose) -> Expression:
    """Homogeneous matrix (4 x 4)."""
    rotation, position = _checked(pose, "pose")
    return rows((rotation, position), (zeros(1, 3), 1.0))


def hat(xi: ExpressionLike) -> Expression:
    """Matrix (4 x 4) of the Lie algebra, whose matrix exponential is `to_matrix(exp(xi))`."""
    rho, phi = _parts(xi, "xi")
    return rows((so3.hat(phi), rho), (zeros(1, 4),))


def vee(algebra: ExpressionLike) -> Expression:
    """Inverse of `hat`: the 6-vector of a 4 x 4 matrix of the Lie algebra."""
    m = matrix(algebra, 4, 4, "algebra")
    return ca.vertcat(m[:3, 3], so3.vee(m[:3, :3]))


def from_matrix(homogeneous: ExpressionLike) -> Pose:
    """Pose of a homogeneous matrix (4 x 4), whose last row is taken to be (0, 0, 0, 1)."""
    m = matrix(homogeneous, 4, 4, "homogeneous")
    return Pose(m[:3, :3], m[:3, 3])


def adjoint(pose: Pose) -> Expression:
    """Ad(X) (6 x 6): takes a twist from B to A, X exp(ξ) X⁻¹ = exp(Ad(X) ξ) (Solà 2018, Eq. 175)."""
    rotation, position = _checked(pose, "pose")
    return _blocks(rotation, ca.mtimes(so3.hat(position), rotation), zeros(3, 3), rotation)


def coadjoint(pose: Pose) -> Expression:
    """Ad(X)⁻ᵀ (6 x 6): takes a wrench [force; moment about the origin] from B to A, keeping its power."""
    rotation, position = _checked(pose, "pose")
    return _blocks(rotation, zeros(3, 3), ca.mtimes(so3.hat(position), rotation), rotation)


def ad(xi: ExpressionLike) -> Expression:
    """Little adjoint (6 x 6): ad(ξ) η = [ξ, η], the derivative of Ad(exp(tξ)) η at t = 0."""
    rho, phi = _parts(xi, "xi")
    turn = so3.hat(phi)
    return _blocks(turn, so3.hat(rho), zeros(3, 3), turn)


def right_jacobian(xi: ExpressionLike) -> Expression:
    """J_r(ξ) (6 x 6): exp(ξ + δ) = exp(ξ) exp(J_r(ξ) δ) to first order."""
    rho, phi = _parts(xi, "xi")
    c = series.stumpff(ca.dot(phi, phi), 5)
    slopes = series.stumpff_derivatives(c)
    return _dual(rho, phi, (c[1], -c[2], c[3]), (slopes[0], -slopes[1], slopes[2]))


def left_jacobian(xi: ExpressionLike) -> Expression:
    """J_l(ξ) (6 x 6): exp(ξ + δ) = exp(J_l(ξ) δ) exp(ξ) to first order."""
    rho, phi = _parts(xi, "xi")
    c = series.stumpff(ca.dot(phi, phi), 5)
    return _dual(rho, phi, (c[1], c[2], c[3]), series.stumpff_derivatives(c))


def right_jacobian_inverse(xi: ExpressionLike) -> Expression:
    """J_r(ξ)⁻¹ (6 x 6) for |φ| < 2π."""
    rho, phi = _parts(xi, "xi")
    k, quadratic, k_slope, quadratic_slope = series.cotangent_with_derivatives(ca.dot(phi, phi))
    return _dual(rho, phi, (k, 0.5, quadratic), (k_slope, 0.0, quadratic_slope))


def left_jacobian_inverse(xi: ExpressionLike) -> Expression:
    """J_l(ξ)⁻¹ (6 x 6) for |φ| < 2π."""
    rho, phi = _parts(xi, "xi")
    k, quadratic, k_slope, quadratic_slope = series.cotangent_with_derivatives(ca.dot(phi, phi))
    return _dual(rho, phi, (k, -0.5, quadratic), (k_slope, 0.0, quadratic_slope))


def to_vector(pose: Pose) -> Expression:
    """7-vector (p, w, x, y, z) of a pose, with w >= 0."""
    rotation, position = _checked(pose, "pose")
    return ca.vertcat(position, quaternion.from_matrix(rotation))


def from_vector(q: ExpressionLike) -> Pose:
    """Pose of a 7-vector (p, w, x, y, z) with a unit quaternion."""
    q = column(q, 7, "q")
    return Pose(quaternion.to_matrix(q[3:]), q[:3])


def integrate(q: ExpressionLike, delta: ExpressionLike) -> Expression:
    """q ⊞ δ = X(q) exp(δ) as (p, w, x, y, z) for the body-frame δ (6 x 1); the quaternion is scaled to 1."""
    q = column(q, 7, "q")
    rho, phi = _parts(delta, "delta")
    _, first, second, third = series.stumpff(ca.dot(phi, phi), 3)
    step = _apply(first, second, third, phi, rho)
    return ca.vertcat(q[:3] + quaternion.rotate(q[3:], step), quaternion.integrate(q[3:], phi))


def difference(start: ExpressionLike, end: ExpressionLike) -> Expression:
    """q1 ⊟ q0 (6 x 1): log(X(q0)⁻¹ X(q1)) for 7-vectors (p, w, x, y, z), in the body frame of q0.

    The sign of either quaternion does not matter. Smooth while the rotations are less than π apart.
    """
    start, end = column(start, 7, "start"), column(end, 7, "end")
    offset = quaternion.rotate(quaternion.conjugate(start[3:]), end[:3] - start[:3])
    return _log_with(quaternion.difference(start[3:], end[3:]), offset)


def rate_map(q: ExpressionLike) -> Expression:
    """N(q) (7 x 6) with q̇ = N(q) v for q = (p, w, x, y, z) and the body twist v."""
    q = column(q, 7, "q")
    # Written by columns, [linear | angular], so that the component order is decided here alone.
    linear = ca.vertcat(quaternion.to_matrix(q[3:]), zeros(4, 3))
    angular = ca.vertcat(zeros(3, 3), quaternion.rate_map(q[3:]))
    return ca.horzcat(linear, angular)


def rate_map_inverse(q: ExpressionLike) -> Expression:
    """N⁺(q) (6 x 7) with v = N⁺(q) q̇ for q = (p, w, x, y, z), a unit quaternion, and the body twist v."""
    q = column(q, 7, "q")
    linear = ca.horzcat(quaternion.to_matrix(q[3:]).T, zeros(3, 4))
    angular = ca.horzcat(zeros(3, 3), quaternion.rate_map_inverse(q[3:]))
    return ca.vertcat(linear, angular)


def _parts(xi: ExpressionLike, name: str) -> tuple[Expression, Expression]:
    xi = column(xi, 6, name)
    return xi[LINEAR], xi[ANGULAR]


def _checked(pose: Pose, name: str) -> tuple[Expression, Expression]:
    return matrix(pose.R, 3, 3, f"{name}.R"), column(pose.p, 3, f"{name}.p")


def _blocks(ll: Expression, la: Expression, al: Expression, aa: Expression) -> Expression:
    """6 x 6 from the blocks linear-linear, linear-angular, angular-linear, angular-angular."""
    return rows((ll, la), (al, aa))


def _apply(a: Expression, b: Expression, c: Expression, phi: Expression, v: Expression) -> Expression:
    """(a I + b φ^ + c φφᵀ) v."""
    return a * v + b * ca.cross(phi, v) + (c * ca.dot(phi, v)) * phi


def _log_with(phi: Expression, position: Expression) -> Expression:
    """[J_l(φ)⁻¹ p; φ]."""
    k, quadratic = series.cotangent(ca.dot(phi, phi))
    return ca.vertcat(_apply(k, -0.5, quadratic, phi, position), phi)


def _dual(
    rho: Expression,
    phi: Expression,
    coefficients: tuple[Expression, Expression, Expression],
    derivatives: tuple[Expression, Expression, Expression],
) -> Expression:
    """[J, dJ; 0, J] (6 x 6) for J = a I + b φ^ + c φφᵀ and its derivative dJ along ρ, d(φ·φ) = 2 φ·ρ."""
    a, b, c = coefficients
    along = ca.dot(phi, rho)
    da, db, dc = (along * slope for slope in derivatives)
    # c (φρᵀ + ρφᵀ) + dc φφᵀ = φmᵀ + mφᵀ
    m = c * rho + (0.5 * dc) * phi
    mixed = tuple(phi[i] * m[j] + m[i] * phi[j] for i, j in ((0, 1), (0, 2), (1, 2)))
    square = (
        2.0 * phi[0] * m[0],
        mixed[0],
        mixed[1],
        2.0 * phi[1] * m[1],
        mixed[2],
        2.0 * phi[2] * m[2],
    )
    block = so3.assemble(a, b * phi, so3.square(c, phi))
    derivative = so3.assemble(da, db * phi + b * rho, square)
    return _blocks(block, derivative, zeros(3, 3), block)
