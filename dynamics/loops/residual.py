"""Equations of motion under constraints as residuals, at many points, with their derivatives, for implicit transcriptions.

    F1 = ID(q, v, a) - f(q, v) - J^T lambda        F2 = J a + c

with f, J and c as in ``dynamics.loops.acting``; efforts of motors and what softens rows are linear and stay with the caller. Points
are rows: q [m, nq]; v, a [m, nv]; lam [m, rows]; t [m, 1]; psi and nu together [m, nv + rows]. Derivatives by q are right-tangent.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from dynamics.loops import acting, frames, held, relations
from dynamics.loops import layout as at
from dynamics.loops.bodies import external, forces, subtree_sums
from dynamics.loops.dense import clear
from dynamics.loops.first_order import columns_first, write_first, write_mass
from dynamics.loops.forward import curve
from dynamics.loops.frames import lanes_of
from dynamics.loops.kinematics import fill_poses, move
from dynamics.loops.lanes import WIDTH, get, load, put, store_masked
from dynamics.loops.rnea import project
from dynamics.loops.vectors import OPTIONS

Array = np.ndarray


class Results(Record):
    """Where residuals and their derivatives are written; all must have come zeroed the first time.

    out [m, nv + rows]: F1 and F2; first [m, 3, nv, nv] and by [m, 3, rows, nv]: their derivatives by q, v, a (by lambda F1 has
    -J^T, which is in the last of by); second [m, 4, nv, nv]: the Hessians of ``psi^T F1 + nu^T F2`` named (row, column): qq
    (symmetric), vq, vv, aq; turned [m, rows, nv]: those by lambda and q.
    """

    out: Array
    first: Array
    by: Array
    second: Array
    turned: Array


@linked(**OPTIONS)
def _equations(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, lam: Array, t: Array, out: Array, whole: bool
               ) -> None:
    """Write out [nv + rows]; whole: with every subtree sum, which derivatives need."""
    nv, rows, record = get(table, at.N_V), get(table, at.N_ROWS), get(table, at.AT_ACTING)
    acting.give(table, work, get(t, 0), t, 1, 0)
    fill_poses(table, reals, work, q)
    move(table, reals, work, v, a)
    external(table, reals, work, work[:0].reshape((0, 6)))  # no wrenches
    clear(out, 0, nv + rows)
    if record > 0:
        acting.keep(table, work, acting.A, a)
        acting.keep(table, work, acting.LAM, lam)
        frames.observe(table, reals, work)
        acting.push(table, work, q, v, -1.0, out)
    if rows > 0:
        c = get(table, record + at.ACT_RIGHT)
        held.take_rows(table, work, c)
        for r in range(rows):
            put(out, nv + r, get(work, c + r))
        relations.act(table, work, held.multipliers(table))
        if acting.whole(table):
            J = get(table, record + 2) + nv
            for r in range(rows):
                for k in range(nv):
                    x = get(work, J + r * nv + k)
                    put(out, k, get(out, k) - x * get(lam, r))
                    put(out, nv + r, get(out, nv + r) + x * get(a, k))
    forces(table, reals, work, whole)
    subtree_sums(table, work, at.H if whole else at.F, 27 if whole else 6)
    bias = work[get(table, at.AT_BIAS):get(table, at.AT_BIAS) + nv]
    project(table, reals, work, v, a, bias)
    for i in range(nv):
        put(out, i, get(out, i) + get(bias, i))


@linked(**OPTIONS)
def _linearise(table: Array, reals: Array, work: Array, a: Array, first: Array, by: Array) -> None:
    """Write first [3, nv, nv] and by [3, rows, nv], the derivatives of F1 and F2 by q, v, a, after ``_equations``."""
    nv, rows, right = get(table, at.N_V), get(table, at.N_ROWS), get(table, at.AT_RIGHT)
    width, lanes = WIDTH * get(table, at.N_BLOCKS), lanes_of(nv)
    columns_first(table, reals, work)
    clear(work, right, 3 * width * nv)
    write_first(table, reals, work, work, right, right + width, 3 * width)
    write_mass(table, reals, work, first, 2 * nv * nv, nv)
    acts = get(table, at.AT_ACTING) > 0
    if acts:
        held.differentiate(table, work, a)
        held.take_derivatives(table, work, right, 3 * width, width)
    for k in range(2):
        _copy(work, right + k * width, 3 * width, first, k * nv * nv, nv, nv)
    if rows > 0:
        J, found = get(table, get(table, at.AT_ACTING) + at.ACT_J), get(table, get(table, at.AT_ACTING) + at.ACT_SLOPES)
        held.derivative_rows(table, work, found, 3 * lanes, lanes)
        for k in range(2):
            _copy(work, found + k * lanes, 3 * lanes, by, k * rows * nv, rows, nv)
        _copy(work, J, lanes, by, 2 * rows * nv, rows, nv)


@linked(**OPTIONS)
def _copy(x: Array, at_x: int, stride: int, out: Array, to: int, rows: int, columns: int) -> None:
    """A matrix in whole lanes to one without."""
    for i in range(rows):
        for j in range(0, columns, WIDTH):
            mask = 255 if j + WIDTH <= columns else (1 << (columns - j)) - 1
            store_masked(out, to + i * columns + j, load(x, at_x + i * stride + j), mask)


@linked(**OPTIONS)
def values(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, lam: Array, t: Array, out: Array) -> None:
    """Write out [m, nv + rows]."""
    for k in range(q.shape[0]):
        _equations(table, reals, work, q[k], v[k], a[k], lam[k], t[k], out[k], False)


@linked(**OPTIONS)
def derivatives(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, lam: Array, t: Array, to: Results) -> None:
    """Write values and first derivatives."""
    for k in range(q.shape[0]):
        _equations(table, reals, work, q[k], v[k], a[k], lam[k], t[k], to.out[k], True)
        _linearise(table, reals, work, a[k], to.first[k], to.by[k])


@linked(**OPTIONS)
def contracted(table: Array, reals: Array, work: Array, q: Array, v: Array, a: Array, lam: Array, t: Array, mu: Array, to: Results
               ) -> None:
    """Write all results. mu [m, nv + rows]: psi and nu."""
    nv, rows = get(table, at.N_V), get(table, at.N_ROWS)
    for k in range(q.shape[0]):
        _equations(table, reals, work, q[k], v[k], a[k], lam[k], t[k], to.out[k], True)
        _linearise(table, reals, work, a[k], to.first[k], to.by[k])
        if rows > 0:
            acting.keep(table, work, acting.NU, mu[k, nv:])
        curve(table, reals, work, mu[k, :nv], to.second[k])
        if rows > 0:
            _copy(work, get(table, get(table, at.AT_ACTING) + at.ACT_TURNED), lanes_of(nv), to.turned[k], 0, rows, nv)
            for i in range(rows * nv):
                put(to.turned[k], i, -get(to.turned[k], i))
