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
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]
Side = NDArray[np.int8]

_DEPENDENT = 1e-10  # relative size below which a row adds nothing to those that are held already
_ROUNDING = 1e-12  # relative size of violations and multipliers that rounding makes
_EXCHANGES = 12


@dataclass(frozen=True, eq=False)
class Bounded:
    """The data: A [k, n], e [k], C [m, n], lower and upper [m]. scale: size of the numbers, by which rounding is judged."""

    A: Array
    e: Array
    C: Array
    lower: Array
    upper: Array

    @property
    def scale(self) -> float:
        ends = np.concatenate([self.lower[np.isfinite(self.lower)], self.upper[np.isfinite(self.upper)]])
        return 1.0 + max(_largest(self.e), _largest(ends))


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
    scale = problem.scale
    equal = problem.lower == problem.upper
    side = np.where(equal, np.int8(1), side).astype(np.int8)
    for step in range(_EXCHANGES):
        key = side.tobytes()
        if key in seen:
            return None
        seen.add(key)
        x, y = _held(problem, x, side)
        z = problem.C @ x
        under, over = problem.lower - z, z - problem.upper
        push = _ROUNDING * (1.0 + _largest(y))
        leaving = ~equal & (((side < 0) & (y > push)) | ((side > 0) & (y < -push)))
        new = np.where(leaving, 0, np.where(side != 0, side, np.where(under > _ROUNDING * scale, -1, over > _ROUNDING * scale)))
        new = new.astype(np.int8)
        if (new == side).all():
            closed = max(_largest(np.maximum(under, 0.0)), _largest(np.maximum(over, 0.0))) <= 10 * _ROUNDING * scale
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


def optimal(problem: Bounded, found: Found, tolerance: float = 1e-8) -> bool:
    """The optimality conditions hold, relative to the numbers in them: gradient, bounds, signs of multipliers, complementarity."""
    pull, push, z = problem.A.T @ (problem.A @ found.x - problem.e), problem.C.T @ found.y, problem.C @ found.x
    size = 1.0 + max(_largest(problem.A.T @ problem.e), _largest(push))
    above, below = problem.upper - z, z - problem.lower
    outside = max(_largest(np.minimum(above, 0.0)), _largest(np.minimum(below, 0.0)))
    gap = np.minimum(np.maximum(found.y, 0.0), np.abs(above)) + np.minimum(np.maximum(-found.y, 0.0), np.abs(below))
    scale = problem.scale
    return bool(_largest(pull + push) <= tolerance * size and outside <= tolerance * scale
                and _largest(gap) <= tolerance * max(size, scale))


def _held(problem: Bounded, x: Array, side: Side, ends: Array | None = None) -> tuple[Array, Array]:
    """(minimiser nearest to x, multipliers [m]) with the rows of ``side`` at their ends: given, or the bounds."""
    A, e, C = problem.A, problem.e, problem.C
    rows, y = np.flatnonzero(side), np.zeros(side.size)
    Y, Q1 = None, np.zeros((x.size, 0))
    if rows.size:
        bound = np.where(side[rows] < 0, problem.lower[rows], problem.upper[rows]) if ends is None else ends[rows]
        Q, R, order = scipy.linalg.qr(C[rows].T, pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(R))
        k = int(np.count_nonzero(diagonal > _DEPENDENT * max(diagonal[0], 1e-300)))
        Q1, Y, R = Q[:, :k], Q[:, k:], R[:k, :k]
        rows, gap = rows[order[:k]], (bound - C[rows] @ x)[order[:k]]
        x = x + Q1 @ scipy.linalg.solve_triangular(R, gap, trans=1, check_finite=False)
    B = A if Y is None else A @ Y
    if B.size:
        t = scipy.linalg.lstsq(B, e - A @ x, cond=1e-12, lapack_driver="gelsy", check_finite=False)[0]
        x = x + (t if Y is None else Y @ t)
    if rows.size:
        y[rows] = scipy.linalg.solve_triangular(R, -Q1.T @ (A.T @ (A @ x - e)), check_finite=False)
    return x, y


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
