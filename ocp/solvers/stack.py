"""Arrays of a stack of levels, and what its rows say at a point.

x = x0 + sum over rows of Z from ``top`` on; rows above are decided. Ends of rows of D are those asked for, widened by what levels
above could not keep.
"""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers import working_set
from ocp.solvers.blocks import Blocks, matrix, vector, whole
from ocp.solvers.factors import INLINE, OPTIONS, VIEWS, dot

ROUNDING = 1e-13  # share of a row's length, for each unknown; what rounding makes of a row that depends on others
END_TOLERANCE = 1e-12  # relative; how far beyond an end rounding may put a row

_OWN = ("A", "b", "a_root", "D", "low", "high", "d_root", "d_size", "floor", "ceiling", "trial", "Z", "F", "tau", "norms",
        "ask", "in_span", "aside", "w", "x", "residual", "slack", "memory", "T", "t", "pick", "length", "pivot_tolerance", "unit",
        "a_unit", "d_unit")
_COUNTS = ("counts", "a_span", "d_span", "order", "which", "rows", "sides", "how", "rank", "end", "column_of", "extent", "state")
_F, _I = len(working_set.FLOATS), len(working_set.FLOATS) + len(_OWN)
_J = _I + len(working_set.INTS)


@linked(**INLINE)
def padded(n: int) -> int:
    """Columns of Z, F and T: whole loops of the processor's vectors, without rest. What is beyond n in Z and T is zero."""
    return (n + 15) // 16 * 16


class Stack(NamedTuple):
    """Views of the arrays of one stack. counts [levels, 2]: rows of A and of D of each; extent [rows of A]: columns from there on
    are zero, -1 where the row is as it was; state: n, levels, top, whether a level of limits is put off, directions that the level
    at hand decides, whether there is a slack, whether D is as it was. T, t, pick, column_of: of `elimination`. length,
    pivot_tolerance: of the rows of the level at hand before they were reduced, and what is too little of it. unit, a_unit, d_unit:
    what a one of x, of rows of A and of D stands for (`equilibration`)."""

    A: np.ndarray
    b: np.ndarray
    a_root: np.ndarray
    D: np.ndarray
    low: np.ndarray
    high: np.ndarray
    d_root: np.ndarray
    d_size: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    trial: np.ndarray
    Z: np.ndarray
    F: np.ndarray
    tau: np.ndarray
    norms: np.ndarray
    e: np.ndarray
    in_span: np.ndarray
    aside: np.ndarray
    w: np.ndarray
    x: np.ndarray
    residual: np.ndarray
    slack: np.ndarray
    memory: np.ndarray
    T: np.ndarray
    t: np.ndarray
    pick: np.ndarray
    length: np.ndarray
    pivot_tolerance: np.ndarray
    unit: np.ndarray
    a_unit: np.ndarray
    d_unit: np.ndarray
    counts: np.ndarray
    a_span: np.ndarray
    d_span: np.ndarray
    order: np.ndarray
    which: np.ndarray
    rows: np.ndarray
    sides: np.ndarray
    how: np.ndarray
    rank: np.ndarray
    end: np.ndarray
    column_of: np.ndarray
    extent: np.ndarray
    state: np.ndarray


def space(n: int, counts: list[tuple[int, int]]) -> Blocks:
    """Arrays for n unknowns and levels of (rows of A, rows of D)."""
    R, S, levels = sum(a for a, _ in counts), sum(d for _, d in counts), len(counts)
    head = sum(a for a, _ in takewhile(lambda count: count[1] == 0, counts))
    slacks, tall, wide = max(d for _, d in counts), max(n, head, *(a for a, _ in counts)), padded(n)
    floats, ints = working_set.sizes(tall, S, n, slacks)
    most = max(tall, S, 2 * wide) + 1
    floats = {**floats, "A": (R, n), "b": (R,), "a_root": (R,), "D": (S, n), "low": (S,), "high": (S,), "d_root": (S,),
              "d_size": (S,), "floor": (S,), "ceiling": (S,), "trial": (wide,), "Z": (n, wide), "F": (most, wide), "tau": (most,),
              "norms": (most,), "ask": (most,), "in_span": (most,), "aside": (most,), "w": (S,), "x": (n,), "residual": (R,),
              "slack": (S,), "memory": (levels + 1, S), "T": (head, wide), "t": (head,), "pick": (n,),
              "length": (most,), "pivot_tolerance": (most,), "unit": (n,), "a_unit": (R,), "d_unit": (S,)}
    ints = {**ints, "counts": (levels, 2), "a_span": (R, 2), "d_span": (S, 2),
            "order": (most,), "which": (S + 1,), "rows": (most,), "sides": (levels + 1, S), "how": (levels + 1,),
            "rank": (levels + 1,), "end": (S,), "column_of": (n,), "extent": (R,), "state": (8,)}
    made = Blocks(floats, ints)
    made.counts[:], made.extent[:] = counts, n
    made.state[:2] = n, levels
    for name in ("unit", "a_unit", "d_unit"):
        getattr(made, name)[:] = 1.0
    return made


