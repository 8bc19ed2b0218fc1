"""The discrete problem of shooting once more in plain NumPy, from the functions of the phases alone: no stages, no engine.

Steps and quadrature nodes come from ``ocp.integrators``, whose order and group structure have tests of their own; durations and
parameters are numbers here, as a user would put them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.integrators import INTEGRATORS
from ocp.problem import At, Problem


def flat(value):
    return np.asarray(value, dtype=float).ravel()


_MADE: dict = {}  # functions of a system; the system stays alive beside them, so that its id is its own


def _advance(system, integrator):
    key = id(system), integrator
    if key not in _MADE:
        _MADE[key] = system, *_make(system, integrator)
    return _MADE[key][1:]


def _make(system, integrator):
    t, h = ca.SX.sym("t"), ca.SX.sym("h")
    x, u, p = ca.SX.sym("x", system.nx), ca.SX.sym("u", system.nu), ca.SX.sym("p", system.np)
    after, nodes = INTEGRATORS[integrator].advance(system, t, x, u, p, h)
    return (ca.Function("advance", [t, x, u, p, h], [after, *(part for _, *node in nodes for part in node)]),
            [weight for weight, *_ in nodes])


def advance(system, integrator, t, x, u, p, h):
    """(state after a step, [(weight, time, state) of the quadrature])."""
    function, weights = _advance(system, integrator)
    after, *parts = function(t, x, u, p, h)
    times, states = parts[::2], parts[1::2]
    return flat(after), [(w, float(s), flat(y)) for w, s, y in zip(weights, times, states, strict=True)]


def total(phase, at, t, x, u, p):
    """Sum of the costs of a phase that apply there, weights written out."""
    value = 0.0
    for cost in phase.costs:
        if cost.at is at:
            found = flat(cost.function(t, x, u, p))
            value += found[0] if cost.weights is None else 0.5 * np.array(cost.weights) @ found**2
    return float(value)


def step(phase, integrator, rectangle, t, x, u, p, h):
    """(state after, running cost) of one step [s] of a phase."""
    after, nodes = advance(phase.system, integrator, t, x, u, p, h)
    nodes = [(1.0, t, x)] if rectangle else nodes
    return after, h * sum(w * total(phase, At.PATH, s, y, u, p) for w, s, y in nodes)


@dataclass(frozen=True)
class Motion:
    """What a rollout gives: cost, and by phase its knot times [N+1] and states [N+1, nx]."""

    cost: float
    t: tuple[np.ndarray, ...]
    x: tuple[np.ndarray, ...]


def rollout(problem: Problem, start: Sequence[float], controls: Sequence[np.ndarray], durations: Sequence[float] = (),
            parameters: Mapping[str, float] | None = None, integrator="rk4", rectangle=False) -> Motion:
    """Follow controls [N, nu] of every phase from a start state. durations [phases]: those of the problem if none are given."""
    durations = durations or [phase.duration.guess for phase in problem.phases]
    cost, t, x, times, states = 0.0, 0.0, np.asarray(start, float), [], []
    for i, (phase, u, d) in enumerate(zip(problem.phases, controls, durations, strict=True)):
        system = phase.system
        p = np.array([(parameters or {}).get(n, v) for n, v in zip(system.parameters, system.parameter_values, strict=True)])
        nothing, h = np.zeros(system.nu), d / len(u)
        if i and phase.reset is not None:
            x = flat(phase.reset(x, p))
        cost += total(phase, At.START, t, x, nothing, p)
        found = [x]
        for k, control in enumerate(u):
            x, part = step(phase, integrator, rectangle, t + k * h, x, control, p, h)
            cost += part
            found.append(x)
        times.append(t + h * np.arange(len(u) + 1))
        states.append(np.array(found))
        t += d
        cost += total(phase, At.FINAL, t, x, nothing, p)
    return Motion(cost, tuple(times), tuple(states))


def chosen_constants(solution):
    """Free durations and parameters by name, all digits."""
    data = solution.optimality
    leg, names = data.horizon.legs[0], data.horizon.constants.names
    nx = leg.stretch.phase.system.nx
    return dict(zip(names, data.x[leg.first, nx:nx + len(names)].tolist(), strict=True))


def of_solution(solution, **changes):
    """The rollout of the controls of a solution, with its durations and parameters unless ``changes`` says otherwise."""
    problem, options = solution.problem, solution.options
    parts = solution.parts or (solution.trajectory,)
    chosen = chosen_constants(solution)
    given = {"start": parts[0].x[0], "controls": [part.u for part in parts],
             "durations": [part.t[-1] - part.t[0] for part in parts],
             "parameters": chosen,
             "integrator": options["integrator"], "rectangle": options["cost_quadrature"] == "rectangle"}
    return rollout(problem, **(given | changes))
