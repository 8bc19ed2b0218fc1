"""Quadratic minimisation over the controls of one stage: elimination of free controls, and the box QP that finds which are free.

The rows of the controls in the lower triangle of a Hessian in (x, u), ``(Qux | Quu)``, are all that is needed. Controls are
eliminated from the last to the first, so that rows stay rows: with Quu = L' D L and L unit lower triangular,

    Y = L^{-T} (Qux | Quu)        Z = -D^{-1} Y = -(D^{-1} L^{-T} Qux | L)        -Qux' Quu^{-1} Qux = Yx' Zx

and ``-Quu^{-1} Qux`` is the solution K of ``L K = Zx``: no square root, no transpose, everything a sum of rows.
Matrices are flat arrays with a row length, a multiple of eight; what lies right of the diagonal is spoilt, never read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.loops.dense import multiply_add
from dynamics.loops.lanes import WIDTH, get, load, load_masked, put, store
from dynamics.loops.vectors import INLINE, OPTIONS

Array = np.ndarray

_BLOCK = 8
_BOX_ITERATIONS = 100
_ARMIJO = 0.1


class Box(NamedTuple):
    """Work arrays for the controls of one stage, at most M of them. Y, Z [M, w] flat: rows under elimination; the others [M]:
    bounds of the step, right-hand side, gradient, direction, trial; free: indices of free controls, ascending."""

    Y: Array
    Z: Array
    lower: Array
    upper: Array
    y: Array
    slope: Array
    direction: Array
    trial: Array
    free: Array


def box(M: int, w: int) -> Box:
    """Zeros of the right sizes."""
    y, slope, direction, trial, lower, upper = (np.zeros(M) for _ in range(6))
    return Box(np.zeros(M * w), np.zeros(M * w), lower, upper, y, slope, direction, trial, np.zeros(M, dtype=np.int64))


@njit(**INLINE)
def first(count: int) -> int:
    """The mask of the first ``count`` of eight lanes; none for a negative count."""
    return 255 if count >= WIDTH else (1 << max(count, 0)) - 1


@njit(**OPTIONS)
def eliminate(Y: Array, Z: Array, row: int, n: int, m: int, y: Array) -> bool:
    """Turn m rows (Qux | Quu) in Y into L^{-T} (Qux | Quu) and fill Z; n: columns of Qux. y [m] becomes L^{-T} y.

    False unless Quu is positive definite and finite.
    """
    end, one, full = m, 0 * n + 1, n < 0
    while end > 0:
        begin = max(end - _BLOCK, 0)
        if end < m:
            multiply_add(Z, end * row + n + begin, one, row, Y, end * row, row, Y, begin * row, row, end - begin, m - end,
                         (n + end + WIDTH - 1) // WIDTH * WIDTH, full)
        for i in range(end - 1, begin - 1, -1):
            pivot, right = get(Y, i * row + n + i), get(y, i)
            for k in range(i + 1, end):
                pivot += get(Z, k * row + n + i) * get(Y, k * row + n + i)
            for k in range(i + 1, m):
                right += get(Z, k * row + n + i) * get(y, k)
            put(y, i, right)
            if not 0.0 < pivot < np.inf:
                return False
            scale = -1.0 / pivot
            for b in range(0, n + i + 1, WIDTH):
                total = load(Y, i * row + b)
                for k in range(i + 1, end):
                    total = total + get(Z, k * row + n + i) * load(Y, k * row + b)
                store(Y, i * row + b, total)
                store(Z, i * row + b, scale * total)
        end = begin
    return True


@njit(**OPTIONS)
def substitute(Y: Array, Z: Array, row: int, n: int, m: int, y: Array, K: Array, at_K: int, K_row: int, k: Array, at_k: int) -> None:
    """After ``eliminate``: K = -Quu^{-1} Qux in m rows of ``K_row`` numbers, zero right of column n, and k = -Quu^{-1} y."""
    columns = (n + WIDTH - 1) // WIDTH * WIDTH
    one, full = 0 * n + 1, n < 0
    for begin in range(0, m, _BLOCK):
        end = min(begin + _BLOCK, m)
        for i in range(begin, end):
            for b in range(0, columns, WIDTH):
                store(K, at_K + i * K_row + b, load_masked(Z, i * row + b, first(n - b)))
        if begin > 0:
            multiply_add(Z, begin * row + n, row, one, K, at_K, K_row, K, at_K + begin * K_row, K_row, end - begin, begin, columns,
                         full)
        for i in range(begin, end):
            value = -get(y, i) / get(Y, i * row + n + i)
            for j in range(i):
                value += get(Z, i * row + n + j) * get(k, at_k + j)
            put(k, at_k + i, value)
            if i > begin:
                for b in range(0, columns, WIDTH):
                    total = load(K, at_K + i * K_row + b)
                    for j in range(begin, i):
                        total = total + get(Z, i * row + n + j) * load(K, at_K + j * K_row + b)
                    store(K, at_K + i * K_row + b, total)


@njit(**INLINE)
def _times(H: Array, at: int, row: int, m: int, x: Array, at_x: int, i: int) -> float:
    """Row i of a symmetric matrix, of which the lower triangle is stored, times x."""
    total = 0.0
    for j in range(m):
        total += get(H, at + max(i, j) * row + min(i, j)) * get(x, at_x + j)
    return total


@njit(**OPTIONS)
def box_qp(H: Array, at: int, row: int, m: int, g: Array, x: Array, at_x: int, work: Box) -> int:
    """Minimise ``1/2 x' H x + g' x`` over ``work.lower <= x <= work.upper`` by projected Newton, from x.

    H: lower triangle of m rows from a flat index. Tassa, Mansard, Todorov 2014, section II.C. Leaves in ``work.free`` the
    indices strictly inside, or held by no multiplier; returns their number, -1 when H is not positive definite there, -2 when
    the iteration limit is reached.
    """
    free, slope, direction, trial, lower, upper = work.free, work.slope, work.direction, work.trial, work.lower, work.upper
    for i in range(m):
        start = get(x, at_x + i)
        put(x, at_x + i, min(max(start if start == start else 0.0, lower[i]), upper[i]))
    zero = 0 * m
    for _ in range(_BOX_ITERATIONS):
        count = 0
        for i in range(m):
            slope[i] = g[i] + _times(H, at, row, m, x, at_x, i)
            low, high = get(x, at_x + i) == lower[i], get(x, at_x + i) == upper[i]
            if not ((low and high) or (low and slope[i] > 0.0) or (high and slope[i] < 0.0)):
                free[count] = i
                count += 1
        if count == 0:
            return 0
        for i in range(count):
            work.y[i] = slope[free[i]]
            for j in range(i + 1):
                put(work.Y, i * row + j, get(H, at + free[i] * row + free[j]))
        if not eliminate(work.Y, work.Z, row, zero, count, work.y):
            return -1
        substitute(work.Y, work.Z, row, zero, count, work.y, work.Z, zero, row, direction, zero)
        inside, small = True, True
        for i in range(count):
            value = get(x, at_x + free[i]) + direction[i]
            inside = inside and lower[free[i]] <= value <= upper[free[i]]
            small = small and abs(direction[i]) <= 1e-14 * (1.0 + abs(get(x, at_x + free[i])))
        if small:
            return count
        # projected line search on the exact quadratic
        step, accepted = 1.0, False
        for _ in range(60):
            for i in range(m):
                trial[i] = get(x, at_x + i)
            for i in range(count):
                j = free[i]
                trial[j] = min(max(trial[j] + step * direction[i], lower[j]), upper[j])
            if inside and step == 1.0:
                accepted = True
                break
            for i in range(m):
                work.y[i] = trial[i] - get(x, at_x + i)
            linear, bend = 0.0, 0.0
            for i in range(m):
                linear += slope[i] * work.y[i]
                bend += work.y[i] * _times(H, at, row, m, work.y, 0, i)
            if linear + 0.5 * bend <= _ARMIJO * linear:
                accepted = True
                break
            step *= 0.5
        if not accepted:
            return count  # no decrease left above rounding
        for i in range(m):
            put(x, at_x + i, trial[i])
    return -2
