"""Solve, estimate, refine, and solve again from there, until every interval is as accurate as asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ocp.nlp import NLP, NLPResult, Warm
from ocp.problem import Guess, Phase, Problem, Solution, Status, Trajectory, join
from ocp.problem.checkpoint import Checkpoint, Keep, text
from ocp.transcription.charts import form
from ocp.transcription.direct import Begin, Polish
from ocp.transcription.mesh import Mesh
from ocp.transcription.program import Transcription
from ocp.transcription.refine.arcs import Jump, duration_of
from ocp.transcription.refine.carry import carried
from ocp.transcription.refine.error import Estimate, Estimator
from ocp.transcription.refine.plan import Plan, plan_mesh, plans_text, read_plans
from ocp.transcription.refine.policy import AIM, Rules, halved, next_plan
from ocp.transcription.refine.smooth import Smoothed, linear_controls, smoothed
from ocp.transcription.refine.switches import jumps_of, located, shift, unplaced

Progress = Callable[[dict[str, float]], Any]
#: (problem, meshes, progress, checkpoint, resume, whether the ladder of guesses is climbed, polish, begin) -> the
#: solution on these meshes
Run = Callable[[Problem, Sequence[Mesh], "Progress | None", "Keep | None", "Checkpoint | None", bool, "Polish | None",
                "Begin | None"], Solution]
Plans = tuple[Plan, ...]

#: columns of ``Solution.extra["refinement"]``
COLUMNS = ("pass", "intervals", "lowest degree", "highest degree", "unknowns", "objective", "error", "accumulated error",
           "objective error", "seconds")
#: passes that may fail to converge, each followed by one on a finer mesh, before the ladder of guesses is climbed
FAILURES = 2
#: passes whose singular controls chatter after which the loop ends
CHATTERING = 4
#: passes without progress after which the loop ends
STALL = 2


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


@dataclass(frozen=True, eq=False)
class Pass:
    """A finished pass: its meshes as plans, solution and errors."""

    plans: Plans
    solution: Solution
    estimate: Estimate
    row: tuple[float, ...]


@dataclass(frozen=True)
class Settings:
    """rules: of the policy; most: passes; switches: whether edges are put and moved to where controls jump; ladder: whether the
    first pass climbs the ladder of guesses, and not only once all else has failed; carry: whether passes begin with multipliers of
    the one before."""

    rules: Rules
    most: int
    switches: bool
    ladder: bool
    carry: bool = True


def refine(problem: Problem, family: Family, plans: Plans, settings: Settings, run: Run, progress: Progress | None = None,
           checkpoint: Keep | None = None, resume: Checkpoint | None = None) -> Solution:
    """The solution of the last pass, or, where the user interrupts, of the last finished one; plans: the first mesh of each phase.

    ``extra["refinement"]`` [passes, columns] with ``extra["refinement_columns"]`` is the log of passes, and notes tell it in words
    and give the final mesh as text. Where only the controls' own shape misses the tolerance and the objective no longer changes
    with the mesh, as along singular arcs, that is the end, and a note says so. A pass that does not converge is tried again from
    the guess and on meshes cut in two.
    Status.ITERATION_LIMIT where the passes end, or refining makes no progress, before every interval reaches the tolerance.
    """
    rules, most = settings.rules, settings.most
    begun = time.perf_counter()
    if resume is not None and "mesh" in resume:
        plans = read_plans(str(resume["mesh"][0]), [phase.name for phase in problem.phases], family.scheme, "checkpoint")
    estimator = Estimator(problem, [form(phase.system.space, family.states) for phase in problem.phases])
    passes: list[Pass] = []
    told: list[str] = []
    log: list[Mapping[str, float]] = []
    spent: dict[str, float] = {}
    chattering, ramps = 0, tuple[str, ...]()
    failures, stopped, warm, settled, ladder, rung = 0, "", False, False, settings.ladder, "given"
    current = problem
    solution: Solution | None = None
    number = 0
    while True:
        number += 1
        started = time.perf_counter()
        meshes = family.meshes(problem, plans)
        try:
            smooth, polish = _smoothing(current, plans, family)
            solution = run(current, meshes, _numbered(progress, number, len(log)), _kept(checkpoint, plans), resume, ladder, polish,
                           _beginning(passes[-1], meshes, problem, family) if warm and settings.carry else None)
        except KeyboardInterrupt:
            if not passes:
                raise
            stopped = "interrupted"
            break
        resume, climbed, ladder = None, ladder, False
        rung = solution.freeze.get("guess", rung)
        log += [{**row, "pass": float(number), "iteration": len(log) + i} for i, row in enumerate(solution.iterations)]
        for key, value in solution.seconds.items():
            spent[key] = spent.get(key, 0.0) + value
        if solution.status is Status.INTERRUPTED:
            stopped = "interrupted"
            break
        if solution.status is not Status.CONVERGED:
            failures += 1
            told.append(f"pass {number}: {_size(plans)}: {solution.status.name.lower().replace('_', ' ')}")
            if climbed or number >= most:
                stopped = "failed"
                break
            if failures > FAILURES:
                current, warm, ladder = problem, False, True
            elif warm:  # the same mesh once more, from the guess
                current, warm = problem, False
            else:
                plans = tuple(halved(plan) for plan in plans)
            continue
        estimate = estimator.estimate(solution, meshes, [plan.jumps for plan in plans])
        seconds = time.perf_counter() - started
        row = _row(number, plans, solution, estimate, seconds)
        passes.append(Pass(plans, solution, estimate, row))
        told.append(_sentence(row, estimate, solution.problem, passes))
        singular = smooth[-1][0] if smooth else None
        told += [f"pass {number}: {singular.told}"] if singular is not None and singular.told else []
        chattering = chattering + 1 if singular is not None and singular.told and not singular.solved else 0
        # smoothed controls are determined: what their shape lacks is for the mesh to mend
        shaped = singular is not None and singular.solved
        accurate = estimate.largest <= rules.tolerance or (not shaped and _undetermined(passes, rules))
        guided = solution if singular is None or singular.guide is None else _with_parts(solution, smooth[-1][1])
        jumps = _jumps(problem, guided, solution, plans, meshes) if settings.switches and family.controls != "linear" else []
        ramps = _ramps(problem, solution, plans, meshes) if settings.switches and family.controls == "linear" else ()
        jump = bool(jumps) and (unplaced(plans, jumps) or (not settled and _rough(plans, estimate, rules)))
        if accurate and not jump:
            break
        if number >= most:
            stopped = "" if accurate else "passes"
            break
        felt = shaped or len(passes) < 2 or not _same(passes[-2:], rules)  # else the objective no longer feels the controls' shape
        if chattering >= CHATTERING:
            stopped = "" if accurate else "chattering"
            break
        after = tuple(next_plan(plan, errors if felt else errors.of_motion, rules)
                      for plan, errors in zip(plans, estimate.phases, strict=True))
        parts, solved = solution.parts or (solution.trajectory,), solution.problem
        if jump:
            try:
                moved = located(problem, guided, plans, after, jumps, family.meshes,
                                lambda cut, cuts, on: run(cut, on, None, None, None, False,
                                                           _smoothing(cut, cuts, family, True)[1], None))
            except KeyboardInterrupt:
                stopped = "interrupted"
                break
            after, parts, solved = moved.plans, moved.parts, moved.problem
            settled = moved.found and shift(plans, after) <= rules.tolerance
            if accurate and not moved.found:
                break
            told += [f"pass {number}: {sentence}" for sentence in moved.notes]
        if after == plans or _stalled(passes, rules, shaped):
            fine = accurate or _undetermined(passes, rules)
            stopped = "" if fine else "degrees" if after == plans else "stalled"
            break
        current, plans, warm = continued(problem, parts, solved, family.meshes(problem, after)), after, True
    assert solution is not None
    told += ramps
    return _finished(problem, passes, solution, plans, family, rules, stopped, told, log, spent, begun, rung)


def _jumps(problem: Problem, guided: Solution, solution: Solution, plans: Plans, meshes: Sequence[Mesh]) -> list[list[Jump]]:
    """Jumps of the solution's controls or of the smoothed ones, whichever has more of them."""
    found = jumps_of(problem, solution, plans, meshes)
    other = jumps_of(problem, guided, plans, meshes, True) if guided is not solution else []
    return other if sum(map(len, other)) > sum(map(len, found)) else found


