"""Direct collocation: schemes of any degree on any mesh, several phases, one nonlinear program.

Sources: Betts 2010, Practical Methods for Optimal Control, Ch. 4; Kelly 2017, SIAM Review 59(4); Hairer and Wanner 1996, Solving
Ordinary Differential Equations II, Sec. IV.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ocp.algebraic import eliminated, stated
from ocp.bridge import marked
from ocp.derivatives import EXECUTIONS
from ocp.errors import ProblemError, UnsupportedError
from ocp.guess import from_motion
from ocp.interrupts import Activity, Stopped, late
from ocp.nlp import SCALINGS, SolverOptions, Warm
from ocp.nlp.scaling_text import rule
from ocp.problem import AT_A_JUMP, TOO_FAST, Problem, Solution, Status, in_steps
from ocp.problem.checkpoint import Checkpoint, Keep
from ocp.splits import split
from ocp.transcription import direct
from ocp.transcription.charts import form
from ocp.transcription.direct import Optimality, solve_program
from ocp.transcription.endless import watched
from ocp.transcription.freeze import frozen
from ocp.transcription.ladder import Attempt, climb, free_names, hopeless
from ocp.transcription.mesh import Compressed, Mesh, uniform_mesh
from ocp.transcription.options import check_options, how, solver_options
from ocp.transcription.program import How, Transcription, build
from ocp.transcription.refine.carry import carried
from ocp.transcription.refine.criteria import Judge
from ocp.transcription.refine.error import Estimator
from ocp.transcription.refine.loop import HARD, Outside, Refinement, refine
from ocp.transcription.refine.passes import Ask, Family, Settings
from ocp.transcription.refine.plan import UNIFORM, Plan, plans_text, read_plans, uniform_plan
from ocp.transcription.refine.policy import POLICIES, Rules, halved
from ocp.transcription.schemes import CONTROLS, FORMS, MOST, SCHEMES, Scheme, checked_degree, make_scheme

__all__ = ["METHOD", "CollocationOptions", "Optimality", "solve", "transcribe", "uniform_meshes", "unsupported"]

METHOD = "collocation"
AUTO = "auto"
#: most iterations on a finer mesh from the multipliers of an optimum
NEAR = 200
#: most passes with held controls where others are hard to solve: what these serve, they serve at once
SOON = 2
#: intervals of a mesh with held controls in the place of chattering ones, and what marks its checkpoints
HELD_INTERVALS, HELD = 60, "held_controls"
TOLD_HELD = "{}: from here on they are constant in every interval (controls: held)"
CHATTER = "controls chattered along arcs that the objective hardly feels, and no mesh mends that"
STIFF = "programs with controls of this shape were hard to solve"
#: degree from which Lobatto schemes with one control per knot are of lower order than their name promises
LOBATTO_SHORT = 4


def unsupported(problem: Problem) -> list[str]:
    """Sentences that name what collocation cannot enforce in this problem; empty where it can enforce everything."""
    return [*direct.unsupported(problem), *in_steps(problem)]


@dataclass(frozen=True)
class CollocationOptions:
    """Options of direct collocation.

    scheme: "auto" (radau where the certificate decides, gauss for refine p and hp, else hermite_simpson), "hermite_simpson" (order
        4), "trapezoid" (2), "gauss" (2K), "radau" (2K - 1), "radau_left" (2K - 1) or "lobatto" (2K -
        2; with polynomial controls states at knots are of order 4 from K = 4 on, as one control at a knot serves two intervals)
    intervals: of equal length in every phase, "auto": 20 where the certificate decides, else 50; degree: K, collocated nodes of an
        interval; "auto": the scheme's own, 3 where it
        leaves a choice
    form: of the defects, "integral", "differential", or for hermite_simpson "compressed" (no states at midpoints)
    controls: "polynomial" through the collocated nodes, "held" or "linear"; "auto": polynomial, and held where the certificate
        decides and polynomial ones chatter
    states: "coordinates", or "tangent" unknowns about states that are centred anew between passes (floating bases)
    guess: what to start from, "given", "dynamics", "simulated", "coarse", "multistart", or "auto", one after another until one
        converges (``ocp.transcription.ladder``); "coarse 10", "multistart 3": one start alone
    max_iterations, tolerance, hessian, solver, scaling: of the nonlinear program, see ``ocp.nlp.SolverOptions``; scaling may also
        hold the factors themselves, see ``ocp.nlp.scaling_text``
    derivatives: of the dynamics: "ad", "analytic", "complex_step", "fd", or "auto"; execution: of analytic ones: "generated" code,
        "loops" over the model, or "auto"; see ``ocp.derivatives``
    kernels: "compiled", "interpreted", or "auto", which compiles functions so large that it pays
    mesh: "uniform", or the edges and degrees of intervals, see ``ocp.transcription.refine.plan``; intervals and degree then do not
        count
    refine: "certificate": meshes until it holds, finer where it measures errors; "none"; "h": shorter intervals; "p": higher
        degrees; "hp": what promises more; "auto": certificate, or none where scheme, intervals, degree, mesh or the compressed form
        are given. tolerance_mesh: largest relative error of
        an interval, see ``ocp.transcription.refine.error``; max_passes: solves; max_degree: of an interval; switches: whether edges
        move to where polynomial and held controls jump; of linear ones, which cannot, a note says where they would
    """

    scheme: str = "auto"
    intervals: int | str = "auto"
    degree: int | str = "auto"
    form: str = "integral"
    controls: str = "auto"
    states: str = "coordinates"
    guess: str = "auto"
    max_iterations: int = 1000
    tolerance: float = 1e-9
    hessian: str = "exact"
    solver: str = "ipopt"
    scaling: str = "none"
    derivatives: str = "auto"
    execution: str = "auto"
    kernels: str = "auto"
    mesh: str = UNIFORM
    refine: str = "auto"
    tolerance_mesh: float = 1e-6
    max_passes: int = 15
    max_degree: int = 10
    switches: bool = True

    def __post_init__(self) -> None:
        for name, value in _chosen(self).items():  # once and for all: ``replace`` keeps what was chosen
            object.__setattr__(self, name, value)
        check_options(self, METHOD, {"scheme": SCHEMES, "form": (*FORMS, "compressed"), "controls": (AUTO, *CONTROLS),
                                     "execution": EXECUTIONS, "refine": POLICIES})
        if self.scaling not in SCALINGS and self.refine != "none":
            raise ProblemError("holds factors of one mesh, and refine changes the mesh; take scaling auto",
                               where=f"{METHOD}.scaling")
        for name in ("intervals", "degree"):
            value = getattr(self, name)
            if value != AUTO and (isinstance(value, (str, bool)) or not float(value).is_integer() or value < 1):
                raise ProblemError(f"must be auto or a whole number, at least 1, got {value!r}", where=f"{METHOD}.{name}")
        self._check_refinement(checked_degree(*self._scheme()))
        self.nlp()

    def _check_refinement(self, degree: int) -> None:
        raises = self.refine in ("p", "hp")
        if raises and self.scheme in ("trapezoid", "hermite_simpson"):
            raise ProblemError(f"{self.refine} raises the degree of intervals, and {self.scheme} has only one; take scheme gauss, "
                               "radau or lobatto, or refine h", where=f"{METHOD}.refine")
        for name, value in (("refine", self.refine != "none"), ("mesh", self.mesh != UNIFORM)):
            if value and self.form == "compressed":
                raise ProblemError("needs states at midpoints, which form compressed does not have; take form integral",
                                   where=f"{METHOD}.{name}")
        if not 0 < self.tolerance_mesh < 1:
            raise ProblemError(f"must lie between 0 and 1, got {self.tolerance_mesh}", where=f"{METHOD}.tolerance_mesh")
        if self.max_passes < 1:
            raise ProblemError(f"must be at least 1, got {self.max_passes}", where=f"{METHOD}.max_passes")
        if not 1 <= self.max_degree <= MOST or (raises and self.max_degree < degree):
            raise ProblemError(f"must lie between the degree of the first mesh, {degree}, and {MOST}, got {self.max_degree}",
                               where=f"{METHOD}.max_degree")

    def record(self) -> Scheme:
        """The scheme that the options name."""
        return make_scheme(*self._scheme())

    def _scheme(self) -> tuple[str, int | str | None, str]:
        """Its name, degree and form."""
        if self.form == "compressed" and (self.scheme != "hermite_simpson" or self.shape() != "polynomial"):
            raise ProblemError("is for scheme hermite_simpson with polynomial controls", where=f"{METHOD}.form 'compressed'")
        form = "integral" if self.form == "compressed" else self.form
        return self.scheme, None if self.degree == AUTO else self.degree, form

    def shape(self) -> str:
        """Of the controls of the first mesh."""
        return "polynomial" if self.controls == AUTO else self.controls

    def nlp(self) -> SolverOptions:
        return solver_options(self)

    def how(self) -> How:
        return how(self, self.execution)


def _chosen(given: CollocationOptions) -> dict[str, int | str]:
    """What "auto" stands for in refine, scheme and intervals."""
    any_mesh = (given.scheme, given.intervals, given.degree) == (AUTO,) * 3 and given.mesh == UNIFORM and given.form != "compressed"
    refine = ("certificate" if any_mesh else "none") if given.refine == AUTO else given.refine
    scheme = {"certificate": "radau", "p": "gauss", "hp": "gauss"}.get(refine, "hermite_simpson")
    intervals = 20 if refine == "certificate" else 50
    return {"refine": refine, "scheme": scheme if given.scheme == AUTO else given.scheme,
            "intervals": intervals if given.intervals == AUTO else given.intervals}


def uniform_meshes(problem: Problem, options: CollocationOptions) -> tuple[Mesh | Compressed, ...]:
    """The mesh of every phase that the options ask for."""
    scheme = options.record()
    if options.form == "compressed":
        return tuple(Compressed(np.linspace(0.0, 1.0, int(options.intervals) + 1)) for _ in problem.phases)
    if options.mesh != UNIFORM:
        return _family(options).meshes(problem, _plans(problem, options))
    return tuple(uniform_mesh(scheme, int(options.intervals), options.shape(), form(phase.system.space, options.states).tangent)
                 for phase in problem.phases)


def finer(problem: Problem, options: CollocationOptions, solution: Solution) -> Solution:
    """The problem, whose guess is the solution, on its mesh with every interval cut in two, which ``freeze`` names; from the
    solution's multipliers where there is one phase, so that the optimum is the same."""
    once = replace(options, refine="none", guess="given", scaling=rule(str(solution.freeze.get("scaling", options.scaling))),
                   controls=str(solution.freeze.get("controls", options.controls)))
    if options.form == "compressed":
        once = replace(once, intervals=2 * int(options.intervals))
        return _run(once, Ask(problem, uniform_meshes(problem, once)))
    family, plans = _family(once), _plans(problem, replace(once, mesh=str(solution.freeze.get("mesh", options.mesh))))
    changed = tuple(halved(plan) for plan in plans)
    meshes, left = family.meshes(problem, changed), solution.optimality
    before, found = family.meshes(problem, plans)[0], None

    def begin(program: Transcription) -> Warm:
        return carried(left.nlp, left.lam_x, left.lam_g, before, program.nlp, meshes[0])

    if len(meshes) == 1 and left is not None:
        found = _run(once, Ask(problem, meshes, begin=begin, most=NEAR))
    if found is None or found.status is not Status.CONVERGED:
        found = _run(once, Ask(problem, meshes))
    return replace(found, freeze={**found.freeze, "mesh": plans_text(changed)})


