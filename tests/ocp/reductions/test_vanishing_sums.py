"""Sums that vanish, stated by their factors: the same states, gradients that do not vanish, multipliers that exist."""

import casadi as ca
import numpy as np
import pytest

from ocp.app.files.load import load_text
from ocp.methods import solve
from ocp.problem import Sense
from ocp.reductions import chain_of, invert
from ocp.reductions.vanishing_sums import factors

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
