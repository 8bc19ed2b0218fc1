"""Rows of equations that depend on each other at a point: the null space of the transposed Jacobian, named."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ocp.explain.groups import base
from ocp.nlp import NLP
from ocp.thresholds import EXPLANATION, ROUNDING


@dataclass(frozen=True)
class Dependence:
    """One combination of equations that vanishes to first order: any one of them can be left out, or contradicts the others.

    rows: their names with the weights of the combination (largest 1), largest first; groups: what they are called without places
    singular: the singular value, relative to the largest
    """

    rows: tuple[tuple[str, float], ...]
    groups: tuple[str, ...]
    singular: float


def dependent_rows(nlp: NLP, x: np.ndarray, *, active: bool = False, rank: float = ROUNDING.negligible) -> tuple[Dependence, ...]:
    """Combinations of equality rows (with ``active``: of active inequality rows too) that are linearly dependent at x [n].

    Columns of fixed variables do not count: their rows have nothing left to move. Rows without an entry are dependent by
    themselves. Raises nothing: entries that are not finite count as zero.
    """
    g = nlp.g(x).full().ravel()
    jacobian = _sparse(nlp.jac(x)[1])
    equal = nlp.g_lower == nlp.g_upper
    if active:
        size = 1e-7 * np.maximum(1.0, np.abs(g))
        equal = equal | (np.abs(g - nlp.g_lower) <= size) | (np.abs(g - nlp.g_upper) <= size)
    chosen, free = np.flatnonzero(equal), np.flatnonzero(nlp.x_lower < nlp.x_upper)
    if not len(chosen):
        return ()
    J = jacobian[chosen][:, free]
    J.data[~np.isfinite(J.data)] = 0.0
    length = np.sqrt(np.asarray(J.multiply(J).sum(axis=1)).ravel())
    scaled = sp.csr_matrix(sp.diags(1.0 / np.where(length > 0, length, 1.0)) @ J)
    left, values, largest = _small(scaled, rank)
    if not left.shape[1]:
        return ()
    # weights in terms of the rows as they are, not as they were scaled; a zero row stands for itself
    weights = _localised(left) / np.where(length > 0, length, 1.0)[:, None]
    found = []
    for k in range(weights.shape[1]):
        own = weights[:, k] / np.abs(weights[:, k]).max()
        order = [int(i) for i in np.argsort(-np.abs(own), kind="stable") if abs(own[i]) > EXPLANATION.min_share]
        names = [nlp.constraints[chosen[i]] for i in order]
        found.append(Dependence(tuple((name, float(own[i])) for name, i in zip(names, order, strict=True)),
                                tuple(dict.fromkeys(base(name) for name in names)), float(values[k]) / largest))
    return tuple(sorted(found, key=lambda one: len(one.rows)))


def _sparse(matrix: ca.DM) -> sp.csr_matrix:
    row, column = (np.array(i, dtype=int) for i in matrix.sparsity().get_triplet())
    return sp.csr_matrix((np.array(matrix.nonzeros(), dtype=float), (row, column)), shape=matrix.shape)


def _small(J: sp.csr_matrix, rank: float) -> tuple[np.ndarray, np.ndarray, float]:
    """(left singular vectors [m, k] of singular values that count as zero, these [k], the largest singular value)."""
    m, n = J.shape
    if m * n <= EXPLANATION.max_dense_entries or m <= 2 * EXPLANATION.max_combinations:
        u, s, _ = scipy.linalg.svd(J.toarray(), full_matrices=True)
        values = np.concatenate([s, np.zeros(max(0, m - len(s)))])
        largest = float(values.max(initial=0.0)) or 1.0
        small = values <= rank * largest
        return u[:, small], values[small], largest
    return _small_sparse(J, rank)


def _small_sparse(J: sp.csr_matrix, rank: float, sweeps: int = 8) -> tuple[np.ndarray, np.ndarray, float]:
    """As :func:`_small` by inverse iteration on ``J J' + shift``, whose factors are sparse for collocation; squaring leaves
    singular values apart from zero only down to about 1e-7 of the largest, hence the coarser rank."""
    m = J.shape[0]
    K = sp.csc_matrix(J @ J.T)
    largest = float(np.sqrt(np.asarray(abs(K).sum(axis=1)).max()))  # an upper bound by Gershgorin
    factors = splu(K + sp.csc_matrix(sp.identity(m) * (1e-13 * largest**2)))
    Y = np.linalg.qr(np.random.default_rng(0).standard_normal((m, EXPLANATION.max_combinations)))[0]
    for _ in range(sweeps):
        Y = np.linalg.qr(factors.solve(Y))[0]
    _, s, right = np.linalg.svd(J.T @ Y, full_matrices=False)
    u = Y @ right.T
    small = s <= max(rank, 1e-7) * largest
    return u[:, small], s[small], largest


def _localised(left: np.ndarray) -> np.ndarray:
    """A basis of the span of the columns in which each touches few rows: reduced so that ``k`` rows form the identity."""
    _, _, pivots = scipy.linalg.qr(left.T, pivoting=True, mode="economic")
    k = left.shape[1]
    found = np.linalg.solve(left[pivots[:k]].T, left.T).T
    found[np.abs(found) < 1e-9] = 0.0
    return np.asarray(found)
