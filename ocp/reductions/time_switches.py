"""Phases cut at jumps in explicit time whose instants move with an unknown: a parameter, or a free duration.

A program evaluates functions at its nodes and does not see an instant move beside them, so that its gradient misses what moving it
is worth. Where the instant is the end of a piece the gradient is exact: the pieces before and behind it are phases of their own, in
which every step has a constant value, and a linkage ties the length of the first ones to the instant (the multi-phase formulation
of known switching times: Betts 2010, Practical Methods for Optimal Control and Estimation Using Nonlinear Programming, section
4.14). Instants in order t_1 <= ... <= t_m lie at

    end of piece k  =  min(max(t_k, end of piece k - 1 + least), end - (m - k + 1) least)

where they may pass the ends of the phase or each other, else at t_k: a piece that is empty keeps the least length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.guess import sample_guess
from ocp.problem import At, Duration, Guess, Linkage, Phase, Problem, Solution, glued, join, relinked
from ocp.reductions.chain import Reduction, Redundant
from ocp.reductions.instants import Finder, FreeParameters, Instant, Opened, free_parameters, functions_of, opened
from ocp.thresholds import MESH_CHANGE, ROUNDING, SWITCHES

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where a phase is cut: instants in order, their places as expressions of q and their values [m, k] at its samples; early,
    late: which may lie before the end of the piece before, and behind the end of the phase; start [s] and whether it is fixed;
    pieces: by piece, what stands for the functions that step, by identity."""

    places: tuple[ca.SX, ...]
    values: Array
    early: Array
    late: Array
    start: float
    start_fixed: bool
    pieces: tuple[dict[int, ca.Function], ...]


@dataclass(frozen=True)
class Pieces:
    """The problem before, and the numbers of the pieces of each of its phases."""

    before: Problem
    numbers: tuple[tuple[int, ...], ...]


class TimeSwitches(Reduction):
    """Phases end at jumps in explicit time that move with an unknown; not where systems are in discrete time, where rates that jump
    are those of a mechanism, or where integrals are constrained. Inverse data: ``Pieces``."""

    name = "time_switches"
    keeps_controls = False

    def apply(self, problem: Problem) -> tuple[Problem, Pieces]:
        free = free_parameters(problem)
        cuts = [_cuts(problem, number, free) for number in range(len(problem.phases))]
        counts = [1 if own is None else len(own.pieces) for own in cuts]
        first = np.cumsum([0, *counts]).tolist()
        data = Pieces(problem, tuple(tuple(range(a, b)) for a, b in zip(first[:-1], first[1:], strict=True)))
        if first[-1] == len(problem.phases):
            return problem, data
        phases: list[Phase] = []
        linkages = [relinked(linkage, first) for linkage in problem.linkages]
        for phase, own, begin in zip(problem.phases, cuts, first, strict=False):
            if own is None:
                phases.append(phase)
                continue
            made = list(_pieces(phase, own))
            phases += made
            linkages += _ties(phase, own, made, free, begin, first[-1])
        return replace(problem, phases=tuple(phases), linkages=tuple(linkages)), data

    def invert(self, solution: Solution, data: Pieces) -> Solution:
        paths = solution.parts or (solution.trajectory,)
        parts = tuple(glued([paths[k] for k in own]) for own in data.numbers)
        phases = []
        for phase, own, part in zip(data.before.phases, data.numbers, parts, strict=True):
            found = solution.problem.phases[own[0]]
            length = found.duration if len(own) == 1 else replace(phase.duration, guess=float(part.t[-1] - part.t[0]))
            system = replace(phase.system, parameter_values=found.system.parameter_values)
            phases.append(replace(phase, duration=length, system=system))
        return replace(solution, problem=replace(solution.problem, phases=tuple(phases), linkages=data.before.linkages),
                       trajectory=join(parts), parts=parts if len(parts) > 1 else (), extra=_extra(solution, data))

    def origins(self, data: Pieces) -> tuple[int, ...]:
        return tuple(i for i, own in enumerate(data.numbers) for _ in own)

    def redundant_before(self, found: Redundant, data: Pieces) -> Redundant:
        return Redundant(tuple(found.start[own[0]] for own in data.numbers), tuple(found.final[own[-1]] for own in data.numbers),
                         found.linkages[:len(data.before.linkages)])