def _plans(problem: Problem, options: CollocationOptions) -> tuple[Plan, ...]:
    """The first mesh of every phase as numbers."""
    if options.mesh == UNIFORM:
        return (uniform_plan(int(options.intervals), options.record().degree),) * len(problem.phases)
    return read_plans(options.mesh, [phase.name for phase in problem.phases], options.scheme, f"{METHOD}.mesh")


def _family(options: CollocationOptions) -> Family:
    return Family(options.scheme, options.form, options.shape(), options.states, options.tolerance)


def served(problem: Problem, options: CollocationOptions) -> Problem:
    """The problem with its algebraic unknowns at the points of the scheme, where controls are unknowns at all of these; else with
    its unknowns eliminated; sizes of controls are split, and what ends need not ask for is marked."""
    problem = split(problem)
    at_points = options.shape() == "polynomial" and options.form != "compressed"
    return marked(stated(problem) if at_points else eliminated(problem))


def transcribe(problem: Problem, options: CollocationOptions, meshes: Sequence[Mesh | Compressed] | None = None,
               centres: Sequence[np.ndarray] | None = None) -> Transcription:
    """The problem on these meshes (uniform ones as the options say) as a nonlinear program, with the map back. Raises as ``solve``
    does. centres: see ``build``."""
    if reasons := unsupported(problem):
        raise UnsupportedError(METHOD, reasons, ())
    problem = served(problem, options)
    return build(problem, uniform_meshes(problem, options) if meshes is None else meshes, options.how(), centres)


