"""Frames that constraints hold: their motion, its first derivatives, and contracted second ones, in lanes over the columns.

The formulas are those of ``dynamics.derivatives.frame_motions``; columns are taken from the tree, where they are at the root, to
the coordinates of each frame. Terms of wrenches that are constant in a frame are summed over subtrees first in second derivatives,
wrenches FA dual to accelerations, FZ = F_V + V x* FA to twists, FP to poses, so that column j holds

    a = S x* FZ + Psi x* FA        b = e = S x* FA        c = S x* FP / 2

and for a joint k at or above j (k above where a v is among the two)

    q_j q_k: a.Psi_k + b.Psi2_k + c.S_k    v_j q_k: e.Psi_k    q_j v_k: a.S_k + b.(Psi_k + S'_k)    v_j v_k: e.S_k    q_j a_k: b.S_k

which joins the columns of ``dynamics.loops.second_order``. Forces of constraints act as wrenches on the bodies.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops import layout as at
from dynamics.loops.dense import clear
from dynamics.loops.kinematics import column_address
from dynamics.loops.lanes import WIDTH, Lanes, get, load, load_masked, put, splat, store, store_masked
from dynamics.loops.ties import MOTION
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
    load3,
    load6,
    mul6,
    put3,
    store3,
    store6,
)

Array = np.ndarray
#: matrices of the columns in the coordinates of the frames; where the motion of a frame has V, A, W
S, PSI, A_Q, A_V, LIFT = range(5)
AT_V, AT_A, AT_W = 12, 18, 24


@linked(**INLINE)
def lanes_of(n: int) -> int:
    """n rounded up to whole lanes."""
    return (n + WIDTH - 1) // WIDTH * WIDTH


@linked(**INLINE)
def _pose(table: Array, work: Array, f: int) -> Lanes:
    """Columns of R and p of a frame at the root."""
    p = get(table, get(table, at.AT_ACTING) + at.ACT_POSES) + 12 * f
    return _three(work, p), _three(work, p + 3), _three(work, p + 6), _three(work, p + 9)


@linked(**INLINE)
def _three(array: Array, i: int) -> Lanes:
    return get(array, i), get(array, i + 1), get(array, i + 2)


@linked(**INLINE)
def _set3(array: Array, i: int, x: Lanes) -> None:
    put(array, i, x[0])
    put(array, i + 1, x[1])
    put(array, i + 2, x[2])


@linked(**INLINE)
def motion_at(table: Array, f: int) -> int:
    """Where the motion of a frame is, among the arguments of the functions."""
    return get(table, get(table, at.AT_ACTING) + at.ACT_INPUTS + 7) + MOTION * f


@linked(**INLINE)
def _record(table: Array, f: int) -> int:
    return get(table, get(table, at.AT_ACTING) + at.AT_FRAMES) + at.FRAME * f


@linked(**INLINE)
def count(table: Array) -> int:
    """How many frames there are."""
    record = get(table, at.AT_ACTING)
    return get(table, record + at.N_FRAMES) if record > 0 else 0


@linked(**INLINE)
def _into(x: Lanes, y: Lanes, z: Lanes, p: Lanes, m: Lanes) -> Lanes:
    """A motion vector at the root in the coordinates of a frame."""
    linear = add3(m[0], cross3(m[1], p))
    return (dot3(x, linear), dot3(y, linear), dot3(z, linear)), (dot3(x, m[1]), dot3(y, m[1]), dot3(z, m[1]))


@linked(**INLINE)
def wrench_at(work: Array, i: int) -> Lanes:
    """The spatial vector of six neighbouring numbers at i."""
    return _three(work, i), _three(work, i + 3)


@linked(**INLINE)
def add_wrench(table: Array, work: Array, f: int, row: int, force: Lanes) -> None:
    """Add a wrench in the coordinates of a frame to a row of its body."""
    x, y, z, p = _pose(table, work, f)
    own = apply(x, y, z, force[0])
    to = get(table, _record(table, f)) + row
    put3(work, to, add3(get3(work, to), own))
    put3(work, to + 3 * WIDTH, add3(get3(work, to + 3 * WIDTH), add3(apply(x, y, z, force[1]), cross3(p, own))))


@linked(**OPTIONS)
def observe(table: Array, reals: Array, work: Array) -> None:
    """Poses, twists and accelerations of all frames for the functions, and S in their coordinates, after ``move``."""
    record, width = get(table, at.AT_ACTING), lanes_of(get(table, at.N_V))
    for f in range(get(table, record + at.N_FRAMES)):
        own, to = _record(table, f), motion_at(table, f)
        body, root, k = get(table, own), get(table, own + 2), get(table, own + 3)
        a, b, c, p = (get3(work, body + at.R), get3(work, body + at.R + 3 * WIDTH), get3(work, body + at.R + 6 * WIDTH),
                      get3(work, body + at.P))
        x, y, z = (apply(a, b, c, _three(reals, k)), apply(a, b, c, _three(reals, k + 3)), apply(a, b, c, _three(reals, k + 6)))
        p = add3(p, apply(a, b, c, _three(reals, k + 9)))
        pose = get(table, record + at.ACT_POSES) + 12 * f
        a, b, c = (get3(work, root + at.RELATIVE_R), get3(work, root + at.RELATIVE_R + 3 * WIDTH),
                   get3(work, root + at.RELATIVE_R + 6 * WIDTH))
        _set3(work, pose, x)
        _set3(work, pose + 3, y)
        _set3(work, pose + 6, z)
        _set3(work, pose + 9, p)
        _set3(work, to, apply(a, b, c, x))
        _set3(work, to + 3, apply(a, b, c, y))
        _set3(work, to + 6, apply(a, b, c, z))
        _set3(work, to + 9, add3(get3(work, root + at.RELATIVE_P), apply(a, b, c, p)))
        _watch(table, work, f, at.V_BODY, AT_V)
        _watch(table, work, f, at.A_BODY, AT_A)
        _columns(table, work, f, at.S, S, width)


@linked(**OPTIONS)
def _watch(table: Array, work: Array, f: int, row: int, to: int) -> None:
    """A motion vector of the body of a frame, in the frame's coordinates, for the functions."""
    x, y, z, p = _pose(table, work, f)
    body, out = get(table, _record(table, f)) + row, motion_at(table, f) + to
    m = _into(x, y, z, p, (get3(work, body), get3(work, body + 3 * WIDTH)))
    _set3(work, out, m[0])
    _set3(work, out + 3, m[1])


