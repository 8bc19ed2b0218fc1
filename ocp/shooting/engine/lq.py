"""The linear-quadratic subproblem of a horizon of stages: backward sweep, rollout of its policy, adjoint.

Stages k = 0..S-1 and the end S, each with n[k] state and m[k] control increments, z = (dx, u):

    minimise sum_k g_k'z_k + 1/2 z_k'H_k z_k    such that    dx_{k+1} = F_k z_k + gap_k,    dx_0 = 0

Backward (Tassa, Erez, Todorov 2012, Eqs. 5, 10, 11; with the value shifted through the gaps, Mastalli et al. 2020, Eq. 7):

    v = Vx' + Vxx' gap    Qz = g + F'v    Qzz = H + F' Vxx' F
    k = argmin 1/2 k'Quu k + Qu'k within the bounds of the controls,    K = -Quu_ff^{-1} Qux_f for the free controls f, else zero

(Tassa, Mansard, Todorov 2014, section III), both with ``Quu + mu 1``; the value

    Vx = Qx + K'(Quu k + Qu) + Qux'k    Vxx = Qxx + K'Quu K + K'Qux + Qux'K

takes the unregularised ones, which is right for any k and K; without regularisation ``Vxx = Qxx - Qux_f' Quu_ff^{-1} Qux_f``.

The change of the cost along du = a k + K dx is a polynomial in a, also where the policy is not the minimiser (regularised,
clamped) and where gaps are open: its gradient is carried back in p = gx + A'p' + K'(gu + B'p'), the value of the model without its
Hessians, and its value at a = 1 is that of Vx, Vxx.

All arrays are C-contiguous float64 whose rows are padded to whole lanes; nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from dynamics.loops.dense import Block, clear, copy, flat, padded, product
from dynamics.loops.lanes import WIDTH, get, load, load_masked, put, splat, store, store_masked, total
from dynamics.loops.vectors import INLINE, OPTIONS
from ocp.control.box_qp import box_qp
from ocp.shooting.engine.box import Box, box, eliminate, first, lanes, substitute

Array = np.ndarray


class Model(Record):
    """Quadratic model of S stages and the end; N, M: largest n and m, w = padded(N + M), nw = padded(N).

    n [S+1], m [S+1] int64, m[S] = 0. F [S, N, w]: row i < n[k+1] of (A | B) in columns n[k] + m[k]; H [S+1, N+M, w]: the
    Hessian in z on and below the diagonal, anything finite above; g [S+1, w]; gap [S, nw]. Padding of F and gap is zero.
    """

    n: Array
    m: Array
    F: Array
    H: Array
    g: Array
    gap: Array


class Policy(Record):
    """du = k + K dx: k [S, M], K [S, M, nw]; the value it gives, Vx [S+1, nw], Vxx [S+1, N, nw]; costates [S+1, nw] and
    gradient [S, M] of the model at z = 0. Padding is zero."""

    k: Array
    K: Array
    Vx: Array
    Vxx: Array
    costate: Array
    gradient: Array


class Scratch(Record):
    """Work arrays of one sweep, flat: T [N, w], Q [N+M, w], R [M, w] regularised rows of the controls, G [M, nw]; vectors v,
    p [nw], zero [w], a pair gradients [2, w]."""

    T: Array
    Q: Array
    R: Array
    G: Array
    v: Array
    p: Array
    zero: Array
    gradients: Array
    box: Box


def _sizes(n: Sequence[int], m: Sequence[int]) -> tuple[int, int, int, int, int]:
    """S, N, M, w, nw."""
    S, N, M = len(n) - 1, int(max(n)), int(max(m))
    if len(m) != S + 1 or m[S] != 0:
        raise ValueError(f"m: expected {S + 1} sizes, the last of them 0; got {list(m)}")
    return S, N, M, padded(N + M), padded(N)


def model(n: Sequence[int], m: Sequence[int]) -> Model:
    """Zeros of the right sizes. Raises ValueError unless n and m are of one length and m ends with 0."""
    S, N, M, w, nw = _sizes(n, m)
    return Model(np.array(n, dtype=np.int64), np.array(m, dtype=np.int64), np.zeros((S, N, w)), np.zeros((S + 1, N + M, w)),
                 np.zeros((S + 1, w)), np.zeros((S, nw)))


def policy(n: Sequence[int], m: Sequence[int]) -> Policy:
    """Zeros of the right sizes. Raises ValueError as ``model`` does."""
    S, N, M, _, nw = _sizes(n, m)
    return Policy(np.zeros((S, M)), np.zeros((S, M, nw)), np.zeros((S + 1, nw)), np.zeros((S + 1, N, nw)), np.zeros((S + 1, nw)),
                  np.zeros((S, M)))


def scratch(n: Sequence[int], m: Sequence[int]) -> Scratch:
    """Zeros of the right sizes. Raises ValueError as ``model`` does."""
    _, N, M, w, nw = _sizes(n, m)
    return Scratch(np.zeros(N * w), np.zeros((N + M) * w), np.zeros(M * w), np.zeros(M * nw), np.zeros(nw), np.zeros(nw),
                   np.zeros(w), np.zeros(2 * w), box(M, w))


@linked(**OPTIONS)
def _add_vjp(F: Array, at_F: int, w: int, rows: int, v: Array, p: Array, g: Array, at_g: int, columns: int, out: Array) -> None:
    """``(g + F'v, g + F'p)`` as two rows of out."""
    for b in range(0, columns, WIDTH):
        x = load(g, at_g + b)
        y = x
        for j in range(rows):
            f = load(F, at_F + j * w + b)
            x, y = x + get(v, j) * f, y + get(p, j) * f
        store(out, b, x)
        store(out, w + b, y)


@linked(**OPTIONS)
def _add_rows(start: Array, at_start: int, left: Array, at: int, count: int, rows: Block, n: int, out: Array, at_out: int
              ) -> None:
    """``out = start + sum_i left_i rows_i``: n numbers, nothing else is written."""
    for b in range(0, n, WIDTH):
        x = load(start, at_start + b)
        for i in range(count):
            x = x + get(left, at + i) * load(rows.numbers, rows.at + i * rows.row + b)
        store_masked(out, at_out + b, x, first(n - b))


@linked(**OPTIONS)
def _general_value(Q: Array, w: int, n: int, m: int, K: Array, at_K: int, nw: int, G: Array) -> None:
    """Qxx += K'Quu K + K'Qux + Qux'K on and below the diagonal; of Quu the upper triangle is filled."""
    columns, at_u, zero, one, full, half = lanes(n), n * w, 0 * n, 0 * n + 1, n < 0, n >= 0
    for i in range(m):
        for j in range(i):
            put(Q, at_u + j * w + n + i, get(Q, at_u + i * w + n + j))
    Qxx, Qux, Quu, gain, QK = Block(Q, zero, w), Block(Q, at_u, w), Block(Q, at_u + n, w), Block(K, at_K, nw), Block(G, zero, nw)
    product(Qux, Quu, one, gain, QK, m, m, columns, full)
    product(Qxx, Block(K, at_K, one), nw, QK, Qxx, n, m, columns, half)
    product(Qxx, Block(Q, at_u, one), w, gain, Qxx, n, m, columns, half)


