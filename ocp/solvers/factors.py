"""Orthogonal factors of small matrices by rows, in compiled loops: for least squares with active constraints.

    F[order] = L Q'      L [m, k] lower trapezoidal, Q = H_0 H_1 ... H_(k-1)

Householder reflections with the longest remaining row of the matrix first (Golub, Van Loan 2013, 5.4.2, transposed): rows are
contiguous in memory, errors are relative to the length of a row of the matrix (Higham 2002, 19.4), and the rest tells its
rank. L stands in the first columns of F, row i of it in row order[i]; the reflection
H_i right of L's diagonal. Where rows depend on each other a second factor, of L', gives the shortest least-squares solution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamics.kernels.linked import linked

#: sums in any order, as vectors of the processor add; nothing is allocated
OPTIONS: dict[str, Any] = {"wraparound": False, "fastmath": {"contract", "reassoc", "nsz"}, "error_model": "numpy"}
INLINE: dict[str, Any] = {"forceinline": True, **OPTIONS}
#: for what makes views of arrays, which are counted
VIEWS: dict[str, Any] = {"_nrt": True, **OPTIONS}


@linked(**INLINE)
def dot(A: np.ndarray, i: int, B: np.ndarray, j: int, first: int, last: int) -> float:
    """Inner product of columns first to last of row i of A and row j of B."""
    total = 0.0
    for c in range(first, last):
        total += A[i, c] * B[j, c]
    return total


@linked(**OPTIONS)
def factor(F: np.ndarray, m: int, n: int, tau: np.ndarray, order: np.ndarray, norms: np.ndarray, least: np.ndarray) -> int:
    """Factor the m rows of n of F; returns k, its rank: of every row after them no more is left than ``least`` [m] says."""
    for i in range(m):
        order[i] = i
        norms[i] = dot(F, i, F, i, 0, n)
    return go_on(F, 0, m, n, tau, order, norms, least, 1.0)


@linked(**OPTIONS)
def go_on(F: np.ndarray, k: int, m: int, n: int, tau: np.ndarray, order: np.ndarray, norms: np.ndarray, least: np.ndarray,
          share: float) -> int:
    """A factor of rank k, with rows of which more is left than a share of ``least``; returns its rank."""
    most = min(m, n)
    while k < most:
        best = -1
        for i in range(k, m):
            r = order[i]
            if norms[r] > (share * least[r])**2 and (best < 0 or norms[r] > norms[order[best]]):
                best = i
        if best < 0:
            break
        order[k], order[best] = order[best], order[k]
        reflect(F, order, tau, k, m, n, norms)
        k += 1
    return k


@linked(**INLINE)
def reflect(F: np.ndarray, order: np.ndarray, tau: np.ndarray, k: int, m: int, n: int, norms: np.ndarray) -> None:
    """Reflect row order[k] of the matrix onto its k-th unknown, and later rows with it; their remaining lengths in norms."""
    p = order[k]
    alpha = F[p, k]
    beta = -np.sqrt(dot(F, p, F, p, k, n)) if alpha > 0.0 else np.sqrt(dot(F, p, F, p, k, n))
    tau[k] = (beta - alpha) / beta
    scale = 1.0 / (alpha - beta)
    for c in range(k + 1, n):
        F[p, c] *= scale
    F[p, k] = beta
    for i in range(k + 1, m):
        r = order[i]
        s = (F[r, k] + dot(F, p, F, r, k + 1, n)) * tau[k]
        F[r, k] -= s
        left = 0.0
        for c in range(k + 1, n):
            value = F[r, c] - s * F[p, c]
            F[r, c] = value
            left += value * value
        norms[r] = left


@linked(**OPTIONS)
def onto(F: np.ndarray, order: np.ndarray, tau: np.ndarray, k: int, n: int, x: np.ndarray, at: int) -> None:
    """x[at:at + n] = Q' x."""
    for i in range(k):
        p = order[i]
        s = x[at + i]
        for c in range(i + 1, n):
            s += F[p, c] * x[at + c]
        s *= tau[i]
        x[at + i] -= s
        for c in range(i + 1, n):
            x[at + c] -= s * F[p, c]


