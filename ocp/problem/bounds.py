"""Bounds on the components of a vector: ``lower <= value <= upper``, of states or of controls alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ocp.errors import ProblemError

Array = np.ndarray
INF = float("inf")


@dataclass(frozen=True)
class Bounds:
    """Bounds lower, upper [n]: -inf and inf where there is none, equal where a component is fixed. Values are arrays [n] or
    [..., n]. Raises ProblemError for ends of different lengths."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper):
            raise ProblemError(f"{len(self.lower)} lower and {len(self.upper)} upper bounds; their numbers must agree")

    @classmethod
    def of(cls, pairs: Iterable[Sequence[float]]) -> Bounds:
        """From a pair (lower, upper) for each component, or an array [n, 2]."""
        ends = np.asarray([*pairs], dtype=float).reshape(-1, 2)
        return cls(tuple(ends[:, 0].tolist()), tuple(ends[:, 1].tolist()))

    @classmethod
    def free(cls, count: int) -> Bounds:
        """No bounds on `count` components."""
        return cls((-INF,) * count, (INF,) * count)

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, index: Any) -> Bounds:
        """Bounds of some components: a number, several, a slice, or a mask [n]."""
        return Bounds.of(np.column_stack([end[index] for end in self.arrays]))

    def joined(self, other: Bounds) -> Bounds:
        """These bounds, then the others."""
        return Bounds((*self.lower, *other.lower), (*self.upper, *other.upper))

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """lower and upper [n]; not to be written to."""
        return np.array(self.lower, dtype=float), np.array(self.upper, dtype=float)

    def pairs(self) -> list[tuple[float, float]]:
        """(lower, upper) of each component."""
        return list(zip(self.lower, self.upper, strict=True))

    @property
    def bounded(self) -> Array:
        """Components with a finite bound [n]."""
        return np.asarray(np.isfinite(self.arrays).any(axis=0))

    @property
    def two_sided(self) -> Array:
        """Components with two finite bounds [n]."""
        return np.asarray(np.isfinite(self.arrays).all(axis=0))

    @property
    def width(self) -> Array:
        """upper - lower [n]; infinite where one is."""
        low, high = self.arrays
        return np.asarray(high - low)

    def width_or(self, otherwise: Any) -> Array:
        """The width where it is finite, elsewhere another scale [n]."""
        return np.where(np.isfinite(self.width), self.width, otherwise)

    @property
    def magnitude(self) -> Array:
        """The largest size of a finite bound [n]; 0 where there is none."""
        return np.max(np.where(np.isfinite(self.arrays), np.abs(self.arrays), 0.0), axis=0)

    def clip(self, values: Any) -> Array:
        """The nearest values within the bounds."""
        return np.asarray(np.clip(values, *self.arrays))

    def excess(self, values: Any) -> Array:
        """How far values lie outside; inside, less the distance to the nearest bound."""
        low, high = self.arrays
        return np.asarray(np.maximum(low - values, values - high))

    def violation(self, values: Any) -> Array:
        """How far values lie outside; 0 inside."""
        return np.maximum(0.0, self.excess(values))

    def nearest(self, values: Array) -> Array:
        """The bound [n] that values [k, n] come closest to, or leave furthest."""
        low, high = self.arrays
        return np.where(np.max(low - values, axis=0) >= np.max(values - high, axis=0), low, high)

    def active(self, values: Any, tolerance: Any) -> Array:
        """Which values lie at a bound, up to a tolerance [n], or beyond."""
        low, high = self.arrays
        return np.asarray((values >= high - tolerance) | (values <= low + tolerance))

    def fraction(self, values: Any) -> Array:
        """Where values lie between finite bounds: 0 at lower, 1 at upper."""
        return np.asarray((values - self.arrays[0]) / self.width)

    def fixed_where_active(self, values: Array, tolerance: Array, share: float,
                           required: Mapping[int, Sequence[float]] | None = None
                           ) -> Bounds:
        """With components fixed at a bound that more than a share of values [k, n] meet, up to less than a tolerance [n]. required:
        values of some components that such a bound has to equal."""
        found = self.pairs()
        for i, ends in enumerate(self.pairs()):
            for end in ends:
                close = np.abs(values[:, i] - end) < tolerance[i]
                if abs(end) < INF and np.mean(close) > share and all(v == end for v in (required or {}).get(i, ())):
                    found[i] = end, end
        return Bounds.of(found)

    def closed_by(self, values: Array) -> Bounds:
        """With the extremes of values [k, n] in place of bounds that are infinite."""
        extremes = np.min(values, axis=0), np.max(values, axis=0)
        return Bounds.of(np.where(np.isfinite(self.arrays), self.arrays, extremes).T)
