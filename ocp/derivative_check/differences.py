"""Finite differences that know how good they are, and how a function behaves on the two sides of a point.

Differences at geometrically shrinking steps are extrapolated to step zero (Richardson 1911; Ridders 1982, Accurate computation
of F'(x) and F'(x)F''(x), Adv. Eng. Softw. 4(2)). The extrapolant whose neighbours in the tableau agree best is taken; its error
bar is their difference, the distance to the best extrapolant of another step, and the rounding of the values at that step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
