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

from dynamics.loops.dense import padded
from dynamics.loops.lanes import WIDTH, get, load, load_masked, put, store, total
from dynamics.loops.vectors import OPTIONS
from ocp.shooting.engine.flat import INLINED, PRIVATE, product

Array = np.ndarray

_BLOCK = WIDTH
_BOX_ITERATIONS = 100
_ARMIJO = 0.1


class Box(NamedTuple):
    """Work arrays for the controls of one stage, at most M of them, flat: Y, Z [M, w] rows under elimination; the others
    [padded(M)]: bounds of the step, right-hand side, gradient, direction, trial; indices of free controls, ascending."""

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
    lower, upper, y, slope, direction, trial = (np.zeros(padded(M)) for _ in range(6))
    return Box(np.zeros(M * w), np.zeros(M * w), lower, upper, y, slope, direction, trial,
               np.zeros(padded(M), dtype=np.int64))


@njit(**INLINED)
def first(count: int) -> int:
    """The mask of the first ``count`` of eight lanes; none for a negative count."""
    return 255 if count >= WIDTH else (1 << max(count, 0)) - 1


@njit(**INLINED)
def lanes(count: int) -> int:
    """``count`` rounded up to whole lanes."""
    return (count + WIDTH - 1) & -WIDTH


@njit(**PRIVATE)
def eliminate(Y: Array, Z: Array, row: int, n: int, m: int, y: Array) -> bool:
    """Turn m rows (Qux | Quu) in Y into L^{-T} (Qux | Quu) and fill Z, with -1/D on the diagonal; y becomes L^{-T} y.

    n: columns of Qux. False unless Quu is positive definite and finite.
    """
    # variables: Numba would compile callees once more for every constant argument
    end, one, full = m, 0 * n + 1, n < 0
    while end > 0:
        begin = max(end - _BLOCK, 0)
        if end < m:
            product(Y, begin * row, row, Z, end * row + n + begin, one, row, Y, end * row, row, Y, begin * row, row, end - begin,
                    m - end, lanes(n + end), full)
            right = load(y, begin)
            for k in range(end, m):
                right = right + get(y, k) * load_masked(Z, k * row + n + begin, first(end - begin))
            store(y, begin, right)
        for i in range(end - 1, begin - 1, -1):
            pivot, value = get(Y, i * row + n + i), get(y, i)
            for k in range(i + 1, end):
                factor = get(Z, k * row + n + i)
                pivot += factor * get(Y, k * row + n + i)
                value += factor * get(y, k)
            if not 0.0 < pivot < np.inf:
                return False
            scale = -1.0 / pivot
            for b in range(0, n + i + 1, WIDTH):
                x = load(Y, i * row + b)
                for k in range(i + 1, end):
                    x = x + get(Z, k * row + n + i) * load(Y, k * row + b)
                store(Y, i * row + b, x)
                store(Z, i * row + b, scale * x)
            put(Z, i * row + n + i, scale)
            put(y, i, value)
        end = begin
    return True


@njit(**PRIVATE)
def substitute(Z: Array, row: int, n: int, m: int, y: Array, K: Array, at_K: int, K_row: int, k: Array, at_k: int) -> None:
    """After ``eliminate``: K = -Quu^{-1} Qux in m rows of ``K_row`` numbers, zero right of column n, and k = -Quu^{-1} y."""
    columns, one, full = lanes(n), 0 * n + 1, n < 0
    for begin in range(0, m, _BLOCK):
        end = min(begin + _BLOCK, m)
        for i in range(begin, end):
            for b in range(0, columns, WIDTH):
                store(K, at_K + i * K_row + b, load_masked(Z, i * row + b, first(n - b)))
        if begin > 0:
            at = at_K + begin * K_row
            product(K, at, K_row, Z, begin * row + n, row, one, K, at_K, K_row, K, at, K_row, end - begin, begin, columns, full)
        for i in range(begin, end):
            value = get(Z, i * row + n + i) * get(y, i)
            if begin > 0:
                far = load(Z, i * row + n) * load(k, at_k)
                for b in range(WIDTH, begin, WIDTH):
                    far = far + load(Z, i * row + n + b) * load(k, at_k + b)
                value += total(far)
            for j in range(begin, i):
                value += get(Z, i * row + n + j) * get(k, at_k + j)
            put(k, at_k + i, value)
            if i > begin:
                for b in range(0, columns, WIDTH):
                    x = load(K, at_K + i * K_row + b)
                    for j in range(begin, i):
                        x = x + get(Z, i * row + n + j) * load(K, at_K + j * K_row + b)
                    store(K, at_K + i * K_row + b, x)


