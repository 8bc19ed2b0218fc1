"""Entire functions of s = θ² behind the exponential maps, smooth through s = 0.

A closed form in θ = sqrt(s) has no usable derivative at s = 0 and loses digits close to it, so each function
is one `if_else` on s between a Taylor polynomial and the closed form. The form that is not chosen is
evaluated where it and its derivatives are finite: whether a NaN there leaks into derivatives would depend on
how automatic differentiation arranges the selection.

Where to switch. A closed form divides a difference of nearly equal numbers by s, and each derivative divides
once more, so the loss of digits just above the threshold grows with the order of the function and of the
derivative. Largest error over 0 <= s <= π² of (value, first, second derivative in s), measured against 50
digits, relative to its size at s = 0 (c3, c5) or at s (D'):

    switch at s      c3                       c5                       2 D'
    0.25             3e-15  3e-13  6e-11      2e-13  7e-11  3e-08      2e-12  3e-10  4e-08
    1                4e-16  1e-14  8e-13      8e-15  7e-13  1e-10      8e-14  4e-12  1e-10
    4                2e-16  2e-15  2e-14      9e-16  2e-14  6e-13      9e-15  1e-13  1e-12

The price of 4 over 1 is two more terms of the entire Stumpff series and six of the cotangent series, whose
nearest pole is at s = 4 π².
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import casadi as ca

from dynamics.lie.expression import Expression, ExpressionLike, scalar

THRESHOLD = 4.0
"""s = θ² below which the Stumpff and cotangent functions are evaluated by their Taylor series."""

ARCTANGENT_THRESHOLD = 1.0 / 32.0
"""tan²(θ/2) below which `rotation_angle_ratio` is evaluated by its Taylor series."""

_STUMPFF_TERMS = 12
_COTANGENT_TERMS = 18
_ARCTANGENT_TERMS = 12


def stumpff(s: ExpressionLike, top: int) -> tuple[Expression, ...]:
    """Stumpff functions c_0(s) ... c_top(s) of s = θ² >= 0, c_k(s) = Σ_j (-s)^j / (k + 2j)!.

    c_0 = cos θ, c_1 = sin θ / θ, c_2 = (1 - cos θ) / θ², c_3 = (θ - sin θ) / θ³,
    c_4 = (½ - c_2) / θ², c_5 = (1/6 - c_3) / θ².

    The two highest are evaluated, the others follow from c_k = 1/k! - s c_{k+2}, which is stable downwards.
    Those that a caller does not use leave no operation in its function.

    Source: Stumpff 1959, "Himmelsmechanik", volume 1.
    """
    s = scalar(s, "s")
    if top < 1:
        raise ValueError(f"top: expected at least 1, got {top}")
    near, far = _split(s, THRESHOLD)
    theta = ca.sqrt(far)
    closed = [ca.cos(theta), ca.sin(theta) / theta]
    for k in range(2, top + 1):
        closed.append((1.0 / math.factorial(k - 2) - closed[k - 2]) / far)
    functions: list[Expression] = [None] * (top + 1)
    for k in (top - 1, top):
        taylor = [(-1.0) ** j / math.factorial(k + 2 * j) for j in range(_STUMPFF_TERMS)]
        functions[k] = ca.if_else(near, _horner(s, taylor), closed[k])
    for k in range(top - 2, -1, -1):
        functions[k] = 1.0 / math.factorial(k) - s * functions[k + 2]
    return tuple(functions)


def stumpff_derivatives(c: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """2 dc_k/ds for k = 1, 2, 3 from c_0 ... c_5: term by term, 2 c_k' = k c_{k+2} - c_{k+1}."""
    return c[3] - c[2], 2.0 * c[4] - c[3], 3.0 * c[5] - c[4]


def half_angle(s: ExpressionLike) -> tuple[Expression, Expression]:
    """cos(θ/2) and sin(θ/2)/θ of s = θ²."""
    cosine, ratio = stumpff(0.25 * scalar(s, "s"), 1)
    return cosine, 0.5 * ratio


