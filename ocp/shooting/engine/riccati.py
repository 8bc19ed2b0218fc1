"""Backward sweep of iLQR/DDP in Numba: quadratic models of the knots -> feedback policy and value function.

With primes for the next knot (Tassa, Erez, Todorov 2012, Eqs. 5 and 10 without the second derivatives of the dynamics,
which the expansion may already carry in lxx, luu, lux):

    Qx = lx + A' Vx'    Qu = lu + B' Vx'    Qxx = lxx + A' Vxx' A    Quu = luu + B' Vxx' B    Qux = lux + B' Vxx' A

``k = argmin 1/2 k' Quu k + Qu' k`` within the control bounds, K = -Quu_ff^{-1} Qux_f on the free rows f and zero on the
clamped ones (Tassa, Mansard, Todorov 2014, section III), both with the regularised Quu and Qux; the value takes the
unregularised ones (2012, Eq. 11), which stays correct for any k and K:

    Vx = Qx + K' (Quu k + Qu) + Qux' k    Vxx = Qxx + K' Quu K + K' Qux + Qux' K
    expected change = a k'Qu + a^2/2 k'Quu k

All arrays are C-contiguous float64; nothing is allocated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

_BOX_ITERATIONS = 100
_ARMIJO = 0.1


class Expansion(NamedTuple):
    """Quadratic model along N knots: A [N, n, n], B [N, n, m], lx [N+1, n], lu [N, m], lxx [N+1, n, n], luu [N, m, m],
    lux [N, m, n]; the last lx and lxx are those of the final cost."""

    A: np.ndarray
    B: np.ndarray
    lx: np.ndarray
    lu: np.ndarray
    lxx: np.ndarray
    luu: np.ndarray
    lux: np.ndarray


class Policy(NamedTuple):
    """du = k + K dx: k [N, m], K [N, m, n]; the value it gives, Vx [N+1, n] and Vxx [N+1, n, n]; costates
    [N+1, n] and gradient [N, m] of the discrete cost at the expanded trajectory."""

    k: np.ndarray
    K: np.ndarray
    Vx: np.ndarray
    Vxx: np.ndarray
    costate: np.ndarray
    gradient: np.ndarray


class Scratch(NamedTuple):
    """Work arrays of one sweep."""

    VA: np.ndarray  # [n, n]
    VB: np.ndarray  # [n, m]
    Quu: np.ndarray  # [m, m]
    Qux: np.ndarray  # [m, n]
    Quu_regular: np.ndarray
    Qux_regular: np.ndarray
    Qu: np.ndarray  # [m]
    factor: np.ndarray  # [m, m]
    lower: np.ndarray  # [m]
    upper: np.ndarray
    direction: np.ndarray
    trial: np.ndarray
    slope: np.ndarray
    free: np.ndarray  # [m] int64: indices of the free controls, first `count` entries


def expansion(N: int, n: int, m: int) -> Expansion:
    """Zeros of the right sizes."""
    return Expansion(np.zeros((N, n, n)), np.zeros((N, n, m)), np.zeros((N + 1, n)), np.zeros((N, m)),
                     np.zeros((N + 1, n, n)), np.zeros((N, m, m)), np.zeros((N, m, n)))


def policy(N: int, n: int, m: int) -> Policy:
    """Zeros of the right sizes."""
    return Policy(np.zeros((N, m)), np.zeros((N, m, n)), np.zeros((N + 1, n)), np.zeros((N + 1, n, n)),
                  np.zeros((N + 1, n)), np.zeros((N, m)))


def scratch(n: int, m: int) -> Scratch:
    """Zeros of the right sizes."""
    vectors = [np.zeros(m) for _ in range(6)]
    return Scratch(np.zeros((n, n)), np.zeros((n, m)), np.zeros((m, m)), np.zeros((m, n)), np.zeros((m, m)),
                   np.zeros((m, n)), vectors[0], np.zeros((m, m)), vectors[1], vectors[2], vectors[3], vectors[4],
                   vectors[5], np.zeros(m, dtype=np.int64))


@njit(cache=True)
def cholesky(H: np.ndarray, index: np.ndarray, count: int, L: np.ndarray) -> bool:
    """Lower factor L of ``H[index, index]`` (first ``count`` indices); False unless positive definite."""
    for i in range(count):
        for j in range(i + 1):
            total = H[index[i], index[j]]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total > 0.0 and np.isfinite(total):
                L[i, i] = np.sqrt(total)
            else:
                return False
    return True


@njit(cache=True)
def solve_vector(L: np.ndarray, count: int, b: np.ndarray) -> None:
    """``b <- (L L')^{-1} b``."""
    for i in range(count):
        for k in range(i):
            b[i] -= L[i, k] * b[k]
        b[i] /= L[i, i]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            b[i] -= L[k, i] * b[k]
        b[i] /= L[i, i]


@njit(cache=True)
def box_qp(H: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray, x: np.ndarray, free: np.ndarray,
           L: np.ndarray, direction: np.ndarray, trial: np.ndarray, slope: np.ndarray) -> int:
    """Minimise ``1/2 x' H x + g' x`` over ``lower <= x <= upper`` by projected Newton, starting from x.

    Tassa, Mansard, Todorov 2014, section II.C. Leaves in ``free`` the indices strictly inside (or held by no
    multiplier) and in L the factor of H there; returns their number, -1 when H is not positive definite there, -2 when
    the iteration limit is reached.
    """
    m = x.shape[0]
    for i in range(m):
        x[i] = min(max(x[i], lower[i]), upper[i])
    for _ in range(_BOX_ITERATIONS):
        for i in range(m):
            total = g[i]
            for j in range(m):
                total += H[i, j] * x[j]
            slope[i] = total
        count = 0
        for i in range(m):
            low, high = x[i] == lower[i], x[i] == upper[i]
            if not ((low and high) or (low and slope[i] > 0.0) or (high and slope[i] < 0.0)):
                free[count] = i
                count += 1
        if count == 0:
            return 0
        if not cholesky(H, free, count, L):
            return -1
        for i in range(count):
            direction[i] = -slope[free[i]]
        solve_vector(L, count, direction)
        inside = True
        small = True
        for i in range(count):
            value = x[free[i]] + direction[i]
            inside = inside and lower[free[i]] <= value <= upper[free[i]]
            small = small and abs(direction[i]) <= 1e-14 * (1.0 + abs(x[free[i]]))
        if small:
            return count
        # projected line search on the exact quadratic
        step = 1.0
        accepted = False
        for _ in range(60):
            for i in range(m):
                trial[i] = x[i]
            for i in range(count):
                j = free[i]
                trial[j] = min(max(x[j] + step * direction[i], lower[j]), upper[j])
            if inside and step == 1.0:
                accepted = True
                break
            linear = 0.0
            bend = 0.0
            for i in range(m):
                move = trial[i] - x[i]
                linear += slope[i] * move
                row = 0.0
                for j in range(m):
                    row += H[i, j] * (trial[j] - x[j])
                bend += move * row
            if linear + 0.5 * bend <= _ARMIJO * linear:
                accepted = True
                break
            step *= 0.5
        if not accepted:
            return count  # no decrease left above rounding
        for i in range(m):
            x[i] = trial[i]
    return -2


@njit(cache=True)
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    # plain loops: a slice assignment first tests the arrays for overlap, which costs more than the copy
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@njit(cache=True)
def _copy_row(source: np.ndarray, target: np.ndarray) -> None:
    for i in range(source.shape[0]):
        target[i] = source[i]


@njit(cache=True)
def costates(model: Expansion, costate: np.ndarray, gradient: np.ndarray) -> None:
    """Costates and gradient of the discrete cost: costate = lx + A' costate', gradient = lu + B' costate'."""
    N, n, m = model.B.shape
    _copy_row(model.lx[N], costate[N])
    for step in range(N):
        k = N - 1 - step
        for i in range(n):
            costate[k, i] = model.lx[k, i]
        for i in range(m):
            gradient[k, i] = model.lu[k, i]
        for j in range(n):
            y = costate[k + 1, j]
            for i in range(n):
                costate[k, i] += model.A[k, j, i] * y
            for i in range(m):
                gradient[k, i] += model.B[k, j, i] * y


@njit(cache=True)
def projected_gradient(u: np.ndarray, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Largest component of ``u - clip(u - gradient, lower, upper)``, zero exactly at a first-order optimum within
    bounds; NaN when there is one."""
    N, m = u.shape
    largest = 0.0
    for k in range(N):
        for i in range(m):
            if np.isnan(gradient[k, i]):
                return np.nan
            # clip(gradient, u - upper, u - lower) is the same number without the cancellation
            largest = max(largest, abs(min(max(gradient[k, i], u[k, i] - upper[i]), u[k, i] - lower[i])))
    return largest


@njit(cache=True)
def _accumulate(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """``out += left' right`` with rows as inner loops; structural zeros of ``left`` are skipped (NaN is not zero)."""
    for k in range(left.shape[0]):
        for i in range(left.shape[1]):
            factor = left[k, i]
            if factor != 0.0:
                for j in range(right.shape[1]):
                    out[i, j] += factor * right[k, j]


@njit(cache=True)
def _multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """``out = left right``."""
    for i in range(left.shape[0]):
        for j in range(right.shape[1]):
            out[i, j] = 0.0
        for k in range(left.shape[1]):
            factor = left[i, k]
            if factor != 0.0:
                for j in range(right.shape[1]):
                    out[i, j] += factor * right[k, j]


@njit(cache=True)
def _transpose_apply(matrix: np.ndarray, vector: np.ndarray, out: np.ndarray) -> None:
    """``out += matrix' vector``."""
    for k in range(matrix.shape[0]):
        factor = vector[k]
        for i in range(matrix.shape[1]):
            out[i] += matrix[k, i] * factor


@njit(cache=True)
def backward(model: Expansion, u: np.ndarray, lower: np.ndarray, upper: np.ndarray, mu_control: float,
             mu_state: float, out: Policy, work: Scratch) -> tuple[int, float, float]:
    """Fill the policy ``out``. Returns (failed knot or -1, expected linear change, expected quadratic change).

    u [N, m], lower, upper [m]: controls and their bounds (infinite where there is none).
    A knot has failed when its regularised Quu is not positive definite on the free controls.
    """
    N, n, m = model.B.shape
    bounded = False
    for i in range(m):
        bounded = bounded or np.isfinite(lower[i]) or np.isfinite(upper[i])
    linear = 0.0
    quadratic = 0.0
    _copy_row(model.lx[N], out.Vx[N])
    _copy(model.lxx[N], out.Vxx[N])
    for back in range(N):
        knot = N - 1 - back
        A, B, V, Vx = model.A[knot], model.B[knot], out.Vxx[knot + 1], out.Vx[knot + 1]
        k, K, Wx, W = out.k[knot], out.K[knot], out.Vx[knot], out.Vxx[knot]
        _multiply(V, A, work.VA)
        _multiply(V, B, work.VB)
        # Qx and Qxx grow in place in the arrays of the value
        _copy_row(model.lx[knot], Wx)
        _transpose_apply(A, Vx, Wx)
        _copy_row(model.lu[knot], work.Qu)
        _transpose_apply(B, Vx, work.Qu)
        _copy(model.lxx[knot], W)
        _accumulate(A, work.VA, W)
        _copy(model.luu[knot], work.Quu)
        _accumulate(B, work.VB, work.Quu)
        _copy(model.lux[knot], work.Qux)
        _accumulate(B, work.VA, work.Qux)
        _copy(work.Quu, work.Quu_regular)
        _copy(work.Qux, work.Qux_regular)
        for i in range(m):
            work.Quu_regular[i, i] += mu_control
        if mu_state > 0.0:
            for i in range(n):
                for j in range(m):
                    for l in range(m):
                        work.Quu_regular[j, l] += mu_state * B[i, j] * B[i, l]
                    for l in range(n):
                        work.Qux_regular[j, l] += mu_state * B[i, j] * A[i, l]

        if bounded:
            for i in range(m):
                work.lower[i] = lower[i] - u[knot, i]
                work.upper[i] = upper[i] - u[knot, i]
            count = box_qp(work.Quu_regular, work.Qu, work.lower, work.upper, k, work.free, work.factor,
                           work.direction, work.trial, work.slope)
            if count < 0:
                return knot, 0.0, 0.0
        else:
            count = m
            for i in range(m):
                work.free[i] = i
                k[i] = -work.Qu[i]
            if not cholesky(work.Quu_regular, work.free, m, work.factor):
                return knot, 0.0, 0.0
            solve_vector(work.factor, m, k)
        _gains(work.factor, work.free, count, work.Qux_regular, K)

        # value of this policy under the unregularised model: slope <- Quu k + Qu; trial rows <- Quu K + Qux
        for i in range(m):
            total = 0.0
            for j in range(m):
                total += work.Quu[i, j] * k[j]
            linear += work.Qu[i] * k[i]
            quadratic += 0.5 * k[i] * total
            work.slope[i] = total + work.Qu[i]
        _transpose_apply(K, work.slope, Wx)
        _transpose_apply(work.Qux, k, Wx)
        # K'(Quu K + Qux) + Qux'K; Qux_regular is free to hold Quu K + Qux
        _copy(work.Qux, work.Qux_regular)
        _accumulate(work.Quu, K, work.Qux_regular)
        _accumulate(K, work.Qux_regular, W)
        _accumulate(work.Qux, K, W)
        for i in range(n):
            for j in range(i):
                mean = 0.5 * (W[i, j] + W[j, i])
                W[i, j] = mean
                W[j, i] = mean
    return -1, linear, quadratic


@njit(cache=True)
def _gains(L: np.ndarray, free: np.ndarray, count: int, Qux: np.ndarray, K: np.ndarray) -> None:
    """``K[free] = -(L L')^{-1} Qux[free]``, zero elsewhere; substitutions run over whole rows."""
    n = K.shape[1]
    for i in range(K.shape[0]):
        for j in range(n):
            K[i, j] = 0.0
    for i in range(count):
        row = K[free[i]]
        for j in range(n):
            row[j] = -Qux[free[i], j]
        for k in range(i):
            for j in range(n):
                row[j] -= L[i, k] * K[free[k], j]
        for j in range(n):
            row[j] /= L[i, i]
    for i in range(count - 1, -1, -1):
        row = K[free[i]]
        for k in range(i + 1, count):
            for j in range(n):
                row[j] -= L[k, i] * K[free[k], j]
        for j in range(n):
            row[j] /= L[i, i]
