"""Derivatives by several roads at one point, compared entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ocp.derivative_check.differences import Sides, Values, central, sides
from ocp.derivative_check.records import Kind, Number

# Error bars of differences are estimates from few numbers: ten of them before we speak of a disagreement.
_BARS = 10.0
_UNCERTAIN = 1e-3
# Exact roads may round differently (1 - tanh^2 far out): a smaller relative difference needs the witness of finite differences.
_PLAIN = 1e-5
_SMALL = 1e-9  # a derivative below this has no scale of its own: it is what rounding left of a zero


@dataclass(frozen=True)
class Entry:
    """Something wrong at row i and column j; size: by how much, relative to the scale of the matrix."""

    kind: Kind
    i: int
    j: int
    numbers: tuple[Number, ...]
    size: float


@dataclass(frozen=True)
class Comparison:
    """entries: what is wrong; difference, bar, unresolved, count: see ``records.Order``."""

    entries: tuple[Entry, ...]
    difference: float
    bar: float
    unresolved: int
    count: int


@dataclass(frozen=True)
class _Table:
    """All numbers of one comparison. roads: name -> [m, n]; value, error: differences; tolerance [m, n]; scale [m, 1]."""

    roads: Mapping[str, np.ndarray]
    value: np.ndarray
    error: np.ndarray
    tolerance: np.ndarray
    scale: np.ndarray
    values: Values
    steps: np.ndarray
    cache: dict[int, tuple[Sides, np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def reference(self) -> np.ndarray:
        return next(iter(self.roads.values()))

    def numbers(self, i: int, j: int) -> list[Number]:
        out = [Number(name, float(matrix[i, j])) for name, matrix in self.roads.items()]
        return [*out, Number("differences", float(self.value[i, j]), float(self.error[i, j]))]

    def near(self, j: int) -> tuple[Sides, np.ndarray, np.ndarray]:
        """Both sides of the point along direction j, and differences at small steps with their bars [m]; made once."""
        if j not in self.cache:
            n = len(self.steps)
            only = np.zeros((n, 1))
            only[j] = 1.0
            fine, _ = central(lambda d: self.values(only @ d), self.steps[j:j + 1], fine=True)
            self.cache[j] = sides(self.values, n, j, float(self.steps[j])), fine.value[:, 0], fine.error[:, 0]
        return self.cache[j]


def compare(values: Values, steps: np.ndarray, roads: Mapping[str, np.ndarray], *, tolerance: float, rows: bool) -> Comparison:
    """The matrices of ``roads`` [m, n], each exact up to rounding, with each other and with differences of ``values``.

    steps [n]: size of each variable. tolerance: relative to the largest entry of the row (``rows``) or of the matrix.
    The first road is the one that differences are held against.
    """
    estimate, bent = central(values, steps)
    natural = np.abs(values(np.zeros((len(steps), 1)))) / steps  # what a derivative is where no term cancels another [m, n]
    stacked = np.stack(list(roads.values()))
    finite = np.isfinite(stacked).all(axis=0)
    with np.errstate(invalid="ignore"):
        size = np.where(np.isfinite(stacked), np.abs(stacked), 0.0).max(axis=0)
        total = float(size.max(initial=0.0))
        scale = size.max(axis=1, keepdims=True, initial=0.0) if rows else np.full((len(size), 1), total)
        allowed = tolerance * scale + 1e-12 * total + 1e-13 * natural + 1e-14
        spread = stacked.max(axis=0) - stacked.min(axis=0)
        apart = np.abs(stacked[0] - estimate.value) > _BARS * estimate.error + allowed
    apart &= np.isfinite(estimate.error)
    table = _Table(roads, estimate.value, estimate.error, allowed, scale, values, steps)
    entries = [Entry(Kind.NON_FINITE, int(i), int(j), tuple(table.numbers(i, j)), np.inf) for i, j in np.argwhere(~finite)]
    entries += _judged(table, finite, spread > allowed, apart, bent)
    good = finite & (scale > 0)
    unit = np.maximum(scale, _SMALL)
    return Comparison(
        tuple(entries), float((spread / unit)[good].max(initial=0.0)),
        float(np.minimum(estimate.error / unit, 1e300)[good & (estimate.error <= _UNCERTAIN * unit)].max(initial=0.0)),
        int(np.sum(good & ~(estimate.error <= _UNCERTAIN * unit))), finite.size)


def _judged(table: _Table, finite: np.ndarray, differ: np.ndarray, apart: np.ndarray, bent: np.ndarray) -> Iterator[Entry]:
    for i, j in np.argwhere(finite & (differ | apart | bent)):
        around, fine, bar = table.near(int(j))
        left, right = around.left.value[i], around.right.value[i]
        uncertain = _BARS * (around.left.error[i] + around.right.error[i])
        exact, allowed, unit = table.reference[i, j], table.tolerance[i, j], max(table.scale[i, 0], _SMALL)
        numbers = table.numbers(i, j)
        if around.jump[i] > allowed * table.steps[j]:  # else it is rounding
            yield Entry(Kind.JUMP, i, j, (*numbers, Number("step in value", float(around.jump[i]))), np.inf)
            continue
        slack = uncertain + allowed
        if abs(right - left) > uncertain + 10 * allowed and min(left, right) - slack <= exact <= max(left, right) + slack:
            both = Number("left", left, around.left.error[i]), Number("right", right, around.right.error[i])
            yield Entry(Kind.KINK, i, j, (*numbers, *both), abs(right - left) / unit)
            continue
        exacts = np.array([m[i, j] for m in table.roads.values()])
        apart_by = float(exacts.max() - exacts.min())
        # close to a kink the coarse differences straddle it: small steps have the last word where they can decide
        excluded = (np.abs(exacts - table.value[i, j]) > _BARS * table.error[i, j] + allowed) & ~(
            np.abs(exacts - fine[i]) <= _BARS * bar[i] + allowed)
        if (differ[i, j] and (excluded.any() or apart_by > _PLAIN * unit)) or excluded[0]:
            off = np.abs(exacts - table.value[i, j])[excluded].max(initial=0.0)
            yield Entry(Kind.DISAGREEMENT, i, j, tuple(numbers), float(max(apart_by, off)) / unit)
