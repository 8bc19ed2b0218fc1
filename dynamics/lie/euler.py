"""Euler angles: all twelve sequences of three turns about the moving axes, one table, one set of formulas.

The angles χ = (α, β, γ), 3 x 1, rad, are stored in the order of the sequence: R = R_i(α) R_j(β) R_k(γ) for the
sequence ijk, so that "zyx" is (yaw, pitch, roll), `rpy` read backwards. Sequences with i, j, k all different are
Tait-Bryan angles with β in [-π/2, π/2], singular at cos β = 0; those with k = i are proper Euler angles with β in
[0, π], singular at sin β = 0. α and γ are in [-π, π). β = π/2 belongs to the range, as no other β gives those
rotations.

At the singularity only α + γ or α - γ is determined. `from_matrix` and `from_quaternion` then still return angles
of the given rotation, but their derivatives are NaN; `from_matrix_numeric` returns γ = 0. Maps to rates raise
`ChartSingularityError` for numbers there, and yield inf or NaN in a graph.

With l the axis that is not i nor j, and the sign s in e_i × e_j = s e_l, every sequence is one of two formulas.
Source: Hutter et al. 2023, "Robot dynamics lecture notes", Eqs. 2.32-2.45 and 2.83-2.93 for four of the
sequences; Bernardes and Viollet 2022, "Quaternion to Euler angles conversion", for quaternions.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.errors import near
from dynamics.lie import quaternion, rotation_matrix, so2
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix, regular


@dataclass(frozen=True)
class Sequence:
    """Axes of the three turns (0, 1, 2 for x, y, z): first i, second j, and l, the one that is neither."""

    name: str
    i: int
    j: int
    l: int
    sign: float
    """s in e_i × e_j = s e_l."""
    proper: bool
    """Third axis equal to the first; otherwise it is l."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the angles: "z", "y", "x", or "z1", "y", "z2"."""
        first, second, third = self.name[0], self.name[1], self.name[2]
        return (first + "1", second, third + "2") if self.proper else (first, second, third)


def _sequence(name: str) -> Sequence:
    i, j, k = ("xyz".index(letter) for letter in name)
    return Sequence(name, i, j, 3 - i - j, 1.0 if (j - i) % 3 == 1 else -1.0, proper=i == k)


SEQUENCES = {
    name: _sequence(name)
    for name in ("zyx", "xyz", "zyz", "zxz", "xzy", "yxz", "yzx", "zxy", "xyx", "xzx", "yxy", "yzy")
}
"""The twelve sequences by name."""

ZYX, XYZ, ZYZ, ZXZ = (SEQUENCES[name] for name in ("zyx", "xyz", "zyz", "zxz"))


def sequence(name: str | Sequence) -> Sequence:
    """The sequence of that name, lower case; `ValueError` with near misses for another one."""
    if isinstance(name, Sequence):
        return name
    if name not in SEQUENCES:
        raise ValueError(f"no Euler sequence named {name!r}{near(name, SEQUENCES)}")
    return SEQUENCES[name]


def to_matrix(kind: str | Sequence, angles: ExpressionLike) -> Expression:
    """Rotation matrix R_i(α) R_j(β) R_k(γ) (3 x 3)."""
    q, (sa, sb, sc), (ca_, cb, cc) = _trigonometry(kind, angles)
    s = q.sign
    # the columns are those of R_i(α) R_j(β) turned about its third axis by γ
    along = {q.i: cb, q.j: sa * sb, q.l: -s * sb * ca_}  # R_i R_j e_i
    middle = {q.i: ca.DM(0.0), q.j: ca_, q.l: s * sa}  # R_i R_j e_j
    last = {q.i: s * sb, q.j: -s * sa * cb, q.l: ca_ * cb}  # R_i R_j e_l
    if q.proper:  # about e_i: e_j -> cos γ e_j + s sin γ e_l, e_l -> cos γ e_l - s sin γ e_j
        columns = {
            q.i: along,
            q.j: {m: cc * middle[m] + (s * sc) * last[m] for m in range(3)},
            q.l: {m: cc * last[m] - (s * sc) * middle[m] for m in range(3)},
        }
    else:  # about e_l: e_i -> cos γ e_i + s sin γ e_j, e_j -> cos γ e_j - s sin γ e_i
        columns = {
            q.i: {m: cc * along[m] + (s * sc) * middle[m] for m in range(3)},
            q.j: {m: cc * middle[m] - (s * sc) * along[m] for m in range(3)},
            q.l: last,
        }
    return ca.horzcat(*(ca.vertcat(*(columns[k][m] for m in range(3))) for k in range(3)))


def from_matrix(kind: str | Sequence, rotation: ExpressionLike) -> Expression:
    """Angles (3 x 1) of a rotation matrix, in the unique ranges.

    β and γ are read from R_i(-α) R, so that the three angles belong together also next to the singularity.
    """
    q = sequence(kind)
    r = matrix(rotation, 3, 3, "rotation")
    if q.proper:
        alpha = ca.atan2(r[q.j, q.i], -q.sign * r[q.l, q.i])
    else:
        alpha = ca.atan2(-q.sign * r[q.j, q.l], r[q.l, q.l])
    return _with_first(q, r, alpha)


