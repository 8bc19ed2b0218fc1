"""Where the unknowns and the evaluations of a phase lie.

A mesh cuts a phase into intervals, each with a scheme of its own. Its *nodes* carry the states, neighbours share the node
between them; its *points* carry the unknown controls; its *evaluation points* are where dynamics, costs and path constraints are
evaluated: a node together with the control that holds there. With piecewise-constant controls a knot is two evaluation points, one
for each side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from ocp.transcription.schemes import ControlShape, Scheme, control_shape, make_scheme

BETWEEN = "control point {point}"
"""The name of a control point that lies on no node."""


@dataclass(frozen=True, eq=False)
class Table:
    """Entries of a sparse matrix: rows, columns, values [k]."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]

    def below(self, above: int, total: int) -> Table:
        """The same entries with so many rows above them, of ``total`` in all."""
        return Table(self.rows + above, self.columns, self.values, (total, self.shape[1]))

    def spread(self, size: int, width: int) -> sp.csr_matrix:
        """The matrix that does to each of ``size`` components what this one does to one; columns stand for groups of ``width``, of
        which these components are the first."""
        each = np.arange(size)
        rows, columns = ((index[:, None] * step + each).ravel() for index, step in ((self.rows, size), (self.columns, width)))
        return sp.csr_matrix((np.repeat(self.values, size), (rows, columns)), shape=(self.shape[0] * size, self.shape[1] * width))


class ControlPoints(NamedTuple):
    """The first control point [N] of every interval, how many it has [N], and the fractions of all."""

    first: np.ndarray
    counts: np.ndarray
    fractions: np.ndarray


