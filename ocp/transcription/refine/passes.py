"""What passes of a refinement are made of: the family of meshes, one pass, what it asks for, and how it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ocp.problem import Guess, Phase, Problem, Solution, Trajectory
from ocp.problem.checkpoint import Checkpoint, Keep
from ocp.transcription.charts import form
from ocp.transcription.direct import Begin, Polish
from ocp.transcription.mesh import Compressed, Mesh
from ocp.transcription.program import Transcription
from ocp.transcription.refine.error import Estimate, PhaseErrors
from ocp.transcription.refine.plan import Plan, plan_mesh
from ocp.transcription.refine.policy import Rules

Progress = Callable[[dict[str, float]], Any]
Plans = tuple[Plan, ...]

#: columns of ``Solution.extra["refinement"]``
COLUMNS = ("pass", "intervals", "lowest degree", "highest degree", "unknowns", "objective", "error", "accumulated error",
           "objective error", "seconds")


@dataclass(frozen=True)
class Family:
    """What all intervals share: the names of scheme, form of defects, shape of controls and form of states; tolerance: of
    programs."""

    scheme: str
    form: str
    controls: str
    states: str
    tolerance: float = 1e-9

    def meshes(self, problem: Problem, plans: Plans) -> tuple[Mesh, ...]:
        return tuple(plan_mesh(plan, self.scheme, self.form, self.controls, form(phase.system.space, self.states).tangent)
                     for phase, plan in zip(problem.phases, plans, strict=True))


@dataclass(frozen=True)
class Settings:
    """rules: of the policy; most: passes; switches: whether edges are put and moved to where controls jump; ladder: whether the
    first pass climbs the ladder of guesses, and not only once all else has failed; carry: whether passes begin with multipliers of
    the one before; hopeless: why no other guess or mesh is worth a try after a first pass that failed, or ""; chatter: whether the
    loop ends as soon as linear controls chatter, and pauses after the first program that is hard to solve; brief: whether it ends
    at one that is not solved."""

    rules: Rules
    most: int
    switches: bool
    ladder: bool
    carry: bool = True
    hopeless: Callable[[Ask, Solution], str] = lambda ask, found: ""
    chatter: bool = False
    brief: bool = False


@dataclass(frozen=True, eq=False)
class Ask:
    """A program to solve: a problem on meshes. show, keep, warm: progress, checkpoint and where to resume; ladder: whether the
    ladder of guesses is climbed, given: what its first rung came to; polish, begin: as ``solve_program`` says; change: made to the
    program before it is solved; scaling, most: instead of those of the options, most iterations."""

    problem: Problem
    meshes: Sequence[Mesh | Compressed]
    show: Progress | None = None
    keep: Keep | None = None
    warm: Checkpoint | None = None
    ladder: bool = False
    polish: Polish | None = None
    begin: Begin | None = None
    change: Callable[[Transcription], Transcription] | None = None
    given: Solution | None = None
    scaling: str | None = None
    most: int | None = None


Run = Callable[[Ask], Solution]


@dataclass(frozen=True, eq=False)
class Pass:
    """A finished pass: its meshes as plans, solution, estimated errors, and the errors that decide, phase by phase, beside the
    tolerance of the rules; worst: the largest of these, what margins are to mend included."""

    plans: Plans
    solution: Solution
    estimate: Estimate
    errors: tuple[PhaseErrors, ...]
    row: tuple[float, ...]
    worst: float

    @property
    def largest(self) -> float:
        return float(max(np.max(errors.total) for errors in self.errors))


def row_of(number: int, plans: Plans, solution: Solution, estimate: Estimate, seconds: float) -> tuple[float, ...]:
    degrees = [d for plan in plans for d in plan.degrees]
    unknowns = len(solution.optimality.x) if solution.optimality is not None else 0
    return (float(number), float(len(degrees)), float(min(degrees)), float(max(degrees)), float(unknowns), solution.objective,
            estimate.largest, estimate.accumulated, estimate.objective, seconds)


def size_of(plans: Plans) -> str:
    degrees = [d for plan in plans for d in plan.degrees]
    low, high = min(degrees), max(degrees)
    return f"{len(degrees)} intervals of degree {low}" + ("" if low == high else f" to {high}")


def sentence(passes: Sequence[Pass], problem: Problem, words: str) -> str:
    """The last pass in words; words: what its error is."""
    last = passes[-1]
    of = dict(zip(COLUMNS, last.row, strict=True))
    change = f", {of['objective'] - passes[-2].row[5]:+.2g} against the pass before" if len(passes) > 1 else ""
    return (f"pass {int(of['pass'])}: {size_of(last.plans)}, {int(of['unknowns'])} unknowns, objective {of['objective']:.10g} "
            f"(error of the mesh about {of['objective error']:+.2g}{change}), {words}, {of['seconds']:.2f} s")


def continued(problem: Problem, parts: Sequence[Trajectory], solved: Problem, meshes: Sequence[Mesh]) -> Problem:
    """The same problem with trajectories of its phases as its guess, sampled where the meshes have states and controls, and with
    the parameters of the problem as it was solved."""
    return replace(problem, phases=tuple(_from_solution(phase, found, part, mesh) for phase, found, part, mesh in zip(
        problem.phases, solved.phases, parts, meshes, strict=True)))


def _from_solution(phase: Phase, found: Phase, part: Trajectory, mesh: Mesh) -> Phase:
    s = np.unique(np.concatenate([[0.0], mesh.fractions, mesh.control_fractions, [1.0]]))
    s = s[np.r_[True, np.diff(s) > 1e-14]]
    s[-1] = 1.0
    start, T = float(part.t[0]), float(part.t[-1] - part.t[0])
    times = np.clip(start + T * s, part.t[0], part.t[-1])
    controls = _sides(part, mesh, s, start, T)
    duration = replace(phase.duration, guess=T) if phase.duration.free else phase.duration
    system = replace(phase.system, parameter_values=found.system.parameter_values)
    return replace(phase, guess=Guess(s, np.asarray(part.state(times)), controls), duration=duration, system=system)


def _sides(part: Trajectory, mesh: Mesh, s: np.ndarray, start: float, T: float) -> np.ndarray:
    """Controls at the fractions s; at an edge the value of the side that has a control point there."""
    from_left = mesh.shapes[0].points[-1] == 1.0
    at_edge = np.min(np.abs(s[:, None] - mesh.edges[None, 1:]), axis=1) < 1e-13
    moved = np.where(at_edge & from_left, s - 1e-10, s)
    return np.asarray(part.control(np.clip(start + T * moved, part.t[0], part.t[-1]))).reshape(len(s), -1)
