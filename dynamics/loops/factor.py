"""M = L^T D L in the order of the tree: no fill-in, and solves that only visit ancestors.

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), section 6.5. L is unit lower triangular with the pattern of M; its
entries are kept packed, row by row, the nearest ancestor first, and 1 / D apart. With mimic joints the pattern is full.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.lanes import WIDTH, Lanes, get, load, put, splat, store, store_masked
from dynamics.loops.vectors import INLINE, OPTIONS

Array = np.ndarray


@linked(**OPTIONS)
def factorise(table: Array, work: Array) -> None:
    """Factorise the M of the workspace; only its lower triangle is used, and spoilt."""
    nv, above, lower, width = get(table, at.N_V), get(table, at.AT_ABOVE), get(table, at.AT_LOWER), WIDTH * get(table, at.N_BLOCKS)
    coupled, columns, start = get(table, at.COUPLED) != 0, get(table, at.N_COLUMNS), get(table, at.AT_MASS)
    to_l, to_d = get(table, at.AT_L), get(table, at.AT_D)
    for k in range(nv - 1, -1, -1):
        row = start + k * width
        inverse = 1.0 / get(work, row + k)
        put(work, to_d + k, inverse)
        for n in range(get(table, above + k), get(table, above + k + 1)):
            i = get(table, above + nv + 1 + n)
            x = get(work, row + i) * inverse
            put(work, to_l + n, x)
            to, minus = start + i * width, splat(-x)
            # entries right of the diagonal of row i are spoilt, but never read
            if coupled:
                for b in range(i // WIDTH + 1):
                    store(work, to + WIDTH * b, load(work, to + WIDTH * b) + minus * load(work, row + WIDTH * b))
            else:
                for m in range(get(table, lower + i), get(table, lower + i + 1)):
                    b = get(table, lower + columns + 1 + 2 * m)
                    store(work, to + WIDTH * b, load(work, to + WIDTH * b) + minus * load(work, row + WIDTH * b))


@linked(**OPTIONS)
def solve(table: Array, work: Array, x: Array) -> None:
    """x [nv] <- M^-1 x."""
    nv, above, to_l, to_d = get(table, at.N_V), get(table, at.AT_ABOVE), get(table, at.AT_L), get(table, at.AT_D)
    for i in range(nv - 1, -1, -1):
        y = get(x, i)
        for n in range(get(table, above + i), get(table, above + i + 1)):
            j = get(table, above + nv + 1 + n)
            put(x, j, get(x, j) - get(work, to_l + n) * y)
    for i in range(nv):
        total = get(x, i) * get(work, to_d + i)
        for n in range(get(table, above + i), get(table, above + i + 1)):
            total -= get(work, to_l + n) * get(x, get(table, above + nv + 1 + n))
        put(x, i, total)


@linked(**OPTIONS)
def solve_rows(table: Array, work: Array, x: int, row: int) -> None:
    """X <- M^-1 X for X [nv, row] at an address; row: a multiple of eight."""
    nv, above, to_l, to_d = get(table, at.N_V), get(table, at.AT_ABOVE), get(table, at.AT_L), get(table, at.AT_D)
    for i in range(nv - 1, -1, -1):
        for n in range(get(table, above + i), get(table, above + i + 1)):
            to, factor = x + row * get(table, above + nv + 1 + n), splat(get(work, to_l + n))
            for b in range(0, row, WIDTH):
                store(work, to + b, load(work, to + b) - factor * load(work, x + i * row + b))
    for i in range(nv):
        for b in range(0, row, WIDTH):
            total = splat(get(work, to_d + i)) * load(work, x + i * row + b)
            for n in range(get(table, above + i), get(table, above + i + 1)):
                total = total - splat(get(work, to_l + n)) * load(work, x + row * get(table, above + nv + 1 + n) + b)
            store(work, x + i * row + b, total)


@linked(**INLINE)
def _load6(array: Array, i: int) -> Lanes:
    return (load(array, i), load(array, i + 8), load(array, i + 16), load(array, i + 24), load(array, i + 32),
            load(array, i + 40))


@linked(**INLINE)
def _store6(array: Array, i: int, x: Lanes) -> None:
    store(array, i, x[0])
    store(array, i + 8, x[1])
    store(array, i + 16, x[2])
    store(array, i + 24, x[3])
    store(array, i + 32, x[4])
    store(array, i + 40, x[5])


@linked(**INLINE)
def _minus(x: Lanes, factor: Lanes, y: Lanes) -> Lanes:
    return (x[0] - factor * y[0], x[1] - factor * y[1], x[2] - factor * y[2], x[3] - factor * y[3], x[4] - factor * y[4],
            x[5] - factor * y[5])


@linked(**OPTIONS)
def solve_three(table: Array, work: Array, out: Array) -> None:
    """Write [-M^-1 P, -M^-1 Q, M^-1] to out [3, nv, nv] with P and Q from the workspace (AT_RIGHT, rows of three blocks).

    Sixteen columns of all three are solved together in a panel that stays in the nearest cache. Their first half, from the
    leaves to the root, visits only rows that are related to those columns.
    """
    nv, above, active = get(table, at.N_V), get(table, at.AT_ABOVE), get(table, at.AT_ACTIVE)
    right, panel, width = get(table, at.AT_RIGHT), get(table, at.AT_PANEL), WIDTH * get(table, at.N_BLOCKS)
    to_l, to_d, size = get(table, at.AT_L), get(table, at.AT_D), nv * nv
    for i in range(nv):
        put(work, right + 3 * width * i + 2 * width + i, -1.0)
    groups = (nv + 2 * WIDTH - 1) // (2 * WIDTH)
    nothing = splat(0.0)
    for g in range(groups):
        first = 2 * WIDTH * g
        rest, at_visit = nv - first, active + groups + 1 + get(table, active + g)
        mask = 255 if rest >= WIDTH else (1 << rest) - 1
        second = 255 if rest >= 2 * WIDTH else ((1 << (rest - WIDTH)) - 1 if rest > WIDTH else 0)
        idle = get(table, at_visit)
        for n in range(idle):
            _store6(work, panel + at.PANEL * get(table, at_visit + 1 + n), (nothing, nothing, nothing, nothing, nothing, nothing))
        at_visit += 1 + idle
        rows = get(table, at_visit)
        at_visit += 1
        for _ in range(rows):
            j, count = get(table, at_visit), get(table, at_visit + 1)
            row = right + 3 * width * j + first
            x = (load(work, row), load(work, row + 8), load(work, row + width), load(work, row + width + 8),
                 load(work, row + 2 * width), load(work, row + 2 * width + 8))
            for n in range(count):
                i, number = get(table, at_visit + 2 + 2 * n), get(table, at_visit + 3 + 2 * n)
                x = _minus(x, splat(get(work, to_l + number)), _load6(work, panel + at.PANEL * i))
            _store6(work, panel + at.PANEL * j, x)
            at_visit += 2 + 2 * count
        for i in range(nv):
            scale, y = splat(-get(work, to_d + i)), _load6(work, panel + at.PANEL * i)
            x = (scale * y[0], scale * y[1], scale * y[2], scale * y[3], scale * y[4], scale * y[5])
            for n in range(get(table, above + i), get(table, above + i + 1)):
                j = get(table, above + nv + 1 + n)
                x = _minus(x, splat(get(work, to_l + n)), _load6(work, panel + at.PANEL * j))
            _store6(work, panel + at.PANEL * i, x)
            to = i * nv + first
            store_masked(out, to, x[0], mask)
            store_masked(out, to + size, x[2], mask)
            store_masked(out, to + 2 * size, x[4], mask)
            if second != 0:
                store_masked(out, to + 8, x[1], second)
                store_masked(out, to + size + 8, x[3], second)
                store_masked(out, to + 2 * size + 8, x[5], second)
