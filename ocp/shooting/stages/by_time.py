"""A horizon whose stages are those of the phases that their times lie in: a list of phases that moves through a horizon of constant
size.

Every phase is a kind of stage, and another one where the horizon ends in it. A step belongs to the phase at its middle, so that
phases change at knots. States and controls are the same in all of them, and a horizon that moves on changes the kinds of its stages
and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ocp.derivatives import choose, differentiated
from ocp.problem import Problem
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon, Leg, end_draft, step_draft
from ocp.shooting.stages.single import single_graph
from ocp.shooting.stages.stage import make_stage
from ocp.shooting.stages.stretch import Constants, Stretch

Array = np.ndarray


@dataclass(frozen=True)
class Timetable:
    """When phases hold. ends [n]: their ends [s]; again: number of the phase that follows the last one; None: the last goes on."""

    ends: tuple[float, ...]
    again: int | None = None

    def within(self, t: Array) -> Array:
        """Times t [k] as times before the last end, where phases repeat."""
        if self.again is None:
            return np.asarray(t, float)
        first = self.ends[self.again - 1] if self.again else 0.0
        return np.where(t < self.ends[-1], t, first + (t - first) % (self.ends[-1] - first))

    def sources(self, old: Array, new: Array, moved: tuple[int, float], times: tuple[Array, Array]) -> Iterator[tuple[int, int]]:
        """(k, m): steps k whose controls are those of step m before the horizon moved on by so many steps and a fraction of one,
        because interpolation would mix phases, or has nothing to go on from: there m is one cycle ago, or the last of the phase.
        old, new [S]: phases of the steps; times [S]: of their beginnings."""
        (whole, part), (before, now), S = moved, times, len(old)
        cycle = 0.0 if self.again is None else self.ends[-1] - (self.ends[self.again - 1] if self.again else 0.0)
        middles = now + 0.5 * (before[-1] - before[0]) / max(1, S - 1) - cycle
        for k in range(S):
            i = k + whole
            near = [m for m in (i, i + 1)[:1 + (part > 0.0)] if m < S]
            if i + (part > 0.0) < S:
                if any(old[m] != new[k] for m in near):
                    yield from ((k, m) for m in near if old[m] == new[k])
                continue
            ago = int(np.searchsorted(before, middles[k], side="right")) - 1
            same = np.flatnonzero(old == new[k])
            if cycle and ago >= 0 and old[ago] == new[k]:
                yield k, ago
            elif same.size:
                yield k, int(same[-1])

    def numbers(self, t: Array) -> Array:
        """Number [k] of the phase at times t [k]."""
        return np.minimum(np.searchsorted(self.ends, self.within(t), side="right"), len(self.ends) - 1)


@dataclass(frozen=True)
class TimedProblem(Problem):
    """One phase whose terms change with time, as phases that hold by a timetable: what all of them have in common, and ``parts``,
    the phases with explicit systems."""

    parts: Problem = field(kw_only=True)
    table: Timetable = field(kw_only=True)


def kinds_at(table: Timetable, t: Array, h: float) -> Array:
    """Kinds [S+1] of stages at the knots t [S+1], steps of length h [s]."""
    numbers = table.numbers(t + 0.5 * h)
    numbers[-1] = len(table.ends) + table.numbers(t[-1:] - 0.5 * h)[0]
    return numbers


def build_by_time(problem: TimedProblem, options: ILQROptions, loops: bool) -> Horizon:
    """The horizon at time 0; loops: steps are left to loops over the robot. Raises ProblemError for integrators that do not fit."""
    whole, length, given = problem.phase, problem.phase.duration.guess, problem.parts.phases
    plain = [Stretch(phase, 0, Constants(), False, (length,)) for phase in given]
    own = plain if loops else [replace(one, phase=replace(one.phase, system=differentiated(
        one.phase.system, choose(one.phase.system, options.derivatives, "generated")[0]))) for one in plain]
    count = options.intervals
    drafts = [*(step_draft(one, options, loops, single_graph(as_given, options, loops), None)
                for as_given, one in zip(plain, own, strict=True)), *(end_draft(Leg(one, 0, count)) for one in own)]
    from dynamics.loops.dense import padded  # Numba costs half a second: whoever only asks shall not pay for it

    system = whole.system
    width, t = padded(system.space.ndx + system.nu), np.linspace(0.0, length, count + 1)
    kinds = tuple(make_stage(draft, width, options.hessian != "gauss_newton") for draft in drafts)
    h = np.append(np.full(count, length / count), 0.0)
    lower, upper = (np.tile(side, (count + 1, 1)) for side in whole.control_bounds.arrays)
    p = np.tile(np.array([*system.parameter_values, *[0.0] * (not system.np)]), (count + 1, 1))
    which = kinds_at(problem.table, t, h[0])
    assert whole.start is not None
    face = replace(own[0], phase=replace(own[0].phase, start=whole.start, guess=whole.guess))
    return Horizon(problem.parts, (Leg(face, 0, count),), Constants(), kinds, which, t, h, p, lower, upper,
                   np.array(whole.start.value, float), np.zeros(0), 0.0, width)
