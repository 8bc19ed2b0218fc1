"""The linear-quadratic subproblem of a horizon of stages: backward sweep, rollout of its policy, adjoint.

Stages k = 0..S-1 and the end S, each with n[k] state and m[k] control increments, z = (dx, u):

    minimise sum_k g_k'z_k + 1/2 z_k'H_k z_k    such that    dx_{k+1} = F_k z_k + gap_k,    dx_0 = 0

Backward (Tassa, Erez, Todorov 2012, Eqs. 5, 10, 11; with the value shifted through the gaps, Mastalli et al. 2020, Eq. 7):

    v = Vx' + Vxx' gap    Qz = g + F'v    Qzz = H + F' Vxx' F
    k = argmin 1/2 k'Quu k + Qu'k within the bounds of the controls,    K = -Quu_ff^{-1} Qux_f on the free rows f, else zero

(Tassa, Mansard, Todorov 2014, section III), both with ``Quu + mu_control 1 + mu_state B'B`` and ``Qux + mu_state B'A``; the value

    Vx = Qx + K'(Quu k + Qu) + Qux'k    Vxx = Qxx + K'Quu K + K'Qux + Qux'K

takes the unregularised ones, which is right for any k and K, and is ``Vxx = Qxx - Qux_f' Quu_ff^{-1} Qux_f`` without regularisation.

All arrays are C-contiguous float64 whose rows are padded to whole lanes; nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.loops.dense import clear, copy, multiply_add, padded
from dynamics.loops.lanes import WIDTH, get, load, load_masked, put, splat, store, store_masked
from dynamics.loops.vectors import INLINE, OPTIONS
from ocp.shooting.engine.box import Box, box, box_qp, eliminate, first, substitute

Array = np.ndarray


class Model(NamedTuple):
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


class Policy(NamedTuple):
    """du = k + K dx: k [S, M], K [S, M, nw]; the value it gives, Vx [S+1, nw], Vxx [S+1, N, nw]; costates [S+1, nw] and
    gradient [S, M] of the model at z = 0. Padding is zero."""

    k: Array
    K: Array
    Vx: Array
    Vxx: Array
    costate: Array
    gradient: Array


class Scratch(NamedTuple):
    """Work arrays of one sweep, flat: T [N, w], Q [N+M, w], R [M, w] regularised rows of the controls, G [M, nw], v [nw], q [M]."""

    T: Array
    Q: Array
    R: Array
    G: Array
    v: Array
    q: Array
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
    return Scratch(np.zeros(N * w), np.zeros((N + M) * w), np.zeros(M * w), np.zeros(M * nw), np.zeros(nw), np.zeros(M), box(M, w))


@njit(**INLINE)
def _lanes(count: int) -> int:
    return (count + WIDTH - 1) // WIDTH * WIDTH


@njit(**OPTIONS)
def _pull(F: Array, at_F: int, rows: int, w: int, v: Array, at_v: int, g: Array, at_g: int, n: int, m: int, x: Array, at_x: int,
          u: Array, at_u: int) -> None:
    """``(x, u) = g + F'v``: n numbers of x and m of u, nothing else is written."""
    for b in range(0, n + m, WIDTH):
        total = load(g, at_g + b)
        for j in range(rows):
            total = total + get(v, at_v + j) * load(F, at_F + j * w + b)
        state = first(n - b)
        store_masked(x, at_x + b, total, state)
        store_masked(u, at_u + b - n, total, first(n + m - b) - state)


@njit(**OPTIONS)
def _add_rows(left: Array, at: int, count: int, rows: Array, at_rows: int, row: int, n: int, out: Array, at_out: int) -> None:
    """``out += sum_i left_i rows_i`` for n columns; the padding of out is not touched."""
    for b in range(0, n, WIDTH):
        mask = first(n - b)
        total = load(out, at_out + b)
        for i in range(count):
            total = total + get(left, at + i) * load_masked(rows, at_rows + i * row + b, mask)
        store(out, at_out + b, total)


@njit(**OPTIONS)
def _select(rows: Array, at: int, w: int, n: int, q: Array, count: int, work: Box) -> None:
    """The rows and columns of the free controls, packed, ready for elimination."""
    free = work.free
    for i in range(count):
        source = at + free[i] * w
        work.y[i] = q[free[i]]
        copy(rows, source, work.Y, i * w, _lanes(n))
        for j in range(i + 1):
            put(work.Y, i * w + n + j, get(rows, source + n + free[j]))