@linked(**OPTIONS)
def back(F: np.ndarray, order: np.ndarray, tau: np.ndarray, k: int, n: int, x: np.ndarray) -> None:
    """x[:n] = Q x."""
    for i in range(k - 1, -1, -1):
        p = order[i]
        s = x[i]
        for c in range(i + 1, n):
            s += F[p, c] * x[c]
        s *= tau[i]
        x[i] -= s
        for c in range(i + 1, n):
            x[c] -= s * F[p, c]


@linked(**OPTIONS)
def turn_rows(F: np.ndarray, order: np.ndarray, tau: np.ndarray, k: int, n: int, B: np.ndarray, m: int) -> None:
    """Each of m rows of B [n] becomes its row times Q."""
    for i in range(k):
        p = order[i]
        for r in range(m):
            s = (B[r, i] + dot(F, p, B, r, i + 1, n)) * tau[i]
            B[r, i] -= s
            for c in range(i + 1, n):
                B[r, c] -= s * F[p, c]


@linked(**OPTIONS)
def turn_basis(F: np.ndarray, order: np.ndarray, tau: np.ndarray, k: int, n: int, Z: np.ndarray, top: int, columns: int,
               v: np.ndarray) -> None:
    """Rows top ... top + n of Z become Q' times them; v [2 columns]: work. Two reflections at once: less to load and store."""
    i = 0
    while i + 2 <= k:
        p, q, at, y = order[i], order[i + 1], top + i, columns
        first = F[p, i + 1]
        common = first + dot(F, p, F, q, i + 2, n)
        for c in range(columns):
            v[c], v[y + c] = Z[at, c] + first * Z[at + 1, c], Z[at + 1, c]
        r = i + 2
        while r + 2 <= n:
            a, b, d, e, at = F[p, r], F[p, r + 1], F[q, r], F[q, r + 1], top + r
            for c in range(columns):
                v[c] += a * Z[at, c] + b * Z[at + 1, c]
                v[y + c] += d * Z[at, c] + e * Z[at + 1, c]
            r += 2
        if r < n:
            for c in range(columns):
                v[c] += F[p, r] * Z[top + r, c]
                v[y + c] += F[q, r] * Z[top + r, c]
        a, b, at = tau[i], tau[i + 1], top + i
        for c in range(columns):
            v[c] *= a
            v[y + c] = b * (v[y + c] - common * v[c])
            Z[at, c] -= v[c]
            Z[at + 1, c] -= first * v[c] + v[y + c]
        for r in range(i + 2, n):
            a, b, at = F[p, r], F[q, r], top + r
            if a != 0.0 or b != 0.0:
                for c in range(columns):
                    Z[at, c] -= a * v[c] + b * v[y + c]
        i += 2
    if i < k:
        p = order[i]
        for c in range(columns):
            v[c] = Z[top + i, c]
        for r in range(i + 1, n):
            for c in range(columns):
                v[c] += F[p, r] * Z[top + r, c]
        for c in range(columns):
            v[c] *= tau[i]
            Z[top + i, c] -= v[c]
        for r in range(i + 1, n):
            for c in range(columns):
                Z[top + r, c] -= F[p, r] * v[c]


@linked(**OPTIONS)
def least_squares(F: np.ndarray, order: np.ndarray, m: int, k: int, right: np.ndarray, y: np.ndarray, G: np.ndarray,
                  tau: np.ndarray, own: np.ndarray, e: np.ndarray) -> bool:
    """y [k] with the least squares of L y = right[order] [m]; tau, own [m]: work. Returns whether L was factored (k < m): then the
    first k rows of G hold it, G = L_g Q_g', and e [m] is Q_g' right[order], so that L_g' y = e."""
    if k == m:
        for i in range(k):
            total = right[order[i]]
            for c in range(i):
                total -= F[order[i], c] * y[c]
            y[i] = total / F[order[i], i]
        return False
    for i in range(k):
        own[i] = i
        for r in range(i):
            G[i, r] = 0.0
        for r in range(i, m):
            G[i, r] = F[order[r], i]
    for r in range(m):
        e[r] = right[order[r]]
    for i in range(k):
        reflect(G, own, tau, i, k, m, y)
    onto(G, own, tau, k, m, e, 0)
    for i in range(k - 1, -1, -1):
        total = e[i]
        for r in range(i + 1, k):
            total -= G[r, i] * y[r]
        y[i] = total / G[i, i]
    return True
