"""Second derivatives of inverse dynamics in full: the contraction of ``second_order`` with every unit vector.

With lambda = e_i the weights w are S_i in the subtree of joint i and zero elsewhere. Every subtree sum is then known without a
sweep: at j in the subtree it is that of the composite body of j (h_j = I_j S_i, and so on), at j above i it is that of i; and
columns that share no path with i need not be visited.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.bodies import coriolis_transposed, rate_matrix
from dynamics.loops.first_order import kinematics_first, splat3, splat6
from dynamics.loops.kinematics import column_address, constants_at
from dynamics.loops.lanes import WIDTH, Lanes, blend, get, load, put, splat
from dynamics.loops.second_order import columns_second_block, contracted_second_order, own_block, row_second
from dynamics.loops.vectors import INLINE, OPTIONS, inertia_times, load3, load6, store3, store6

Array = np.ndarray


@linked(**INLINE)
def _blend3(mask: int, a: Lanes, b: Lanes) -> Lanes:
    return blend(mask, a[0], b[0]), blend(mask, a[1], b[1]), blend(mask, a[2], b[2])


@linked(**INLINE)
def _mine(w: int, weight: Lanes, m: Lanes, work: Array) -> Lanes:
    """h, z and the columns of K_w of eight composite bodies that all move with the twist ``weight``."""
    h, sigma = load3(work, w + at.H), load6(work, w + at.SIGMA)
    z = coriolis_transposed(load3(work, w + at.L), load3(work, w + at.K), load3(work, w + at.K + 3 * WIDTH),
                            load3(work, w + at.K + 6 * WIDTH), weight)
    return inertia_times(m, h, sigma, weight), z, rate_matrix(h, sigma, weight[0], weight[1])


@linked(**INLINE)
def _splat_inertia(work: Array, w: int) -> Lanes:
    return splat3(work, w + at.H), splat6(work, w + at.SIGMA)


@linked(**OPTIONS)
def _weigh_unit(table: Array, reals: Array, work: Array, i: int, block: int, below: int) -> None:
    """Columns of the second order in one block for lambda = e_i; bits of ``below``: columns strictly below joint i."""
    own = column_address(i)
    weight, zero = splat6(work, own + at.S), splat(0.0)
    base = constants_at(table)
    # the composite body of i, for the columns above it
    m = splat(get(reals, base + i // WIDTH * at.CONSTANTS + i % WIDTH + at.K_TOTAL))
    h, sigma = _splat_inertia(work, own)
    hw = inertia_times(m, h, sigma, weight)
    z = coriolis_transposed(splat3(work, own + at.L), splat3(work, own + at.K), splat3(work, own + at.K + 3 * WIDTH),
                            splat3(work, own + at.K + 6 * WIDTH), weight)
    x, y, t = rate_matrix(h, sigma, weight[0], weight[1])
    nothing = (zero, zero, zero)
    above = (nothing, nothing)
    if below != 0:
        their_hw, their_z, (their_x, their_y, their_t) = _mine(
            block * at.ROWS, weight, load(reals, base + block * at.CONSTANTS + at.K_TOTAL), work)
        hw = (_blend3(below, their_hw[0], hw[0]), _blend3(below, their_hw[1], hw[1]))
        z, x, y, t = _blend3(below, their_z, z), _blend3(below, their_x, x), _blend3(below, their_y, y), _blend3(below, their_t, t)
        above = (_blend3(below, weight[0], nothing), _blend3(below, weight[1], nothing))
    columns_second_block(table, reals, work, block, hw, z, x, y, t, above)
    w = block * at.ROWS  # kept for ``own_block``
    store6(work, w + at.HW, hw)
    store3(work, w + at.KW, x)
    store3(work, w + at.KW + 3 * WIDTH, y)
    store3(work, w + at.KW + 6 * WIDTH, t)


@linked(**OPTIONS)
def second_order(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, f_ext: Array, unit: Array,
                 out: Array, symmetric: bool) -> None:
    """Write out [nv, 4, nv, nv]: out[i] holds the Hessians qq, vq, vv, aq of tau_i, named (row, column). It must have come
    zeroed the first time. unit: zeros [nv] to work with. symmetric: as for ``contracted_second_order``."""
    nv = get(table, at.N_V)
    if get(table, at.COUPLED) != 0 or get(table, at.AT_ACTING) > 0:
        for i in range(nv):
            put(unit, i, 1.0)
            contracted_second_order(table, reals, work, q, v, a, unit, f_ext, out[i], symmetric)
            put(unit, i, 0.0)
        return
    kinematics_first(table, reals, work, q, v, a, f_ext)
    lower, upper, kept = get(table, at.AT_LOWER), get(table, at.AT_UPPER), get(table, at.AT_BIAS)
    for i in range(nv):
        for b in range(get(table, at.N_BLOCKS)):
            put(work, kept + b, 0.0)
        for n in range(get(table, lower + i), get(table, lower + i + 1)):
            put(work, kept + get(table, lower + nv + 1 + 2 * n), float(get(table, lower + nv + 2 + 2 * n)))
        for n in range(get(table, upper + i), get(table, upper + i + 1)):
            block, mask = get(table, upper + nv + 1 + 2 * n), get(table, upper + nv + 2 + 2 * n)
            _weigh_unit(table, reals, work, i, block, mask)
            put(work, kept + block, get(work, kept + block) + float(mask))
        for n in range(get(table, lower + i), get(table, lower + i + 1)):
            block, mask = get(table, lower + nv + 1 + 2 * n), get(table, lower + nv + 2 + 2 * n)
            if int(get(work, kept + block)) == mask:  # else done above
                _weigh_unit(table, reals, work, i, block, 0)
        for r in range(nv):
            if int(get(work, kept + r // WIDTH)) >> (r % WIDTH) & 1:
                row_second(table, work, out, 4 * nv * nv * i, nv * nv, nv, r, kept)
        for n in range(get(table, at.N_MULTI)):
            number = get(table, get(table, at.AT_MULTI) + n)
            c = get(table, get(table, at.AT_BODIES) + at.BODY * number + at.COLUMN)
            if int(get(work, kept + c // WIDTH)) >> (c % WIDTH) & 1:
                own_block(table, work, out, 4 * nv * nv * i, nv * nv, nv, symmetric, number)
