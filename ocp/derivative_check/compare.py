"""Derivatives by several methods at one point, compared entry by entry, and with finite differences that know how good they are.

Differences at geometrically shrinking steps are extrapolated to step zero (Richardson 1911; Ridders 1982, Accurate computation
of F'(x) and F'(x)F''(x), Adv. Eng. Softw. 4(2)). The extrapolant whose neighbours in the tableau agree best is taken; its error
bound is their difference, the distance to the best extrapolant of another step, and the rounding of the values at that step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ocp.derivative_check.records import Entry, Kind, Number, Order

Vector = np.ndarray
Values = Callable[[np.ndarray], np.ndarray]  # displacements [n, N] -> values [m, N]

EPS = float(np.finfo(float).eps)
_COARSE = 2e-2 * 0.5 ** np.arange(12)  # to 1e-5: neither a scale of 1e-4 nor a rough value at 1e-6 spoils every level
_FINE = 1e-5 * 0.5 ** np.arange(6)
_SIDES = 1e-4 * 0.5 ** np.arange(10)
_ORDER = 5  # columns of the tableau


@dataclass(frozen=True)
class Estimate:
    """value [m, n] with error bars [m, n]; both NaN and infinity where no step gives a finite difference."""

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True)
class Sides:
    """One-sided derivatives along one direction, and by how much the function jumps there; all [m]."""

    left: Estimate
    right: Estimate
    jump: np.ndarray


def central(values: Values, scale: np.ndarray, *, fine: bool = False) -> tuple[Estimate, np.ndarray]:
    """Central differences [m, n] at displacement zero, and where they smell of a kink [m, n].

    scale [n]: size of each variable, which multiplies the steps. fine: steps below 1e-5 only, which see closer.
    """
    steps, n = _FINE if fine else _COARSE, len(scale)
    columns = np.concatenate([sign * h * np.diag(scale) for h in steps for sign in (1, -1)] + [np.zeros((n, 1))], axis=1)
    with np.errstate(all="ignore"):
        y = values(columns)
        middle = y[:, -1:]
        pairs = y[:, :-1].reshape(len(y), len(steps), 2, n)
        ahead, behind = pairs[:, :, 0], pairs[:, :, 1]
        width = steps[:, None] * scale
        noise = EPS * _magnitude(y)[:, :, None] / width
        estimate = _extrapolated((ahead - behind) / (2 * width), noise, 2)
        bend = np.abs(ahead + behind - 2 * middle[:, None, :]) / width  # falls with h where smooth, stays at a kink
        kinked = (bend[:, -1] > 0.8 * bend[:, -2]) & (bend[:, -1] > 1e3 * noise[:, -1]) & (bend[:, -2] > 0.8 * bend[:, -3])
        kinked |= np.isfinite(middle) & ~np.isfinite(bend[:, -1])
    return estimate, kinked


def sides(values: Values, n: int, direction: int, scale: float) -> Sides:
    """Derivatives from the left and from the right along one direction."""
    h = _SIDES * scale
    columns = np.zeros((n, 2 * len(h) + 1))
    columns[direction] = np.concatenate([h, -h, [0.0]])
    with np.errstate(all="ignore"):
        y = values(columns)
        k, middle = len(h), y[:, -1:]
        out = []
        for part, sign in ((y[:, k:2 * k], -1), (y[:, :k], 1)):
            noise = 2 * EPS * _magnitude(y) / h
            found = _extrapolated((sign * (part - middle) / h)[:, :, None], noise[:, :, None], 1)
            out.append(Estimate(found.value[:, 0], found.error[:, 0]))
        gap = np.abs(y[:, :k] - y[:, k:2 * k])
        slope = np.maximum(np.abs(y[:, 0] - y[:, -1]), np.abs(y[:, k] - y[:, -1])) / h[0]
        stays = (gap[:, -1] > 0.3 * gap[:, 0]) & (gap[:, -1] > 1e4 * EPS * _magnitude(y)[:, 0])
        stays &= gap[:, -1] > 20 * h[-1] * slope  # a kink just beside the point is no step
    return Sides(out[0], out[1], np.where(stays, gap[:, -1], 0.0))


def _magnitude(y: np.ndarray) -> np.ndarray:
    """Size [m, 1] of the numbers whose rounding is in y [m, N]: at least those of y, but a zero is what cancelled from others."""
    rows = np.where(np.isfinite(y), np.abs(y), 0.0).max(axis=1, keepdims=True)
    return np.maximum(rows, max(1.0, 0.01 * rows.max(initial=0.0)))


def _extrapolated(differences: np.ndarray, noise: np.ndarray, power: int) -> Estimate:
    """differences, noise [m, steps, n] at steps that halve, with errors in powers ``power`` of the step: [m, n]."""
    m, levels, n = differences.shape
    best, error = np.full((levels, m, n), np.nan), np.full((levels, m, n), np.inf)
    above: list[np.ndarray] = []
    for i in range(levels):
        row = [differences[:, i]]
        for j in range(1, min(i, _ORDER) + 1):
            row.append(row[-1] + (row[-1] - above[j - 1]) / (2.0 ** (power * j) - 1))
            spread = np.maximum(np.abs(row[j] - row[j - 1]), np.abs(row[j] - above[j - 1])) + 4 * noise[:, i]
            better = spread < error[i]  # false for NaN
            best[i], error[i] = np.where(better, row[j], best[i]), np.where(better, spread, error[i])
        above = row
    order = np.argsort(error, axis=0, kind="stable")
    first, second = np.take_along_axis(best, order[:2], 0)
    lowest = np.take_along_axis(error, order[:1], 0)[0]
    spread = np.where(np.isfinite(second), np.abs(first - second), 0.0)
    return Estimate(first, np.where(np.isfinite(first), lowest + spread, np.inf))


# Error bars of differences are estimates from few numbers: ten of them before we speak of a disagreement.
_MIN_ERRORS = 10.0
_UNCERTAIN = 1e-3
# Exact methods may round differently (1 - tanh^2 far out): a smaller relative difference needs the witness of finite differences.
_PLAIN = 1e-5
_MIN_DERIVATIVE_SCALE = 1e-9  # a derivative below this has no scale of its own: it is what rounding left of a zero


@dataclass(frozen=True)
class _Table:
    """All numbers of one comparison. methods: name -> [m, n]; value, error: differences; tolerance [m, n]; scale [m, 1]."""

    methods: Mapping[str, np.ndarray]
    value: np.ndarray
    error: np.ndarray
    tolerance: np.ndarray
    scale: np.ndarray
    values: Values
    steps: np.ndarray
    cache: dict[int, tuple[Sides, np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def reference(self) -> np.ndarray:
        return next(iter(self.methods.values()))

    def numbers(self, i: int, j: int) -> list[Number]:
        out = [Number(name, float(matrix[i, j])) for name, matrix in self.methods.items()]
        return [*out, Number("differences", float(self.value[i, j]), float(self.error[i, j]))]

    def near(self, j: int) -> tuple[Sides, np.ndarray, np.ndarray]:
        """Both sides of the point along direction j, and differences at small steps with their error bounds [m]; made once."""
        if j not in self.cache:
            n = len(self.steps)
            only = np.zeros((n, 1))
            only[j] = 1.0
            fine, _ = central(lambda d: self.values(only @ d), self.steps[j:j + 1], fine=True)
            self.cache[j] = sides(self.values, n, j, float(self.steps[j])), fine.value[:, 0], fine.error[:, 0]
        return self.cache[j]


def compare(values: Values, steps: np.ndarray, methods: Mapping[str, np.ndarray], *, tolerance: float, rows: bool) -> Order:
    """The matrices of ``methods`` [m, n], each exact up to rounding, with each other and with differences of ``values``.

    steps [n]: size of each variable. tolerance: relative to the largest entry of the row (``rows``) or of the matrix.
    The first method is the one that differences are compared with.
    """
    estimate, bent = central(values, steps)
    natural = np.abs(values(np.zeros((len(steps), 1)))) / steps  # what a derivative is where no term cancels another [m, n]
    stacked = np.stack(list(methods.values()))
    finite = np.isfinite(stacked).all(axis=0)
    with np.errstate(invalid="ignore"):
        size = np.where(np.isfinite(stacked), np.abs(stacked), 0.0).max(axis=0)
        total = float(size.max(initial=0.0))
        scale = size.max(axis=1, keepdims=True, initial=0.0) if rows else np.full((len(size), 1), total)
        allowed = tolerance * scale + 1e-12 * total + 1e-13 * natural + 1e-14
        spread = stacked.max(axis=0) - stacked.min(axis=0)
        apart = np.abs(stacked[0] - estimate.value) > _MIN_ERRORS * estimate.error + allowed
    apart &= np.isfinite(estimate.error)
    table = _Table(methods, estimate.value, estimate.error, allowed, scale, values, steps)
    entries = [Entry(Kind.NON_FINITE, int(i), int(j), tuple(table.numbers(i, j)), np.inf) for i, j in np.argwhere(~finite)]
    entries += _judged(table, finite, spread > allowed, apart, bent)
    good = finite & (scale > 0)
    unit = np.maximum(scale, _MIN_DERIVATIVE_SCALE)
    return Order(
        finite.size, float((spread / unit)[good].max(initial=0.0)),
        float(np.minimum(estimate.error / unit, 1e300)[good & (estimate.error <= _UNCERTAIN * unit)].max(initial=0.0)),
        int(np.sum(good & ~(estimate.error <= _UNCERTAIN * unit))), tuple(entries))


def _judged(table: _Table, finite: np.ndarray, differ: np.ndarray, apart: np.ndarray, bent: np.ndarray) -> Iterator[Entry]:
    for i, j in np.argwhere(finite & (differ | apart | bent)):
        around, fine, error_bound = table.near(int(j))
        left, right = around.left.value[i], around.right.value[i]
        uncertain = _MIN_ERRORS * (around.left.error[i] + around.right.error[i])
        exact, allowed, unit = table.reference[i, j], table.tolerance[i, j], max(table.scale[i, 0], _MIN_DERIVATIVE_SCALE)
        numbers = table.numbers(i, j)
        if around.jump[i] > allowed * table.steps[j]:  # else it is rounding
            yield Entry(Kind.JUMP, i, j, (*numbers, Number("step in value", float(around.jump[i]))), np.inf)
            continue
        slack = uncertain + allowed
        if abs(right - left) > uncertain + 10 * allowed and min(left, right) - slack <= exact <= max(left, right) + slack:
            both = Number("left", left, around.left.error[i]), Number("right", right, around.right.error[i])
            yield Entry(Kind.KINK, i, j, (*numbers, *both), abs(right - left) / unit)
            continue
        exacts = np.array([m[i, j] for m in table.methods.values()])
        apart_by = float(exacts.max() - exacts.min())
        # close to a kink the coarse differences straddle it: small steps have the last word where they can decide
        excluded = (np.abs(exacts - table.value[i, j]) > _MIN_ERRORS * table.error[i, j] + allowed) & ~(
            np.abs(exacts - fine[i]) <= _MIN_ERRORS * error_bound[i] + allowed)
        if (differ[i, j] and (excluded.any() or apart_by > _PLAIN * unit)) or excluded[0]:
            off = np.abs(exacts - table.value[i, j])[excluded].max(initial=0.0)
            yield Entry(Kind.DISAGREEMENT, i, j, tuple(numbers), float(max(apart_by, off)) / unit)