@njit(**OPTIONS)
def _step(rows: Array, at: int, w: int, n: int, m: int, q: Array, bounded: bool, K: Array, at_K: int, nw: int, k: Array,
          at_k: int, G: Array, work: Box) -> int:
    """k and K of one stage from its regularised rows (Qux | Quu) and q = Qu; elimination is left in ``work``. Returns the number
    of free controls, negative when Quu is not positive definite on them."""
    lower, upper, free = work.lower, work.upper, work.free
    zero = 0 * n
    count = m
    if bounded:
        # where the last answer was inside its bounds this one may be: then elimination of all controls is all there is to do
        for i in range(m):
            if not lower[i] < get(k, at_k + i) < upper[i]:
                count = -1
    for i in range(m):
        free[i] = i
    if count == m:
        copy(rows, at, work.Y, zero, m * w)
        for i in range(m):
            work.y[i] = q[i]
        if eliminate(work.Y, work.Z, w, n, m, work.y):
            substitute(work.Y, work.Z, w, n, m, work.y, K, at_K, nw, k, at_k)
            if not bounded:
                return m
            for i in range(m):
                if not lower[i] <= get(k, at_k + i) <= upper[i]:
                    count = -1
            if count == m:
                return m
        elif not bounded:
            return -1
    count = box_qp(rows, at + n, w, m, q, k, at_k, work)
    if count < 0:
        return count
    clear(K, at_K, m * nw)
    if count > 0:
        _select(rows, at, w, n, q, count, work)
        if not eliminate(work.Y, work.Z, w, n, count, work.y):
            return -1
        substitute(work.Y, work.Z, w, n, count, work.y, G, zero, nw, work.direction, zero)
        for i in range(count):
            copy(G, i * nw, K, at_K + free[i] * nw, _lanes(n))
    return count


@njit(**OPTIONS)
def _general_value(Q: Array, w: int, n: int, m: int, K: Array, at_K: int, nw: int, k: Array, at_k: int, q: Array, Vx: Array,
                   at_x: int, G: Array, s: Array) -> None:
    """Qxx += K'Quu K + K'Qux + Qux'K on and below the diagonal, Vx += K'(Quu k + Qu); of Quu the upper triangle is filled."""
    columns, at_u = _lanes(n), n * w
    zero, one, full, half = 0 * n, 0 * n + 1, n < 0, n > -1
    for i in range(m):
        for j in range(i):
            put(Q, at_u + j * w + n + i, get(Q, at_u + i * w + n + j))
    for i in range(m):
        total = q[i]
        for j in range(m):
            total += get(Q, at_u + i * w + n + j) * get(k, at_k + j)
        s[i] = total
        for b in range(0, columns, WIDTH):
            store(G, i * nw + b, load_masked(Q, at_u + i * w + b, first(n - b)))
    multiply_add(Q, at_u + n, w, one, K, at_K, nw, G, zero, nw, m, m, columns, full)
    multiply_add(K, at_K, one, nw, G, zero, nw, Q, zero, w, n, m, columns, half)
    multiply_add(Q, at_u, one, w, K, at_K, nw, Q, zero, w, n, m, columns, half)
    _add_rows(s, zero, m, K, at_K, nw, n, Vx, at_x)


