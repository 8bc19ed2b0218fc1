"""The symmetric systems of quadratic programs, factorised with their inertia.

    K = [ H + diag(p)   A' ]
        [ A       -diag(r) ]

SuperLU in symmetric mode without row exchanges yields ``P K P' = L U`` with ``U = D L'``: by Sylvester's law the signs of the
diagonal of U are those of the eigenvalues. Where it had to exchange rows after all, nothing is known and the factorisation
counts as failed. H is positive definite on the null space of A exactly where K (r -> 0) has as many negative eigenvalues as A has
rows (Nocedal and Wright 2006, Theorem 16.3). Rows and columns may be switched off without a change of pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

#: r of every row: keeps pivots away from 0; its effect is removed by iterative refinement
ROW_REGULARIZATION = 1e-8
REFINEMENTS = 6
#: regularisation of the Hessian: first, least, growth, largest; Waechter and Biegler 2006, Sec. 3.1
FIRST, LEAST, GROWTH, LARGEST = 1e-4, 1e-12, 8.0, 1e20

Solve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where the values of H (upper triangle [n, n]) and A [m, n] go in K."""

    n: int
    m: int
    indices: np.ndarray
    indptr: np.ndarray
    column: np.ndarray
    source: np.ndarray
    diagonal: np.ndarray

    def matrix(self, data: np.ndarray) -> sp.csc_matrix:
        return sp.csc_matrix((data, self.indices, self.indptr), shape=(self.n + self.m,) * 2)


def pattern(n: int, m: int, h: tuple[np.ndarray, np.ndarray], a: tuple[np.ndarray, np.ndarray]) -> Pattern:
    """h, a: rows and columns of the nonzeros of H's upper triangle and of A."""
    (hr, hc), (ar, ac) = ((np.asarray(i, dtype=int) for i in pair) for pair in (h, a))
    below = np.flatnonzero(hr != hc)
    rows = np.concatenate([hr, hc[below], ar + n, ac, np.arange(n + m)])
    columns = np.concatenate([hc, hr[below], ac, ar + n, np.arange(n + m)])
    entry = np.concatenate([np.arange(len(hr)), below, len(hr) + np.arange(len(ar)), len(hr) + np.arange(len(ar))])
    size = n + m
    places, where = np.unique(columns.astype(np.int64) * size + rows, return_inverse=True)
    source = np.full(len(places), len(hr) + len(ar))  # the last entry of the values is 0: diagonal places that nothing fills
    source[where[:len(entry)]] = entry
    indptr = np.searchsorted(places // size, np.arange(size + 1))
    return Pattern(n, m, (places % size).astype(np.int32), indptr.astype(np.int32), places // size, source, where[len(entry):])


@dataclass(frozen=True, eq=False)
class System:
    """H and A as numbers in the pattern."""

    pattern: Pattern
    base: np.ndarray

    def times(self, vector: np.ndarray) -> np.ndarray:
        return self.pattern.matrix(self.base) @ vector


def system(shape: Pattern, h: np.ndarray, a: np.ndarray) -> System:
    return System(shape, np.concatenate([h, a, [0.0]])[shape.source])


def factorise(given: System, plus: np.ndarray, minus: np.ndarray, on: np.ndarray) -> Solve | None:
    """A solver of ``K z = rhs``, or None where H + diag(plus) is not positive definite on the null space of the rows.

    plus [n]: p; minus [m]: r; on [n + m]: columns and rows that take part; those off are ``z_i = rhs_i`` (rows: ``-z_i``).
    """
    p = given.pattern
    exact = given.base * on[p.indices] * on[p.column]
    extra = np.concatenate([np.where(on[:p.n], plus, 1.0), np.where(on[p.n:], -minus, -1.0)])
    exact[p.diagonal] += extra
    data = exact.copy()
    data[p.diagonal[p.n:]] -= ROW_REGULARIZATION * on[p.n:]
    if not np.all(np.isfinite(data)):
        return None
    try:
        factors = splu(p.matrix(data), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # a pivot is exactly 0
        return None
    if not np.array_equal(factors.perm_r, factors.perm_c) or np.count_nonzero(factors.U.diagonal() < 0) != p.m:
        return None
    K = p.matrix(exact)

    def solve(rhs: np.ndarray) -> np.ndarray:
        z = factors.solve(rhs)
        before = np.inf
        for _ in range(REFINEMENTS):
            residual = rhs - K @ z
            size = float(np.max(np.abs(residual), initial=0.0))
            if size <= 1e-15 * float(np.max(np.abs(z), initial=1.0)) or not size < 0.5 * before:
                break
            z, before = z + factors.solve(residual), size
        return np.asarray(z)

    return solve


def regularised(given: System, plus: np.ndarray, minus: np.ndarray, on: np.ndarray, delta: float,
                last: float) -> tuple[Solve, float]:
    """(solver, delta): with the smallest tried ``delta`` added to H that makes it positive definite on the null space.

    delta: where to begin; last: the one that was needed last time. Raises ArithmeticError where none helps.
    """
    while True:
        solve = factorise(given, plus + delta, minus, on)
        if solve is not None:
            return solve, delta
        if delta == 0.0:
            delta = FIRST if last == 0.0 else max(LEAST, last / 3)
        else:
            delta *= GROWTH if last > 0.0 else 10 * GROWTH
        if delta > LARGEST:
            raise ArithmeticError("the system of the quadratic program cannot be factorised")
