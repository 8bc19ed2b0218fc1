"""Algebraic equations as path constraints.

    xi = rate(t, x, (u, z), p)        0 = residual(t, x, (u, z), p)

The unknowns z are inputs like controls, and the equations a path constraint that holds wherever inputs are unknowns. A collocation
scheme then has F = 0 at its points, with the derivative of its polynomial in the place of xi. The equations must be of index 1:
d residual / dz is regular.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.guesses.sampling import INTERVALS, sample_guess
from ocp.problem import At, Constraint, Guess, Phase, Problem, Sense, Solution
from ocp.reductions.algebraic_index import check_index, residual_and_jacobian
from ocp.reductions.chain import Reduction
from ocp.thresholds import FORMULATION

#: name of the path constraint that holds the equations
EQUATIONS = "equations"


class AlgebraicEquations(Reduction):
    """Makes the equations of systems path constraints, and the guess consistent if Newton's method converges. Inverse data: the
    phases concerned."""

    name = "algebraic_equations"

    def apply(self, problem: Problem) -> tuple[Problem, tuple[bool, ...]]:
        """The problem with its algebraic equations as path constraints, and the data for ``invert``."""
        phases = tuple(_with_path_equations(phase) for phase in problem.phases)
        new = tuple(a is not b for a, b in zip(phases, problem.phases, strict=True))
        return replace(problem, phases=phases) if any(new) else problem, new

    def invert(self, solution: Solution, data: tuple[bool, ...]) -> Solution:
        """The solution of the original problem."""
        phases = tuple(_without_equations(phase) if new else phase
                       for phase, new in zip(solution.problem.phases, data, strict=True))
        return replace(solution, problem=replace(solution.problem, phases=phases))


def state_equations(problem: Problem) -> Problem:
    """The problem with the equations of its systems as path constraints; unchanged if there are none, or if they are already.
    Raises ProblemError if the equations do not determine the unknowns."""
    return AlgebraicEquations().apply(problem)[0]


def with_equations(phase: Phase) -> Phase:
    """The phase with the equations of its system as a path constraint, and the guess that it has."""
    system = phase.system
    if system.residual is None or states_equations(phase):
        return phase
    none = (0.0,) * len(system.algebraic)
    equations = Constraint(EQUATIONS, At.PATH, system.residual, none, none, Sense.EQUAL, labels=system.equations)
    return replace(phase, constraints=(*phase.constraints, equations))


def states_equations(phase: Phase) -> bool:
    """Whether the equations of the system of a phase are among its constraints."""
    return any(c.function is phase.system.residual for c in phase.constraints)


def require_equations(problem: Problem) -> None:
    """Raise ProblemError for a problem whose algebraic equations are no constraints yet, which a program would ignore."""
    for phase in problem.phases:
        if phase.system.residual is not None and not states_equations(phase):
            raise ProblemError("has algebraic equations that are no constraints yet: solve it by ocp.methods.solve, or "
                               "reduce it first", where=f"phase {phase.name!r}")


def _with_path_equations(phase: Phase) -> Phase:
    if phase.system.residual is None or states_equations(phase):
        return phase
    guess = consistent(phase)
    check_index(replace(phase, guess=guess))
    return replace(with_equations(phase), guess=guess)


def _without_equations(phase: Phase) -> Phase:
    return replace(phase, constraints=tuple(c for c in phase.constraints if c.function is not phase.system.residual))


def consistent(phase: Phase) -> Guess:
    """The guess with unknowns that solve the equations; unchanged if Newton's method does not converge."""
    system, count = phase.system, len(phase.system.controls)
    s = np.union1d(np.linspace(0.0, 1.0, INTERVALS + 1), phase.guess.s)
    x, u = sample_guess(phase.guess, system.space, s)
    p, F, u = np.array(system.parameter_values), residual_and_jacobian(system), u.copy()
    for k, r in enumerate(s):
        t = r * phase.duration.guess
        tries = (u[k, count:], u[k - 1, count:]) if k else (u[k, count:],)
        for start in tries:
            found = _newton(F, t, x[k], u[k, :count], start, p)
            if found is not None:
                u[k, count:] = found
                break
    return Guess(s, x, u)


def _newton(F: ca.Function, t: float, x: np.ndarray, u: np.ndarray, z: np.ndarray, p: np.ndarray) -> np.ndarray | None:
    """A zero z [nz], by damped steps; None where they do not end at one."""
    value, J = (np.asarray(part) for part in F(t, x, u, z, p))
    for _ in range(FORMULATION.max_newton_steps):
        value = value.ravel()
        if not (np.all(np.isfinite(value)) and np.all(np.isfinite(J))):
            return None
        if np.max(np.abs(value), initial=0.0) <= FORMULATION.max_residual * (1.0 + np.max(np.abs(J) @ np.abs(z), initial=0.0)):
            return np.asarray(z)
        step = np.linalg.lstsq(J, -value, rcond=None)[0]
        for halving in range(FORMULATION.max_halvings):
            trial = z + step / 2**halving
            after, gradient = (np.asarray(part) for part in F(t, x, u, trial, p))
            if np.linalg.norm(after) < np.linalg.norm(value):
                break
        else:
            return None
        z, value, J = trial, after, gradient
    return None
