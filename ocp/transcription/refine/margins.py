"""Bounds and path constraints tightened where a motion overshoots them between nodes.

A program holds them at its nodes; along a boundary arc the polynomial between nodes still bulges out by the order of the mesh. The
next pass holds the nodes of just those intervals a little inside, by what was measured. The cost of that is at most the multipliers
times the tightening, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ocp.nlp import NLP
from ocp.nlp.names import parts_of_name, phase_of
from ocp.problem import Problem, Solution
from ocp.thresholds import ROUNDING, TIGHTENING
from ocp.transcription.mesh import Mesh
from ocp.transcription.program import Transcription
from ocp.transcription.refine.plan import Plan

Array = np.ndarray
#: of variables, lower and upper, and of constraints
Bounds = tuple[Array, Array, Array, Array]

#: a tightening over the overshoot where one did not suffice: a peak beside the nodes of a boundary arc moves by half of what they
#: do
NODES_PER_PEAK = 2.0


@dataclass(frozen=True, eq=False)
class Margins:
    """Tightening of one phase by interval: of states [N, nx, 2] and of path constraints [N, m, 2], lower and upper side;
    times [N]: how often an interval was tightened."""

    states: Array
    rows: Array
    times: Array

    @classmethod
    def none(cls, intervals: int, states: int, rows: int) -> Margins:
        """No tightening in any interval."""
        return cls(np.zeros((intervals, states, 2)), np.zeros((intervals, rows, 2)), np.zeros(intervals, dtype=int))

    @property
    def any(self) -> bool:
        """Whether any constraint is tightened."""
        return bool(np.any(self.states) or np.any(self.rows))

    def grown(self, states: Array, rows: Array) -> Margins:
        """With these overshoots beyond the true bounds, shaped as the tightening, added; twice where the motion overshoots
        again."""
        again = np.any(states > 0, axis=(1, 2)) | np.any(rows > 0, axis=(1, 2))
        share = np.where(self.times > 0, NODES_PER_PEAK, TIGHTENING.safety)[:, None, None]
        return Margins(self.states + share * _spread(states), self.rows + share * _spread(rows), self.times + again)

    def on(self, before: Plan, after: Plan) -> Margins:
        """The same on another mesh: unchanged intervals keep theirs, parts of a cut one get the square of their share."""
        edges, new = np.array(before.edges), np.array(after.edges)
        of = np.clip(np.searchsorted(edges, (new[1:] + new[:-1]) / 2, side="right") - 1, 0, before.intervals - 1)
        share = np.minimum(1.0, np.diff(new) / np.diff(edges)[of]) ** 2
        share[share < 1 - 1e-9] *= np.array([after.degrees[k] <= before.degrees[of[k]] for k in np.flatnonzero(share < 1 - 1e-9)])
        same = share > 1 - 1e-9
        return Margins(self.states[of] * share[:, None, None], self.rows[of] * share[:, None, None], self.times[of] * same)


def tightened(program: Transcription, problem: Problem, meshes: Sequence[Mesh], margins: Sequence[Margins],
             row_names: Sequence[Sequence[str]]) -> Transcription:
    """The program with its bounds tightened. row_names: of the path constraints of each phase, in the order of the tightening."""
    if not any(margin.any for margin in margins):
        return program
    nlp = program.nlp
    bounds = [nlp.x_lower.copy(), nlp.x_upper.copy(), nlp.g_lower.copy(), nlp.g_upper.copy()]
    for phase, mesh, margin, form, columns, names in zip(problem.phases, meshes, margins, program.forms, program.state_columns,
                                                         row_names, strict=True):
        at = _at(mesh.edges, mesh.fractions, margin.states)  # [M, nx, 2]
        for i in range(at.shape[1]):
            k = form.space.tangent_index[i] if form.tangent else i
            if k >= 0:
                _draw(bounds[0], bounds[1], columns[:, k], at[:, i])
        if np.any(margin.rows):
            prefix = f"{phase.name}: " if len(problem.phases) > 1 else ""
            own = {f"{prefix}{name}": i for i, name in enumerate(names)}
            found = [(row, own[head], mesh.located[place]) for row, (head, place) in enumerate(
                map(parts_of_name, nlp.constraints)) if head in own and place in mesh.located]
            if found:
                rows, which, s = (np.array(column) for column in zip(*found, strict=True))
                amounts = _at(mesh.edges, s, margin.rows)
                for i in np.unique(which):
                    _draw(bounds[2], bounds[3], rows[which == i], amounts[which == i, i])
    lower, upper, low, high = bounds
    return replace(program, nlp=replace(nlp, x_lower=lower, x_upper=upper, g_lower=low, g_upper=high))


def bounds_of(nlp: NLP) -> Bounds:
    """Bounds of variables and of constraints."""
    return nlp.x_lower, nlp.x_upper, nlp.g_lower, nlp.g_upper


def prices(solution: Solution, before: Bounds, meshes: Mapping[str, Mesh]) -> list[Array]:
    """The cost of tightening by phase and interval, to first order: multipliers times tightening. before: bounds as they were
    without it; meshes: by phase, "" of a single one."""
    found = solution.optimality
    costs = {name: np.zeros(len(mesh.widths)) for name, mesh in meshes.items()}
    with np.errstate(invalid="ignore"):  # no bound less no bound
        moved = [np.nan_to_num(np.abs(now - was), nan=0.0) for now, was in zip(bounds_of(found.nlp), before, strict=True)]
    for names, lam, low, high in ((found.nlp.variables, found.lam_x, *moved[:2]), (found.nlp.constraints, found.lam_g, *moved[2:])):
        own = np.abs(lam) * np.where(lam > 0, high, low)
        for i in np.flatnonzero(own):
            phase = "" if len(meshes) == 1 else phase_of(names[i])
            s = meshes[phase].located[parts_of_name(names[i])[1]]
            at = np.searchsorted(meshes[phase].edges, s - ROUNDING.coincident, side="right") - 1
            costs[phase][np.clip(at, 0, len(costs[phase]) - 1)] += own[i]
    return list(costs.values())


def _spread(amounts: Array) -> Array:
    """Amounts by interval, with a part of them in the intervals beside: a step in the tightening would distort the motion there."""
    found = amounts.copy()
    found[1:] = np.maximum(found[1:], TIGHTENING.beside * amounts[:-1])
    found[:-1] = np.maximum(found[:-1], TIGHTENING.beside * amounts[1:])
    return found


def _at(edges: Array, s: Array, by_interval: Array) -> Array:
    """Tightening at the fractions s: at an edge the larger of both sides."""
    last = len(edges) - 2
    left = np.clip(np.searchsorted(edges, s - ROUNDING.coincident, side="right") - 1, 0, last)
    right = np.clip(np.searchsorted(edges, s + ROUNDING.coincident, side="right") - 1, 0, last)
    return np.maximum(by_interval[left], by_interval[right])


def _draw(lower: Array, upper: Array, where: Array, amounts: Array) -> None:
    """Draw bounds in, in place, by at most a quarter of what lies between; what is fixed stays."""
    low, high = lower[where], upper[where]
    most = np.where(np.isfinite(high - low), 0.25 * (high - low), np.inf)
    lower[where] = low + np.minimum(amounts[:, 0], most)
    upper[where] = high - np.minimum(amounts[:, 1], most)