def cotangent(s: ExpressionLike) -> tuple[Expression, Expression]:
    """k = (θ/2) cot(θ/2) and D = (1 - k) / θ² of s = θ², for θ < 2π.

    D = 1/θ² - (1 + cos θ) / (2 θ sin θ) is the quadratic coefficient of the inverse Jacobians of SO(3). The
    half angle keeps it regular at θ = π, where the form with sin θ is 0/0; the pole at θ = 2π is its own.
    """
    k, quadratic, _, _ = cotangent_with_derivatives(s)
    return k, quadratic


def cotangent_with_derivatives(s: ExpressionLike) -> tuple[Expression, Expression, Expression, Expression]:
    """k, D (see `cotangent`), 2 dk/ds and 2 dD/ds of s = θ², for θ < 2π.

    2 D' = (k + (θ/2)² / sin²(θ/2) - 2) / θ⁴, from dk/ds = (k - (θ/2)² / sin²(θ/2)) / (2s).
    """
    s = scalar(s, "s")
    near, far = _split(s, THRESHOLD)
    half = 0.5 * ca.sqrt(far)
    ratio = half / ca.sin(half)
    closed_k = ratio * ca.cos(half)
    taylor = _COTANGENT[:_COTANGENT_TERMS]
    taylor_slope = [2.0 * j * _COTANGENT[j] for j in range(1, _COTANGENT_TERMS + 1)]
    quadratic = ca.if_else(near, _horner(s, taylor), (1.0 - closed_k) / far)
    closed_slope = (closed_k + ratio * ratio - 2.0) / (far * far)
    quadratic_slope = ca.if_else(near, _horner(s, taylor_slope), closed_slope)
    return 1.0 - s * quadratic, quadratic, -2.0 * quadratic - s * quadratic_slope, quadratic_slope


def rotation_angle_ratio(w: ExpressionLike, n_squared: ExpressionLike) -> Expression:
    """θ / n with tan(θ/2) = n / w, θ in [0, π] up to the sign of w, for n = sqrt(n_squared) >= 0.

    Homogeneous of degree -1 in (w, n), so a quaternion need not be normalised, and odd in w, so that q and -q
    give one rotation vector. At w = 0 the sign is that of w > 0. NaN at w = n = 0.
    """
    w, n_squared = scalar(w, "w"), scalar(n_squared, "n_squared")
    near = n_squared < ARCTANGENT_THRESHOLD * w * w
    sign = ca.if_else(w < 0.0, -1.0, 1.0)
    near_w = ca.if_else(near, w, 1.0)
    n = ca.sqrt(n_squared + near)
    taylor = [2.0 * (-1.0) ** j / (2 * j + 1) for j in range(_ARCTANGENT_TERMS)]
    small = _horner(n_squared / (near_w * near_w), taylor) / near_w
    return ca.if_else(near, small, 2.0 * sign * ca.atan2(n, sign * w) / n)


def _split(s: Expression, threshold: float) -> tuple[Expression, Expression]:
    """Whether s is below the threshold, and an argument that equals s where it is not and is never near 0.

    Adding keeps a NaN in s a NaN, which `fmax` would swallow.
    """
    near = s < threshold
    return near, s + threshold * near


def _horner(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Σ_j coefficients[j] x^j."""
    value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = coefficient + x * value
    return value


def _bernoulli(count: int) -> list[Fraction]:
    """B_0 ... B_{count-1}, from Σ_{j<=m} binomial(m + 1, j) B_j = 0."""
    numbers = [Fraction(1)]
    for m in range(1, count):
        numbers.append(-sum((math.comb(m + 1, j) * numbers[j] for j in range(m)), Fraction(0)) / (m + 1))
    return numbers


# D(s) = Σ_{j>=1} |B_2j| s^(j-1) / (2j)!, from the series of cot (Abramowitz and Stegun 1964, 4.3.70) at θ/2.
_COTANGENT = tuple(
    float(abs(number) / math.factorial(2 * j))
    for j, number in enumerate(_bernoulli(2 * _COTANGENT_TERMS + 3)[::2])
    if j > 0
)
