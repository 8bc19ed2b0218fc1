"""Accelerations and forces of constraints as unknowns, where they stand in costs and constraints of forward dynamics.

    xi = (v, a(x, u)),  c(x, u, lambda(x, u))     becomes     xi = (v, a),  c(x, u, lambda),  0 = equations of motion

At the points of a scheme both have the same solutions. A cone of friction is eight operations of lambda and sixty thousand of
(x, u): differentiating it through the dynamics takes longer than everything else (lifted Newton methods: Albersmeyer and Diehl
2010, SIAM Journal on Optimization 20(3)).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.derivatives.inner import split
from ocp.bridge import inner, residual_dynamics_system
from ocp.problem import At, Bounds, Phase, Problem, Solution, Trajectory
from ocp.reductions.chain import Reduction, in_given_phases


class LiftedForces(Reduction):
    """For programs that have unknowns for what equations determine. Inverse data: the phases that were in forward dynamics, None
    for others."""

    name = "lifted_forces"
    keeps_controls = False  # multipliers are those of the equations, too

    def needed(self, options: Any) -> bool:
        return getattr(options, "keeps_algebraic_unknowns", False) and getattr(options, "execution", "") != "loops"

    def apply(self, problem: Problem) -> tuple[Problem, tuple[Phase | None, ...]]:
        phases = tuple(_lifted(phase) for phase in problem.phases)
        changed = tuple(None if new is old else old for new, old in zip(phases, problem.phases, strict=True))
        return (problem, changed) if phases == problem.phases else (replace(problem, phases=phases), changed)

    def invert(self, solution: Solution, data: tuple[Phase | None, ...]) -> Solution:
        return in_given_phases(solution, data, _original)


def _lifted(phase: Phase) -> Phase:
    system = phase.system
    known = None if system.mechanism is None or not system.mechanism.constraints or system.period is not None else inner(system)
    if known is None:
        return phase
    items: tuple[Any, ...] = (*phase.costs, *phase.constraints)
    rests = {id(item): split(item.function, known.sought) for item in items if item.at in (At.PATH, At.INTEGRAL)}
    if not any(rests.values()):
        return phase
    parameters = dict(zip(system.parameters, system.parameter_values, strict=True))
    wide = residual_dynamics_system(system.mechanism, parameters=parameters)

    def active(item: Any) -> Any:
        function, rest = item.function, rests.get(id(item))
        sym = ca.SX.sym if function.is_a("SXFunction") else ca.MX.sym
        t, x, w, p = given = [sym(name, size) for name, size in zip("txup", (1, wide.nx, wide.nu, wide.np), strict=True)]
        u, k = w[:system.nu], w[system.nu:]
        value = function(t, x, u, p) if rest is None else rest(t, x, u, p, k)
        return replace(item, function=ca.Function(function.name(), given, [value], list("txup"), function.name_out()))

    u = np.hstack([phase.guess.u, np.zeros((len(phase.guess.u), known.count))])  # made consistent with the equations later
    return phase.with_bounds(
        controls=phase.control_bounds.joined(Bounds.free(known.count)), system=replace(wide, constraints=()),
        costs=tuple(map(active, phase.costs)), constraints=tuple(map(active, phase.constraints)), guess=replace(phase.guess, u=u))


def _original(original: Phase, phase: Phase, path: Trajectory) -> tuple[Phase, Trajectory]:
    """The phase that was lifted, with what was found, and the trajectory with its own controls alone."""
    system, nu = replace(original.system, parameter_values=phase.system.parameter_values), original.system.nu
    return (replace(original, system=system, duration=phase.duration),
            replace(path, u=path.u[:, :nu], control=lambda t: np.asarray(path.control(t))[..., :nu]))