@njit(**OPTIONS)
def backward(model: Model, u: Array, lower: Array, upper: Array, mu_control: float, mu_state: float, out: Policy,
             work: Scratch) -> tuple[int, float, float]:
    """Fill the policy and the value in ``out``. Returns (failed stage or -1, linear, quadratic).

    u, lower, upper [S, M]: controls and their bounds, infinite where there is none. ``a linear + a^2 quadratic`` is the change of
    the model's cost along du = a k + K dx: for every a if all gaps are zero, at a = 1 in any case. A stage has failed when its
    regularised Quu is not positive definite on the free controls, or when its value is not finite.
    """
    S, N, w = model.F.shape
    M, nw = u.shape[1], out.Vx.shape[1]
    F, H, g, gap = model.F.reshape(-1), model.H.reshape(-1), model.g.reshape(-1), model.gap.reshape(-1)
    k, K, Vx, V = out.k.reshape(-1), out.K.reshape(-1), out.Vx.reshape(-1), out.Vxx.reshape(-1)
    u, lower, upper = u.reshape(-1), lower.reshape(-1), upper.reshape(-1)
    T, Q, v, q, box = work.T, work.Q, work.v, work.q, work.box
    linear, quadratic, zero, one, full, half = 0.0, 0.0, 0 * S, 0 * S + 1, S < 0, S > -1
    regular = mu_control > 0.0 or mu_state > 0.0
    end = get(model.n, S)
    for i in range(end):
        put(Vx, S * nw + i, get(g, S * w + i))
    _mirror(H, S * (N + M) * w, w, V, S * N * nw, nw, end)
    for back in range(S):
        s = S - 1 - back
        n, m, rows = get(model.n, s), get(model.m, s), get(model.n, s + 1)
        at_F, at_V, at_x, at_H = s * N * w, (s + 1) * N * nw, s * nw, s * (N + M) * w
        columns = _lanes(n + m)
        for r in range(rows):
            clear(T, r * w, columns)
        multiply_add(V, at_V, nw, one, F, at_F, w, T, zero, w, rows, rows, columns, full)
        for r in range(n + m):
            copy(H, at_H + r * w, Q, r * w, _lanes(r + 1))
        multiply_add(F, at_F, one, w, T, zero, w, Q, zero, w, n + m, rows, columns, half)

        # v = Vx' + Vxx' gap
        shifted, change = False, 0.0
        for i in range(rows):
            put(v, i, get(Vx, at_x + nw + i))
            shifted = shifted or get(gap, at_x + i) != 0.0
        if shifted:
            _add_rows(gap, at_x, rows, V, at_V, nw, rows, v, zero)
            for i in range(rows):
                before = get(Vx, at_x + nw + i)
                linear += get(gap, at_x + i) * before
                quadratic += 0.5 * get(gap, at_x + i) * (get(v, i) - before)
        _pull(F, at_F, rows, w, v, zero, g, s * w, n, m, Vx, at_x, q, zero)

        if m > 0:
            at_k, at_u = s * M, n * w
            at_K = at_k * nw
            bounded = full
            for i in range(m):
                low, high = get(lower, at_k + i), get(upper, at_k + i)
                bounded = bounded or low > -np.inf or high < np.inf
                put(box.lower, i, low - get(u, at_k + i))
                put(box.upper, i, high - get(u, at_k + i))
            if regular:
                R = work.R
                copy(Q, at_u, R, zero, m * w)
                if mu_state > 0.0:
                    for r in range(rows):
                        for b in range(0, columns, WIDTH):
                            store(T, r * w + b, splat(mu_state) * load(F, at_F + r * w + b))
                    multiply_add(F, at_F + n, one, w, T, zero, w, R, zero, w, m, rows, columns, full)
                for i in range(m):
                    put(R, i * w + n + i, get(R, i * w + n + i) + mu_control)
                free = _step(R, zero, w, n, m, q, bounded, K, at_K, nw, k, at_k, work.G, box)
            else:
                free = _step(Q, at_u, w, n, m, q, bounded, K, at_K, nw, k, at_k, work.G, box)
            if free < 0:
                return s, 0.0, 0.0
            for i in range(m):
                row = 0.5 * get(Q, at_u + i * w + n + i) * get(k, at_k + i)
                for j in range(i):
                    row += get(Q, at_u + i * w + n + j) * get(k, at_k + j)
                linear += get(q, i) * get(k, at_k + i)
                quadratic += row * get(k, at_k + i)
            _add_rows(k, at_k, m, Q, at_u, w, n, Vx, at_x)
            if regular:
                _general_value(Q, w, n, m, K, at_K, nw, k, at_k, q, Vx, at_x, work.G, box.slope)
            else:
                multiply_add(box.Y, zero, one, w, box.Z, zero, w, Q, zero, w, n, free, _lanes(n), half)
        trace = _mirror(Q, zero, w, V, s * N * nw, nw, n)
        if not abs(trace + linear + quadratic) < np.inf:
            return s, 0.0, 0.0
    return -1, linear, quadratic


