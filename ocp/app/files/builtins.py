"""The functions that every expression of a problem file knows, with what each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import casadi as ca

SX = Any


@dataclass(frozen=True)
class Builtin:
    """least, most: how many arguments (most None: any number); vectors: whether these may be columns; words: what it does."""

    least: int
    most: int | None
    build: Callable[..., SX]
    words: str
    vectors: bool = False


def _dot(a: SX, b: SX) -> SX:
    return ca.dot(a, b)


def _norm(a: SX) -> SX:
    return ca.sqrt(ca.dot(a, a))


def _fold(function: Callable[[SX, SX], SX]) -> Callable[..., SX]:
    def folded(first: SX, *rest: SX) -> SX:
        for other in rest:
            first = function(first, other)
        return first

    return folded


# abs, norm and sqrt have no derivative at zero; inside costs a square or sqrt(x**2 + eps**2) is the smooth choice
BUILTINS: Mapping[str, Builtin] = MappingProxyType({
    **{name: Builtin(1, 1, getattr(ca, name), words) for name, words in (
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
    "norm": Builtin(1, 1, _norm, "length of a vector; no derivative at 0", vectors=True),
    "dot": Builtin(2, 2, _dot, "inner product of two vectors; dot(a, a) is a sum of squares", vectors=True),
})
#: what the parser itself knows, with how it is written
SPECIAL: Mapping[str, str] = MappingProxyType({
    "if_else": "if_else(condition, a, b): a where the condition holds, else b; comparisons <, <=, >, >=, joined by and, or, not",
    "interpolate": "interpolate(x, [places], [values]): straight lines through points, level outside",
    "spline": "spline(x, [places], [values]): natural cubic spline through points, straight on outside; twice differentiable",
    "der": "der(state): time derivative of a state, in systems with 'equations'",
})
FUNCTION_NAMES = (*BUILTINS, *SPECIAL)
RESERVED_NAMES = ("t", "pi", *FUNCTION_NAMES)