# ---- where ------------------------------------------------------------------------------------------------------------------
def _cuts(problem: Problem, number: int, free: FreeParameters) -> Cuts | None:
    """Where a phase is cut; None where nothing moves in it."""
    phase, before = problem.phases[number], [one.duration for one in problem.phases[:number]]
    system = phase.system
    if system.period is not None or any(c.at is At.INTEGRAL for c in phase.constraints):
        return None
    start = sum(one.lower for one in before), sum(one.upper for one in before)
    end = start[0] + phase.duration.lower, start[1] + phase.duration.upper
    if start[0] == start[1] and not phase.duration.free and not phase.free_parameters and not free.names:
        return None
    found, instants = _stepping(phase, Finder(phase, free, (start[0], end[1])))
    values = np.array([one.values for one in instants])
    moves = start[0] != start[1] or phase.duration.free or bool(np.any(np.ptp(values, axis=1) > 0)) if instants else False
    if not moves or len(instants) > MESH_CHANGE.many_intervals or (
            system.rate.__hash__() in found and (system.mechanism or system.inverse or system.held) is not None):
        return None
    order = np.argsort(values[:, 0], kind="stable")
    places, values = [instants[i].place for i in order], values[order]
    crossing = bool(np.any(np.diff(values, axis=0) < 0))
    if crossing:
        places, values = _sorted(places), np.sort(values, axis=0)
    room = SWITCHES.vanished * phase.duration.guess
    cuts = Cuts(tuple(places), values, (np.min(values, axis=1) < start[1] - room) | (crossing & (np.arange(len(places)) > 0)),
                np.max(values, axis=1) > end[0] + room, float(sum(one.guess for one in before)), start[0] == start[1], ())
    edges = np.vstack([np.minimum(start[0], values[:1] - room), values,
                       np.maximum(end[1] if np.isfinite(end[1]) else 0.0, values[-1:] + phase.duration.guess)])
    pieces = tuple({key: own.between([_value(phase, free, own, step, places, edges[k:k + 2], k, room) for step in own.steps])
                    for key, own in found.items()} for k in range(len(places) + 1))
    return replace(cuts, pieces=pieces)


def _stepping(phase: Phase, finder: Finder) -> tuple[dict[int, Opened], list[Instant]]:
    """Functions of a phase that jump in explicit time, opened where they do, by identity; and the instants, each once."""
    found: dict[int, Opened] = {}
    instants: list[Instant] = []
    for function in functions_of(phase):
        own = opened(function)
        if own is None:
            continue
        kept = []
        for step in own.steps:
            places = finder.places(own, step)
            if any(finder.jumps(own, step, one) for one in places):
                kept.append(step)
                near = ROUNDING.coincident * max(1.0, phase.duration.guess)
                instants += [one for one in places if not any(np.allclose(one.values, other.values, 0.0, near)
                                                              for other in instants)]
        if kept:
            found[function.__hash__()] = own.only(kept)
    return found, instants


def _sorted(places: Sequence[ca.SX]) -> list[ca.SX]:
    """Expressions in order of their values, by a network of smaller and larger ones."""
    found = list(places)
    for last in range(len(found) - 1, 0, -1):
        for i in range(last):
            found[i], found[i + 1] = ca.fmin(found[i], found[i + 1]), ca.fmax(found[i], found[i + 1])
    return found


def _value(phase: Phase, free: FreeParameters, function: Opened, step: Any, places: Sequence[ca.SX], edges: Array, k: int,
           room: float) -> ca.SX:
    """The value of a step in piece k, between edges [2, samples]: a constant, or, where instants may pass each other, what it is in
    the middle of the piece, as an expression of the parameters of the function."""
    t, p, names = function.arguments[0], function.arguments[3], phase.system.parameters
    of = ca.Function("value", [t, p], [step.value])
    at = np.asarray(ca.Function("p", [free.symbols], [free.of(phase)])(free.samples.T))
    values = np.asarray(of(np.mean(edges, axis=0)[None, :], at)).ravel()
    there = np.ptp(edges, axis=0) > room
    there[0] |= not there.any()
    if np.ptp(values[there]) == 0:
        return ca.SX(float(values[there][0]))
    own = ca.vertcat(*(p[names.index(name)] if name in names else ca.SX(0) for name in free.names))
    ends = [ca.substitute(places[i], free.symbols, own) if 0 <= i < len(places) else ca.SX(float(edges[i - k + 1, 0]))
            for i in (k - 1, k)]
    return of((ends[0] + ends[1]) / 2, p)


# ---- pieces ---------------------------------------------------------------------------------------------------------------
def _least(phase: Phase) -> float:
    """The length [s] of an empty piece."""
    return 2 * SWITCHES.vanished * phase.duration.guess


