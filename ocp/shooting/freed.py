"""Control bounds as rows of the augmented Lagrangian: the controls of a sweep are free, a clamped one keeps its feedback."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.problem import At, Constraint, Phase, Problem

NAME = "bound"


def freed(problem: Problem) -> Problem:
    """The same problem with the bounds of its controls as hard path constraints."""
    return replace(problem, phases=tuple(_freed(phase) for phase in problem.phases))


def _freed(phase: Phase) -> Phase:
    system = phase.system
    bounded = np.flatnonzero(np.isfinite(phase.u_lower) | np.isfinite(phase.u_upper)).tolist()
    if not bounded:
        return phase
    t, x, u, p = (ca.SX.sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True))
    rows = tuple(Constraint(f"{NAME} {system.controls[i]}", At.PATH, ca.Function("bound", [t, x, u, p], [u[i]]),
                            (phase.u_lower[i],), (phase.u_upper[i],)) for i in bounded)
    return replace(phase, u_lower=(), u_upper=(), constraints=(*phase.constraints, *rows))
