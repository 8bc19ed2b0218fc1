"""Symmetric indefinite factorisation along a line of dense fronts, with pivoting and inertia.

    K = sum of the values at their positions = P' L D L' P

Front k holds the unknowns and rows that are eliminated there, what the front before could not eliminate, and its boundary: what
they touch of later ones (Duff and Reid 1983). Pivots of order one and two are taken from the first two by a threshold on their
column; a candidate that fails every test is handed on to the next front, where more of its column is known. By Sylvester's law the
signs of D are those of the eigenvalues of K.

Fronts store their upper triangle by rows, padded to eight lanes. Matrix rows are brought up to date when they are looked at, from
all pivots since the last time at once, and stay in registers meanwhile; only exchanges ask for all of them.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from dynamics.loops.lanes import WIDTH, get, load, put, splat, store, total
from dynamics.loops.vectors import OPTIONS
from ocp.nlp.interior_point.state import assign

Array = np.ndarray

#: a pivot of order one is at least this fraction of the largest entry of its column
THRESHOLD = 1e-6
#: large fronts are brought up to date after so many pivots: their rows of L stay in the nearest cache meanwhile
MIN_PANELLED_WIDTH, PANEL = 96, 16
#: pivots below this are no pivots (rows are scaled, see ``kkt``)
MIN_PIVOT = 1e-30


class Plan(Record):
    """Where everything goes, k = 0..K-1: found once from the pattern (``order.plan``).

    own_start [K+1], own: what front k eliminates; bound_start [K+1], bound: its boundary. Local numbers: own first, then the
        boundary
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


class Factors(Record):
    """Room for the factors.

    head [K, 4]: of every front its pivots, its size, where its ids begin and where its values begin; ids: local -> global
    values: rows of L, one per pivot, as long as the padded front, 0 up to the diagonal (which is 1); pivots [size, 3]: D^-1 as
    (11, 21, 22): of order one where the second and third are 0, the second of a pair has all three 0
    front, other [side * side]: two fronts; applied [side]: pivots that a row has seen; local: a vector of one front
    """

    head: Array
    ids: Array
    values: Array
    pivots: Array
    front: Array
    other: Array
    applied: Array
    local: Array


@linked(**OPTIONS)
def _update(F: Array, w: int, values: Array, at: int, i: int, start: int, p: int) -> None:
    """Subtract from row i of the front what the pivots ``start`` to p (without) take from it."""
    c = i // WIDTH * WIDTH
    row = i * w
    while c + 4 * WIDTH <= w:
        a0, a1 = load(F, row + c), load(F, row + c + WIDTH)
        a2, a3 = load(F, row + c + 2 * WIDTH), load(F, row + c + 3 * WIDTH)
        for q in range(start, p):
            f, v = splat(-get(F, q * w + i)), at + q * w + c
            a0, a1 = a0 + f * load(values, v), a1 + f * load(values, v + WIDTH)
            a2, a3 = a2 + f * load(values, v + 2 * WIDTH), a3 + f * load(values, v + 3 * WIDTH)
        store(F, row + c, a0)
        store(F, row + c + WIDTH, a1)
        store(F, row + c + 2 * WIDTH, a2)
        store(F, row + c + 3 * WIDTH, a3)
        c += 4 * WIDTH
    while c + 2 * WIDTH <= w:
        a0, a1 = load(F, row + c), load(F, row + c + WIDTH)
        for q in range(start, p):
            f, v = splat(-get(F, q * w + i)), at + q * w + c
            a0, a1 = a0 + f * load(values, v), a1 + f * load(values, v + WIDTH)
        store(F, row + c, a0)
        store(F, row + c + WIDTH, a1)
        c += 2 * WIDTH
    if c < w:
        a0, a1 = load(F, row + c), splat(0.0)
        q = start
        while q + 1 < p:
            a0 = a0 + splat(-get(F, q * w + i)) * load(values, at + q * w + c)
            a1 = a1 + splat(-get(F, (q + 1) * w + i)) * load(values, at + (q + 1) * w + c)
            q += 2
        if q < p:
            a0 = a0 + splat(-get(F, q * w + i)) * load(values, at + q * w + c)
        store(F, row + c, a0 + a1)


@linked(**OPTIONS)
def _all_up_to_date(F: Array, w: int, values: Array, at: int, applied: Array, p: int, n: int) -> None:
    for i in range(p, n):
        if applied[i] < p:
            _update(F, w, values, at, i, applied[i], p)
            applied[i] = p


@linked(**OPTIONS)
def _swap(F: Array, w: int, ids: Array, values: Array, at: int, a: int, b: int, n: int, p: int) -> None:
    """Exchange a < b of the front after p pivots: rows and columns of the upper triangle, columns of L. All rows up to date."""
    ids[a], ids[b] = ids[b], ids[a]
    for q in range(p):
        i, j = at + q * w + a, at + q * w + b
        values[i], values[j] = values[j], values[i]
    for i in range(a):
        F[i * w + a], F[i * w + b] = F[i * w + b], F[i * w + a]
    F[a * w + a], F[b * w + b] = F[b * w + b], F[a * w + a]
    for i in range(a + 1, b):
        F[a * w + i], F[i * w + b] = F[i * w + b], F[a * w + i]
    for i in range(b + 1, n):
        F[a * w + i], F[b * w + i] = F[b * w + i], F[a * w + i]


