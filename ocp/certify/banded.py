"""Symmetric matrices of programs along time: their inertia and their factors, along a banded order.

What belongs to one time is coupled to its neighbours alone, so along time, or in the reverse Cuthill-McKee order, few indices are
coupled to earlier ones (the front): minimum degree on ``A' A``, the default of SuperLU, fills a saddle-point matrix of 15 thousand
rows five times as much, and takes 25 times as long.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dsysv
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from ocp.interrupts import Activity, check
from ocp.thresholds import SECOND_ORDER

Array = np.ndarray


class Factors:
    """``solve(b)`` of a symmetric matrix. Raises RuntimeError for a singular one."""

    def __init__(self, matrix: sp.spmatrix):
        check(Activity.CURVATURE)
        matrix = sp.csr_matrix(matrix)
        self._order = arranged(matrix)
        self._lu = splu(matrix[self._order][:, self._order].tocsc(), permc_spec="NATURAL")

    def solve(self, b: Array) -> Array:
        """The solution x of A x = b."""
        x = np.empty_like(b)
        x[self._order] = self._lu.solve(b[self._order])
        return x


def arranged(matrix: sp.csr_matrix, unknowns: int | None = None) -> Array:
    """Indices along the order of narrower fronts, Cuthill and McKee's or that of the unknowns, each equation among its unknowns;
    densely coupled unknowns come last."""
    n, least = matrix.shape[0], SECOND_ORDER.min_block
    last = np.zeros(0, dtype=int)
    if not n:
        return last
    if n > 4 * least:
        last = np.flatnonzero(np.diff(matrix.indptr) > max(least, SECOND_ORDER.dense_share * n))
    first = np.setdiff1d(np.arange(n), last)
    inner = sp.csr_matrix(matrix[first][:, first])
    count = int(np.searchsorted(first, n if unknowns is None else unknowns))
    active = sp.csr_matrix(abs(inner[count:, :count]) > 0)
    middle = (active @ np.arange(count)) / np.maximum(np.diff(active.indptr), 1)
    along = np.argsort(np.concatenate([np.arange(count), middle]), kind="stable")
    orders = reverse_cuthill_mckee(inner, symmetric_mode=True), along
    best = min(orders, key=lambda order: float(np.sum(_fronts(sp.csr_matrix(inner[order][:, order])).astype(float)**2)))
    return np.concatenate([first[best], last])


def _fronts(arranged: sp.csr_matrix) -> Array:
    """Number of indices from each one on that are coupled to earlier ones [n + 1]."""
    n = arranged.shape[0]
    filled = np.flatnonzero(np.diff(arranged.indptr))
    first = np.arange(n)
    first[filled] = np.minimum(filled, np.minimum.reduceat(arranged.indices, arranged.indptr[filled]))
    return np.cumsum(np.bincount(first + 1, minlength=n + 1)[:n + 1] - np.bincount(np.arange(1, n + 1), minlength=n + 1))


def negative(matrix: sp.spmatrix, unknowns: int | None = None, order: Array | None = None) -> int:
    """Number of negative eigenvalues of a symmetric matrix: along a banded order, block after block, each with the front to which
    earlier blocks are coupled; cuts are where it is narrow. unknowns: number of indices that are unknowns along time, the others
    being equations between them; None: all; order: that of ``arranged``, where it is known."""
    matrix = sp.csr_matrix(matrix)
    if not matrix.shape[0]:
        return 0
    order = arranged(matrix, unknowns) if order is None else order
    banded = sp.csr_matrix(matrix[order][:, order])
    count, front, update = 0, np.zeros(0, dtype=int), np.zeros((0, 0))
    for a, b in itertools.pairwise(_narrow(banded)):
        check(Activity.CURVATURE)
        rows = banded[a:b]
        beyond = np.union1d(front[front >= b], rows.indices[rows.indices >= b])
        here, later = front[front < b] - a, np.searchsorted(beyond, front[front >= b])
        k, block, right = len(here), rows[:, a:b].toarray(), rows[:, beyond].toarray()
        block[np.ix_(here, here)] -= update[:k, :k]
        right[np.ix_(here, later)] -= update[:k, k:]
        factor, pivots, solved, _ = dsysv(block, right if len(beyond) else np.zeros((b - a, 1)), lower=1,
                                          lwork=SECOND_ORDER.lapack_block * (b - a))
        count += _negative_pivots(factor, pivots)
        after = right.T @ solved if len(beyond) else np.zeros((0, 0))
        after[np.ix_(later, later)] += update[k:, k:]
        front, update = beyond, after
    return count


def _narrow(arranged: sp.csr_matrix) -> list[int]:
    """Where blocks begin and end: as large as the widest front, up to twice that, cut where fewest of the later indices are coupled
    to earlier ones."""
    n, width = arranged.shape[0], _fronts(arranged)
    size = max(SECOND_ORDER.min_block, int(width.max()))
    edges = [0]
    while n - edges[-1] > 2 * size:
        begin = edges[-1] + size
        edges.append(begin + int(np.argmin(width[begin:begin + size])))
    return [*edges, n]


def _negative_pivots(factor: Array, pivots: Array) -> int:
    """Negative eigenvalues of the block diagonal D of a factorisation L D L'."""
    count, i = 0, 0
    while i < len(pivots):
        if pivots[i] < 0:  # two by two, always of either sign
            count += 1
            i += 2
        else:
            count += bool(factor[i, i] < 0)
            i += 1
    return count