@dataclass(frozen=True, eq=False)
class Mesh:
    """Intervals of a phase: ``edges`` [N+1] from 0 to 1 as fractions of its duration, and a scheme for each.

    controls: the shape of the controls, see ``control_shape``. split: an end that two intervals share is two evaluation points, one
    for each (each interval then sees states in its own chart).
    """

    between: ClassVar[str] = BETWEEN

    edges: np.ndarray
    schemes: tuple[Scheme, ...]
    controls: str = "polynomial"
    split: bool = False

    @property
    def intervals(self) -> int:
        """Number of intervals."""
        return len(self.schemes)

    @cached_property
    def widths(self) -> np.ndarray:
        """h [N] as fractions of the duration."""
        return np.diff(self.edges)

    @cached_property
    def shapes(self) -> tuple[ControlShape, ...]:
        """How the controls run in each interval."""
        made = {id(scheme): control_shape(self.controls, scheme) for scheme in self._kinds}
        return tuple(made[id(scheme)] for scheme in self.schemes)

    @cached_property
    def _kinds(self) -> tuple[Scheme, ...]:
        """The different schemes."""
        return tuple({id(scheme): scheme for scheme in self.schemes}.values())

    def _per_scheme(self, value: Callable[[Scheme], Any]) -> list[Any]:
        """A value [N] that depends on the scheme of an interval, computed once for each scheme."""
        made = {id(scheme): value(scheme) for scheme in self._kinds}
        return [made[id(scheme)] for scheme in self.schemes]

    # ---- nodes -----------------------------------------------------------------------------------------------------
    @cached_property
    def knots(self) -> np.ndarray:
        """Node numbers [N+1] of the ends of the intervals."""
        return np.concatenate([[0], np.cumsum(self._per_scheme(lambda s: len(s.nodes) - 1))]).astype(int)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self.knots[-1]) + 1

    def node(self, k: int) -> np.ndarray:
        """Node numbers [s] of interval k."""
        return np.arange(self.knots[k], self.knots[k + 1] + 1)

    @cached_property
    def fractions(self) -> np.ndarray:
        """Positions of all nodes [M] as fractions of the duration."""
        of, inner = np.repeat(np.arange(self.intervals), np.diff(self.knots)), self._per_scheme(lambda s: np.asarray(s.nodes[:-1]))
        return np.append(self.edges[of] + self.widths[of] * np.concatenate(inner), self.edges[-1])

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """Names of all nodes [M]."""
        names = []
        middle = self._per_scheme(lambda s: len(s.nodes) == 3 and s.nodes[1] == 0.5)
        for k, (count, one) in enumerate(zip(np.diff(self.knots).tolist(), middle, strict=True)):
            names.append(f"knot {k}")
            names += [f"midpoint {k}"] if one else [f"node {i} of interval {k}" for i in range(1, count)]
        return (*names, f"knot {self.intervals}")

    # ---- controls --------------------------------------------------------------------------------------------------
    @cached_property
    def _points(self) -> ControlPoints:
        """First control point [N] of every interval, how many it has [N], and the fractions of all."""
        own = [np.asarray(shape.points) for shape in self.shapes]
        ends = np.array([(len(p), p[0] == 0.0, p[-1] == 1.0) for p in self._per_scheme(
            lambda s: np.asarray(control_shape(self.controls, s).points))], dtype=int)
        joins = np.append(0, ends[1:, 1] & ends[:-1, 2])
        first = np.append(0, np.cumsum(ends[:, 0] - joins)[:-1]) - joins
        of = np.repeat(np.arange(self.intervals), ends[:, 0])
        fractions = self.edges[of] + self.widths[of] * np.concatenate(own)
        new = np.ones(len(of), dtype=bool)
        new[np.cumsum(ends[:, 0]) - ends[:, 0]] = joins == 0
        return ControlPoints(first, ends[:, 0], fractions[new])

    def point(self, k: int) -> np.ndarray:
        """Numbers [m] of the control points of interval k."""
        first, count, _ = self._points
        return first[k] + np.arange(count[k])

    @property
    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """First and last control point [N] of every interval."""
        first, count, _ = self._points
        return first, first + count - 1

    @property
    def control_fractions(self) -> np.ndarray:
        """Positions of all control points [P] as fractions of the duration."""
        return self._points[2]

    # ---- evaluation points ----------------------------------------------------------------------------------------------------
    @cached_property
    def evaluation(self) -> EvaluationPoints:
        """Where the functions of the phase are evaluated."""
        ends = np.array(self._per_scheme(lambda s: (len(s.collocated), s.collocated[0] == 0,
                                                    s.collocated[-1] == len(s.nodes) - 1)), dtype=int)
        # the end of the interval before, with the same control
        joins = np.append(0, ends[1:, 1] & ends[:-1, 2]) * int(not self.split and self.controls != "held")
        first = np.append(0, np.cumsum(ends[:, 0] - joins)[:-1]) - joins
        interval = np.repeat(np.arange(self.intervals), ends[:, 0])
        local = np.concatenate(self._per_scheme(lambda s: np.asarray(s.collocated)))
        new = np.ones(len(interval), dtype=bool)
        new[np.cumsum(ends[:, 0]) - ends[:, 0]] = joins == 0
        interval, local = interval[new], local[new]
        nodes = self.knots[interval] + local
        points, weights = self._combination(local, interval)
        of = tuple(f + np.arange(c) for f, c in zip(first.tolist(), ends[:, 0].tolist(), strict=True))
        return EvaluationPoints(nodes, interval, self.fractions[nodes], points, weights, of)

    def _combination(self, local: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Control points [E, c] that the control at each evaluation point is made of, and their weights. local [E]: numbers of the
        evaluation points' nodes in their intervals."""
        tables, widths = {}, []
        for scheme in self._kinds:  # at the scheme's nodes: fractions of the phase would carry their rounding over the width
            table = np.asarray(control_shape(self.controls, scheme).basis(np.asarray(scheme.nodes)))
            table = np.where(np.abs(table) < 1e-13, 0.0, table)
            tables[id(scheme)] = table
            widths.append(int(np.max(np.count_nonzero(table[np.asarray(scheme.collocated)], axis=1))))
        width = max(widths)
        chosen, shares = {}, {}
        for key, table in tables.items():  # what is alone is combined with its neighbour by a zero
            order = np.argsort(table == 0.0, axis=1, kind="stable")[:, :width]
            chosen[key], shares[key] = order, np.take_along_axis(table, order, axis=1)
        if len(tables) == 1:
            order, table = next(iter(chosen.values())), next(iter(shares.values()))
            points, weights = order[local], table[local]
        else:
            keys = [id(self.schemes[k]) for k in intervals]
            points = np.array([chosen[key][i] for key, i in zip(keys, local, strict=True)])
            weights = np.array([shares[key][i] for key, i in zip(keys, local, strict=True)])
        return (self._points[0][intervals][:, None] + points).astype(int), weights

    @cached_property
    def evaluation_names(self) -> tuple[str, ...]:
        """The nodes of all evaluation points [E]; with piecewise-constant controls a knot is two evaluation points, and the one
        that ends an interval says so."""
        node, interval = self.evaluation.node, self.evaluation.interval
        ends = node == self.knots[interval + 1]
        ends[:-1] &= node[1:] == node[:-1]
        ends[-1] = False
        return tuple(f"{self.node_names[j]} (end of interval {k})" if twin else self.node_names[j]
                     for j, k, twin in zip(node.tolist(), interval.tolist(), ends.tolist(), strict=True))

    @cached_property
    def located(self) -> dict[str, float]:
        """Positions of nodes, evaluation points and control points by name, as fractions of the duration."""
        between = {self.between.format(point=i): s for i, s in enumerate(self.control_fractions.tolist())}
        return between | dict(zip(self.node_names, self.fractions.tolist(), strict=True)) | dict(
            zip(self.evaluation_names, self.evaluation.fraction.tolist(), strict=True))

    # ---- the matrices of a scheme ----------------------------------------------------------------------------------
    def defects(self, size: int, charts: bool = False) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """(D, W): the defects are ``D vec(X) + W vec(Y)`` with the states X [size, nodes] and ``Y = duration * rate``
        [size, evaluation points]. charts: X stands for the states of interval after interval, each in its own chart."""
        D, W = self.tables(charts)
        return D.spread(size, size), W.spread(size, size)

    def tables(self, charts: bool = False) -> tuple[Table, Table]:
        """D and W of ``defects`` for states of one component."""
        columns = np.array(self._per_scheme(lambda s: len(s.nodes)))
        rows = np.append(0, np.cumsum(columns - 1))
        firsts = np.append(0, np.cumsum(columns))
        shapes = (int(firsts[-1]) if charts else self.nodes, len(self.evaluation.node))
        parts: list[list[tuple[np.ndarray, ...]]] = [[], []]
        for scheme in self._kinds:
            own = np.flatnonzero([s is scheme for s in self.schemes])
            at = np.array([self.evaluation.of[k] for k in own])
            for into, table, scale in zip(parts, (scheme.defect_state, scheme.defect_rate), (np.ones(len(own)), self.widths[own]),
                                          strict=True):
                r, c = np.nonzero(np.asarray(table))
                where = (firsts[own] if charts else self.knots[own])[:, None] + c if into is parts[0] else at[:, c]
                into.append(((rows[own][:, None] + r).ravel(), where.ravel(), (scale[:, None] * np.asarray(table)[r, c]).ravel()))
        made = []
        for own_entries, width in zip(parts, shapes, strict=True):
            r, c, value = (np.concatenate(part) for part in zip(*own_entries, strict=True))
            made.append(Table(r, c, value, (int(rows[-1]), width)))
        return made[0], made[1]

    @cached_property
    def weights(self) -> np.ndarray:
        """Quadrature weights [E] of the evaluation points over the whole phase; they sum to 1."""
        shares = np.concatenate(self._per_scheme(lambda s: np.asarray(s.quadrature)))
        lengths = np.repeat(self.widths, self._per_scheme(lambda s: len(s.collocated)))
        return np.bincount(np.concatenate(self.evaluation.of), lengths * shares, len(self.evaluation.node))


@dataclass(frozen=True, eq=False)
class _Knots:
    """A phase whose nodes are its knots: ``edges`` [N+1] as fractions of its duration; at_knots: which control points lie there."""

    edges: np.ndarray

    @property
    def intervals(self) -> int:
        return len(self.edges) - 1

    @property
    def nodes(self) -> int:
        return len(self.edges)

    @property
    def fractions(self) -> np.ndarray:
        """Positions of all nodes, which are the knots."""
        return self.edges

    @property
    def knots(self) -> np.ndarray:
        return np.arange(len(self.edges))

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"knot {j}" for j in range(self.nodes))


