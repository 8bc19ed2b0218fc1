"""The order of elimination of a program, and the fronts that follow from its pattern."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dynamics.loops.dense import padded
from dynamics.loops.lanes import WIDTH
from ocp.nlp.interior_point.fronts import Factors, Plan
from ocp.nlp.stages import Timeline

Array = np.ndarray

#: columns of one front where the program states no timeline
SLICE = 24
#: room for pivots that are handed on, relative to what is needed without
SPARE = 1.5


def groups_of_timeline(timeline: Timeline, n: int) -> Array:
    """[n] at which front an unknown is eliminated: with its interval, knots with the interval they begin, static ones last."""
    place = np.full(n, timeline.intervals + 1)
    for k, knot in enumerate(timeline.knots):
        place[knot] = k
    for k, inner in enumerate(timeline.inner):
        place[inner] = k
    place[timeline.static] = timeline.intervals + 1
    return place


def groups_of_pattern(n: int, m: int, pairs: tuple[Array, Array]) -> tuple[Array, Array]:
    """([n], [m]) fronts for unknowns and rows of a program without a timeline: slices of a narrow band (Cuthill and McKee 1969)."""
    i, j = pairs
    size = n + m
    if not size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    graph = sp.csr_matrix((np.ones(len(i)), (i, j)), shape=(size, size))
    order = reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True)
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size) // SLICE
    return place[:n], place[n:]


def groups_of_rows(front_of: Array, m: int, rows: Array, columns: Array, last: int) -> Array:
    """[m] the front of each row: where the first of its unknowns is eliminated, or the last where it couples distant ones."""
    first, end = np.full(m, last), np.full(m, -1)
    where = front_of[columns]
    own = where < last  # static unknowns say nothing about a row's position
    np.minimum.at(first, rows[own], where[own])
    np.maximum.at(end, rows[own], where[own])
    return np.where(end - first > 1, end, first)


def plan(n: int, m: int, fixed: Array, hessian: tuple[Array, Array], jacobian: tuple[Array, Array],
         timeline: Timeline | None) -> Plan:
    """The plan of ``[H A'; A -D]`` whose entries are, one after another, the nonzeros of H (upper triangle, (rows, columns)), those
    of A and the diagonal [n + m].

    fixed [n]: unknowns that take no part; timeline: where the program has one.
    """
    (hr, hc), (ar, ac) = hessian, jacobian
    size = n + m
    if timeline is not None:
        place = groups_of_timeline(timeline, n)
        last = timeline.intervals + 1
        row_place = groups_of_rows(place, m, ar[~fixed[ac]], ac[~fixed[ac]], last)
    else:
        keep = ~fixed[ac]
        free_h = (hr != hc) & ~fixed[hr] & ~fixed[hc]
        place, row_place = groups_of_pattern(n, m, (np.concatenate([hr[free_h], ar[keep] + n]),
                                                    np.concatenate([hc[free_h], ac[keep]])))
    where = np.concatenate([place, row_place]).astype(np.int64)
    taken = np.concatenate([~fixed, np.ones(m, dtype=bool)])
    members = np.flatnonzero(taken)
    members = members[np.argsort(where[members], kind="stable")]
    used, number = np.unique(where[members], return_inverse=True)
    K = max(1, len(used))
    front = np.full(size, -1, dtype=np.int64)
    front[members] = number
    own_start = np.searchsorted(number, np.arange(K + 1)).astype(np.int64)
    position = np.full(size, -1, dtype=np.int64)  # in the order of elimination
    position[members] = np.arange(len(members))
    # entries between unknowns that take part
    i = np.concatenate([hr, ar + n, np.arange(size)])
    j = np.concatenate([hc, ac, np.arange(size)])
    source = np.flatnonzero(taken[i] & taken[j])
    i, j = i[source], j[source]
    swap = position[i] > position[j]
    i, j = np.where(swap, j, i), np.where(swap, i, j)
    at = front[i]
    order = np.argsort(at, kind="stable")
    i, j, source, at = i[order], j[order], source[order], at[order]
    entry_start = np.searchsorted(at, np.arange(K + 1)).astype(np.int64)
    bounds, ups = _boundaries(K, front, position, at, j)
    bound_start = np.concatenate([[0], np.cumsum([len(b) for b in bounds])]).astype(np.int64)
    local_row, local_column = position[i] - own_start[at], np.empty(len(j), dtype=np.int64)
    inside = front[j] == at
    local_column[inside] = position[j[inside]] - own_start[at[inside]]
    number_of = np.empty(size, dtype=np.int64)
    for k in range(K):
        here = slice(entry_start[k], entry_start[k + 1])
        away = ~inside[here]
        if np.any(away):
            number_of[bounds[k]] = np.arange(len(bounds[k])) + own_start[k + 1] - own_start[k]
            part = local_column[here]
            part[away] = number_of[j[here][away]]
    return Plan(own_start, members.astype(np.int64), bound_start, _flat(bounds), _flat(ups), entry_start,
                source.astype(np.int64), local_row.astype(np.int64), local_column)


def _boundaries(K: int, front: Array, position: Array, at: Array, j: Array) -> tuple[list[Array], list[Array]]:
    """Boundaries of all fronts, in the order of elimination, and the local numbers of their entries in the next front."""
    starts = np.searchsorted(at, np.arange(K + 1))
    bounds: list[Array] = []
    alive = np.zeros(0, dtype=np.int64)
    for k in range(K):
        new = j[starts[k]:starts[k + 1]]
        together = np.unique(np.concatenate([position[alive], position[new[front[new] > k]]]))
        inverse = np.concatenate([alive, new[front[new] > k]])
        lookup = dict(zip(position[inverse].tolist(), inverse.tolist(), strict=True))
        alive = np.array([lookup[p] for p in together.tolist()], dtype=np.int64)
        alive = alive[front[alive] > k]
        bounds.append(alive)
    ups: list[Array] = []
    count = np.bincount(front[front >= 0], minlength=K)
    firsts = np.concatenate([[0], np.cumsum(count)])
    for k in range(K):
        if k + 1 == K:
            ups.append(np.zeros(0, dtype=np.int64))
            continue
        mine = bounds[k]
        next_numbers = {int(v): i for i, v in enumerate(bounds[k + 1])}
        ups.append(np.array([int(position[v] - firsts[k + 1]) if front[v] == k + 1 else int(count[k + 1]) + next_numbers[int(v)]
                             for v in mine], dtype=np.int64))
    return bounds, ups


def _flat(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)


def workspace(plan: Plan, size: int, spare: float = SPARE) -> Factors:
    """Room for the factors of a plan of ``size`` unknowns and rows in all."""
    own, bound = np.diff(plan.own_start), np.diff(plan.bound_start)
    side = padded(int(np.ceil(spare * float(np.max(own + bound, initial=1)))) + WIDTH)
    values = int(np.ceil(spare * float(np.sum(own * (own + bound + WIDTH))))) + WIDTH * side
    ids = int(np.ceil(spare * float(np.sum(own + bound)))) + WIDTH * side
    return Factors(np.zeros((len(own), 4), dtype=np.int64), np.zeros(ids, dtype=np.int64), np.zeros(values), np.zeros((size + 1,
                                                                                                                       3)),
                   np.zeros(side * side), np.zeros(side * side), np.zeros(side, dtype=np.int64), np.zeros(side))
