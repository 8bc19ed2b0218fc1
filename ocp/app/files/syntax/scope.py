"""Names of an expression, and the functions that every expression knows, with a description of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError

SX = Any


@dataclass(frozen=True)
class Table:
    """Named entries of a vector, read as ``name["entry"]``; the bare name is the whole ``vector``.

    unavailable: entries that one might expect and that there cannot be, with the reason.
    """

    vector: SX
    entries: Mapping[str, SX]
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class VectorFunction:
    """A function of the system, such as ``position("tool")``; ``call`` takes ``count`` quoted names, or nothing.

    ``call`` may raise ValueError (for example for an unknown frame); the message is kept.
    """

    call: Callable[..., SX]
    takes_name: bool = True
    what: str = "frame"
    count: int = 1


class FollowOnError(ProblemError):
    """An expression uses a name whose own definition is wrong; that one is reported, this one need not be."""


@dataclass(frozen=True)
class Scope:
    """The scope of an expression.

    names: scalars (states, controls, constants); tables: ``q["joint"]``; functions: ``position("frame")``
    unavailable: names that exist elsewhere in the file but cannot be used here, with the reason; broken: names whose
    definition is wrong, so that using them raises FollowOnError; derivatives: ``der(state)`` by the name of the state; curves:
    tables of the file, functions of one or two numbers.
    """

    names: Mapping[str, SX] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    functions: Mapping[str, VectorFunction] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    derivatives: Mapping[str, SX] = field(default_factory=dict)
    curves: Mapping[str, Any] = field(default_factory=dict)


# ---- functions that every expression knows ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Builtin:
    """least, most: how many arguments (most None: any number); vectors: whether these may be columns; description: what it does."""

    least: int
    most: int | None
    build: Callable[..., SX]
    description: str
    vectors: bool = False


def _fold(function: Callable[[SX, SX], SX]) -> Callable[..., SX]:
    def folded(first: SX, *rest: SX) -> SX:
        for other in rest:
            first = function(first, other)
        return first

    return folded


# abs, norm and sqrt have no derivative at zero; inside costs a square or sqrt(x**2 + eps**2) is the smooth choice
BUILTINS: Mapping[str, Builtin] = MappingProxyType({
    **{name: Builtin(1, 1, getattr(ca, name), description) for name, description in (
        ("sin", "sine of an angle in radians"), ("cos", "cosine"), ("tan", "tangent"),
        ("asin", "inverse of sin, from -pi/2 to pi/2"),
        ("acos", "inverse of cos, from 0 to pi"), ("atan", "inverse of tan, from -pi/2 to pi/2"), ("sinh", "hyperbolic sine"),
        ("cosh", "hyperbolic cosine"), ("tanh", "hyperbolic tangent"), ("exp", "e to the power of"), ("log", "natural logarithm"),
        ("log10", "logarithm to the base of 10"), ("sqrt", "square root; no derivative at 0"), ("sign", "-1, 0 or 1"))},
    "abs": Builtin(1, 1, ca.fabs, "distance from 0; no derivative there"),
    "atan2": Builtin(2, 2, ca.atan2, "angle of the point (x, y): atan2(y, x)"),
    "min": Builtin(2, None, _fold(ca.fmin), "smallest of two numbers or more"),
    "max": Builtin(2, None, _fold(ca.fmax), "largest of two numbers or more"),
    "sum": Builtin(1, 1, ca.sum1, "sum of the components of a vector", vectors=True),
    "norm": Builtin(1, 1, lambda a: ca.sqrt(ca.dot(a, a)), "length of a vector; no derivative at 0", vectors=True),
    "dot": Builtin(2, 2, ca.dot, "inner product of two vectors; dot(a, a) is a sum of squares", vectors=True),
})
#: what the parser itself knows, with how it is written
SPECIAL: Mapping[str, str] = MappingProxyType({
    "if_else": "if_else(condition, a, b): a where the condition holds, else b; comparisons <, <=, >, >=, joined by and, or, not",
    "interpolate": "interpolate(x, [points], [values]): straight lines through points, level outside",
    "spline": "spline(x, [points], [values]): natural cubic spline through points, straight on outside; twice differentiable",
    "der": "der(state): time derivative of a state, in systems with 'equations'",
})
FUNCTION_NAMES = (*BUILTINS, *SPECIAL)
RESERVED_NAMES = ("t", "pi", *FUNCTION_NAMES)


# ---- functions through given points -----------------------------------------------------------------------------------
# Expressions without branches: between two points every piece is a polynomial in the argument clipped to the piece; a sum of
# them is the whole function. ``values`` has a row for every location; several columns are several functions at once.


def lines(at: SX, points: np.ndarray, values: SX) -> SX:
    """Straight lines through the points, level outside: [m, 1] of values [n, m]."""
    result = values[0, :].T
    for i, step in enumerate(np.diff(points)):
        result += (values[i + 1, :] - values[i, :]).T * ca.fmin(ca.fmax((at - points[i]) / step, 0), 1)
    return result


def spline(at: SX, points: np.ndarray, values: SX) -> SX:
    """The natural cubic spline through the points, going straight on outside: twice continuously differentiable everywhere.

    [m, 1] of values [n, m]. de Boor 2001, A Practical Guide to Splines, chapter IV (free end conditions).
    """
    h = np.diff(points)
    slopes = ca.DM(_derivatives_at(points)) @ values  # linear in the values
    result = values[0, :].T + slopes[0, :].T * ca.fmin(at - points[0], 0) + slopes[-1, :].T * ca.fmax(at - points[-1], 0)
    for i, step in enumerate(h):
        s = ca.fmin(ca.fmax(at - points[i], 0), step)
        secant = (values[i + 1, :] - values[i, :]).T / step
        first, second = slopes[i, :].T, slopes[i + 1, :].T
        result += first * s + (3 * secant - 2 * first - second) / step * s**2 + (first + second - 2 * secant) / step**2 * s**3
    return result


def _derivatives_at(points: np.ndarray) -> np.ndarray:
    """The derivatives at the points [n, n] per value: continuity of the second derivative inside, none at the ends."""
    n, h = len(points), np.diff(points)
    A, B = np.zeros((n, n)), np.zeros((n, n))
    A[0, :2], A[-1, -2:] = (2, 1), (1, 2)
    B[0, :2], B[-1, -2:] = np.array([-3, 3]) / h[0], np.array([-3, 3]) / h[-1]
    for i in range(1, n - 1):
        A[i, i - 1 : i + 2] = 1 / h[i - 1], 2 / h[i - 1] + 2 / h[i], 1 / h[i]
        B[i, i - 1 : i + 2] = -3 / h[i - 1] ** 2, 3 / h[i - 1] ** 2 - 3 / h[i] ** 2, 3 / h[i] ** 2
    found: np.ndarray = np.linalg.solve(A, B)
    return found
