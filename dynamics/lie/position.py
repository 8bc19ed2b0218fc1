"""Positions in Cartesian, cylindrical and spherical coordinates, with rate maps and their inverses.

Cartesian r = (x, y, z); cylindrical (ρ, θ, z), r = (ρ cos θ, ρ sin θ, z); spherical (r, θ, φ) with the azimuth θ
and the polar angle φ from the z axis, r = r (cos θ sin φ, sin θ sin φ, cos φ). Metres and radians. Unique ranges:
ρ, r >= 0, θ in [-π, π), φ in [0, π].

On the z axis the azimuth is not determined: `from_cartesian` returns 0 for it there (and φ = 0 at the origin), with
derivatives NaN; maps to rates raise `ChartSingularityError` for numbers and yield inf or NaN in a graph.
Source: Hutter et al. 2023, "Robot dynamics lecture notes", Eqs. 2.3-2.17.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import casadi as ca

from dynamics.errors import near
from dynamics.lie import so2
from dynamics.lie.expression import Expression, ExpressionLike, column, regular, rows

Map = Callable[[Expression], Expression]

_REMEDY = "the azimuth has no rate there, use Cartesian coordinates"


@dataclass(frozen=True)
class PositionChart:
    """One parameterisation of positions, χ (3 x 1)."""

    name: str
    components: tuple[str, str, str]
    to_cartesian: Map
    from_cartesian: Map
    canonical: Map
    velocity: Map
    """E (3 x 3): ṙ = E χ̇."""
    rate: Map
    """E⁻¹ (3 x 3)."""
    bias: Callable[[Expression, Expression], Expression]
    """χ, χ̇ -> Ė χ̇ (3 x 1)."""


def _identity(x: Expression) -> Expression:
    return x


def _cylindrical_to(x: Expression) -> Expression:
    return ca.vertcat(x[0] * ca.cos(x[1]), x[0] * ca.sin(x[1]), x[2])


def _cylindrical_from(r: Expression) -> Expression:
    return ca.vertcat(ca.sqrt(r[0] * r[0] + r[1] * r[1]), so2.wrap_below(ca.atan2(r[1], r[0])), r[2])


def _cylindrical_canonical(x: Expression) -> Expression:
    mirrored = x[0] < 0.0
    return ca.vertcat(ca.fabs(x[0]), so2.wrap_below(x[1] + math.pi * mirrored), x[2])


def _cylindrical_velocity(x: Expression) -> Expression:
    sine, cosine = ca.sin(x[1]), ca.cos(x[1])
    return rows((cosine, -x[0] * sine, 0.0), (sine, x[0] * cosine, 0.0), (0.0, 0.0, 1.0))


def _cylindrical_rate(x: Expression) -> Expression:
    radius = regular(x[0], "cylindrical", "ρ", _REMEDY)
    sine, cosine = ca.sin(x[1]), ca.cos(x[1])
    return rows((cosine, sine, 0.0), (-sine / radius, cosine / radius, 0.0), (0.0, 0.0, 1.0))


def _cylindrical_bias(x: Expression, rate: Expression) -> Expression:
    sine, cosine = ca.sin(x[1]), ca.cos(x[1])
    inward, around = -x[0] * rate[1] * rate[1], 2.0 * rate[0] * rate[1]
    return ca.vertcat(inward * cosine - around * sine, inward * sine + around * cosine, 0.0)


def _spherical_to(x: Expression) -> Expression:
    return x[0] * _directions(x)[0]


def _spherical_from(r: Expression) -> Expression:
    planar = r[0] * r[0] + r[1] * r[1]
    polar = ca.atan2(ca.sqrt(planar), r[2])
    return ca.vertcat(ca.sqrt(planar + r[2] * r[2]), so2.wrap_below(ca.atan2(r[1], r[0])), polar)


def _spherical_canonical(x: Expression) -> Expression:
    """A negative radius is the antipode, a polar angle outside [0, π] the other side of the axis."""
    opposite = x[0] < 0.0
    polar = so2.wrap_below(ca.if_else(opposite, math.pi - x[2], x[2]))
    other_side = polar < 0.0
    azimuth = x[1] + math.pi * opposite + math.pi * other_side
    return ca.vertcat(ca.fabs(x[0]), so2.wrap_below(azimuth), ca.fabs(polar))


def _spherical_velocity(x: Expression) -> Expression:
    radial, along, down = _directions(x)
    return ca.horzcat(radial, (x[0] * ca.sin(x[2])) * along, x[0] * down)


def _spherical_rate(x: Expression) -> Expression:
    radial, along, down = _directions(x)
    radius = regular(x[0], "spherical", "r", "the angles have no rate at the origin, use Cartesian coordinates")
    sine = regular(ca.sin(x[2]), "spherical", "sin φ", _REMEDY)
    regular(radius * sine, "spherical", "r sin φ", _REMEDY)
    return ca.vertcat(radial.T, along.T / (radius * sine), down.T / radius)


def _spherical_bias(x: Expression, rate: Expression) -> Expression:
    radial, along, down = _directions(x)
    r, sine, cosine = x[0], ca.sin(x[2]), ca.cos(x[2])
    dr, spin, tilt = rate[0], rate[1], rate[2]
    outward = -r * (tilt * tilt + spin * spin * sine * sine)
    around = 2.0 * spin * (dr * sine + r * tilt * cosine)
    downward = 2.0 * dr * tilt - r * spin * spin * sine * cosine
    return outward * radial + around * along + downward * down


CHARTS: Mapping[str, PositionChart] = {
    chart.name: chart
    for chart in (
        PositionChart(
            "cartesian", ("x", "y", "z"), _identity, _identity, _identity,
            lambda x: ca.DM.eye(3), lambda x: ca.DM.eye(3), lambda x, rate: ca.DM.zeros(3),
        ),
        PositionChart(
            "cylindrical", ("rho", "azimuth", "z"), _cylindrical_to, _cylindrical_from, _cylindrical_canonical,
            _cylindrical_velocity, _cylindrical_rate, _cylindrical_bias,
        ),
        PositionChart(
            "spherical", ("r", "azimuth", "polar"), _spherical_to, _spherical_from, _spherical_canonical,
            _spherical_velocity, _spherical_rate, _spherical_bias,
        ),
    )
}  # fmt: skip
"""The charts by name."""


def chart(kind: str) -> PositionChart:
    """The chart of that name; `ValueError` with near misses for another one."""
    if kind not in CHARTS:
        raise ValueError(f"no position parameterisation named {kind!r}{near(kind, CHARTS)}")
    return CHARTS[kind]


def to_cartesian(kind: str, x: ExpressionLike) -> Expression:
    """r (3 x 1, m) of the coordinates χ."""
    return chart(kind).to_cartesian(column(x, 3, "x"))


def from_cartesian(kind: str, r: ExpressionLike) -> Expression:
    """Coordinates χ (3 x 1) in the unique ranges of a position r (3 x 1, m)."""
    return chart(kind).from_cartesian(column(r, 3, "r"))


def convert(x: ExpressionLike, source: str, target: str) -> Expression:
    """The coordinates of `target` of the point with the coordinates x of `source`."""
    if source == target:
        chart(source)
        return column(x, 3, "x")
    return from_cartesian(target, to_cartesian(source, x))


def canonical(kind: str, x: ExpressionLike) -> Expression:
    """The coordinates of the same point in the unique ranges, for angles of any size and radii of any sign."""
    return chart(kind).canonical(column(x, 3, "x"))


def velocity_map(kind: str, x: ExpressionLike) -> Expression:
    """E (3 x 3) with ṙ = E χ̇. det E is 1, ρ or -r² sin φ."""
    return chart(kind).velocity(column(x, 3, "x"))


def rate_map(kind: str, x: ExpressionLike) -> Expression:
    """E⁻¹ (3 x 3) with χ̇ = E⁻¹ ṙ; `ChartSingularityError` for numbers on the axis or at the origin."""
    return chart(kind).rate(column(x, 3, "x"))


def acceleration(kind: str, x: ExpressionLike, rate: ExpressionLike, second: ExpressionLike) -> Expression:
    """r̈ (3 x 1, m/s²) = E χ̈ + Ė χ̇."""
    entry, x = chart(kind), column(x, 3, "x")
    return ca.mtimes(entry.velocity(x), column(second, 3, "second")) + entry.bias(x, column(rate, 3, "rate"))


def second_rate(kind: str, x: ExpressionLike, rate: ExpressionLike, acceleration: ExpressionLike) -> Expression:
    """χ̈ (3 x 1) = E⁻¹ (r̈ - Ė χ̇); `ChartSingularityError` as `rate_map`."""
    entry, x = chart(kind), column(x, 3, "x")
    free = column(acceleration, 3, "acceleration") - entry.bias(x, column(rate, 3, "rate"))
    return ca.mtimes(entry.rate(x), free)


def homogeneous(r: ExpressionLike) -> Expression:
    """(r, 1), 4 x 1: homogeneous coordinates of a point."""
    return ca.vertcat(column(r, 3, "r"), 1.0)


def from_homogeneous(r: ExpressionLike) -> Expression:
    """The point (3 x 1) of homogeneous coordinates (4 x 1) with a last entry other than 0."""
    r = column(r, 4, "r")
    return r[:3] / r[3]


def _directions(x: Expression) -> tuple[Expression, ...]:
    """Unit vectors of growing r, θ and φ."""
    sine, cosine = ca.sin(x[1]), ca.cos(x[1])
    tilt, level = ca.sin(x[2]), ca.cos(x[2])
    radial = ca.vertcat(cosine * tilt, sine * tilt, level)
    return radial, ca.vertcat(-sine, cosine, 0.0), ca.vertcat(cosine * level, sine * level, -tilt)