@linked(**VIEWS)
def stack(w: np.ndarray, iw: np.ndarray) -> Stack:
    """The record as views into the workspaces."""
    f, i = _F, _J
    return Stack(matrix(w, iw, f), vector(w, iw, f + 1), vector(w, iw, f + 2), matrix(w, iw, f + 3), vector(w, iw, f + 4),
                 vector(w, iw, f + 5), vector(w, iw, f + 6), vector(w, iw, f + 7), vector(w, iw, f + 8), vector(w, iw, f + 9),
                 vector(w, iw, f + 10), matrix(w, iw, f + 11), matrix(w, iw, f + 12), vector(w, iw, f + 13), vector(w, iw, f + 14),
                 vector(w, iw, f + 15), vector(w, iw, f + 16), vector(w, iw, f + 17), vector(w, iw, f + 18), vector(w, iw, f + 19),
                 vector(w, iw, f + 20), vector(w, iw, f + 21), matrix(w, iw, f + 22), matrix(w, iw, f + 23), vector(w, iw, f + 24),
                 vector(w, iw, f + 25), vector(w, iw, f + 26), vector(w, iw, f + 27), vector(w, iw, f + 28),
                 vector(w, iw, f + 29), vector(w, iw, f + 30), matrix(iw, iw, i), matrix(iw, iw, i + 1), matrix(iw, iw, i + 2),
                 whole(iw, i + 3), whole(iw, i + 4), whole(iw, i + 5), matrix(iw, iw, i + 6), whole(iw, i + 7), whole(iw, i + 8),
                 whole(iw, i + 9), whole(iw, i + 10), whole(iw, i + 11), whole(iw, i + 12))


@linked(**VIEWS)
def problem_of(w: np.ndarray, iw: np.ndarray, size: tuple[int, int, int, int], tolerance: float) -> working_set.Problem:
    """The program of a level, of this size (kb, mc, nz, soft)."""
    return working_set.problem(w, iw, 0, _I, size, tolerance)


@linked(**INLINE)
def product(A: np.ndarray, i: int, span: np.ndarray, x: np.ndarray) -> float:
    """Inner product of row i of A, nonzero within its span, and x."""
    total = 0.0
    for c in range(span[i, 0], span[i, 1]):
        total += A[i, c] * x[c]
    return total


@linked(**INLINE)
def _measure(A: np.ndarray, i: int, span: np.ndarray, extent: int) -> None:
    first, last = 0, extent
    while last > first and A[i, last - 1] == 0.0:
        last -= 1
    while first < last and A[i, first] == 0.0:
        first += 1
    span[i, 0], span[i, 1] = first, last


@linked(**OPTIONS)
def measure(s: Stack) -> None:
    """Preparation before the first level: where rows are not zero, how long they are; and nothing is decided."""
    for i in range(s.A.shape[0]):
        if s.extent[i] >= 0:
            _measure(s.A, i, s.a_span, s.extent[i])
    for i in range(s.D.shape[0]):
        s.lower[i], s.upper[i] = s.low[i], s.high[i]
        if s.state[6] == 0:
            _measure(s.D, i, s.d_span, s.D.shape[1])
            s.d_size[i] = np.sqrt(dot(s.D, i, s.D, i, s.d_span[i, 0], s.d_span[i, 1]))
    s.state[2], s.state[3], s.state[4], s.state[6] = 0, 0, 0, 1


@linked(**OPTIONS)
def holds(s: Stack, last: int, own: int, pending: bool) -> bool:
    """Whether the first ``last`` rows of D hold at ``trial``, no worse than at x unless that is still to be shown, and the ``own``
    constraints that follow."""
    far = 1.0
    for c in range(s.state[0]):
        far = max(far, abs(s.trial[c]))
    for i in range(last + own):
        w = product(s.D, i, s.d_span, s.trial)
        tiny = END_TOLERANCE * (far + abs(w))
        if w < s.lower[i] - tiny or w > s.upper[i] + tiny:
            if pending or i >= last:
                return False
            before = product(s.D, i, s.d_span, s.x)
            if w < min(s.lower[i], before) - tiny or w > max(s.upper[i], before) + tiny:
                return False
    return True


@linked(**OPTIONS)
def widen(s: Stack, first: int, last: int) -> None:
    """Relax limits first to last to contain the present x."""
    for i in range(first, last):
        w = product(s.D, i, s.d_span, s.x)
        s.lower[i], s.upper[i] = min(s.low[i], w), max(s.high[i], w)


@linked(**OPTIONS)
def report(s: Stack) -> bool:
    """Residuals, slacks and ends of all rows at x, and in ``state`` whether there is a slack; then all in the units of the stack.
    Returns whether x is finite."""
    total = 0.0
    for c in range(s.x.size):
        total += abs(s.x[c])
    s.state[5] = 0
    for i in range(s.A.shape[0]):
        s.residual[i] = (product(s.A, i, s.a_span, s.x) - s.b[i]) * s.a_unit[i]
    for i in range(s.D.shape[0]):
        w = product(s.D, i, s.d_span, s.x)
        near = working_set.TOLERANCE * (1.0 + abs(w))
        s.slack[i] = (w - s.high[i] if w > s.high[i] + near else (w - s.low[i] if w < s.low[i] - near else 0.0)) * s.d_unit[i]
        s.end[i] = 1 if w >= s.high[i] - near else (-1 if w <= s.low[i] + near else 0)
        if s.slack[i] != 0.0:
            s.state[5] = 1
    for c in range(s.x.size):
        s.x[c] *= s.unit[c]
    return bool(np.isfinite(total))
