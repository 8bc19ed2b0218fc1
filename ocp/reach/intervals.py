"""Interval arithmetic over scalar graphs: within which bounds the values of a function lie for arguments within bounds.

Natural extension, operation by operation; what an operation does not say is left open (minus to plus infinity). Intervals are
arrays, so that many boxes are enclosed at once. Rounding is not directed: whoever compares leaves a hair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

from ocp.thresholds import REACH

Array = np.ndarray
#: lower and upper ends, arrays of one shape
Interval = tuple[Array, Array]

INF = np.inf
_OPEN = np.full(1, -INF), np.full(1, INF)
_TRUTH = np.zeros(1), np.ones(1)


def enclosed(function: ca.Function, arguments: Sequence[Sequence[Interval]], rows: Sequence[int] | None = None
             ) -> list[Interval] | None:
    """Intervals of the entries of the first output (of these rows of it), each argument given entry by entry; None where the
    function is no scalar graph, or too large."""
    symbols = [ca.SX.sym(f"a{i}", function.size1_in(i)) for i in range(function.n_in())]
    if not function.is_a("SXFunction"):
        return None
    output = ca.densify(function(*symbols))
    graph = ca.Function("rows", symbols, [output if rows is None else output[list(rows)]])
    if graph.n_instructions() > REACH.max_operations:
        return None
    found: list[Interval] = [(np.zeros(1), np.zeros(1))] * graph.size1_out(0)
    slots: list[Interval] = [(np.zeros(1), np.zeros(1))] * max(1, graph.sz_w())
    with np.errstate(all="ignore"):
        for k in range(graph.n_instructions()):
            op, to, source = graph.instruction_id(k), graph.instruction_output(k), graph.instruction_input(k)
            if op == ca.OP_INPUT:
                slots[to[0]] = arguments[source[0]][source[1]]
            elif op == ca.OP_OUTPUT:
                found[to[1]] = slots[source[0]]
            elif op == ca.OP_CONST:
                value = np.array([graph.instruction_constant(k)])
                slots[to[0]] = value, value
            else:
                slots[to[0]] = _known(_RULES[op](slots[source[0]], slots[source[-1]])) if op in _RULES else _OPEN
    return found


def _known(found: Interval) -> Interval:
    """NaN, as of infinity less infinity, stands for what is not known."""
    low, high = found
    return np.where(np.isnan(low), -INF, low), np.where(np.isnan(high), INF, high)


def _product(a: Interval, b: Interval) -> Interval:
    # zero times an open end is zero: the factor is finite at every point
    corners = [np.where((p == 0) | (q == 0), 0.0, p * q) for p in a for q in b]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _inverse(a: Interval) -> Interval:
    zero = (a[0] <= 0) & (a[1] >= 0)
    return np.where(zero, -INF, 1 / a[1]), np.where(zero, INF, 1 / a[0])


def _square(a: Interval) -> Interval:
    ends = a[0] ** 2, a[1] ** 2
    return np.where((a[0] <= 0) & (a[1] >= 0), 0.0, np.minimum(*ends)), np.maximum(*ends)


def _power(a: Interval, b: Interval) -> Interval:
    """Constant exponents only; fractional ones for what is not negative."""
    if np.any(b[0] != b[1]):
        return _OPEN
    n = b[0]
    ends = a[0] ** n, a[1] ** n
    low, high = np.minimum(*ends), np.maximum(*ends)
    even, inside = n % 2 == 0, (a[0] <= 0) & (a[1] >= 0)
    open_ = ((n % 1 != 0) & (a[0] < 0)) | ((n < 0) & inside)
    return np.where(open_, -INF, np.where(even & inside, 0.0, low)), np.where(open_, INF, high)


def _cosine(a: Interval) -> Interval:
    """Extremes are at the ends and at multiples of pi within."""
    first = np.ceil(a[0] / np.pi)
    one, two = first * np.pi <= a[1], (first + 1) * np.pi <= a[1]
    even = first % 2 == 0
    ends = np.cos(a[0]), np.cos(a[1])
    top, bottom = two | (one & even), two | (one & ~even)
    wide = ~(np.isfinite(a[0]) & np.isfinite(a[1]))
    return (np.where(wide | bottom, -1.0, np.minimum(*ends)), np.where(wide | top, 1.0, np.maximum(*ends)))


def _rising(f: Callable[[Array], Array], least: float = -INF) -> Callable[[Interval, Interval], Interval]:
    """A function that rises everywhere; below ``least`` it is not defined, and nobody is there."""
    return lambda a, b: (f(np.maximum(a[0], least)), f(np.maximum(a[1], least)))


def _less(a: Interval, b: Interval) -> Interval:
    return np.minimum(a[0], b[0]), np.minimum(a[1], b[1])


def _more(a: Interval, b: Interval) -> Interval:
    return np.maximum(a[0], b[0]), np.maximum(a[1], b[1])


def _size(a: Interval) -> Interval:
    inside = (a[0] <= 0) & (a[1] >= 0)
    ends = np.abs(a[0]), np.abs(a[1])
    return np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends)


_RULES: dict[int, Callable[[Interval, Interval], Interval]] = {
    ca.OP_ASSIGN: lambda a, b: a,
    ca.OP_ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ca.OP_SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    ca.OP_NEG: lambda a, b: (-a[1], -a[0]),
    ca.OP_TWICE: lambda a, b: (2 * a[0], 2 * a[1]),
    ca.OP_MUL: _product,
    ca.OP_DIV: lambda a, b: _product(a, _known(_inverse(b))),
    ca.OP_INV: lambda a, b: _inverse(a),
    ca.OP_SQ: lambda a, b: _square(a),
    ca.OP_POW: _power,
    ca.OP_CONSTPOW: _power,
    ca.OP_SQRT: _rising(np.sqrt, 0.0),
    ca.OP_EXP: _rising(np.exp),
    ca.OP_LOG: _rising(np.log, 0.0),
    ca.OP_ATAN: _rising(np.arctan),
    ca.OP_ATAN2: lambda a, b: (np.full(1, -np.pi), np.full(1, np.pi)),
    ca.OP_TANH: _rising(np.tanh),
    ca.OP_SINH: _rising(np.sinh),
    ca.OP_COS: lambda a, b: _cosine(a),
    ca.OP_SIN: lambda a, b: _cosine((a[0] - np.pi / 2, a[1] - np.pi / 2)),
    ca.OP_FABS: lambda a, b: _size(a),
    ca.OP_FMIN: _less,
    ca.OP_FMAX: _more,
    ca.OP_IF_ELSE_ZERO: lambda a, b: (np.minimum(b[0], 0.0), np.maximum(b[1], 0.0)),
    **dict.fromkeys((ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_NOT, ca.OP_AND, ca.OP_OR), lambda a, b: _TRUTH),
}
