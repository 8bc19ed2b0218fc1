"""How well a program is posed at a point: what is violated and active, the scales of its derivatives, what nothing holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ocp.explain.groups import base
from ocp.nlp import NLP, worst_violations
from ocp.problem import At, Problem
from ocp.thresholds import EXPLANATION


@dataclass(frozen=True)
class Extreme:
    """A named row or column of the Jacobian and its norm."""

    name: str
    norm: float


@dataclass(frozen=True)
class Conditioning:
    """A program at a point.

    worst: (name, violation) of the largest violations; active: (name, knots) of bounds and inequalities that are touched
    rows, columns: (largest, smallest) norms of the Jacobian, zero ones left out; spread: their quotient for rows and columns
    empty_rows: constraints that no variable moves to first order; idle: variables that neither cost nor constraints depend on
    gradient: (name, entry) of the largest entry of the gradient of the cost
    """

    worst: tuple[tuple[str, float], ...]
    active: tuple[tuple[str, int], ...]
    rows: tuple[Extreme, Extreme] | None
    columns: tuple[Extreme, Extreme] | None
    empty_rows: tuple[str, ...]
    idle: tuple[str, ...]
    gradient: tuple[str, float] | None

    @property
    def spread(self) -> tuple[float, float]:
        """Largest over smallest norm of rows and of columns."""
        return tuple(pair[0].norm / pair[1].norm if pair else 1.0 for pair in (self.rows, self.columns))  # type: ignore[return-value]


def condition(nlp: NLP, x: np.ndarray, worst: int = 6) -> Conditioning:
    """Look at a program at x [n]."""
    g, jacobian = nlp.jac(x)
    g, gradient = g.full().ravel(), nlp.grad(x)[1].full().ravel()
    row, column = (np.array(i, dtype=int) for i in jacobian.sparsity().get_triplet())
    entries = np.nan_to_num(np.array(jacobian.nonzeros(), dtype=float), nan=0.0, posinf=0.0, neginf=0.0)
    free = nlp.x_lower < nlp.x_upper
    live = free[column]  # a fixed variable moves nothing
    norms_r, norms_c = np.zeros(nlp.m), np.zeros(nlp.n)
    np.add.at(norms_r, row[live], entries[live] ** 2)
    np.add.at(norms_c, column[live], entries[live] ** 2)
    norms_r, norms_c = np.sqrt(norms_r), np.sqrt(norms_c)
    touched = np.flatnonzero(free & (np.minimum(x - nlp.x_lower, nlp.x_upper - x) <= 1e-6 * np.maximum(1.0, np.abs(x))))
    tight = np.flatnonzero((nlp.g_lower < nlp.g_upper)
                           & (np.minimum(g - nlp.g_lower, nlp.g_upper - g) <= 1e-6 * np.maximum(1.0, np.abs(g))))
    active: dict[str, int] = {}
    for name in (*(f"bound of {nlp.variables[i]}" for i in touched), *(nlp.constraints[i] for i in tight)):
        active[base(name)] = active.get(base(name), 0) + 1
    idle = np.flatnonzero(free & (norms_c == 0) & (np.nan_to_num(gradient) == 0))
    largest = int(np.argmax(np.abs(np.nan_to_num(gradient)))) if nlp.n else 0
    return Conditioning(
        worst=worst_violations(nlp, x, worst), active=tuple(sorted(active.items(), key=lambda item: -item[1])),
        rows=_extremes(norms_r, nlp.constraints), columns=_extremes(norms_c, nlp.variables),
        empty_rows=tuple(nlp.constraints[i] for i in np.flatnonzero(norms_r == 0)), idle=tuple(nlp.variables[i] for i in idle),
        gradient=(nlp.variables[largest], float(gradient[largest])) if nlp.n else None,
    )


def _extremes(norms: np.ndarray, names: Sequence[str]) -> tuple[Extreme, Extreme] | None:
    found = np.flatnonzero(norms > 0)
    if not len(found):
        return None
    high, low = int(found[np.argmax(norms[found])]), int(found[np.argmin(norms[found])])
    return Extreme(names[high], float(norms[high])), Extreme(names[low], float(norms[low]))


def unbounded_hints(problem: Problem, nlp: NLP, x: np.ndarray, falling: bool = False) -> tuple[str, ...]:
    """Sentences about what may run away: variables far out without a bound on that side, and controls that cost nothing.

    falling: whether the objective is known to fall without bound.
    """
    found = []
    far: dict[str, float] = {}
    large = EXPLANATION.runaway_falling if falling else EXPLANATION.runaway
    for name, value, lower, upper in zip(nlp.variables, x, nlp.x_lower, nlp.x_upper, strict=True):
        if abs(value) >= large and np.isinf(upper if value > 0 else lower):
            far[base(name)] = max(far.get(base(name), 0.0), abs(float(value)))
    for name, value in sorted(far.items(), key=lambda item: -item[1]):
        found.append(f"{name} has grown to {value:.2g} and has no bound there; give it one")
    for phase in problem.phases:
        before = f"phase {phase.name}: " if len(problem.phases) > 1 else ""
        functions = [cost.function for cost in phase.costs if cost.at is At.PATH]
        functions += [c.function for c in phase.constraints if c.at is At.PATH]
        used = {i for function in functions for i in function.jac_sparsity(0, 2).get_col()}
        for i, name in enumerate(phase.system.inputs):
            if not phase.control_bounds.two_sided[i] and i not in used:
                found.append(f"{before}control {name} costs nothing, and no bound or constraint holds it on both sides; "
                             "a small cost or a bound makes it definite")
        if phase.duration.free and np.isinf(phase.duration.upper) and not phase.costs:
            found.append(f"{before}the duration has no upper end and there is no cost")
    return tuple(found)
