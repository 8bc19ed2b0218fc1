"""The CasADi functions of a separable program as a whole, each built when somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import casadi as ca
import numpy as np

from ocp.nlp.ordered import ordered, starts
from ocp.nlp.separable import Element, Gather, Matrix, Separable

Array = np.ndarray


class Whole:
    """f, g, grad, jac, hess and gauss_newton as ``ocp.nlp.NLP`` describes them, of a program given by its elements.

    flat_below: instructions in all, up to which a function is written as one flat one.
    """

    def __init__(self, separable: Separable, flat_below: int = 0):
        self.separable, self.flat_below = separable, flat_below

    @cached_property
    def _x(self) -> ca.MX:
        return ca.MX.sym("x", self.separable.n)

    @cached_property
    def _arguments(self) -> list[tuple[ca.MX, ca.MX]]:
        """(v [nv, count], data [nd, count]) of every element."""
        found = []
        for e in self.separable.elements:
            data = ca.DM(ca.Sparsity.dense(e.values.shape[1], e.count), e.values.ravel().tolist())
            found.append((ca.reshape(_picked(self._x, e.index.ravel()), e.index.shape[1], e.count), ca.MX(data)))
        return found

    def _called(self, name: str, more: Sequence[Sequence[ca.MX]] | None = None) -> list[list[ca.MX] | None]:
        """Results of one function of every element at all places, one column each; None where the element has none."""
        found: list[list[ca.MX] | None] = []
        for k, (e, (v, d)) in enumerate(zip(self.separable.elements, self._arguments, strict=True)):
            if not _takes_part(e, name):
                found.append(None)
                continue
            function: ca.Function = getattr(e, name)
            repeated = function if e.count == 1 or e.batched else function.map(e.count)
            found.append([_dense(value) for value in repeated.call([v, d, *(more[k] if more else ())])])
        return found

    def _function(self, name: str, kind: str, inputs: dict[str, ca.MX], outputs: dict[str, ca.MX]) -> ca.Function:
        function = ca.Function(name, list(inputs.values()), list(outputs.values()), list(inputs), list(outputs))
        total = 0
        for e in self.separable.elements:
            own: ca.Function | None = getattr(e, kind)
            if own is None or not _takes_part(e, kind):
                continue
            if not own.is_a("SXFunction"):
                return function
            total += e.count * own.n_instructions()
        return function.expand() if total < self.flat_below else function

    def _objective(self, costs: Sequence[list[ca.MX] | None]) -> ca.MX:
        terms = [values[0] if e.count == 1 and e.weight[0] == 1.0 else ca.dot(_row(e.weight), values[0])
                 for e, values in zip(self.separable.elements, costs, strict=True) if values is not None]
        return sum(terms[1:], start=terms[0]) if terms else ca.MX(0)

    @cached_property
    def _linear(self) -> ca.MX:
        start, columns, values = self.separable.linear
        return ca.MX(_transposed(start, columns, values, self.separable.n).T)

    @cached_property
    def _spread(self) -> ca.DM:
        """From multipliers [m] to those of the elements' rows; its transpose makes rows of the program out of these."""
        own = self.separable.rows
        return _transposed(own.start, own.source, own.weight, sum(e.count * e.size for e in self.separable.elements))

    def _rows(self, y: Sequence[list[ca.MX] | None]) -> ca.MX:
        g = _dense(ca.mtimes(ca.MX(self._spread.T), _stacked([values[0] for values in y if values is not None])))
        return g + _dense(ca.mtimes(self._linear, self._x)) if len(self.separable.linear[1]) else g

    @cached_property
    def f(self) -> ca.Function:
        """Objective (x) -> f."""
        return self._function("f", "cost", {"x": self._x}, {"f": self._objective(self._called("cost"))})

    @cached_property
    def g(self) -> ca.Function:
        """Constraint functions (x) -> g [m]."""
        return self._function("g", "rows", {"x": self._x}, {"g": self._rows(self._called("rows"))})

    @cached_property
    def grad(self) -> ca.Function:
        """Gradient of the objective (x) -> [n]."""
        found, n = self._called("gradient"), self.separable.n
        costs = [(e, values) for e, values in zip(self.separable.elements, found, strict=True) if values is not None]
        columns = np.concatenate([np.zeros(0, dtype=int), *(e.index.ravel() for e, _ in costs)])
        weights = np.concatenate([np.zeros(0), *(np.repeat(e.weight, e.index.shape[1]) for e, _ in costs)])
        keys, order = ordered(columns)
        gather = Gather(starts(keys, n), order, weights[order], np.zeros(n))
        gradient = gathered(gather, _stacked([values[1] for _, values in costs]))
        return self._function("gradient", "gradient", {"x": self._x}, {"f": self._objective(found), "gradient": gradient})

    @cached_property
    def jac(self) -> ca.Function:
        """Jacobian of the constraints (x) -> [m, n], sparse."""
        found, own = self._called("jacobian"), self.separable
        entries = gathered(own.jacobian.entries, _stacked([values[1] for values in found if values is not None]))
        return self._function("jacobian", "jacobian", {"x": self._x},
                              {"g": self._rows(found), "jacobian": ca.MX(pattern(own.jacobian, own.m), entries)})

    @cached_property
    def hess(self) -> ca.Function:
        """Upper triangle of the Lagrangian's Hessian (x, sigma, lam) -> [n, n], sparse."""
        own, sigma, lam = self.separable, ca.MX.sym("sigma"), ca.MX.sym("lam", self.separable.m)
        sizes = [e.count * e.size for e in own.elements]
        mu = _dense(ca.mtimes(ca.MX(self._spread), lam))
        parts = ca.vertsplit(mu, np.concatenate([[0], np.cumsum(sizes)]).tolist()) if own.elements else []
        more = [(sigma * _row(e.weight), ca.reshape(part, e.size, e.count))
                for e, part in zip(own.elements, parts, strict=True)]
        found = self._called("hessian", more)
        entries = gathered(own.hessian.entries, _stacked([values[0] for values in found if values is not None]))
        return self._function("hessian", "hessian", {"x": self._x, "sigma": sigma, "lam_g": lam},
                              {"hessian": ca.MX(pattern(own.hessian, own.n), entries)})

    @cached_property
    def gauss_newton(self) -> ca.Function | None:
        """Gauss-Newton approximation of the Hessian, or None."""
        own, sigma = self.separable, ca.MX.sym("sigma")
        if own.gauss_newton is None:
            return None
        found = self._called("gauss_newton", [(sigma * _row(e.weight),) for e in own.elements])
        entries = gathered(own.gauss_newton.entries, _stacked([values[0] for values in found if values is not None]))
        return self._function("gauss_newton", "gauss_newton", {"x": self._x, "sigma": sigma},
                              {"hessian": ca.MX(pattern(own.gauss_newton, own.n), entries)})


