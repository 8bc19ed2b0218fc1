"""Rotation vectors φ (3 x 1, rad): rates, their derivatives, and the derivatives of the exponential.

Γ(φ) is the left Jacobian `so3.left_jacobian`: the world-frame ω is Γ(φ) φ̇, the body-frame one Γ(φ)ᵀ φ̇ =
Γ(-φ) φ̇. All maps from rates are smooth everywhere; the inverse ones are singular where |φ| is a multiple of 2π
other than 0 (`ChartSingularityError` for numbers).
Source: Gehring et al., "Kindr cheat sheet"; Solà, Deray, Atchuthan 2018, "A micro Lie theory", Appendix B.
"""

import math

import casadi as ca

from dynamics.lie import quaternion, se3, so3
from dynamics.lie.angle_axis import HALF_TURN
from dynamics.lie.expression import Expression, ExpressionLike, column, regular

_REMEDY = "there are several axes for one rotation at full turns, use `canonical` first"

gamma = so3.left_jacobian
"""Γ(φ) (3 x 3), the left Jacobian: exp(φ + δ) = exp(Γ(φ) δ) exp(φ) to first order."""


def gamma_inverse(phi: ExpressionLike) -> Expression:
    """Γ(φ)⁻¹ (3 x 3); `ChartSingularityError` for numbers with |φ| = 2π, 4π, ..."""
    return so3.left_jacobian_inverse(_regular(phi))


def gamma_rate(phi: ExpressionLike, rate: ExpressionLike) -> Expression:
    """dΓ/dt (3 x 3) along φ̇; smooth through φ = 0.

    The derivative of Γ along φ̇ is the off-diagonal block of the left Jacobian of SE(3) at (φ̇, φ), because SE(3)
    is to SO(3) as dual numbers are to numbers.
    """
    return se3.left_jacobian(_dual(phi, rate))[se3.LINEAR, se3.ANGULAR]


def gamma_inverse_rate(phi: ExpressionLike, rate: ExpressionLike) -> Expression:
    """d(Γ⁻¹)/dt (3 x 3) along φ̇, = -Γ⁻¹ Γ̇ Γ⁻¹."""
    _regular(phi)
    return se3.left_jacobian_inverse(_dual(phi, rate))[se3.LINEAR, se3.ANGULAR]


def angular_velocity_map(phi: ExpressionLike) -> Expression:
    """E (3 x 3) with ω = E φ̇ in the body frame, Γ(φ)ᵀ, the right Jacobian."""
    return so3.right_jacobian(phi)


def angular_velocity_map_world(phi: ExpressionLike) -> Expression:
    """E (3 x 3) with ω = E φ̇ in the world frame, Γ(φ)."""
    return so3.left_jacobian(phi)


def rate_map(phi: ExpressionLike) -> Expression:
    """E⁻¹ (3 x 3) with φ̇ = E⁻¹ ω for the body-frame ω; raises as `gamma_inverse`."""
    return so3.right_jacobian_inverse(_regular(phi))


def rate_map_world(phi: ExpressionLike) -> Expression:
    """E⁻¹ (3 x 3) with φ̇ = E⁻¹ ω for the world-frame ω; raises as `gamma_inverse`."""
    return gamma_inverse(phi)


def bias(phi: ExpressionLike, rate: ExpressionLike) -> Expression:
    """Γ̇ φ̇ (3 x 1), the part of the world-frame ω̇ = Γ φ̈ + Γ̇ φ̇ that is quadratic in the rates."""
    return ca.mtimes(gamma_rate(phi, rate), column(rate, 3, "rate"))


def exp_derivative(phi: ExpressionLike, direction: ExpressionLike) -> Expression:
    """First derivative of exp(φ) along a direction (3 x 3): (Γ(φ) a)^ exp(φ)."""
    axial = ca.mtimes(so3.left_jacobian(phi), column(direction, 3, "direction"))
    return ca.mtimes(so3.hat(axial), so3.exp(phi))


def exp_second_derivative(phi: ExpressionLike, direction: ExpressionLike, across: ExpressionLike) -> Expression:
    """Second derivative of exp(φ) along two directions (3 x 3), symmetric in them.

    ((Γ̇_b a)^ + (Γ a)^ (Γ b)^) exp(φ), with Γ̇_b the derivative of Γ along b; at φ = 0 it is ½ (a^ b^ + b^ a^).
    """
    a, b = column(direction, 3, "direction"), column(across, 3, "across")
    jacobian = so3.left_jacobian(phi)
    bent = so3.hat(ca.mtimes(gamma_rate(phi, b), a))
    turned = ca.mtimes(so3.hat(ca.mtimes(jacobian, a)), so3.hat(ca.mtimes(jacobian, b)))
    return ca.mtimes(bent + turned, so3.exp(phi))


def canonical(phi: ExpressionLike) -> Expression:
    """The rotation vector of the same rotation with |φ| <= π; at a half turn its first non-zero entry is positive."""
    q = quaternion.exp(phi)
    half_turn = math.pi * quaternion.leading_sign(q[1:]) * q[1:]
    return ca.if_else(ca.fabs(q[0]) < HALF_TURN, half_turn, quaternion.log(q))


def _regular(phi: ExpressionLike) -> Expression:
    phi = column(phi, 3, "phi")
    if isinstance(phi, ca.DM):
        angle = float(ca.norm_2(phi))
        if angle > 1.0:
            regular(ca.sin(ca.DM(0.5 * angle)), "rotation_vector", "sin(|φ|/2)", _REMEDY)
    return phi


def _dual(phi: ExpressionLike, rate: ExpressionLike) -> Expression:
    return ca.vertcat(column(rate, 3, "rate"), column(phi, 3, "phi"))
