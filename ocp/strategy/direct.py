"""Direct methods in the search for an answer: programs from guesses of the cascade, and passes with error estimates."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ocp.guesses.table import Probe, guessed
from ocp.interrupts import Progress
from ocp.nlp import NLP, NLPResult, Warm, worst_violations
from ocp.problem import Problem, Solution, Status, Trajectory
from ocp.problem.checkpoint import Keep, Outside, text
from ocp.reductions import fit_guess
from ocp.strategy.programs import Programs
from ocp.strategy.records import Attempt, Judged, State, Task
from ocp.strategy.search import Method, Refinement, Search
from ocp.strategy.solved import with_parts
from ocp.thresholds import BUDGETS
from ocp.transcription.direct import Begin, Optimality, Polish
from ocp.transcription.freeze import frozen
from ocp.transcription.mesh import Compressed, Mesh
from ocp.transcription.program import Transcription
from ocp.transcription.refine.arcs import Jump, duration_of
from ocp.transcription.refine.carry import carried
from ocp.transcription.refine.margins import Bounds, bounds_of, tightened
from ocp.transcription.refine.plan import Family, Plans, plans_text
from ocp.transcription.refine.smooth import Smoothed, linear_controls, smoothed
from ocp.transcription.refine.switches import jumps_of
from ocp.transcription.repeated import crowded

#: columns of ``Solution.extra["refinement"]``
COLUMNS = ("pass", "intervals", "lowest degree", "highest degree", "unknowns", "objective", "error", "accumulated error",
           "objective error", "seconds")


class Direct(Method):
    """A direct method: its programs, and the meshes of its options (None: those of ``transcribe``)."""

    def __init__(self, name: str, programs: Programs, meshes: Callable[[Problem], Sequence[Mesh | Compressed]] | None = None):
        self.name, self.programs, self.meshes = name, programs, meshes

    def probe(self, search: Search, task: Task, problem: Problem, intervals: int) -> Solution:
        """A coarse solve."""
        return self._programs(task).probe(problem, intervals, search.outside.progress)

    def error(self, found: Solution, intervals: int) -> float:
        """The relative error of a coarse solution; 0 without an estimate."""
        if self.programs.error is None:
            return 0.0
        options = replace(self.programs.options, intervals=intervals)
        return self.programs.error(found, replace(options, mesh="uniform") if hasattr(options, "mesh") else options, None)

    def _programs(self, task: Task) -> Programs:
        options = self.programs.options
        options = options if task.scaling is None else replace(options, scaling=task.scaling)
        most = options.max_iterations if task.max_iterations is None else min(task.max_iterations, options.max_iterations)
        return replace(self.programs, options=replace(options, max_iterations=most))

    def started(self, search: Search, task: Task, guess: str) -> Problem | None:
        """The task's problem with the guess of this name; None if it does not exist for this problem."""
        coarse: Probe = lambda problem, intervals: self.probe(search, replace(task, max_iterations=None), problem, intervals)  # noqa: E731
        found = guessed(search.problem, guess, coarse)
        return None if found is None else fit_guess(found)

    def attempt(self, search: Search, state: State) -> Attempt:
        """Solve the task of the state, with error estimates if the mesh is refined."""
        task, refinement = state.task, search.refinement
        if refinement is None:
            meshes = None if self.meshes is None else self.meshes(search.problem)
            outside = Outside(_numbered(search.outside.progress, len(state.log)), search.outside.checkpoint, task.resume)
            found = self._programs(task).solve(task.problem, meshes, outside=outside)
            return Attempt(task, _named(found, task), _missed(found))
        return self._pass(search, refinement, state)

    def _pass(self, search: Search, refinement: Refinement, state: State) -> Attempt:
        """One program on a mesh that is refined."""
        task, began = state.task, time.perf_counter()
        meshes = refinement.family.meshes(search.problem, task.plans)
        smooth, polish = smoothing(task.problem, task.plans, refinement.family) if refinement.smooths else ([], None)
        bounds: list[Bounds] = []

        def change(program: Transcription) -> Transcription:
            bounds.append(bounds_of(program.nlp))
            rows = [own.path_names for own in refinement.estimator.phases]
            return tightened(program, search.problem, meshes, task.margins, rows)

        limited = task.warm and search.alternative and not state.fired("zero_order_hold")
        own = replace(task, max_iterations=BUDGETS.max_iterations) if limited else task
        found = self._programs(own).solve(
            task.problem, meshes, outside=Outside(_numbered(search.outside.progress, len(state.log), task.number),
                                                  _with_meshes(search.outside.checkpoint, task.plans), task.resume),
            polish=polish, begin=self._beginning(search, refinement, state, meshes), change=change)
        found = _named(found, task)
        if found.status is not Status.CONVERGED:
            return Attempt(task, found, _missed(found))
        return _judged(search, refinement, state, found, meshes, smooth, bounds[-1], began)

    def _beginning(self, search: Search, refinement: Refinement, state: State, meshes: Sequence[Mesh]) -> Begin | None:
        """The start of the program on new meshes from multipliers of the last pass."""
        if not state.task.warm or not refinement.carry:
            return None
        last = state.passes[-1]
        found = last.solution.optimality
        return None if found is None else from_multipliers(
            found, search.problem, refinement.family.meshes(search.problem, last.task.plans), meshes)

    def on_arcs(self, search: Search, task: Task, problem: Problem, plans: Plans, meshes: Sequence[Mesh]) -> Solution:
        """The problem with its phases cut into arcs, on meshes of its own."""
        assert search.refinement is not None
        return self.programs.solve(problem, meshes, polish=smoothing(problem, plans, search.refinement.family, True)[1])

    def final(self, search: Search, state: State) -> bool:
        """Whether neither another guess nor another mesh can change the outcome of the last attempt."""
        task, found = state.task, state.last.solution
        if task.beside is not None:
            return False
        lost = found.status is Status.NOT_A_NUMBER and not task.warm and not (search.auto and at_guess(found))
        return lost or found.status is Status.UNBOUNDED or rejected(search.problem, found)

    def frozen(self, search: Search, found: Solution) -> Solution:
        """The solution with the chosen value of every automatic option."""
        return frozen(found, search.options)


