"""Phases cut at jumps in explicit time whose instants move with an unknown: a parameter, or a free duration.

A program evaluates functions at its nodes and does not see an instant move beside them, so that its gradient misses what moving it
is worth. Where the instant is the end of a piece the gradient is exact: the pieces before and behind it are phases of their own, in
which every step has a constant value, and a linkage ties their lengths to the instant (the multi-phase formulation of known
switching times: Betts 2010, Practical Methods for Optimal Control and Estimation Using Nonlinear Programming, section 4.14).

Which pieces there are depends on the order of instants and ends of phases. The reduced problem is that of one order, at first that
of the guess: inequalities keep an instant that lies outside a phase where it is, and no piece is shorter than a least length. Where
two of them meet in a solution, another order may be better: ``neighbours`` are the problems in which the two are swapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi as ca
import numpy as np

from ocp.guesses.motion import from_motion
from ocp.problem import INF, At, Duration, Linkage, Phase, Problem, Solution, relinked
from ocp.reductions.chain import Chain, ReducedProblem, invert
from ocp.reductions.instants import Finder, FreeParameters, Instant, Opened, Step, free_parameters, functions_of, opened
from ocp.reductions.pieces import Cut, Pieces, piece
from ocp.thresholds import MESH_CHANGE, ROUNDING, SWITCHES

Array = np.ndarray


class Mark(NamedTuple):
    """An end of a phase (``edge``: the start of the phase of this number) or an instant, by its number."""

    edge: bool
    number: int


@dataclass(frozen=True, eq=False)
class Stepping:
    """Functions of a phase that jump in explicit time, opened there, by identity; of each step the numbers of its instants."""

    functions: dict[int, Opened]
    instants: dict[Step, list[int]]
    finder: Finder

    @property
    def numbers(self) -> set[int]:
        """The number of each step."""
        return {i for own in self.instants.values() for i in own}


@dataclass(frozen=True, eq=False)
class Ordered(Pieces):
    """The pieces, the instants of the problem, the phases they affect, and the order of the reduced problem."""

    free: FreeParameters
    instants: tuple[Instant, ...]
    used: tuple[frozenset[int], ...]
    order: tuple[Mark, ...]


@dataclass(frozen=True)
class TimeSwitches(Cut):
    """Ends phases at jumps in explicit time that move with an unknown; not for systems in discrete time, for jumps in the rates of
    a mechanism, or with integral constraints. order: of instants and ends of phases; None: as in the guess."""

    order: tuple[Mark, ...] | None = None
    name = "time_switches"

    def apply(self, problem: Problem) -> tuple[Problem, Ordered | None]:
        """The reduced problem, and the data for ``invert``."""
        free = free_parameters(problem)
        if not free.names and not any(phase.duration.free for phase in problem.phases):
            return problem, None
        instants: list[Instant] = []
        found = [_stepping(problem, number, free, instants) for number in range(len(problem.phases))]
        if not any(_moves(problem, number, own, instants) for number, own in enumerate(found)) or len(
                instants) > MESH_CHANGE.many_intervals:
            return problem, None
        fits = self.order is not None and len(self.order) == len(instants) + len(problem.phases) + 1
        order = self.order if self.order is not None and fits else _order(problem, instants)
        ends = [order.index(Mark(True, i)) for i in range(len(problem.phases) + 1)]
        inside = [[mark.number for mark in order[a:b] if not mark.edge and mark.number in own.numbers]
                  for a, b, own in zip(ends[:-1], ends[1:], found, strict=True)]
        first = np.cumsum([0, *(len(own) + 1 for own in inside)]).tolist()
        phases: list[Phase] = []
        linkages = [relinked(linkage, first) for linkage in problem.linkages]
        for number, (phase, own) in enumerate(zip(problem.phases, found, strict=True)):
            place = _PhasePart(problem, number, own, instants, inside[number], {
                mark.number for mark in order[:ends[number]] if not mark.edge and mark.number in own.numbers})
            made = list(place.pieces()) if own.functions else [phase]
            phases += made
            linkages += place.ties(made, free, first[number], first[-1])
        numbers = tuple(tuple(range(a, b)) for a, b in zip(first[:-1], first[1:], strict=True))
        return replace(problem, phases=tuple(phases), linkages=tuple(linkages)), Ordered(
            problem, numbers, free, tuple(instants), tuple(frozenset(own.numbers) for own in found), order)


def neighbours(solution: Solution) -> Iterator[tuple[Problem, float]]:
    """For every instant that meets an end of a phase or another instant in the solution of a reduced problem: the reduced problem
    with the two swapped, whose guess is the solution; and the time at which they meet [s]."""
    problem = solution.problem
    steps = problem.steps if isinstance(problem, ReducedProblem) else ()
    if not steps or not isinstance(steps[0].reduction, TimeSwitches):
        return
    data, whole = steps[0].data, invert(solution)
    parts = whole.parts or (whole.trajectory,)
    known = {name: value for phase in whole.problem.phases for name, value in zip(
        phase.system.parameters, phase.system.parameter_values, strict=True)}
    q = [known[name] for name in data.free.names]
    edges = [float(parts[0].t[0]), *(float(part.t[-1]) for part in parts)]
    when = [edges[mark.number] if mark.edge else data.instants[mark.number].at(data.free, q) for mark in data.order]
    near = 2 * max(_least(phase) for phase in data.before.phases)
    for i, (a, b) in enumerate(zip(data.order[:-1], data.order[1:], strict=True)):
        if (a.edge and b.edge) or abs(when[i + 1] - when[i]) > near or not _meet(data, a, b):
            continue
        order = (*data.order[:i], b, a, *data.order[i + 2:])
        chain = Chain((TimeSwitches(order), *(step.reduction for step in steps[1:])))
        yield chain.apply(from_motion(whole.problem, parts, dict(zip(data.free.names, q, strict=True)))), when[i]


def _meet(data: Ordered, a: Mark, b: Mark) -> bool:
    """Whether the order of the two affects a phase."""
    instants = {mark.number for mark in (a, b) if not mark.edge}
    near = {n for mark in (a, b) if mark.edge for n in (mark.number - 1, mark.number)} or set(range(len(data.used)))
    return any(0 <= n < len(data.used) and instants <= data.used[n] for n in near)


# ---- where ------------------------------------------------------------------------------------------------------------------
def _span(problem: Problem, number: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """The earliest and latest start of a phase, and end [s]."""
    lengths = [phase.duration for phase in problem.phases[:number + 1]]
    return ((sum(one.lower for one in lengths[:-1]), sum(one.upper for one in lengths[:-1])),
            (sum(one.lower for one in lengths), sum(one.upper for one in lengths)))


def _stepping(problem: Problem, number: int, free: FreeParameters, instants: list[Instant]) -> Stepping:
    """The steps of a phase; new instants are added to the known ones."""
    phase, (start, end) = problem.phases[number], _span(problem, number)
    system, finder = phase.system, Finder(phase, free, (start[0], end[1]))
    none = Stepping({}, {}, finder)
    if system.period is not None or any(c.at is At.INTEGRAL for c in phase.constraints):
        return none
    functions: dict[int, Opened] = {}
    steps: dict[Step, list[int]] = {}
    robot = system.robot is not None
    for function in functions_of(phase):
        if (own := opened(function)) is None:
            continue
        retained = []
        for step in own.steps:
            places = finder.instants(own, step)
            if any(finder.jumps(own, step, one) for one in places):
                if robot and function is system.rate:
                    return none
                retained.append(step)
                steps[step] = [_numbered(one, instants, phase) for one in places]
        if retained:
            functions[function.__hash__()] = own.only(retained)
    return Stepping(functions, steps, finder)


def _numbered(one: Instant, instants: list[Instant], phase: Phase) -> int:
    """The number of an instant among the known ones, to which a new one is added."""
    near = ROUNDING.coincident * max(1.0, phase.duration.guess)
    for i, other in enumerate(instants):
        if np.allclose(one.values, other.values, 0.0, near):
            return i
    instants.append(one)
    return len(instants) - 1


def _moves(problem: Problem, number: int, own: Stepping, instants: Sequence[Instant]) -> bool:
    """Whether an unknown moves an instant beside the nodes of a phase."""
    start, _ = _span(problem, number)
    clock = start[0] != start[1] or problem.phases[number].duration.free
    return any(clock or instants[i].moves for i in own.numbers)


def _order(problem: Problem, instants: Sequence[Instant]) -> tuple[Mark, ...]:
    """The order of the guess; an instant that is at an end of the problem lies outside."""
    edges = np.cumsum([0.0, *(phase.duration.guess for phase in problem.phases)])
    room = SWITCHES.vanished * edges[-1]
    edges[0], edges[-1] = edges[0] + room, edges[-1] - room
    marks = [(edge, Mark(True, i)) for i, edge in enumerate(edges)]
    marks += [(float(one.values[0]), Mark(False, i)) for i, one in enumerate(instants)]
    return tuple(mark for _, mark in sorted(marks))


# ---- pieces ---------------------------------------------------------------------------------------------------------------
def _least(phase: Phase) -> float:
    """The minimum length [s] of a piece in the guess; half of it is the minimum in a solution."""
    return 2 * SWITCHES.vanished * phase.duration.guess


@dataclass(frozen=True, eq=False)
class _PhasePart:
    """A phase in the order of instants: those inside, in order, and the numbers of those before; the others follow."""

    problem: Problem
    number: int
    stepping: Stepping
    instants: Sequence[Instant]
    inside: Sequence[int]
    before: set[int]

    @property
    def phase(self) -> Phase:
        """The phase."""
        return self.problem.phases[self.number]

    def _functions(self, k: int) -> dict[int, ca.Function]:
        """The functions of piece k without steps."""
        passed = self.before | set(self.inside[:k])
        return {key: own.between([self._value(own, step, passed) for step in own.steps])
                for key, own in self.stepping.functions.items()}

    def _value(self, function: Opened, step: Step, passed: set[int]) -> float:
        """The value of a step after those of its instants that have passed."""
        own = sorted(self.stepping.instants[step], key=lambda i: float(self.instants[i].values[0]))
        places, (low, high) = [float(self.instants[i].values[0]) for i in own], self.stepping.finder.horizon
        length = self.phase.duration.guess
        ends = [min(low, places[0] - length), *places, max(high, places[-1] + length)]
        n = sum(i in passed for i in own)
        before = max(ends[n], low) if ends[n + 1] > low else ends[n]
        behind = min(ends[n + 1], high) if before < high else ends[n + 1]
        of = ca.Function("value", [function.arguments[0], function.arguments[3]], [step.value])
        return float(of((before + behind) / 2, self.phase.system.parameter_values))

    def pieces(self) -> Iterator[Phase]:
        """The pieces of the phase. Pieces with fixed ends have a fixed length, and so has the last if all others have."""
        phase, m, (start, _) = self.phase, len(self.inside), _span(self.problem, self.number)
        length, least = phase.duration, _least(phase)
        begin = sum(one.duration.guess for one in self.problem.phases[:self.number])
        inner = np.array([self.instants[i].values[0] for i in self.inside]) - begin
        inner = np.clip(inner, least * (1 + np.arange(m)), length.guess - least * (m - np.arange(m)))
        ends = np.concatenate([[0.0], inner, [length.guess]])
        given = np.array([True, *(not self.instants[i].moves for i in self.inside), not length.free]) & (start[0] == start[1])
        for k in range(m + 1):
            here = max(float(ends[k + 1] - ends[k]), least)
            duration = Duration(least / 2, max(length.upper, here), here) if m else length
            if m and given[k] and given[k + 1]:
                duration = Duration(here, here, here)
            elif m and k == m and given[:-1].all():
                duration = Duration(max(length.lower - ends[k], least / 2), length.upper - ends[k], here)
            yield piece(phase, k, m + 1, duration, (ends[k] / length.guess, ends[k + 1] / length.guess), self._functions(k))

    def ties(self, made: Sequence[Phase], free: FreeParameters, first: int, count: int) -> Iterator[Linkage]:
        """Linkages of ends of pieces with instants, of instants outside the phase, and of all lengths with that of the phase."""
        phase, (start, end) = self.phase, _span(self.problem, self.number)
        x, T, p = ca.SX.sym("x", phase.system.nx), ca.SX.sym("T", count), ca.SX.sym("p", len(free.names))

        def tie(name: str, k: int, value: ca.SX, lower: float, upper: float) -> Linkage:
            """Adds one linkage."""
            return Linkage(f"{name} of {phase.name}", ((first + k, At.FINAL),), ca.Function("tie", [x, T, p], [value]), (lower,),
                           (upper,), free.names)

        for i in sorted(self.stepping.numbers):
            one = self.instants[i]
            place = ca.substitute(one.expression, free.symbols, p)
            if i in self.inside:
                k = list(self.inside).index(i)
                if any(piece.duration.free for piece in made[:k + 1]) or start[0] != start[1]:
                    yield tie(f"instant {i}", k, ca.sum1(T[:first + k + 1]) - place, 0.0, 0.0)
            elif i in self.before and np.max(one.values) > start[0]:
                yield tie(f"instant {i} before", 0, ca.sum1(T[:first]) - place, 0.0, INF)
            elif i not in self.before and np.min(one.values) < end[1]:
                yield tie(f"instant {i} behind", len(made) - 1, place - ca.sum1(T[:first + len(made)]), 0.0, INF)
        if made[-1].duration.free and any(one.duration.free for one in made[:-1]):
            yield tie("length", len(made) - 1, ca.sum1(T[first:first + len(made)]), phase.duration.lower, phase.duration.upper)
