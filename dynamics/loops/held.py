"""Motion under constraints in the loops, in lanes over all columns: the multipliers, first derivatives, contracted second ones.

Rows may depend on each other: (A + eps) lambda = b with A = J M^-1 J^T is refined as in ``dynamics.algorithms.saddle``. First
derivatives follow from M da = -dID + d(f + J^T lambda) and J da = -dr; second ones from the stationary point of
mu^T a - psi^T (ID - tau - f - J^T lambda) - nu^T r in (a, lambda), which is at psi = M^-1 (mu - J^T nu), J psi = 0.
"""

from __future__ import annotations

import numpy as np

from dynamics.algorithms.saddle import EPSILON
from dynamics.kernels.linked import linked
from dynamics.loops import acting, frames, relations
from dynamics.loops import layout as at
from dynamics.loops.dense import Block, clear, copy, multiply_add
from dynamics.loops.factor import solve_rows
from dynamics.loops.frames import lanes_of
from dynamics.loops.lanes import WIDTH, Lanes, get, load, load_masked, put, splat, store, store_masked, total
from dynamics.loops.vectors import INLINE, OPTIONS

Array = np.ndarray
REFINED = 3


@linked(**INLINE)
def _address(table: Array, which: int) -> int:
    return get(table, get(table, at.AT_ACTING) + which)


@linked(**INLINE)
def _mask(n: int, b: int) -> int:
    """Which of eight lanes from b on are among the first n."""
    return 255 if b + WIDTH <= n else (1 << (n - b)) - 1


@linked(**INLINE)
def multipliers(table: Array) -> int:
    """Where the multipliers are."""
    return _address(table, at.ACT_INPUTS + acting.LAM)


@linked(**INLINE)
def multiplier_derivatives(table: Array) -> int:
    """Where the derivatives of the multipliers by q, v and tau are, after ``hold``: rows of three times ``lanes_of(nv)``."""
    return _address(table, at.ACT_SLOPES)


@linked(**OPTIONS)
def take_rows(table: Array, work: Array, c: int) -> None:
    """J, and c [rows] at an address, after the function of values."""
    nv, rows, J, values = get(table, at.N_V), get(table, at.N_ROWS), _address(table, at.ACT_J), _address(table, 2)
    width = lanes_of(nv)
    if acting.whole(table):
        for r in range(rows):
            for k in range(nv):
                put(work, J + r * width + k, get(work, values + nv + r * nv + k))
            put(work, c + r, get(work, values + nv + rows * nv + r))
    relations.take_values(table, work, J, c)