def solve(problem: Problem, options: CollocationOptions, progress: Callable[[dict[str, float]], Any] | None = None,
          checkpoint: Keep | None = None, resume: Checkpoint | None = None, judge: Judge | None = None,
          allowed: tuple[float, float] = (2e-3, 1e-2)) -> Solution:
    """Transcribe the problem and solve the program. ``progress`` gets each row of the iteration log.

    judge: certifies a solution; ``refine: certificate`` needs it.

    checkpoint: gets the iterate every ten seconds, and at the end unless it converged; resume: such a checkpoint, the
    primal-dual point of a warm start.

    Raises UnsupportedError naming each thing that collocation cannot enforce, ProblemError for a malformed problem or a
    checkpoint of another one.
    """
    if reasons := unsupported(problem):
        raise UnsupportedError(METHOD, reasons, ())
    implicit = any(phase.system.algebraic for phase in problem.phases)  # what is held would be their algebraic unknowns, too
    problem = served(problem, options)
    if options.refine == "none":
        begin = Ask(problem, uniform_meshes(problem, options), progress, checkpoint, resume)
        found = _run(options, replace(begin, ladder=resume is None))
        return frozen(_remarked(found, options), options)
    if options.refine == "certificate" and judge is None:
        raise ProblemError("certificate needs what certifies solutions: solve by ocp.methods.solve", where=f"{METHOD}.refine")
    certified = options.refine == "certificate"
    rules = Rules(options.refine, 1.0 if certified else options.tolerance_mesh, options.record().degree, options.max_degree)
    alone = options.guess != "auto"  # one rung of the ladder, from the first pass on
    settings = Settings(rules, options.max_passes, options.switches, alone, options.solver == "ipopt",
                        lambda ask, failed: "" if alone else hopeless(problem, options, failed, _attempt(options, ask)),
                        certified and options.controls == AUTO and not implicit)
    decides = judge if certified else None
    if resume is not None and HELD in resume:
        return _held(problem, options, settings, (progress, checkpoint, resume), decides, allowed)
    work = Refinement(problem, _family(options), _plans(problem, options), settings, lambda ask: _run(options, ask),
                      (progress, checkpoint, resume), decides, allowed)
    found = work.go()
    if settings.chatter and not late(Activity.REFINEMENT) and _another_shape(found):
        try:
            other = _instead(problem, found, work, options, settings, (progress, checkpoint, None), decides, allowed)
        except Stopped:
            return frozen(_remarked(found, options), options)
        if other.certificate is not None and other.certificate.holds:
            return other
        if other.status is Status.INTERRUPTED:
            found = replace(found, status=other.status)
        elif work.paused:
            found = work.go()
    return frozen(_remarked(found, options), options)