@njit(**OPTIONS)
def _mirror(lower: Array, at_lower: int, row: int, out: Array, at: int, out_row: int, n: int) -> float:
    """Write the symmetric matrix whose lower triangle is given; returns its trace."""
    trace = 0.0
    for i in range(n):
        for j in range(i + 1):
            x = get(lower, at_lower + i * row + j)
            put(out, at + i * out_row + j, x)
            put(out, at + j * out_row + i, x)
        trace += get(lower, at_lower + i * row + i)
    return trace


@njit(**OPTIONS)
def costates(model: Model, costate: Array, gradient: Array) -> None:
    """Adjoint of the model without policy, costate = gx + A' costate' and gradient = gu + B' costate': the derivatives of the
    cost by each state and by each control. costate [S+1, nw], gradient [S, M]."""
    S, N, w = model.F.shape
    nw, M = costate.shape[1], gradient.shape[1]
    F, g, y, slope = model.F.reshape(-1), model.g.reshape(-1), costate.reshape(-1), gradient.reshape(-1)
    for i in range(get(model.n, S)):
        put(y, S * nw + i, get(g, S * w + i))
    for back in range(S):
        s = S - 1 - back
        _pull(F, s * N * w, get(model.n, s + 1), w, y, (s + 1) * nw, g, s * w, get(model.n, s), get(model.m, s), y, s * nw, slope, s * M)


@njit(**OPTIONS)
def forward(model: Model, policy: Policy, a: float, dx: Array, du: Array) -> None:
    """The model under du = a k + K dx from dx = 0, its gaps closed by the fraction a: dx [S+1, nw], du [S, M]."""
    S, N, w = model.F.shape
    nw, M = dx.shape[1], du.shape[1]
    F, gap, k, K, x, u = (model.F.reshape(-1), model.gap.reshape(-1), policy.k.reshape(-1), policy.K.reshape(-1), dx.reshape(-1),
                          du.reshape(-1))
    clear(x, 0 * S, (S + 1) * nw)
    for s in range(S):
        n, m, rows, at_x, at_u = get(model.n, s), get(model.m, s), get(model.n, s + 1), s * nw, s * M
        for i in range(m):
            total = a * get(k, at_u + i)
            for j in range(n):
                total += get(K, (at_u + i) * nw + j) * get(x, at_x + j)
            put(u, at_u + i, total)
        for i in range(rows):
            total, row = a * get(gap, at_x + i), (s * N + i) * w
            for j in range(n):
                total += get(F, row + j) * get(x, at_x + j)
            for j in range(m):
                total += get(F, row + n + j) * get(u, at_u + j)
            put(x, at_x + nw + i, total)


@njit(**OPTIONS)
def change(model: Model, dx: Array, du: Array) -> tuple[float, float]:
    """(g'z, z'Hz / 2) along dx [S+1, nw], du [S, M]: the change of the model's cost is their sum."""
    S, rows, w = model.H.shape
    S -= 1
    nw, M = dx.shape[1], du.shape[1]
    H, g, x, u = model.H.reshape(-1), model.g.reshape(-1), dx.reshape(-1), du.reshape(-1)
    linear, quadratic = 0.0, 0.0
    for s in range(S + 1):
        n, m = get(model.n, s), get(model.m, s)
        for i in range(n + m):
            z = get(x, s * nw + i) if i < n else get(u, s * M + i - n)
            row = (s * rows + i) * w
            total = 0.5 * get(H, row + i) * z
            for j in range(min(i, n)):
                total += get(H, row + j) * get(x, s * nw + j)
            for j in range(n, i):
                total += get(H, row + j) * get(u, s * M + j - n)
            linear += get(g, s * w + i) * z
            quadratic += total * z
    return linear, quadratic


@njit(**OPTIONS)
def projected_gradient(m: Array, u: Array, gradient: Array, lower: Array, upper: Array) -> float:
    """Largest component of ``u - clip(u - gradient, lower, upper)``, arrays [S, M] of which the first m[k] are used: zero exactly
    at a first-order optimum within bounds; NaN when there is one."""
    largest = 0.0
    for k in range(u.shape[0]):
        for i in range(m[k]):
            if np.isnan(gradient[k, i]):
                return np.nan
            # clip(gradient, u - upper, u - lower) is the same number without the cancellation
            largest = max(largest, abs(min(max(gradient[k, i], u[k, i] - upper[k, i]), u[k, i] - lower[k, i])))
    return largest