def _judged(search: Search, refinement: Refinement, state: State, found: Solution, meshes: Sequence[Mesh],
            smooth: Sequence[tuple[Smoothed, tuple[Trajectory, ...]]], bounds: Bounds, began: float) -> Attempt:
    """The attempt with its errors, the verdict on them, and where its controls jump."""
    task = state.task
    estimate = refinement.estimator.estimate(found, meshes, [plan.jumps for plan in task.plans])
    before = state.verdicts[-1].verdict if state.verdicts else None
    verdict = refinement.criterion.look(found, estimate, task.plans, task.margins, before)
    found = verdict.solution
    singular, guide = smooth[-1] if smooth else (None, ())
    degrees = [d for plan in task.plans for d in plan.degrees]
    unknowns = len(found.optimality.x) if found.optimality is not None else 0
    row = (float(task.number), float(len(degrees)), float(min(degrees)), float(max(degrees)), float(unknowns), found.objective,
           estimate.largest, estimate.accumulated, estimate.objective, time.perf_counter() - began)
    controls = guide if singular is not None and singular.guide is not None else ()
    jumps = _jumps(search, refinement, task, found, controls, meshes)
    ramps = refinement.family.controls == "linear"
    return Attempt(task, found, judged=Judged(estimate, verdict, row, singular, guide, () if ramps else jumps, bounds,
                                              _times(found, jumps) if ramps else ()))