@linked(**OPTIONS)
def constrain(table: Array, work: Array, a: Array) -> None:
    """From the free acceleration to that under the constraints, after the function of values; needs the factors of M, leaves the
    multipliers, and the forces of relations between frames on the bodies."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    width, wide = lanes_of(nv), lanes_of(rows)
    J, across, A = _address(table, at.ACT_J), _address(table, at.ACT_ACROSS), _address(table, at.ACT_A)
    b, x, lam = _address(table, at.ACT_RIGHT), _address(table, at.ACT_SLOPES), multipliers(table)
    take_rows(table, work, lam)
    for r in range(rows):
        sum_ = splat(0.0)
        for k in range(0, nv, WIDTH):
            sum_ = sum_ + load(work, J + r * width + k) * load_masked(a, k, _mask(nv, k))
        store(work, b + r * WIDTH, splat(-get(work, lam + r) - total(sum_)))
        for k in range(nv):
            put(work, across + k * wide + r, get(work, J + r * width + k))
    solve_rows(table, work, across, wide)
    clear(work, A, rows * wide)
    multiply_add(Block(work, A, wide), Block(work, J, width), 1, Block(work, across, wide), rows, nv, wide)
    _factorise(table, work, wide)
    _refine(table, work, b, x, WIDTH)
    for r in range(rows):
        put(work, lam + r, get(work, x + r * WIDTH))
    for i in range(nv):
        sum_ = get(a, i)
        for r in range(rows):
            sum_ += get(work, across + i * wide + r) * get(work, lam + r)
        put(a, i, sum_)
    relations.act(table, work, lam)


@linked(**OPTIONS)
def _factorise(table: Array, work: Array, wide: int) -> None:
    """Lower triangular L with ``L L^T = A + eps`` and inverse diagonal; A becomes -A."""
    rows, A, L = get(table, at.N_ROWS), _address(table, at.ACT_A), _address(table, at.ACT_FACTORS)
    small = 0.0
    for i in range(rows):
        small += get(work, A + i * wide + i) * EPSILON / rows
    for i in range(rows):
        for j in range(i + 1):
            sum_ = get(work, A + i * wide + j) + (small if i == j else 0.0)
            for k in range(j):
                sum_ -= get(work, L + i * rows + k) * get(work, L + j * rows + k)
            put(work, L + i * rows + j, 1.0 / np.sqrt(sum_) if i == j else sum_ * get(work, L + j * rows + j))
    for i in range(0, rows * wide, WIDTH):
        store(work, A + i, -load(work, A + i))


@linked(**OPTIONS)
def _refine(table: Array, work: Array, b: int, x: int, row: int) -> None:
    """Solve ``A X = B`` for B and X [rows, row] at addresses; row: a multiple of eight."""
    rows, A, z = get(table, at.N_ROWS), _address(table, at.ACT_A), _address(table, at.ACT_ROOM)
    wide, count = lanes_of(rows), rows * row
    for n in range(REFINED):
        copy(work, b, work, z, count)
        if n > 0:
            multiply_add(Block(work, z, row), Block(work, A, wide), 1, Block(work, x, row), rows, rows, row)
        _substitute(table, work, z, row)
        for i in range(0, count, WIDTH):
            store(work, x + i, load(work, z + i) + load(work, x + i) if n > 0 else load(work, z + i))


@linked(**INLINE)
def _three(work: Array, i: int, step: int) -> Lanes:
    return load(work, i), load(work, i + step), load(work, i + 2 * step)


@linked(**INLINE)
def _take(x: Lanes, factor: Lanes, y: Lanes) -> Lanes:
    return x[0] - factor * y[0], x[1] - factor * y[1], x[2] - factor * y[2]


@linked(**OPTIONS)
def _substitute(table: Array, work: Array, z: int, row: int) -> None:
    """Z <- (A + eps I)^-1 Z by forward and back substitution, three blocks of columns at a time."""
    rows, L = get(table, at.N_ROWS), _address(table, at.ACT_FACTORS)
    for first in range(0, row, 3 * WIDTH):
        step = WIDTH if first + 3 * WIDTH <= row else 0
        for c in range(1 if step > 0 else (row - first) // WIDTH):
            at_z = z + first + c * WIDTH
            for i in range(rows):
                x = _three(work, at_z + i * row, step)
                for j in range(i):
                    x = _take(x, splat(get(work, L + i * rows + j)), _three(work, at_z + j * row, step))
                _scale(work, at_z + i * row, step, x, get(work, L + i * rows + i))
            for i in range(rows - 1, -1, -1):
                x = _three(work, at_z + i * row, step)
                for j in range(i + 1, rows):
                    x = _take(x, splat(get(work, L + j * rows + i)), _three(work, at_z + j * row, step))
                _scale(work, at_z + i * row, step, x, get(work, L + i * rows + i))


@linked(**INLINE)
def _scale(work: Array, to: int, step: int, x: Lanes, factor: float) -> None:
    store(work, to, factor * x[0])
    store(work, to + step, factor * x[1])
    store(work, to + 2 * step, factor * x[2])


# ---- first order
@linked(**OPTIONS)
def differentiate(table: Array, work: Array, a: Array) -> None:
    """Run the function of derivatives at the accelerations a, after ``columns_first``."""
    acting.keep(table, work, acting.A, a)
    if get(table, at.N_ROWS) > 0:
        frames.differentiate(table, work)
    acting.evaluate(table, work, acting.SLOPES)


@linked(**OPTIONS)
def take_derivatives(table: Array, work: Array, out: int, stride: int, apart: int) -> None:
    """Subtract ``d(f + J^T lambda)/dq`` and D from matrices [nv, stride] that begin ``apart``; what wrenches constant in their
    bodies give is in dID. After ``differentiate``."""
    nv, found = get(table, at.N_V), _address(table, 3 * acting.SLOPES + 2)
    if acting.whole(table):
        for k in range(2):
            for i in range(nv):
                for j in range(0, nv, WIDTH):
                    to, mask = out + k * apart + i * stride + j, _mask(nv, j)
                    store(work, to, load(work, to) - load_masked(work, found + (k * nv + i) * nv + j, mask))
    if get(table, at.N_ROWS) > 0:
        relations.take_turning(table, work, out, stride)


@linked(**OPTIONS)
def derivative_rows(table: Array, work: Array, to: int, stride: int, apart: int) -> None:
    """dr/dq and dr/dv in rows [rows, stride] that begin ``apart``, after ``differentiate``."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    found = _address(table, 3 * acting.SLOPES + 2) + 2 * nv * nv
    for k in range(2):
        for r in range(rows):
            for j in range(0, lanes_of(nv), WIDTH):
                mask, here = _mask(nv, j), to + k * apart + r * stride + j
                store(work, here, load_masked(work, found + (k * rows + r) * nv + j, mask) if acting.whole(table) else splat(0.0))
    relations.add_rows(table, work, to, to + apart, stride)


