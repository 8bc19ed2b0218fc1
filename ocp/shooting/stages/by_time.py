"""A horizon whose stages are those of the phases that their times lie in: a list of phases that moves through a horizon of constant
size.

Every phase is a kind of stage, and another one where the horizon ends in it. A step belongs to the phase at its middle, so that
phases change at knots. States and controls are the same in all of them, and a horizon that moves on changes the kinds of its stages
and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

import casadi as ca
import numpy as np

from ocp.derivatives import choose, differentiated
from ocp.problem import At, Constraint, Problem, Sense
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon, Leg, end_draft, step_draft
from ocp.shooting.stages.single import single_graph
from ocp.shooting.stages.stage import make_stage
from ocp.shooting.stages.stretch import Constants, Stretch

Array = np.ndarray
SLACK = 1e-6  # of a step: an instant this near to a knot lies on it


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

    def kinds(self, t: Array, h: float) -> Array:
        """Kinds [S+1] of stages at the knots t [S+1], steps of length h [s]."""
        numbers = self.numbers(t + 0.5 * h)
        numbers[-1] = len(self.ends) + self.numbers(t[-1:] - 0.5 * h)[0]
        return numbers


@dataclass(frozen=True)
class Arrival(Timetable):
    """A motion that ends at a time: what holds at its end holds at every knot from then on. Controls are of one kind."""

    def sources(self, old: Array, new: Array, moved: tuple[int, float], times: tuple[Array, Array]) -> Iterator[tuple[int, int]]:
        return iter(())

    def kinds(self, t: Array, h: float) -> Array:
        numbers = np.asarray(t >= self.ends[0] - SLACK * h).astype(np.int64)
        numbers[-1] += len(self.ends)
        return numbers


@dataclass(frozen=True)
class TimedProblem(Problem):
    """One phase whose terms change with time, as phases that hold by a timetable: what all of them have in common, and ``parts``,
    the phases with explicit systems."""

    parts: Problem = field(kw_only=True)
    table: Timetable = field(kw_only=True)


def arriving(problem: Problem) -> TimedProblem:
    """One phase that ends at its time while a horizon moves beyond: its final state and conditions hold from then on, along the
    path."""
    phase = problem.phase
    assert phase.final is not None
    system, fixed = phase.system, np.flatnonzero(phase.final.fixed).tolist()
    t, x, u, p = (ca.MX.sym(name, size) for name, size in (("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np)))
    away = ca.Function("away", [t, x, u, p], [ca.densify(system.space.minus(ca.DM(phase.final.value), x)[fixed])]).expand()
    none = (0.0,) * len(fixed)
    ends = (Constraint("final state", At.PATH, away, none, none, Sense.EQUAL),
            *(replace(c, at=At.PATH) for c in phase.constraints if c.at is At.FINAL))
    before = replace(phase, final=None, constraints=tuple(c for c in phase.constraints if c.at is not At.FINAL))
    own = {one.name: getattr(problem, one.name) for one in fields(Problem)}
    parts = Problem(**{**own, "phases": (before, replace(before, constraints=(*before.constraints, *ends)))})
    return TimedProblem(**own, parts=parts, table=Arrival((phase.duration.guess, np.inf)))


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
    which = problem.table.kinds(t, h[0])
    assert whole.start is not None
    face = replace(own[0], phase=replace(own[0].phase, start=whole.start, guess=whole.guess))
    return Horizon(problem.parts, (Leg(face, 0, count),), Constants(), kinds, which, t, h, p, lower, upper,
                   np.array(whole.start.value, float), np.zeros(0), 0.0, width)
