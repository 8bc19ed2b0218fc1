"""Redundant boundary conditions and linkage equations of mechanisms with constraints.

Where constraints tie joints together, "every joint at rest" or "every coordinate as it began" says the same several times.
Conditions that repeat each other leave multipliers open and Newton's method without a direction (Nocedal and Wright 2006, Sec.
16.1). The reduced problem has as many of them as are independent on the states that the constraints allow. The redundant ones hold
as closely as a mesh keeps the constraints, and the certificate judges them so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from scipy.linalg import block_diag, null_space, qr

from dynamics.mechanism.assembly import onto
from ocp.bridge.constraints import start_constraints
from ocp.problem import At, Boundary, Linkage, Phase, Problem, Solution
from ocp.problem.numbers import numbers_of, with_guess, with_numbers
from ocp.reductions.chain import Reduction, Redundant
from ocp.spaces import Space
from ocp.thresholds import FORMULATION, REACH, ROUNDING

Array = np.ndarray
Point = Sequence[Array]
Rows = tuple[Array, Array]  # values [r] and derivatives [r, all ndx]



@dataclass(frozen=True)
class Dropped:
    """The original conditions, and which of them are redundant."""

    starts: tuple[Boundary | None, ...]
    finals: tuple[Boundary | None, ...]
    linkages: tuple[Linkage, ...]
    redundant: Redundant


class RedundantConditions(Reduction):
    """Removes prescribed components and linkage equations that follow from the constraints of mechanisms and from each other."""

    name = "redundant_conditions"
    drops_conditions = True

    def apply(self, problem: Problem) -> tuple[Problem, Dropped | None]:
        """The reduced problem, and the data for ``invert``."""
        retained = tuple(_retained(phase) for phase in problem.phases)
        if all(function is None for function in retained):
            return problem, None
        start = tuple(of_boundary(Ends(problem, retained, ((i, At.START),))) for i in range(len(retained)))
        final = tuple(of_boundary(Ends(problem, retained, ((i, At.FINAL),))) for i in range(len(retained)))
        phases = tuple(replace(phase, start=boundary_without(phase.start, a), final=boundary_without(phase.final, b))
                       for phase, a, b in zip(problem.phases, start, final, strict=True))
        reduced = replace(problem, phases=phases)
        found = Redundant(start, final, tuple(_of_linkage(one, Ends(reduced, retained, one.ends)) for one in problem.linkages))
        if not any(any(own) for group in found for own in group):
            return problem, None
        linkages = tuple(_linkage_without(*pair) for pair in zip(problem.linkages, found.linkages, strict=True))
        dropped = Dropped(tuple(phase.start for phase in problem.phases), tuple(phase.final for phase in problem.phases),
                          problem.linkages, found)
        return replace(reduced, linkages=linkages), dropped

    def again(self, problem: Problem, reduced: Problem, data: Dropped) -> tuple[Problem, Dropped] | None:
        """The reduction with the same conditions taken as redundant; the certificate checks all of them."""
        numbers = numbers_of(problem)
        if len(numbers) != len(numbers_of(reduced)):
            return None
        own = replace(data, starts=tuple(phase.start for phase in problem.phases),
                      finals=tuple(phase.final for phase in problem.phases))
        return with_guess(with_numbers(reduced, numbers), problem), own

    def invert(self, solution: Solution, data: Dropped) -> Solution:
        """The solution of the original problem."""
        phases = tuple(replace(phase, start=start, final=final) for phase, start, final in zip(
            solution.problem.phases, data.starts, data.finals, strict=True))
        return replace(solution, problem=replace(solution.problem, phases=phases, linkages=data.linkages))

    def redundant(self, data: Dropped) -> Redundant:
        """Redundant components and equations."""
        return data.redundant


def of_boundary(end: Ends) -> tuple[bool, ...]:
    """Redundant components of a boundary [ndx]; empty without a boundary."""
    (_, at), = end.ends
    boundary = end.boundaries[0]
    if boundary is None:
        return ()
    if not any(boundary.fixed) or end.free or (at is At.START and boundary.complete):
        return (False,) * len(boundary.fixed)
    fixed = np.flatnonzero(boundary.fixed)
    needed = fixed[end.independent(len(fixed), end.constraints, end.constraints, end.prescribed)]
    return tuple(active and i not in needed for i, active in enumerate(boundary.fixed))


def _of_linkage(linkage: Linkage, ends: Ends) -> tuple[bool, ...]:
    """Equations of a linkage that follow from the constraints and from the prescribed ends."""
    equal = np.flatnonzero(np.asarray(linkage.lower) == np.asarray(linkage.upper))
    if len(equal) == 0 or ends.free:
        return (False,) * linkage.size
    equations = ends.linkage(linkage, equal)

    def active(point: Point) -> Rows:
        return stacked([ends.constraints(point), ends.prescribed(point)])

    needed = equal[ends.independent(len(equal), lambda point: stacked([active(point), equations(point)]), active, equations)]
    return tuple(i in equal and i not in needed for i in range(linkage.size))


def boundary_without(boundary: Boundary | None, redundant: Sequence[bool]) -> Boundary | None:
    """The boundary without its redundant components."""
    if boundary is None or not any(redundant):
        return boundary
    return replace(boundary, fixed=tuple(f and not r for f, r in zip(boundary.fixed, redundant, strict=True)))


def _linkage_without(linkage: Linkage, redundant: Sequence[bool]) -> Linkage:
    if not any(redundant):
        return linkage
    rows, symbols = [i for i, one in enumerate(redundant) if not one], linkage.function.mx_in()
    function = ca.Function(linkage.function.name(), symbols, [ca.vec(linkage.function(*symbols))[rows]])
    names = linkage.labels or tuple(str(i) for i in range(linkage.size))
    return replace(linkage, function=function, lower=tuple(linkage.lower[i] for i in rows),
                   upper=tuple(linkage.upper[i] for i in rows), labels=tuple(names[i] for i in rows))


def _retained(phase: Phase) -> ca.Function | None:
    """(t, x) -> (constraints, derivatives along the tangent of x) that the dynamics of a phase keep zero; None if there are
    none."""
    system = phase.system
    mechanism, space = system.robot, system.space
    if mechanism is None or space.ndx != 2 * mechanism.model.nv or not (found := start_constraints(mechanism)):
        return None
    t, x = ca.SX.sym("t"), ca.SX.sym("x", space.nx)
    rows = ca.vertcat(*(c.function(t, x, ca.DM.zeros(mechanism.nu), ca.DM(0, 1)) for c in found))
    return ca.Function("kept", [t, x], [rows, ca.densify(ca.mtimes(ca.jacobian(rows, x), space.rate(x)))])


@dataclass(frozen=True)
class Ends:
    """Ends of phases (number, START or FINAL), and the constraints that each phase maintains."""

    problem: Problem
    retained: tuple[ca.Function | None, ...]
    ends: tuple[tuple[int, At], ...]

    @property
    def rows(self) -> list[ca.Function | None]:
        """What is kept at each; where a later phase begins it may be for a linkage to say that its constraints hold."""
        return [self.retained[number] if number == 0 or at is At.FINAL else None for number, at in self.ends]

    @property
    def free(self) -> bool:
        """Whether no end has a maintained constraint."""
        return all(retained is None for retained in self.rows)

    @property
    def spaces(self) -> list[Space]:
        """The state spaces of the ends."""
        return [self.problem.phases[number].system.space for number, _ in self.ends]

    @property
    def boundaries(self) -> list[Boundary | None]:
        """The boundary of each end."""
        return [self.problem.phases[i].start if at is At.START else self.problem.phases[i].final for i, at in self.ends]

    # ---- rows of all of them ----------------------------------------------------------------------------------------
    def constraints(self, point: Point) -> Rows:
        """Values and derivatives of the constraints of mechanisms."""
        lengths, found = np.array([phase.duration.guess for phase in self.problem.phases]), []
        for (number, at), retained, space, x in zip(self.ends, self.rows, self.spaces, point, strict=True):
            t = float(np.sum(lengths[:number + (at is At.FINAL)]))
            found.append((np.zeros(0), np.zeros((0, space.ndx))) if retained is None
                         else tuple(np.asarray(y) for y in retained(t, x)))
        return np.concatenate([value.ravel() for value, _ in found]), block_diag(*(gradient for _, gradient in found))

    def prescribed(self, point: Point) -> Rows:
        """Derivatives of the components that boundaries fix."""
        values, gradients = [], []
        for boundary, space, x in zip(self.boundaries, self.spaces, point, strict=True):
            fixed = np.flatnonzero(() if boundary is None else boundary.fixed)
            values.append(np.zeros(0) if boundary is None else _between(space, boundary.value, x)[fixed])
            gradients.append(np.eye(space.ndx)[fixed])
        return np.concatenate(values), block_diag(*gradients)

    def linkage(self, linkage: Linkage, equal: Array) -> Callable[[Point], Rows]:
        """Derivatives of the equations of a linkage, at the durations of the guess."""
        phases = self.problem.phases
        known = {name: value for phase in phases for name, value in zip(phase.system.parameters, phase.system.parameter_values,
                                                                        strict=True)}
        symbols = [ca.MX.sym(f"x{i}", space.nx) for i, space in enumerate(self.spaces)]
        value = ca.vec(linkage.function(*symbols, ca.DM([phase.duration.guess for phase in phases]),
                                        ca.DM([known[name] for name in linkage.parameters]))) - ca.DM(linkage.lower)
        gradients = [ca.mtimes(ca.jacobian(value, x), space.rate(x)) for x, space in zip(symbols, self.spaces, strict=True)]
        function = ca.Function("linkage", symbols, [ca.densify(value), ca.densify(ca.horzcat(*gradients))])

        def rows(point: Point) -> Rows:
            found, gradient = function(*point)
            return np.asarray(found).ravel()[equal], np.asarray(gradient)[equal]

        return rows

    # ---- which are independent --------------------------------------------------------------------------------------
    def independent(self, count: int, on: Callable[[Point], Rows], active: Callable[[Point], Rows],
                    wanted: Callable[[Point], Rows]) -> Array:
        """Which of the ``count`` wanted equations are independent of each other and of the active ones, on the manifold where the
        constraints ``on`` vanish: the largest set over several such states."""
        best, worth = np.arange(count), (-1, 0.0)
        for point in self._states(on):
            directions = null_space(_unit(active(point)[1]), ROUNDING.resolution)
            triangle, order = qr((_unit(wanted(point)[1]) @ directions).T, mode="r", pivoting=True)
            pivots = np.abs(np.diag(triangle))
            rank = int(np.sum(pivots > ROUNDING.resolution))
            if (found := (rank, pivots[rank - 1] if rank else 0.0)) > worth:
                best, worth = np.sort(order[:rank]), found
        return best

    def _states(self, on: Callable[[Point], Rows]) -> Iterator[Point]:
        """States near the guess and the prescribed ones at which these constraints vanish. Prescribed velocities are retained: if
        all are zero, feet with velocity constraints make more conditions redundant than at nearby states."""
        rng, spaces = np.random.default_rng(0), self.spaces
        for size in (0.0, *[FORMULATION.rank_distance] * (REACH.points - 1)):
            point = []
            for (number, at), space, boundary in zip(self.ends, spaces, self.boundaries, strict=True):
                x = np.asarray(self.problem.phases[number].guess.x[0 if at is At.START else -1], dtype=float)
                to = np.zeros(space.ndx) if boundary is None else np.where(boundary.fixed, _between(space, x, boundary.value), 0.0)
                away = size * rng.standard_normal(space.ndx)
                if boundary is not None:
                    away[np.asarray(boundary.fixed) & (2 * np.arange(space.ndx) >= space.ndx)] = 0.0
                point.append(_moved(space, x, to + away))
            point, miss = onto(on, self._moved, point, near=ROUNDING.negligible, steps=FORMULATION.max_projection_steps,
                               rank=ROUNDING.resolution)
            if miss <= ROUNDING.negligible:
                yield point

    def _moved(self, point: Point, step: Array) -> Point:
        parts = np.split(step, np.cumsum([space.ndx for space in self.spaces])[:-1])
        return [_moved(space, x, dx) for space, x, dx in zip(self.spaces, point, parts, strict=True)]


def _unit(gradient: Array) -> Array:
    return gradient / np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), ROUNDING.resolution)


def stacked(parts: Sequence[Rows]) -> Rows:
    """Matrices of several ends as one."""
    return np.concatenate([value for value, _ in parts]), np.vstack([gradient for _, gradient in parts])


def _moved(space: Space, x: Array, dx: Array) -> Array:
    return np.asarray(ca.DM(space.plus(ca.DM(x), ca.DM(dx)))).ravel()


def _between(space: Space, x0: Array | Sequence[float], x1: Array | Sequence[float]) -> Array:
    return np.asarray(ca.DM(space.minus(ca.DM(x0), ca.DM(x1)))).ravel()
