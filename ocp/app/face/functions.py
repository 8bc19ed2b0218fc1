"""The functions of the file language as Python functions, and NumPy's that mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ocp.app.face.expression import Condition, Expr, Relation, call, described, dot, expr, joined, product, vector
from ocp.errors import ProblemError


def _unary(name: str) -> Callable[[Any], Expr]:
    def function(value: object) -> Expr:
        found = expr(value)
        if found.size not in (1, None):
            raise ProblemError(f"{name} takes a single number, but {found!r} has {found.size} components")
        return call(name, found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of an expression."
    return function


sin, cos, tan, asin, acos, atan = map(_unary, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, exp, log, log10, sqrt, sign = map(_unary, ("sinh", "cosh", "tanh", "exp", "log", "log10", "sqrt", "sign"))


def atan2(y: object, x: object) -> Expr:
    """The angle of the point (x, y)."""
    return call("atan2", y, x)


def minimum(*values: object) -> Expr:
    """The smallest of several expressions."""
    return call("min", *values)


def maximum(*values: object) -> Expr:
    """The largest of several expressions."""
    return call("max", *values)


def norm(value: object) -> Expr:
    """The Euclidean length of a vector; without derivative where it is zero."""
    return call("norm", value)


def sumsqr(value: object) -> Expr:
    """The sum of the squares of the components."""
    return dot(value, value)


def total(value: object) -> Expr:
    """The sum of the components of a vector."""
    return call("sum", value)


def if_else(condition: object, one: object, other: object) -> Expr:
    """``one`` where the condition holds (``a < b``, joined by ``&`` and ``|``), ``other`` elsewhere."""
    if not isinstance(condition, (Relation, Condition)):
        raise ProblemError(f"if_else takes a comparison such as x > 0 first; got {described(condition)}")
    return call("if_else", condition, one, other)


def interpolate(at: object, places: Iterable[object], values: Iterable[object]) -> Expr:
    """Straight lines through points, level outside them."""
    return call("interpolate", at, vector(list(places)), vector(list(values)))


def der(state: object) -> Expr:
    """The time derivative of a state, in systems with equations."""
    return call("der", state)


t = Expr("t")

UFUNCS: Mapping[str, Callable[..., Any]] = {
    **{name: globals()[name] for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log10", "sqrt", "sign")},
    "arcsin": asin, "arccos": acos, "arctan": atan, "arctan2": atan2, "minimum": minimum, "maximum": maximum, "fmin": minimum,
    "fmax": maximum, "absolute": lambda a: call("abs", a), "fabs": lambda a: call("abs", a), "negative": lambda a: -expr(a),
    "add": lambda a, b: joined(a, "+", b), "subtract": lambda a, b: joined(a, "-", b), "square": lambda a: expr(a) ** 2,
    "multiply": lambda a, b: joined(a, "*", b), "divide": lambda a, b: joined(a, "/", b),
    "true_divide": lambda a, b: joined(a, "/", b),
    "power": lambda a, b: expr(a) ** expr(b), "float_power": lambda a, b: expr(a) ** expr(b), "matmul": lambda a, b: product(a, b),
    "positive": lambda a: expr(a),
    "less": lambda a, b: Relation(a, "<", b), "less_equal": lambda a, b: Relation(a, "<=", b),
    "greater": lambda a, b: Relation(a, ">", b), "greater_equal": lambda a, b: Relation(a, ">=", b),
    "equal": lambda a, b: Relation(a, "==", b),
}