@linked(**INLINE)
def matrix_at(table: Array, which: int, frame: int, width: int) -> int:
    """Where a matrix of the columns begins at a frame."""
    record = get(table, at.AT_ACTING)
    return get(table, record + at.ACT_COLUMNS) + 6 * width * (which * get(table, record + at.N_FRAMES) + frame)


@linked(**OPTIONS)
def _columns(table: Array, work: Array, f: int, row: int, which: int, width: int) -> None:
    """A row of the columns on the way to a frame, in the frame's coordinates; zero elsewhere."""
    x, y, z, p = _pose(table, work, f)
    out, lower, columns = matrix_at(table, which, f, width), get(table, at.AT_LOWER), get(table, at.N_COLUMNS)
    clear(work, out, 6 * width)
    r = get(table, _record(table, f) + 1)
    for n in range(get(table, lower + r), get(table, lower + r + 1)):
        block, mask = get(table, lower + columns + 1 + 2 * n), get(table, lower + columns + 2 + 2 * n)
        m, to = _into(x, y, z, p, load6(work, block * at.ROWS + row)), out + WIDTH * block
        for k in range(2):
            store_masked(work, to + 3 * k * width, m[k][0], mask)
            store_masked(work, to + (3 * k + 1) * width, m[k][1], mask)
            store_masked(work, to + (3 * k + 2) * width, m[k][2], mask)


@linked(**INLINE)
def _load_wide(work: Array, i: int, width: int) -> Lanes:
    return ((load(work, i), load(work, i + width), load(work, i + 2 * width)),
            (load(work, i + 3 * width), load(work, i + 4 * width), load(work, i + 5 * width)))


@linked(**OPTIONS)
def differentiate(table: Array, work: Array) -> None:
    """Derivatives of twists and accelerations by q and v, after ``observe`` and ``columns_first``; leaves A of the functions."""
    record, width = get(table, at.AT_ACTING), lanes_of(get(table, at.N_V))
    for f in range(get(table, record + at.N_FRAMES)):
        _watch(table, work, f, at.A_BODY, AT_A)
        _columns(table, work, f, at.PSI, PSI, width)
        _columns(table, work, f, at.PSI2, A_Q, width)
        _columns(table, work, f, at.PSI_S, A_V, width)
        twist = wrench_at(work, motion_at(table, f) + AT_V)
        for k in range(2):
            source, to = matrix_at(table, (PSI, S)[k], f, width), matrix_at(table, (A_Q, A_V)[k], f, width)
            for b in range(0, width, WIDTH):
                turned = cross_motion(twist, _load_wide(work, source + b, width))
                for c in range(3):
                    here = to + c * width + b
                    store(work, here, load(work, here) - turned[0][c])
                    store(work, here + 3 * width, load(work, here + 3 * width) - turned[1][c])