def _pieces(phase: Phase, cuts: Cuts) -> Iterator[Phase]:
    """The pieces of a phase. Those whose ends are given have a given length, as has the last where all others have."""
    length, least, m = phase.duration, _least(phase), len(cuts.places)
    inner = np.clip(cuts.values[:, 0] - cuts.start, least * (1 + np.arange(m)), length.guess - least * (m - np.arange(m)))
    ends = np.concatenate([[0.0], inner, [length.guess]])
    given = cuts.start_fixed & np.r_[True, (np.ptp(cuts.values, axis=1) == 0) & ~cuts.early & ~cuts.late, not length.free]
    for k, functions in enumerate(cuts.pieces):
        here = max(float(ends[k + 1] - ends[k]), least)
        duration = Duration(least / 2, length.upper, here)
        if given[k] and given[k + 1]:
            duration = Duration(here, here, here)
        elif k == m and given[:-1].all():
            duration = Duration(max(length.lower - ends[k], least / 2), length.upper - ends[k], here)
        yield _piece(phase, k, m, functions, duration, (ends[k] / length.guess, ends[k + 1] / length.guess))


def _piece(phase: Phase, k: int, last: int, functions: dict[int, ca.Function], duration: Duration, share: tuple[float, float]
           ) -> Phase:
    def own(function: Any) -> Any:
        return None if function is None else functions.get(function.__hash__(), function)

    kept = {At.PATH, At.INTEGRAL, *([At.START] if k == 0 else []), *([At.FINAL] if k == last else [])}
    s = np.unique(np.clip(np.concatenate([share, phase.guess.s]), *share))
    x, u = sample_guess(phase.guess, phase.system.space, s)
    system = phase.system
    return replace(
        phase, name=f"{phase.name}.{k}", system=replace(system, rate=own(system.rate), residual=own(system.residual)),
        duration=duration, guess=Guess((s - share[0]) / (share[1] - share[0]), x, u),
        start=phase.start if k == 0 else None, final=phase.final if k == last else None, reset=phase.reset if k == 0 else None,
        costs=tuple(replace(c, function=own(c.function)) for c in phase.costs if c.at in kept),
        constraints=tuple(replace(c, function=own(c.function)) for c in phase.constraints if c.at in kept))


def _ties(phase: Phase, cuts: Cuts, made: Sequence[Phase], free: FreeParameters, first: int, count: int) -> Iterator[Linkage]:
    """What ties the ends of pieces to instants, and all lengths together to that of the phase."""
    x, T, p = ca.SX.sym("x", phase.system.nx), ca.SX.sym("T", count), ca.SX.sym("p", len(free.names))
    m, least, lengths = len(cuts.places), _least(phase), T[first:first + len(made)]
    total = ca.sum1(lengths) if phase.duration.free else ca.SX(phase.duration.lower)

    def tie(name: str, number: int, value: ca.SX, lower: float, upper: float) -> Linkage:
        return Linkage(f"{name} of {phase.name}", ((first + number, At.FINAL),), ca.Function("tie", [x, T, p], [value]), (lower,),
                       (upper,), free.names)

    for k, place in enumerate(cuts.places):
        if not any(one.duration.free for one in made[:k + 1]):
            continue
        to = ca.substitute(place, free.symbols, p) - ca.sum1(T[:first])
        to = ca.fmax(to, ca.sum1(lengths[:k]) + least) if cuts.early[k] else to
        to = ca.fmin(to, total - (m - k) * least) if cuts.late[k] else to
        yield tie(f"instant {k}", k, ca.sum1(lengths[:k + 1]) - to, 0.0, 0.0)
    if made[-1].duration.free and any(one.duration.free for one in made[:-1]):
        yield tie("length", m, ca.sum1(lengths), phase.duration.lower, phase.duration.upper)


# ---- back -------------------------------------------------------------------------------------------------------------------
def _extra(solution: Solution, data: Pieces) -> dict[str, Array]:
    """Arrays of pieces put together, by names of phases; arrays of segments without the instants between pieces."""
    found = dict(solution.extra)
    names = [phase.name for phase in solution.problem.phases]
    for phase, own in zip(data.before.phases, data.numbers, strict=True):
        prefix = f"{phase.name}." if len(data.numbers) > 1 else ""
        for key in [key for key in found if key.startswith(f"{names[own[0]]}.")]:
            rest = key.removeprefix(f"{names[own[0]]}.")
            pieces = [found.pop(f"{names[k]}.{rest}") for k in own if f"{names[k]}.{rest}" in found]
            found |= {prefix + rest: np.concatenate(pieces)} if len(pieces) == len(own) else {}
    segments = np.cumsum([len(part.t) for part in solution.parts])
    seams = [segments[k] - 1 for own in data.numbers for k in own[:-1]]
    for key in ("certificate_segment_gap", "certificate_segment_defect"):
        if key in found:
            found[key] = np.delete(found[key], seams)
    return found
