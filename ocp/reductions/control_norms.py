"""Costs of absolute values and norms of controls as slack reformulations, which have no kink.

``abs(u)``: u as the difference of two nonnegative controls, its absolute value their sum. ``sqrt(u' Q u + c)``: a slack control s
from sqrt(c) on, with ``(u' Q u + c) / s <= s``, a cone whose gradient is not zero at its apex.

At an optimum one of the two parts is zero and s is the root wherever the norm costs something, so that both problems have the same
motions and the same objective (Acikmese, Ploen 2007, "Convex programming approach to powered descent guidance for Mars landing").
Only norms that a running cost is linear in, with a weight that is constant and positive, are written so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.problem import INF, At, Bounds, Constraint, Cost, Finding, Kind, Phase, Problem, Solution, System, Trajectory, join
from ocp.reductions.chain import Reduction
from ocp.reductions.norms_in_costs import Norm, magnitude, opened, weights_of_norms
from ocp.thresholds import FORMULATION, GUESSES

#: what is added to the name of a control for its negative part
NEGATIVE_PART = " (negative part)"


@dataclass(frozen=True)
class Slacks:
    """What is written without its kink in a phase: numbers of controls in two parts, and norms with their magnitudes; original:
    the phase before."""

    parts: tuple[int, ...]
    norms: tuple[Norm, ...]
    magnitudes: tuple[float, ...]
    original: Phase


class ControlNorms(Reduction):
    """Absolute values in costs as sums of two controls, norms as slack controls of their own; not where systems are of a robot, in
    discrete time, or have algebraic unknowns. Inverse data: by phase, None where nothing is written so."""

    name = "control_norms"
    keeps_controls = False

    def apply(self, problem: Problem) -> tuple[Problem, tuple[Slacks | None, ...]]:
        """The problem with slack controls for norms, and the data for ``invert``."""
        found = tuple(map(_slacks, problem.phases))
        if all(slacks is None for slacks in found):
            return problem, found
        phases = tuple(phase if slacks is None else _split(phase, slacks)
                       for phase, slacks in zip(problem.phases, found, strict=True))
        return self.fit_guess(replace(problem, phases=phases), found), found

    def invert(self, solution: Solution, data: tuple[Slacks | None, ...]) -> Solution:
        """The solution of the original problem."""
        pairs = [(phase, path) if slacks is None else _joined(phase, path, slacks) for phase, path, slacks in zip(
            solution.problem.phases, solution.parts or (solution.trajectory,), data, strict=True)]
        parts, problem = tuple(path for _, path in pairs), replace(solution.problem, phases=tuple(phase for phase, _ in pairs))
        found = () if solution.optimality is None else _findings(data)
        return replace(solution, problem=problem, trajectory=join(parts), parts=parts if solution.parts else (),
                       findings=(*solution.findings, *found))

    def fit_guess(self, problem: Problem, data: tuple[Slacks | None, ...]) -> Problem:
        """Slacks are guessed no smaller than their norms, and not at the apex of their cones."""
        return replace(problem, phases=tuple(phase if slacks is None or not slacks.norms else _with_slack_guess(phase, slacks)
                                             for phase, slacks in zip(problem.phases, data, strict=True)))

    def objective_shortfall(self, solution: Solution, data: tuple[Slacks | None, ...]) -> float:
        """Slacks may fall short of norms by half of what is added to them in the cone."""
        short = 0.0
        for slacks, path in zip(data, solution.parts or (solution.trajectory,), strict=True):
            if slacks is None:
                continue
            for norm, size in zip(slacks.norms, slacks.magnitudes, strict=True):
                weight = sum(weights_of_norms(cost).get(norm, 0.0) for cost in slacks.original.costs)
                short += 0.5 * FORMULATION.cone_regularisation * size * weight * float(path.t[-1] - path.t[0])
        return short


def _slacks(phase: Phase) -> Slacks | None:
    system = phase.system
    if system.model is not None or system.residual is not None or system.period is not None or system.constraints:
        return None
    found = [one for cost in phase.costs for one in weights_of_norms(cost)]
    parts = sorted({i for i in found if isinstance(i, int) and phase.control_bounds[i].excess(0.0) < 0})
    norms = {one: magnitude(phase, one) for one in found if isinstance(one, Norm)}
    norms = {norm: size for norm, size in norms.items() if norm.offset <= FORMULATION.max_offset * size**2}
    return Slacks(tuple(parts), tuple(norms), tuple(norms.values()), phase) if parts or norms else None


def _with_slack_guess(phase: Phase, slacks: Slacks) -> Phase:
    u, first = phase.guess.u.copy(), phase.system.nu - len(slacks.norms)
    for row in u:
        own = np.array(_difference(slacks.original.system, slacks, row.tolist())).ravel().tolist()
        sizes = [max(np.sqrt(norm.squared(own)), size) for norm, size in zip(slacks.norms, row[first:], strict=True)]
        row[first:] = [size or GUESSES.first_perturbation * most for most, size in zip(slacks.magnitudes, sizes, strict=True)]
    return replace(phase, guess=replace(phase.guess, u=u))


def _split(phase: Phase, slacks: Slacks) -> Phase:
    system, parts = phase.system, list(slacks.parts)

    def plain(function: Any, sums: bool = False) -> Any:
        return None if function is None else _of_parts(function, system, slacks, sums)

    costs = tuple(replace(c, function=plain(c.function, c.at is At.PATH and c.weights is None)) for c in phase.costs)
    constraints = tuple(replace(c, function=plain(c.function)) for c in phase.constraints)
    u, names = phase.guess.u, _names(system, slacks)
    units = {system.controls[i] + NEGATIVE_PART: system.units.get(system.controls[i], "") for i in parts}
    apart = system.with_controls(names, plain(system.rate), energy=plain(system.energy), power=plain(system.power),
                                 units={**system.units, **units})
    cones = tuple(Constraint(name, At.PATH, _cone(system, slacks, k), (-INF,), (0.0,))
                  for k, name in enumerate(names[len(names) - len(slacks.norms):]))
    roots = np.zeros((len(u), len(slacks.norms)))
    below, above = np.maximum(-u[:, parts], 0.0), u.copy()
    above[:, parts] = np.maximum(u[:, parts], 0.0)
    ends = [(0.0 if i in parts else least, most) for i, (least, most) in enumerate(phase.control_bounds.pairs())]
    ends += [(0.0, -phase.control_bounds.lower[i]) for i in parts]
    ends += [(float(np.sqrt(norm.offset)), INF) for norm in slacks.norms]
    return phase.with_bounds(controls=Bounds.of(ends), system=apart, costs=costs, constraints=(*constraints, *cones),
                             guess=replace(phase.guess, u=np.hstack([above, below, roots])))


def _names(system: System, slacks: Slacks) -> tuple[str, ...]:
    """Of controls, negative parts, and slacks of norms, which are numbered where they have the same name."""
    names = [*system.controls, *(system.controls[i] + NEGATIVE_PART for i in slacks.parts)]
    for norm in slacks.norms:
        name = norm.name(system.controls)
        names.append(name if name not in names else f"{name} ({len(names)})")
    return tuple(names)


def _difference(system: System, slacks: Slacks, w: Any) -> Any:
    """Controls [nu] of what stands for them."""
    count = len(system.controls)
    return ca.vertcat(*(w[i] - w[count + slacks.parts.index(i)] if i in slacks.parts else w[i] for i in range(count)))


def _cone(system: System, slacks: Slacks, k: int) -> ca.Function:
    """``(u' Q u + c) / (s + regularisation) - s`` of norm k as a function of (t, x, w, p)."""
    norm, count = slacks.norms[k], len(system.controls) + len(slacks.parts)
    widths = (1, system.nx, count + len(slacks.norms), system.np)
    t, x, w, p = (ca.SX.sym(name, width) for name, width in zip("txup", widths, strict=True))
    u = _difference(system, slacks, w)
    cone = norm.squared(ca.vertsplit(u)) / (w[count + k] + FORMULATION.cone_regularisation * slacks.magnitudes[k]) - w[count + k]
    return ca.Function("cone", [t, x, w, p], [cone], list("txup"), ["value"])


def _of_parts(function: ca.Function, system: System, slacks: Slacks, sums: bool) -> ca.Function:
    """A function of (t, x, u, p) of what stands for controls; sums: of a running cost, with its norms as sums and slacks."""
    count, kind = len(system.controls), ca.SX if function.is_a("SXFunction") else ca.MX
    first = count + len(slacks.parts)
    widths = (1, system.nx, first + len(slacks.norms), system.np)
    t, x, w, p = arguments = [kind.sym(name, width) for name, width in zip("txup", widths, strict=True)]
    u = _difference(system, slacks, w)
    value = function(t, x, u, p)
    weights = weights_of_norms(Cost("", At.PATH, function)) if sums else {}
    linear = [norm for norm in weights if norm in (*slacks.parts, *slacks.norms)]
    if linear:
        given, norms, in_both = opened(function)
        known: Mapping[Any, Any] = {norm: _value(norm, u, w, slacks, first, norm in linear) for norm in norms}
        value = ca.Function("opened", [*given, *norms.values()], [in_both])(t, x, u, p, *known.values())
    return ca.Function(function.name(), arguments, [value], list("txup"), function.name_out())


def _value(norm: int | Norm, u: Any, w: Any, slacks: Slacks, first: int, linear: bool) -> Any:
    """A norm in terms of what stands for controls, or (not linear) of these alone."""
    if isinstance(norm, Norm):
        return w[first + slacks.norms.index(norm)] if linear else ca.sqrt(norm.squared(ca.vertsplit(u)))
    return w[norm] + w[u.numel() + slacks.parts.index(norm)] if linear else ca.fabs(u[norm])


def _findings(data: tuple[Slacks | None, ...]) -> tuple[Finding, ...]:
    """One for each new control, by its name."""
    found: dict[str, Kind] = {}
    for slacks in data:
        if slacks is not None:
            system = slacks.original.system
            new = _names(system, slacks)[system.nu:]
            found |= dict.fromkeys(new[:len(slacks.parts)], Kind.ABSOLUTE_VALUE_AS_SUM)
            found |= dict.fromkeys(new[len(slacks.parts):], Kind.NORM_AS_SLACK)
    return tuple(Finding(kind, name=name.removesuffix(NEGATIVE_PART)) for name, kind in found.items())


def _joined(phase: Phase, path: Trajectory, slacks: Slacks) -> tuple[Phase, Trajectory]:
    original, count = slacks.original, slacks.original.system.nu
    known = replace(original, duration=phase.duration,
                    system=replace(original.system, parameter_values=phase.system.parameter_values))
    join_up = np.eye(phase.system.nu)[:, :count]
    for j, i in enumerate(slacks.parts, count):
        join_up[j, i] = -1.0
    return known, replace(path, u=path.u @ join_up, control=lambda t: np.asarray(path.control(t)) @ join_up)