# ---- second order
@linked(**OPTIONS)
def weigh(table: Array, work: Array) -> None:
    """W of all frames for the functions, after the bodies'."""
    for f in range(count(table)):
        _watch(table, work, f, at.W_BODY, AT_W)


@linked(**OPTIONS)
def columns(table: Array, work: Array) -> None:
    """Add what frames owe to the columns of the second order, after ``columns_second`` and ``burden``, and take LIFT to them."""
    for b in range(get(table, at.N_BLOCKS)):
        w = b * at.ROWS
        s, psi, fa = load6(work, w + at.S), load6(work, w + at.PSI), load6(work, w + at.FA)
        e = cross_force(s, fa)
        a = add6(cross_force(s, load6(work, w + at.FZ)), cross_force(psi, fa))
        store6(work, w + at.QB, add6(load6(work, w + at.QB), e))
        store3(work, w + at.QA, add3(load3(work, w + at.QA), a[1]))
        store3(work, w + at.QE, add3(load3(work, w + at.QE), e[1]))
        store3(work, w + at.TA, a[0])
        store3(work, w + at.TE, e[0])
        store6(work, w + at.TC, mul6(0.5, cross_force(s, load6(work, w + at.FP))))
    width = lanes_of(get(table, at.N_V))
    for f in range(count(table)):
        _columns(table, work, f, at.LIFT, LIFT, width)


@linked(**INLINE)
def add_masked(out: Array, to: int, x: Lanes, mask: int) -> None:
    """Add lanes under a mask."""
    store_masked(out, to, load_masked(out, to, mask) + x, mask)


@linked(**INLINE)
def _splat3(array: Array, i: int) -> Lanes:
    a = get3(array, i)
    return splat(a[0]), splat(a[1]), splat(a[2])


@linked(**OPTIONS)
def add_pairs(table: Array, work: Array, out: Array, size: int, width: int) -> None:
    """Add to qq, vq, vv what ``second_order.rows_second`` has no room for: forces of a and e, and c. The blocks of joints with
    several columns are still to be done."""
    lower, upper, n_columns = get(table, at.AT_LOWER), get(table, at.AT_UPPER), get(table, at.N_COLUMNS)
    for r in range(n_columns):
        w, to = column_address(r), r * width
        a, e = _splat3(work, w + at.TA), _splat3(work, w + at.TE)
        c = _splat3(work, w + at.TC), _splat3(work, w + at.TC + 3 * WIDTH)
        for n in range(get(table, lower + r), get(table, lower + r + 1)):
            block, mask = get(table, lower + n_columns + 1 + 2 * n), get(table, lower + n_columns + 2 + 2 * n)
            k, here = block * at.ROWS, to + WIDTH * block
            psi, s = load3(work, k + at.PSI), load6(work, k + at.S)
            add_masked(out, here, dot3(a, psi) + dot6(c, s), mask)
            add_masked(out, size + here, dot3(e, psi), mask)
            add_masked(out, 2 * size + here, dot3(e, s[0]), mask & ~(1 << (r - WIDTH * block)) if r // WIDTH == block else mask)
        psi, s = _splat3(work, w + at.PSI), (_splat3(work, w + at.S), _splat3(work, w + at.S + 3 * WIDTH))
        for n in range(get(table, upper + r), get(table, upper + r + 1)):
            block, mask = get(table, upper + n_columns + 1 + 2 * n), get(table, upper + n_columns + 2 + 2 * n)
            k, here = block * at.ROWS, to + WIDTH * block
            a_k = load3(work, k + at.TA)
            add_masked(out, here, dot3(a_k, psi) + dot6(load6(work, k + at.TC), s), mask)
            add_masked(out, size + here, dot3(a_k, s[0]), mask)
            add_masked(out, 2 * size + here, dot3(load3(work, k + at.TE), s[0]), mask)