def _beginning(last: Pass, meshes: Sequence[Mesh], problem: Problem, family: Family) -> Begin | None:
    """What starts the program on new meshes with multipliers of the last pass; None with several phases."""
    found = last.solution.optimality
    if len(meshes) > 1 or found is None:
        return None
    before = family.meshes(problem, last.plans)[0]
    return lambda program: carried(found.nlp, found.lam_x, found.lam_g, before, program.nlp, meshes[0])


def _ramps(problem: Problem, solution: Solution, plans: Plans, meshes: Sequence[Mesh]) -> tuple[str, ...]:
    """What is to be said of linear controls that would jump: no edge lets them."""
    parts = solution.parts or (solution.trajectory,)
    times = [f"{float(part.t[0]) + jump.place * duration_of(part):.6g}"
             for part, own in zip(parts, jumps_of(problem, solution, plans, meshes), strict=True) for jump in own]
    return (f"controls would jump near t = {', '.join(times)} s, and linear controls cannot: these ramps are no error of the "
            "motion, but cost as much as they last; take controls polynomial or held",) if times else ()


def _smoothing(problem: Problem, plans: Plans, family: Family, near: bool = False
               ) -> tuple[list[tuple[Smoothed, tuple[Trajectory, ...]]], Polish | None]:
    """(a list that gets what smoothing found, with the trajectories of its guide; what smooths a solution on these meshes)."""
    linear = [linear_controls(phase) for phase in problem.phases] if family.controls == "polynomial" else []
    found: list[tuple[Smoothed, tuple[Trajectory, ...]]] = []
    if not any(np.any(own) for own in linear):
        return found, None

    def polish(program: Transcription, result: NLPResult, solve: Callable[[NLP, Warm], NLPResult]) -> NLPResult:
        meshes = [mesh for mesh in program.meshes if isinstance(mesh, Mesh)]
        new = smoothed(problem, program.nlp, meshes, plans, linear, result, family.tolerance, solve, near)
        found.append((new, () if new.guide is None else program.parts(new.guide)))
        return new.result

    return found, polish