def from_matrix_numeric(kind: str | Sequence, rotation: ArrayLike) -> NDArray[np.float64]:
    """Angles (3,) of a numeric rotation matrix, with γ = 0 at the singularity (divisor below `SINGULAR`).

    `ValueError` when the matrix is no rotation to 1e-9.
    """
    q = sequence(kind)
    r = rotation_matrix.checked(rotation)
    third = r[:, q.i if q.proper else q.l]
    if math.hypot(third[q.j], third[q.l]) >= 1e-12:
        return from_matrix(q, r).full().ravel()
    alpha = math.atan2(q.sign * r[q.l, q.j], r[q.j, q.j])
    return np.append(_with_first(q, ca.DM(r), ca.DM(alpha)).full().ravel()[:2], 0.0)


def to_quaternion(kind: str | Sequence, angles: ExpressionLike) -> Expression:
    """Unit quaternion (w, x, y, z) of the angles, in closed form; continuous in them, so that w may be negative."""
    q = sequence(kind)
    half = 0.5 * column(angles, 3, "angles")
    parts: dict[int, Expression] = {}
    if q.proper:
        sine, cosine = ca.sin(half[1]), ca.cos(half[1])
        mean, difference = half[0] + half[2], half[0] - half[2]
        w = cosine * ca.cos(mean)
        parts[q.i], parts[q.j] = cosine * ca.sin(mean), sine * ca.cos(difference)
        parts[q.l] = q.sign * sine * ca.sin(difference)
    else:
        sa, sb, sc = (ca.sin(half[m]) for m in range(3))
        ca_, cb, cc = (ca.cos(half[m]) for m in range(3))
        w = ca_ * cb * cc - q.sign * sa * sb * sc
        parts[q.i] = sa * cb * cc + q.sign * ca_ * sb * sc
        parts[q.j] = ca_ * sb * cc - q.sign * sa * cb * sc
        parts[q.l] = ca_ * cb * sc + q.sign * sa * sb * cc
    return ca.vertcat(w, *(parts[m] for m in range(3)))


def from_quaternion(kind: str | Sequence, q: ExpressionLike) -> Expression:
    """Angles (3 x 1) of a quaternion (w, x, y, z) of any sign and length, in the unique ranges.

    Proper Euler angles by half sum and half difference of the outer ones (Bernardes and Viollet 2022). Tait-Bryan
    angles by the matrix: a quarter turn about e_j would make them proper, but costs the small angles their digits next
    to the identity.
    """
    entry = sequence(kind)
    q = column(q, 4, "q")
    if not entry.proper:
        return from_matrix(entry, quaternion.to_matrix(q))
    a, b, c, d = q[0], q[1 + entry.i], q[1 + entry.j], entry.sign * q[1 + entry.l]
    mean, difference = ca.atan2(b, a), ca.atan2(d, c)
    beta = 2.0 * ca.atan2(ca.sqrt(c * c + d * d), ca.sqrt(a * a + b * b))
    return ca.vertcat(so2.wrap_below(mean + difference), beta, so2.wrap_below(mean - difference))


def canonical(kind: str | Sequence, angles: ExpressionLike) -> Expression:
    """The angles of the same rotation in the unique ranges, for angles of any size; not unique at the singularity."""
    q = sequence(kind)
    x = column(angles, 3, "angles")
    beta = so2.wrap_below(x[1])
    if q.proper:
        beyond, mirrored = beta < 0.0, ca.if_else(beta == -math.pi, math.pi, -beta)
    else:
        beyond = ca.fabs(beta) > 0.5 * math.pi
        mirrored = ca.if_else(beta < 0.0, -math.pi, math.pi) - beta
    shift = math.pi * beyond
    return ca.vertcat(so2.wrap_below(x[0] + shift), ca.if_else(beyond, mirrored, beta), so2.wrap_below(x[2] + shift))


def angular_velocity_map(kind: str | Sequence, angles: ExpressionLike) -> Expression:
    """E (3 x 3) with ω = E χ̇ in the body frame; its columns are the three axes of rotation in that frame."""
    q, first, middle, _ = _body_axes(kind, angles)
    return ca.horzcat(first, middle, _unit(q.i if q.proper else q.l))


def angular_velocity_map_world(kind: str | Sequence, angles: ExpressionLike) -> Expression:
    """E (3 x 3) with ω = E χ̇ in the world frame (Hutter 2023, Eqs. 2.86, 2.88, 2.90, 2.92).

    det E = s cos β for Tait-Bryan angles, -sin β for proper Euler angles.
    """
    q, middle, last, _ = _world_axes(kind, angles)
    return ca.horzcat(_unit(q.i), middle, last)


