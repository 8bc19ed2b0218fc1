"""Costs of the size of controls without their kink. ``abs(u)``: u as the difference of two controls from zero on, its size their
sum. ``sqrt(u' Q u + c)``: a control s from sqrt(c) on, with ``(u' Q u + c) / s <= s``, a cone whose slope is not zero at its apex.

At an optimum one of the two parts is zero and s is the root wherever the size costs something, so that both problems have the same
motions and the same objective (Acikmese, Ploen 2007, "Convex programming approach to powered descent guidance for Mars landing").
Only sizes that a running cost is linear in, with a weight that is constant and positive, are written so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from ocp.problem import At, Constraint, Cost, Finding, Kind, Phase, Problem, Solution, System, Trajectory, join

#: what is added to the name of a control for its part below zero, and what stands before the names of those in a norm
BELOW, SIZE = " (part below 0)", "size of "
INF = float("inf")
#: of how large a norm may be: what is added to its size in the cone; of the square of that: offsets that leave no kink
TINY, SMOOTH = 1e-7, 1e-3
#: of how large a norm may be: where the guess of its size begins instead of at zero
INSIDE = 0.1


class Norm(NamedTuple):
    """``sqrt(u' Q u + offset)``; Q row by row."""

    rows: tuple[tuple[float, ...], ...]
    offset: float

    def squared(self, u: Any) -> Any:
        """``u' Q u + offset`` of controls [nu]."""
        return sum((self.rows[i][j] * u[i] * u[j] for i in range(len(self.rows)) for j in range(len(self.rows)) if self.rows[i][j]),
                   self.offset)

    def name(self, controls: Sequence[str]) -> str:
        return SIZE + ", ".join(controls[i] for i, row in enumerate(self.rows) if any(row))


class Sizes(NamedTuple):
    """What is written without its kink: numbers of controls in two parts, and norms; most: about how large these may be."""

    parts: list[int]
    norms: list[Norm]
    most: list[float]


def split(problem: Problem) -> Problem:
    """The problem with sizes of controls as sums; itself where it has none, and where systems are of a robot, in discrete time, or
    have algebraic unknowns."""
    phases = tuple(_split(phase) for phase in problem.phases)
    return problem if all(a is b for a, b in zip(phases, problem.phases, strict=True)) else replace(problem, phases=phases)


def rooted(problem: Problem) -> Problem:
    """The problem with guesses of controls that stand for norms no smaller than these, and not at the apex of their cones."""
    return replace(problem, phases=tuple(map(_rooted, problem.phases)))


def _rooted(phase: Phase) -> Phase:
    chosen = Sizes([], [], []) if phase.whole is None else _chosen(phase.whole)
    if not chosen.norms or phase.whole is None:
        return phase
    u, first = phase.guess.u.copy(), phase.system.nu - len(chosen.norms)
    for row in u:
        own = np.array(_halves(phase.whole.system, chosen, row.tolist())).ravel().tolist()
        sizes = [max(np.sqrt(norm.squared(own)), size) for norm, size in zip(chosen.norms, row[first:], strict=True)]
        row[first:] = [size or INSIDE * most for most, size in zip(chosen.most, sizes, strict=True)]
    return replace(phase, guess=replace(phase.guess, u=u))


def _chosen(phase: Phase) -> Sizes:
    system = phase.system
    if system.model is not None or system.residual is not None or system.period is not None or system.constraints:
        return Sizes([], [], [])
    found = [size for cost in phase.costs for size in _sizes(cost)]
    parts = sorted({i for i in found if isinstance(i, int) and phase.u_lower[i] < 0 < phase.u_upper[i]})
    norms = {size: _most(phase, size) for size in found if isinstance(size, Norm)}
    norms = {norm: most for norm, most in norms.items() if norm.offset <= SMOOTH * most**2}
    return Sizes(parts, list(norms), list(norms.values()))


def shortfall(solution: Solution) -> float:
    """By how much the objective may be too low, because sizes may fall short of norms by half of what is added to them."""
    short = 0.0
    for phase, part in zip(solution.problem.phases, solution.parts or (solution.trajectory,), strict=True):
        chosen = _chosen(phase.whole) if phase.whole is not None else Sizes([], [], [])
        for norm, most in zip(chosen.norms, chosen.most, strict=True):
            weight = sum(_sizes(cost).get(norm, 0.0) for cost in phase.whole.costs)
            short += 0.5 * TINY * most * weight * float(part.t[-1] - part.t[0])
    return short


def _split(phase: Phase) -> Phase:
    system, chosen = phase.system, _chosen(phase)
    parts = chosen.parts
    if not parts and not chosen.norms:
        return phase

    def plain(function: Any, sums: bool = False) -> Any:
        return None if function is None else _of_parts(function, system, chosen, sums)

    costs = tuple(replace(c, function=plain(c.function, c.at is At.PATH and c.weights is None)) for c in phase.costs)
    constraints = tuple(replace(c, function=plain(c.function)) for c in phase.constraints)
    low, u, names = np.array(phase.u_lower), phase.guess.u, _names(system, chosen)
    units = {system.controls[i] + BELOW: system.units.get(system.controls[i], "") for i in parts}
    apart = replace(system, controls=names, u_limits=(), rate=plain(system.rate), energy=plain(system.energy),
                    power=plain(system.power), units={**system.units, **units})
    cones = tuple(Constraint(name, At.PATH, _cone(system, chosen, k), (-INF,), (0.0,))
                  for k, name in enumerate(names[len(names) - len(chosen.norms):]))
    roots = np.zeros((len(u), len(chosen.norms)))
    below, above = np.maximum(-u[:, parts], 0.0), u.copy()
    above[:, parts] = np.maximum(u[:, parts], 0.0)
    lower = [0.0 if i in parts else value for i, value in enumerate(low)]
    new = replace(phase, system=apart, costs=costs, constraints=(*constraints, *cones),
                   u_lower=(*lower, *(0.0 for _ in parts), *(float(np.sqrt(norm.offset)) for norm in chosen.norms)),
                   u_upper=(*phase.u_upper, *(-low[parts]).tolist(), *(INF for _ in chosen.norms)),
                   guess=replace(phase.guess, u=np.hstack([above, below, roots])), whole=phase)
    return _rooted(new)


def _names(system: System, chosen: Sizes) -> tuple[str, ...]:
    """Of controls, parts below zero, and norms, which are numbered where they have the same name."""
    names = [*system.controls, *(system.controls[i] + BELOW for i in chosen.parts)]
    for norm in chosen.norms:
        name = norm.name(system.controls)
        names.append(name if name not in names else f"{name} ({len(names)})")
    return tuple(names)


def _sizes(cost: Cost) -> dict[int | Norm, float]:
    """Controls whose size, and norms of controls, that a running cost is linear in with a constant positive weight; the weights."""
    if cost.at is not At.PATH or cost.weights is not None or not _plain(cost.function, {ca.OP_FABS, ca.OP_SQRT}):
        return {}
    _, sizes, value = _opened(cost.function)
    slopes = [ca.simplify(ca.jacobian(value, symbol)) for symbol in sizes.values()]
    return {size: float(slope) for size, slope in zip(sizes, slopes, strict=True) if slope.is_constant() and float(slope) > 0}


def _plain(function: ca.Function, wanted: set[int]) -> bool:
    """Whether a function has one of these operations, and none that it does not show (a function inside)."""
    if not function.is_a("SXFunction"):
        return False
    codes = {function.instruction_id(k) for k in range(function.n_instructions())}
    return bool(codes & wanted) and ca.OP_CALL not in codes


def _opened(function: ca.Function) -> tuple[list[ca.SX], dict[int | Norm, ca.SX], ca.SX]:
    """(arguments, the sizes of controls as symbols by number, and norms, the value in both)."""
    arguments = function.sx_in()
    sizes: dict[int | Norm, ca.SX] = {}
    work: dict[int, ca.SX] = {}
    own: dict[int, int] = {}  # work variables that are a control
    outputs = ca.SX.zeros(function.sparsity_out(0))
    for k in range(function.n_instructions()):
        code, into, given = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if code == ca.OP_OUTPUT:
            outputs.nz[into[1]] = work[given[0]]
            continue
        size: int | Norm | None = own.get(given[0]) if code == ca.OP_FABS else None
        if code == ca.OP_SQRT:
            size = _norm(arguments, work[given[0]])
        own.pop(into[0], None)
        if code == ca.OP_INPUT:
            work[into[0]] = arguments[given[0]].nz[given[1]]
            if given[0] == 2:
                own[into[0]] = given[1]
        elif code == ca.OP_CONST:
            work[into[0]] = ca.SX(function.instruction_constant(k))
        elif size is not None:
            work[into[0]] = sizes.setdefault(size, ca.SX.sym(f"size_{len(sizes)}"))
        else:
            operands = [work[i] for i in given]
            work[into[0]] = ca.SX.unary(code, *operands) if len(operands) == 1 else ca.SX.binary(code, *operands)
    return arguments, sizes, outputs


def _norm(arguments: list[ca.SX], inside: ca.SX) -> Norm | None:
    """The norm whose square ``inside`` is; None where it is no positive semidefinite form of controls, plus a number."""
    u = arguments[2]
    H, slope = ca.hessian(inside, u)
    H = ca.simplify(H)
    if not H.is_constant() or ca.depends_on(inside, ca.vertcat(*arguments[:2], *arguments[3:])):
        return None
    at_rest = ca.Function("at_rest", [u], [inside, slope])(0)
    Q = 0.5 * np.array(ca.DM(H))
    if np.any(np.array(at_rest[1])) or float(at_rest[0]) < 0 or not Q.any() or np.linalg.eigvalsh(Q)[0] < 0:
        return None
    return Norm(tuple(map(tuple, Q.tolist())), float(at_rest[0]))


def _halves(system: System, chosen: Sizes, w: Any) -> Any:
    """Controls [nu] of what stands for them."""
    count = len(system.controls)
    return ca.vertcat(*(w[i] - w[count + chosen.parts.index(i)] if i in chosen.parts else w[i] for i in range(count)))


def _cone(system: System, chosen: Sizes, k: int) -> ca.Function:
    """``(u' Q u + c) / (s + tiny) - s`` of norm k as a function of (t, x, w, p)."""
    norm, count = chosen.norms[k], len(system.controls) + len(chosen.parts)
    widths = (1, system.nx, count + len(chosen.norms), system.np)
    t, x, w, p = (ca.SX.sym(name, width) for name, width in zip("txup", widths, strict=True))
    u = _halves(system, chosen, w)
    cone = norm.squared(ca.vertsplit(u)) / (w[count + k] + TINY * chosen.most[k]) - w[count + k]
    return ca.Function("cone", [t, x, w, p], [cone], list("txup"), ["value"])


def _most(phase: Phase, norm: Norm) -> float:
    """What a path constraint allows the norm, else the largest bound of a control in it; 1 without."""
    for c in phase.constraints:
        if c.at is At.PATH and _plain(c.function, {ca.OP_SQ, ca.OP_MUL}):
            rows = ca.vertsplit(c.function(*(given := c.function.sx_in())))
            for value, upper in zip(rows, c.upper, strict=True):
                if 0 < upper < INF and (found := _norm(given, value)) is not None and found.rows == norm.rows:
                    return float(np.sqrt(upper))
    ends = [abs(end) for low, up, row in zip(phase.u_lower, phase.u_upper, norm.rows, strict=True) if any(row) for end in (low, up)]
    return max((end for end in ends if 0 < end < INF), default=1.0)


def _of_parts(function: ca.Function, system: System, chosen: Sizes, sums: bool) -> ca.Function:
    """A function of (t, x, u, p) of what stands for controls; sums: of a running cost, with the sizes that ``_sizes`` tells."""
    count, kind = len(system.controls), ca.SX if function.is_a("SXFunction") else ca.MX
    first = count + len(chosen.parts)
    widths = (1, system.nx, first + len(chosen.norms), system.np)
    t, x, w, p = arguments = [kind.sym(name, width) for name, width in zip("txup", widths, strict=True)]
    u = _halves(system, chosen, w)
    value = function(t, x, u, p)
    linear = [size for size in _sizes(Cost("", At.PATH, function)) if size in (*chosen.parts, *chosen.norms)] if sums else []
    if linear:
        given, sizes, opened = _opened(function)
        known: Mapping[Any, Any] = {size: _size(size, u, w, chosen, first, size in linear) for size in sizes}
        value = ca.Function("opened", [*given, *sizes.values()], [opened])(t, x, u, p, *known.values())
    return ca.Function(function.name(), arguments, [value], list("txup"), function.name_out())


def _size(size: int | Norm, u: Any, w: Any, chosen: Sizes, first: int, linear: bool) -> Any:
    """A size in terms of what stands for controls, or (not linear) of these alone."""
    if isinstance(size, Norm):
        return w[first + chosen.norms.index(size)] if linear else ca.sqrt(size.squared(ca.vertsplit(u)))
    return w[size] + w[u.numel() + chosen.parts.index(size)] if linear else ca.fabs(u[size])


def joined(solution: Solution) -> Solution:
    """The solution of a split problem as one of the problem itself; others as they are."""
    if all(phase.whole is None for phase in solution.problem.phases):
        return solution
    pairs = [_joined(*pair) for pair in zip(solution.problem.phases, solution.parts or (solution.trajectory,), strict=True)]
    parts, problem = tuple(path for _, path in pairs), replace(solution.problem, phases=tuple(phase for phase, _ in pairs))
    told = [Finding(Kind.CONTROL_NORM_REFORMULATED, name=name.removesuffix(BELOW), data={"controls": 1 + name.endswith(BELOW)})
            for name in dict.fromkeys(name for phase, (known, _) in zip(solution.problem.phases, pairs, strict=True)
                                      for name in phase.system.controls[known.system.nu:])]
    return replace(solution, problem=problem, trajectory=join(parts), parts=parts if solution.parts else (),
                   findings=solution.findings if solution.optimality is None else (*solution.findings, *told))


def _joined(phase: Phase, path: Trajectory) -> tuple[Phase, Trajectory]:
    if phase.whole is None:
        return phase, path
    known = replace(phase.whole, duration=phase.duration,
                    system=replace(phase.whole.system, parameter_values=phase.system.parameter_values))
    controls = phase.system.controls
    join_up = np.eye(len(controls))[:, :len(known.system.controls)]
    for j, name in enumerate(controls[len(known.system.controls):], len(known.system.controls)):
        if name.endswith(BELOW):
            join_up[j, controls.index(name.removesuffix(BELOW))] = -1.0
    return known, replace(path, u=path.u @ join_up, control=lambda t: np.asarray(path.control(t)) @ join_up)
