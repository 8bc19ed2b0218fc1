"""Solve, judge, refine, and solve again from there, until the motion is as accurate as asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ocp.nlp import NLP, NLPResult, Warm
from ocp.problem import At, Kind, Phase, Problem, Solution, Status, Trajectory, join
from ocp.problem.checkpoint import Checkpoint, Keep, text
from ocp.transcription.charts import form
from ocp.transcription.direct import Begin, Polish
from ocp.transcription.ladder import hardened, left_over
from ocp.transcription.mesh import Mesh
from ocp.transcription.program import Transcription
from ocp.transcription.refine.arcs import Jump, duration_of
from ocp.transcription.refine.carry import carried
from ocp.transcription.refine.criteria import ByCertificate, ByMesh, Judge, first_margins, same
from ocp.transcription.refine.error import Estimator
from ocp.transcription.refine.margins import Margins, bounds_of, drawn_in, price
from ocp.transcription.refine.outcome import Told, finished
from ocp.transcription.refine.passes import Ask, Family, Pass, Plans, Progress, Run, Settings, continued, row_of, sentence, size_of
from ocp.transcription.refine.plan import plans_text, read_plans
from ocp.transcription.refine.policy import halved, next_plan
from ocp.transcription.refine.smooth import Smoothed, linear_controls, smoothed
from ocp.transcription.refine.switches import jumps_of, located, shift, unplaced

#: passes that may fail to converge, each followed by one on a finer mesh, before the ladder of guesses is climbed
FAILURES = 2
#: the same where the certificate decides: its first mesh is coarse
FAILURES_OF_CERTIFIED = 1
#: passes whose singular controls chatter after which the loop ends
CHATTERING = 4
#: linear controls chatter where a pass that began at the one before took so many iterations, and where the errors of two passes in
#: a row are so many times those of the passes before
LABOUR, WORSE = 150, 10.0
#: passes without progress after which the loop ends
STALL = 2
#: the same where the certificate decides: what is left to mend may be in one interval alone
STALL_OF_CERTIFIED = 4
#: the certificate allows ramps of a short interval in the place of jumps: with more linear controls than these, which jump often
#: and are singular in turn, shorter intervals take less time than programs that move all their jumps
SWITCHING = 4
#: what each of so many passes must gain in the largest error; cuts at a kink gain more
GAIN = 0.25

#: passes after which polynomial controls that overshoot path constraints between nodes are not waited for any longer
CORNERED = 3
#: how programs end that are hard to solve, and not impossible
HARD = (Status.ITERATION_LIMIT, Status.STALLED)

#: progress, checkpoint, resume: as ``ocp.methods.solve`` says
Outside = tuple[Progress | None, Keep | None, Checkpoint | None]


def refine(problem: Problem, family: Family, plans: Plans, settings: Settings, run: Run, outside: Outside = (None, None, None),
           judge: Judge | None = None, allowed: tuple[float, float] = (2e-3, 1e-2)) -> Solution:
    """The solution of the last pass, or, where the user interrupts, of the last finished one; plans: the first mesh of each phase.

    judge: certifies a solution, allowed: gap and defect of a segment, as it judges them; then the loop ends as soon as the
    certificate holds, otherwise where every interval reaches the tolerance of the rules. ``extra["refinement"]`` [passes, columns]
    with ``extra["refinement_columns"]`` is the log of passes, and notes tell it in words. Where only the controls' own shape misses
    the tolerance and the objective no longer changes with the mesh, as along singular arcs, that is the end, and a note says
    so. A pass that does not converge is tried again from the guess and on meshes cut in two. Status.MESH_TOLERANCE where the
    passes end, or refining makes no progress, before that.
    """
    return Refinement(problem, family, plans, settings, run, outside, judge, allowed).go()


class Refinement:
    """The state of a refinement: the mesh and the guess of the next pass, what passes found, and what is to be told. paused: that
    it stopped after a program that was hard to solve, and goes on where it is asked to. lost: the guess itself is none,
    for functions or derivatives are not finite there."""

    def __init__(self, problem: Problem, family: Family, plans: Plans, settings: Settings, run: Run,
                 outside: Outside, judge: Judge | None, allowed: tuple[float, float]):
        self.problem, self.family, self.settings, self.rules, self.run = problem, family, settings, settings.rules, run
        self.progress, self.checkpoint, self.resume = outside
        if self.resume is not None and "mesh" in self.resume:
            plans = read_plans(str(self.resume["mesh"][0]), [phase.name for phase in problem.phases], family.scheme, "checkpoint")
        self.plans, self.current = plans, problem
        self.estimator = Estimator(problem, [form(phase.system.space, family.states) for phase in problem.phases])
        self.criterion = ByMesh(self.rules) if judge is None else ByCertificate(judge, self.estimator, allowed)
        self.certified = judge is not None
        self.linear = [linear_controls(phase) for phase in problem.phases] if self.certified else []
        self._linear = any(own.any() for own in self.linear)
        self._switching = 0 < max((own.sum() for own in self.linear), default=0) <= SWITCHING
        self.margins = first_margins(problem, plans, self.estimator)
        self.passes: list[Pass] = []
        self.last: Solution | None = None
        self.told = Told(begun=time.perf_counter())
        self.number = self.failures = self.chattering = 0
        self.warm = self.settled = self.shaped = False
        self.ladder = settings.ladder
        self.given: Solution | None = None
        self.fallen: Solution | None = None
        self.drawn: float | None = None
        self.scaling: str | None = None
        self.paused = self.lost = False
        self.cornered = settings.chatter and any(map(_cornered, problem.phases))

    def go(self) -> Solution:
        """To the end, or to where it pauses; from there on where it did."""
        stopped: str | None = None
        while stopped is None:
            self.number += 1
            try:
                stopped = self._pass()
            except KeyboardInterrupt:
                if not self.passes:
                    raise
                stopped = "interrupted"
        assert self.last is not None
        return finished(self.problem, self.passes, self.last, self.plans, self.family, self.rules, stopped, self.told, self.drawn)

    def _pass(self) -> str | None:
        """One pass; why it was the last one ("" where it is good), or None."""
        started = time.perf_counter()
        meshes = self.family.meshes(self.problem, self.plans)
        smooth, polish = ([], None) if self.certified and not self._switching else _smoothing(self.current, self.plans, self.family)
        climbs = self.ladder and self.resume is None
        ask = Ask(self.current, meshes, _numbered(self.progress, self.number, len(self.told.log)),
                  _kept(self.checkpoint, self.plans), self.resume, climbs, polish, self._beginning(meshes),
                  lambda program: self._drawn_in(program, meshes), self.given, self.scaling,
                  2 * LABOUR if self.warm and self.settings.chatter and not self.paused else None)
        solution = self.last = self.run(ask)
        self.resume, self.ladder = None, False
        self.told.heard(solution, self.number)
        if solution.status is Status.INTERRUPTED:
            if self.fallen is not None and not self.passes:
                self.last = replace(min(self.fallen, solution, key=left_over), status=solution.status)
            return "interrupted"
        if solution.status is not Status.CONVERGED:
            return self._failed(solution, ask)
        return self._converged(solution, meshes, smooth, started)

    def _drawn_in(self, program: Transcription, meshes: Sequence[Mesh]) -> Transcription:
        self.bounds = bounds_of(program.nlp)
        return drawn_in(program, self.problem, meshes, self.margins, [own.path_names for own in self.estimator.phases])

    def _failed(self, solution: Solution, ask: Ask) -> str | None:
        """After a pass that did not converge: the same mesh from the guess, finer meshes, and the ladder of guesses in the end."""
        self.failures += 1
        self.lost |= solution.status is Status.NOT_A_NUMBER and self.number == 1
        self.fallen = solution if self.fallen is None else min(self.fallen, solution, key=left_over)
        self.told.words.append(f"pass {self.number}: {size_of(self.plans)}: {solution.status.name.lower().replace('_', ' ')}")
        if ask.ladder or self.settings.brief or self.number >= self.settings.most or hardened(self.problem, solution):
            return "failed"
        if self.number == 1 and (told := self.settings.hopeless(ask, solution)):
            self.told.words.append(told)
            return "failed"
        if self.failures > (FAILURES if not self.certified else FAILURES_OF_CERTIFIED) or solution.status is Status.NOT_A_NUMBER:
            self.given = None if self.warm else solution
            self.current, self.warm, self.ladder = self.problem, False, True
        elif self.warm:  # the same mesh once more, from the guess
            self.current, self.warm = self.problem, False
        else:
            self._onto(tuple(halved(plan) for plan in self.plans))
        overshot = self.cornered and solution.status is Status.INFEASIBLE and bool(self.passes)
        return self._pause(solution.status in HARD or overshot)

    def _pause(self, hard: bool) -> str | None:
        """Once, with the next pass prepared, so that another shape of controls can be tried first."""
        pauses = self.settings.chatter and not self.paused and hard
        self.paused |= pauses
        return "hard" if pauses else None

    def _converged(self, solution: Solution, meshes: Sequence[Mesh], smooth: list[tuple[Smoothed, tuple[Trajectory, ...]]],
                   started: float) -> str | None:
        estimate = self.estimator.estimate(solution, meshes, [plan.jumps for plan in self.plans])
        verdict = self.criterion.look(solution, estimate, self.plans, self.margins)
        solution = self.last = verdict.solution
        row = row_of(self.number, self.plans, solution, estimate, time.perf_counter() - started)
        self.passes.append(Pass(self.plans, solution, estimate, verdict.errors, row, verdict.worst))
        self.told.words.append(sentence(self.passes, solution.problem, verdict.words))
        singular = smooth[-1][0] if smooth else None
        if singular is not None and singular.told:
            self.told.words.append(f"pass {self.number}: {singular.told}")
        self.chattering = self.chattering + 1 if singular is not None and singular.told and not singular.solved else 0
        # smoothed controls are determined: what their shape lacks is for the mesh to mend
        self.shaped = singular is not None and singular.solved
        accurate = self.criterion.accurate(self.passes, self.shaped)
        self.drawn = price(solution, self.bounds) if any(margin.any for margin in self.margins) else None
        if accurate and isinstance(self.criterion, ByCertificate):
            return ""
        if not accurate and self._rings():
            return "ringing"
        causes = frozenset[Kind]() if accurate or solution.certificate is None else solution.certificate.causes
        if Kind.STATE_DEPENDENT_JUMP in causes:
            return "jump"
        if Kind.OSCILLATING_COST in causes:
            return "fast"
        if self._unfelt(solution):
            self._scaled(solution)
            return None
        guided = solution if singular is None or singular.guide is None else _with_parts(solution, smooth[-1][1])
        jumps = self._jumps(guided, solution, meshes)
        moves = bool(jumps) and (unplaced(self.plans, jumps) or (not self.settled and self._rough()))
        if accurate and not moves:
            return ""
        if self.number >= self.settings.most:
            return "" if accurate else "passes"
        if self.chattering >= CHATTERING and not self.certified:
            return "" if accurate else "chattering"
        stopped = self._next(solution, guided, jumps if moves else [], accurate, verdict.margins)
        return self._pause(self.cornered and self.number >= CORNERED) if stopped is None else stopped

    def _next(self, solution: Solution, guided: Solution, jumps: Sequence[Sequence[Jump]], accurate: bool,
              margins: tuple[Margins, ...]) -> str | None:
        """Onto the next mesh, with edges at jumps; or why there is none."""
        # else the objective no longer feels the controls' shape
        felt = self.shaped or len(self.passes) < 2 or not same(self.passes[-2:], self.criterion.still)
        after = tuple(next_plan(plan, errors if felt else errors.of_motion, self.rules)
                      for plan, errors in zip(self.plans, self.passes[-1].errors, strict=True))
        parts, solved = solution.parts or (solution.trajectory,), solution.problem
        if jumps:
            moved = located(self.problem, guided, self.plans, after, jumps, self.family.meshes,
                            lambda cut, cuts, on: self.run(Ask(cut, on, polish=_smoothing(cut, cuts, self.family, True)[1])))
            after, parts, solved = moved.plans, moved.parts, moved.problem
            self.settled = moved.found and shift(self.plans, after) <= self.criterion.shift
            if accurate and not moved.found:
                return ""
            self.told.words += [f"pass {self.number}: {words}" for words in moved.notes]
        drawn = any((new.times != old.times).any() for new, old in zip(margins, self.margins, strict=True))
        if after == self.plans and not drawn:
            return self._or_fine("degrees")
        if self._stalled():
            return self._or_fine("stalled")
        self.margins = margins
        self.current = continued(self.problem, parts, solved, self.family.meshes(self.problem, after))
        self._onto(after)
        self.warm = True
        return None

    def _unfelt(self, solution: Solution) -> bool:
        """Whether the solver's tolerances let it end before the optimum, because unknowns, constraints or the cost are small."""
        certificate = solution.certificate
        return (isinstance(self.criterion, ByCertificate) and certificate is not None and self.scaling is None
                and solution.options.get("scaling") == "none" and self.number < self.settings.most
                and not (certificate.stationarity.holds and certificate.complementarity.holds))

    def _scaled(self, solution: Solution) -> None:
        """The same mesh once more, measured by what was found."""
        self.scaling = "guess"
        self.told.words.append(f"pass {self.number}: ended before the optimum: unknowns, constraints and cost are scaled by what "
                               "it found from here on")
        parts, meshes = solution.parts or (solution.trajectory,), self.family.meshes(self.problem, self.plans)
        self.current, self.warm = continued(self.problem, parts, solution.problem, meshes), True

    def _or_fine(self, why: str) -> str:
        return "" if self.criterion.accurate(self.passes, self.shaped) or self.criterion.undetermined(self.passes) else why

    def _onto(self, plans: Plans) -> None:
        self.margins = tuple(margin.on(*pair) for margin, *pair in zip(self.margins, self.plans, plans, strict=True))
        self.plans = plans

    def _beginning(self, meshes: Sequence[Mesh]) -> Begin | None:
        """What starts the program on new meshes with multipliers of the last pass; None with several phases."""
        if not self.warm or not self.settings.carry or len(meshes) > 1:
            return None
        last = self.passes[-1]
        found = last.solution.optimality
        if found is None:
            return None
        before = self.family.meshes(self.problem, last.plans)[0]

        def begin(program: Transcription) -> Warm:
            return carried(found.nlp, found.lam_x, found.lam_g, before, program.nlp, meshes[0])

        return begin

    def _jumps(self, guided: Solution, solution: Solution, meshes: Sequence[Mesh]) -> list[list[Jump]]:
        """Jumps of the solution's controls or of the smoothed ones, whichever has more of them. Of linear controls that would jump
        it is told."""
        if not self.settings.switches or (self.certified and not self._switching):
            return []
        found = jumps_of(self.problem, solution, self.plans, meshes)
        if self.family.controls == "linear":
            self.told.ramps = _ramps(solution, found)
            return []
        other = jumps_of(self.problem, guided, self.plans, meshes, True) if guided is not solution else []
        return other if sum(map(len, other)) > sum(map(len, found)) else found

    def _rough(self) -> bool:
        """Whether an interval beside an edge where controls jump misses the tolerance."""
        return any(max(errors.total[k - 1], errors.total[k]) > self.rules.tolerance
                   for plan, errors in zip(self.plans, self.passes[-1].errors, strict=True) for k in plan.jumps)

    def _rings(self) -> bool:
        """Whether linear controls chatter: programs are hard to solve, and finer meshes find motions that these represent worse."""
        if not (self.settings.chatter and self._linear and len(self.passes) > 1):
            return False
        errors = [p.worst for p in self.passes]
        labour = self.warm and len(self.passes[-1].solution.iterations) > LABOUR
        return labour or (len(errors) > 2 and min(errors[-2:]) > WORSE * min(errors[:-2]))

    def _stalled(self) -> bool:
        """Whether the last passes have changed the objective by next to nothing and the error by less than a factor: finer meshes
        make solutions of this kind no better (chattering along singular arcs)."""
        errors = [p.worst if self.certified else p.largest if self.shaped else p.estimate.motion for p in self.passes]
        last = STALL_OF_CERTIFIED if self.certified else STALL
        return (len(self.passes) > last and same(self.passes[-last:], self.criterion.still)
                and min(errors[-last:]) > GAIN * min(errors[:-last]))


