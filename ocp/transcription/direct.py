"""One road from a problem to a solution through a nonlinear program, for collocation and for multiple shooting."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ocp.interrupts import Activity, Progress, check
from ocp.nlp import NLP, NLPResult, SolverOptions, Warm, WatchPoint, kkt, prepare_solver
from ocp.nlp.ipopt import overdetermined
from ocp.nlp.local import Local, Owners
from ocp.nlp.scaling import Scaling, choose_scaling, extraordinary, scaled
from ocp.nlp.scaling_text import read_scaling, rule, scaling_text
from ocp.nlp.solve import unscaled_violation
from ocp.observed import translated
from ocp.problem import At, Finding, Kind, Problem, Sense, Solution, Status, Trajectory, join, with_parameters
from ocp.problem.checkpoint import NOBODY, Checkpoint, Outside, Pace, check_layout, joined, layout, log_arrays, log_rows, text
from ocp.transcription.duration_guard import DurationGuard
from ocp.transcription.program import Transcription
from ocp.transcription.repeated import repeated

Log = Sequence[Mapping[str, float]]
#: (transcription, result, what solves programs like its own from a point) -> the result to go on with
Polish = Callable[[Transcription, NLPResult, Callable[[NLP, Warm], NLPResult]], NLPResult]
Begin = Callable[[Transcription], "Warm | None"]

#: tangent unknowns this small leave the charts where they are: a scheme's error depends on its chart, and changes by a part of this
CENTRED = 1e-3
PASSES = 6


@dataclass(frozen=True)
class Optimality:
    """A transcription's data for the certificate: the program and a primal-dual point of it (signs: ``ocp.nlp``).

    parts(x) -> the trajectory of each phase; owners(): what the unknowns stand for.
    """

    nlp: NLP
    x: np.ndarray
    lam_x: np.ndarray
    lam_g: np.ndarray
    parts: Callable[[np.ndarray], tuple[Trajectory, ...]]
    owners: Callable[[], Owners] | None = None

    def local(self) -> Local | None:
        """The program at the point, None where nothing is known of its unknowns."""
        if self.owners is None:
            return None
        nlp = self.nlp
        gradient, (g, jacobian) = nlp.grad(self.x)[1].full().ravel(), nlp.jac(self.x)
        half = nlp.hess(self.x, 1.0, self.lam_g).sparse()
        return Local(self.x, nlp.x_lower, nlp.x_upper, self.lam_x, g.full().ravel(), nlp.g_lower, nlp.g_upper, self.lam_g, gradient,
                     sp.csr_matrix(jacobian.sparse()), sp.csr_matrix(half + sp.triu(half, 1).T), self.owners())

    def moved(self, direction: np.ndarray) -> tuple[Trajectory, ...]:
        """The trajectories of the phases, the unknowns moved by so much [n], within their bounds."""
        return self.parts(np.clip(self.x + direction, self.nlp.x_lower, self.nlp.x_upper))

    def values(self, direction: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and constraints [m] of the program, the unknowns moved by so much [n]."""
        x = self.x + direction
        return float(self.nlp.f(x)), np.asarray(self.nlp.g(x)).ravel()

    def cost(self) -> float:
        """The objective of the program at the point."""
        return float(self.nlp.f(self.x))

    def motion(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """Times [N+1], states [N+1, nx] and controls [M, nu] of each phase at the point."""
        return tuple((part.t, part.x, part.u) for part in self.parts(self.x))

    def residuals(self) -> tuple[float, float]:
        """(stationarity, complementarity), re-evaluated and scaled as ``ocp.nlp.kkt`` says."""
        found = kkt(self.nlp, self.x, self.lam_x, self.lam_g)
        return found.stationarity, found.complementarity


def unsupported(problem: Problem) -> list[str]:
    """Sentences that name what a transcription cannot enforce in this problem; empty where it can enforce everything."""
    found = []
    for c in (c for phase in problem.phases for c in phase.constraints):
        if c.at is At.INTEGRAL and (c.soft is not None or c.sense is Sense.CONE):
            kind = "a soft integral; make it hard" if c.soft is not None else "a cone of integrals; bound its components"
            found.append(f"constraint {c.name!r} is {kind}")
        elif c.soft is not None and c.sense is Sense.CONE:
            found.append(f"constraint {c.name!r} is a soft cone: its penalty is not smooth; make it hard")
    return found


def solve_program(problem: Problem, method: str, options: Any, build: Callable[..., Transcription], outside: Outside = NOBODY,
                  polish: Polish | None = None, begin: Begin | None = None, longest: Sequence[float] | None = None) -> Solution:
    """Build the program with ``build(centres=...)``, solve it, and centre tangent unknowns anew until they are small.

    polish: what is made of a solution in the end; begin: a primal-dual point to start from where nothing is resumed; longest:
    durations of the phases beyond which a search is ended, with Status.DIVERGED.
    outside: as ``ocp.methods.solve`` says. The solution's problem has the values of free parameters that were found;
    ``extra["parameters"]`` has them in order.
    """
    search = _Search(problem, method, options, build, outside, longest)
    result = search.centred(search.first_point(begin))
    if polish is not None and result.status is Status.CONVERGED:
        result = search.polished(polish, result)
    if outside.checkpoint is not None and result.status is not Status.CONVERGED:
        search.keep(Warm(result.x, result.lam_x, result.lam_g, result.mu), ())
    return search.solution(result)


class _Search:
    """The programs of one solve, each about the centres that the one before found, with their log and what they took."""

    def __init__(self, problem: Problem, method: str, options: Any, build: Callable[..., Transcription], outside: Outside,
                 longest: Sequence[float] | None):
        self.problem, self.method, self.options, self.build, self.longest = problem, method, options, build, longest
        self.solver: SolverOptions = options.nlp()
        self.progress, self.checkpoint, self.resume = outside.progress, outside.checkpoint, outside.resume
        self.started = time.perf_counter()
        self.program = build()
        # thousands of strings, which only checkpoints are for
        self.names = {} if self.checkpoint is None and self.resume is None else {
            **layout(method, problem), "variables": text(self.program.nlp.variables),
            "constraints": text(self.program.nlp.constraints)}
        self.resumed, self.before, self.first = _warm(self.resume, self.names)
        if self.resume is not None and self._tangent():
            self.program = build(centres=[self.resume[f"centres_{i}"] for i in range(len(self.program.forms))])
        self.spent = {"transcription": time.perf_counter() - self.started, "compile": self.program.seconds["compile"], "solve": 0.0,
                      "functions": 0.0}
        self.rows: list[Mapping[str, float]] = []
        self.factors = _factors(self.program.nlp, options.scaling)
        self.findings: tuple[Finding, ...] = ()

    def _tangent(self) -> bool:
        return any(form.tangent for form in self.program.forms)

    def first_point(self, begin: Begin | None) -> Warm | None:
        return begin(self.program) if begin is not None and self.resumed is None else self.resumed

    def centred(self, warm: Warm | None) -> NLPResult:
        """The solution of a program whose tangent unknowns are small, or of the last that was tried."""
        passes = 0
        while True:
            pace = None if self.checkpoint is None else Pace()
            reach = None if self.longest is None else DurationGuard(self.longest, self.program.durations, pace, self.keep)
            watch = None if pace is None else (pace.due, self.keep)
            show = translated(None if self.progress is None else self._show, lambda point: self.program.parts(point.x))
            result = _solved(self.program.nlp, self.solver, self.factors, warm, show,
                             watch if reach is None else (reach.due, reach.take))
            if reach is not None and reach.left:
                result = replace(result, status=Status.DIVERGED)
            self.spent["solve"] += result.seconds["solver"]
            self.spent["functions"] += result.seconds["functions"]
            self.rows += result.iterations[1:] if self.rows else result.iterations
            passes += 1
            moved = _largest_move(self.program, result.x)
            if result.status is not Status.CONVERGED or moved <= CENTRED or passes == PASSES:
                break
            began = time.perf_counter()
            self.program = self.build(centres=self.program.centres(result.x))
            warm = Warm(_about_centres(self.program, result.x), result.lam_x, result.lam_g, max(result.mu, 1e-6))
            self.spent["transcription"] += time.perf_counter() - began
        if passes > 1:
            self.findings = (Finding(Kind.TANGENT_UNKNOWNS_CENTRED, value=moved, data={"times": passes - 1}),)
        return result

    def polished(self, polish: Polish, result: NLPResult) -> NLPResult:
        began, before = time.perf_counter(), len(result.iterations)
        better = polish(self.program, result, lambda nlp, point: _solved(nlp, self.solver, self.factors, point, None, None))
        self.rows += better.iterations[before:]
        self.spent["solve"] += time.perf_counter() - began
        return better

    def _show(self, row: Mapping[str, Any]) -> None:
        assert self.progress is not None
        self.progress({**row, "iteration": row["iteration"] + self.first + max(0, len(self.rows) - 1)})

    def keep(self, point: Warm, new: Log) -> None:
        """Hand a finite point to who keeps checkpoints. new: rows of the log since the last program."""
        assert self.checkpoint is not None
        log = joined(self.before, _numbered([*self.rows, *new[1:]] if self.rows else new, self.first))
        if not all(np.all(np.isfinite(values)) for values in (point.x, point.lam_x, point.lam_g)):
            return
        centres = enumerate(self.program.centres(0 * point.x)) if self._tangent() else ()
        self.checkpoint({**self.names, "iterations": np.array([self.first + max(0, len(log) - 1)]),
                         "cost": np.array([float(self.program.nlp.f(point.x))]), "x": point.x, "lam_x": point.lam_x,
                         "lam_g": point.lam_g, "mu": np.array([point.mu]), **{f"centres_{i}": c for i, c in centres},
                         **log_arrays(log)})

    def solution(self, result: NLPResult) -> Solution:
        program, problem = self.program, self.problem
        found = as_solution(program, problem, self.method, self.options, result, program.parameters(result.x))
        redundant = repeated(problem) if overdetermined(program.nlp) else ()
        findings = [*program.findings, *result.findings, *self.findings, *redundant]
        if self.resume is not None:
            findings.append(Finding(Kind.RESUMED, value=float(self.resume["cost"][0]), data={"iterations": self.first}))
        spent = {**self.spent, "transcription": self.spent["transcription"] - self.spent["compile"],
                 "total": time.perf_counter() - self.started}
        return replace(
            found, iterations=joined(self.before, _numbered(self.rows, self.first)), seconds=spent,
            findings=(*findings, *found.findings),
            freeze={} if self.factors is None else {"scaling": scaling_text(program.nlp, self.factors)})


def as_solution(program: Transcription, problem: Problem, method: str, options: Any, result: NLPResult,
                chosen: Mapping[str, float]) -> Solution:
    """The point of a program as a solution of the problem, with the values of the parameters that were chosen."""
    parts = program.parts(result.x)
    extra = {"lam_x": result.lam_x, "lam_g": result.lam_g}
    for name, values in (("costate", program.costate(result.lam_g)),
                         ("integral_multipliers", [result.lam_g[rows] for rows in program.integrals])):
        extra |= {name if len(parts) == 1 else f"{phase.name}.{name}": value
                  for phase, value in zip(problem.phases, values, strict=True) if len(value)}
    extra |= {"parameters": np.array(list(chosen.values()))} if chosen else {}
    return Solution(
        problem=with_parameters(problem, chosen), method=method, options=asdict(options), status=result.status,
        ending=result.ending, objective=result.f, trajectory=join(parts), parts=parts if len(parts) > 1 else (),
        iterations=result.iterations, seconds=result.seconds, extra=extra,
        optimality=Optimality(program.nlp, result.x, result.lam_x, result.lam_g, program.parts, program.owners),
        findings=tuple(Finding(Kind.PARAMETER_CHOSEN, name=name, value=value) for name, value in chosen.items()))


def factors_of(nlp: NLP, scaling: str) -> Scaling | None:
    """The factors by which a program is scaled: those of the option ``scaling``, or of one that is extraordinary; None for none."""
    found = _factors(nlp, scaling)
    return extraordinary(nlp) if found is None else found


def _factors(nlp: NLP, scaling: str) -> Scaling | None:
    """The factors that the option ``scaling`` names or holds; None for no scaling. Programs that are centred anew keep them."""
    if rule(scaling) == "none":
        return None
    return choose_scaling(nlp, scaling) if scaling == rule(scaling) else read_scaling(nlp, scaling)


def _solved(nlp: NLP, solver: SolverOptions, factors: Scaling | None, warm: Warm | None, progress: Progress | None,
            watch: WatchPoint | None) -> NLPResult:
    """The solution of the program through its scaled twin, in its own terms."""
    plain = replace(solver, scaling="none")
    check(Activity.SCALING)
    factors = extraordinary(nlp) if factors is None else factors
    if factors is None:
        check(Activity.SOLVING)
        return prepare_solver(nlp, plain).solve(warm, None, progress, watch)
    inner, way = scaled(nlp, factors)
    found = way.result(prepare_solver(inner, plain).solve(None if warm is None else way.down(warm), None,
                                                          *way.seen_by(progress, watch)))
    return replace(found, findings=(way.scaling.finding, *unscaled_violation(nlp, found, solver.tolerance), *found.findings))


def _numbered(rows: Log, first: int) -> list[Mapping[str, float]]:
    return [{**row, "iteration": first + i} for i, row in enumerate(rows)]


class WarmStart(NamedTuple):
    """The point to start from, the log so far and its iterations."""

    point: Warm | None
    log: Log
    iterations: int


def _warm(resume: Checkpoint | None, names: Mapping[str, np.ndarray]) -> WarmStart:
    """The point to start from, the log so far and its iterations."""
    if resume is None:
        return WarmStart(None, (), 0)
    check_layout(resume, names)
    point = Warm(resume["x"], resume["lam_x"], resume["lam_g"], float(resume["mu"][0]))
    return WarmStart(point, log_rows(resume), int(resume["iterations"][0]))


def _largest_move(program: Transcription, x: np.ndarray) -> float:
    """How far states that stand in tangent unknowns are from their centres, where the space is curved."""
    largest = 0.0
    for form, columns in zip(program.forms, program.state_columns, strict=True):
        if form.tangent:
            curved = [i for i in range(form.size) if i not in form.space.tangent_index]
            largest = max(largest, float(np.max(np.abs(x[columns[:, curved]]), initial=0.0)))
    return largest


def _about_centres(program: Transcription, x: np.ndarray) -> np.ndarray:
    """The same point about the new centres: tangent unknowns zero."""
    moved = np.array(x)
    for form, columns in zip(program.forms, program.state_columns, strict=True):
        if form.tangent:
            moved[columns] = 0.0
    return moved
