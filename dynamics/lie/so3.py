"""SO(3): rotation matrices R (3 x 3) and rotation vectors φ (3 x 1, rad), left-trivialised tangent.

`right_jacobian` maps a variation of φ to the body-frame variation of exp(φ), `left_jacobian` to the one in
the outer frame. All are scalar functions of φ·φ times I, φ^ and φφᵀ, smooth through φ = 0.

Source of the formulas: Solà, Deray, Atchuthan 2018, "A micro Lie theory", Appendix B, rewritten by
(φ^)² = φφᵀ - (φ·φ) I.
"""

from typing import TypeAlias

import casadi as ca

from dynamics.lie import quaternion, series
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix, rows

Symmetric: TypeAlias = tuple[Expression, Expression, Expression, Expression, Expression, Expression]


def hat(phi: ExpressionLike) -> Expression:
    """Skew matrix φ^ (3 x 3, structurally empty diagonal) with φ^ a = φ × a."""
    return ca.skew(column(phi, 3, "phi"))


def vee(skew: ExpressionLike) -> Expression:
    """Inverse of `hat`: the 3-vector of the antisymmetric part of a 3 x 3 matrix."""
    m = matrix(skew, 3, 3, "skew")
    return 0.5 * ca.vertcat(m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1])


def exp(phi: ExpressionLike) -> Expression:
    """Rotation matrix of the rotation vector φ: cos θ I + (sin θ/θ) φ^ + ((1 - cos θ)/θ²) φφᵀ (Rodrigues)."""
    phi = column(phi, 3, "phi")
    cosine, first, second = series.stumpff(ca.dot(phi, phi), 2)
    return assemble(cosine, first * phi, square(second, phi))


def log(rotation: ExpressionLike) -> Expression:
    """Rotation vector φ of a rotation matrix, |φ| <= π.

    Goes through the quaternion, which keeps all digits up to θ = π where R - Rᵀ vanishes. Smooth along SO(3)
    for θ < π; at θ = π one of the two answers ±φ. Only derivatives along SO(3) are meaningful: off the group
    the extension depends on the branch taken by `quaternion.from_matrix`.
    """
    return quaternion.log(quaternion.from_matrix(rotation))


def right_jacobian(phi: ExpressionLike) -> Expression:
    """J_r(φ) (3 x 3): exp(φ + δ) = exp(φ) exp(J_r(φ) δ) to first order (Solà 2018, Eq. 143)."""
    phi = column(phi, 3, "phi")
    _, first, second, third = series.stumpff(ca.dot(phi, phi), 3)
    return assemble(first, -second * phi, square(third, phi))


def left_jacobian(phi: ExpressionLike) -> Expression:
    """J_l(φ) (3 x 3): exp(φ + δ) = exp(J_l(φ) δ) exp(φ) to first order (Solà 2018, Eq. 145)."""
    phi = column(phi, 3, "phi")
    _, first, second, third = series.stumpff(ca.dot(phi, phi), 3)
    return assemble(first, second * phi, square(third, phi))


def right_jacobian_inverse(phi: ExpressionLike) -> Expression:
    """J_r⁻¹(φ) (3 x 3), |φ| < 2π: log(exp(φ) exp(δ)) = φ + J_r⁻¹ δ to first order (Solà 2018, Eq. 144)."""
    phi = column(phi, 3, "phi")
    k, quadratic = series.cotangent(ca.dot(phi, phi))
    return assemble(k, 0.5 * phi, square(quadratic, phi))


def left_jacobian_inverse(phi: ExpressionLike) -> Expression:
    """J_l⁻¹(φ) (3 x 3), |φ| < 2π: log(exp(δ) exp(φ)) = φ + J_l⁻¹ δ to first order (Solà 2018, Eq. 146)."""
    phi = column(phi, 3, "phi")
    k, quadratic = series.cotangent(ca.dot(phi, phi))
    return assemble(k, -0.5 * phi, square(quadratic, phi))


def integrate(rotation: ExpressionLike, delta: ExpressionLike) -> Expression:
    """R exp(δ): the rotation δ (3 x 1, rad, body frame) away from R."""
    return ca.mtimes(matrix(rotation, 3, 3, "rotation"), exp(delta))


def difference(start: ExpressionLike, end: ExpressionLike) -> Expression:
    """δ = log(R0ᵀ R1) (3 x 1, rad, body frame of R0), so that `integrate(R0, δ)` is R1."""
    return log(ca.mtimes(matrix(start, 3, 3, "start").T, matrix(end, 3, 3, "end")))


def square(factor: Expression, a: Expression) -> Symmetric:
    """Upper triangle of factor a aᵀ, for `assemble`."""
    scaled = factor * a
    return (
        scaled[0] * a[0],
        scaled[0] * a[1],
        scaled[0] * a[2],
        scaled[1] * a[1],
        scaled[1] * a[2],
        scaled[2] * a[2],
    )


def assemble(diagonal: Expression, axial: Expression, symmetric: Symmetric) -> Expression:
    """diagonal I + axial^ + symmetric (3 x 3), the last as its upper triangle (xx, xy, xz, yy, yz, zz)."""
    xx, xy, xz, yy, yz, zz = symmetric
    x, y, z = axial[0], axial[1], axial[2]
    return rows(
        (diagonal + xx, xy - z, xz + y),
        (xy + z, diagonal + yy, yz - x),
        (xz - y, yz + x, diagonal + zz),
    )