@linked(**OPTIONS)
def _mirror(lower: Array, at_lower: int, row: int, out: Array, at: int, out_row: int, n: int) -> float:
    """Write the symmetric matrix whose lower triangle is given; returns its trace."""
    trace = 0.0
    for i in range(n):
        source = at_lower + i * row
        for b in range(0, i + 1, WIDTH):
            store(out, at + i * out_row + b, load_masked(lower, source + b, first(i + 1 - b)))
        for j in range(i):
            put(out, at + j * out_row + i, get(lower, source + j))
        trace += get(lower, source + i)
    return trace


@linked(**INLINE)
def _gains(Q_u: Block, n: int, m: int, q: Array, at_q: int, bounded: bool, gain: Block, k: Array, at_k: int, box: Box) -> int:
    """k and gain K of a stage from its m given rows (Qux | Quu) and q = Qu within the bounds of ``box``, which keeps the rows
    eliminated.

    Returns the number of free controls, negative when Quu is not positive definite on them.
    """
    Y, Z, y, free, step, lower, upper = box.Y, box.Z, box.y, box.qp.free, box.direction, box.lower, box.upper
    (rows, at, w), (K, at_K, nw) = Q_u, gain
    # where the last answer was inside its bounds this one may be: then elimination of all controls is all there is to do
    count, clamped = m, False
    if bounded:
        for i in range(m):
            clamped = clamped or not get(lower, i) < get(k, at_k + i) < get(upper, i)
    while True:
        if clamped:
            count = box_qp(rows, at + n, w, q[at_q : at_q + m], lower, upper, k[at_k : at_k + m], box.qp)
            if count < 0:
                return count
        for i in range(count):
            j = get(free, i) if clamped else i
            put(y, i, get(q, at_q + j))
            copy(rows, at + j * w, Y, i * w, lanes(n + i + 1))
            if clamped:
                for c in range(i + 1):
                    put(Y, i * w + n + c, get(rows, at + j * w + n + get(free, c)))
        if eliminate(Y, Z, w, n, count, y):
            substitute(Z, w, n, count, y, K, at_K, nw, step, 0 * n)
            if clamped:
                break
            for i in range(m):
                clamped = clamped or (bounded and not get(lower, i) <= get(step, i) <= get(upper, i))
                put(k, at_k + i, get(step, i))
            if not clamped:
                return m
        elif clamped or not bounded:
            return -1
        clamped = True
    # the gains of the free controls to their rows of the matrix, from the last
    source = count - 1
    for i in range(m - 1, -1, -1):
        if source >= 0 and get(free, source) == i:
            copy(K, at_K + source * nw, K, at_K + i * nw, lanes(n))
            source -= 1
        else:
            clear(K, at_K + i * nw, lanes(n))
    return count


