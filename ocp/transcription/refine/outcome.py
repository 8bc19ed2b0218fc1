"""What a refinement hands back: the solution of its best pass, why it ended, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ocp.interrupts import asked, late
from ocp.problem import Problem, Solution, Status
from ocp.problem.checkpoint import text
from ocp.transcription.refine.passes import COLUMNS, Family, Pass, Plans
from ocp.transcription.refine.plan import plans_text
from ocp.transcription.refine.policy import Rules

#: why a refinement ended before it was good
REASONS = {
    "passes": "the {number} passes are used up; raise max_passes",
    "stalled": "the last two passes hardly lowered the error, and no longer changed the objective",
    "degrees": "no rule allows a finer mesh; raise max_degree, or take refine hp or h",
    "chattering": "singular controls chattered in the last passes; take scheme gauss or radau with refine hp, or give them a small "
                  "cost",
    "jump": "what is left is when the motion crosses a jump, which no mesh chooses",
    "fast": "running costs turn too often for intervals to follow",
    "hard": "a program was hard to solve",
    "ringing": "controls chattered, which the objective hardly feels",
}


@dataclass
class Told:
    """What passes said so far: sentences, the log of iterations, seconds, and the rung of the ladder that served."""

    begun: float
    words: list[str] = field(default_factory=list)
    log: list[Mapping[str, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    rung: str = "given"
    ramps: tuple[str, ...] = ()

    def heard(self, solution: Solution, number: int) -> None:
        self.rung = solution.freeze.get("guess", self.rung)
        first = len(self.log)
        self.log += [{**row, "pass": float(number), "iteration": first + i} for i, row in enumerate(solution.iterations)]
        for key, value in solution.seconds.items():
            self.seconds[key] = self.seconds.get(key, 0.0) + value


def finished(problem: Problem, passes: Sequence[Pass], last: Solution, plans: Plans, family: Family, rules: Rules, stopped: str,
             told: Told, drawn: float | None) -> Solution:
    """stopped: "" where all is well, "failed", "interrupted" or one of ``REASONS``; drawn: what margins of bounds
    cost; None where there are none, so that the mesh alone gives the solve again."""
    best = passes[-1] if passes else None
    chosen = last if best is None else best.solution
    certified = rules.kind == "certificate"
    status, message = chosen.status, chosen.message
    if stopped == "interrupted" and best is not None and late() and not asked():
        status = chosen.status if certified else Status.MESH_TOLERANCE
        message = f"The time limit was reached; the last finished pass is returned, number {int(best.row[0])}."
    elif stopped == "interrupted":
        status = Status.INTERRUPTED
        message = f"The last finished pass is returned, number {int(best.row[0])}." if best is not None else message
    elif stopped == "failed" and best is not None:
        status, message = last.status, f"A refined mesh failed: {last.message} The last pass that converged is returned."
    elif stopped and best is not None and certified:
        until = "The mesh was refined until" if len(passes) > 1 else "The mesh was not refined:"
        message = f"{message} {until} {_why(stopped, best)}.".strip()
    elif stopped and best is not None:
        status = Status.MESH_TOLERANCE
        message = (f"Mesh refinement did not reach its tolerance {rules.tolerance:.3g}: {best.estimate.where(problem)}; "
                   f"{_why(stopped, best)}.")
    notes = [*chosen.notes, *told.words, *told.ramps]
    if drawn is not None:
        notes.append("bounds and constraints that motions overshot between nodes are drawn in there by what was measured, which "
                     f"costs about {drawn:.2g} of the objective (multipliers times margins)")
    if best is not None and not stopped and not certified and best.estimate.largest > rules.tolerance:
        message = (f"{message} The program is solved; the mesh tolerance {rules.tolerance:.3g} was not reached: the error estimate "
                   f"is {best.estimate.where(problem)}.").strip()
        notes.append(f"tolerance_mesh {rules.tolerance:.3g} was not reached, the last error estimate is "
                     f"{best.estimate.where(problem)}: motions are accurate to {best.estimate.motion:.2g}, but the shape of "
                     "controls is not determined to more; another mesh no longer changed the objective")
    extra = dict(chosen.extra) | {"refinement": np.array([p.row for p in passes]).reshape(-1, len(COLUMNS)),
                                  "refinement_columns": text(COLUMNS)}
    if drawn is not None:
        extra["margins_cost"] = np.array([drawn])
    freeze = dict(chosen.freeze)
    if best is not None:
        mesh = plans_text(best.plans)
        freeze |= {"scheme": family.scheme, "mesh": mesh, "refine": "none" if drawn is None else "certificate",
                   "guess": told.rung}
        extra["refinement_mesh"] = text([mesh])
        for phase, errors in zip(problem.phases, best.estimate.phases, strict=True):
            extra[f"{phase.name}.refinement_error" if len(problem.phases) > 1 else "refinement_error"] = errors.total
    solved = replace(problem, phases=tuple(
        replace(phase, system=replace(phase.system, parameter_values=found.system.parameter_values))
        for phase, found in zip(problem.phases, chosen.problem.phases, strict=True)))
    return replace(chosen, problem=solved, status=status, message=message, notes=tuple(notes), extra=extra, freeze=freeze,
                   iterations=tuple(told.log), seconds={**told.seconds, "total": time.perf_counter() - told.begun})


def _why(stopped: str, best: Pass) -> str:
    return REASONS[stopped].format(number=int(best.row[0]))