def _another_shape(found: Solution) -> bool:
    """Whether another shape of the controls may serve where a refinement came to nothing that the certificate takes."""
    certificate = found.certificate
    if certificate is None:  # nothing was solved, or on meshes that were too coarse to be judged
        return found.status in (*HARD, Status.CONVERGED, Status.MESH_TOLERANCE)
    words = (certificate.stationarity.where, certificate.objective.where if certificate.objective is not None else "")
    return not certificate.holds and found.status is not Status.INTERRUPTED and not any(
        told in where for told, where in zip((AT_A_JUMP, TOO_FAST), words, strict=True))


def _instead(problem: Problem, found: Solution, work: Refinement, options: CollocationOptions, settings: Settings, outside: Outside,
             judge: Judge | None, allowed: tuple[float, float]) -> Solution:
    """What held controls come to, with what was found before in its log."""
    progress, checkpoint, _ = outside
    number, count = len(found.extra["refinement"]), len(found.iterations)
    begun = problem  # so that the file with what is frozen gives the solve again
    if not work.paused:
        parameters = dict(zip(free_names(problem), found.extra.get("parameters", ()), strict=False))
        begun = from_motion(problem, found.parts or (found.trajectory,), parameters)

    def later(row: Mapping[str, float]) -> dict[str, float]:
        return {**row, "iteration": row["iteration"] + count, "pass": row["pass"] + number}

    show = None if progress is None else lambda row: progress(later(row))
    soon = replace(settings, brief=True, most=min(SOON, settings.most), ladder=work.lost) if work.paused else settings
    other = _held(begun, options, soon, (show, checkpoint, None), judge, allowed)
    passes = [note for note in found.notes if note.startswith("pass ")]
    again = [f"held, {note}" if note.startswith("pass ") else note for note in other.notes]
    told = TOLD_HELD.format(STIFF if work.paused else CHATTER)
    return replace(other, notes=(*passes, told, *again), iterations=(*found.iterations, *map(later, other.iterations)))


