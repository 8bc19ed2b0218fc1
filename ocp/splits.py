"""Costs of the size of a control, ``abs(u)``, without their kink: u as the difference of two controls from zero on, its size their
sum.

At an optimum one of the two is zero wherever the size costs something, so that both problems have the same motions and the same
objective. Only sizes that a running cost is linear in, with a weight that is constant and positive, are written so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import At, Cost, Phase, Problem, Solution, System, Trajectory, join

#: what is added to the name of a control for its part below zero
BELOW = " (part below 0)"


def split(problem: Problem) -> Problem:
    """The problem with sizes of controls as sums; itself where it has none, and where systems are of a robot, in discrete time, or
    have algebraic unknowns."""
    phases = tuple(_split(phase) for phase in problem.phases)
    return problem if all(a is b for a, b in zip(phases, problem.phases, strict=True)) else replace(problem, phases=phases)


def _split(phase: Phase) -> Phase:
    system = phase.system
    if system.model is not None or system.residual is not None or system.period is not None or system.constraints:
        return phase
    chosen = sorted({i for cost in phase.costs for i in _sizes(cost) if phase.u_lower[i] < 0 < phase.u_upper[i]})
    if not chosen:
        return phase

    def plain(function: Any, sums: bool = False) -> Any:
        return None if function is None else _of_parts(function, system, chosen, sums)

    costs = tuple(replace(c, function=plain(c.function, c.at is At.PATH and c.weights is None)) for c in phase.costs)
    constraints = tuple(replace(c, function=plain(c.function)) for c in phase.constraints)
    low, u = np.array(phase.u_lower), phase.guess.u
    units = {system.controls[i] + BELOW: system.units.get(system.controls[i], "") for i in chosen}
    apart = replace(system, controls=(*system.controls, *(system.controls[i] + BELOW for i in chosen)), u_limits=(),
                    rate=plain(system.rate), energy=plain(system.energy), power=plain(system.power),
                    units={**system.units, **units})
    below, above = np.maximum(-u[:, chosen], 0.0), u.copy()
    above[:, chosen] = np.maximum(u[:, chosen], 0.0)
    lower = [0.0 if i in chosen else value for i, value in enumerate(low)]
    return replace(phase, system=apart, costs=costs, constraints=constraints, u_lower=(*lower, *(0.0 for _ in chosen)),
                   u_upper=(*phase.u_upper, *(-low[chosen]).tolist()), guess=replace(phase.guess, u=np.hstack([above, below])),
                   whole=phase)


def _sizes(cost: Cost) -> list[int]:
    """Controls whose size a running cost is linear in, with a constant positive weight."""
    if cost.at is not At.PATH or cost.weights is not None or not cost.function.is_a("SXFunction"):
        return []
    codes = {cost.function.instruction_id(k) for k in range(cost.function.n_instructions())}
    if ca.OP_FABS not in codes or ca.OP_CALL in codes:  # what a function inside gives has no expression
        return []
    _, sizes, value = _opened(cost.function)
    names = list(sizes)
    slopes = [ca.simplify(ca.jacobian(value, sizes[i])) for i in names]
    return [i for i, slope in zip(names, slopes, strict=True) if slope.is_constant() and float(slope) > 0]


def _opened(function: ca.Function) -> tuple[list[ca.SX], dict[int, ca.SX], ca.SX]:
    """(arguments, the sizes of controls as symbols by number, the value in both)."""
    arguments = function.sx_in()
    sizes: dict[int, ca.SX] = {}
    work: dict[int, ca.SX] = {}
    own: dict[int, int] = {}  # work variables that are a control
    outputs = ca.SX.zeros(function.sparsity_out(0))
    for k in range(function.n_instructions()):
        code, into, given = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if code == ca.OP_OUTPUT:
            outputs.nz[into[1]] = work[given[0]]
            continue
        at = own.get(given[0]) if code == ca.OP_FABS else None
        own.pop(into[0], None)
        if code == ca.OP_INPUT:
            work[into[0]] = arguments[given[0]].nz[given[1]]
            if given[0] == 2:
                own[into[0]] = given[1]
        elif code == ca.OP_CONST:
            work[into[0]] = ca.SX(function.instruction_constant(k))
        elif at is not None:
            work[into[0]] = sizes.setdefault(at, ca.SX.sym(f"size_{at}"))
        else:
            operands = [work[i] for i in given]
            work[into[0]] = ca.SX.unary(code, *operands) if len(operands) == 1 else ca.SX.binary(code, *operands)
    return arguments, sizes, outputs


def _of_parts(function: ca.Function, system: System, chosen: list[int], sums: bool) -> ca.Function:
    """A function of (t, x, u, p) as one of the parts of controls; sums: of a running cost, with the sizes that ``_sizes`` tells."""
    count, kind = len(system.controls), ca.SX if function.is_a("SXFunction") else ca.MX
    widths = (1, system.nx, count + len(chosen), system.np)
    t, x, w, p = arguments = [kind.sym(name, width) for name, width in zip("txup", widths, strict=True)]
    parts = [w[i] - w[count + chosen.index(i)] if i in chosen else w[i] for i in range(count)]
    u = ca.vertcat(*parts)
    value = function(t, x, u, p)
    linear = [i for i in _sizes(Cost("", At.PATH, function)) if i in chosen] if sums else []
    if linear:
        given, sizes, opened = _opened(function)
        known: Mapping[int, Any] = {i: w[i] + w[count + chosen.index(i)] if i in linear else ca.fabs(u[i]) for i in sizes}
        value = ca.Function("opened", [*given, *sizes.values()], [opened])(t, x, u, p, *known.values())
    return ca.Function(function.name(), arguments, [value], list("txup"), function.name_out())


def joined(solution: Solution) -> Solution:
    """The solution of a split problem as one of the problem itself; others as they are."""
    if all(phase.whole is None for phase in solution.problem.phases):
        return solution
    pairs = [_joined(*pair) for pair in zip(solution.problem.phases, solution.parts or (solution.trajectory,), strict=True)]
    parts, problem = tuple(path for _, path in pairs), replace(solution.problem, phases=tuple(phase for phase, _ in pairs))
    names = dict.fromkeys(name.removesuffix(BELOW) for phase in solution.problem.phases for name in phase.system.controls
                          if name.endswith(BELOW))
    told = f"{', '.join(names)}: solved as the difference of two controls from 0 on, whose sum is the size that costs"
    return replace(solution, problem=problem, trajectory=join(parts), parts=parts if solution.parts else (),
                   notes=solution.notes if solution.optimality is None else (*solution.notes, told))


def _joined(phase: Phase, path: Trajectory) -> tuple[Phase, Trajectory]:
    if phase.whole is None:
        return phase, path
    known = replace(phase.whole, duration=phase.duration,
                    system=replace(phase.whole.system, parameter_values=phase.system.parameter_values))
    controls = phase.system.controls
    join_up = np.eye(len(controls))[:, :len(known.system.controls)]
    for j, name in enumerate(controls[len(known.system.controls):], len(known.system.controls)):
        join_up[j, controls.index(name.removesuffix(BELOW))] = -1.0
    return known, replace(path, u=path.u @ join_up, control=lambda t: np.asarray(path.control(t)) @ join_up)
