"""Second derivatives of lambda^T tau, contracted before they are formed: O(N d) work, four matrices instead of four tensors.

With w_i = w_parent + S_i lambda_i the scalar lambda^T tau is the sum of w_i^T f_i over the bodies, so that the second-order
expressions of Singh, Russell and Wensing 2022 (arXiv:2203.01497, Appendix B) contract, by the identities K1 to K16 there, to
products of vectors that belong to one column each. With subtree sums of h_i = I_i w_i, z_i = (2 B(I_i, v_i))^T w_i and
D_i = 2 B(I_i, w_i), and Lambda_j = w_parent x S_j, column j holds

    a = S x* z + 2 Psi x* h - D Psi + (2 B)^T Lambda      b = S x* h + I Lambda      e = 2 S x* h - D S
    c = S x* f + 2 B Psi + I Psi2                         g = I (Psi + S') + 2 B S

and for a joint k at or above j, k = j only where given,

    q_j q_k: a.Psi_k + b.Psi2_k + c.Lambda_k     v_j q_k: e.Psi_k + g.Lambda_k      q_j v_k: a.S_k + b.(Psi_k + S'_k), k above
    v_j v_k: e.S_k, k above; (S x* h - D S).S_k in the joint itself                 a_j q_k: (I S).Lambda_k
    q_j a_k: b.S_k, k above

The linear parts of a and e vanish, because 2 B has no linear columns. Derivatives are right-tangent; two in one joint are taken
with respect to q_j first. Symmetrised inside each joint they are the Hessian of lambda^T tau(q [+] d) at d = 0.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import hooks
from dynamics.loops import layout as at
from dynamics.loops.acting import add_inverse_second_order, whole
from dynamics.loops.bodies import coriolis_transposed, external, forces, rate_matrix, subtree_sums
from dynamics.loops.dense import clear
from dynamics.loops.first_order import columns_first, rows_first, rows_of_mass, splat3, splat6
from dynamics.loops.frames import add_pairs
from dynamics.loops.general import fold, second_general
from dynamics.loops.kinematics import accumulate, column_address, constants_at, fill_poses, gather, move
from dynamics.loops.lanes import WIDTH, Lanes, get, load, put, store, store_masked
from dynamics.loops.vectors import (
    INLINE,
    OPTIONS,
    add3,
    add6,
    apply,
    cross3,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    get3,
    inertia_times,
    load3,
    load6,
    mul3,
    mul6,
    store3,
    store6,
    sub3,
)

Array = np.ndarray


@linked(**OPTIONS)
def weigh(table: Array, reals: Array, work: Array, lam: Array) -> None:
    """Fill w of the bodies and, from their own H, SIGMA, L, K (before those are summed), HW, Z, KW. lam: [nv]."""
    gather(table, reals, work, at.LAM, lam)
    if get(table, at.N_GENERAL) > 0:
        hooks.remember(table, work, 3, lam)
    base, blocks = constants_at(table), get(table, at.N_BLOCKS)
    for b in range(blocks):
        w = b * at.ROWS
        store6(work, w + at.W_JOINT, mul6(load(work, w + at.LAM), load6(work, w + at.S)))
    accumulate(table, work, at.W_JOINT, at.W_BODY, at.W_ABOVE)
    for b in range(blocks):
        w = b * at.ROWS
        m, h, sigma = load(reals, base + b * at.CONSTANTS + at.K_M), load3(work, w + at.H), load6(work, w + at.SIGMA)
        weight = load6(work, w + at.W_BODY)
        store6(work, w + at.HW, inertia_times(m, h, sigma, weight))
        store3(work, w + at.Z, coriolis_transposed(load3(work, w + at.L), load3(work, w + at.K),
                                                   load3(work, w + at.K + 3 * WIDTH), load3(work, w + at.K + 6 * WIDTH), weight))
        x, y, z = rate_matrix(h, sigma, weight[0], weight[1])
        store3(work, w + at.KW, x)
        store3(work, w + at.KW + 3 * WIDTH, y)
        store3(work, w + at.KW + 6 * WIDTH, z)


@linked(**INLINE)
def turned(x: Lanes, y: Lanes, z: Lanes, a: Lanes) -> Lanes:
    """``2 (tr(K) 1 - K) a``, the angular part of D a, with the columns of K."""
    return mul3(2.0, sub3(mul3(x[0] + y[1] + z[2], a), apply(x, y, z, a)))


@linked(**OPTIONS)
def columns_second(table: Array, reals: Array, work: Array) -> None:
    """Fill lift (Lambda), qa, qb, qe and the diagonal of vv for joints of one column."""
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        columns_second_block(table, reals, work, b, load6(work, w + at.HW), load3(work, w + at.Z), load3(work, w + at.KW),
                             load3(work, w + at.KW + 3 * WIDTH), load3(work, w + at.KW + 6 * WIDTH),
                             load6(work, w + at.W_ABOVE))


@linked(**INLINE)
def columns_second_block(table: Array, reals: Array, work: Array, b: int, hw: Lanes, weighted: Lanes, x: Lanes, y: Lanes, z: Lanes,
                         w_above: Lanes) -> None:
    """Eight columns of ``columns_second`` from subtree sums h, z (``weighted``), columns x, y, z of K_w, and the parents' w."""
    w = b * at.ROWS
    m = load(reals, constants_at(table) + b * at.CONSTANTS + at.K_TOTAL)
    h, sigma = load3(work, w + at.H), load6(work, w + at.SIGMA)
    s, psi = load6(work, w + at.S), load6(work, w + at.PSI)
    lift = cross_motion(w_above, s)
    store6(work, w + at.LIFT, lift)
    store6(work, w + at.QB, add6(cross_force(s, hw), inertia_times(m, h, sigma, lift)))
    spin = turned(x, y, z, s[1])
    store3(work, w + at.QE, sub3(mul3(2.0, add3(cross3(s[1], hw[1]), cross3(s[0], hw[0]))), spin))
    store(work, w + at.VV, 2.0 * dot3(cross3(hw[0], s[1]), s[0]) - dot3(spin, s[1]))
    a = add3(cross3(s[1], weighted), mul3(2.0, add3(cross3(psi[1], hw[1]), cross3(psi[0], hw[0]))))
    a = add3(a, coriolis_transposed(load3(work, w + at.L), load3(work, w + at.K), load3(work, w + at.K + 3 * WIDTH),
                                    load3(work, w + at.K + 6 * WIDTH), lift))
    store3(work, w + at.QA, sub3(a, turned(x, y, z, psi[1])))


