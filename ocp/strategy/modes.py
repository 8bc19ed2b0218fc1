"""Answers whose motion crosses or meets a surface of the state across which rates or costs jump: other sequences of modes are
tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ocp.certify.motion import Motion
from ocp.guesses.motion import from_motion
from ocp.interrupts import Activity, time_is_up
from ocp.problem import SOLVED, At, Finding, Kind, Phase, Problem, Solution, Status
from ocp.reductions import REDUCTIONS, Chain, ReducedProblem, invert
from ocp.reductions.modes import Mode, Modes, Surfaces
from ocp.reductions.time_switches import TimeSwitches
from ocp.strategy.answer import answered, lower, parameters
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import ANSWERS, SWITCHES

#: programs whose last motion tells a sequence of modes: jumps may be why a search converges slowly
CROSSED = (*SOLVED, Status.ITERATION_LIMIT, Status.STALLED)


def crosses(search: Search, state: State) -> Finding | None:
    """Diagnosis: the motion crosses or meets such a surface."""
    found = answered(state)
    if found.status not in CROSSED or found.certificate is None or state.fired("error_bound") or time_is_up(Activity.SOLVING):
        return None
    causes = found.certificate.causes & {Kind.STATE_DEPENDENT_JUMP, Kind.WAITING}
    steps = found.problem.steps if isinstance(found.problem, ReducedProblem) else ()
    if not causes and not any(isinstance(step.reduction, Modes) for step in steps):
        return None
    return Finding(Kind.SURFACE_MET, value=found.objective, data={"objective": found.objective})


def in_modes(search: Search, state: State, why: Finding) -> State | None:
    """A solution of lower objective with another sequence of modes, or a certified one of the present sequence; None if there is
    none."""
    for problem in neighbours(answered(state)):
        if (new := lower(search, state, problem, replace(why, kind=Kind.OTHER_MODES), certified=True)) is not None:
            return new
        if time_is_up():
            return None
    return None


def neighbours(solution: Solution) -> Iterator[Problem]:
    """Reduced problems whose guess is the solution: with its own sequence of modes, unless it was solved with one already, and with
    one more mode on a surface that it meets."""
    problem, own = solution.problem, invert(solution)
    steps = problem.steps if isinstance(problem, ReducedProblem) else ()
    if any(isinstance(step.reduction, TimeSwitches) for step in steps) or not all(_serves(phase) for phase in own.problem.phases):
        return
    motions = [Motion(phase, part) for phase, part in zip(own.problem.phases, own.parts or (own.trajectory,), strict=True)]
    surfaces = [Surfaces(phase) for phase in own.problem.phases]
    if not any(one.w for one in surfaces):
        return
    sequences = [_read(motion, one) for motion, one in zip(motions, surfaces, strict=True)]
    if any(len(one) > ANSWERS.windows for one in sequences):
        return
    begun = from_motion(own.problem, own.parts or (own.trajectory,), parameters(own))
    tried = [] if any(isinstance(step.reduction, Modes) for step in steps) else [tuple(sequences)]
    for number, (motion, one) in enumerate(zip(motions, surfaces, strict=True)):
        tried += [(*sequences[:number], waits, *sequences[number + 1:]) for waits in _waiting(motion, one, sequences[number])]
    for modes in tried:
        if any(len(one) > 1 for one in modes):
            yield _reduced(begun, modes)


def _reduced(problem: Problem, modes: Sequence[tuple[Mode, ...]]) -> Problem:
    return Chain((Modes(tuple(modes)), *(one for one in REDUCTIONS.values() if not isinstance(one, TimeSwitches)))).apply(problem)


def _serves(phase: Phase) -> bool:
    return phase.system.period is None and not any(c.at is At.INTEGRAL for c in phase.constraints)


def _read(motion: Motion, surfaces: Surfaces) -> tuple[Mode, ...]:
    """The sequence of modes of a motion, without modes of zero duration on a surface."""
    if not surfaces.w:
        return (Mode((), (0.0, 1.0), 1.0),)
    s = (motion.look.t - motion.span[0]) / motion.duration
    sides = surfaces.sides(motion.look.t, motion.look.x)
    ends = np.flatnonzero(np.any(sides[1:] != sides[:-1], axis=1)) + 1
    runs = [(tuple(int(side) for side in sides[a]), s[a], s[b - 1])
            for a, b in zip([0, *ends.tolist()], [*ends.tolist(), len(s)], strict=True)]
    kept: list[tuple[tuple[int, ...], float, float]] = []
    for own, begin, end in runs:
        if end - begin <= 2 * SWITCHES.vanished and len(runs) > 1:
            continue
        if kept and kept[-1][0] == own:
            kept[-1] = own, kept[-1][1], end
        else:
            kept.append((own, begin, end))
    edges = [0.0, *((a[2] + b[1]) / 2 for a, b in zip(kept[:-1], kept[1:], strict=True)), 1.0]
    return tuple(Mode(own, (a, b), b - a) for (own, _, _), a, b in zip(kept, edges[:-1], edges[1:], strict=True))


def _waiting(motion: Motion, surfaces: Surfaces, sequence: tuple[Mode, ...]) -> Iterator[tuple[Mode, ...]]:
    """Sequences with one more mode, on a surface that the motion meets at the end of a mode."""
    edges = [0.0, *(mode.share[1] for mode in sequence)]
    for k, s in enumerate(edges):
        beside = sequence[max(k - 1, 0):k + 1]
        t = np.array([motion.span[0] + s * motion.duration])
        here = surfaces.sides(np.append(motion.look.t, t), np.vstack([motion.look.x, motion.state(t)]))[-1]
        for i in range(len(surfaces.w)):
            crossed = len(beside) == 2 and beside[0].sides[i] != beside[1].sides[i]
            if (crossed or here[i] == 0) and all(mode.sides[i] for mode in beside):
                sides = beside[-1].sides
                rest = 1 - SWITCHES.small
                longer = [Mode(m.sides, m.share, rest * m.length) for m in sequence]
                yield (*longer[:k], Mode((*sides[:i], 0, *sides[i + 1:]), (s, s), SWITCHES.small), *longer[k:])
