"""Where functions turn sharply along a motion: intervals of time in which bounds of an operation exceed what samples show.

A sample tells what happens at an instant, an enclosure what may happen between two (``ocp.certify.intervals``). Every operation in
the graph of a function is enclosed over intervals of time: where one may move by more than a part of its own range, the interval
is halved, until none does. What is smooth over the phase is resolved by the first intervals; a pulse, a step, a pole or the edge
of a domain is cornered however narrow it is, and whatever operations make it. Operations that are fast everywhere (or whose
bounds are too wide to tell) are no events: samples stand for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import casadi as ca
import numpy as np

from ocp.certify.intervals import Interval, enclosure
from ocp.thresholds import ROUNDING, SEARCH

Array = np.ndarray

#: time within an interval, as a part of it, at which states are sampled
SHARES = np.linspace(0.0, 1.0, 5)


@dataclass(frozen=True)
class Node:
    """An operation: its code, the nodes that are its operands, and a constant, or the argument and component of an input."""

    code: int
    operands: tuple[int, ...] = ()
    constant: float = 0.0
    place: tuple[int, int] = (0, 0)


class Graph:
    """The operations of a function. ranges: their least and largest samples so far; noise: what rounding may have made of them;
    by_samples: those for which samples stand."""

    def __init__(self, nodes: Sequence[Node]):
        self.nodes, self.by_samples = nodes, set[int]()
        self.ranges, self.noise = [(np.inf, -np.inf)] * len(nodes), [0.0] * len(nodes)

    def seen(self, number: int, samples: Array) -> None:
        """Extend the range of a node by samples, and sum up the rounding of its operands: all there is where these cancel."""
        low, high = float(samples.min()), float(samples.max())
        if not np.isfinite(high - low):
            known = samples[np.isfinite(samples)]
            low, high = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
        self.ranges[number] = min(low, self.ranges[number][0]), max(high, self.ranges[number][1])
        operands = [(self.noise[operand], self.size(operand)) for operand in self.nodes[number].operands]
        if self.nodes[number].code in (ca.OP_ADD, ca.OP_SUB):
            self.noise[number] = sum(noise + ROUNDING.rounding * size for noise, size in operands)
        else:
            relative = ROUNDING.rounding + sum(noise / size for noise, size in operands if size > 0)
            self.noise[number] = relative * self.size(number)

    def size(self, number: int) -> float:
        """The largest magnitude of the samples of a node; 0 where there are none."""
        low, high = self.ranges[number]
        return max(-low, high) if low <= high else 0.0

    def above(self, some: set[int]) -> list[int]:
        """These nodes and all that they depend on, in order."""
        needed = set(some)
        for k in range(max(some, default=-1), -1, -1):
            if k in needed:
                needed.update(self.nodes[k].operands)
        return sorted(needed)


class Wide(NamedTuple):
    """Operations whose bounds are wide somewhere, the intervals [k] in which one is, and those in which samples of one differ."""

    marked: set[int]
    sharp: Array
    moves: Array


@lru_cache(maxsize=64)
def graph(function: ca.Function) -> tuple[Node, ...]:
    """The operations of an SX function; those that depend on functions solved inside have code ``OP_CALL``."""
    nodes: list[Node] = []
    work: dict[int, int] = {}
    for k in range(function.n_instructions()):
        code, into, given = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if code == ca.OP_OUTPUT:
            continue
        if code == ca.OP_INPUT:
            node = Node(code, place=(given[0], given[1]))
        elif code == ca.OP_CONST:
            node = Node(code, constant=function.instruction_constant(k))
        else:
            node = Node(code, tuple(work[i] for i in given if i in work))
        for i in into:
            work[i] = len(nodes)
            nodes.append(node)
    return tuple(nodes)


@np.errstate(all="ignore")
def sharp_times(function: ca.Function, along: Callable[[Array], tuple[Array, Array]], p: Array, edges: Array) -> Array:
    """Times about which a function of (t, x, u, p) turns sharply; ``along(t)`` gives states and controls, which are smooth between
    the edges [k + 1] of the first intervals."""
    own = Graph(graph(function))
    low, high, found = edges[:-1], edges[1:], [np.zeros(0)]
    width, needed, round = ROUNDING.rounding * (edges[-1] - edges[0]), list(range(len(own.nodes))), 0
    while len(low):
        marked, sharp, moves = _wide(own, needed, along, p, low, high, round == 0)
        if round > SEARCH.halvings:
            pairs = ~sharp.reshape(-1, 2).any(axis=1) & moves.reshape(-1, 2).any(axis=1)  # and not by bounds alone
            found += [low[::2][pairs], high[::2][pairs], high[1::2][pairs]]
        split = np.flatnonzero(sharp)[: SEARCH.max_windows]
        middle = (low[split] + high[split]) / 2
        ended = high[split] - low[split] <= width
        found.append(middle[ended])
        split, middle = split[~ended], middle[~ended]
        low, high = (np.column_stack(pair).ravel() for pair in ((low[split], middle), (middle, high[split])))
        needed, round = own.above(marked), round + 1
    return np.unique(np.concatenate(found))


def _wide(
    own: Graph, needed: list[int], along: Callable[[Array], tuple[Array, Array]], p: Array, low: Array, high: Array, first: bool
) -> Wide:
    """Which operations may move by more than a part of their range, and where."""
    marked, sharp, moves, k = set[int](), np.zeros(len(low), dtype=bool), np.zeros(len(low), dtype=bool), len(low)
    for number, bounds in _enclosed(own, needed, _arguments(along, p, low, high)):
        node, (least, most) = own.nodes[number], bounds
        own.seen(number, least[k:])
        if node.code in (ca.OP_INPUT, ca.OP_CONST, ca.OP_CALL) or number in own.by_samples:
            continue
        span = max(own.ranges[number][1] - own.ranges[number][0], 0.0)
        much, little = (max(part * span, own.noise[number]) for part in (SEARCH.movement, SEARCH.movement**2))
        width = most[:k] - least[:k]
        if width.max() <= little:
            continue
        before, after = least[k : 2 * k], least[2 * k :]
        beyond = np.maximum(np.fmin(before, after) - least[:k], most[:k] - np.fmax(most[k : 2 * k], most[2 * k :]))
        wide = (np.isfinite(before) | np.isfinite(after)) & ((width > much) | (beyond > little))
        moves |= np.abs(after - before) > little
        many = np.count_nonzero(wide)
        if many > (min(SEARCH.max_windows, SEARCH.movement * k) if first else SEARCH.max_windows / 2):
            own.by_samples.add(number)
            _sampled(bounds, k)
        elif many:
            marked.add(number)
            sharp |= wide
    return Wide(marked, sharp, moves)


def _enclosed(own: Graph, needed: list[int], arguments: list[Interval]) -> Iterator[tuple[int, Interval]]:
    """Bounds of the nodes over the intervals, and behind them at the samples, one node after another."""
    last = {operand: number for number in needed for operand in own.nodes[number].operands}
    bounds: dict[int, Interval] = {}
    size = arguments[0][0].shape[1]
    for number in needed:
        node = own.nodes[number]
        if node.code == ca.OP_CONST:
            found = (np.full(size, node.constant), np.full(size, node.constant))
        elif node.code == ca.OP_INPUT:
            argument, component = node.place
            found = arguments[argument][0][component], arguments[argument][1][component]
        elif node.code == ca.OP_CALL or not node.operands:
            found = (np.full(size, -np.inf), np.full(size, np.inf))
        else:
            found = enclosure(node.code, bounds[node.operands[0]], bounds[node.operands[-1]])
            if number in own.by_samples:
                _sampled(found, size // 3)
        bounds[number] = found
        yield number, found
        for operand in set(node.operands):
            if last[operand] == number:
                del bounds[operand]


def _sampled(bounds: Interval, k: int) -> None:
    """Put the samples at both ends of intervals, and as much beyond as they differ by, in the place of their bounds."""
    low, high = bounds
    ends = low[k : 2 * k], low[2 * k :]
    apart = np.abs(ends[1] - ends[0])
    low[:k], high[:k] = np.fmin(*ends) - apart, np.fmax(*ends) + apart


def _arguments(along: Callable[[Array], tuple[Array, Array]], p: Array, low: Array, high: Array) -> list[Interval]:
    """Time, states, controls and parameters [n, 3 k]: bounds over k intervals, then values at their starts and at their ends."""
    inside = np.clip(SHARES, ROUNDING.beside, 1 - ROUNDING.beside)
    t = low[:, None] + (high - low)[:, None] * inside
    parts = [t.T[None], *(values.T.reshape(-1, len(low), len(SHARES)).transpose(0, 2, 1) for values in along(t.ravel()))]
    found = []
    for samples in parts:  # [n, shares, k]
        turn = np.abs(np.diff(samples, 2, axis=1)).max(axis=1, initial=0.0)
        ends = samples[:, 0], samples[:, -1]
        found.append((np.hstack([samples.min(axis=1) - turn, *ends]), np.hstack([samples.max(axis=1) + turn, *ends])))
    found[0][0][0, : len(low)], found[0][1][0, : len(low)] = low, high
    own = np.repeat(np.asarray(p, dtype=float).reshape(-1, 1), 3 * len(low), axis=1)
    return [*found, (own, own)]
