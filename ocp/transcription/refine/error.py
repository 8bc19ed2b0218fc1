"""How far a collocation solution is from the trajectory it stands for, interval by interval, from the solution alone.

In an interval the scheme's state polynomial x(r) obeys the dynamics at the collocated nodes only. Re-integrated along itself by a
rule of Gauss with more points,

    xhat(r) = x(0) + h int_0^r f(x, clip(u)) ds

it is exact up to the defect between nodes; ``|xhat - x|`` over 1 + the largest size of that state in the phase is the error
(Patterson, Hager, Rao 2015, A ph mesh refinement method for optimal control, Optimal Control Applications and Methods 36(4)).
Controls are clipped to their bounds: a polynomial that overshoots between nodes stands for no motion of the system. Beside it
count, in the same relative measure, path constraints and bounds of states that are broken between nodes, integral constraints by
quadrature, and what the controls' polynomials are too low to show: the state moved by their last Legendre coefficient, made
smaller by as much as that is smaller than the one before. The last is no error of the motion, which obeys its controls exactly,
but a sign that these have a kink that the mesh does not.

The error of the objective is the Lagrangian's, with the same rule: ``int cost + p' (f - xdot)`` minus the cost that the program
summed, with costates p of the program (Becker and Rannacher 2001, An optimal control approach to a posteriori error estimation
in finite element methods, Acta Numerica 10: the residual weighted by the dual).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ocp.problem import Finding, Kind, Problem, Solution
from ocp.transcription.charts import Form
from ocp.transcription.mesh import Mesh
from ocp.transcription.refine.finer_rule import Found, Inputs, PhaseFunctions

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PhaseErrors:
    """Errors of the intervals of one phase, all relative.

    state [N]: of the states; control [N]: of the states, by what polynomials of that degree do not show of the controls; path [N]:
        constraints broken between nodes, those on controls as a mean over their share of the phase; integral [N]: quadrature of
        integral constraints
    accumulated: errors at the ends of intervals added up over the phase, or the largest inside one: what a user sees
    decay [N]: digits by which Legendre coefficients of the rates fall from one degree to the next; smooth where large
    clipped [N]: whether a control overshoots its bounds between nodes
    worst [N]: name of the state or constraint with the largest error
    gap, defect [N]: what an end of an interval is off, and the integral of the defect, over the ranges of the states: estimates of
        what the certificate measures; cost [N]: what the program's quadrature misses of running costs
    """

    state: Array
    control: Array
    path: Array
    integral: Array
    accumulated: float
    decay: Array
    clipped: Array
    worst: tuple[str, ...]
    gap: Array = field(default_factory=lambda: np.zeros(0))
    defect: Array = field(default_factory=lambda: np.zeros(0))
    cost: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, found: Found) -> PhaseErrors:
        """The errors of one phase as a record."""
        whole = (np.max(found.ends, initial=0.0), np.max(found.state), np.max(found.control), np.max(found.path),
                 np.sum(found.integral))
        return cls(found.state, found.control, found.path, found.integral, float(max(whole)), found.decay, found.clipped,
                   tuple(found.worst), found.gap, found.defect, found.cost)

    @cached_property
    def total(self) -> Array:
        """The largest of the four [N]; NaN counts as infinite."""
        return np.nan_to_num(np.max([self.state, self.control, self.path, self.integral], axis=0), nan=np.inf)

    @property
    def of_motion(self) -> PhaseErrors:
        """The same without the errors of the controls' shape."""
        return replace(self, control=np.zeros_like(self.control))


@dataclass(frozen=True)
class Estimate:
    """Errors of all phases, and how much the true objective lies above the program's (costates weigh the defects)."""

    phases: tuple[PhaseErrors, ...]
    objective: float

    @property
    def largest(self) -> float:
        """The largest relative error of all phases."""
        return float(max(np.max(phase.total) for phase in self.phases))

    @property
    def accumulated(self) -> float:
        """The largest accumulated error of all phases."""
        return max(phase.accumulated for phase in self.phases)

    @property
    def motion(self) -> float:
        """The largest error but for that of the controls' own shape."""
        return float(np.nan_to_num(max(np.max([p.state, p.path, p.integral]) for p in self.phases), nan=np.inf))

    def finding(self, problem: Problem) -> Finding:
        """The largest error."""
        i = int(np.argmax([np.max(phase.total) for phase in self.phases]))
        k = int(np.argmax(self.phases[i].total))
        return Finding(Kind.MESH_ERROR, phase=problem.phases[i].name if len(self.phases) > 1 else "", name=self.phases[i].worst[k],
                       value=float(self.phases[i].total[k]), data={"interval": k})


class Estimator:
    """Error estimates of solutions of one problem: its functions are built once. inputs: by phase, of the motion between nodes
    (``finer_rule.PhaseFunctions``)."""

    def __init__(self, problem: Problem, forms: Sequence[Form], inputs: Sequence[Inputs | None] | None = None):
        self.problem = problem
        self.phases = [PhaseFunctions(*own) for own in zip(problem.phases, forms, inputs or [None] * len(forms), strict=True)]

    def estimate(self, solution: Solution, meshes: Sequence[Mesh], jumps: Sequence[frozenset[int]] = ()) -> Estimate:
        """The errors of a collocation solution on these meshes. jumps: by phase, edges (by number) where controls jump."""
        parts = solution.parts or (solution.trajectory,)
        several = len(parts) > 1
        found, objective = [], 0.0
        for own, phase, part, mesh, there in zip(self.phases, solution.problem.phases, parts, meshes,
                                                 jumps or [frozenset[int]()] * len(parts), strict=True):
            costate = solution.extra.get(f"{phase.name}.costate" if several else "costate")
            errors, change = own.errors(phase, part, mesh, costate, there)
            found.append(PhaseErrors.of(errors))
            objective += change
        return Estimate(tuple(found), objective)