def _with_parts(solution: Solution, parts: tuple[Trajectory, ...]) -> Solution:
    return replace(solution, trajectory=join(parts), parts=parts if len(parts) > 1 else ())


def _undetermined(passes: Sequence[Pass], rules: Rules) -> bool:
    """Whether all that is left is controls that the objective does not feel, as along a singular arc: motions are as accurate as
    asked, and another mesh changed the objective by less than the tolerance asks of it."""
    return len(passes) > 1 and passes[-1].estimate.motion <= rules.tolerance and _same(passes[-2:], rules)


def _stalled(passes: Sequence[Pass], rules: Rules, shaped: bool) -> bool:
    """Whether the last passes have changed the objective by next to nothing and the error by less than a factor of four: cuts at
    a kink gain more, so that finer meshes make solutions of this kind no better (chattering along singular arcs). shaped: whether
    the shape of controls counts."""
    errors = [p.estimate.largest if shaped else p.estimate.motion for p in passes]
    return len(passes) > STALL and _same(passes[-STALL:], rules) and min(errors[-STALL:]) > 0.25 * min(errors[:-STALL])


def _same(passes: Sequence[Pass], rules: Rules) -> bool:
    values = [p.solution.objective for p in passes]
    return max(values) - min(values) <= AIM * rules.tolerance * (1 + abs(values[-1]))


def _rough(plans: Plans, estimate: Estimate, rules: Rules) -> bool:
    """Whether an interval beside an edge where controls jump misses the tolerance."""
    return any(max(errors.total[k - 1], errors.total[k]) > rules.tolerance
               for plan, errors in zip(plans, estimate.phases, strict=True) for k in plan.jumps)


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


def _numbered(progress: Progress | None, number: int, first: int) -> Progress | None:
    if progress is None:
        return None
    return lambda row: progress({**row, "pass": float(number), "iteration": row["iteration"] + first})


def _kept(checkpoint: Keep | None, plans: Plans) -> Keep | None:
    if checkpoint is None:
        return None
    return lambda arrays: checkpoint({**arrays, "mesh": text([plans_text(plans)])})


