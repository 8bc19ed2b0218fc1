"""The same problem in other units: every function of a Problem wrapped so that states, time, controls, constraints and costs are
numbers of another size. What an optimum is does not change by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.problem import At, Boundary, Constraint, Cost, Duration, Guess, Phase, Problem, Sense
from ocp.spaces import euclidean


@dataclass(frozen=True)
class Units:
    """Numbers in the new units over numbers in the old ones: of lengths, times, forces, and of the cost and of rows of constraints.
    plain: of a state or control whose unit the file leaves out."""

    length: float = 1.0
    time: float = 1.0
    force: float = 1.0
    cost: float = 1.0
    rows: float = 1.0
    plain: float = 1.0

    @property
    def of_motion(self) -> bool:
        """Whether states, controls or times change their numbers."""
        return (self.length, self.time, self.force, self.plain) != (1.0,) * 4

    def of(self, unit: str) -> float:
        """Factor of a unit such as "m/s**2"; what is neither metre, second nor newton keeps its size."""
        if not unit:
            return self.plain
        factor, sizes = 1.0, {"m": self.length, "s": self.time, "N": self.force}
        for sign, name, power in re.findall(r"([*/]?)\b([A-Za-z]+)\b(?:\*\*(\d+))?", unit):
            factor *= sizes.get(name, 1.0) ** ((-1 if sign == "/" else 1) * int(power or 1))
        return factor


def rescaled(problem: Problem, units: Units) -> Problem:
    """The problem in these units. Raises ValueError for other units than of cost and rows where states are not a vector space."""
    if units.of_motion and not all(phase.system.space.is_vector_space for phase in problem.phases):
        raise ValueError("only vector spaces have units that can be changed component by component")
    phases = tuple(_phase(phase, units, problem.phases[i - 1] if i else None) for i, phase in enumerate(problem.phases))
    linkages = []
    for link in problem.linkages:
        if not units.of_motion:
            linkages.append(link)
            continue
        ends = [ca.SX.sym("x", problem.phases[i].system.nx) for i, _ in link.ends]
        T, p = ca.SX.sym("T", len(problem.phases)), ca.SX.sym("p", len(link.parameters))
        inside = [x / state_factors(problem.phases[i], units) for x, (i, _) in zip(ends, link.ends, strict=True)]
        linkages.append(replace(link, function=ca.Function("linkage", [*ends, T, p], [link.function(*inside, T / units.time, p)])))
    reference = problem.reference and replace(problem.reference, objective=problem.reference.objective * units.cost)
    return replace(problem, phases=phases, linkages=tuple(linkages), reference=reference)


def state_factors(phase: Phase, units: Units) -> np.ndarray:
    return np.array([units.of(phase.system.units.get(name, "")) for name in phase.system.space.names])


def control_factors(phase: Phase, units: Units) -> np.ndarray:
    """Of all inputs, algebraic unknowns behind the controls."""
    return np.array([units.of(phase.system.units.get(name, "")) for name in (*phase.system.controls, *phase.system.algebraic)])


def _phase(phase: Phase, units: Units, before: Phase | None) -> Phase:
    system, sx, su, st = phase.system, state_factors(phase, units), control_factors(phase, units), units.time

    def inside(function: ca.Function, factor) -> ca.Function:
        """The function in the new units, its value times ``factor``."""
        kind = ca.SX if function.is_a("SXFunction") else ca.MX
        x = [kind.sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]
        value = function(x[0] / st, x[1] / sx, x[2] / su, x[3]) if units.of_motion else function(*x)
        return ca.Function(function.name(), x, [ca.densify(factor * value)], list("txup"), ["y"])

    def cost(item: Cost) -> Cost:
        factor = units.cost / (st if item.at is At.PATH else 1.0)
        if item.weights is None:
            return replace(item, function=inside(item.function, factor))
        return replace(item, function=inside(item.function, 1.0), weights=tuple(w * factor for w in item.weights))

    residual = inside(system.residual, units.rows) if system.residual and units.of_motion else system.residual

    def constraint(item: Constraint) -> Constraint:
        if item.function is system.residual:
            return replace(item, function=residual)  # equations of algebraic unknowns, stated already
        factor = units.rows / (st if item.at is At.INTEGRAL else 1.0)
        soft = None if item.soft is None else item.soft * units.cost / units.rows**2 / (st if item.at is At.PATH else 1.0)
        bounds = {} if item.sense is Sense.CONE else {side: tuple(x * units.rows for x in getattr(item, side))
                                                     for side in ("lower", "upper")}
        return replace(item, function=inside(item.function, factor), soft=soft, **bounds)

    def boundary(item: Boundary | None) -> Boundary | None:
        return item and replace(item, value=tuple(np.array(item.value) * sx))

    costs, constraints = tuple(map(cost, phase.costs)), tuple(map(constraint, phase.constraints))
    if not units.of_motion:
        return replace(phase, costs=costs, constraints=constraints)
    changed = replace(
        system, space=euclidean(system.space.names), rate=inside(system.rate, sx / st), residual=residual,
        period=system.period and system.period * st,
        energy=system.energy and inside(system.energy, units.cost), power=system.power and inside(system.power, units.cost / st))
    reset = None
    if phase.reset is not None and before is not None:
        x, p = ca.SX.sym("x", before.system.nx), ca.SX.sym("p", system.np)
        reset = ca.Function("reset", [x, p], [sx * phase.reset(x / state_factors(before, units), p)])
    duration = Duration(*(x * st for x in (phase.duration.lower, phase.duration.upper, phase.duration.guess)))
    return replace(
        phase, system=changed, duration=duration, guess=Guess(phase.guess.s, phase.guess.x * sx, phase.guess.u * su),
        start=boundary(phase.start), final=boundary(phase.final), reset=reset,
        x_lower=tuple(np.array(phase.x_lower) * sx), x_upper=tuple(np.array(phase.x_upper) * sx),
        u_lower=tuple(np.array(phase.u_lower) * su), u_upper=tuple(np.array(phase.u_upper) * su),
        costs=costs, constraints=constraints)
