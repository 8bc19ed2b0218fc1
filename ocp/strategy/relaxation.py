"""The relaxed problem, whose control may have two values at once, as the limit of controls that switch ever faster.
If velocities and costs of all controls together form no convex set, motions that switch ever faster between two controls approach
any mean of the two, and the infimum need not be attained. The relaxed problem contains these means: its rates and costs are ``r
f(u1) + (1 - r) f(u2)`` with a share r in [0, 1]. Its objective can be approached arbitrarily closely (relaxation theorem:
Gamkrelidze 1978, Principles of optimal control theory, chapter 8), so that a solution of higher cost is no minimum.

"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.interrupts import Activity, time_is_up
from ocp.problem import SOLVED, At, Bounds, Constraint, Cost, Finding, Guess, Kind, Phase, Problem, Trajectory
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import ANSWERS, DIAGNOSES, MESH_CHANGE, SWITCHES
from ocp.transcription.refine.plan import UNIFORM
from ocp.transcription.refine.smooth import linear_controls


def switches_fast(search: Search, state: State) -> Finding | None:
    """Diagnosis: controls chatter, and the problem can be relaxed."""
    solution = state.last.solution
    if time_is_up(Activity.SOLVING) or not all(map(_relaxable, search.problem.phases)):
        return None
    turns = sum(map(_reversals, solution.parts or (solution.trajectory,)))
    often = turns > ANSWERS.windows // 2
    return Finding(Kind.CONTROLS_SWITCH_FAST, value=solution.objective, data={"turns": turns}) if often else None


def relax(search: Search, state: State, why: Finding) -> State | None:
    """The end of the search if the relaxed problem has a lower objective; None otherwise."""
    from ocp.strategy.loop import searched

    solution = state.last.solution
    relaxed = relaxed_problem(search.problem, solution.parts or (solution.trajectory,))
    found = searched(*search.method.restarted(search, relaxed, refine="none", mesh=UNIFORM, intervals=MESH_CHANGE.many_intervals))
    if found.status not in SOLVED:
        return None
    size = max(abs(found.objective), abs(solution.objective))
    mixed = any(np.mean((part.u[:, -1] > SWITCHES.close) & (part.u[:, -1] < 1 - SWITCHES.close)) > DIAGNOSES.max_rel_difference
                for part in found.parts or (found.trajectory,))
    if not mixed or not found.objective < solution.objective - DIAGNOSES.max_rel_difference * size:
        return None
    return state.ended(Finding(Kind.RELAXED_IS_LOWER, value=found.objective, data={"objective": solution.objective}))


def _relaxable(phase: Phase) -> bool:
    """Whether the relaxed problem can be formulated and differs from the original, in which controls do not all enter linearly."""
    system = phase.system
    if linear_controls(phase, together=True).all():
        return False
    return system.model is None and system.residual is None and system.period is None and system.nu > 0 and not any(
        c.soft is not None for c in phase.constraints)


def _reversals(part: Trajectory) -> int:
    """Number of jumps of the controls across the middle of their ranges, by at least half of these, from one point to the next."""
    u, half = part.u - (part.u.max(axis=0) + part.u.min(axis=0)) / 2, np.ptp(part.u, axis=0) / 2
    return int(np.sum((u[1:] * u[:-1] < 0) & (np.abs(np.diff(u, axis=0)) >= half)))


def relaxed_problem(problem: Problem, parts: tuple[Trajectory, ...]) -> Problem:
    """The relaxed problem, from the extremes of the controls of a motion."""
    return replace(problem, phases=tuple(_relaxed(phase, part) for phase, part in zip(problem.phases, parts, strict=True)))


def _relaxed(phase: Phase, part: Trajectory) -> Phase:
    system = phase.system
    nu, bounds = system.nu, phase.control_bounds
    sizes = (1, system.nx, 2 * nu + 1, system.np)
    t, x, w, p = arguments = [ca.MX.sym(name, size) for name, size in zip("txwp", sizes, strict=True)]
    one, two, share = w[:nu], w[nu:2 * nu], w[2 * nu]

    def made(value: ca.MX) -> ca.Function:
        """A function of the relaxed problem from one of the original."""
        return ca.Function("relaxed", arguments, [value], list("txup"), ["value"])

    def mean(of: ca.Function) -> ca.Function:
        """The weighted mean of a function at the two controls."""
        return made(share * of(t, x, one, p) + (1 - share) * of(t, x, two, p))

    def at_end(of: ca.Function) -> ca.Function:
        """A function at the end of the phase, where there are no controls."""
        return made(of(t, x, one, p))

    costs = tuple(Cost(c.name, c.at, mean(_scalar(c, system.nx, nu, system.np))) if c.at is At.PATH
                  else replace(c, function=at_end(c.function)) for c in phase.costs)
    constraints: list[Constraint] = []
    for c in phase.constraints:
        if c.at is At.PATH and c.function.jac_sparsity(0, 2).nnz():
            constraints += [replace(c, function=at_end(c.function)),
                            replace(c, name=f"{c.name} (other value)", function=made(c.function(t, x, two, p)))]
        else:
            constraints.append(replace(c, function=mean(c.function) if c.at is At.INTEGRAL else at_end(c.function)))
    names = (*system.controls, *(f"{name} (other value)" for name in system.controls), "share")
    s = (np.asarray(part.t) - part.t[0]) / (part.t[-1] - part.t[0])
    return phase.with_bounds(
        controls=Bounds.of([*bounds.pairs(), *bounds.pairs(), (0.0, 1.0)]), system=system.with_controls(names, mean(system.rate)),
        costs=costs, constraints=tuple(constraints), guess=Guess(s, np.asarray(part.x), _extremes(part, s)))


def _scalar(cost: Cost, nx: int, nu: int, np_: int) -> ca.Function:
    given = [ca.MX.sym(name, size) for name, size in zip("txup", (1, nx, nu, np_), strict=True)]
    return ca.Function("cost", given, [cost.expression(*given)])


def _extremes(part: Trajectory, s: np.ndarray) -> np.ndarray:
    """(u1, u2, share) at fractions s: the two most distant controls in a window, and the share of the first."""
    at = (np.asarray(part.t_u) - part.t[0]) / (part.t[-1] - part.t[0])
    centred = part.u - part.u.mean(axis=0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    found = []
    for here in s:
        near = np.flatnonzero(np.abs(at - here) <= max(1 / ANSWERS.windows, float(np.min(np.abs(at - here)))))
        high, low = near[np.argmax(along[near])], near[np.argmin(along[near])]
        span = along[high] - along[low]
        share = float((along[near].mean() - along[low]) / span) if span > 0 else 0.5
        found.append(np.concatenate([part.u[high], part.u[low], [share]]))
    return np.array(found)