@linked(**OPTIONS)
def _bound_step(low: Array, high: Array, now: Array, at: int, m: int, box: Box) -> bool:
    """Bounds of the change of m controls, all arrays flat; whether there are any."""
    bounded = m < 0
    for i in range(m):
        below, above, x = get(low, at + i), get(high, at + i), get(now, at + i)
        bounded = bounded or below > -np.inf or above < np.inf
        put(box.lower, i, below - x)
        put(box.upper, i, above - x)
    return bounded


@linked(**OPTIONS)
def _value(out: Policy, work: Scratch, s: int, n: int, m: int, free: int, regular: bool) -> float:
    """The value of stage s under its policy, into ``out``, from Qzz and Qz in ``work``; returns the trace of Vxx."""
    w, nw, M, box = work.gradients.shape[0] // 2, out.K.shape[2], out.K.shape[1], work.box
    Q, z, Vx, V, K, k = flat(work.Q), flat(work.gradients), flat(out.Vx), flat(out.Vxx), flat(out.K), flat(out.k)
    at_x, at_k, at_u, zero, one, half = s * nw, s * M, n * w, 0 * n, 0 * n + 1, n >= 0
    gain, whole = Block(K, at_k * nw, nw), Block(Q, zero, w)
    _add_rows(z, w, z, w + n, m, gain, n, flat(work.p), zero)
    _add_rows(z, zero, k, at_k, m, Block(Q, at_u, w), n, Vx, at_x)
    if regular:
        _general_value(Q, w, n, m, K, at_k * nw, nw, flat(work.G))
        for i in range(m):
            x = get(z, n + i)
            for j in range(m):
                x += get(Q, at_u + i * w + n + j) * get(k, at_k + j)
            put(box.spare, i, x)
        _add_rows(Vx, at_x, box.spare, zero, m, gain, n, Vx, at_x)
    else:
        product(whole, Block(box.Y, zero, one), w, Block(box.Z, zero, w), whole, n, free, lanes(n), half)
    return _mirror(Q, zero, w, V, s * out.Vxx.shape[1] * nw, nw, n)