def _held(problem: Problem, options: CollocationOptions, settings: Settings, outside: Outside, judge: Judge | None,
          allowed: tuple[float, float]) -> Solution:
    """The refined solution with controls that are constant in every interval: they cannot chatter within it, and motions are as
    smooth as the dynamics."""
    progress, checkpoint, resume = outside
    problem = eliminated(problem)
    count = int(options.intervals) if settings.brief else max(int(options.intervals), HELD_INTERVALS)
    held = replace(options, controls="held", mesh=UNIFORM, intervals=count)
    keep = None if checkpoint is None else lambda arrays: checkpoint({**arrays, HELD: np.ones(1)})
    found = refine(problem, _family(held), _plans(problem, held), replace(settings, chatter=False), lambda ask: _run(held, ask),
                   (progress, keep, resume), judge, allowed)
    return frozen(_remarked(found, held), held)


def _run(options: CollocationOptions, ask: Ask) -> Solution:
    """The solution of one program, by the ladder of guesses where that is asked for."""
    attempt = _attempt(options, ask)
    return climb(ask.problem, options, attempt, ask.given) if ask.ladder else attempt(ask.problem, options)


def _attempt(options: CollocationOptions, ask: Ask) -> Attempt:
    """What solves a program from one guess."""
    def attempt(given: Problem, chosen: CollocationOptions, longest: Sequence[float] | None = None) -> Solution:
        chosen = chosen if ask.scaling is None else replace(chosen, scaling=ask.scaling)
        chosen = chosen if ask.most is None else replace(chosen, max_iterations=min(ask.most, chosen.max_iterations))
        coarse = chosen.guess != options.guess  # that rung of the ladder has a mesh of its own
        meshes = None if coarse else ask.meshes
        change = ask.change if ask.change is not None and not coarse else lambda program: program

        def made(centres: Sequence[np.ndarray] | None = None) -> Transcription:
            return change(transcribe(given, replace(chosen, mesh=UNIFORM) if coarse else chosen, meshes, centres))

        polish, begin = (None, None) if coarse else (ask.polish, ask.begin)
        return solve_program(given, METHOD, chosen, chosen.nlp(), made, ask.show, ask.keep, ask.warm, polish, begin, longest)

    def error(found: Solution, chosen: CollocationOptions) -> float:
        meshes = ask.meshes if chosen.guess == options.guess else uniform_meshes(found.problem, replace(chosen, mesh=UNIFORM))
        own = Estimator(found.problem, [form(phase.system.space, options.states) for phase in found.problem.phases])
        return own.estimate(found, [mesh for mesh in meshes if isinstance(mesh, Mesh)]).motion

    watches = ask.begin is None and ask.warm is None and options.form != "compressed"
    return watched(attempt, error) if watches else attempt


def _remarked(found: Solution, options: CollocationOptions) -> Solution:
    """The solution with a note where the scheme's order is not that of its name."""
    if options.scheme != "lobatto" or options.shape() != "polynomial":
        return found
    mesh = found.freeze.get("mesh", options.mesh)
    plans = _plans(found.problem, replace(options, mesh=mesh))
    if max(degree for plan in plans for degree in plan.degrees) < LOBATTO_SHORT:
        return found
    told = (f"scheme lobatto of degree {LOBATTO_SHORT} and more has states of order 4 at knots, not 2 K - 2, where controls are "
            "polynomial: the control at a knot is one unknown for the two intervals that meet there, and their optima want two; "
            "gauss and radau keep 2 K and 2 K - 1")
    return replace(found, notes=(told, *found.notes))