@njit(**INLINED)
def _times(H: Array, at: int, row: int, m: int, x: Array, at_x: int, i: int) -> float:
    """Row i of a symmetric matrix, of which the lower triangle is stored, times x."""
    value = 0.0
    for j in range(m):
        value += get(H, at + max(i, j) * row + min(i, j)) * get(x, at_x + j)
    return value


@njit(**OPTIONS)
def box_qp(H: Array, at: int, row: int, m: int, g: Array, at_g: int, x: Array, at_x: int, work: Box) -> int:
    """Minimise ``1/2 x' H x + g' x`` over ``work.lower <= x <= work.upper`` by projected Newton, from x.

    H: lower triangle of m rows from a flat index. Tassa, Mansard, Todorov 2014, section II.C. Leaves in ``work.free`` the
    indices strictly inside, or held by no multiplier; returns their number, -1 when H is not positive definite there, -2 when
    the iteration limit is reached.
    """
    Y, Z, y, free, slope, direction = work.Y, work.Z, work.y, work.free, work.slope, work.direction
    trial, lower, upper, zero = work.trial, work.lower, work.upper, 0 * m
    for i in range(m):
        start = get(x, at_x + i)
        put(x, at_x + i, min(max(start if start == start else 0.0, get(lower, i)), get(upper, i)))
    for _ in range(_BOX_ITERATIONS):
        count = zero
        for i in range(m):
            gradient = get(g, at_g + i) + _times(H, at, row, m, x, at_x, i)
            put(slope, i, gradient)
            low, high = get(x, at_x + i) == get(lower, i), get(x, at_x + i) == get(upper, i)
            if not ((low and high) or (low and gradient > 0.0) or (high and gradient < 0.0)):
                put(free, count, i)
                count += 1
        if count == 0:
            return 0
        for i in range(count):
            source = at + get(free, i) * row
            put(y, i, get(slope, get(free, i)))
            for j in range(i + 1):
                put(Y, i * row + j, get(H, source + get(free, j)))
        if not eliminate(Y, Z, row, zero, count, y):
            return -1
        substitute(Z, row, zero, count, y, Z, zero, row, direction, zero)
        inside, small = True, True
        for i in range(count):
            j, step = get(free, i), get(direction, i)
            value = get(x, at_x + j) + step
            inside = inside and get(lower, j) <= value <= get(upper, j)
            small = small and abs(step) <= 1e-14 * (1.0 + abs(get(x, at_x + j)))
        if small:
            return count
        # projected line search on the exact quadratic; y is free to hold the move
        length, accepted = 1.0, False
        for _ in range(60):
            for i in range(m):
                put(trial, i, get(x, at_x + i))
            for i in range(count):
                j = get(free, i)
                put(trial, j, min(max(get(trial, j) + length * get(direction, i), get(lower, j)), get(upper, j)))
            if inside and length == 1.0:
                accepted = True
                break
            for i in range(m):
                put(y, i, get(trial, i) - get(x, at_x + i))
            linear, bend = 0.0, 0.0
            for i in range(m):
                linear += get(slope, i) * get(y, i)
                bend += get(y, i) * _times(H, at, row, m, y, zero, i)
            if linear + 0.5 * bend <= _ARMIJO * linear:
                accepted = True
                break
            length *= 0.5
        if not accepted:
            return count  # no decrease left above rounding
        for i in range(m):
            put(x, at_x + i, get(trial, i))
    return -2
