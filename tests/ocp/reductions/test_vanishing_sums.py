"""Constraints that hold at extremes alone, stated by equations: the same states, gradients that do not vanish, multipliers that
exist."""

import casadi as ca
import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.methods import solve
from ocp.problem import Sense
from ocp.reductions import chain_of, invert
from ocp.reductions.vanishing_sums import extreme, factors

x, y = ca.SX.sym("x"), ca.SX.sym("y")
#: least time to y = 1 at rest is 2: full thrust for a second, and as long back
SLACK = """
name: rest as a square
system: {states: {y: '', x: ''}, controls: {u: ''}, dynamics: {y: x, x: u}}
phase:
  duration: {lower: 0.1, upper: 5, guess: 1}
  start: {y: 0, x: 0}
  bounds: {u: [-1, 1]}
  costs: [{name: time, final: t}]
  constraints: [{name: end, at: final, expression: 'EXPRESSION', SENSE: 0}]
"""


def problem(expression, sense="equal"):
    return load_text(SLACK.replace("EXPRESSION", expression).replace("SENSE", sense)).problem


def restated(given):
    return chain_of(["vanishing_sums"]).apply(given)


@pytest.mark.parametrize(("e", "zero"), [
    (x**2 + y**2, [x, y]), (x**4, [x]), (3 * x**2 + 2 * (y - 2)**2, [x, y - 2]), (x**3, [x]),
    (ca.sqrt(x**2 + (y - 1)**2), [x, y - 1]), (-(x**2) / 4, [x]), (ca.fabs(x - y) + x**2 * ca.exp(y), [x - y, x**2 * ca.exp(y)])])
def test_factors_vanish_where_the_sum_does(e, zero):
    found = factors(e)
    assert len(found) == len(zero)
    assert all(ca.is_equal(ca.simplify(a), ca.simplify(b), 9) for a, b in zip(found, zero, strict=True))


@pytest.mark.parametrize("e", [x**2 + y, x**2 - y**2, x * y, 1 / x, x**2 + 1 / y, x**y, x - 1, ca.sin(x), x**2 + x**3])
def test_what_says_nothing_of_its_terms_stays_whole(e):
    found, = factors(e)
    assert ca.is_equal(found, e, 9)


@pytest.mark.parametrize(("expression", "sense", "rows"), [
    ("x**2 + (y - 1)**2", "equal", 2), ("x**2 + (y - 1)**2", "upper", 2), ("-x**2 - abs(y - 1)", "lower", 2),
    ("norm([x, y - 1])", "equal", 2), ("x**2", "lower", None), ("x**2 + y - 1", "equal", None), ("-2*x", "equal", None),
    ("x", "upper", None), ("x**2 - 1", "equal", None)])
def test_rows_are_restated_where_bounds_say_that_sums_vanish(expression, sense, rows):
    given = problem(expression, sense)
    found = restated(given)
    if rows is None:
        assert found is given
        return
    c = found.phase.constraints[0]
    assert (c.size, c.sense, c.lower, c.upper) == (rows, Sense.EQUAL if sense == "equal" else c.sense, (0.0,) * rows, (0.0,) * rows)
    point = [1.0, [1.0, 0.0], [0.3], []]
    assert np.allclose(np.asarray(c.function(*point)), 0)
    assert np.linalg.matrix_rank(np.asarray(c.function.jacobian()(*point, 0)[1])) == rows


def test_integrals_stay():
    given = load_text(SLACK.replace("at: final, expression: 'EXPRESSION', SENSE: 0",
                                    "at: integral, expression: x**2, upper: 0")).problem
    assert restated(given) is given


@pytest.mark.parametrize(("expression", "sense"), [("x**2 + (y - 1)**2", "equal"), ("norm([x, y - 1])", "upper")])
def test_the_minimum_is_certified_and_handed_back_as_stated(expression, sense):
    given = problem(expression, sense)
    found = solve(given)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(2.0, abs=1e-6)
    assert found.problem.phase.constraints == given.phase.constraints
    assert invert(found) is found


#: turned upside down by hand: with om = 0 at the end the least effort is 12 a^2 over an angle a in a second
TURNED = """
name: half a turn
system: {states: {th: rad, om: rad/s}, controls: {u: rad/s^2}, dynamics: {th: om, om: u}}
phase:
  duration: 1
  start: {th: START, om: 0}
  final: {om: 0}
  costs: [{name: effort, running: u**2}]
  constraints: [{name: turned, at: final, expression: 'EXPRESSION', SENSE}]
"""


@pytest.mark.parametrize(("e", "side"), [
    (ca.cos(x), 1), (ca.cos(x), -1), (ca.sin(x), 1), (ca.sin(x), -1), (1 - 2 * ca.cos(x) / 3, -1),
    (-0.4 * ca.sin(x - y) + x**2, -1),
    (0.7 * ca.cos(x) + 0.3 * ca.cos(x + y), 1), (ca.cos(x) - ca.cos(x + 2 * y), -1)])
def test_extremes_are_those_of_a_dense_grid_and_are_taken_where_the_equations_hold(e, side):
    value, equations = extreme(e, side)
    both = ca.Function("both", [x, y], [e, ca.vertcat(*equations)])
    grid = np.linspace(-2 * np.pi, 2 * np.pi, 401)  # multiples of pi/100: roots are among its points
    a, b = (own.ravel() for own in np.meshgrid(grid, grid))
    values, missed = (np.asarray(own) for own in both.map(len(a))(a[None, :], b[None, :]))
    away = side * (value - values.ravel())
    assert np.all(away >= -1e-12)
    if abs(away).min() < 1e-12:
        assert np.array_equal(away < 1e-12, np.abs(missed).max(axis=0) < 1e-9)


@pytest.mark.parametrize("e", [ca.cos(x) + x, x * ca.cos(y), ca.cos(x)**2 * ca.sin(y), ca.exp(-x)])
def test_what_shows_no_largest_value_has_none(e):
    assert extreme(e, 1) is None


@pytest.mark.parametrize(("start", "expression", "sense", "angle"), [
    ("0", "cos(th)", "equal: -1", np.pi), ("0.5", "cos(th)", "upper: -1", np.pi - 0.5),
    ("-1", "sin(th) + 1", "equal: 0", np.pi / 2 - 1),
    ("4", "-2*cos(th)", "upper: -2", 2 * np.pi - 4)])
def test_isolated_roots_without_slope_are_reached_from_the_guess(start, expression, sense, angle):
    given = load_text(TURNED.replace("START", start).replace("EXPRESSION", expression).replace("SENSE", sense)).problem
    found = solve(given)
    assert found.ok, found.certificate.failures
    assert found.objective == pytest.approx(12 * angle**2, rel=1e-6)
    assert found.freeze["guess"] == "given"
    assert found.problem.phase.constraints == given.phase.constraints


def test_the_end_of_a_stretched_arm_is_led_to_the_nearest_root():
    arm = TURNED.replace("START", "0").replace("EXPRESSION", "-0.5*cos(th) - 0.5*cos(th + om)").replace("SENSE", "equal: 1")
    given = load_text(arm.replace("final: {om: 0}", "final: {}")).problem
    assert np.allclose(restated(given).phase.guess.x[-1], [np.pi, 0.0])
