"""Symmetric indefinite factorisation along a chain of dense fronts, with pivoting and inertia.

    K = sum of the values at their places = P' L D L' P

Front k holds the unknowns and rows that are eliminated there, what the front before could not eliminate, and its boundary: what
they touch of later ones (Duff and Reid 1983). Pivots of order one and two are taken from the first two by a threshold on their
column; a candidate that fails every test is handed on to the next front, where more of its column is known. By Sylvester's law the
signs of D are those of the eigenvalues of K.

Fronts store their upper triangle by rows: eliminations run along rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

Array = np.ndarray

#: a pivot of order one is at least this fraction of the largest entry of its column
THRESHOLD = 1e-6
#: pivots below this are no pivots (rows are scaled, see ``kkt``)
TINY = 1e-30


class Plan(NamedTuple):
    """Where everything goes, k = 0..K-1: found once from the pattern (``order.plan``).

    own_start [K+1], own: what front k eliminates; bound_start [K+1], bound: its boundary. Local numbers: own first, then the boundary
    up: for every entry of the boundaries, its local number in the next front
    entry_start [K+1], entry_source, entry_row, entry_column: values that enter at front k, with local row <= local column
    """

    own_start: Array
    own: Array
    bound_start: Array
    bound: Array
    up: Array
    entry_start: Array
    entry_source: Array
    entry_row: Array
    entry_column: Array


class Factors(NamedTuple):
    """Room for the factors; sizes [4]: used of ids and values, largest front, whether the room was enough.

    head [K, 4]: of every front its pivots, its size, where its ids begin and where its values begin; ids: local -> global
    values: rows of L, one per pivot, from the diagonal on (unit), size of the front each; pivots [size, 3]: D^-1 as
    (11, 21, 22): of order one where the second and third are 0, the second of a pair has all three 0; front, other, local: work
    """

    head: Array
    ids: Array
    values: Array
    pivots: Array
    local: Array
    front: Array
    other: Array
    sizes: Array


@njit(cache=True, error_model="numpy")
def _swap(F: Array, ids: Array, values: Array, p: int, a: int, b: int, n: int) -> None:
    """Exchange a < b of the front after p pivots: rows and columns of the upper triangle, columns of L."""
    if a == b:
        return
    ids[a], ids[b] = ids[b], ids[a]
    F[a, a], F[b, b] = F[b, b], F[a, a]
    for i in range(p):
        values[i * n + a], values[i * n + b] = values[i * n + b], values[i * n + a]
    for i in range(p, a):
        F[i, a], F[i, b] = F[i, b], F[i, a]
    for i in range(a + 1, b):
        F[a, i], F[i, b] = F[i, b], F[a, i]
    for i in range(b + 1, n):
        F[a, i], F[b, i] = F[b, i], F[a, i]


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _eliminate(F: Array, ids: Array, full: int, n: int, threshold: float, values: Array, pivots: Array, ints: Array) -> int:
    """Pivots from the first ``full`` of the n columns; returns how many. ints: [negative pivots], added to.

    Rows of L go to ``values`` [full, n] flat, inverse pivots to ``pivots`` [full, 3].
    """
    p, failed = 0, 0  # candidates that failed since the last pivot: they were moved to the end of the fully summed part
    while p + failed < full:
        row = F[p]
        last = full - failed
        largest, r = 0.0, -1
        for j in range(p + 1, full):
            value = abs(row[j])
            if value > largest:
                largest, r = value, j
        outside = 0.0
        for j in range(full, n):
            outside = max(outside, abs(row[j]))
        diagonal = abs(row[p])
        if diagonal > TINY and diagonal >= threshold * max(largest, outside):
            inverse = 1.0 / row[p]
            ints[0] += inverse < 0.0
            pivots[p, 0], pivots[p, 1], pivots[p, 2] = inverse, 0.0, 0.0
            base = p * n
            values[base + p] = 1.0
            for j in range(p + 1, n):
                values[base + j] = row[j] * inverse
            for i in range(p + 1, n):
                factor = row[i]
                if factor != 0.0:
                    target = F[i]
                    for j in range(i, n):
                        target[j] -= factor * values[base + j]
            p, failed = p + 1, 0
            continue
        if r >= 0 and largest > TINY:
            _swap(F, ids, values, p, p + 1, r, n)
            next_row = F[p + 1]
            a, b, c = row[p], row[p + 1], next_row[p + 1]
            det = a * c - b * b
            first, second = 0.0, 0.0
            for j in range(p + 2, n):
                first = max(first, abs(row[j]))
                second = max(second, abs(next_row[j]))
            size = abs(det)
            good = size > TINY and size >= 1e-10 * max(abs(a * c), b * b)
            if good and threshold * (abs(c) * first + abs(b) * second) <= size and threshold * (
                    abs(b) * first + abs(a) * second) <= size:
                if det < 0.0:
                    ints[0] += 1
                elif a < 0.0:
                    ints[0] += 2
                i11, i21, i22 = c / det, -b / det, a / det
                pivots[p, 0], pivots[p, 1], pivots[p, 2] = i11, i21, i22
                pivots[p + 1, 0], pivots[p + 1, 1], pivots[p + 1, 2] = 0.0, 0.0, 0.0
                one, two = p * n, (p + 1) * n
                values[one + p], values[one + p + 1], values[two + p + 1] = 1.0, 0.0, 1.0
                for j in range(p + 2, n):
                    values[one + j] = i11 * row[j] + i21 * next_row[j]
                    values[two + j] = i21 * row[j] + i22 * next_row[j]
                for i in range(p + 2, n):
                    u, v = row[i], next_row[i]
                    if u != 0.0 or v != 0.0:
                        target = F[i]
                        for j in range(i, n):
                            target[j] -= u * values[one + j] + v * values[two + j]
                p, failed = p + 2, 0
                continue
        failed += 1
        if p < last - 1:
            _swap(F, ids, values, p, p, last - 1, n)
    return p


@njit(cache=True, error_model="numpy")
def factorise(plan: Plan, entries: Array, room: Factors, threshold: float) -> tuple[int, int]:
    """(negative pivots, columns without a pivot) of the matrix with these entries; (-1, needed values) where room is too small."""
    K = len(plan.own_start) - 1
    head, ids, values, pivots = room.head, room.ids, room.values, room.pivots
    side = room.front.shape[0]
    F, G = room.front, room.other
    ints = np.zeros(1, dtype=np.int64)
    id_at, value_at, pivot_at = 0, 0, 0
    delayed, before = 0, 0  # of the front before: how many it hands on, its pivots and where its ids began
    before_ids = 0
    before_n = 0
    for k in range(K):
        own, bound = plan.own_start[k + 1] - plan.own_start[k], plan.bound_start[k + 1] - plan.bound_start[k]
        full, n = own + delayed, own + delayed + bound
        if n > side or id_at + n > len(ids) or value_at + full * n > len(values):
            room.sizes[0] = max(n, side)
            return -1, value_at + full * n
        for i in range(n):
            F[i, i:n] = 0.0
        local = ids[id_at:id_at + n]
        local[:own] = plan.own[plan.own_start[k]:plan.own_start[k + 1]]
        local[full:] = plan.bound[plan.bound_start[k]:plan.bound_start[k + 1]]
        for e in range(plan.entry_start[k], plan.entry_start[k + 1]):
            i, j = plan.entry_row[e], plan.entry_column[e]
            F[i if i < own else i + delayed, j if j < own else j + delayed] += entries[plan.entry_source[e]]
        if k > 0:
            up = plan.up[plan.bound_start[k - 1]:plan.bound_start[k]]
            for i in range(delayed):
                local[own + i] = ids[before_ids + before + i]
            for a in range(before, before_n):
                source = G[a]
                i = own + a - before
                if a >= before + delayed:
                    i = up[a - before - delayed]
                    i = i if i < own else i + delayed
                for b in range(a, before_n):
                    j = own + b - before
                    if b >= before + delayed:
                        j = up[b - before - delayed]
                        j = j if j < own else j + delayed
                    if i <= j:
                        F[i, j] += source[b]
                    else:
                        F[j, i] += source[b]
        done = _eliminate(F, local, full, n, threshold, values[value_at:value_at + full * n], pivots[pivot_at:pivot_at + full], ints)
        head[k, 0], head[k, 1], head[k, 2], head[k, 3] = done, n, id_at, value_at
        before, before_n, before_ids, delayed = done, n, id_at, full - done
        id_at, value_at, pivot_at = id_at + n, value_at + done * n, pivot_at + done
        F, G = G, F
    return ints[0], delayed


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def substitute(room: Factors, w: Array) -> None:
    """``w <- K^-1 w``."""
    head, ids, values, pivots, local = room.head, room.ids, room.values, room.pivots, room.local
    K = len(head)
    at = 0
    for k in range(K):
        done, n, id_at, value_at = head[k, 0], head[k, 1], head[k, 2], head[k, 3]
        own = ids[id_at:id_at + n]
        for i in range(n):
            local[i] = w[own[i]]
        for p in range(done):
            y = local[p]
            if y != 0.0:
                row = values[value_at + p * n:value_at + (p + 1) * n]
                for j in range(p + 1, n):
                    local[j] -= row[j] * y
        p = 0
        while p < done:
            i11, i21, i22 = pivots[at + p, 0], pivots[at + p, 1], pivots[at + p, 2]
            if i21 == 0.0 and i22 == 0.0:
                local[p] *= i11
                p += 1
            else:
                a, b = local[p], local[p + 1]
                local[p], local[p + 1] = i11 * a + i21 * b, i21 * a + i22 * b
                p += 2
        for i in range(n):
            w[own[i]] = local[i]
        at += done
    for k in range(K - 1, -1, -1):
        done, n, id_at, value_at = head[k, 0], head[k, 1], head[k, 2], head[k, 3]
        own = ids[id_at:id_at + n]
        for i in range(n):
            local[i] = w[own[i]]
        for p in range(done - 1, -1, -1):
            row = values[value_at + p * n:value_at + (p + 1) * n]
            total = local[p]
            for j in range(p + 1, n):
                total -= row[j] * local[j]
            local[p] = total
            w[own[p]] = total