def _row(number: int, plans: Plans, solution: Solution, estimate: Estimate, seconds: float) -> tuple[float, ...]:
    degrees = [d for plan in plans for d in plan.degrees]
    unknowns = len(solution.optimality.x) if solution.optimality is not None else 0
    return (float(number), float(len(degrees)), float(min(degrees)), float(max(degrees)), float(unknowns), solution.objective,
            estimate.largest, estimate.accumulated, estimate.objective, seconds)


def _size(plans: Plans) -> str:
    degrees = [d for plan in plans for d in plan.degrees]
    low, high = min(degrees), max(degrees)
    return f"{len(degrees)} intervals of degree {low}" + ("" if low == high else f" to {high}")


def _sentence(row: tuple[float, ...], estimate: Estimate, problem: Problem, passes: Sequence[Pass]) -> str:
    of = dict(zip(COLUMNS, row, strict=True))
    low, high = int(of["lowest degree"]), int(of["highest degree"])
    degrees = f"{low}" if low == high else f"{low} to {high}"
    change = f", changed by {of['objective'] - passes[-2].row[5]:+.2g}" if len(passes) > 1 else ""
    return (f"pass {int(of['pass'])}: {int(of['intervals'])} intervals of degree {degrees}, {int(of['unknowns'])} unknowns, "
            f"objective {of['objective']:.10g} (weighted defects {of['objective error']:+.2g}{change}), error "
            f"{estimate.where(problem)}, {of['seconds']:.2f} s")


def _finished(problem: Problem, passes: Sequence[Pass], last: Solution, plans: Plans, family: Family, rules: Rules, stopped: str,
              told: Sequence[str], log: Sequence[Mapping[str, float]], spent: Mapping[str, float], begun: float,
              rung: str) -> Solution:
    best = passes[-1] if passes else None
    chosen = last if best is None else best.solution
    status, message = chosen.status, chosen.message
    if stopped == "interrupted":
        status = Status.INTERRUPTED
        message = f"The last finished pass is returned, number {int(best.row[0])}." if best is not None else message
    elif stopped == "failed" and best is not None:
        status, message = last.status, f"A refined mesh failed: {last.message} The last pass that converged is returned."
    elif stopped and best is not None:
        reason = {"passes": f"the {int(best.row[0])} passes are used up; raise max_passes",
                  "stalled": f"the last {STALL} passes hardly lowered the error, and no longer changed the objective",
                  "degrees": "no rule allows a finer mesh; raise max_degree, or take refine hp or h",
                  "chattering": f"singular controls chattered in the last {CHATTERING} passes; take scheme gauss or radau with "
                                "refine hp, or give them a small cost"}[stopped]
        status = Status.ITERATION_LIMIT
        message = f"Mesh refinement did not reach its tolerance {rules.tolerance:.3g}: {best.estimate.where(problem)}; {reason}."
    notes = [*chosen.notes, *told]
    if best is not None and not stopped and best.estimate.largest > rules.tolerance:
        message = (f"{message} The program is solved; the mesh tolerance {rules.tolerance:.3g} was not reached: the error estimate "
                   f"is {best.estimate.where(problem)}.").strip()
        notes.append(f"tolerance_mesh {rules.tolerance:.3g} was not reached, the last error estimate is "
                     f"{best.estimate.where(problem)}: motions are accurate to {best.estimate.motion:.2g}, but the shape of "
                     "controls is not determined to more; another mesh no longer changed the objective")
    extra = dict(chosen.extra) | {"refinement": np.array([p.row for p in passes]).reshape(-1, len(COLUMNS)),
                                  "refinement_columns": text(COLUMNS)}
    freeze = dict(chosen.freeze)
    if best is not None:
        freeze |= {"scheme": family.scheme, "mesh": plans_text(best.plans), "refine": "none", "guess": rung}
        extra["refinement_mesh"] = text([plans_text(best.plans)])
        for phase, errors in zip(problem.phases, best.estimate.phases, strict=True):
            extra[f"{phase.name}.refinement_error" if len(problem.phases) > 1 else "refinement_error"] = errors.total
    solved = replace(problem, phases=tuple(
        replace(phase, system=replace(phase.system, parameter_values=found.system.parameter_values))
        for phase, found in zip(problem.phases, chosen.problem.phases, strict=True)))
    return replace(chosen, problem=solved, status=status, message=message, notes=tuple(notes), extra=extra, freeze=freeze,
                   iterations=tuple(log), seconds={**spent, "total": time.perf_counter() - begun})
