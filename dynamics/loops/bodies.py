"""Contributions of every body (inertia, momentum, wrench) and their sums over subtrees.

The inertia is kept as mass, first moment h = int r dm and second moments Sigma = int r r^T dm, all at the reference origin, so
that the rotational inertia is tr(Sigma) 1 - Sigma. With K = int rdot r^T dm and l = int rdot dm the Coriolis matrix of Singh,
Russell and Wensing 2022 (Eq. 6), twice B(I, v), acts on (linear, angular) vectors as

    2 B x = (-2 l x x_w, 2 (tr(K) 1 - K) x_w),

twelve numbers instead of thirty-six, that add up over a subtree.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.kinematics import column_address, constants_at
from dynamics.loops.lanes import WIDTH, Lanes, get, load, put, splat
from dynamics.loops.vectors import (
    INLINE,
    OPTIONS,
    add3,
    add6,
    apply,
    cross3,
    cross_force,
    dot3,
    get3,
    inertia_times,
    load3,
    load6,
    mul3,
    put3,
    store3,
    store6,
    sub3,
)

Array = np.ndarray


@linked(**INLINE)
def second_moments(h: Lanes, s: Lanes, m: Lanes, x: Lanes, y: Lanes, z: Lanes, p: Lanes) -> Lanes:
    """First and second moments after the rotation with columns x, y, z and the translation p."""
    r = apply(x, y, z, h)
    d, o = s
    # R Sigma, column by column, then times R^T
    u, v, w = apply(x, y, z, (d[0], o[0], o[1])), apply(x, y, z, (o[0], d[1], o[2])), apply(x, y, z, (o[1], o[2], d[2]))
    g = add3(r, mul3(m, p))
    # R h p^T + p (R h)^T + m p p^T = r p^T + p g^T
    return g, ((u[0] * x[0] + v[0] * y[0] + w[0] * z[0] + r[0] * p[0] + p[0] * g[0],
                u[1] * x[1] + v[1] * y[1] + w[1] * z[1] + r[1] * p[1] + p[1] * g[1],
                u[2] * x[2] + v[2] * y[2] + w[2] * z[2] + r[2] * p[2] + p[2] * g[2]),
               (u[0] * x[1] + v[0] * y[1] + w[0] * z[1] + r[0] * p[1] + p[0] * g[1],
                u[0] * x[2] + v[0] * y[2] + w[0] * z[2] + r[0] * p[2] + p[0] * g[2],
                u[1] * x[2] + v[1] * y[2] + w[1] * z[2] + r[1] * p[2] + p[1] * g[2]))


@linked(**INLINE)
def rate_matrix(h: Lanes, s: Lanes, u: Lanes, w: Lanes) -> Lanes:
    """Columns of K = int rdot r^T dm = u h^T + w^ Sigma for rdot = u + w x r."""
    d, o = s
    return (add3(mul3(h[0], u), cross3(w, (d[0], o[0], o[1]))), add3(mul3(h[1], u), cross3(w, (o[0], d[1], o[2]))),
            add3(mul3(h[2], u), cross3(w, (o[1], o[2], d[2]))))


@linked(**INLINE)
def world_inertia(reals: Array, work: Array, c: int, w: int) -> Lanes:
    """(m, (h, Sigma)) of eight bodies at the reference origin."""
    m = load(reals, c + at.K_M)
    return m, second_moments(load3(reals, c + at.K_H), load6(reals, c + at.K_S), m, load3(work, w + at.R),
                             load3(work, w + at.R + 3 * WIDTH), load3(work, w + at.R + 6 * WIDTH), load3(work, w + at.P))


@linked(**INLINE)
def wrench(m: Lanes, h: Lanes, s: Lanes, v: Lanes, a: Lanes) -> Lanes:
    """``I a + v x* I v``."""
    return add6(inertia_times(m, h, s, a), cross_force(v, inertia_times(m, h, s, v)))


@linked(**OPTIONS)
def inertias(table: Array, reals: Array, work: Array) -> None:
    """Fill H, SIGMA of every body."""
    base = constants_at(table)
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        _, (h, s) = world_inertia(reals, work, base + b * at.CONSTANTS, w)
        store3(work, w + at.H, h)
        store6(work, w + at.SIGMA, s)


@linked(**OPTIONS)
def forces(table: Array, reals: Array, work: Array, all_rows: bool) -> None:
    """Fill F of every body, and with ``all_rows`` H, SIGMA, L, K as well. Needs ``move`` and ``external``."""
    base = constants_at(table)
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        m, (h, s) = world_inertia(reals, work, base + b * at.CONSTANTS, w)
        v, a = load6(work, w + at.V_BODY), load6(work, w + at.A_BODY)
        f, e = wrench(m, h, s, v, a), load6(work, w + at.F_EXT)
        store6(work, w + at.F, (sub3(f[0], e[0]), sub3(f[1], e[1])))
        if all_rows:
            store3(work, w + at.H, h)
            store6(work, w + at.SIGMA, s)
            store3(work, w + at.L, add3(mul3(m, v[0]), cross3(v[1], h)))
            x, y, z = rate_matrix(h, s, v[0], v[1])
            store3(work, w + at.K, x)
            store3(work, w + at.K + 3 * WIDTH, y)
            store3(work, w + at.K + 6 * WIDTH, z)


@linked(**OPTIONS)
def external(table: Array, reals: Array, work: Array, f_ext: Array) -> None:
    """Wrenches on the bodies of the tables, given in their own frames [bodies, 6], to the reference. No rows: none act."""
    none = splat(0.0)
    for b in range(get(table, at.N_BLOCKS)):
        store6(work, b * at.ROWS + at.F_EXT, ((none, none, none), (none, none, none)))
    for i in range(f_ext.shape[0]):
        w = get(table, get(table, at.AT_BODIES) + at.BODY * i + at.ADDRESS)
        x, y, z, p = (get3(work, w + at.R), get3(work, w + at.R + 3 * WIDTH), get3(work, w + at.R + 6 * WIDTH),
                      get3(work, w + at.P))
        f = apply(x, y, z, (get(f_ext, 6 * i), get(f_ext, 6 * i + 1), get(f_ext, 6 * i + 2)))
        n = apply(x, y, z, (get(f_ext, 6 * i + 3), get(f_ext, 6 * i + 4), get(f_ext, 6 * i + 5)))
        put3(work, w + at.F_EXT, f)
        put3(work, w + at.F_EXT + 3 * WIDTH, add3(n, cross3(p, f)))


@linked(**OPTIONS)
def subtree_sums(table: Array, work: Array, row: int, count: int) -> None:
    """Add ``count`` matrix rows from ``row`` of every body to its parent's, leaves first; copy them to the body's other columns."""
    bodies = get(table, at.AT_BODIES)
    for i in range(get(table, at.N_BODIES) - 1, -1, -1):
        record = bodies + at.BODY * i
        parent = get(table, record + at.PARENT)
        if parent >= 0:
            w, to = get(table, record + at.ADDRESS) + row, parent + row
            for k in range(count):
                put(work, to + WIDTH * k, get(work, to + WIDTH * k) + get(work, w + WIDTH * k))
    for n in range(get(table, at.N_MULTI)):
        record = bodies + at.BODY * get(table, get(table, at.AT_MULTI) + n)
        w = get(table, record + at.ADDRESS) + row
        for c in range(1, get(table, record + at.COLUMNS)):
            to = column_address(get(table, record + at.COLUMN) + c) + row
            for k in range(count):
                put(work, to + WIDTH * k, get(work, w + WIDTH * k))


@linked(**INLINE)
def coriolis(momentum: Lanes, x: Lanes, y: Lanes, z: Lanes, a: Lanes) -> Lanes:
    """``2 B`` times a motion vector with angular part a; x, y, z: columns of K."""
    trace = x[0] + y[1] + z[2]
    return mul3(2.0, cross3(a, momentum)), mul3(2.0, sub3(mul3(trace, a), apply(x, y, z, a)))


@linked(**INLINE)
def coriolis_transposed(momentum: Lanes, x: Lanes, y: Lanes, z: Lanes, u: Lanes) -> Lanes:
    """Angular part of ``2 B^T`` times a motion vector u; the linear part is zero."""
    trace, a = x[0] + y[1] + z[2], u[1]
    return mul3(2.0, add3(cross3(momentum, u[0]), sub3(mul3(trace, a), (dot3(x, a), dot3(y, a), dot3(z, a)))))
