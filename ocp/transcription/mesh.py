"""Where the unknowns and the evaluations of a phase lie.

A mesh cuts a phase into intervals, each with a scheme of its own. Its *nodes* carry the states, neighbours share the node
between them; its *points* carry the unknown controls; its *places* are where dynamics, costs and path constraints are
evaluated: a node together with the control that holds there. With held controls a knot is two places, one for each side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ocp.transcription.schemes import ControlShape, Scheme, control_shape, make_scheme


@dataclass(frozen=True, eq=False)
class Mesh:
    """Intervals of a phase: ``edges`` [N+1] from 0 to 1 as fractions of its duration, and a scheme for each.

    controls: the shape of the controls, see ``control_shape``. split: an end that two intervals share is two places, one for each
    (each interval then sees states in its own chart).
    """

    edges: np.ndarray
    schemes: tuple[Scheme, ...]
    controls: str = "polynomial"
    split: bool = False

    @property
    def intervals(self) -> int:
        return len(self.schemes)

    @cached_property
    def widths(self) -> np.ndarray:
        """h [N] as fractions of the duration."""
        return np.diff(self.edges)

    @cached_property
    def shapes(self) -> tuple[ControlShape, ...]:
        """How the controls run in each interval."""
        return tuple(control_shape(self.controls, scheme) for scheme in self.schemes)

    # ---- nodes -----------------------------------------------------------------------------------------------------
    @cached_property
    def knots(self) -> np.ndarray:
        """Node numbers [N+1] of the ends of the intervals."""
        return np.concatenate([[0], np.cumsum([len(s.nodes) - 1 for s in self.schemes])]).astype(int)

    @property
    def nodes(self) -> int:
        return int(self.knots[-1]) + 1

    def node(self, k: int) -> np.ndarray:
        """Node numbers [s] of interval k."""
        return np.arange(self.knots[k], self.knots[k + 1] + 1)

    @cached_property
    def fractions(self) -> np.ndarray:
        """Places of all nodes [M] as fractions of the duration."""
        inner = [self.edges[k] + self.widths[k] * np.asarray(s.nodes[:-1]) for k, s in enumerate(self.schemes)]
        return np.append(np.concatenate(inner), self.edges[-1])

    def node_name(self, j: int) -> str:
        k = int(np.searchsorted(self.knots, j, side="right")) - 1
        if self.knots[k] == j:
            return f"knot {k}"
        nodes, inner = self.schemes[k].nodes, j - int(self.knots[k])
        return f"midpoint {k}" if len(nodes) == 3 and nodes[1] == 0.5 else f"node {inner} of interval {k}"

    # ---- controls --------------------------------------------------------------------------------------------------
    @cached_property
    def _points(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        numbers: list[np.ndarray] = []
        fractions: list[float] = []
        for k, shape in enumerate(self.shapes):
            own = self.edges[k] + self.widths[k] * np.asarray(shape.points)
            joins = bool(k and shape.points[0] == 0.0 and self.shapes[k - 1].points[-1] == 1.0)
            first = len(fractions) - int(joins)
            numbers.append(first + np.arange(len(own)))
            fractions += own[int(joins):].tolist()
        return tuple(numbers), np.array(fractions)

    def point(self, k: int) -> np.ndarray:
        """Numbers [m] of the control points of interval k."""
        return self._points[0][k]

    @property
    def control_fractions(self) -> np.ndarray:
        """Places of all control points [P] as fractions of the duration."""
        return self._points[1]

    # ---- places ----------------------------------------------------------------------------------------------------
    @cached_property
    def places(self) -> Places:
        """Where the functions of the phase are evaluated."""
        node: list[int] = []
        interval: list[int] = []
        of = []
        for k, scheme in enumerate(self.schemes):
            numbers = []
            for i in scheme.collocated:
                j = int(self.knots[k]) + int(i)
                if node and node[-1] == j and not self.split and self.controls != "held":
                    numbers.append(len(node) - 1)  # the end of the interval before, with the same control
                    continue
                numbers.append(len(node))
                node.append(j)
                interval.append(k)
            of.append(np.array(numbers))
        nodes, intervals = np.array(node), np.array(interval)
        fractions = self.fractions[nodes]
        points, weights = self._combination(nodes, intervals)
        return Places(nodes, intervals, fractions, points, weights, tuple(of))

    def _combination(self, nodes: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Control points [E, c] that the control at each place is made of, and their weights."""
        points, weights = [], []
        for e, k in enumerate(intervals):
            r = self.schemes[k].nodes[nodes[e] - self.knots[k]]  # from the fractions it would carry their rounding over the width
            row = np.asarray(self.shapes[k].basis(r))
            row = np.where(np.abs(row) < 1e-13, 0.0, row)
            own = np.asarray(self.point(k))
            points.append(own[np.flatnonzero(row)])
            weights.append(row[np.flatnonzero(row)])
        width = max(len(p) for p in points)
        for e, (p, w) in enumerate(zip(points, weights, strict=True)):  # what is alone is combined with its neighbour by a zero
            spare = [q for q in self.point(intervals[e]) if q not in p][: width - len(p)]
            points[e], weights[e] = np.append(p, spare).astype(int), np.append(w, np.zeros(len(spare)))
        return np.array(points, dtype=int), np.array(weights)

    def place_name(self, e: int) -> str:
        """The node; with held controls a knot is two places, and the one that ends an interval says so."""
        places = self.places
        name = self.node_name(int(places.node[e]))
        ends = places.node[e] == self.knots[places.interval[e] + 1]
        twin = e + 1 < len(places.node) and places.node[e + 1] == places.node[e]
        return f"{name} (end of interval {places.interval[e]})" if ends and twin else name

    # ---- the matrices of a scheme ----------------------------------------------------------------------------------
    def defects(self, size: int, charts: bool = False) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """(D, W): the defects are ``D vec(X) + W vec(Y)`` with the states X [size, nodes] and ``Y = duration * rate``
        [size, places]. charts: X stands for the states of interval after interval, each in its own chart."""
        parts: list[list[sp.coo_matrix]] = [[], []]
        columns = [len(s.nodes) for s in self.schemes]
        firsts = np.concatenate([[0], np.cumsum(columns)])
        shapes = (int(firsts[-1]) if charts else self.nodes, len(self.places.node))
        for k, scheme in enumerate(self.schemes):
            where = (firsts[k] + np.arange(columns[k]) if charts else self.node(k), self.places.of[k])
            tables = (np.asarray(scheme.defect_state), self.widths[k] * np.asarray(scheme.defect_rate))
            for own, table, at, width in zip(parts, tables, where, shapes, strict=True):
                r, c = np.nonzero(table)
                own.append(sp.coo_matrix((table[r, c], (r, np.asarray(at)[c])), shape=(len(table), width)))
        D, W = (sp.csr_matrix(sp.kron(sp.vstack(own), sp.identity(size), format="csr")) for own in parts)
        return D, W

    @cached_property
    def weights(self) -> np.ndarray:
        """Quadrature weights [E] of the places over the whole phase; they sum to 1."""
        w = np.zeros(len(self.places.node))
        for k, scheme in enumerate(self.schemes):
            np.add.at(w, self.places.of[k], self.widths[k] * np.asarray(scheme.quadrature))
        return w