@linked(**OPTIONS)
def hold(table: Array, work: Array, out: Array) -> None:
    """From out [3, nv, nv] under constant multipliers, ``-M^-1 d(ID - f - J^T lambda)`` and M^-1, to the derivatives of a; leaves
    those of the multipliers."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    width = lanes_of(nv)
    row, wide = 3 * width, lanes_of(rows)
    x, b, found = _address(table, at.ACT_X), _address(table, at.ACT_RIGHT), _address(table, at.ACT_SLOPES)
    for k in range(3):
        for i in range(nv):
            for j in range(0, width, WIDTH):
                store(work, x + i * row + k * width + j, load_masked(out, (k * nv + i) * nv + j, _mask(nv, j)))
    derivative_rows(table, work, b, row, width)
    for r in range(rows):
        clear(work, b + r * row + 2 * width, width)
    multiply_add(Block(work, b, row), Block(work, _address(table, at.ACT_J), width), 1, Block(work, x, row), rows, nv, row)
    for i in range(0, rows * row, WIDTH):
        store(work, b + i, -load(work, b + i))
    _refine(table, work, b, found, row)
    multiply_add(Block(work, x, row), Block(work, _address(table, at.ACT_ACROSS), wide), 1, Block(work, found, row), nv, rows, row)
    for k in range(3):
        for i in range(nv):
            for j in range(0, nv, WIDTH):
                store_masked(out, (k * nv + i) * nv + j, load(work, x + i * row + k * width + j), _mask(nv, j))


# ---- second order
@linked(**OPTIONS)
def weights(table: Array, work: Array, mu: Array, first: Array, psi: Array) -> None:
    """psi [nv] and nu of the contraction by mu, after ``hold``."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    width = lanes_of(nv)
    for i in range(nv):
        sum_ = splat(0.0)
        for j in range(0, nv, WIDTH):
            sum_ = sum_ + load_masked(first, (2 * nv + i) * nv + j, _mask(nv, j)) * load_masked(mu, j, _mask(nv, j))
        put(psi, i, total(sum_))
    found, nu = _address(table, at.ACT_SLOPES) + 2 * width, _address(table, at.ACT_INPUTS + acting.NU)
    for r in range(rows):
        sum_ = splat(0.0)
        for j in range(0, nv, WIDTH):
            sum_ = sum_ - load(work, found + 3 * r * width + j) * load_masked(mu, j, _mask(nv, j))
        put(work, nu + r, total(sum_))


@linked(**OPTIONS)
def differentiate_twice(table: Array, work: Array, psi: Array) -> None:
    """Run the function of second derivatives for weights psi [nv] and nu, after ``second_order.weigh``; sum what frames bear."""
    acting.keep(table, work, acting.PSI, psi)
    frames.weigh(table, work)
    acting.evaluate(table, work, acting.BENDS)
    if frames.count(table) > 0:
        relations.burden(table, work)


@linked(**OPTIONS)
def add_hessians(table: Array, work: Array, out: Array) -> None:
    """Add the second derivatives of s to out [4, nv, nv], but for what is in the columns of the tree, and leave ``d(J psi)/dq``;
    after ``differentiate_twice`` and ``frames.columns``."""
    nv, rows, found = get(table, at.N_V), get(table, at.N_ROWS), _address(table, 3 * acting.BENDS + 2)
    turned, width = _address(table, at.ACT_TURNED), lanes_of(nv)
    clear(work, turned, rows * width)
    if acting.whole(table):
        for k in range(4 * nv * nv):
            put(out, k, get(out, k) + get(work, found + k))
        for r in range(rows):
            for j in range(nv):
                put(work, turned + r * width + j, -get(work, found + (4 * nv + r) * nv + j))
    if frames.count(table) > 0:
        relations.add_second_order(table, work, out, turned)


@linked(**OPTIONS)
def add_products(table: Array, work: Array, out: Array) -> None:
    """Subtract ``(dlambda/dz)^T d(J psi)/dq`` for z = q, v, tau from blocks 0, 1, 3 of out, after ``add_hessians``."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    width = lanes_of(nv)
    found, turned, part = _address(table, at.ACT_SLOPES), _address(table, at.ACT_TURNED), _address(table, at.ACT_BENT)
    for k in range(3):
        clear(work, part, nv * width)
        multiply_add(Block(work, part, width), Block(work, found + k * width, 1), 3 * width, Block(work, turned, width),
                     nv, rows, width)
        block = (0, 1, 3)[k] * nv * nv
        for i in range(nv):
            for j in range(0, nv, WIDTH):
                to, mask = block + i * nv + j, _mask(nv, j)
                store_masked(out, to, load_masked(out, to, mask) - load(work, part + i * width + j), mask)