@linked(**OPTIONS)
def _norm2(F: Array, at: int, first: int, w: int) -> float:
    """Sum of squares of entries first.. of the row that begins at ``at``."""
    c = (first + WIDTH - 1) // WIDTH * WIDTH
    found = 0.0
    for j in range(first, min(c, w)):
        found += get(F, at + j) ** 2
    sums = splat(0.0)
    while c < w:
        v = load(F, at + c)
        sums = sums + v * v
        c += WIDTH
    return found + total(sums)


@linked(**OPTIONS)
def _keep_row(F: Array, w: int, row: int, p: int, inverse: float, values: Array, at: int) -> None:
    """The row of L of pivot p, which begins at ``row``."""
    c = p // WIDTH * WIDTH
    first = c
    while c < w:
        store(values, at + row + c, splat(inverse) * load(F, row + c))
        c += WIDTH
    for j in range(first, p + 1):
        put(values, at + row + j, 0.0)


@linked(**OPTIONS)
def _pair(F: Array, w: int, p: int, threshold: float, values: Array, at: int, pivots: Array, pivot_at: int) -> int:
    """Columns p and p + 1 as one pivot of two by two, if it is large enough: how many negative pivots it stands for, else -1."""
    row, below = p * w, p * w + w
    a, b, d = get(F, row + p), get(F, row + p + 1), get(F, below + p + 1)
    det = a * d - b * b
    size = abs(det)
    if not (size > MIN_PIVOT and size >= 1e-10 * max(abs(a * d), b * b)):
        return -1
    first, second = np.sqrt(_norm2(F, row, p + 2, w)), np.sqrt(_norm2(F, below, p + 2, w))
    if not threshold * max(abs(d) * first + abs(b) * second, abs(b) * first + abs(a) * second) <= size:
        return -1
    i11, i21, i22 = d / det, -b / det, a / det
    one = pivot_at + p
    pivots[one, 0], pivots[one, 1], pivots[one, 2] = i11, i21, i22
    pivots[one + 1, 0], pivots[one + 1, 1], pivots[one + 1, 2] = 0.0, 0.0, 0.0
    c = p // WIDTH * WIDTH
    start = c
    while c < w:
        u, v = load(F, row + c), load(F, below + c)
        store(values, at + row + c, splat(i11) * u + splat(i21) * v)
        store(values, at + below + c, splat(i21) * u + splat(i22) * v)
        c += WIDTH
    for j in range(start, p + 2):
        put(values, at + row + j, 0.0)
        put(values, at + below + j, 0.0)
    if det < 0.0:
        return 1
    return 2 if a < 0.0 else 0


@linked(**OPTIONS)
def _eliminate(F: Array, w: int, ids: Array, full: int, n: int, threshold: float, factors: Factors, at: int, pivot_at: int
               ) -> tuple[int, int]:
    """Pivots from the first ``full`` of the n columns; (how many, how many of them negative). The rest of the front is the Schur
    complement. Rows of L go to the values of the factors from ``at``, inverse pivots to its pivots from ``pivot_at``."""
    values, pivots, applied = factors.values, factors.pivots, factors.applied
    p, failed, negative = 0, 0, 0  # failed: candidates of this pass, moved to the end of the fully summed part
    fresh = 0  # pivots that every row has seen
    begun, again = 0, 1  # pivots at the start of the pass: those that failed are tried again once others are gone
    applied[:n] = 0
    while p < full:
        if p + failed >= full:
            if p == begun or (again == 0 and n > full):
                break
            begun, failed, again = p, 0, again - 1
        if w > MIN_PANELLED_WIDTH and p - fresh >= PANEL:
            _all_up_to_date(F, w, values, at, applied, p, n)
            fresh = p
        row = p * w
        if applied[p] < p:
            _update(F, w, values, at, p, applied[p], p)
            applied[p] = p
        diagonal, others = get(F, row + p), _norm2(F, row, p + 1, w)
        if abs(diagonal) > MIN_PIVOT and diagonal * diagonal >= threshold * threshold * others:
            inverse = 1.0 / diagonal
            negative += inverse < 0.0
            pivots[pivot_at + p, 0], pivots[pivot_at + p, 1], pivots[pivot_at + p, 2] = inverse, 0.0, 0.0
            _keep_row(F, w, row, p, inverse, values, at)
            p += 1
            continue
        largest, r = MIN_PIVOT, -1
        for j in range(p + 1, full):
            value = abs(get(F, row + j))
            if value > largest:
                largest, r = value, j
        if r >= 0:
            if r > p + 1:
                _all_up_to_date(F, w, values, at, applied, p, n)
                _swap(F, w, ids, values, at, p + 1, r, n, p)
            elif applied[p + 1] < p:
                _update(F, w, values, at, p + 1, applied[p + 1], p)
                applied[p + 1] = p
            taken = _pair(F, w, p, threshold, values, at, pivots, pivot_at)
            if taken >= 0:
                negative += taken
                p += 2
                continue
        failed += 1
        last = full - failed
        if p < last:
            _all_up_to_date(F, w, values, at, applied, p, n)
            _swap(F, w, ids, values, at, p, last, n, p)
    _all_up_to_date(F, w, values, at, applied, p, n)
    return p, negative