@dataclass(frozen=True, eq=False)
class Grid(_Knots):
    """Knots of a shooting phase: ``steps`` of the integrator in each interval, controls constant or linear between knots."""

    at_knots: ClassVar[slice] = slice(None)
    between: ClassVar[str] = BETWEEN

    integrator: str
    steps: int
    linear: bool

    @property
    def control_fractions(self) -> np.ndarray:
        """Fractions in [0, 1] at which control points lie."""
        return self.edges if self.linear else self.edges[:-1]

    @property
    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """First and last control point [N] of every interval."""
        first = np.arange(self.intervals)
        return first, first + int(self.linear)


@dataclass(frozen=True, eq=False)
class Compressed(_Knots):
    """The static condensation of a mesh of Hermite-Simpson (``separated``): states at midpoints are eliminated interval by
    interval; left are states at knots, and controls at knots and midpoints."""

    at_knots: ClassVar[slice] = slice(None, None, 2)
    between: ClassVar[str] = "midpoint {interval}"

    @property
    def points(self) -> np.ndarray:
        """Control points [N, 3] of the intervals: start, midpoint, end."""
        return 2 * np.arange(self.intervals)[:, None] + np.arange(3)

    def point(self, k: int) -> np.ndarray:
        """Index of the control point of interval k."""
        return self.points[k]

    @property
    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """First and last control point [N] of every interval."""
        first = 2 * np.arange(self.intervals)
        return first, first + 2

    @cached_property
    def control_fractions(self) -> np.ndarray:
        """Fractions in [0, 1] at which control points lie."""
        return np.interp(np.arange(2 * self.intervals + 1) / 2, np.arange(self.intervals + 1), self.edges)

    def separated(self) -> Mesh:
        """The mesh on which midpoints are nodes."""
        return Mesh(self.edges, (make_scheme("hermite_simpson"),) * self.intervals)


@dataclass(frozen=True, eq=False)
class EvaluationPoints:
    """Where the functions of a phase are evaluated: node [E], interval [E], fraction [E] of the duration, the control as
    ``sum_i weights[:, i] u[points[:, i]]`` (both [E, c]), and ``of``: the evaluation point numbers of each interval."""

    node: np.ndarray
    interval: np.ndarray
    fraction: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    of: tuple[np.ndarray, ...]

    @cached_property
    def combined(self) -> bool:
        """Whether the control of an evaluation point is made of several unknowns."""
        return bool(self.points.shape[1] > 1)

    @cached_property
    def first_of_node(self) -> np.ndarray:
        """Whether an evaluation point is the first at its node [E]."""
        return np.concatenate([[True], self.node[1:] != self.node[:-1]])


def uniform_mesh(scheme: Scheme, intervals: int, controls: str = "polynomial", split: bool = False) -> Mesh:
    """Equal intervals of one scheme."""
    return Mesh(np.linspace(0.0, 1.0, intervals + 1), (scheme,) * intervals, controls, split)


Discretisation = Mesh | Grid | Compressed
