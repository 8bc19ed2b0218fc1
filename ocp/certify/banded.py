"""Symmetric matrices of programs along time: their inertia and their factors, along a banded order.

What belongs to one time is coupled to its neighbours alone, so the reverse Cuthill-McKee order has a narrow band: minimum degree on
``A' A``, the default of SuperLU, fills a saddle-point matrix of 15 thousand rows five times as much, and takes 25 times as long.
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
        self._order = np.concatenate(_arranged(matrix))
        self._lu = splu(matrix[self._order][:, self._order].tocsc(), permc_spec="NATURAL")

    def solve(self, b: Array) -> Array:
        x = np.empty_like(b)
        x[self._order] = self._lu.solve(b[self._order])
        return x


def _arranged(matrix: sp.csr_matrix) -> tuple[Array, Array]:
    """Indices along a banded order, and of what has many neighbours, which comes last."""
    n, least = matrix.shape[0], SECOND_ORDER.min_block
    last = np.zeros(0, dtype=int)
    if not n:
        return last, last
    if n > 4 * least:
        last = np.flatnonzero(np.diff(matrix.indptr) > max(least, SECOND_ORDER.dense_share * n))
    first = np.setdiff1d(np.arange(n), last)
    return first[reverse_cuthill_mckee(sp.csr_matrix(matrix[first][:, first]), symmetric_mode=True)], last


def negative(matrix: sp.spmatrix) -> int:
    """How many eigenvalues of a symmetric matrix are negative: along a banded order, block after block, each with the front that
    the blocks before are coupled to; cuts are where this is narrow, and what has many neighbours comes last."""
    matrix = sp.csr_matrix(matrix)
    if not matrix.shape[0]:
        return 0
    order = np.concatenate(_arranged(matrix))
    arranged = sp.csr_matrix(matrix[order][:, order])
    count, front, update = 0, np.zeros(0, dtype=int), np.zeros((0, 0))
    for a, b in itertools.pairwise(_narrow(arranged)):
        check(Activity.CURVATURE)
        rows = arranged[a:b]
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
    n, pairs, first = arranged.shape[0], arranged.tocoo(), np.arange(arranged.shape[0])
    np.minimum.at(first, pairs.col, pairs.row)
    width = np.cumsum(np.bincount(first + 1, minlength=n + 2) - np.bincount(np.arange(1, n + 1), minlength=n + 2))
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
