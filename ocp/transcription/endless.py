"""Durations without an upper end that never stop growing: whether a longer motion always costs less.

A search whose duration is many times its guess is stopped. Motions of fixed, longer and longer durations then tell: where each
costs clearly less than the one before there is no optimum; else the search runs again, unwatched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.nlp import Warm
from ocp.problem import INF, Duration, Problem, Solution, Status
from ocp.problem.checkpoint import Pace

#: a duration is far at so many times its guess, which is looked at every so many iterations
FAR, EVERY = 100.0, 10
#: durations that are compared, in those that are far; what each must save, as a part of its own cost; how they are solved
LONGER, SAVES, TOLERANCE, ITERATIONS = (1.0, 10.0, 100.0), 0.1, 1e-6, 300
#: relative error from which on a motion on its mesh is none of the system
OFF = 0.05

#: (problem, options, longest durations of the phases or None) -> the solution, as far as it came
Attempt = Callable[[Problem, Any, "Sequence[float] | None"], Solution]


class Reach:
    """Watches a search: ends it (``left``) where a duration is longer than ``longest`` [s], and hands points to ``keep``."""

    def __init__(self, longest: Sequence[float], durations: Callable[[np.ndarray], Sequence[float]], pace: Pace | None,
                 keep: Callable[[Warm, Any], None]):
        self.longest, self.durations, self.pace, self.keep = longest, durations, pace, keep
        self.count, self.kept, self.left = 0, False, False

    def due(self) -> bool:
        self.count += 1
        self.kept = self.pace is not None and self.pace.due()
        return self.kept or self.count % EVERY == 0

    def take(self, point: Warm, rows: Any) -> None:
        if self.kept:
            self.keep(point, rows)
        if far(self.durations(point.x), self.longest):
            self.left = True
            raise KeyboardInterrupt  # as a user would end it


def far(durations: Sequence[float], longest: Sequence[float]) -> bool:
    return any(one > most for one, most in zip(durations, longest, strict=True))


def watched(attempt: Attempt, error: Callable[[Solution, Any], float]) -> Callable[[Problem, Any], Solution]:
    """The attempt, which ends with Status.UNBOUNDED where durations without an upper end grow and longer motions always cost less.

    error: of a motion on the mesh of these options, relative."""
    def run(problem: Problem, options: Any) -> Solution:
        longest = [FAR * p.duration.guess if p.duration.free and p.duration.upper == INF and p.steps is None else INF
                   for p in problem.phases]
        if min(longest) == INF:
            return attempt(problem, options, None)
        found = attempt(problem, options, longest)
        spans = [float(part.t[-1] - part.t[0]) for part in found.parts or (found.trajectory,)]
        left = found.status is Status.DIVERGED or (found.status is not Status.INTERRUPTED and far(spans, longest))
        if left and (told := _falls(problem, options, attempt, error, [a > b for a, b in zip(spans, longest, strict=True)])):
            return replace(found, status=Status.UNBOUNDED, message=told)
        return attempt(problem, options, None) if left and found.status is not Status.CONVERGED else found

    return run


def _falls(problem: Problem, options: Any, attempt: Attempt, error: Callable[[Solution, Any], float], grown: Sequence[bool]) -> str:
    """In words that longer motions cost less and less; "" where they do not, or are none."""
    once = replace(options, max_iterations=min(ITERATIONS, options.max_iterations), tolerance=max(TOLERANCE, options.tolerance))
    costs: list[float] = []
    words: list[str] = []
    for times in LONGER:
        held = tuple(replace(p, duration=Duration(*3 * (times * FAR * p.duration.guess,))) if own else p
                     for p, own in zip(problem.phases, grown, strict=True))
        found = attempt(replace(problem, phases=held), once, None)
        if found.status is not Status.CONVERGED or not error(found, once) <= OFF:
            return ""
        if costs and not found.objective < costs[-1] - SAVES * abs(costs[-1]):
            return ""
        costs.append(found.objective)
        words.append(f"{found.objective:.4g} at {sum(p.duration.guess for p, g in zip(held, grown, strict=True) if g):.4g} s")
    names = [repr(p.name) for p, own in zip(problem.phases, grown, strict=True) if own]
    whose = f" of {' and '.join(names)}" if len(problem.phases) > 1 else ""
    return (f"The duration{whose} grows without end, for a longer motion always costs less: {', '.join(words)}. Give the duration "
            "an upper end, or time a cost.")
