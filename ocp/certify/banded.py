"""Symmetric matrices of programs along time: their inertia and their factors, along a banded order.

What belongs to one time is coupled to its neighbours alone, so the reverse Cuthill-McKee order has a narrow band: minimum degree on
``A' A``, the default of SuperLU, fills a saddle-point matrix of 15 thousand rows five times as much, and takes 25 times as long.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dsysv, dsytrf
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
        """The solution x of A x = b."""
        x = np.empty_like(b)
        x[self._order] = self._lu.solve(b[self._order])
        return x


def _arranged(matrix: sp.csr_matrix) -> tuple[Array, Array]:
    """Indices along a banded order, and those of densely coupled unknowns, which come last."""
    n, least = matrix.shape[0], SECOND_ORDER.min_block
    last = np.zeros(0, dtype=int)
    if not n:
        return last, last
    if n > 4 * least:
        last = np.flatnonzero(np.diff(matrix.indptr) > max(least, SECOND_ORDER.dense_share * n))
    first = np.setdiff1d(np.arange(n), last)
    return first[reverse_cuthill_mckee(sp.csr_matrix(matrix[first][:, first]), symmetric_mode=True)], last


def negative(matrix: sp.spmatrix) -> int:
    """Number of negative eigenvalues of a symmetric matrix: along a banded order, block after block, densely coupled unknowns
    last."""
    matrix, least = sp.csr_matrix(matrix), SECOND_ORDER.min_block
    if not matrix.shape[0]:
        return 0
    order, last = _arranged(matrix)
    arranged = matrix[order][:, order].tocoo()
    width = max(least, int(np.max(np.abs(arranged.row - arranged.col), initial=0)))
    edges = np.append(np.arange(0, len(order), width), len(order))
    banded, border = arranged.tocsr(), matrix[order][:, last].toarray()
    corner, count = matrix[last][:, last].toarray(), 0
    carried = np.zeros((0, 0))
    for a, b, c in zip(edges[:-1], edges[1:], np.append(edges[2:], edges[-1]), strict=True):
        check(Activity.CURVATURE)
        block = banded[a:b, a:b].toarray()
        block[:carried.shape[0], :carried.shape[0]] -= carried
        right = np.hstack([banded[a:b, b:c].toarray(), border[a:b]])
        sides = right if right.shape[1] else np.zeros((b - a, 1))
        factor, pivots, solved, _ = dsysv(block, sides, lower=1, lwork=SECOND_ORDER.lapack_block * (b - a))
        count += _negative_pivots(factor, pivots)
        eliminated = right.T @ solved if right.shape[1] else np.zeros((0, 0))
        k = c - b
        carried = eliminated[:k, :k]
        border[b:c] -= eliminated[:k, k:]
        corner -= eliminated[k:, k:]
    if len(last):
        factor, pivots, _ = dsytrf(corner, lower=1)
        count += _negative_pivots(factor, pivots)
    return count


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