@linked(**OPTIONS)
def factorise(plan: Plan, entries: Array, workspace: Factors, threshold: float) -> tuple[int, int]:
    """(negative pivots, columns without a pivot) of the matrix with these entries; (-1, 0) where there is too little space."""
    K = len(plan.own_start) - 1
    head, ids, values, applied = workspace.head, workspace.ids, workspace.values, workspace.applied
    F, G = workspace.front, workspace.other
    negative, id_at, value_at, pivot_at = 0, 0, 0, 0
    delayed, before, before_ids, before_n, before_w = 0, 0, 0, 0, 0  # of the front before
    for k in range(K):
        own, bound = plan.own_start[k + 1] - plan.own_start[k], plan.bound_start[k + 1] - plan.bound_start[k]
        full, n = own + delayed, own + delayed + bound
        w = (n + WIDTH - 1) // WIDTH * WIDTH
        if n > len(applied) or w * n > len(F) or id_at + n > len(ids) or value_at + full * w > len(values):
            return -1, 0
        for i in range(0, n * w, WIDTH):
            store(F, i, splat(0.0))
        local = ids[id_at:id_at + n]
        assign(local[:own], plan.own[plan.own_start[k]:plan.own_start[k + 1]])
        assign(local[full:], plan.bound[plan.bound_start[k]:plan.bound_start[k + 1]])
        for e in range(plan.entry_start[k], plan.entry_start[k + 1]):
            i, j = get(plan.entry_row, e), get(plan.entry_column, e)
            F[(i if i < own else i + delayed) * w + (j if j < own else j + delayed)] += get(entries, get(plan.entry_source, e))
        if k > 0:
            at_up = plan.bound_start[k - 1]
            handed = before + delayed
            for i in range(delayed):
                local[own + i] = ids[before_ids + before + i]
            for a in range(before, before_n):
                i = own + a - before
                if a >= handed:
                    i = get(plan.up, at_up + a - handed)
                    i = i if i < own else i + delayed
                for b in range(a, before_n):
                    j = own + b - before
                    if b >= handed:
                        j = get(plan.up, at_up + b - handed)
                        j = j if j < own else j + delayed
                    F[i * w + j if i <= j else j * w + i] += get(G, a * before_w + b)
        done, minus = _eliminate(F, w, local, full, n, threshold, workspace, value_at, pivot_at)
        negative += minus
        head[k, 0], head[k, 1], head[k, 2], head[k, 3] = done, n, id_at, value_at
        before, before_n, before_ids, before_w, delayed = done, n, id_at, w, full - done
        id_at, value_at, pivot_at = id_at + n, value_at + done * w, pivot_at + done
        F, G = G, F
    return negative, delayed


@linked(**OPTIONS)
def substitute(workspace: Factors, x: Array) -> None:
    """``x <- K^-1 x``."""
    head, ids, values, pivots, local = workspace.head, workspace.ids, workspace.values, workspace.pivots, workspace.local
    K, at = len(head), 0
    for k in range(K):
        done, n, id_at, value_at = head[k, 0], head[k, 1], head[k, 2], head[k, 3]
        w = (n + WIDTH - 1) // WIDTH * WIDTH
        for i in range(n):
            put(local, i, get(x, get(ids, id_at + i)))
        for p in range(done):
            y, row, c = splat(-get(local, p)), value_at + p * w, p // WIDTH * WIDTH
            while c < w:
                store(local, c, load(local, c) + y * load(values, row + c))
                c += WIDTH
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
            put(x, get(ids, id_at + i), get(local, i))
        at += done
    for k in range(K - 1, -1, -1):
        done, n, id_at, value_at = head[k, 0], head[k, 1], head[k, 2], head[k, 3]
        w = (n + WIDTH - 1) // WIDTH * WIDTH
        for i in range(n):
            put(local, i, get(x, get(ids, id_at + i)))
        for i in range(n, w):
            put(local, i, 0.0)
        for p in range(done - 1, -1, -1):
            row, c, sums = value_at + p * w, p // WIDTH * WIDTH, splat(0.0)
            while c < w:
                sums = sums + load(local, c) * load(values, row + c)
                c += WIDTH
            put(local, p, get(local, p) - total(sums))
        for p in range(done):
            put(x, get(ids, id_at + p), get(local, p))