@dataclass(frozen=True, eq=False)
class Grid:
    """Knots of a shooting phase: ``edges`` [N+1] as fractions of its duration, ``steps`` of the integrator in each interval,
    controls held or linear between knots."""

    edges: np.ndarray
    integrator: str
    steps: int
    linear: bool

    @property
    def intervals(self) -> int:
        return len(self.edges) - 1

    @property
    def nodes(self) -> int:
        return len(self.edges)

    @property
    def fractions(self) -> np.ndarray:
        """Places of all nodes, which are the knots."""
        return self.edges

    @property
    def knots(self) -> np.ndarray:
        return np.arange(len(self.edges))

    @property
    def control_fractions(self) -> np.ndarray:
        return self.edges if self.linear else self.edges[:-1]

    def node_name(self, j: int) -> str:
        return f"knot {j}"


@dataclass(frozen=True, eq=False)
class Compressed:
    """Knots of a phase in compressed Hermite-Simpson form: ``edges`` [N+1] as fractions of its duration; states at knots, controls
    at knots and midpoints."""

    edges: np.ndarray

    @property
    def intervals(self) -> int:
        return len(self.edges) - 1

    @property
    def nodes(self) -> int:
        return len(self.edges)

    @property
    def fractions(self) -> np.ndarray:
        return self.edges

    @property
    def knots(self) -> np.ndarray:
        return np.arange(len(self.edges))

    @property
    def points(self) -> np.ndarray:
        """Control points [N, 3] of the intervals: start, midpoint, end."""
        return 2 * np.arange(self.intervals)[:, None] + np.arange(3)

    def point(self, k: int) -> np.ndarray:
        return self.points[k]

    @property
    def control_fractions(self) -> np.ndarray:
        return np.interp(np.arange(2 * self.intervals + 1) / 2, np.arange(self.intervals + 1), self.edges)

    def node_name(self, j: int) -> str:
        return f"knot {j}"

    def separated(self) -> Mesh:
        """The mesh on which midpoints are nodes."""
        return Mesh(self.edges, (make_scheme("hermite_simpson"),) * self.intervals)


@dataclass(frozen=True, eq=False)
class Places:
    """Where the functions of a phase are evaluated: node [E], interval [E], fraction [E] of the duration, the control as
    ``sum_i weights[:, i] u[points[:, i]]`` (both [E, c]), and ``of``: the place numbers of each interval."""

    node: np.ndarray
    interval: np.ndarray
    fraction: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    of: tuple[np.ndarray, ...]

    @cached_property
    def combined(self) -> bool:
        """Whether the control of a place is made of several unknowns."""
        return bool(self.points.shape[1] > 1)

    @cached_property
    def first_of_node(self) -> np.ndarray:
        """Whether a place is the first at its node [E]."""
        return np.concatenate([[True], self.node[1:] != self.node[:-1]])


def uniform_mesh(scheme: Scheme, intervals: int, controls: str = "polynomial", split: bool = False) -> Mesh:
    return Mesh(np.linspace(0.0, 1.0, intervals + 1), (scheme,) * intervals, controls, split)


Discretisation = Mesh | Grid | Compressed
