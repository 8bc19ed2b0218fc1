"""Interval arithmetic: enclosures of what one operation of a scalar graph gives, for operands in intervals (Moore, Kearfott and
Cloud 2009, Introduction to Interval Analysis). Outside of its domain an operation may give anything.

An interval is a pair (low, high) of arrays [k]; bounds are rounded as numbers are, not outwards. NumPy's warnings are the
caller's to silence.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
from scipy.special import erf

Array = np.ndarray
Interval = tuple[Array, Array]

RISING: dict[int, Callable[[Array], Array]] = {
    ca.OP_EXP: np.exp,
    ca.OP_LOG: np.log,
    ca.OP_SQRT: np.sqrt,
    ca.OP_ATAN: np.arctan,
    ca.OP_TANH: np.tanh,
    ca.OP_ERF: erf,
    ca.OP_SINH: np.sinh,
    ca.OP_ASINH: np.arcsinh,
    ca.OP_ASIN: np.arcsin,
    ca.OP_ACOSH: np.arccosh,
    ca.OP_ATANH: np.arctanh,
    ca.OP_LOG1P: np.log1p,
    ca.OP_EXPM1: np.expm1,
    ca.OP_FLOOR: np.floor,
    ca.OP_CEIL: np.ceil,
    ca.OP_SIGN: np.sign,
    ca.OP_TWICE: lambda a: 2 * a,
    ca.OP_ASSIGN: lambda a: a,
    ca.OP_LIFT: lambda a: a,
}
FALLING: dict[int, Callable[[Array], Array]] = {ca.OP_NEG: np.negative, ca.OP_ACOS: np.arccos}
EVEN: dict[int, Callable[[Array], Array]] = {ca.OP_FABS: np.abs, ca.OP_SQ: np.square, ca.OP_COSH: np.cosh}


def enclosure(code: int, a: Interval, b: Interval) -> Interval:
    """Bounds of the operation ``code`` for operands a and b; b repeats a where there is one operand."""
    if code in RISING:
        return _defined(RISING[code](a[0]), RISING[code](a[1]))
    if code in FALLING:
        return _defined(FALLING[code](a[1]), FALLING[code](a[0]))
    if code in EVEN:
        return _corners(EVEN[code], a, np.where(_has_zero(a), EVEN[code](np.zeros(1)), EVEN[code](a[0])))
    found = OTHERS.get(code)
    return (np.full_like(a[0], -np.inf), np.full_like(a[0], np.inf)) if found is None else _defined(*found(a, b))


def _defined(low: Array, high: Array) -> Interval:
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _has_zero(a: Interval) -> Array:
    return np.asarray((a[0] <= 0) & (a[1] >= 0))


def _corners(of: Callable[..., Array], a: Interval, *more: Array) -> Interval:
    every = np.array([of(a[0]), of(a[1]), *more])
    return every.min(axis=0), every.max(axis=0)


def _added(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _product(a: Interval, b: Interval) -> Interval:
    every = np.array([x * y for x in a for y in b])
    every[np.isnan(every)] = 0.0  # zero times a bound that is infinite
    return every.min(axis=0), every.max(axis=0)


def _inverse(a: Interval, _: Interval) -> Interval:
    pole = _has_zero(a)
    return np.where(pole, -np.inf, 1 / a[1]), np.where(pole, np.inf, 1 / a[0])


def _cosine(a: Interval, _: Interval) -> Interval:
    low, high = _corners(np.cos, a)
    top = 2 * np.pi * np.ceil(a[0] / (2 * np.pi)) <= a[1]
    bottom = np.pi * (2 * np.ceil((a[0] / np.pi - 1) / 2) + 1) <= a[1]
    return np.where(bottom, -1.0, low), np.where(top, 1.0, high)


def _sine(a: Interval, b: Interval) -> Interval:
    low, high = _cosine((a[0] - np.pi / 2, a[1] - np.pi / 2), b)
    point = a[0] == a[1]  # as it is evaluated
    return np.where(point, np.sin(a[0]), low), np.where(point, np.sin(a[0]), high)


def _tangent(a: Interval, _: Interval) -> Interval:
    pole = np.floor(a[0] / np.pi + 0.5) != np.floor(a[1] / np.pi + 0.5)
    return np.where(pole, -np.inf, np.tan(a[0])), np.where(pole, np.inf, np.tan(a[1]))


def _power(a: Interval, b: Interval) -> Interval:
    """Of a base that is not negative, by its corners; of any base, where the exponent is a whole number."""
    every = np.array([x**y for x in a for y in b])
    low, high = every.min(axis=0), every.max(axis=0)
    whole, zero = (b[0] == b[1]) & (b[0] == np.round(b[0])), _has_zero(a)
    low, high = (np.where(zero & (b[0] > 0), edge(bound, 0.0), bound) for edge, bound in ((np.minimum, low), (np.maximum, high)))
    anything = np.where(whole, zero & (b[0] < 0), (a[0] < 0) | (zero & (b[0] < 0)))
    point = (a[0] == a[1]) & (b[0] == b[1])
    return np.where(anything & ~point, -np.inf, low), np.where(anything & ~point, np.inf, high)


def _truth(a: Interval) -> Interval:
    return 1.0 - _has_zero(a), 1.0 - ((a[0] == 0) & (a[1] == 0))


def _not(a: Interval) -> Interval:
    low, high = _truth(a)
    return 1.0 - high, 1.0 - low


def _less(a: Interval, b: Interval) -> Interval:
    return 1.0 * (a[1] < b[0]), 1.0 * (a[0] < b[1])


def _equal(a: Interval, b: Interval) -> Interval:
    return 1.0 * ((a[0] == b[1]) & (a[1] == b[0])), 1.0 * ((a[0] <= b[1]) & (b[0] <= a[1]))


def _if(a: Interval, b: Interval) -> Interval:
    """b where a is not zero, else 0."""
    low, high = _truth(a)
    never, perhaps = high == 0, low == 0
    return (
        np.where(never, 0.0, np.where(perhaps, np.minimum(b[0], 0.0), b[0])),
        np.where(never, 0.0, np.where(perhaps, np.maximum(b[1], 0.0), b[1])),
    )


def _angle(a: Interval, b: Interval) -> Interval:
    """atan2(a, b): by its corners, except across the half line where it jumps."""
    every = np.array([np.arctan2(y, x) for y in a for x in b])
    cut = (a[0] <= 0) & (a[1] >= 0) & (b[0] <= 0) & ((a[0] != a[1]) | (b[0] != b[1]))
    return np.where(cut, -np.pi, every.min(axis=0)), np.where(cut, np.pi, every.max(axis=0))


def _remainder(a: Interval, b: Interval) -> Interval:
    """fmod(a, b): rises with a between its jumps, where b is constant."""
    same = (b[0] == b[1]) & (np.trunc(a[0] / b[0]) == np.trunc(a[1] / b[1]))
    size = np.where(_has_zero(b), np.inf, np.maximum(np.abs(b[0]), np.abs(b[1])))
    return np.where(same, np.fmod(a[0], b[0]), -size), np.where(same, np.fmod(a[1], b[1]), size)


OTHERS: dict[int, Callable[[Interval, Interval], Interval]] = {
    ca.OP_ADD: _added,
    ca.OP_SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    ca.OP_MUL: _product,
    ca.OP_INV: _inverse,
    ca.OP_DIV: lambda a, b: _product(a, _inverse(b, b)),
    ca.OP_SIN: _sine,
    ca.OP_COS: _cosine,
    ca.OP_TAN: _tangent,
    ca.OP_POW: _power,
    ca.OP_CONSTPOW: _power,
    ca.OP_ATAN2: _angle,
    ca.OP_FMOD: _remainder,
    ca.OP_IF_ELSE_ZERO: _if,
    ca.OP_LT: _less,
    ca.OP_LE: lambda a, b: _not(_less(b, a)),
    ca.OP_EQ: _equal,
    ca.OP_NE: lambda a, b: _not(_equal(a, b)),
    ca.OP_NOT: lambda a, _: _not(a),
    ca.OP_AND: lambda a, b: _product(_truth(a), _truth(b)),
    ca.OP_OR: lambda a, b: _truth(_added(_truth(a), _truth(b))),
    ca.OP_FMIN: lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    ca.OP_FMAX: lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    ca.OP_HYPOT: lambda a, b: enclosure(ca.OP_SQRT, _added(enclosure(ca.OP_SQ, a, a), enclosure(ca.OP_SQ, b, b)), a),
    ca.OP_COPYSIGN: lambda a, b: _product(enclosure(ca.OP_FABS, a, a), (np.copysign(1.0, b[0]), np.copysign(1.0, b[1]))),
}
