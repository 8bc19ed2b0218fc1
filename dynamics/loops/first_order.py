"""Mass matrix and first derivatives of inverse dynamics.

Singh, Russell and Wensing 2022 (arXiv:2203.01497), Eqs. 7, 8 and 16, with body quantities summed over subtrees first: for a
joint j at or above i

    dtau_i/dq_j = S_i^T (2 B_i Psi_j + I_i Psi2_j)            dtau_i/dv_j = S_i^T (2 B_i S_j + I_i (Psi_j + S'_j))
    dtau_j/dq_i = S_j^T (2 B_i Psi_i + I_i Psi2_i + S_i x* f_i)    dtau_j/dv_i = S_j^T (2 B_i S_i + I_i (Psi_i + S'_i))

where Psi_j = v_parent x S_j, Psi2_j = a_parent x S_j + v_parent x Psi_j, S'_j = v_j x S_j. All that belongs to one column is
computed for eight columns at once, and each row of a result is written a block of eight columns at a time.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.acting import add_inverse_first_order, whole
from dynamics.loops.bodies import coriolis, coriolis_transposed, external, forces, inertias, subtree_sums
from dynamics.loops.dense import clear
from dynamics.loops.general import first_general, fold
from dynamics.loops.kinematics import column_address, constants_at, fill_poses, move
from dynamics.loops.lanes import WIDTH, Lanes, get, load, put, splat, store_masked
from dynamics.loops.vectors import (
    INLINE,
    OPTIONS,
    add6,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    get3,
    inertia_times,
    load3,
    load6,
    store3,
    store6,
)

Array = np.ndarray


@linked(**INLINE)
def splat3(array: Array, i: int) -> Lanes:
    """A scalar 3-vector at i in every lane."""
    a = get3(array, i)
    return splat(a[0]), splat(a[1]), splat(a[2])


@linked(**INLINE)
def splat6(array: Array, i: int) -> Lanes:
    """A scalar spatial vector at i in every lane."""
    return splat3(array, i), splat3(array, i + 3 * WIDTH)


@linked(**OPTIONS)
def columns_of_mass(table: Array, reals: Array, work: Array) -> None:
    """Fill IS from the composite inertias."""
    base = constants_at(table)
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        m = load(reals, base + b * at.CONSTANTS + at.K_TOTAL)
        store6(work, w + at.IS, inertia_times(m, load3(work, w + at.H), load6(work, w + at.SIGMA), load6(work, w + at.S)))


@linked(**OPTIONS)
def columns_first(table: Array, reals: Array, work: Array) -> None:
    """Fill psi, psi2, psi_s, U, W, IS, BS from twists, accelerations and subtree sums."""
    base = constants_at(table)
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        m, h, sigma = load(reals, base + b * at.CONSTANTS + at.K_TOTAL), load3(work, w + at.H), load6(work, w + at.SIGMA)
        s, above = load6(work, w + at.S), load6(work, w + at.V_ABOVE)
        store6(work, w + at.IS, inertia_times(m, h, sigma, s))
        psi = cross_motion(above, s)
        psi2 = add6(cross_motion(load6(work, w + at.A_ABOVE), s), cross_motion(above, psi))
        psi_s = add6(psi, cross_motion(load6(work, w + at.V_BODY), s))
        store6(work, w + at.PSI, psi)
        store6(work, w + at.PSI2, psi2)
        store6(work, w + at.PSI_S, psi_s)
        x, y, z = load3(work, w + at.K), load3(work, w + at.K + 3 * WIDTH), load3(work, w + at.K + 6 * WIDTH)
        momentum = load3(work, w + at.L)
        store3(work, w + at.BS, coriolis_transposed(momentum, x, y, z, s))
        store6(work, w + at.W, add6(coriolis(momentum, x, y, z, s[1]), inertia_times(m, h, sigma, psi_s)))
        store6(work, w + at.U, add6(add6(coriolis(momentum, x, y, z, psi[1]), inertia_times(m, h, sigma, psi2)),
                                    cross_force(s, load6(work, w + at.F))))


@linked(**OPTIONS)
def rows_of_mass(table: Array, work: Array, out: Array, start: int, width: int) -> None:
    """Write M, row r from ``start + r width``; entries that are zero by structure are left alone."""
    lower, upper, columns = get(table, at.AT_LOWER), get(table, at.AT_UPPER), get(table, at.N_COLUMNS)
    for r in range(columns):
        w, to = column_address(r), start + r * width
        left, right = splat6(work, w + at.IS), splat6(work, w + at.S)
        for e in range(get(table, lower + r), get(table, lower + r + 1)):
            block, mask = get(table, lower + columns + 1 + 2 * e), get(table, lower + columns + 2 + 2 * e)
            store_masked(out, to + WIDTH * block, dot6(left, load6(work, block * at.ROWS + at.S)), mask)
        for e in range(get(table, upper + r), get(table, upper + r + 1)):
            block, mask = get(table, upper + columns + 1 + 2 * e), get(table, upper + columns + 2 + 2 * e)
            store_masked(out, to + WIDTH * block, dot6(right, load6(work, block * at.ROWS + at.IS)), mask)


@linked(**OPTIONS)
def rows_first(table: Array, work: Array, out: Array, start_q: int, start_v: int, width: int) -> None:
    """Write dtau/dq from ``start_q`` and dtau/dv from ``start_v``, rows ``width`` apart; entries that are zero by structure are
    left alone."""
    lower, upper, columns = get(table, at.AT_LOWER), get(table, at.AT_UPPER), get(table, at.N_COLUMNS)
    for r in range(columns):
        w, to = column_address(r), r * width
        inertia, bs, s = splat6(work, w + at.IS), splat3(work, w + at.BS), splat6(work, w + at.S)
        for e in range(get(table, lower + r), get(table, lower + r + 1)):
            block, mask = get(table, lower + columns + 1 + 2 * e), get(table, lower + columns + 2 + 2 * e)
            c = block * at.ROWS
            by_q = dot3(bs, load3(work, c + at.PSI + 3 * WIDTH)) + dot6(inertia, load6(work, c + at.PSI2))
            by_v = dot3(bs, load3(work, c + at.S + 3 * WIDTH)) + dot6(inertia, load6(work, c + at.PSI_S))
            store_masked(out, start_q + to + WIDTH * block, by_q, mask)
            store_masked(out, start_v + to + WIDTH * block, by_v, mask)
        for e in range(get(table, upper + r), get(table, upper + r + 1)):
            block, mask = get(table, upper + columns + 1 + 2 * e), get(table, upper + columns + 2 + 2 * e)
            c = block * at.ROWS
            store_masked(out, start_q + to + WIDTH * block, dot6(s, load6(work, c + at.U)), mask)
            store_masked(out, start_v + to + WIDTH * block, dot6(s, load6(work, c + at.W)), mask)


@linked(**INLINE)
def add_diagonal(out: Array, reals: Array, start: int, n: int, width: int, offset: int) -> None:
    """Add n scalars to the diagonal of a matrix of lanes."""
    for i in range(n):
        to = offset + i * (width + 1)
        put(out, to, get(out, to) + get(reals, start + i))


@linked(**OPTIONS)
def mass_matrix(table: Array, reals: Array, work: Array, q: Array, out: Array) -> None:
    """Write M [nv, nv]; ``out`` must have come zeroed the first time (structural zeros are not written)."""
    fill_poses(table, reals, work, q)
    inertias(table, reals, work)
    subtree_sums(table, work, at.H, 9)
    columns_of_mass(table, reals, work)
    write_mass(table, reals, work, out, 0, get(table, at.N_V))


@linked(**OPTIONS)
def write_mass(table: Array, reals: Array, work: Array, out: Array, to: int, out_width: int) -> None:
    """M from the columns IS, through the coupling G, with armature."""
    nv, width = get(table, at.N_V), WIDTH * get(table, at.N_BLOCKS)
    if get(table, at.COUPLED) != 0:
        scratch = get(table, at.SCRATCH)
        rows_of_mass(table, work, work, scratch, width)
        fold(table, reals, work, scratch, width, out, to, out_width)
    else:
        rows_of_mass(table, work, out, to, out_width)
    add_diagonal(out, reals, at.AT_ARMATURE, nv, out_width, to)


@linked(**OPTIONS)
def kinematics_first(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, f_ext: Array) -> None:
    """Everything that belongs to one column: needed by the first and the second order alike."""
    fill_poses(table, reals, work, q)
    move(table, reals, work, v, a)
    external(table, reals, work, f_ext)
    forces(table, reals, work, True)
    subtree_sums(table, work, at.H, 27)
    columns_first(table, reals, work)


@linked(**OPTIONS)
def inverse_dynamics_derivatives(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, f_ext: Array,
                                 out: Array) -> None:
    """Write out [3, nv, nv]: dtau/dq (tangent), dtau/dv, M = dtau/da. It must have come zeroed the first time: structural
    zeros of the tree are not written. f_ext as for ``inverse_dynamics``."""
    nv = get(table, at.N_V)
    kinematics_first(table, reals, work, q, v, a, f_ext)
    acts = whole(table)
    if acts:
        clear(out, 0, 2 * nv * nv)  # forces fill what is zero by the structure of the tree
    write_first(table, reals, work, out, 0, nv * nv, nv)
    write_mass(table, reals, work, out, 2 * nv * nv, nv)
    if acts:
        add_inverse_first_order(table, work, q, v, out)


@linked(**OPTIONS)
def write_first(table: Array, reals: Array, work: Array, out: Array, to_q: int, to_v: int, out_width: int) -> None:
    """dtau/dq and dtau/dv from the columns, through the coupling G."""
    nv, width, scratch = get(table, at.N_V), WIDTH * get(table, at.N_BLOCKS), get(table, at.SCRATCH)
    if get(table, at.COUPLED) != 0:
        second = scratch + get(table, at.N_COLUMNS) * width
        rows_first(table, work, work, scratch, second, width)
        fold(table, reals, work, scratch, width, out, to_q, out_width)
        fold(table, reals, work, second, width, out, to_v, out_width)
        if get(table, at.N_GENERAL) > 0:
            mass = second + get(table, at.N_COLUMNS) * width
            rows_of_mass(table, work, work, mass, width)
            first_general(table, reals, work, second, mass, width, out, to_q, to_v, out_width)
    else:
        rows_first(table, work, out, to_q, to_v, out_width)
    add_diagonal(out, reals, at.AT_ARMATURE + nv, nv, out_width, to_v)
