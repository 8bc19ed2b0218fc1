"""Forward dynamics with its first derivatives, and its second derivatives contracted.

The structured method: inverse dynamics, its derivatives and one factorisation in the order of the tree,

    da/dx = -M^-1 dID/dx at a = FD(q, v, tau)        (Carpentier and Mansard 2018, Eq. 25)

and for weights mu, with lambda = M^-1 mu and H the contracted Hessians of inverse dynamics (Singh, Russell and
Wensing 2024, arXiv:2302.06001, contracted): mu^T d2a/dq2 = -(H_qq + X + X^T) with X = (da/dq)^T H_aq, and likewise below.
Forces of a mechanism enter by ``dynamics.loops.acting``, its constraints by ``dynamics.loops.held``.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from dynamics.loops import acting, frames, held
from dynamics.loops import layout as at
from dynamics.loops.bodies import external, forces, subtree_sums
from dynamics.loops.dense import clear
from dynamics.loops.factor import factorise, solve, solve_three
from dynamics.loops.first_order import columns_first, columns_of_mass, write_first, write_mass
from dynamics.loops.kinematics import accelerate, fill_poses, move
from dynamics.loops.lanes import WIDTH, get, load_masked, put, splat, store_masked
from dynamics.loops.rnea import project
from dynamics.loops.second_order import columns_second, weigh, write_second
from dynamics.loops.vectors import OPTIONS

Array = np.ndarray


class Results(Record):
    """Where second derivatives are written.

    a [nv]; first [3, nv, nv] as ``forward_dynamics_derivatives`` has it; second [4, nv, nv]: the Hessians of mu^T a named (row,
    column): qq, vq, vv, tq (tau, q). Of many points a, first and second have a row each. Scratch of one point: lam = (da/dtau)^T mu
    [nv]; inverse [4, nv, nv]: the Hessians of lam^T ID, under constraints of the Lagrangian of ``dynamics.loops.held``. All but a
    and lam must have come zeroed the first time.
    """

    a: Array
    first: Array
    second: Array
    lam: Array
    inverse: Array


@linked(**OPTIONS)
def _accelerations(table: Array, reals: Array, work: Array, q: Array, v: Array, tau: Array, f_ext: Array, a: Array) -> None:
    """a = FD(q, v, tau); leaves the factors of M, the twists and every subtree sum but F in the workspace."""
    nv, width, to_bias = get(table, at.N_V), WIDTH * get(table, at.N_BLOCKS), get(table, at.AT_BIAS)
    for i in range(nv):
        put(a, i, 0.0)
    fill_poses(table, reals, work, q)
    move(table, reals, work, v, a)
    external(table, reals, work, f_ext)
    forces(table, reals, work, True)
    subtree_sums(table, work, at.H, 27)
    bias = work[to_bias:to_bias + nv]
    project(table, reals, work, v, a, bias)
    columns_of_mass(table, reals, work)
    write_mass(table, reals, work, work, get(table, at.AT_MASS), width)
    factorise(table, work)
    for i in range(nv):
        put(a, i, get(tau, i) - get(bias, i))
    if get(table, at.AT_ACTING) > 0:
        if frames.count(table) > 0:
            frames.observe(table, reals, work)
        acting.push(table, work, q, v, 1.0, a)
    solve(table, work, a)
    if get(table, at.N_ROWS) > 0:
        held.constrain(table, work, a)


@linked(**OPTIONS)
def forward_dynamics(table: Array, reals: Array, work: Array, q: Array, v: Array, tau: Array, f_ext: Array, a: Array) -> None:
    """Write a [nv]. q: [nq]; v, tau: [nv]; f_ext as for ``inverse_dynamics``."""
    _accelerations(table, reals, work, q, v, tau, f_ext, a)


@linked(**OPTIONS)
def forward_dynamics_derivatives(table: Array, reals: Array, work: Array, q: Array, v: Array, tau: Array, f_ext: Array,
                                 a: Array, out: Array) -> None:
    """Write a [nv] and out [3, nv, nv]: da/dq (tangent), da/dv, da/dtau."""
    width, right = WIDTH * get(table, at.N_BLOCKS), get(table, at.AT_RIGHT)
    _accelerations(table, reals, work, q, v, tau, f_ext, a)
    accelerate(table, reals, work, a)
    forces(table, reals, work, False)
    subtree_sums(table, work, at.F, 6)
    columns_first(table, reals, work)
    acts = get(table, at.AT_ACTING) > 0
    if acts:
        clear(work, right, 3 * width * get(table, at.N_V))  # forces fill what is zero by the structure of the tree
    write_first(table, reals, work, work, right, right + width, 3 * width)
    if acts:
        held.differentiate(table, work, a)
        held.take_derivatives(table, work, right, 3 * width, width)
    solve_three(table, work, out)
    if get(table, at.N_ROWS) > 0:
        held.hold(table, work, out)


@linked(**OPTIONS)
def forward_contracted_second_order(table: Array, reals: Array, work: Array, q: Array, v: Array, tau: Array, mu: Array,
                                    f_ext: Array, to: Results) -> None:
    """Write the results for weights mu [nv]."""
    forward_dynamics_derivatives(table, reals, work, q, v, tau, f_ext, to.a, to.first)
    contract(table, reals, work, mu, to.first, to.lam, to.inverse, to.second)


@linked(**OPTIONS)
def contract(table: Array, reals: Array, work: Array, mu: Array, first: Array, lam: Array, inverse: Array, out: Array) -> None:
    """The second half of ``forward_contracted_second_order``: lam, inverse and out, after ``forward_dynamics_derivatives`` has
    written first and left its sums and factors in the workspace, which no other call may have used since."""
    nv = get(table, at.N_V)
    size = nv * nv
    if get(table, at.AT_ACTING) > 0:
        held.weights(table, work, mu, first, lam)
    else:
        for i in range(nv):
            put(lam, i, get(mu, i))
        solve(table, work, lam)
    curve(table, reals, work, lam, inverse)
    for k in range(3):  # X, Y, Z: (da/dq, da/dv, da/dtau)^T H_aq
        _product(first, k * size, inverse, 3 * size, out, (0, size, 3 * size)[k], nv)
    if get(table, at.N_ROWS) > 0:
        held.add_products(table, work, out)
    for i in range(nv):
        for j in range(i + 1):
            to, mirrored = i * nv + j, j * nv + i
            x = get(out, to) + get(out, mirrored)
            put(out, to, -(get(inverse, to) + x))
            put(out, mirrored, -(get(inverse, mirrored) + x))
    for k in range(size):
        put(out, size + k, -(get(inverse, size + k) + get(out, size + k)))
        put(out, 2 * size + k, -get(inverse, 2 * size + k))
        put(out, 3 * size + k, -get(out, 3 * size + k))


@linked(**OPTIONS)
def curve(table: Array, reals: Array, work: Array, lam: Array, out: Array) -> None:
    """Write out [4, nv, nv], the Hessians of lam^T ID or, where something acts, of the Lagrangian of ``dynamics.loops.held`` with
    psi = lam, after first derivatives; it must have come zeroed the first time."""
    acts, tied = get(table, at.AT_ACTING) > 0, frames.count(table) > 0
    if acts:
        clear(out, 0, 4 * get(table, at.N_V) ** 2)  # forces fill what is zero by the structure of the tree
    forces(table, reals, work, True)
    weigh(table, reals, work, lam)
    if acts:
        held.differentiate_twice(table, work, lam)
    subtree_sums(table, work, at.H, 45)
    columns_second(table, reals, work)
    if tied:
        frames.columns(table, work)
    write_second(table, reals, work, out, True, tied)
    if acts:
        held.add_hessians(table, work, out)


@linked(**OPTIONS)
def _product(left: Array, from_left: int, right: Array, from_right: int, out: Array, to: int, n: int) -> None:
    """out = left^T right for [n, n] matrices that begin at the flat indices given."""
    for b in range((n + WIDTH - 1) // WIDTH):
        rest = n - b * WIDTH
        mask = 255 if rest >= WIDTH else (1 << rest) - 1
        for x in range(0, n, 4):
            # a row count that is no multiple of four repeats its last row
            x1, x2, x3 = min(x + 1, n - 1), min(x + 2, n - 1), min(x + 3, n - 1)
            s, t, u, w = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            for i in range(n):
                row, at_i = load_masked(right, from_right + i * n + b * WIDTH, mask), from_left + i * n
                s = s + get(left, at_i + x) * row
                t = t + get(left, at_i + x1) * row
                u = u + get(left, at_i + x2) * row
                w = w + get(left, at_i + x3) * row
            store_masked(out, to + x * n + b * WIDTH, s, mask)
            store_masked(out, to + x1 * n + b * WIDTH, t, mask)
            store_masked(out, to + x2 * n + b * WIDTH, u, mask)
            store_masked(out, to + x3 * n + b * WIDTH, w, mask)
