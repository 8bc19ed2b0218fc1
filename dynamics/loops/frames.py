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
from dynamics.loops.bodies import subtree_sums
from dynamics.loops.dense import Block, add, clear, multiply_add
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
QQ, VQ, VV, AQ = range(4)
VALUES_AT, SLOPES_AT, BENDS_AT = 4, 5, 6


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
def _motions(table: Array, f: int) -> int:
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
def _wrench(work: Array, i: int) -> Lanes:
    return _three(work, i), _three(work, i + 3)


@linked(**INLINE)
def _add_wrench(table: Array, work: Array, f: int, row: int, force: Lanes) -> None:
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
        own, to = _record(table, f), _motions(table, f)
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
    body, out = get(table, _record(table, f)) + row, _motions(table, f) + to
    m = _into(x, y, z, p, (get3(work, body), get3(work, body + 3 * WIDTH)))
    _set3(work, out, m[0])
    _set3(work, out + 3, m[1])


@linked(**INLINE)
def _matrix(table: Array, which: int, frame: int, width: int) -> int:
    """Where a matrix of the columns begins at a frame."""
    record = get(table, at.AT_ACTING)
    return get(table, record + at.ACT_COLUMNS) + 6 * width * (which * get(table, record + at.N_FRAMES) + frame)


@linked(**OPTIONS)
def _columns(table: Array, work: Array, f: int, row: int, which: int, width: int) -> None:
    """A row of the columns on the way to a frame, in the frame's coordinates; zero elsewhere."""
    x, y, z, p = _pose(table, work, f)
    out, lower, columns = _matrix(table, which, f, width), get(table, at.AT_LOWER), get(table, at.N_COLUMNS)
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
        twist = _wrench(work, _motions(table, f) + AT_V)
        for k in range(2):
            source, to = _matrix(table, (PSI, S)[k], f, width), _matrix(table, (A_Q, A_V)[k], f, width)
            for b in range(0, width, WIDTH):
                turned = cross_motion(twist, _load_wide(work, source + b, width))
                for c in range(3):
                    here = to + c * width + b
                    store(work, here, load(work, here) - turned[0][c])
                    store(work, here + 3 * width, load(work, here + 3 * width) - turned[1][c])


