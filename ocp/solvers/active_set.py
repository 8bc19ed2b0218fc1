"""Least squares between bounds, exactly: the finish of every level of a hierarchy.

    minimise  1/2 |A x - e|²   subject to   lower <= C x <= upper

A of any rank; rows of C may repeat each other. A working set (rows held at one of their ends) makes it linear; no normal
equations are formed, so nothing is squared. `exchange` corrects a guessed set in few steps and may not close (primal-dual active
set: Hintermueller, Ito, Kunisch 2003); `descend` walks from a feasible point and always does (primal active set: Nocedal and Wright
2006, 16.5, with Bland's rule where it stands still).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Array = NDArray[np.float64]
Side = NDArray[np.int8]

_DEPENDENT = 1e-8  # relative size below which a row adds nothing to those that are held already
_ROUNDING = 1e-12  # relative size of violations and multipliers that rounding makes
_EXCHANGES = 12


@dataclass(frozen=True, eq=False)
class Bounded:
    """The data: A [k, n], e [k], C [m, n] with rows of length about one, lower and upper [m]."""

    A: Array
    e: Array
    C: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Found:
    """x [n]; y [m]: multipliers, A'(A x - e) + C'y = 0, y > 0 at the upper end, y < 0 at the lower; side [m]: -1, 0, 1 as held;
    steps: linear problems solved."""

    x: Array
    y: Array
    side: Side
    steps: int


def exchange(problem: Bounded, x: Array, side: Side) -> Found | None:
    """From the rows that ``side`` [m] takes as held: violated rows enter, rows with a multiplier of the wrong sign leave."""
    seen: set[bytes] = set()
    equal = problem.lower == problem.upper
    side = np.where(equal, np.int8(1), side).astype(np.int8)
    for step in range(_EXCHANGES):
        key = side.tobytes()
        if key in seen:
            return None
        seen.add(key)
        x, y = _held(problem, x, side)
        z = problem.C @ x
        under, over, tiny = problem.lower - z, z - problem.upper, _ROUNDING * (1.0 + _largest(x) + np.abs(z))
        push = _ROUNDING * (1.0 + _largest(y))
        leaving = ~equal & (((side < 0) & (y > push)) | ((side > 0) & (y < -push)))
        new = np.where(leaving, 0, np.where(side != 0, side, np.where(under > tiny, -1, over > tiny)))
        new = new.astype(np.int8)
        if (new == side).all():
            closed = (under <= 100 * tiny).all() and (over <= 100 * tiny).all()
            return Found(x, y, side, step + 1) if closed else None
        side = new
    return None


def descend(problem: Bounded, x: Array) -> Found | None:
    """From a feasible x [n]; None only where rounding keeps it from closing."""
    C, equal = problem.C, problem.lower == problem.upper
    side = np.zeros(problem.lower.size, np.int8)
    for i in np.flatnonzero(equal):
        if _independent(C, side, int(i)):
            side[i] = 1
    stuck, most = 0, 60 + 12 * (side.size + x.size)
    lengths = np.linalg.norm(C, axis=1) + 1e-300
    for step in range(most):
        target, y = _held(problem, x, side, C @ x)
        move = target - x
        length = float(np.linalg.norm(move))
        if length <= _ROUNDING * (1.0 + float(np.linalg.norm(x))):
            push = _ROUNDING * (1.0 + _largest(y))
            wrong = np.flatnonzero(~equal & (((side < 0) & (y > push)) | ((side > 0) & (y < -push))))
            if not wrong.size:
                return Found(x, y, side, step + 1)
            side[wrong[0] if stuck > 3 else wrong[np.argmax(np.abs(y[wrong]))]] = 0
            stuck += 1
            continue
        rate, z = C @ move, C @ x
        moving = (side == 0) & ~equal & (np.abs(rate) > _DEPENDENT * lengths * length)
        end = np.where(rate > 0.0, problem.upper, problem.lower)
        share = np.full(rate.size, np.inf)
        share[moving] = np.maximum((end[moving] - z[moving]) / rate[moving], 0.0)
        first = int(np.argmin(share)) if share.size else 0
        if share.size and share[first] < 1.0:
            x = x + share[first] * move
            side[first] = 1 if rate[first] > 0.0 else -1
            stuck = stuck if share[first] * length <= _ROUNDING else 0
        else:
            x, stuck = target, 0
    return None


def optimal(problem: Bounded, found: Found, tolerance: float = 1e-7) -> bool:
    """The optimality conditions hold, relative to the numbers in them: gradient, bounds, signs of multipliers, complementarity."""
    pull, push, z = problem.A.T @ (problem.A @ found.x - problem.e), problem.C.T @ found.y, problem.C @ found.x
    size, sizes = 1.0 + max(_largest(problem.A.T @ problem.e), _largest(push)), 1.0 + _largest(found.x) + np.abs(z)
    above, below = problem.upper - z, z - problem.lower
    gap = np.minimum(np.maximum(found.y, 0.0), np.abs(above)) + np.minimum(np.maximum(-found.y, 0.0), np.abs(below))
    return bool(_largest(pull + push) <= tolerance * size and (np.minimum(above, below) >= -0.01 * tolerance * sizes).all()
                and (gap <= tolerance * np.maximum(size, sizes)).all())


def _held(problem: Bounded, x: Array, side: Side, ends: Array | None = None) -> tuple[Array, Array]:
    """(minimiser nearest to x, multipliers [m]) with the rows of ``side`` at their ends: given, or the bounds."""
    A, e, C = problem.A, problem.e, problem.C
    rows, y = np.flatnonzero(side), np.zeros(side.size)
    if not rows.size:
        return x + shortest(A, e - A @ x), y
    bound = np.where(side[rows] < 0, problem.lower[rows], problem.upper[rows]) if ends is None else ends[rows]
    Q, R, order = pivoted(C[rows])
    k = int(np.count_nonzero(np.abs(np.diag(R)) > _DEPENDENT * max(abs(R[0, 0]), 1e-300)))
    Q1, Y, R = Q[:, :k], Q[:, k:], np.asfortranarray(R[:k, :k])
    rows, gap = rows[order[:k]], (bound - C[rows] @ x)[order[:k]]
    x = x + Q1 @ lapack.dtrtrs(R, gap, trans=1)[0] if k else x
    x = x + Y @ shortest(A @ Y, e - A @ x)
    if k:
        y[rows] = lapack.dtrtrs(R, -Q1.T @ (A.T @ (A @ x - e)))[0]
    return x, y


def pivoted(rows: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """(Q [n, n], R [k, m], order [m]) with rows[order]' = Q[:, :k] R, of rows [m, n], k = min(m, n); |diagonal of R| falls."""
    m, n = rows.shape
    packed, order, tau, _, _ = lapack.dgeqp3(rows.T)
    full, k = np.zeros((n, n), order="F"), min(m, n)
    full[:, :k] = packed[:, :k]
    return lapack.dorgqr(full, tau, overwrite_a=1)[0], np.triu(packed[:k]), order - 1


def shortest(A: Array, b: Array) -> Array:
    """The least-squares solution of A x = b [k] of least |x| [n]."""
    k, n = A.shape
    if not A.size:
        return np.zeros(n)
    right = np.zeros((max(k, n), 1))
    right[:k, 0] = b
    return np.asarray(lapack.dgelsy(A, right, np.zeros((n, 1), np.int32), 1e-12, 32 * (k + n + 4))[1][:n, 0])


def _independent(C: Array, side: Side, row: int) -> bool:
    held = C[side != 0]
    if not np.any(C[row]):
        return False
    if not held.size:
        return True
    left = C[row] - held.T @ np.linalg.lstsq(held.T, C[row], rcond=None)[0]
    return bool(np.linalg.norm(left) > _DEPENDENT * np.linalg.norm(C[row]))


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))