@linked(**OPTIONS)
def rows_second(table: Array, work: Array, out: Array, start: int, size: int, width: int) -> None:
    """Write qq, vq, vv, aq from ``start``, each ``size`` after the one before, rows ``width`` apart; entries that are zero by
    structure are left alone."""
    for r in range(get(table, at.N_COLUMNS)):
        row_second(table, work, out, start, size, width, r, -1)


@linked(**OPTIONS)
def row_second(table: Array, work: Array, out: Array, start: int, size: int, width: int, r: int,
               masks: int) -> None:
    """Row r of the four matrices; masks >= 0: only columns whose bit is set in the masks of the blocks at work[masks ...]."""
    to_qq, to_vq, to_vv, to_aq = start, start + size, start + 2 * size, start + 3 * size
    lower, upper, columns = get(table, at.AT_LOWER), get(table, at.AT_UPPER), get(table, at.N_COLUMNS)
    w, to = column_address(r), r * width
    a, e = splat3(work, w + at.QA), splat3(work, w + at.QE)
    b, u, g, inertia = splat6(work, w + at.QB), splat6(work, w + at.U), splat6(work, w + at.W), splat6(work, w + at.IS)
    for n in range(get(table, lower + r), get(table, lower + r + 1)):
        block, mask = get(table, lower + columns + 1 + 2 * n), get(table, lower + columns + 2 + 2 * n)
        if masks >= 0:
            mask &= int(get(work, masks + block))
            if mask == 0:
                continue
        c, here = block * at.ROWS, to + WIDTH * block
        lift, psi_turn = load6(work, c + at.LIFT), load3(work, c + at.PSI + 3 * WIDTH)
        store_masked(out, to_qq + here, dot3(a, psi_turn) + dot6(b, load6(work, c + at.PSI2)) + dot6(u, lift), mask)
        store_masked(out, to_vq + here, dot3(e, psi_turn) + dot6(g, lift), mask)
        store_masked(out, to_vv + here, dot3(e, load3(work, c + at.S + 3 * WIDTH)), mask)
        store_masked(out, to_aq + here, dot6(inertia, lift), mask)
    put(out, to_vv + to + r, get(work, w + at.VV))
    psi_turn, s, psi_s = splat3(work, w + at.PSI + 3 * WIDTH), splat6(work, w + at.S), splat6(work, w + at.PSI_S)
    psi2, lift = splat6(work, w + at.PSI2), splat6(work, w + at.LIFT)
    for n in range(get(table, upper + r), get(table, upper + r + 1)):
        block, mask = get(table, upper + columns + 1 + 2 * n), get(table, upper + columns + 2 + 2 * n)
        if masks >= 0:
            mask &= int(get(work, masks + block))
            if mask == 0:
                continue
        c, here = block * at.ROWS, to + WIDTH * block
        a, b = load3(work, c + at.QA), load6(work, c + at.QB)
        store_masked(out, to_qq + here, dot3(a, psi_turn) + dot6(b, psi2) + dot6(load6(work, c + at.U), lift), mask)
        store_masked(out, to_vq + here, dot3(a, s[1]) + dot6(b, psi_s), mask)
        store_masked(out, to_vv + here, dot3(load3(work, c + at.QE), s[1]), mask)
        store_masked(out, to_aq + here, dot6(b, s), mask)