def _cornered(phase: Phase) -> bool:
    """Whether path constraints depend on controls: these may overshoot between nodes where they jump, and are no mere bounds. (Not
    of robots, whose efforts jump in many joints.)"""
    return phase.system.mechanism is None and any(
        c.function.jac_sparsity(0, 2).nnz() > 0 for c in phase.constraints if c.at is At.PATH and c.soft is None)


def _ramps(solution: Solution, jumps: Sequence[Sequence[Jump]]) -> tuple[str, ...]:
    """What is to be said of linear controls that would jump: no edge lets them."""
    parts = solution.parts or (solution.trajectory,)
    times = [f"{float(part.t[0]) + jump.place * duration_of(part):.6g}"
             for part, own in zip(parts, jumps, strict=True) for jump in own]
    return (f"controls would jump near t = {', '.join(times)} s, and linear controls cannot: these ramps are no error of the "
            "motion, but cost as much as they last; take controls polynomial or held",) if times else ()


def _smoothing(problem: Problem, plans: Plans, family: Family, near: bool = False
               ) -> tuple[list[tuple[Smoothed, tuple[Trajectory, ...]]], Polish | None]:
    """(a list that gets what smoothing found, with the trajectories of its guide; what smooths a solution on these meshes)."""
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


def _with_parts(solution: Solution, parts: tuple[Trajectory, ...]) -> Solution:
    return replace(solution, trajectory=join(parts), parts=parts if len(parts) > 1 else ())


def _numbered(progress: Progress | None, number: int, first: int) -> Progress | None:
    if progress is None:
        return None
    return lambda row: progress({**row, "pass": float(number), "iteration": row["iteration"] + first})


def _kept(checkpoint: Keep | None, plans: Plans) -> Keep | None:
    if checkpoint is None:
        return None
    return lambda arrays: checkpoint({**arrays, "mesh": text([plans_text(plans)])})
