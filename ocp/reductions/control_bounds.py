"""Control bounds as path constraints: the controls of a sweep are free, and an active one keeps its feedback."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.problem import At, Bounds, Constraint, Phase, Problem, Solution
from ocp.reductions.chain import Reduction

NAME = "bound"
#: value of the option ``control_bounds`` that asks for it
ROWS = "rows"


class ControlBounds(Reduction):
    """Finite bounds of controls become hard path constraints. Inverse data: the phases with their bounds."""

    name = "control_bounds"
    drops_conditions = True

    def needed(self, options: Any) -> bool:
        """Whether these options ask for bounds as constraints."""
        return getattr(options, "control_bounds", "") == ROWS

    def apply(self, problem: Problem) -> tuple[Problem, tuple[Phase, ...]]:
        """The problem with control bounds as constraints, and the data for ``invert``."""
        if not _bounded(problem):
            return problem, ()
        return replace(problem, phases=tuple(_freed(phase) for phase in problem.phases)), problem.phases

    def invert(self, solution: Solution, data: tuple[Phase, ...]) -> Solution:
        """The solution of the original problem."""
        phases = tuple(
            phase.with_bounds(controls=bounded.control_bounds, constraints=bounded.constraints)
            for phase, bounded in zip(solution.problem.phases, data, strict=True))
        return replace(solution, problem=replace(solution.problem, phases=phases))


def require_rows(problem: Problem, options: Any) -> None:
    """Raise ProblemError where options ask for bounds as constraints and the problem still has bounds."""
    if getattr(options, "control_bounds", "") == ROWS and _bounded(problem):
        raise ProblemError("asks for a problem whose control bounds are constraints: solve it by ocp.methods.solve, or reduce it "
                           "first", where="control_bounds")


def _bounded(problem: Problem) -> bool:
    return any(phase.control_bounds.bounded.any() for phase in problem.phases)


def _freed(phase: Phase) -> Phase:
    system = phase.system
    t, x, u, p = (ca.SX.sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True))
    rows = tuple(Constraint.within(f"{NAME} {system.controls[i]}", At.PATH, ca.Function("bound", [t, x, u, p], [u[i]]),
                                   phase.control_bounds[i]) for i in np.flatnonzero(phase.control_bounds.bounded).tolist())
    return phase.with_bounds(controls=Bounds.free(system.nu), constraints=(*phase.constraints, *rows))
