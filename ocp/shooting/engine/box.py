"""Quadratic minimisation over the controls of one stage: elimination of the free ones.

The rows of the controls in the lower triangle of a Hessian in (x, u), ``(Qux | Quu)``, are all that is needed. Controls are
eliminated from the last to the first, so that rows stay rows: with Quu = L' D L and L unit lower triangular,

    Y = L^{-T} (Qux | Quu)        Z = -D^{-1} Y = -(D^{-1} L^{-T} Qux | L)        -Qux' Quu^{-1} Qux = Yx' Zx

and ``-Quu^{-1} Qux`` is the solution K of ``L K = Zx``: no square root, no transpose, everything a sum of rows.
Matrices are flat arrays with a row length, a multiple of eight; what lies right of the diagonal is spoilt, never read.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from dynamics.loops.dense import Block, padded, product
from dynamics.loops.lanes import WIDTH, get, load, load_masked, put, store, total
from dynamics.loops.vectors import INLINE, OPTIONS
from ocp.control.arrays import work_for

Array = np.ndarray

_BLOCK = WIDTH


class Unknowns(Record):
    """Workspace of the search for free controls, the fields of ``ocp.control.arrays.Work``."""

    L: Array
    gradient: Array
    step: Array
    move: Array
    free: Array


class Box(Record):
    """Work arrays for the controls of one stage, at most M of them, flat: Y, Z [M, w] rows under elimination; the others
    [padded(M)]: bounds of the step, right-hand side, a spare, direction; and what finds the free controls."""

    Y: Array
    Z: Array
    lower: Array
    upper: Array
    y: Array
    spare: Array
    direction: Array
    qp: Unknowns


def box(M: int, w: int) -> Box:
    """Zeros of the right sizes."""
    lower, upper, y, spare, direction = (np.zeros(padded(M)) for _ in range(5))
    return Box(np.zeros(M * w), np.zeros(M * w), lower, upper, y, spare, direction, Unknowns(*work_for(M)))


@linked(**INLINE)
def first(count: int) -> int:
    """The mask of the first ``count`` of eight lanes; none for a negative count."""
    return 255 if count >= WIDTH else (1 << max(count, 0)) - 1


@linked(**INLINE)
def lanes(count: int) -> int:
    """``count`` rounded up to whole lanes."""
    return (count + WIDTH - 1) & -WIDTH


@linked(**OPTIONS)
def eliminate(Y: Array, Z: Array, row: int, n: int, m: int, y: Array) -> bool:
    """Turn m rows (Qux | Quu) in Y into L^{-T} (Qux | Quu) and fill Z, with -1/D on the diagonal; y becomes L^{-T} y.

    n: columns of Qux. False unless Quu is positive definite and finite.
    """
    # variables: Numba would compile callees once more for every constant argument
    end, one, full = m, 0 * n + 1, n < 0
    while end > 0:
        begin = max(end - _BLOCK, 0)
        if end < m:
            these = Block(Y, begin * row, row)
            product(these, Block(Z, end * row + n + begin, one), row, Block(Y, end * row, row), these, end - begin, m - end,
                    lanes(n + end), full)
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


@linked(**OPTIONS)
def substitute(Z: Array, row: int, n: int, m: int, y: Array, K: Array, at_K: int, K_row: int, k: Array, at_k: int) -> None:
    """After ``eliminate``: K = -Quu^{-1} Qux in m rows of ``K_row`` numbers, zero right of column n, and k = -Quu^{-1} y."""
    columns, one, full = lanes(n), 0 * n + 1, n < 0
    for begin in range(0, m, _BLOCK):
        end = min(begin + _BLOCK, m)
        for i in range(begin, end):
            for b in range(0, columns, WIDTH):
                store(K, at_K + i * K_row + b, load_masked(Z, i * row + b, first(n - b)))
        if begin > 0:
            these = Block(K, at_K + begin * K_row, K_row)
            product(these, Block(Z, begin * row + n, row), one, Block(K, at_K, K_row), these, end - begin, begin, columns, full)
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