@linked(**OPTIONS)
def own_blocks(table: Array, work: Array, out: Array, start: int, size: int, width: int, symmetric: bool) -> None:
    """The blocks of every joint with several columns."""
    for n in range(get(table, at.N_MULTI)):
        own_block(table, work, out, start, size, width, symmetric, get(table, get(table, at.AT_MULTI) + n))


@linked(**OPTIONS)
def own_block(table: Array, work: Array, out: Array, start: int, size: int, width: int, symmetric: bool, number: int) -> None:
    """The block of one joint with several columns: vv has a form of its own there, qq is symmetrised if asked for."""
    body = get(table, at.AT_BODIES) + at.BODY * number
    first, count, w = get(table, body + at.COLUMN), get(table, body + at.COLUMNS), get(table, body + at.ADDRESS)
    hw = get3(work, w + at.HW), get3(work, w + at.HW + 3 * WIDTH)
    x, y, z = get3(work, w + at.KW), get3(work, w + at.KW + 3 * WIDTH), get3(work, w + at.KW + 6 * WIDTH)
    for i in range(count):
        at_i = column_address(first + i) + at.S
        s = get3(work, at_i), get3(work, at_i + 3 * WIDTH)
        push = cross3(hw[0], s[1])
        twist = sub3(add3(cross3(s[1], hw[1]), cross3(s[0], hw[0])), turned(x, y, z, s[1]))
        for j in range(count):
            at_j = column_address(first + j) + at.S
            put(out, start + 2 * size + (first + i) * width + first + j,
                dot3(push, get3(work, at_j)) + dot3(twist, get3(work, at_j + 3 * WIDTH)))
    if symmetric:
        for i in range(count):
            for j in range(i):
                p, q = start + (first + i) * width + first + j, start + (first + j) * width + first + i
                mean = 0.5 * (get(out, p) + get(out, q))
                put(out, p, mean)
                put(out, q, mean)


@linked(**OPTIONS)
def write_second(table: Array, reals: Array, work: Array, out: Array, symmetric: bool, tied: bool) -> None:
    """The four Hessians from the columns, through the coupling G; tied: with what ``frames.columns`` added to them."""
    nv = get(table, at.N_V)
    if get(table, at.COUPLED) != 0:
        width, first = WIDTH * get(table, at.N_BLOCKS), get(table, at.SCRATCH)
        size = get(table, at.N_COLUMNS) * width
        rows_second(table, work, work, first, size, width)
        own_blocks(table, work, work, first, size, width, symmetric)
        for k in range(4):
            fold(table, reals, work, first + k * size, width, out, k * nv * nv, nv)
        if get(table, at.N_GENERAL) > 0:
            rows_first(table, work, work, first + 4 * size, first + 5 * size, width)
            rows_of_mass(table, work, work, first + 6 * size, width)
            second_general(table, reals, work, first, size, width, out, symmetric)
    else:
        rows_second(table, work, out, 0, nv * nv, nv)
        if tied:
            add_pairs(table, work, out, nv * nv, nv)
        own_blocks(table, work, out, 0, nv * nv, nv, symmetric)


@linked(**OPTIONS)
def contracted_second_order(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, lam: Array, f_ext: Array,
                            out: Array, symmetric: bool) -> None:
    """Write out [4, nv, nv], the Hessians of lambda^T tau named (row, column): qq, vq, vv, aq. It must have come zeroed the
    first time. symmetric: qq as the Hessian of lambda^T tau(q [+] d) at d = 0, else in the order of differentiation."""
    columns_zero_to_two(table, reals, work, q, v, a, lam, f_ext)
    acts = whole(table)
    if acts:
        clear(out, 0, 4 * get(table, at.N_V) ** 2)  # forces fill what is zero by the structure of the tree
    write_second(table, reals, work, out, symmetric, False)
    if acts:
        add_inverse_second_order(table, work, q, v, lam, out)


@linked(**OPTIONS)
def columns_zero_to_two(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, lam: Array,
                        f_ext: Array) -> None:
    """Everything that belongs to one column."""
    fill_poses(table, reals, work, q)
    move(table, reals, work, v, a)
    external(table, reals, work, f_ext)
    forces(table, reals, work, True)
    weigh(table, reals, work, lam)
    subtree_sums(table, work, at.H, 45)
    columns_first(table, reals, work)
    columns_second(table, reals, work)