@linked(**OPTIONS)
def backward(model: Model, u: Array, lower: Array, upper: Array, mu: float, out: Policy, work: Scratch
             ) -> tuple[int, float, float]:
    """Fill the policy and the value in ``out``. Returns (failed stage or -1, linear, quadratic).

    u, lower, upper [S, M]: controls and their bounds, infinite where there is none. ``a linear + a^2 quadratic`` is the change of
    the model's cost along ``forward(model, out, a, ...)``, exactly. A stage has failed when its regularised Quu is not positive
    definite on the free controls, or when its value is not finite.
    """
    S, N, w = model.F.shape
    M, nw, rows_H = u.shape[1], out.Vx.shape[1], model.H.shape[1]
    sizes, controls, F, H, g, gap = flat(model.n), flat(model.m), flat(model.F), flat(model.H), flat(model.g), flat(model.gap)
    k, K, Vx, V, low, high, now = flat(out.k), flat(out.K), flat(out.Vx), flat(out.Vxx), flat(lower), flat(upper), flat(u)
    T, Q, R, v, p, z, nothing = (flat(work.T), flat(work.Q), flat(work.R), flat(work.v), flat(work.p), flat(work.gradients),
                                 flat(work.zero))
    # variables: Numba would compile callees once more for every constant argument
    zero, one, full, half = 0 * S, 0 * S + 1, S < 0, S >= 0
    n, regular, linear, change = get(sizes, S), mu > 0.0, 0.0, 0.0
    for i in range(n):
        put(Vx, S * nw + i, get(g, S * w + i))
        put(p, i, get(g, S * w + i))
    _mirror(H, S * rows_H * w, w, V, S * N * nw, nw, n)
    for s in range(S - 1, -1, -1):
        n, m, rows = get(sizes, s), get(controls, s), get(sizes, s + 1)
        at_F, at_V, at_x, at_k = s * N * w, (s + 1) * N * nw, s * nw, s * M
        at_u, columns = n * w, lanes(n + m)
        # H + F' V F on and below the diagonal
        slope, VF, whole = Block(F, at_F, w), Block(T, zero, w), Block(Q, zero, w)
        product(Block(nothing, zero, zero), Block(V, at_V, nw), one, slope, VF, rows, rows, columns, full)
        product(Block(H, s * rows_H * w, w), Block(F, at_F, one), w, VF, whole, n + m, rows, columns, half)

        # v = Vx' + Vxx' gap; p: what Vx would be if the model were linear along this policy, the gradient of the cost by a
        _add_rows(Vx, at_x + nw, gap, at_x, rows, Block(V, at_V, nw), rows, v, zero)
        for i in range(rows):
            linear += get(p, i) * get(gap, at_x + i)
            change += 0.5 * (get(Vx, at_x + nw + i) + get(v, i)) * get(gap, at_x + i)
        _add_vjp(F, at_F, w, rows, v, p, g, s * w, columns, z)

        bounded = _bound_step(low, high, now, at_k, m, work.box)
        source = Block(Q, at_u, w)
        if regular:
            source = Block(R, zero, w)
            copy(Q, at_u, R, zero, m * w)
            for i in range(m):
                put(R, i * w + n + i, get(R, i * w + n + i) + mu)
        free = _gains(source, n, m, z, n, bounded, Block(K, at_k * nw, nw), k, at_k, work.box)
        if free < 0:
            return s, 0.0, 0.0

        # the value of this policy
        for i in range(m):
            x = 0.0
            for j in range(i):
                x += get(Q, at_u + i * w + n + j) * get(k, at_k + j)
            step = get(k, at_k + i)
            change += step * (get(z, n + i) + x + 0.5 * get(Q, at_u + i * w + n + i) * step)
            linear += step * get(z, w + n + i)
        trace = _value(out, work, s, n, m, free, regular)
        if not abs(trace + linear + change) < np.inf:
            return s, 0.0, 0.0
    return -1, linear, change - linear


@linked(**OPTIONS)
def costates(model: Model, costate: Array, gradient: Array) -> None:
    """Adjoint of the model without policy, costate = gx + A' costate' and gradient = gu + B' costate': the derivatives of the
    cost by each state and by each control. costate [S+1, nw], gradient [S, M]."""
    for s in range(len(model.n) - 1, -1, -1):
        adjoint(model, s, costate, gradient)


