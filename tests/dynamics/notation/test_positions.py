"""Position parameterisations: conversions, rate maps, second order, ranges, singular points."""

import casadi as ca
import numpy as np
import pytest
from arrays import close, column, number

from dynamics.errors import ChartSingularityError
from dynamics.lie import position

KINDS = list(position.CHARTS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def points():
    return np.random.default_rng(61).normal(size=(12, 3))


@pytest.mark.row("001:K02", "001:K03", "001:K04")
def test_coordinates_as_printed():
    close(column(position.to_cartesian("cartesian", [1.0, -2.0, 3.0])), [1.0, -2.0, 3.0], 0)
    rho, theta, z = 2.0, 0.7, -0.4
    close(column(position.to_cartesian("cylindrical", [rho, theta, z])), [rho * np.cos(theta), rho * np.sin(theta), z])
    r, azimuth, polar = 1.5, -2.0, 0.6
    expected = r * np.array([np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)])
    close(column(position.to_cartesian("spherical", [r, azimuth, polar])), expected)
    # a polar angle, not an elevation: 0 is along +z
    close(column(position.to_cartesian("spherical", [2.0, 0.3, 0.0])), [0, 0, 2.0])
    assert position.chart("spherical").components == ("r", "azimuth", "polar")


@pytest.mark.row("001:K05")
@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_every_pair_keeps_the_point(source, target):
    for r in points():
        x = position.from_cartesian(source, r)
        y = position.convert(x, source, target)
        close(column(position.to_cartesian(target, y)), r)
        close(column(position.canonical(target, y)), column(y), 1e-15)
        close(column(position.convert(y, target, source)), column(x))


@pytest.mark.row("001:K02", "001:K03", "001:K04", "001:K05")
@every_kind
def test_rate_maps_are_the_jacobians_of_the_coordinates(kind):
    x, r = ca.SX.sym("x", 3), ca.SX.sym("r", 3)
    forward = ca.Function("f", [x], [ca.jacobian(position.to_cartesian(kind, x), x)])
    backward = ca.Function("b", [r], [ca.jacobian(position.from_cartesian(kind, r), r)])
    for point in points():
        chi = column(position.from_cartesian(kind, point))
        e, inverse = number(position.velocity_map(kind, chi)), number(position.rate_map(kind, chi))
        close(e, number(forward(chi)))
        close(inverse, number(backward(point)))
        close(e @ inverse, np.eye(3))
        determinant = {"cartesian": 1.0, "cylindrical": chi[0], "spherical": -chi[0] ** 2 * np.sin(chi[2])}[kind]
        assert np.linalg.det(e) == pytest.approx(determinant, rel=1e-12)


@pytest.mark.row("001:K05")
@every_kind
def test_rates_and_second_rates_along_a_path(kind):
    """χ(t) of a curve differentiated in t, against E⁻¹ ṙ and E⁻¹ (r̈ - Ė χ̇)."""
    t = ca.SX.sym("t")
    r = ca.vertcat(0.6 + ca.sin(t), 0.3 * t - 0.8, ca.cos(2 * t) - 0.2)
    chi = position.from_cartesian(kind, r)
    curves = []
    for value in (r, chi):
        first = ca.jacobian(value, t)
        curves += [value, first, ca.jacobian(first, t)]
    r0, r1, r2, x0, x1, x2 = (column(v) for v in ca.Function("c", [t], curves)(0.4))
    close(number(position.velocity_map(kind, x0)) @ x1, r1)
    close(number(position.rate_map(kind, x0)) @ r1, x1)
    close(column(position.acceleration(kind, x0, x1, x2)), r2, 1e-12)
    close(column(position.second_rate(kind, x0, x1, r2)), x2, 1e-12)
    close(column(position.to_cartesian(kind, x0)), r0)


@pytest.mark.row("001:K03", "001:K04")
@pytest.mark.parametrize("kind", ["cylindrical", "spherical"])
def test_canonical_coordinates_are_unique(kind):
    for x in np.random.default_rng(62).uniform(-9, 9, size=(40, 3)):
        reduced = column(position.canonical(kind, x))
        r = column(position.to_cartesian(kind, x))
        close(column(position.to_cartesian(kind, reduced)), r, 1e-13)
        close(reduced, column(position.from_cartesian(kind, r)), 1e-13)
        assert reduced[0] >= 0.0
        assert -np.pi <= reduced[1] < np.pi
        assert kind == "cylindrical" or 0.0 <= reduced[2] <= np.pi


@pytest.mark.row("001:K03", "001:K04")
@pytest.mark.parametrize(
    ("kind", "x", "quantity"),
    [
        ("cylindrical", [0.0, 0.3, 1.0], "ρ"),
        ("spherical", [0.0, 0.3, 1.0], "r"),
        ("spherical", [2.0, 0.3, 0.0], "sin φ"),
        ("spherical", [2.0, 0.3, np.pi], "sin φ"),
    ],
)
def test_axis_and_origin_are_named_errors_for_numbers(kind, x, quantity):
    with pytest.raises(ChartSingularityError, match=f"{kind}: singular, {quantity} = ") as caught:
        position.rate_map(kind, x)
    assert (caught.value.chart, caught.value.quantity) == (kind, quantity)
    with pytest.raises(ChartSingularityError):
        position.second_rate(kind, x, np.ones(3), np.ones(3))
    assert np.linalg.det(number(position.velocity_map(kind, x))) == pytest.approx(0.0, abs=1e-15)
    s = ca.SX.sym("x", 3)
    entries = number(ca.Function("e", [s], [position.rate_map(kind, s)])(x))
    assert not np.isfinite(entries).all() or np.abs(entries).max() > 1e15
    # the point itself has coordinates, with azimuth 0
    r = column(position.to_cartesian(kind, x))
    on_axis = np.array([0.0, 0.0, round(r[2], 12)])
    back = column(position.from_cartesian(kind, on_axis))
    assert back[1] == 0.0
    close(column(position.to_cartesian(kind, back)), on_axis, 1e-15)


@pytest.mark.row("001:K05")
def test_unknown_charts_are_errors_with_near_misses():
    with pytest.raises(ValueError, match="did you mean 'spherical'"):
        position.to_cartesian("sperical", np.ones(3))
    with pytest.raises(ValueError, match=r"x: expected shape \(3, 1\), got \(2, 1\)"):
        position.velocity_map("spherical", np.ones(2))


@pytest.mark.row("001:K03", "001:K04")
@pytest.mark.parametrize("kind", ["cylindrical", "spherical"])
@pytest.mark.parametrize("height", [0.0, 1.5])
def test_derivatives_on_the_axis_are_not_numbers_rather_than_wrong_numbers(kind, height):
    r = ca.SX.sym("r", 3)
    jacobian = ca.Function("j", [r], [ca.jacobian(position.from_cartesian(kind, r), r)])
    assert np.isnan(number(jacobian([0.0, 0.0, height]))).any()
