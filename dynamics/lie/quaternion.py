"""Unit quaternions q = (w, x, y, z), 4 x 1, Hamilton product, scalar first.

A_q_B takes the components of a vector from B to A. Tangents are body-frame rotation vectors: q ⊞ δ = q exp(δ),
and q̇ = ½ q (0, ω) with ω in the body frame.
Source of the formulas, unless given: Solà 2017, "Quaternion kinematics for the error-state Kalman filter".
"""

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics.lie import series
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix, rows


def product(a: ExpressionLike, b: ExpressionLike) -> Expression:
    """Hamilton product a b (4 x 1)."""
    a, b = column(a, 4, "a"), column(b, 4, "b")
    return ca.vertcat(
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


def conjugate(q: ExpressionLike) -> Expression:
    """(w, -x, -y, -z), the inverse of a unit quaternion."""
    q = column(q, 4, "q")
    return ca.vertcat(q[0], -q[1:])


def normalise(q: ExpressionLike) -> Expression:
    """q scaled to unit length; NaN for the zero quaternion."""
    q = column(q, 4, "q")
    return q / ca.sqrt(ca.dot(q, q))


def left_matrix(q: ExpressionLike) -> Expression:
    """Q(q) (4 x 4) with q p = Q(q) p."""
    q = column(q, 4, "q")
    w, x, y, z = q[0], q[1], q[2], q[3]
    return rows((w, -x, -y, -z), (x, w, -z, y), (y, z, w, -x), (z, -y, x, w))


def right_matrix(p: ExpressionLike) -> Expression:
    """Q̄(p) (4 x 4) with q p = Q̄(p) q; commutes with every `left_matrix`."""
    p = column(p, 4, "p")
    w, x, y, z = p[0], p[1], p[2], p[3]
    return rows((w, -x, -y, -z), (x, w, z, -y), (y, -z, w, x), (z, y, -x, w))


def leading_sign(a: ExpressionLike) -> Expression:
    """Sign of the first non-zero entry of a column, 1 for the zero column; chooses one of the pair a, -a."""
    if not isinstance(a, (ca.SX, ca.MX, ca.DM)):
        a = ca.DM(a)
    sign = ca.DM(1.0)
    for i in reversed(range(a.shape[0])):
        sign = ca.if_else(a[i] > 0.0, 1.0, ca.if_else(a[i] < 0.0, -1.0, sign))
    return sign


def canonical(q: ExpressionLike) -> Expression:
    """Of q and -q, the same rotation, the one whose first non-zero component is positive."""
    q = column(q, 4, "q")
    return leading_sign(q) * q


def squared_distance(a: ExpressionLike, b: ExpressionLike) -> Expression:
    """min(|a - b|², |a + b|²): zero for equal rotations, whatever the signs; smooth while less than π apart."""
    a, b = column(a, 4, "a"), column(b, 4, "b")
    apart, together = a - b, a + b
    return ca.fmin(ca.dot(apart, apart), ca.dot(together, together))


def to_xyzw(q: ExpressionLike) -> Expression:
    """(x, y, z, w), the storage of SciPy, ROS, Eigen and Pinocchio."""
    q = column(q, 4, "q")
    return ca.vertcat(q[1:], q[0])


def from_xyzw(xyzw: ExpressionLike) -> Expression:
    """(w, x, y, z) from (x, y, z, w)."""
    xyzw = column(xyzw, 4, "xyzw")
    return ca.vertcat(xyzw[3], xyzw[:3])


def random(rng: np.random.Generator) -> NDArray[np.float64]:
    """Unit quaternion (4,) with w >= 0, uniform over rotations."""
    q = rng.standard_normal(4)  # isotropic, hence uniform
    q /= np.linalg.norm(q)
    return np.asarray(q if q[0] >= 0.0 else -q)


def rotate(q: ExpressionLike, v: ExpressionLike) -> Expression:
    """R(q) v (3 x 1) without forming R: v + w t + u × t with t = 2 u × v / |q|². The length of q does not matter."""
    q, v = column(q, 4, "q"), column(v, 3, "v")
    t = _twice_inverse_square(q) * ca.cross(q[1:], v)
    return v + q[0] * t + ca.cross(q[1:], t)


def to_matrix(q: ExpressionLike) -> Expression:
    """Rotation matrix (3 x 3) of a quaternion, I + 2 (w v^ + v^ v^) / |q|² (Solà 2017, Eq. 115, at q / |q|).

    The length of q does not matter; derivatives along it are zero. NaN for the zero quaternion.
    """
    q = column(q, 4, "q")
    w, x, y, z = q[0], q[1], q[2], q[3]
    scale = _twice_inverse_square(q)
    x2, y2, z2 = scale * x, scale * y, scale * z
    wx, wy, wz = w * x2, w * y2, w * z2
    xx, xy, xz = x * x2, x * y2, x * z2
    yy, yz, zz = y * y2, y * z2, z * z2
    return rows(
        (1.0 - (yy + zz), xy - wz, xz + wy),
        (xy + wz, 1.0 - (xx + zz), yz - wx),
        (xz - wy, yz + wx, 1.0 - (xx + yy)),
    )


def _twice_inverse_square(q: Expression) -> Expression:
    return 2.0 / ca.dot(q, q)


def from_matrix(rotation: ExpressionLike) -> Expression:
    """Unit quaternion with w >= 0 of a rotation matrix (3 x 3); smooth along SO(3) for angles below π.

    The columns of 4 q qᵀ are linear in R (Shepperd 1978, "Quaternion from rotation matrix"). The column taken
    has a diagonal entry of at least 1, whatever the rotation, so that scaling it to unit length is safe.
    """
    r = matrix(rotation, 3, 3, "rotation")
    x_plus, x_minus = r[2, 1] + r[1, 2], r[2, 1] - r[1, 2]
    y_plus, y_minus = r[0, 2] + r[2, 0], r[0, 2] - r[2, 0]
    z_plus, z_minus = r[1, 0] + r[0, 1], r[1, 0] - r[0, 1]
    same, apart = r[0, 0] + r[1, 1], r[0, 0] - r[1, 1]
    above, below = 1.0 + r[2, 2], 1.0 - r[2, 2]
    by_w = ca.vertcat(above + same, x_minus, y_minus, z_minus)
    by_x = ca.vertcat(x_minus, below + apart, z_plus, y_plus)
    by_y = ca.vertcat(y_minus, z_plus, below - apart, x_plus)
    by_z = ca.vertcat(z_minus, y_plus, x_plus, above - same)
    upright = ca.if_else(same < 0.0, by_z, by_w)
    tilted = ca.if_else(apart > 0.0, by_x, by_y)
    chosen = ca.if_else(r[2, 2] < 0.0, tilted, upright)
    return (ca.if_else(chosen[0] < 0.0, -1.0, 1.0) / ca.sqrt(ca.dot(chosen, chosen))) * chosen


def exp(phi: ExpressionLike) -> Expression:
    """Unit quaternion (cos(θ/2), φ sin(θ/2)/θ) of the rotation vector φ (3 x 1, rad), θ = |φ|."""
    phi = column(phi, 3, "phi")
    cosine, ratio = series.half_angle(ca.dot(phi, phi))
    return ca.vertcat(cosine, ratio * phi)


def log(q: ExpressionLike) -> Expression:
    """Rotation vector φ (3 x 1, rad, |φ| <= π) of a quaternion; log(-q) = log(q).

    Smooth at the identity and up to |φ| = π (w = 0), where it jumps from φ to -φ. The length of q does not
    matter. NaN for the zero quaternion.
    """
    q = column(q, 4, "q")
    vector = q[1:]
    return series.rotation_angle_ratio(q[0], ca.dot(vector, vector)) * vector


def integrate(q: ExpressionLike, delta: ExpressionLike) -> Expression:
    """q exp(δ), scaled to unit length, for δ (3 x 1, rad, body frame)."""
    moved = product(q, exp(delta))
    return moved / ca.sqrt(ca.dot(moved, moved))


def difference(start: ExpressionLike, end: ExpressionLike) -> Expression:
    """δ = log(q0⁻¹ q1) (3 x 1, rad, body frame of q0): `integrate(q0, δ)` is q1 or -q1."""
    return log(product(conjugate(start), end))


def rate_map(q: ExpressionLike) -> Expression:
    """N(q) (4 x 3) with q̇ = N(q) ω for the body-frame angular velocity ω."""
    half = 0.5 * column(q, 4, "q")
    w, x, y, z = half[0], half[1], half[2], half[3]
    return rows((-x, -y, -z), (w, -z, y), (z, w, -x), (-y, x, w))


def rate_map_inverse(q: ExpressionLike) -> Expression:
    """N⁺(q) (3 x 4) with ω = N⁺(q) q̇: 4 Nᵀ / |q|², as Nᵀ N = ¼ |q|² I. NaN for the zero quaternion."""
    q = column(q, 4, "q")
    double = _twice_inverse_square(q) * q
    w, x, y, z = double[0], double[1], double[2], double[3]
    return rows((-x, w, z, -y), (-y, -z, w, x), (-z, y, -x, w))


def rate_map_world(q: ExpressionLike) -> Expression:
    """½ H(q)ᵀ (4 x 3) with q̇ = ½ H(q)ᵀ ω for the world-frame ω: q̇ = ½ (0, ω) q (Hutter 2023, Eq. 2.99)."""
    return 0.5 * world_matrix(q).T


def rate_map_world_inverse(q: ExpressionLike) -> Expression:
    """2 H(q) / |q|² (3 x 4) with ω = 2 H(q) q̇ / |q|² in the world frame. NaN for the zero quaternion."""
    q = column(q, 4, "q")
    return _twice_inverse_square(q) * world_matrix(q)


def world_matrix(q: ExpressionLike) -> Expression:
    """H(q) = [-v, w I + v^] (3 x 4): H Hᵀ = I and H q = 0 for a unit quaternion."""
    return right_matrix(conjugate(q))[1:, :]


def body_matrix(q: ExpressionLike) -> Expression:
    """H̄(q) = [-v, w I - v^] (3 x 4): R(q) = H H̄ᵀ; `rate_map` is ½ H̄ᵀ and `rate_map_inverse` 2 H̄."""
    return left_matrix(conjugate(q))[1:, :]


def curvature(q: ExpressionLike, rate: ExpressionLike) -> Expression:
    """The part -|q̇|² q (4 x 1) of q̈ that keeps a unit quaternion at unit length; |q̇|² = ¼ |ω|²."""
    q, rate = column(q, 4, "q"), column(rate, 4, "rate")
    return -ca.dot(rate, rate) * q