@linked(**INLINE)
def adjoint(model: Model, s: int, costate: Array, gradient: Array) -> None:
    """Stage s of ``costates``, after those behind it."""
    S, N, w = model.F.shape
    nw, M = costate.shape[1], gradient.shape[1]
    n, m, after = get(model.n, s), get(model.m, s), get(model.n, s + 1) if s < S else 0
    F, g, y, slope = flat(model.F), flat(model.g), flat(costate), flat(gradient)
    for b in range(0, n + m, WIDTH):
        x = load(g, s * w + b)
        for j in range(after):
            x = x + get(y, (s + 1) * nw + j) * load(F, (s * N + j) * w + b)
        state = first(n - b)
        store_masked(y, s * nw + b, x, state)
        if m > 0:
            store_masked(slope, s * M + b - n, x, first(n + m - b) - state)


@linked(**INLINE)
def _row(matrix: Array, at: int, n: int, x: Array, at_x: int) -> float:
    """A row of n numbers times x, of which only these are read."""
    value = splat(0.0)
    for b in range(0, n, WIDTH):
        mask = first(n - b)
        value = value + load_masked(matrix, at + b, mask) * load_masked(x, at_x + b, mask)
    return total(value)


@linked(**OPTIONS)
def forward(model: Model, policy: Policy, a: float, dx: Array, du: Array) -> None:
    """The model under du = a k + K dx from dx = 0, its gaps closed by the fraction a: dx [S+1, nw], du [S, M]."""
    S, N, w = model.F.shape
    nw, M = dx.shape[1], du.shape[1]
    sizes, controls, F, gap = flat(model.n), flat(model.m), flat(model.F), flat(model.gap)
    k, K, x, u = flat(policy.k), flat(policy.K), flat(dx), flat(du)
    clear(x, 0 * S, (S + 1) * nw)
    for s in range(S):
        n, m, at_x, at_u = get(sizes, s), get(controls, s), s * nw, s * M
        for i in range(m):
            put(u, at_u + i, a * get(k, at_u + i) + _row(K, (at_u + i) * nw, n, x, at_x))
        for i in range(get(sizes, s + 1)):
            row = (s * N + i) * w
            put(x, at_x + nw + i, a * get(gap, at_x + i) + _row(F, row, n, x, at_x) + _row(F, row + n, m, u, at_u))


@linked(**OPTIONS)
def change(model: Model, dx: Array, du: Array) -> tuple[float, float]:
    """(g'z, z'Hz / 2) along dx [S+1, nw], du [S, M]: the change of the model's cost is their sum."""
    stages, rows, w = model.H.shape
    nw, M = dx.shape[1], du.shape[1]
    sizes, controls, H, g, x, u = flat(model.n), flat(model.m), flat(model.H), flat(model.g), flat(dx), flat(du)
    linear, quadratic = 0.0, 0.0
    for s in range(stages):
        n, at_x, at_u = get(sizes, s), s * nw, s * M
        linear += _row(g, s * w, n, x, at_x) + _row(g, s * w + n, get(controls, s), u, at_u)
        for i in range(n + get(controls, s)):
            row, z = (s * rows + i) * w, get(x, at_x + i) if i < n else get(u, at_u + i - n)
            below = _row(H, row, min(i, n), x, at_x) + _row(H, row + n, i - n, u, at_u)
            quadratic += z * (below + 0.5 * get(H, row + i) * z)
    return linear, quadratic


@linked(**OPTIONS)
def projected_gradient(m: Array, u: Array, gradient: Array, lower: Array, upper: Array, unit: float) -> float:
    """Largest component of ``u - clip(u - gradient, lower, upper)``, the gradient in this unit, arrays [S, M] of which the first
    m[k] are used: zero exactly at a first-order optimum within bounds; NaN when there is one."""
    largest = 0.0
    for k in range(u.shape[0]):
        for i in range(m[k]):
            if np.isnan(gradient[k, i]):
                return np.nan
            # clip(gradient, u - upper, u - lower) is the same number without the cancellation
            largest = max(largest, abs(min(max(gradient[k, i], unit * (u[k, i] - upper[k, i])), unit * (u[k, i] - lower[k, i]))))
    return largest
