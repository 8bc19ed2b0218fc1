"""Relations between frames: their forces, the rows of ``J a + c = 0`` that they make, and derivatives of these.

The functions of each relation (``dynamics.loops.ties``) have the motions of its frames as arguments; their derivatives are carried
on to q and v by the columns of ``dynamics.loops.frames``.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.bodies import subtree_sums
from dynamics.loops.dense import Block, add, clear, multiply_add
from dynamics.loops.frames import A_Q, A_V, AT_V, LIFT, PSI, S, add_masked, add_wrench, lanes_of, matrix_at, motion_at, wrench_at
from dynamics.loops.lanes import WIDTH, Lanes, get, load, put, store
from dynamics.loops.vectors import INLINE, OPTIONS, add6, cross_force

Array = np.ndarray
#: where the record of a relation says that its values and its first and second derivatives begin
VALUES_AT, SLOPES_AT, BENDS_AT = 4, 5, 6


@linked(**INLINE)
def _relation(table: Array, n: int) -> tuple[int, int, int, int, int]:
    """Of relation n: where its record is, how many rows it has, size of its arguments, its first row and its first frame."""
    tie = get(table, get(table, at.AT_ACTING) + at.AT_TIES) + at.TIE * n
    return tie, get(table, tie), get(table, tie + 1), get(table, tie + 2), get(table, tie + 3)


@linked(**OPTIONS)
def act(table: Array, work: Array, multipliers: int) -> None:
    """Forces of the constraints as wrenches on their bodies, from multipliers in the workspace, after the function of values."""
    record = get(table, at.AT_ACTING)
    values = get(table, record + 2)
    for n in range(get(table, record + at.N_TIES)):
        tie, m, K, row, frame = _relation(table, n)
        by_A = values + get(table, tie + VALUES_AT)
        for i in range(K // 6):
            force, moment = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
            for r in range(m):
                factor, here = get(work, multipliers + row + r), by_A + r * K + 6 * i
                own = wrench_at(work, here)
                force, moment = _plus(force, factor, own[0]), _plus(moment, factor, own[1])
            add_wrench(table, work, frame + i, at.F_EXT, (force, moment))


@linked(**INLINE)
def _plus(x: Lanes, factor: float, y: Lanes) -> Lanes:
    return x[0] + factor * y[0], x[1] + factor * y[1], x[2] + factor * y[2]


@linked(**OPTIONS)
def take_values(table: Array, work: Array, J: int, c: int) -> None:
    """Rows of J [rows, width] and of c [rows] from the function of values."""
    record, width = get(table, at.AT_ACTING), lanes_of(get(table, at.N_V))
    for n in range(get(table, record + at.N_TIES)):
        tie, m, K, row, frame = _relation(table, n)
        by_A, to = get(table, record + 2) + get(table, tie + VALUES_AT), J + row * width
        clear(work, to, m * width)
        multiply_add(Block(work, to, width), Block(work, by_A, K), 1, Block(work, matrix_at(table, S, frame, width), width),
                     m, K, width)
        for r in range(m):
            put(work, c + row + r, get(work, by_A + m * K + r))


@linked(**OPTIONS)
def add_rows(table: Array, work: Array, by_q: int, by_v: int, stride: int) -> None:
    """Add d(J a + c)/dq and by v to rows [rows, stride], after the function of derivatives."""
    record, width = get(table, at.AT_ACTING), lanes_of(get(table, at.N_V))
    for n in range(get(table, record + at.N_TIES)):
        tie, m, K, row, frame = _relation(table, n)
        by_A, by_xi = get(table, record + 2) + get(table, tie + VALUES_AT), get(table, record + 5) + get(table, tie + SLOPES_AT)
        _onto(table, work, by_xi, m, K, S, frame, by_q + row * stride, stride, width)
        _onto(table, work, by_xi + m * K, m, K, PSI, frame, by_q + row * stride, stride, width)
        _onto(table, work, by_A, m, K, A_Q, frame, by_q + row * stride, stride, width)
        _onto(table, work, by_xi + m * K, m, K, S, frame, by_v + row * stride, stride, width)
        _onto(table, work, by_A, m, K, A_V, frame, by_v + row * stride, stride, width)


@linked(**OPTIONS)
def _onto(table: Array, work: Array, left: int, m: int, K: int, which: int, frame: int, to: int, stride: int, width: int) -> None:
    """Add left [m, K] times a matrix of the columns."""
    multiply_add(Block(work, to, stride), Block(work, left, K), 1, Block(work, matrix_at(table, which, frame, width), width),
                 m, K, width)


@linked(**OPTIONS)
def take_turning(table: Array, work: Array, out: int, stride: int) -> None:
    """Subtract ``S' d(force)/dxi S`` from out [nv, stride]: how forces turn against the bodies they act on."""
    record, nv = get(table, at.AT_ACTING), get(table, at.N_V)
    width = lanes_of(nv)
    part = get(table, record + at.ACT_PART)
    for n in range(get(table, record + at.N_TIES)):
        tie, m, K, _, frame = _relation(table, n)
        clear(work, part, K * width)
        _onto(table, work, get(table, record + 5) + get(table, tie + SLOPES_AT) + 2 * m * K, K, K, S, frame, part, width, width)
        for i in range(K * width // WIDTH):
            store(work, part + WIDTH * i, -load(work, part + WIDTH * i))
        multiply_add(Block(work, out, stride), Block(work, matrix_at(table, S, frame, width), 1), width, Block(work, part, width),
                     nv, K, width)


@linked(**OPTIONS)
def burden(table: Array, work: Array) -> None:
    """Fill FA, FZ, FP with sums over subtrees, after the function of second derivatives."""
    record = get(table, at.AT_ACTING)
    for b in range(get(table, at.N_BLOCKS)):
        clear(work, b * at.ROWS + at.FA, 18 * WIDTH)
    for n in range(get(table, record + at.N_TIES)):
        tie, _, K, _, frame = _relation(table, n)
        bends = get(table, record + 8) + get(table, tie + BENDS_AT)
        for i in range(K // 6):
            here, f = bends + 6 * i, frame + i
            twist, by_A = wrench_at(work, motion_at(table, f) + AT_V), wrench_at(work, here + 2 * K)
            add_wrench(table, work, f, at.FA, by_A)
            add_wrench(table, work, f, at.FZ, add6(wrench_at(work, here + K), cross_force(twist, by_A)))
            add_wrench(table, work, f, at.FP, wrench_at(work, here))
    subtree_sums(table, work, at.FA, 18)


@linked(**OPTIONS)
def add_second_order(table: Array, work: Array, out: Array, turned: int) -> None:
    """Add to out [4, nv, nv] what the relations' own second derivatives give, and ``d(J psi)/dq`` to rows [rows, width]."""
    record, nv = get(table, at.AT_ACTING), get(table, at.N_V)
    width = lanes_of(nv)
    result, size = get(table, record + at.ACT_BENT), nv * width
    clear(work, result, 4 * size)
    for n in range(get(table, record + at.N_TIES)):
        _add_relation(table, work, n, result, turned, nv, width)
    for i in range(nv):
        for j in range(nv):
            to = i * nv + j
            put(out, to, get(out, to) + get(work, result + i * width + j) + get(work, result + j * width + i))
        for b in range(0, nv, WIDTH):
            mask = 255 if b + WIDTH <= nv else (1 << (nv - b)) - 1
            for k in range(1, 4):
                add_masked(out, (k * nv + i) * nv + b, load(work, result + k * size + i * width + b), mask)


@linked(**OPTIONS)
def _add_relation(table: Array, work: Array, n: int, result: int, turned: int, nv: int, width: int) -> None:
    """One relation: half of qq, then vq, vv, aq to result [4, nv, width]."""
    record = get(table, at.AT_ACTING)
    tie, m, K, row, frame = _relation(table, n)
    part, size = get(table, record + at.ACT_PART), nv * width
    H, by_A = get(table, record + 8) + get(table, tie + BENDS_AT) + 3 * K, get(table, record + 2) + get(table, tie + VALUES_AT)
    s, psi, a_v = matrix_at(table, S, frame, width), matrix_at(table, PSI, frame, width), matrix_at(table, A_V, frame, width)
    first, second, third = part, part + K * width, part + 2 * K * width
    clear(work, part, 3 * K * width)
    _onto(table, work, H + 2 * K * K, K, K, PSI, frame, second, width, width)  # V V by q
    add(0.5, work, second, work, third, K * width)
    multiply_add(Block(work, result, width), Block(work, psi, 1), width, Block(work, third, width), nv, K, width)
    _onto(table, work, H, K, K, S, frame, first, width, width)
    _onto(table, work, H + K * K, K, K, PSI, frame, first, width, width)
    _onto(table, work, H + 3 * K * K, K, K, A_Q, frame, first, width, width)
    _onto(table, work, H + 4 * K * K, K, K, LIFT, frame, first, width, width)
    multiply_add(Block(work, result, width), Block(work, s, 1), width, Block(work, first, width), nv, K, width)
    multiply_add(Block(work, second, width), Block(work, H + K * K, 1), K, Block(work, s, width), K, K, width)
    multiply_add(Block(work, result + size, width), Block(work, s, 1), width, Block(work, second, width), nv, K, width)
    clear(work, first, K * width)
    multiply_add(Block(work, first, width), Block(work, H + 3 * K * K, 1), K, Block(work, s, width), K, K, width)
    multiply_add(Block(work, result + size, width), Block(work, a_v, 1), width, Block(work, first, width), nv, K, width)
    multiply_add(Block(work, result + 3 * size, width), Block(work, s, 1), width, Block(work, first, width), nv, K, width)
    clear(work, first, K * width)
    _onto(table, work, H + 2 * K * K, K, K, S, frame, first, width, width)
    multiply_add(Block(work, result + 2 * size, width), Block(work, s, 1), width, Block(work, first, width), nv, K, width)
    _onto(table, work, H + 5 * K * K, m, K, S, frame, turned + row * width, width, width)
    _onto(table, work, by_A, m, K, LIFT, frame, turned + row * width, width, width)