def _jumps(search: Search, refinement: Refinement, task: Task, found: Solution, guide: tuple[Trajectory, ...],
           meshes: Sequence[Mesh]) -> tuple[tuple[Jump, ...], ...]:
    """Jumps of the controls of the solution or of the smoothed ones, whichever has more."""
    if not refinement.switches or not refinement.smooths:
        return ()
    own = jumps_of(search.problem, found, task.plans, meshes)
    other = jumps_of(search.problem, with_parts(found, guide), task.plans, meshes, True) if guide else []
    return tuple(map(tuple, other if sum(map(len, other)) > sum(map(len, own)) else own))


def _times(solution: Solution, jumps: Sequence[Sequence[Jump]]) -> tuple[float, ...]:
    """Times of jumps [s]."""
    parts = solution.parts or (solution.trajectory,)
    return tuple(float(part.t[0]) + jump.fraction * duration_of(part)
                 for part, own in zip(parts, jumps, strict=True) for jump in own) if jumps else ()


def from_multipliers(left: Optimality, problem: Problem, before: Sequence[Mesh], after: Sequence[Mesh]) -> Begin:
    """The start of a program on some meshes from the multipliers of a solution on others."""
    names = [phase.name for phase in problem.phases] if len(after) > 1 else [""]
    meshes = dict(zip(names, zip(before, after, strict=True), strict=True))
    return lambda program: carried(left.nlp, left.lam_x, left.lam_g, program.nlp, meshes)


def smoothing(problem: Problem, plans: Plans, family: Family, near: bool = False
              ) -> tuple[list[tuple[Smoothed, tuple[Trajectory, ...]]], Polish | None]:
    """(a list that receives the outcome of smoothing and the trajectories of its guide; the function that smooths a solution on
    these meshes)."""
    linear = [linear_controls(phase) for phase in problem.phases] if family.controls == "polynomial" else []
    found: list[tuple[Smoothed, tuple[Trajectory, ...]]] = []
    if not any(own.any() for own in linear):
        return found, None

    def polish(program: Transcription, result: NLPResult, solve: Callable[[NLP, Warm], NLPResult]) -> NLPResult:
        meshes = [mesh for mesh in program.meshes if isinstance(mesh, Mesh)]
        new = smoothed(problem, program.nlp, meshes, plans, linear, result, family.tolerance, solve, near)
        found.append((new, () if new.guide is None else program.parts(new.guide)))
        return new.result

    return found, polish


def at_guess(found: Solution) -> bool:
    """Whether a solve ended at its initial guess."""
    return len(found.iterations) <= 1


def rejected(problem: Problem, found: Solution) -> bool:
    """Whether the solver refused the program, because it has more path equations than controls."""
    return found.status is Status.FAILED and not any(row["iteration"] for row in found.iterations) and crowded(problem)


def left_over(solution: Solution) -> float:
    """The largest violation of the program at the end of an attempt."""
    worst = worst_violations(solution.optimality.nlp, solution.optimality.x, 1)
    return worst[0][1] if worst else 0.0


def _missed(found: Solution) -> tuple[float, ...]:
    return (0.0,) if found.status is Status.CONVERGED else (left_over(found),)


def _named(found: Solution, task: Task) -> Solution:
    """The solution with the name of the guess that led to it, if a guess was chosen."""
    if found.status is not Status.CONVERGED or task.begun is None:
        return found
    return replace(found, freeze={**found.freeze, "guess": task.guess})


def _numbered(progress: Progress | None, first: int, number: int | None = None) -> Progress | None:
    """A progress callback with continuous iteration numbers and the name of the pass."""
    if progress is None:
        return None
    own: dict[str, float] = {} if number is None else {"pass": float(number)}
    return lambda row: progress({**row, **own, "iteration": row["iteration"] + first})


def _with_meshes(checkpoint: Keep | None, plans: Plans) -> Keep | None:
    if checkpoint is None:
        return None
    return lambda arrays: checkpoint({**arrays, "mesh": text([plans_text(plans)])})
