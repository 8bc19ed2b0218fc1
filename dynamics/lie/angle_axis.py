"""Angle and axis (θ, n_x, n_y, n_z), 4 x 1: θ in rad, |n| = 1; unique for 0 < θ < π.

At θ = 0 the axis is arbitrary, (0, e_x) by convention, and the chart is singular there and at every other full
turn: maps to rates raise `ChartSingularityError` for numbers and yield inf or NaN in a graph; derivatives of
`from_quaternion` and `from_matrix` are finite but meaningless at θ = 0.
Source: Gehring et al., "Kindr cheat sheet"; Hutter et al. 2023, "Robot dynamics lecture notes", Eqs. 2.46-2.53
and 2.100-2.103, with θ from atan2 in place of acos, which loses half the digits near 0 and π.
"""

import math

import casadi as ca

from dynamics.lie import quaternion, so3
from dynamics.lie.expression import Expression, ExpressionLike, column, regular, rows

HALF_TURN = 1e-15
"""|cos(θ/2)| below which `canonical` counts a rotation as a half turn, where n and -n mean the same."""

_REMEDY = "the axis has no rate there, use a quaternion or a rotation vector"


def to_matrix(x: ExpressionLike) -> Expression:
    """Rotation matrix cos θ I + sin θ n^ + (1 - cos θ) n nᵀ (3 x 3) (Hutter 2023, Eq. 2.48)."""
    theta, n = _parts(x)
    half = ca.sin(0.5 * theta)
    return so3.assemble(ca.cos(theta), ca.sin(theta) * n, so3.square(2.0 * half * half, n))


def from_matrix(rotation: ExpressionLike) -> Expression:
    """(θ, n) of a rotation matrix (3 x 3), θ in [0, π]; well defined at 0 and π, see `from_quaternion`."""
    return from_quaternion(quaternion.from_matrix(rotation))


def to_quaternion(x: ExpressionLike) -> Expression:
    """Unit quaternion (cos(θ/2), n sin(θ/2))."""
    theta, n = _parts(x)
    return ca.vertcat(ca.cos(0.5 * theta), ca.sin(0.5 * theta) * n)


def from_quaternion(q: ExpressionLike) -> Expression:
    """(θ, n) with θ = 2 atan2(|v|, |w|) in [0, π] and n = sign(w) v / |v|; (0, e_x) for v = 0."""
    q = column(q, 4, "q")
    length, n = _unit(q[1:])
    sign = ca.if_else(q[0] < 0.0, -1.0, 1.0)
    theta = 2.0 * ca.atan2(length, sign * q[0])
    return ca.vertcat(theta, ca.if_else(length > 0.0, sign, 1.0) * n)


def to_rotation_vector(x: ExpressionLike) -> Expression:
    """θ n (3 x 1, rad); turns beyond π are kept."""
    theta, n = _parts(x)
    return theta * n


def from_rotation_vector(phi: ExpressionLike) -> Expression:
    """(|φ|, φ/|φ|), turns beyond π are kept; (0, e_x) for φ = 0."""
    length, n = _unit(column(phi, 3, "phi"))
    return ca.vertcat(length, n)


def canonical(x: ExpressionLike) -> Expression:
    """The equal (θ, n) with θ in [0, π], |n| = 1; (0, e_x) for full turns, first non-zero entry of n positive at π."""
    theta, n = _parts(x)
    _, n = _unit(n)
    cosine, sine = ca.cos(0.5 * theta), ca.sin(0.5 * theta)
    short = from_quaternion(ca.vertcat(cosine, sine * n))
    half_turn = ca.fabs(cosine) < HALF_TURN
    full_turn = ca.fabs(sine) < HALF_TURN
    axis = ca.if_else(half_turn, quaternion.leading_sign(n) * n, short[1:])
    axis = ca.if_else(full_turn, ca.DM([1.0, 0.0, 0.0]), axis)
    return ca.vertcat(ca.if_else(half_turn, math.pi, ca.if_else(full_turn, 0.0, short[0])), axis)


def angular_velocity_map(x: ExpressionLike) -> Expression:
    """E (3 x 4) with ω = E ẋ in the body frame: ω = n θ̇ + sin θ ṅ - (1 - cos θ) n × ṅ, for n · ṅ = 0."""
    return _forward(x, -1.0)


def angular_velocity_map_world(x: ExpressionLike) -> Expression:
    """E (3 x 4) with ω = E ẋ in the world frame: ω = n θ̇ + sin θ ṅ + (1 - cos θ) n × ṅ (Hutter 2023, Eq. 2.101)."""
    return _forward(x, 1.0)


def rate_map(x: ExpressionLike) -> Expression:
    """E⁺ (4 x 3) with ẋ = E⁺ ω for the body-frame ω: θ̇ = n · ω, ṅ = (½ n^ - ½ cot(θ/2) n^ n^) ω.

    Raises `ChartSingularityError` for numbers with θ a multiple of 2π.
    """
    return _backward(x, 1.0)


def rate_map_world(x: ExpressionLike) -> Expression:
    """E⁺ (4 x 3) with ẋ = E⁺ ω for the world-frame ω: ṅ = (-½ n^ - ½ cot(θ/2) n^ n^) ω (Hutter 2023, Eq. 2.103).

    Raises `ChartSingularityError` for numbers with θ a multiple of 2π.
    """
    return _backward(x, -1.0)


def bias(x: ExpressionLike, rate: ExpressionLike) -> Expression:
    """Ė ẋ (3 x 1), the part of the world-frame ω̇ = E ẍ + Ė ẋ that is quadratic in the rates."""
    theta, n = _parts(x)
    rate = column(rate, 4, "rate")
    theta_rate, n_rate = rate[0], rate[1:]
    return theta_rate * ((1.0 + ca.cos(theta)) * n_rate + ca.sin(theta) * ca.cross(n, n_rate))


def curvature(x: ExpressionLike, rate: ExpressionLike) -> Expression:
    """The part (0, -|ṅ|² n) of ẍ that keeps the axis at unit length."""
    _, n = _parts(x)
    n_rate = column(rate, 4, "rate")[1:]
    return ca.vertcat(0.0, -ca.dot(n_rate, n_rate) * n)


def _parts(x: ExpressionLike) -> tuple[Expression, Expression]:
    x = column(x, 4, "x")
    return x[0], x[1:]


def _unit(v: Expression) -> tuple[Expression, Expression]:
    """|v| and v/|v|; (0, e_x) where |v|² vanishes, with nothing infinite on the branch that is not taken."""
    squared = ca.dot(v, v)
    zero = squared == 0.0
    length = ca.sqrt(squared + zero)
    return ca.if_else(zero, 0.0, length), ca.if_else(zero, ca.DM([1.0, 0.0, 0.0]), v / length)


def _forward(x: ExpressionLike, side: float) -> Expression:
    theta, n = _parts(x)
    half = ca.sin(0.5 * theta)
    return ca.horzcat(n, ca.sin(theta) * ca.DM.eye(3) + (side * 2.0 * half * half) * so3.hat(n))


def _backward(x: ExpressionLike, side: float) -> Expression:
    theta, n = _parts(x)
    sine = regular(ca.sin(0.5 * theta), "angle_axis", "sin(θ/2)", _REMEDY)
    cotangent = ca.cos(0.5 * theta) / sine
    skew = so3.hat(n)
    return rows((n.T,), ((0.5 * side) * skew - (0.5 * cotangent) * ca.mtimes(skew, skew),))