def _takes_part(element: Element, name: str) -> bool:
    """Whether a function of an element has anything to say."""
    if name in ("cost", "gradient"):
        return element.has_cost
    return element.gauss_newton is not None if name == "gauss_newton" else bool(element.size) or name == "hessian"


def pattern(matrix: Matrix, rows: int) -> ca.Sparsity:
    """The pattern [rows, columns] of a gathered matrix."""
    return ca.Sparsity(rows, len(matrix.indptr) - 1, matrix.indptr.tolist(), matrix.rows.tolist())


def gathered(gather: Gather, source: ca.MX) -> ca.MX:
    """The results [k, 1] of a gather from the column ``source``.

    The first source of each result is picked, which costs next to nothing; a sparse matrix adds the others.
    """
    count = len(gather.base)
    many = np.diff(gather.start)
    first = gather.start[:-1][many > 0]
    if 2 * len(first) < len(gather.source):
        total = _dense(ca.mtimes(ca.MX(_transposed(gather.start, gather.source, gather.weight, source.shape[0]).T), source))
        return total + _sparse(gather.base) if np.any(gather.base) else total
    index, weight = np.full(count, source.shape[0]), np.ones(count)
    index[many > 0], weight[many > 0] = gather.source[first], gather.weight[first]
    total = _picked(source if len(first) == count else ca.vertcat(source, 0), index)  # results without any source pick the zero
    if np.any(weight != 1.0):
        total = _column(weight) * total
    if np.any(gather.base):
        total = total + _sparse(gather.base)
    if len(first) < len(gather.source):
        rest = np.ones(len(gather.source), dtype=bool)
        rest[first] = False
        result = np.repeat(np.arange(count), many)[rest]
        chosen, column = np.unique(gather.source[rest], return_inverse=True)
        matrix = ca.MX(_transposed(starts(result, count), column, gather.weight[rest], len(chosen)).T)
        total = total + _dense(ca.mtimes(matrix, _picked(source, chosen)))
    return total


def _transposed(start: Array, columns: Array, values: Array, width: int) -> ca.DM:
    """The sparse matrix [width, len(start) - 1] whose transpose has these entries, given row by row."""
    rows = np.repeat(np.arange(len(start) - 1), np.diff(start))
    falls = np.flatnonzero(columns[1:] <= columns[:-1])
    if np.any(rows[falls + 1] == rows[falls]):
        order = np.lexsort((columns, rows))
        columns, values = columns[order], values[order]
    # lists: CasADi takes arrays entry by entry, through Python, many times slower
    return ca.DM(ca.Sparsity(width, len(start) - 1, start.tolist(), columns.tolist()), values.tolist())


def _picked(source: ca.MX, index: Array) -> ca.MX:
    if not len(index):
        return ca.MX(0, 1)
    return source if len(index) == source.shape[0] and np.array_equal(index, np.arange(len(index))) else source.nz[index.tolist()]


def _stacked(parts: Sequence[ca.MX]) -> ca.MX:
    """All entries in one column, which stays dense where there are none."""
    return ca.veccat(*parts) if parts else ca.MX(0, 1)


def _column(values: Array) -> ca.DM:
    return ca.DM(ca.Sparsity.dense(len(values), 1), values.tolist())


def _sparse(values: Array) -> ca.DM:
    """A column of which few entries are not 0."""
    rows = np.flatnonzero(values)
    return ca.DM(ca.Sparsity(len(values), 1, [0, len(rows)], rows.tolist()), values[rows].tolist())


def _row(values: Array) -> ca.DM:
    return ca.DM(ca.Sparsity.dense(1, len(values)), values.tolist())


def _dense(value: ca.MX) -> ca.MX:
    return value if value.is_dense() else ca.densify(value)
