"""Poses, motion subspaces, twists and accelerations of every body, in the frame of its root body.

All spatial quantities are expressed at one instant in the inertial frame that coincides with the root body's frame. There the
recursions of Singh, Russell and Wensing 2022 (arXiv:2203.01497, section II) need no transforms, the columns of a free-flying
base are constant, and distances stay those within the robot however far it is from the world's origin.
"""

from __future__ import annotations

import math

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import hooks
from dynamics.loops import layout as at
from dynamics.loops.lanes import WIDTH, Lanes, get, load, put, store
from dynamics.loops.trigonometry import LARGEST, sine_cosine
from dynamics.loops.vectors import (
    INLINE,
    OPTIONS,
    add3,
    apply,
    cross3,
    cross_motion,
    get3,
    load3,
    load6,
    mul3,
    mul6,
    put3,
    store3,
    store6,
)

Array = np.ndarray


@linked(**INLINE)
def constants_at(table: Array) -> int:
    """Where the constant table begins among the real numbers."""
    return (at.AT_ARMATURE + 2 * get(table, at.N_V) + WIDTH - 1) // WIDTH * WIDTH


@linked(**OPTIONS)
def fill_poses(table: Array, reals: Array, work: Array, q: Array) -> None:
    """Fill R, p, S, and a_above of the roots (gravity as a base that accelerates, RBDA section 5.3). q: [nq]."""
    columns, blocks, first, base = get(table, at.N_COLUMNS), get(table, at.N_BLOCKS), get(table, at.AT_COLUMNS), constants_at(table)
    large = False
    for s in range(columns):
        at_q, w = get(table, first + 3 * s + 1), get(table, first + 3 * s)
        if at_q >= 0:
            c = base + s // WIDTH * at.CONSTANTS + s % WIDTH
            x = get(reals, c + at.K_MULTIPLIER) * get(q, at_q) + get(reals, c + at.K_OFFSET)
            put(work, w + at.Q, x)
            large = large or not abs(x) <= LARGEST
    for b in range(blocks):
        c, w = base + b * at.CONSTANTS, b * at.ROWS
        x, revolute = load(work, w + at.Q), load(reals, c + at.K_REVOLUTE)
        sine, cosine = sine_cosine(x * revolute)
        store(work, w + at.RELATIVE_R, sine)
        store(work, w + at.RELATIVE_R + WIDTH, cosine)
    if large:
        for s in range(columns):
            w = get(table, first + 3 * s)
            x = get(work, w + at.Q) * get(reals, base + s // WIDTH * at.CONSTANTS + s % WIDTH + at.K_REVOLUTE)
            put(work, w + at.RELATIVE_R, math.sin(x))
            put(work, w + at.RELATIVE_R + WIDTH, math.cos(x))
    for b in range(blocks):
        c, w = base + b * at.CONSTANTS, b * at.ROWS
        sine, cosine = load(work, w + at.RELATIVE_R), load(work, w + at.RELATIVE_R + WIDTH)
        x, y, z = load3(reals, c + at.K_R), load3(reals, c + at.K_R + 3 * WIDTH), load3(reals, c + at.K_R + 6 * WIDTH)
        store3(work, w + at.RELATIVE_R, add3(mul3(cosine, x), mul3(sine, y)))
        store3(work, w + at.RELATIVE_R + 3 * WIDTH, add3(mul3(cosine, y), mul3(-sine, x)))
        store3(work, w + at.RELATIVE_R + 6 * WIDTH, z)
        along = load(work, w + at.Q) * load(reals, c + at.K_PRISMATIC)
        store3(work, w + at.RELATIVE_P, add3(load3(reals, c + at.K_P), mul3(along, z)))
    _place_multi(table, reals, work, q, base)
    _chain(table, reals, work)
    for b in range(blocks):
        c, w = base + b * at.CONSTANTS, b * at.ROWS
        z = load3(work, w + at.R + 6 * WIDTH)
        revolute, prismatic = load(reals, c + at.K_REVOLUTE), load(reals, c + at.K_PRISMATIC)
        store3(work, w + at.S, add3(mul3(revolute, cross3(load3(work, w + at.P), z)), mul3(prismatic, z)))
        store3(work, w + at.S + 3 * WIDTH, mul3(revolute, z))
    _subspaces_multi(table, work)


@linked(**OPTIONS)
def _place_multi(table: Array, reals: Array, work: Array, q: Array, base: int) -> None:
    """Relative pose of the bodies on joints of several degrees of freedom, and of those known by functions."""
    if get(table, at.N_GENERAL) > 0:
        hooks.remember(table, work, 0, q)
        hooks.evaluate(table, work, hooks.POSE)
    for n in range(get(table, at.N_MULTI)):
        body = get(table, at.AT_BODIES) + at.BODY * get(table, get(table, at.AT_MULTI) + n)
        w, kind, k, s = (get(table, body + at.ADDRESS), get(table, body + at.KIND), get(table, body + at.FIRST_Q),
                         get(table, body + at.COLUMN))
        c = base + s // WIDTH * at.CONSTANTS + s % WIDTH
        x, y, z = get3(reals, c + at.K_R), get3(reals, c + at.K_R + 3 * WIDTH), get3(reals, c + at.K_R + 6 * WIDTH)
        p = get3(reals, c + at.K_P)
        if kind == at.GENERIC:  # written by a function of the joint
            r0, r1, r2 = _three(work, k), _three(work, k + 3), _three(work, k + 6)
            p = add3(p, apply(x, y, z, _three(work, k + 9)))
        elif kind == at.PLANAR:
            cosine, sine = math.cos(get(q, k + 2)), math.sin(get(q, k + 2))
            r0, r1, r2 = (cosine, sine, 0.0), (-sine, cosine, 0.0), (0.0, 0.0, 1.0)
            p = add3(p, apply(x, y, z, (get(q, k), get(q, k + 1), 0.0)))
        else:
            if kind == at.FREE:
                p = add3(p, apply(x, y, z, (get(q, k), get(q, k + 1), get(q, k + 2))))
                k += 3
            r0, r1, r2 = _rotation(get(q, k), get(q, k + 1), get(q, k + 2), get(q, k + 3))
        put3(work, w + at.RELATIVE_R, apply(x, y, z, r0))
        put3(work, w + at.RELATIVE_R + 3 * WIDTH, apply(x, y, z, r1))
        put3(work, w + at.RELATIVE_R + 6 * WIDTH, apply(x, y, z, r2))
        put3(work, w + at.RELATIVE_P, p)


@linked(**INLINE)
def _three(array: Array, i: int) -> Lanes:
    return get(array, i), get(array, i + 1), get(array, i + 2)


@linked(**INLINE)
def _rotation(w: float, x: float, y: float, z: float) -> Lanes:
    """Columns of the rotation matrix of a quaternion of any length, 1 + 2 (w v^ + v^ v^) / |q|^2 (Sola 2017, Eq. 115)."""
    s = 2.0 / (w * w + x * x + y * y + z * z)
    return ((1.0 - s * (y * y + z * z), s * (x * y + w * z), s * (x * z - w * y)),
            (s * (x * y - w * z), 1.0 - s * (x * x + z * z), s * (y * z + w * x)),
            (s * (x * z + w * y), s * (y * z - w * x), 1.0 - s * (x * x + y * y)))


@linked(**OPTIONS)
def _chain(table: Array, reals: Array, work: Array) -> None:
    """R, p of every body from its parent's; the frame of a root body is the reference."""
    g = (get(reals, at.AT_GRAVITY), get(reals, at.AT_GRAVITY + 1), get(reals, at.AT_GRAVITY + 2))
    for i in range(get(table, at.N_BODIES)):
        body = get(table, at.AT_BODIES) + at.BODY * i
        w, above = get(table, body + at.ADDRESS), get(table, body + at.PARENT)
        a, b, c = (get3(work, w + at.RELATIVE_R), get3(work, w + at.RELATIVE_R + 3 * WIDTH),
                   get3(work, w + at.RELATIVE_R + 6 * WIDTH))
        if above < 0:
            put3(work, w + at.R, (1.0, 0.0, 0.0))
            put3(work, w + at.R + 3 * WIDTH, (0.0, 1.0, 0.0))
            put3(work, w + at.R + 6 * WIDTH, (0.0, 0.0, 1.0))
            put3(work, w + at.P, (0.0, 0.0, 0.0))
            put3(work, w + at.A_ABOVE, (-(a[0] * g[0] + a[1] * g[1] + a[2] * g[2]), -(b[0] * g[0] + b[1] * g[1] + b[2] * g[2]),
                                        -(c[0] * g[0] + c[1] * g[1] + c[2] * g[2])))
        else:
            x, y, z = get3(work, above + at.R), get3(work, above + at.R + 3 * WIDTH), get3(work, above + at.R + 6 * WIDTH)
            p, d = get3(work, above + at.P), get3(work, w + at.RELATIVE_P)
            put3(work, w + at.R, apply(x, y, z, a))
            put3(work, w + at.R + 3 * WIDTH, apply(x, y, z, b))
            put3(work, w + at.R + 6 * WIDTH, apply(x, y, z, c))
            put3(work, w + at.P, add3(p, apply(x, y, z, d)))


@linked(**INLINE)
def column_address(column: int) -> int:
    """Address of a column's record in the workspace."""
    return column // WIDTH * at.ROWS + column % WIDTH


@linked(**OPTIONS)
def _subspaces_multi(table: Array, work: Array) -> None:
    """S of the joints of several degrees of freedom: translations along and rotations about the body's axes."""
    for n in range(get(table, at.N_MULTI)):
        body = get(table, at.AT_BODIES) + at.BODY * get(table, get(table, at.AT_MULTI) + n)
        w, kind, first = get(table, body + at.ADDRESS), get(table, body + at.KIND), get(table, body + at.COLUMN)
        p = get3(work, w + at.P)
        for c in range(get(table, body + at.COLUMNS)):
            axis, turns = c, True
            if kind >= at.FREE:
                axis, turns = c % 3, c >= 3
            elif kind == at.PLANAR:
                turns = c == 2
            z, to = get3(work, w + at.R + 3 * WIDTH * axis), column_address(first + c) + at.S
            if turns:
                put3(work, to, cross3(p, z))
                put3(work, to + 3 * WIDTH, z)
            else:
                put3(work, to, z)
                put3(work, to + 3 * WIDTH, (0.0, 0.0, 0.0))


@linked(**INLINE)
def gather(table: Array, reals: Array, work: Array, row: int, x: Array) -> None:
    """Spread a velocity-like vector [nv] over the columns, ``G x``."""
    first, base = get(table, at.AT_COLUMNS), constants_at(table)
    coupled = get(table, at.COUPLED) != 0
    for s in range(get(table, at.N_COLUMNS)):
        w, value = get(table, first + 3 * s), get(x, get(table, first + 3 * s + 2))
        if coupled and get(table, first + 3 * s + 1) >= 0:
            value *= get(reals, base + s // WIDTH * at.CONSTANTS + s % WIDTH + at.K_MULTIPLIER)
        put(work, w + row, value)
    if get(table, at.N_GENERAL) > 0:
        hooks.spread(table, work, row, x)


@linked(**OPTIONS)
def accumulate(table: Array, work: Array, joint: int, body: int, above: int) -> None:
    """Sum motion vectors down the tree: body = above + joint, above = the parent's body (the roots' above is left as it is).

    joint, body, above: rows. Where a joint has several columns each gets a copy of ``above`` and the first holds ``body``.
    """
    for i in range(get(table, at.N_BODIES)):
        record = get(table, at.AT_BODIES) + at.BODY * i
        w, parent, columns = get(table, record + at.ADDRESS), get(table, record + at.PARENT), get(table, record + at.COLUMNS)
        source = w + above if parent < 0 else parent + body
        x, y = get3(work, source), get3(work, source + 3 * WIDTH)
        u, v = get3(work, w + joint), get3(work, w + joint + 3 * WIDTH)
        for c in range(1, columns):
            other = column_address(get(table, record + at.COLUMN) + c)
            u = add3(u, get3(work, other + joint))
            v = add3(v, get3(work, other + joint + 3 * WIDTH))
            put3(work, other + above, x)
            put3(work, other + above + 3 * WIDTH, y)
        put3(work, w + above, x)
        put3(work, w + above + 3 * WIDTH, y)
        u, v = add3(x, u), add3(y, v)
        put3(work, w + body, u)
        put3(work, w + body + 3 * WIDTH, v)
        for c in range(1, columns):  # the derivative of S needs the joint's own twist too
            other = column_address(get(table, record + at.COLUMN) + c)
            put3(work, other + body, u)
            put3(work, other + body + 3 * WIDTH, v)


@linked(**OPTIONS)
def move(table: Array, reals: Array, work: Array, v: Array, a: Array) -> None:
    """Fill twists and accelerations of the bodies. v, a: [nv]. Needs ``fill_poses``."""
    gather(table, reals, work, at.V, v)
    if get(table, at.N_GENERAL) > 0:
        hooks.remember(table, work, 1, v)
        hooks.evaluate(table, work, hooks.RATE)
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        store6(work, w + at.V_JOINT, mul6(load(work, w + at.V), load6(work, w + at.S)))
    accumulate(table, work, at.V_JOINT, at.V_BODY, at.V_ABOVE)
    accelerate(table, reals, work, a)


@linked(**OPTIONS)
def accelerate(table: Array, reals: Array, work: Array, a: Array) -> None:
    """Fill accelerations of the bodies. a: [nv]. Needs the twists."""
    gather(table, reals, work, at.A, a)
    if get(table, at.N_GENERAL) > 0:
        hooks.remember(table, work, 2, a)
        hooks.add_rates(table, work, at.A)
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        # v_i x S_i qd_i, in which the joint's own twist cancels once its columns are summed
        drift = cross_motion(load6(work, w + at.V_ABOVE), load6(work, w + at.V_JOINT))
        s, x = load6(work, w + at.S), load(work, w + at.A)
        store6(work, w + at.A_JOINT, (add3(mul3(x, s[0]), drift[0]), add3(mul3(x, s[1]), drift[1])))
    accumulate(table, work, at.A_JOINT, at.A_BODY, at.A_ABOVE)
