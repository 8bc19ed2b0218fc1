"""Expressions written in Python: their text means, in the language of files, what Python's operators mean."""

import casadi as ca
import numpy as np
import pytest

import ocp
from ocp.app.face.expression import Expr, expr
from ocp.app.files.syntax.expressions import parse_vector
from ocp.app.files.syntax.scope import Scope
from ocp.errors import ProblemError

a, b, c = (Expr(name) for name in "abc")
VALUES = {"a": 0.7, "b": -1.3, "c": 2.1}


def value(text):
    """What the language of files makes of a text, at VALUES."""
    symbols = {name: ca.SX.sym(name) for name in VALUES}
    found = parse_vector(str(text), Scope(symbols), lambda offset: f"at {offset}")
    return np.asarray(ca.Function("f", list(symbols.values()), [found])(*VALUES.values())).ravel()


def random_expression(rng, depth):
    """An expression and the same written with plain numbers."""
    if depth == 0:
        name = "abc"[rng.integers(3)]
        return (Expr(name), VALUES[name]) if rng.random() < 0.7 else (n := round(rng.uniform(-3, 3), 2), n)
    (x, x_value), (y, y_value) = random_expression(rng, depth - 1), random_expression(rng, depth - 1)
    kind = rng.integers(7)
    if kind == 0:
        return x + y, x_value + y_value
    if kind == 1:
        return x - y, x_value - y_value
    if kind == 2:
        return x * y, x_value * y_value
    if kind == 3:
        return x / (y * y + 1), x_value / (y_value * y_value + 1)
    if kind == 4:
        return -x, -x_value
    if kind == 5:
        return ocp.sin(x) ** 2, np.sin(x_value) ** 2
    return (x * x + 1) ** -y, (x_value * x_value + 1) ** -y_value


@pytest.mark.parametrize("seed", range(60))
def test_text_means_what_python_means(seed):
    rng = np.random.default_rng(seed)
    found, wanted = random_expression(rng, 4)
    np.testing.assert_allclose(value(expr(found)), wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("written", "wanted"), [
    (lambda: a - (b - c), 0.7 - (-1.3 - 2.1)),
    (lambda: a / (b / c), 0.7 / (-1.3 / 2.1)),
    (lambda: (-c) ** 2, 2.1**2),
    (lambda: -(c**2), -(2.1**2)),
    (lambda: 2**c**0.5, 2 ** 2.1**0.5),
    (lambda: np.float64(2) * a - np.sin(b), 2 * 0.7 - np.sin(-1.3)),
    (lambda: sum([a, b, c]), 0.7 - 1.3 + 2.1),
    (lambda: abs(b) + np.maximum(a, b), 1.3 + 0.7),
    (lambda: np.array([1.0, 2.0, 3.0]) @ ocp.vector([a, b, c]), 0.7 - 2.6 + 6.3),
    (lambda: ocp.if_else(a > b, a, c), 0.7),
    (lambda: ocp.if_else((a > b) & (c < 0), a, c), 2.1),
    (lambda: ocp.if_else((a > b) | (c < 0), a, c), 0.7),
    (lambda: ocp.interpolate(a, [0, 1], [0, 10]), 7.0),
    (lambda: ocp.total([a, b, c]) + ocp.log10(100 * c / c), 1.5 + 2),
    (lambda: ocp.sumsqr([a, b]), 0.49 + 1.69),
])
def test_operators(written, wanted):
    np.testing.assert_allclose(value(written()), wanted, rtol=1e-12)


def test_matrix_times_vector():
    A = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 4.0]])
    np.testing.assert_allclose(value(A @ ocp.vector([a, b, c])), A @ list(VALUES.values()), rtol=1e-12)


def test_arrays_hold_expressions():
    pair = np.array([a, b])
    assert pair.shape == (2,)
    np.testing.assert_allclose(value(expr(pair @ np.array([2.0, -1.0]))), 2 * VALUES["a"] - VALUES["b"])
    np.testing.assert_allclose(value(expr(np.sum(pair))), VALUES["a"] + VALUES["b"])


def test_casadi_expressions_become_text():
    x, y, z = (ca.SX.sym(name) for name in "abc")
    for written in (ca.sin(x) * y**2 + z / (1 + x**2), ca.if_else(x > y, x, z), ca.fmax(x, y) - ca.atan2(y, z), 2 * x + ca.exp(-z)):
        wanted = float(ca.Function("f", [x, y, z], [written])(*VALUES.values()))
        np.testing.assert_allclose(value(expr(written)), wanted, rtol=1e-12)
    np.testing.assert_allclose(value(expr(ca.vertcat(x, y * z))), [0.7, -1.3 * 2.1], rtol=1e-12)


@pytest.mark.parametrize(("written", "words"), [
    (lambda: ocp.vector([a, b]) + ocp.vector([a, b, c]), "joins 2 and 3 components"),
    (lambda: ocp.vector([a, b]) * ocp.vector([a, b]), "multiplies two vectors"),
    (lambda: ocp.sin(ocp.vector([a, b])), "sin takes a single number"),
    (lambda: ocp.vector([a, b]) ** 2, "must be a single number"),
    (lambda: a + (lambda x: x), "got the function"),
    (lambda: a + None, "nothing"),
    (lambda: a + True, "comparison of plain numbers"),
    (lambda: a + float("nan"), "not a finite number"),
    (lambda: a + ca.MX.sym("x"), "MX has no text"),
    (lambda: a if a < b else b, "no truth value"),
    (lambda: 1 if 0 <= a <= 1 else 0, "lower <= x <= upper"),
    (lambda: float(a), "is not a number"),
    (lambda: a != b, "not a constraint"),
    (lambda: a["x"], "no entries by name"),
    (lambda: a[0], "single number"),
    (lambda: np.arcsinh(a), "not supported"),
    (lambda: ocp.if_else(True, a, b), "takes a comparison"),
    (lambda: len(a), "single number"),
    (lambda: ca.sin(a), "CasADi functions do not accept the expression a"),  # once an empty matrix, silently
    (lambda: ca.sumsqr(ocp.vector([a, b])), "CasADi functions do not accept"),
    (lambda: ca.vertcat(a, b), "CasADi functions do not accept"),
])
def test_mistakes_are_reported_in_words(written, words):
    with pytest.raises(ProblemError, match=words):
        written()
