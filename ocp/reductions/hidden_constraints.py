"""Path equations on the state alone, by the derivative in which controls appear, and by what that leaves for the ends of the phase.

``c(t, x) = 0`` all along a phase holds the controls only through its derivatives: where the first that depends on them is the k-th,
the index is k + 1, and nodes cannot hold both the equation and the dynamics between them. The same motions obey

    d^k c / dt^k (t, x, u) = 0  all along,      c = dc/dt = .. = d^(k-1) c / dt^(k-1) = 0  at the start

(index reduction: Hairer and Wanner 1996, Solving Ordinary Differential Equations II, section VII.2). Prescribed components of the
final state that these hidden constraints imply are left out, for they would leave multipliers open; where a component has another
branch, a range about what was prescribed keeps it. The equation itself holds as closely as the mesh keeps it, and is judged so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.problem import At, Boundary, Constraint, Phase, Problem, Sense, Solution
from ocp.reductions.chain import Reduction, Redundant
from ocp.reductions.redundant_conditions import Ends, boundary_without, of_boundary, stacked
from ocp.thresholds import FORMULATION, ROUNDING


@dataclass(frozen=True)
class Hidden:
    """The original constraints and end of the phase, and which end conditions follow from the hidden constraints."""

    constraints: tuple[Constraint, ...]
    final: Boundary | None
    redundant: Redundant


class HiddenConstraints(Reduction):
    """Of problems of one phase whose rates are given in scalar operations; None where there is no such equation."""

    name = "hidden_constraints"
    keeps_controls = False  # they are held by the derivative, and multipliers are those of it
    drops_conditions = True

    def apply(self, problem: Problem) -> tuple[Problem, Hidden | None]:
        """The reduced problem, and the data for ``invert``."""
        phase = problem.phases[0]
        found = {c.name: chain for c in phase.constraints if (chain := _chain(phase, c)) is not None}
        if len(problem.phases) > 1 or not found or not _regular(phase, found):
            return problem, None
        keeps = _retained(phase, found)
        start, end = (Ends(problem, (keeps,), ((0, at),)) for at in (At.START, At.FINAL))
        final = of_boundary(end)
        if phase.start is not None and phase.start.complete and not _consistent(phase, keeps):
            return problem, None
        path = [replace(c, function=found[c.name][-1], lower=(0.0,) * c.size, upper=(0.0,) * c.size) if c.name in found else c
                for c in phase.constraints]
        new = replace(phase, final=boundary_without(phase.final, final),
                      constraints=(*path, *_at_start(phase, keeps, start), *_branches(phase, final)))
        return replace(problem, phases=(new,)), Hidden(phase.constraints, phase.final, Redundant(
            ((),), (final,), ((),) * len(problem.linkages)))

    def invert(self, solution: Solution, data: Hidden) -> Solution:
        """The solution of the original problem."""
        phase = replace(solution.problem.phases[0], constraints=data.constraints, final=data.final)
        return replace(solution, problem=replace(solution.problem, phases=(phase,)))

    def redundant(self, data: Hidden) -> Redundant:
        """Which components of the final state are redundant."""
        return data.redundant


#: an equation and its derivatives by time, as functions of (t, x, u, p), up to the one that depends on u
Derivatives = tuple[ca.Function, ...]


def _chain(phase: Phase, c: Constraint) -> Derivatives | None:
    """The derivatives of a path equation on the state; None if it is no such equation, or no derivative depends on controls."""
    system = phase.system
    equal = c.at is At.PATH and c.soft is None and (c.sense is Sense.EQUAL or (c.sense is Sense.BOX and c.lower == c.upper))
    if not equal or system.period is not None or system.residual is not None or system.mechanism is not None or not all(
            f.is_a("SXFunction") for f in (c.function, system.rate)) or c.function.jac_sparsity(0, 2).nnz():
        return None
    t, x, u, p = given = c.function.sx_in()
    rates = ca.mtimes(system.space.rate(x), system.rate(*given))
    value, found = c.function(*given) - ca.DM(c.lower), list[ca.Function]()
    for _ in range(system.nx + 1):
        found.append(ca.Function("derivative", given, [ca.densify(value)], list("txup"), ["value"]))
        depends = ca.which_depends(value, u, 1, True)
        if all(depends):
            return tuple(found)
        if any(depends):  # constraints of different index
            return None
        value = ca.simplify(ca.jtimes(value, x, rates) + ca.jtimes(value, t, ca.SX(1)))
    return None


def _regular(phase: Phase, found: dict[str, Derivatives]) -> bool:
    """Whether controls can satisfy all equations at once, at some point of the guess."""
    given = _arguments(phase)
    u = given[2]
    gradients = ca.Function("slopes", given, [ca.densify(ca.jacobian(ca.vertcat(*(f[-1](*given) for f in found.values())), u))])
    for s, own, controls in zip(phase.guess.s, phase.guess.x, phase.guess.u, strict=True):
        J = np.asarray(gradients(s * phase.duration.guess, own, controls, phase.system.parameter_values))
        if np.all(np.isfinite(J)) and J.any():
            values = np.linalg.svd(J / np.abs(J).max(), compute_uv=False)
            if len(values) == len(J) and values[-1] > FORMULATION.min_singular_value:
                return True
    return False


def _retained(phase: Phase, found: dict[str, Derivatives]) -> ca.Function:
    """(t, x) -> (hidden constraints, derivatives along the tangent of x), at the parameters that are known."""
    system = phase.system
    t, x = ca.SX.sym("t"), ca.SX.sym("x", system.nx)
    rest = (ca.DM.zeros(system.nu), ca.DM(system.parameter_values))
    rows = ca.vertcat(*(f(t, x, *rest) for chain in found.values() for f in chain[:-1]))
    return ca.Function("kept", [t, x], [ca.densify(rows), ca.densify(ca.mtimes(ca.jacobian(rows, x), system.space.rate(x)))])


def _consistent(phase: Phase, retained: ca.Function) -> bool:
    """Whether the prescribed start satisfies the hidden constraints."""
    assert phase.start is not None
    value, gradient = (np.asarray(part) for part in retained(0.0, phase.start.value))
    return bool(np.all(np.abs(value).ravel() <= ROUNDING.resolution * np.maximum(1.0, np.abs(gradient).max(axis=1))))


def _at_start(phase: Phase, retained: ca.Function, start: Ends) -> Iterator[Constraint]:
    """The hidden constraints that the prescribed start does not imply."""
    if phase.start is not None and phase.start.complete:
        return
    count = retained.numel_out(0)
    needed = start.independent(count, lambda point: stacked([start.prescribed(point), start.constraints(point)]), start.prescribed,
                               start.constraints)
    if len(needed):
        given = _arguments(phase)
        rows = retained(given[0], given[1])[0][needed.tolist()]
        zeros = (0.0,) * len(needed)
        yield Constraint("hidden constraints at the start", At.START, ca.Function("hidden", given, [rows], list("txup"), ["value"]),
                         zeros, zeros, Sense.EQUAL)


def _arguments(phase: Phase) -> list[ca.SX]:
    system = phase.system
    return [ca.SX.sym(name, size) for name, size in zip("txup", (1, system.nx, system.nu, system.np), strict=True)]


def _branches(phase: Phase, redundant: tuple[bool, ...]) -> Iterator[Constraint]:
    """Ranges about prescribed final components that are left out: half the range of the guess."""
    system, width = phase.system, np.ptp(phase.guess.x, axis=0) / 2
    if phase.final is None or not system.space.is_vector_space:
        return
    rows = [i for i, one in enumerate(redundant) if one and width[i] > 0]
    if rows:
        given = _arguments(phase)
        value = np.array(phase.final.value)[rows]
        yield Constraint("branch at the end", At.FINAL, ca.Function("branch", given, [given[1][rows]], list("txup"), ["value"]),
                         tuple(value - width[rows]), tuple(value + width[rows]), labels=tuple(system.space.names[i] for i in rows))
