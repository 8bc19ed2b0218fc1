"""Where functions turn sharply along a motion: intervals of time in which bounds of an operation exceed what samples show.

A sample tells what happens at an instant, an enclosure what may happen between two (``ocp.reach.intervals``). Every operation in
the graph of a function is enclosed over intervals of time: where one may move by more than a part of its own range, the interval
is halved, until none does. What is smooth over the phase is resolved by the first intervals; a pulse, a step, a pole or the edge
of a domain is cornered however narrow it is, and whatever operations make it. Polynomials of low degree turn no faster than
their degree allows (Markov's inequality): samples stand for them, so that bounds stay tight through long sums and products. So
they do for operations that are fast everywhere, which are no events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics.kernels.tape import replay
from ocp.reach.intervals import Interval, enclosure
from ocp.thresholds import ROUNDING, SEARCH

Array = np.ndarray

#: times within an interval, as parts of it, of samples
SHARES = np.linspace(0.0, 1.0, 5)
#: by which operations multiply the degree of a polynomial
DEGREES = {ca.OP_ADD: 1, ca.OP_SUB: 1, ca.OP_NEG: 1, ca.OP_TWICE: 1, ca.OP_SQ: 2}


@dataclass(frozen=True)
class Node:
    """An operation: its code, the nodes that are its operands, a constant, or the argument and component of an input; degree: as a
    polynomial of inputs and of what other operations give, 0 of these."""

    code: int
    operands: tuple[int, ...] = ()
    constant: float = 0.0
    entry: tuple[int, int] = (0, 0)
    degree: int = 0


class Graph:
    """The operations of a function. ranges: their least and largest samples so far; noise: what rounding may have made of them;
    by_samples: those for which samples stand."""

    def __init__(self, nodes: Sequence[Node]):
        self.nodes, self.by_samples = nodes, {k for k, node in enumerate(nodes) if node.degree > 0}
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

    operations: set[int]
    sharp: Array
    moves: Array


@lru_cache(maxsize=64)
def graph(function: ca.Function) -> tuple[Node, ...]:
    """The operations of an SX function; those that depend on functions solved inside have code ``OP_CALL``."""
    nodes: list[Node] = []

    def add(node: Node) -> int:
        nodes.append(node)
        return len(nodes) - 1

    def apply(code: int, operands: list[int]) -> int:
        degrees = [nodes[operand].degree or nodes[operand].code != ca.OP_CONST for operand in operands]
        degree = sum(degrees) if code == ca.OP_MUL else DEGREES.get(code, 0) * max(degrees, default=0)
        return add(Node(code, tuple(operands), degree=int(degree) if degree <= SEARCH.max_degree else 0))

    replay(function, lambda i, j: add(Node(ca.OP_INPUT, entry=(i, j))), lambda value: add(Node(ca.OP_CONST, constant=value)), apply,
           lambda k, operands: [add(Node(ca.OP_CALL, tuple(operands))) for _ in function.instruction_output(k)])
    return tuple(nodes)


@np.errstate(all="ignore")
def sharp_times(function: ca.Function, motion: Callable[[Array], tuple[Array, Array]], p: Array, edges: Array) -> Array:
    """Times about which a function of (t, x, u, p) turns sharply; ``motion(t)`` gives states and controls, which are smooth between
    the edges [k + 1] of the first intervals."""
    own = Graph(graph(function))
    low, high, found = edges[:-1], edges[1:], [np.zeros(0)]
    width, needed, round = ROUNDING.rounding * (edges[-1] - edges[0]), list(range(len(own.nodes))), 0
    while len(low):
        marked, sharp, moves = _wide(own, needed, motion, p, low, high, round == 0)
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
    own: Graph, needed: list[int], motion: Callable[[Array], tuple[Array, Array]], p: Array, low: Array, high: Array, first: bool
) -> Wide:
    """Which operations may move by more than a part of their range, and where."""
    marked, sharp, moves, k = set[int](), np.zeros(len(low), dtype=bool), np.zeros(len(low), dtype=bool), len(low)
    for number, bounds in _enclosed(own, needed, _arguments(motion, p, low, high)):
        node, (least, most) = own.nodes[number], bounds
        own.seen(number, least[k:])
        if node.code in (ca.OP_INPUT, ca.OP_CONST, ca.OP_CALL) or number in own.by_samples:
            continue
        span = max(own.ranges[number][1] - own.ranges[number][0], 0.0)
        much, little = (max(part * span, own.noise[number]) for part in (SEARCH.movement, SEARCH.movement**2))
        width = most[:k] - least[:k]
        if width.max() <= little:
            continue
        samples = least[k:].reshape(-1, k)
        samples = np.where(np.isfinite(samples), samples, np.nan)
        under, over = np.fmin.reduce(samples), np.fmax.reduce(samples)
        wide = ~np.isnan(under) & ((width > much) | (np.maximum(under - least[:k], most[:k] - over) > little))
        moves |= over - under > little
        many = np.count_nonzero(wide)
        if many > (min(SEARCH.max_windows, SEARCH.movement * k) if first else SEARCH.max_windows / 2):
            own.by_samples.add(number)
            _tighten(bounds, k)
        elif many:
            marked.add(number)
            sharp |= wide
    return Wide(marked, sharp, moves)


def _enclosed(own: Graph, needed: list[int], arguments: list[Interval]) -> Iterator[tuple[int, Interval]]:
    """Bounds of the nodes over the intervals, and behind them at the samples, one node after another."""
    last = {operand: number for number in needed for operand in own.nodes[number].operands}
    bounds: dict[int, Interval] = {}
    size = arguments[0][0].shape[1]
    k = size // (1 + len(SHARES))
    for number in needed:
        node = own.nodes[number]
        if node.code == ca.OP_CONST:
            found = (np.full(size, node.constant), np.full(size, node.constant))
        elif node.code == ca.OP_INPUT:
            argument, component = node.entry
            found = arguments[argument][0][component], arguments[argument][1][component]
        elif node.code == ca.OP_CALL or not node.operands:
            found = (np.full(size, -np.inf), np.full(size, np.inf))
        else:
            found = enclosure(node.code, bounds[node.operands[0]], bounds[node.operands[-1]])
            if number in own.by_samples:
                _tighten(found, k)
        bounds[number] = found
        yield number, found
        for operand in set(node.operands):
            if last[operand] == number:
                del bounds[operand]


def _tighten(bounds: Interval, k: int) -> None:
    """Narrow bounds of k intervals by the samples behind them."""
    (least, most), hull = bounds, _hull(*bounds, k)
    least[:k], most[:k] = np.fmax(least[:k], hull[0]), np.fmin(most[:k], hull[1])


def _hull(least: Array, most: Array, k: int) -> Interval:
    """Bounds [k] by the samples behind them: their extremes, and as much beyond as their differences change."""
    low, high = least[k:].reshape(-1, k), most[k:].reshape(-1, k)
    turn = np.abs(low[2:] - 2 * low[1:-1] + low[:-2]).max(axis=0)
    return low.min(axis=0) - turn, high.max(axis=0) + turn


def _arguments(motion: Callable[[Array], tuple[Array, Array]], p: Array, low: Array, high: Array) -> list[Interval]:
    """Time, states, controls and parameters [n, 6 k]: bounds over k intervals, then samples in each, all first ones first."""
    inside = np.clip(SHARES, ROUNDING.beside, 1 - ROUNDING.beside)
    t = low + (high - low) * inside[:, None]
    found = []
    for samples in (t.reshape(1, -1), *(values.T for values in motion(t.ravel()))):
        every = np.hstack([np.zeros((len(samples), len(low))), samples])
        hulls = [_hull(own, own, len(low)) for own in every]
        bounds = [np.hstack([np.reshape([hull[side] for hull in hulls], (len(samples), len(low))), samples]) for side in (0, 1)]
        found.append((bounds[0], bounds[1]))
    found[0][0][0, : len(low)], found[0][1][0, : len(low)] = low, high
    own = np.repeat(np.asarray(p, dtype=float).reshape(-1, 1), found[0][0].shape[1], axis=1)
    return [*found, (own, own)]
