"""Named arrays in two buffers, one of numbers and one of integers: compiled loops get both by two arguments, Python by names.

The integers begin with a table: where each array starts, its rows and its columns. Passing forty arrays takes longer than a small
factorisation; a table is read in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamics.kernels.linked import linked
from ocp.solvers.factors import VIEWS


class Blocks:
    """numbers, integers: the buffers; arrays of ``floats`` and ``ints`` (name -> shape of one or two sizes) are attributes, views
    of them. In loops the arrays are counted in this order, those of numbers first."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, floats: Mapping[str, tuple[int, ...]], ints: Mapping[str, tuple[int, ...]]) -> None:
        shapes = [*floats.values(), *ints.values()]
        table = np.zeros((len(shapes), 3), np.int64)
        at, split = 0, len(floats)
        for k, shape in enumerate(shapes):
            if k == split:
                at = table.size
            rows, columns = shape if len(shape) == 2 else (shape[0], 1)
            table[k] = at, rows, columns
            at += (rows * columns + 7) // 8 * 8  # lines of the cache
        self.numbers = np.zeros(int(sum((np.prod(s) + 7) // 8 * 8 for s in floats.values())))
        self.integers = np.zeros(at if ints else table.size, np.int64)
        self.integers[:table.size] = table.ravel()
        for k, (name, shape) in enumerate([*floats.items(), *ints.items()]):
            held: NDArray[np.generic] = self.numbers if k < split else self.integers
            start = int(table[k, 0])
            setattr(self, name, held[start:start + int(np.prod(shape))].reshape(shape))
        self._starts = dict(zip([*floats, *ints], table[:, 0].tolist(), strict=True))

    def run(self, names: Sequence[str]) -> tuple[NDArray[Any], list[int]]:
        """Arrays that follow each other, as one view, and where each begins in it."""
        held = self.numbers if getattr(self, names[0]).dtype == float else self.integers
        first = self._starts[names[0]]
        starts = [self._starts[name] - first for name in names]
        return held[first:first + starts[-1] + getattr(self, names[-1]).size], starts


@linked(**VIEWS)
def matrix(w: np.ndarray, iw: np.ndarray, k: int) -> np.ndarray:
    """Array k as a matrix."""
    at, rows, columns = iw[3 * k], iw[3 * k + 1], iw[3 * k + 2]
    return w[at:at + rows * columns].reshape((rows, columns))


@linked(**VIEWS)
def vector(w: np.ndarray, iw: np.ndarray, k: int) -> np.ndarray:
    """Array k of numbers as a vector."""
    at = iw[3 * k]
    return w[at:at + iw[3 * k + 1] * iw[3 * k + 2]]


@linked(**VIEWS)
def whole(iw: np.ndarray, k: int) -> np.ndarray:
    """Array k of integers as a vector."""
    at = iw[3 * k]
    return iw[at:at + iw[3 * k + 1] * iw[3 * k + 2]]