def rate_map(kind: str | Sequence, angles: ExpressionLike) -> Expression:
    """E⁻¹ (3 x 3) with χ̇ = E⁻¹ ω for the body-frame ω; `ChartSingularityError` for numbers at the singularity."""
    q, first, middle, divisor = _body_axes(kind, angles)
    third = _unit(q.i if q.proper else q.l)
    tilted, square, upright = _inverse_rows(q, third, middle, first, -divisor)
    return ca.vertcat(tilted, square, upright)


def rate_map_world(kind: str | Sequence, angles: ExpressionLike) -> Expression:
    """E⁻¹ (3 x 3) with χ̇ = E⁻¹ ω for the world-frame ω; `ChartSingularityError` for numbers at the singularity."""
    q, middle, last, divisor = _world_axes(kind, angles)
    tilted, square, upright = _inverse_rows(q, _unit(q.i), middle, last, divisor)
    return ca.vertcat(upright, square, tilted)


def bias(kind: str | Sequence, angles: ExpressionLike, rate: ExpressionLike) -> Expression:
    """Ė χ̇ (3 x 1), the part of the world-frame ω̇ = E χ̈ + Ė χ̇ that is quadratic in the rates.

    The second axis turns with the first rate, the third with the first two.
    """
    q, middle, last, _ = _world_axes(kind, angles)
    rate = column(rate, 3, "rate")
    carried = rate[0] * _unit(q.i)
    return rate[1] * ca.cross(carried, middle) + rate[2] * ca.cross(carried + rate[1] * middle, last)


class Sines(NamedTuple):
    """A sequence of axes, and sines and cosines of its three angles."""

    sequence: Sequence
    sin: tuple[Expression, ...]
    cos: tuple[Expression, ...]


def _trigonometry(
    kind: str | Sequence, angles: ExpressionLike
) -> Sines:
    x = column(angles, 3, "angles")
    return Sines(sequence(kind), tuple(ca.sin(x[m]) for m in range(3)), tuple(ca.cos(x[m]) for m in range(3)))


def _unit(axis: int) -> Expression:
    return ca.DM(np.eye(3)[axis])


def _permuted(q: Sequence, i: Expression, j: Expression, l: Expression) -> Expression:
    """Column with those components along e_i, e_j, e_l."""
    parts = {q.i: i, q.j: j, q.l: l}
    return ca.vertcat(*(parts[m] for m in range(3)))


class Axes(NamedTuple):
    """Two of the three axes of the turns [3] and (first × second) · third."""

    sequence: Sequence
    one: Expression
    other: Expression
    divisor: Expression


def _world_axes(
    kind: str | Sequence, angles: ExpressionLike
) -> Axes:
    """Second and third axis in the world frame, and (first × second) · third."""
    q, (sa, sb, _), (ca_, cb, _) = _trigonometry(kind, angles)
    s = q.sign
    middle = _permuted(q, 0.0, ca_, s * sa)
    if q.proper:
        return Axes(q, middle, _permuted(q, cb, sa * sb, -s * sb * ca_), -sb)
    return Axes(q, middle, _permuted(q, s * sb, -s * sa * cb, ca_ * cb), s * cb)


def _body_axes(
    kind: str | Sequence, angles: ExpressionLike
) -> Axes:
    """First and second axis in the body frame, and (first × second) · third."""
    q, (_, sb, sc), (_, cb, cc) = _trigonometry(kind, angles)
    s = q.sign
    if q.proper:
        return Axes(q, _permuted(q, cb, sb * sc, s * sb * cc), _permuted(q, 0.0, cc, -s * sc), -sb)
    return Axes(q, _permuted(q, cb * cc, -s * cb * sc, s * sb), _permuted(q, s * sc, cc, 0.0), s * cb)


def _inverse_rows(
    q: Sequence, upright: Expression, middle: Expression, tilted: Expression, divisor: Expression
) -> tuple[Expression, ...]:
    """Matrix that gives the rates about `tilted`, `middle` and `upright`.

    `middle` is perpendicular to both others, and n = upright × middle to all but `tilted`, with n · tilted given.
    """
    name = "sin β" if q.proper else "cos β"
    divisor = regular(divisor, f"Euler angles {q.name}", name, "two of the three axes coincide, use a quaternion there")
    row = ca.cross(upright, middle).T / divisor
    return row, middle.T, upright.T - ca.dot(upright, tilted) * row


def _with_first(q: Sequence, r: Expression, alpha: Expression) -> Expression:
    sine, cosine = ca.sin(alpha), ca.cos(alpha)
    turned = {m: cosine * r[q.j, m] + (q.sign * sine) * r[q.l, m] for m in range(3)}  # row j of R_i(-α) R
    if q.proper:
        beta = ca.atan2(sine * r[q.j, q.i] - (q.sign * cosine) * r[q.l, q.i], r[q.i, q.i])
        gamma = ca.atan2(-q.sign * turned[q.l], turned[q.j])
    else:
        beta = ca.atan2(q.sign * r[q.i, q.l], cosine * r[q.l, q.l] - (q.sign * sine) * r[q.j, q.l])
        gamma = ca.atan2(q.sign * turned[q.i], turned[q.j])
    return ca.vertcat(so2.wrap_below(alpha), beta, so2.wrap_below(gamma))
