"""Joints with S(q) in derivatives: from the columns of the tree to velocities, through G and through how it changes.

The formulas are those of ``dynamics.derivatives.pullback``; matrices of the columns (of tau_u by chi, u and du = M, and the four
contracted Hessians) lie in the scratch of the workspace, the blocks of single joints where ``dynamics.loops.hooks`` leaves them.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import hooks
from dynamics.loops import layout as at
from dynamics.loops.kinematics import column_address, constants_at
from dynamics.loops.lanes import WIDTH, Lanes, get, put
from dynamics.loops.vectors import INLINE, OPTIONS, add3, cross_motion, dot3, dot6, get3

Array = np.ndarray


@linked(**INLINE)
def scale(table: Array, reals: Array, base: int, column: int) -> float:
    """Velocity of a column per velocity of its own joint: the multiplier of a mimic joint, zero in general links."""
    m = get(reals, base + column // WIDTH * at.CONSTANTS + column % WIDTH + at.K_MULTIPLIER)
    return 1.0 if get(table, get(table, at.AT_COLUMNS) + 3 * column + 1) < 0 else m


@linked(**INLINE)
def link(table: Array, g: int) -> Lanes:
    """(first column, first velocity, number of velocities, address of G) of a general link."""
    record = get(table, at.AT_GENERAL) + at.GENERAL * g
    return get(table, record), get(table, record + 1), get(table, record + 2), get(table, record + 3 + hooks.POSE) + 12


@linked(**OPTIONS)
def add_pulled(table: Array, reals: Array, work: Array, y: int, out: Array, to: int, stride: int) -> None:
    """out[to + stride i] += (G^T y)_i for the columns y that lie in the workspace from there on."""
    first, base = get(table, at.AT_COLUMNS), constants_at(table)
    for s in range(get(table, at.N_COLUMNS)):
        m = scale(table, reals, base, s)
        if m != 0.0:
            here = to + stride * get(table, first + 3 * s + 2)
            put(out, here, get(out, here) + m * get(work, y + s))
    for g in range(get(table, at.N_GENERAL)):
        s, v, n, G = link(table, g)
        for j in range(n):
            total = 0.0
            for c in range(6):
                total += get(work, G + c * n + j) * get(work, y + s + c)
            put(out, to + stride * (v + j), get(out, to + stride * (v + j)) + total)


@linked(**OPTIONS)
def fold(table: Array, reals: Array, work: Array, start: int, width: int, out: Array, to: int, out_width: int) -> None:
    """Columns of the tree to velocities, G^T X G, for X in the workspace; out from ``to``, [nv, nv]."""
    columns, nv, first, base = get(table, at.N_COLUMNS), get(table, at.N_V), get(table, at.AT_COLUMNS), constants_at(table)
    for i in range(nv):
        for j in range(nv):
            put(out, to + i * out_width + j, 0.0)
    if get(table, at.N_GENERAL) > 0:
        _fold_general(table, reals, work, start, width, out, to, out_width)
        return
    factors = get(table, at.AT_ROWS)
    for c in range(columns):
        put(work, factors + c, scale(table, reals, base, c))
    for r in range(columns):
        at_row, source, left = to + get(table, first + 3 * r + 2) * out_width, start + r * width, get(work, factors + r)
        for c in range(columns):
            here = at_row + get(table, first + 3 * c + 2)
            put(out, here, get(out, here) + left * get(work, factors + c) * get(work, source + c))


@linked(**OPTIONS)
def _fold_general(table: Array, reals: Array, work: Array, start: int, width: int, out: Array, to: int, out_width: int) -> None:
    nv, first, base, row = get(table, at.N_V), get(table, at.AT_COLUMNS), constants_at(table), get(table, at.AT_ROWS)
    for r in range(get(table, at.N_COLUMNS)):
        left = scale(table, reals, base, r)
        if left != 0.0:
            _pulled_row(table, reals, work, start + r * width, row)
            _add_row(work, row, left, out, to + get(table, first + 3 * r + 2) * out_width, nv)
    for g in range(get(table, at.N_GENERAL)):
        s, v, n, G = link(table, g)
        for c in range(6):
            _pulled_row(table, reals, work, start + (s + c) * width, row)
            for j in range(n):
                _add_row(work, row, get(work, G + c * n + j), out, to + (v + j) * out_width, nv)


@linked(**INLINE)
def _pulled_row(table: Array, reals: Array, work: Array, y: int, row: int) -> None:
    for j in range(get(table, at.N_V)):
        put(work, row + j, 0.0)
    add_pulled(table, reals, work, y, work, row, 1)


@linked(**INLINE)
def _add_row(work: Array, row: int, factor: float, out: Array, to: int, n: int) -> None:
    for j in range(n):
        put(out, to + j, get(out, to + j) + factor * get(work, row + j))


@linked(**OPTIONS)
def project_general(table: Array, work: Array, row: int, out: Array, to: int) -> None:
    """out[to + i] += (G^T x)_i of the general links alone, x a row of their columns."""
    for g in range(get(table, at.N_GENERAL)):
        s, v, n, G = link(table, g)
        for c in range(6):
            x = get(work, column_address(s + c) + row)
            for j in range(n):
                put(out, to + v + j, get(out, to + v + j) + get(work, G + c * n + j) * x)


@linked(**OPTIONS)
def weights(table: Array, work: Array, second: bool) -> None:
    """Gradients of the contraction by the motion of each general link, into w: w_t from S and F, the others with ``second``."""
    w = get(table, get(table, at.AT_HOOKS) + at.HOOK_INPUTS + 4)
    for g in range(get(table, at.N_GENERAL)):
        s = link(table, g)[0]
        for c in range(6):
            x, to = column_address(s + c), w + hooks.WEIGHTS * g + c
            S, F = _get6(work, x + at.S), _get6(work, x + at.F)
            put(work, to + 6, dot6(S, F))
            if second:
                hw, z, above = _get6(work, x + at.HW), get3(work, x + at.Z), _get6(work, x + at.V_ABOVE)
                psi = cross_motion(above, S)
                psi2, turn = cross_motion(_get6(work, x + at.A_ABOVE), S), cross_motion(above, psi)
                fast, lift = cross_motion(_get6(work, x + at.V_BODY), S), cross_motion(_get6(work, x + at.W_ABOVE), S)
                put(work, to, dot3(psi[1], z) + dot6((add3(psi2[0], turn[0]), add3(psi2[1], turn[1])), hw) + dot6(lift, F))
                put(work, to + 12, dot6((add3(psi[0], fast[0]), add3(psi[1], fast[1])), hw) + dot3(S[1], z))
                put(work, to + 18, dot6(S, hw))


@linked(**INLINE)
def _get6(array: Array, i: int) -> Lanes:
    return get3(array, i), get3(array, i + 3 * WIDTH)


@linked(**OPTIONS)
def _product(work: Array, y: int, matrix: int, width: int, columns: int, s: int, block: int, n: int, k: int, transposed: bool
             ) -> None:
    """y += X[:, s:s + 6] B[:, k], or with the transpose of X, for the block B [6, n] of a joint."""
    for c in range(6):
        b = get(work, block + c * n + k)
        if b != 0.0:
            for r in range(columns):
                x = get(work, matrix + (s + c) * width + r) if transposed else get(work, matrix + r * width + s + c)
                put(work, y + r, get(work, y + r) + x * b)


@linked(**OPTIONS)
def _clear(work: Array, start: int, count: int) -> None:
    for i in range(count):
        put(work, start + i, 0.0)


@linked(**OPTIONS)
def first_general(table: Array, reals: Array, work: Array, by_u: int, mass: int, width: int, out: Array, to_q: int, to_v: int,
                  out_width: int) -> None:
    """Terms of joints with S(q) in dtau/dq and dtau/dv. by_u, mass: matrices of the columns."""
    columns, y = get(table, at.N_COLUMNS), get(table, at.AT_ROWS)
    weights(table, work, False)
    hooks.evaluate(table, work, hooks.SLOPES)
    for g in range(get(table, at.N_GENERAL)):
        s, v, n, _ = link(table, g)
        Du = get(table, get(table, at.AT_GENERAL) + at.GENERAL * g + 3 + hooks.SLOPES)
        for k in range(n):
            _clear(work, y, columns)
            _product(work, y, by_u, width, columns, s, Du, n, k, False)
            _product(work, y, mass, width, columns, s, Du + 6 * n, n, k, False)
            add_pulled(table, reals, work, y, out, to_q + v + k, out_width)
            _clear(work, y, columns)
            _product(work, y, mass, width, columns, s, Du + 12 * n, n, k, False)
            add_pulled(table, reals, work, y, out, to_v + v + k, out_width)
            for j in range(n):
                here = to_q + (v + j) * out_width + v + k
                put(out, here, get(out, here) + get(work, Du + 18 * n + j * n + k))


@linked(**OPTIONS)
def second_general(table: Array, reals: Array, work: Array, start: int, size: int, width: int, out: Array, symmetric: bool
                   ) -> None:
    """Terms of joints with S(q) in the four Hessians in ``out``. From ``start``, each ``size`` after the one before, lie matrices
    of the columns: qq, vq, vv, aq, then dtau/dchi, dtau/du and M."""
    nv, columns, y = get(table, at.N_V), get(table, at.N_COLUMNS), get(table, at.AT_ROWS)
    vq, vv, aq = start + size, start + 2 * size, start + 3 * size
    by_q, by_u, mass = start + 4 * size, start + 5 * size, start + 6 * size
    to_vq, to_vv, to_aq = nv * nv, 2 * nv * nv, 3 * nv * nv
    weights(table, work, True)
    hooks.evaluate(table, work, hooks.SLOPES)
    hooks.evaluate(table, work, hooks.BENDS)
    for g in range(get(table, at.N_GENERAL)):
        s, v, n, _ = link(table, g)
        record = get(table, at.AT_GENERAL) + at.GENERAL * g + 3
        Du, Dmu = get(table, record + hooks.SLOPES), get(table, record + hooks.BENDS)
        Ddu, du_dv = Du + 6 * n, Du + 12 * n
        for k in range(n):
            # column k of F_chi,y Y, transposed to coordinates, on both sides of the diagonal
            _clear(work, y, columns)
            _product(work, y, by_q, width, columns, s, Dmu, n, k, True)
            _product(work, y, vq, width, columns, s, Du, n, k, True)
            _product(work, y, aq, width, columns, s, Ddu, n, k, True)
            add_pulled(table, reals, work, y, out, v + k, nv)
            add_pulled(table, reals, work, y, out, (v + k) * nv, 1)
            # Y^T F_yy Y: mu with u and du, on both sides; then u with u
            _clear(work, y, columns)
            _product(work, y, by_u, width, columns, s, Du, n, k, False)
            _product(work, y, mass, width, columns, s, Ddu, n, k, False)
            _add_between(table, work, y, hooks.BENDS, 0, out, v + k, nv)
            _add_between(table, work, y, hooks.BENDS, 0, out, (v + k) * nv, 1)
            _clear(work, y, columns)
            _product(work, y, vv, width, columns, s, Du, n, k, False)
            _add_between(table, work, y, hooks.SLOPES, 0, out, v + k, nv)
            # by v and q: u goes on with v by G, du by du_dv
            _product(work, y, by_u, width, columns, s, Dmu, n, k, True)
            add_pulled(table, reals, work, y, out, to_vq + v + k, nv)
            _clear(work, y, columns)
            _product(work, y, mass, width, columns, s, Dmu, n, k, False)
            add_pulled(table, reals, work, y, out, to_aq + v + k, nv)
            _add_between(table, work, y, hooks.SLOPES, 12, out, to_vq + v + k, nv)
            _clear(work, y, columns)
            _product(work, y, aq, width, columns, s, du_dv, n, k, True)
            add_pulled(table, reals, work, y, out, to_vq + (v + k) * nv, 1)
        _add_own(work, Dmu + 6 * n, n, out, v, nv, symmetric)
        for j in range(n):
            for k in range(n):
                here, block = (v + j) * nv + v + k, Dmu + 6 * n + n * n
                put(out, to_vq + here, get(out, to_vq + here) + get(work, block + k * n + j))
                put(out, to_vv + here, get(out, to_vv + here) + get(work, block + n * n + j * n + k))
                put(out, to_aq + here, get(out, to_aq + here) + get(work, block + 2 * n * n + k * n + j))


@linked(**OPTIONS)
def _add_between(table: Array, work: Array, y: int, which: int, skip: int, out: Array, to: int, stride: int) -> None:
    """out[to + stride i] += (B^T y)_i for a block B of every general link: that of a function of ``hooks``, after ``skip`` n."""
    for g in range(get(table, at.N_GENERAL)):
        s, v, n, _ = link(table, g)
        block = get(table, get(table, at.AT_GENERAL) + at.GENERAL * g + 3 + which) + skip * n
        for j in range(n):
            total = 0.0
            for c in range(6):
                total += get(work, block + c * n + j) * get(work, y + s + c)
            put(out, to + stride * (v + j), get(out, to + stride * (v + j)) + total)


@linked(**OPTIONS)
def _add_own(work: Array, block: int, n: int, out: Array, v: int, nv: int, symmetric: bool) -> None:
    for j in range(n):
        for k in range(n):
            x = get(work, block + j * n + k)
            if symmetric:
                x = 0.5 * (x + get(work, block + k * n + j))
            put(out, (v + j) * nv + v + k, get(out, (v + j) * nv + v + k) + x)