@linked(**OPTIONS)
def act(table: Array, work: Array, multipliers: int) -> None:
    """Forces of the constraints as wrenches on their bodies, from multipliers in the workspace, after the function of values."""
    record = get(table, at.AT_ACTING)
    values = get(table, record + 2)
    for n in range(get(table, record + at.N_TIES)):
        tie = get(table, record + at.AT_TIES) + at.TIE * n
        m, K, row, frame = get(table, tie), get(table, tie + 1), get(table, tie + 2), get(table, tie + 3)
        by_A = values + get(table, tie + VALUES_AT)
        for i in range(K // 6):
            force, moment = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
            for r in range(m):
                factor, here = get(work, multipliers + row + r), by_A + r * K + 6 * i
                own = _wrench(work, here)
                force, moment = _plus(force, factor, own[0]), _plus(moment, factor, own[1])
            _add_wrench(table, work, frame + i, at.F_EXT, (force, moment))


@linked(**INLINE)
def _plus(x: Lanes, factor: float, y: Lanes) -> Lanes:
    return x[0] + factor * y[0], x[1] + factor * y[1], x[2] + factor * y[2]


@linked(**OPTIONS)
def take_values(table: Array, work: Array, J: int, c: int) -> None:
    """Rows of J [rows, width] and of c [rows] from the function of values."""
    record, width = get(table, at.AT_ACTING), lanes_of(get(table, at.N_V))
    for n in range(get(table, record + at.N_TIES)):
        tie = get(table, record + at.AT_TIES) + at.TIE * n
        m, K, row, frame = get(table, tie), get(table, tie + 1), get(table, tie + 2), get(table, tie + 3)
        by_A, to = get(table, record + 2) + get(table, tie + VALUES_AT), J + row * width
        clear(work, to, m * width)
        multiply_add(Block(work, to, width), Block(work, by_A, K), 1, Block(work, _matrix(table, S, frame, width), width),
                     m, K, width)
        for r in range(m):
            put(work, c + row + r, get(work, by_A + m * K + r))


@linked(**OPTIONS)
def add_rows(table: Array, work: Array, by_q: int, by_v: int, stride: int) -> None:
    """Add d(J a + c)/dq and by v to rows [rows, stride], after the function of derivatives."""
    record, width = get(table, at.AT_ACTING), lanes_of(get(table, at.N_V))
    for n in range(get(table, record + at.N_TIES)):
        tie = get(table, record + at.AT_TIES) + at.TIE * n
        m, K, row, frame = get(table, tie), get(table, tie + 1), get(table, tie + 2), get(table, tie + 3)
        by_A, by_xi = get(table, record + 2) + get(table, tie + VALUES_AT), get(table, record + 5) + get(table, tie + SLOPES_AT)
        _onto(table, work, by_xi, m, K, S, frame, by_q + row * stride, stride, width)
        _onto(table, work, by_xi + m * K, m, K, PSI, frame, by_q + row * stride, stride, width)
        _onto(table, work, by_A, m, K, A_Q, frame, by_q + row * stride, stride, width)
        _onto(table, work, by_xi + m * K, m, K, S, frame, by_v + row * stride, stride, width)
        _onto(table, work, by_A, m, K, A_V, frame, by_v + row * stride, stride, width)


@linked(**OPTIONS)
def _onto(table: Array, work: Array, left: int, m: int, K: int, which: int, frame: int, to: int, stride: int, width: int) -> None:
    """Add left [m, K] times a matrix of the columns."""
    multiply_add(Block(work, to, stride), Block(work, left, K), 1, Block(work, _matrix(table, which, frame, width), width),
                 m, K, width)


@linked(**OPTIONS)
def take_turning(table: Array, work: Array, out: int, stride: int) -> None:
    """Subtract ``S' d(force)/dxi S`` from out [nv, stride]: how forces turn against the bodies they act on."""
    record, nv = get(table, at.AT_ACTING), get(table, at.N_V)
    width = lanes_of(nv)
    part = get(table, record + at.ACT_PART)
    for n in range(get(table, record + at.N_TIES)):
        tie = get(table, record + at.AT_TIES) + at.TIE * n
        m, K, frame = get(table, tie), get(table, tie + 1), get(table, tie + 3)
        clear(work, part, K * width)
        _onto(table, work, get(table, record + 5) + get(table, tie + SLOPES_AT) + 2 * m * K, K, K, S, frame, part, width, width)
        for i in range(K * width // WIDTH):
            store(work, part + WIDTH * i, -load(work, part + WIDTH * i))
        multiply_add(Block(work, out, stride), Block(work, _matrix(table, S, frame, width), 1), width, Block(work, part, width),
                     nv, K, width)


# ---- second order
@linked(**OPTIONS)
def weigh(table: Array, work: Array) -> None:
    """W of all frames for the functions, after the bodies'."""
    for f in range(count(table)):
        _watch(table, work, f, at.W_BODY, AT_W)


@linked(**OPTIONS)
def burden(table: Array, work: Array) -> None:
    """Fill FA, FZ, FP with sums over subtrees, after the function of second derivatives."""
    record = get(table, at.AT_ACTING)
    for b in range(get(table, at.N_BLOCKS)):
        clear(work, b * at.ROWS + at.FA, 18 * WIDTH)
    for n in range(get(table, record + at.N_TIES)):
        tie = get(table, record + at.AT_TIES) + at.TIE * n
        K, frame, bends = get(table, tie + 1), get(table, tie + 3), get(table, record + 8) + get(table, tie + BENDS_AT)
        for i in range(K // 6):
            here, f = bends + 6 * i, frame + i
            twist, by_A = _wrench(work, _motions(table, f) + AT_V), _wrench(work, here + 2 * K)
            _add_wrench(table, work, f, at.FA, by_A)
            _add_wrench(table, work, f, at.FZ, add6(_wrench(work, here + K), cross_force(twist, by_A)))
            _add_wrench(table, work, f, at.FP, _wrench(work, here))
    subtree_sums(table, work, at.FA, 18)


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
def _more(out: Array, to: int, x: Lanes, mask: int) -> None:
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
            _more(out, here, dot3(a, psi) + dot6(c, s), mask)
            _more(out, size + here, dot3(e, psi), mask)
            _more(out, 2 * size + here, dot3(e, s[0]), mask & ~(1 << (r - WIDTH * block)) if r // WIDTH == block else mask)
        psi, s = _splat3(work, w + at.PSI), (_splat3(work, w + at.S), _splat3(work, w + at.S + 3 * WIDTH))
        for n in range(get(table, upper + r), get(table, upper + r + 1)):
            block, mask = get(table, upper + n_columns + 1 + 2 * n), get(table, upper + n_columns + 2 + 2 * n)
            k, here = block * at.ROWS, to + WIDTH * block
            a_k = load3(work, k + at.TA)
            _more(out, here, dot3(a_k, psi) + dot6(load6(work, k + at.TC), s), mask)
            _more(out, size + here, dot3(a_k, s[0]), mask)
            _more(out, 2 * size + here, dot3(load3(work, k + at.TE), s[0]), mask)


@linked(**OPTIONS)
def add_second_order(table: Array, work: Array, out: Array, turned: int) -> None:
    """Add to out [4, nv, nv] what the relations' own second derivatives give, and ``d(J psi)/dq`` to rows [rows, width]."""
    record, nv = get(table, at.AT_ACTING), get(table, at.N_V)
    width = lanes_of(nv)
    result, size = get(table, record + at.ACT_BENT), nv * width
    clear(work, result, 4 * size)
    for n in range(get(table, record + at.N_TIES)):
        _add_relation(table, work, get(table, record + at.AT_TIES) + at.TIE * n, result, turned, nv, width)
    for i in range(nv):
        for j in range(nv):
            to = i * nv + j
            put(out, to, get(out, to) + get(work, result + i * width + j) + get(work, result + j * width + i))
        for b in range(0, nv, WIDTH):
            mask = 255 if b + WIDTH <= nv else (1 << (nv - b)) - 1
            for k in range(1, 4):
                _more(out, (k * nv + i) * nv + b, load(work, result + k * size + i * width + b), mask)


@linked(**OPTIONS)
def _add_relation(table: Array, work: Array, tie: int, result: int, turned: int, nv: int, width: int) -> None:
    """One relation: half of qq, then vq, vv, aq to result [4, nv, width]."""
    record = get(table, at.AT_ACTING)
    m, K, row, frame = get(table, tie), get(table, tie + 1), get(table, tie + 2), get(table, tie + 3)
    part, size = get(table, record + at.ACT_PART), nv * width
    H, by_A = get(table, record + 8) + get(table, tie + BENDS_AT) + 3 * K, get(table, record + 2) + get(table, tie + VALUES_AT)
    s, psi, a_v = _matrix(table, S, frame, width), _matrix(table, PSI, frame, width), _matrix(table, A_V, frame, width)
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
