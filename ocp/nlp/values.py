"""Values and first derivatives of a separable program by NumPy, where a function of the whole would be built for a single call."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from ocp.nlp.separable import Element, Gather, Separable

Array = np.ndarray


class Values:
    """A separable program at the point x [n]."""

    def __init__(self, separable: Separable, x: Array):
        self.separable, self.x = separable, np.ascontiguousarray(x, dtype=float)

    def f(self) -> float:
        """Value of the objective."""
        return sum(float(e.weight @ at_points(e, "cost", self.x)[0].ravel()) for e in self.separable.elements if e.has_cost)

    def gradient(self) -> Array:
        """[n]"""
        total = np.zeros(self.separable.n)
        for e in self.separable.elements:
            if e.has_cost:
                slopes = at_points(e, "gradient", self.x)[1]
                total += np.bincount(e.index.ravel(), (e.weight[:, None] * slopes).ravel(), len(total))
        return total

    def g(self) -> Array:
        """[m]"""
        return self._rows([at_points(e, "rows", self.x)[0] for e in self.separable.elements if e.size])

    def g_and_jacobian(self) -> tuple[Array, Array]:
        """Rows [m] and the nonzeros of the Jacobian."""
        found = [at_points(e, "jacobian", self.x) for e in self.separable.elements if e.size]
        return self._rows([y for y, _ in found]), summed(self.separable.jacobian.entries, _flat([slopes for _, slopes in found]))

    def _rows(self, y: Sequence[Array]) -> Array:
        start, columns, values = self.separable.linear
        rows = np.repeat(np.arange(self.separable.m), np.diff(start))
        return np.bincount(rows, values * self.x[columns], self.separable.m) + summed(self.separable.rows, _flat(y))


def at_points(element: Element, name: str, x: Array, *more: Array) -> list[Array]:
    """Results [count, k] of one function of an element at all of its evaluation points. more: further arguments, one entry an
    evaluation point."""
    function: ca.Function = getattr(element, name)
    repeated = function if element.batched or element.count == 1 else function.map(element.count)
    return evaluated(repeated, [x[element.index], element.values, *more], element.count)


def evaluated(function: ca.Function, arguments: Sequence[Array], count: int) -> list[Array]:
    """Dense results [count, k] of a function whose arguments and results have one column an evaluation point, which are rows
    here."""
    if not all(function.sparsity_out(i).is_dense() for i in range(function.n_out())):
        return [value.full().T for value in function.call([np.asarray(value).T for value in arguments])]
    buffer, run = function.buffer()
    given = [np.ascontiguousarray(value, dtype=float) for value in arguments]
    found = [np.zeros((count, function.numel_out(i) // count)) for i in range(function.n_out())]
    for i, value in enumerate(given):
        if value.size:
            buffer.set_arg(i, value.data)
    for i, value in enumerate(found):
        if value.size:
            buffer.set_res(i, value.data)
    run()
    return found


def summed(gather: Gather, source: Array) -> Array:
    """The results of a gather from a flat array."""
    result = np.repeat(np.arange(len(gather.base)), np.diff(gather.start))
    return gather.base + np.bincount(result, gather.weight * source[gather.source], len(gather.base))


def _flat(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *(part.ravel() for part in parts)])
