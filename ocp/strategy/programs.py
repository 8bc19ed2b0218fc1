"""The nonlinear programs of one problem by a direct method, each solved from one guess.
The growth of a duration without an upper bound is guarded: a search in which it grows far beyond its guess is stopped. Motions of
fixed, increasing durations then decide. If each costs clearly less than the one before, the problem is unbounded; otherwise the
search runs again without the guard.

"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ocp.interrupts import Progress
from ocp.nlp.scaling_text import rule
from ocp.problem import INF, Duration, Finding, Kind, Problem, Solution, Status
from ocp.problem.checkpoint import NOBODY, Outside
from ocp.thresholds import BUDGETS, DIAGNOSES, ROUNDING
from ocp.transcription.direct import Begin, Polish, solve_program
from ocp.transcription.duration_guard import far
from ocp.transcription.mesh import Compressed, Mesh
from ocp.transcription.program import Transcription

Change = Callable[[Transcription], Transcription]


@dataclass(frozen=True, eq=False)
class Programs:
    """Solves problems as nonlinear programs. transcribe(problem, options, meshes, centres): the program, on uniform meshes if none
    are given; error(solution, options, meshes): the relative error of a motion on its mesh; None: durations are not guarded."""

    method: str
    options: Any
    transcribe: Callable[..., Transcription]
    error: Callable[[Solution, Any, Sequence[Mesh | Compressed] | None], float] | None = None

    def solve(self, problem: Problem, meshes: Sequence[Mesh | Compressed] | None = None, *, options: Any = None,
              outside: Outside = NOBODY, polish: Polish | None = None, begin: Begin | None = None,
              change: Change | None = None) -> Solution:
        """The solution of one program; outside, polish, begin: see ``solve_program``; change: applied to the program before the
        solve."""
        own = self.options if options is None else options

        def attempt(posed: Problem, chosen: Any, longest: Sequence[float] | None = None) -> Solution:
            def made(centres: Sequence[np.ndarray] | None = None) -> Transcription:
                program = self.transcribe(posed, chosen, meshes, centres)
                return program if change is None else change(program)

            return solve_program(posed, self.method, chosen, made, outside, polish, begin, longest)

        longest = _longest(problem) if self.error is not None and begin is None and outside.resume is None else [INF]
        if min(longest) == INF:
            return attempt(problem, own)
        found = attempt(problem, own, longest)
        spans = [float(part.t[-1] - part.t[0]) for part in found.parts or (found.trajectory,)]
        left = found.status is Status.DIVERGED or (found.status is not Status.INTERRUPTED and far(spans, longest))
        grown = [a > b for a, b in zip(spans, longest, strict=True)]
        if left and (unbounded := self._unbounded(problem, own, meshes, attempt, grown)):
            return replace(found, status=Status.UNBOUNDED, ending=unbounded)
        return attempt(problem, own) if left and found.status is not Status.CONVERGED else found

    def probe(self, problem: Problem, intervals: int, show: Progress | None = None) -> Solution:
        """A coarse solution on so many equal intervals."""
        options = replace(self.options, intervals=intervals, guess="given", scaling=rule(self.options.scaling),
                          tolerance=max(BUDGETS.coarse_tolerance, self.options.tolerance),
                          max_iterations=min(BUDGETS.max_iterations, self.options.max_iterations))
        return self.solve(problem, options=replace(options, mesh="uniform") if hasattr(options, "mesh") else options,
                          outside=Outside(show))

    def _unbounded(self, problem: Problem, options: Any, meshes: Sequence[Mesh | Compressed] | None,
                   attempt: Callable[..., Solution], grown: Sequence[bool]) -> Finding | None:
        """The finding that longer motions always cost less; None if they do not, or do not exist."""
        assert self.error is not None
        far_duration = DIAGNOSES.far_duration
        once = replace(options, max_iterations=min(BUDGETS.max_iterations, options.max_iterations),
                       tolerance=max(ROUNDING.resolution, options.tolerance))
        costs: list[float] = []
        spans: list[float] = []
        for times in (1.0, far_duration**0.5, far_duration):
            fixed = tuple(replace(p, duration=Duration(*3 * (times * far_duration * p.duration.guess,))) if own else p
                          for p, own in zip(problem.phases, grown, strict=True))
            found = attempt(replace(problem, phases=fixed), once)
            if found.status is not Status.CONVERGED or not self.error(found, once, meshes) <= DIAGNOSES.max_rel_difference:
                return None
            if costs and not found.objective < costs[-1] - DIAGNOSES.min_saving * abs(costs[-1]):
                return None
            costs.append(found.objective)
            spans.append(sum(p.duration.guess for p, own in zip(fixed, grown, strict=True) if own))
        names = tuple(p.name for p, own in zip(problem.phases, grown, strict=True) if own) if len(problem.phases) > 1 else ()
        return Finding(Kind.UNBOUNDED_DURATION, data={"phases": names, "durations": tuple(spans), "costs": tuple(costs)})


def _longest(problem: Problem) -> list[float]:
    """Upper limits of durations [s] at which a search is stopped; infinite if a phase is not guarded."""
    return [DIAGNOSES.far_duration * p.duration.guess if p.duration.free and p.duration.upper == INF and p.steps is None else INF
            for p in problem.phases]
