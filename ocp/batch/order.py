"""Which case starts from the solution of which other, fixed before anything is solved: results then depend neither on the number of
workers nor on who was first.

Cases come in batches of twice the size, coarse ones first, and each starts from the nearest of the batches before: its way to the
first case is as long as the logarithm of their number, so that there is always work for many.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

Array = np.ndarray


def parents(points: Array, groups: Array) -> Array:
    """For each of n cases the number of the one that it starts from [n], -1 for none. points [n, k]: where cases stand; distances
    are in units of the range of every column. groups [n]: cases of different groups start from none of each other."""
    found = np.full(len(points), -1)
    width = np.ptp(points, axis=0) if len(points) else np.ones(points.shape[1])
    scaled = points / np.where(width > 0, width, 1.0)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        order = own[_spread(scaled[own])]
        known = 1
        while known < len(order):
            batch = order[known:2 * known]
            nearest = cKDTree(scaled[order[:known]]).query(scaled[batch])[1] if points.shape[1] else np.zeros(len(batch), dtype=int)
            found[batch] = order[nearest]
            known *= 2
    return found


def _spread(points: Array) -> Array:
    """An order in which all beginnings are spread out: the case in the middle first, then those with the digits of their rank
    reversed (van der Corput 1935), along the columns sorted one after another."""
    count = len(points)
    if not points.shape[1]:
        return np.arange(count)
    rank = np.lexsort(points.T[::-1])
    bits = max(1, int(np.ceil(np.log2(max(count, 2)))))
    reversed_ = np.array([int(f"{i:0{bits}b}"[::-1], 2) for i in range(2**bits)])
    order = rank[reversed_[reversed_ < count]]
    middle = int(np.argmin(np.abs(points - (points.min(axis=0) + points.max(axis=0)) / 2).sum(axis=1)))
    return np.concatenate([[middle], order[order != middle]])
