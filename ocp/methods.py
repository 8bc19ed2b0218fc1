"""The table of methods, and the one road from a problem to a certified solution."""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynamics.errors import near
from ocp.algebraic import eliminated, restored
from ocp.certify import Tolerances, certify
from ocp.conclusion import conclude
from ocp.errors import ProblemError, UnsupportedError
from ocp.guess import sample_guess
from ocp.interrupts import Activity, Budget, Stopped, attempt, check, held, late, limited
from ocp.problem import SOLVED, Problem, Solution, Status, Trajectory, join
from ocp.problem.checkpoint import Checkpoint, Keep
from ocp.problem.left_out import left_out, stopped_in
from ocp.reach import Finding, end_findings, first_findings
from ocp.splits import joined

#: options that say how time is discretised
OF_TIME = ("integrator", "intervals", "steps", "controls", "cost_quadrature")
Progress = Callable[[Mapping[str, Any]], None]


def in_discrete_time(problem: Problem) -> bool:
    """Whether all steps are given, so that there is no time to discretise."""
    return all(phase.steps is not None for phase in problem.phases)


def idle(problem: Problem, options: Any) -> tuple[str, ...]:
    """Options of a record that differ from their default and that the problem leaves without a meaning."""
    changed = {f.name for f in dataclasses.fields(options) if getattr(options, f.name) != f.default}
    return tuple(name for name in OF_TIME if name in changed) if in_discrete_time(problem) else ()


NOTHING_TO_SAY = "says nothing of a system in discrete time, whose steps are given; leave it out"


@dataclass(frozen=True)
class Method:
    """A method by the places of its three parts; they are imported on use, so that one method never pays for another.

    ``solve(problem, options, progress, checkpoint, resume)`` in ``solver``; the options dataclass and
    ``unsupported(problem)`` in ``options``; ``finer(problem, options, solution)`` in ``solver``, too. judged: whether the solver
    takes ``judge=``, which certifies a solution on the way.
    """

    name: str
    summary: str
    solver: str
    options_module: str
    options_name: str
    judged: bool = False

    def options_type(self) -> Any:
        return getattr(importlib.import_module(self.options_module), self.options_name)

    def unsupported(self, problem: Problem) -> list[str]:
        """One sentence for each thing that this method cannot enforce."""
        found: list[str] = importlib.import_module(self.options_module).unsupported(problem)
        return found

    def served(self, problem: Problem, options: Any) -> Problem:
        """The problem as the method sees algebraic unknowns: those of its program (``served`` in ``solver``), or eliminated."""
        own = getattr(importlib.import_module(self.solver), "served", None)
        return eliminated(problem) if own is None else own(problem, options)

    def finer(self, problem: Problem, options: Any, solution: Solution) -> Solution:
        """The problem, whose guess is the solution, solved on a finer mesh than that of the solution."""
        found: Solution = importlib.import_module(self.solver).finer(problem, options, solution)
        return found

    def run(self, problem: Problem, options: Any, progress: Progress | None, checkpoint: Keep | None = None,
            resume: Checkpoint | None = None, judged: Tolerances | None = None) -> Solution:
        given: dict[str, Any] = {}
        if self.judged:
            own = judged or Tolerances()
            given = {"judge": lambda found: certify(found, own), "allowed": (own.gap_segment, own.error_estimate)}
        solution: Solution = importlib.import_module(self.solver).solve(problem, options, progress, checkpoint, resume, **given)
        return solution


METHODS: Mapping[str, Method] = {m.name: m for m in (
    Method("collocation", "direct collocation by schemes of any degree, solved as a nonlinear program",
           "ocp.transcription.collocation", "ocp.transcription.collocation", "CollocationOptions", True),
    Method("multiple_shooting", "direct multiple shooting with any integrator, solved as a nonlinear program",
           "ocp.transcription.multiple_shooting", "ocp.transcription.multiple_shooting", "MultipleShootingOptions"),
    Method("ilqr", "iterative LQR / DDP with control bounds, compiled loops",
           "ocp.shooting.ilqr", "ocp.shooting.options", "ILQROptions"),
    Method("adjoint", "single shooting by adjoint gradients and L-BFGS-B, for parameters of long and stiff motions",
           "ocp.shooting.adjoint", "ocp.shooting.adjoint", "AdjointOptions"),
)}


def method(name: str) -> Method:
    """A method by name. Raises ProblemError with near misses."""
    if name not in METHODS:
        raise ProblemError(f"no method named {name!r}{near(name, METHODS)}", where="method")
    return METHODS[name]


def make_options(name: str, values: Mapping[str, Any]) -> Any:
    """The options record of a method. Raises ProblemError for an unknown key (with near misses) or a bad value."""
    kind = method(name).options_type()
    known = {field.name for field in dataclasses.fields(kind)}
    for key in values:
        if key not in known:
            raise ProblemError(f"unknown option {key!r}{near(key, known)}", where=f"solve.{name}")
    return kind(**values)


def solve(
    problem: Problem, name: str = "collocation", options: Mapping[str, Any] | Any = None, *,
    tolerances: Tolerances | None = None, progress: Progress | None = None, checkpoint: Keep | None = None,
    resume: Checkpoint | None = None, time_limit: float | None = None, so_far: Callable[[Solution], Any] | None = None,
) -> Solution:
    """Solve and certify. options: a mapping of option names, or the method's options record.

    checkpoint: called with a mapping of arrays (``ocp.problem.checkpoint``) every ten seconds, when the solve is interrupted,
    and at its end unless it converged. resume: such a mapping, of the same problem and method; the solve goes on from there.
    Iterations are numbered on, and the log of the solution has those before, too; limits of iterations count anew.
    time_limit [s]: work stops at its next step after it (``ocp.interrupts``), and the best of what was found comes back, without
    the bar of its objective; status TIME_LIMIT where that is no solution, or not certified in time; findings name what was left
    out. so_far: gets every solution that may be the last, not certified: the guess, and what the method found. A problem whose
    bounds alone prove that it has no solution is not solved: status INFEASIBLE, no certificate.

    The solution of a system with algebraic unknowns has them behind its controls, by ``problem.phases[i].system.inputs``.

    Raises UnsupportedError, naming every constraint that the method cannot enforce and the methods that can;
    ProblemError for unknown methods and options, and for a checkpoint of another problem.
    ``solution.ok`` tells whether the answer can be trusted. After Ctrl-C, or the limit, the certificate gets a second; where that
    does not suffice the status is INTERRUPTED, or TIME_LIMIT.
    """
    chosen = method(name)
    reasons = chosen.unsupported(problem)
    if reasons:
        able = [m.name for m in METHODS.values() if m.name != name and not m.unsupported(problem)]
        raise UnsupportedError(name, reasons, able)
    record = make_options(name, options or {}) if options is None or isinstance(options, Mapping) else options
    if (names := idle(problem, record)):
        raise ProblemError(NOTHING_TO_SAY, where=f"solve.{name}.{names[0]}")
    begin = time.perf_counter()
    with limited(time_limit) as budget:
        problem = chosen.served(problem, record)
        if sure := [one.text for one in _ruled_out(problem, first_findings) if one.sure]:
            return joined(restored(_impossible(problem, name, record, sure, time.perf_counter() - begin)))
        if so_far is not None:
            so_far(_unsolved(problem, name, record, budget, begin))
        try:
            check(Activity.FUNCTIONS)
            with held(False, progress) as ctrl_c:
                solution = chosen.run(problem, record, ctrl_c.progress, checkpoint, resume, tolerances)
        except Stopped:
            if budget.asked:
                raise
            return _unsolved(problem, name, record, budget, begin)
        middle = time.perf_counter()
        if so_far is not None:
            so_far(joined(restored(_timed(solution, budget))))
        certified = _timed(_concluded(solution, record, chosen, tolerances, solution.status is Status.INTERRUPTED), budget)
    if certified.status is Status.INFEASIBLE:
        told = tuple(one.text for one in _ruled_out(problem, end_findings))
        certified = dataclasses.replace(certified, notes=(*certified.notes, *told))
    if in_discrete_time(problem):
        certified = dataclasses.replace(certified, options={k: v for k, v in certified.options.items() if k not in OF_TIME})
    seconds = dict(certified.seconds) | {"method": middle - begin, "certificate": time.perf_counter() - middle}
    return joined(restored(dataclasses.replace(certified, seconds=seconds)))


def _ruled_out(problem: Problem, findings: Callable[[Problem], tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """What bounds, or ends, by themselves rule out; nothing where the time is up."""
    nothing: tuple[Finding, ...] = ()
    return attempt(lambda: findings(problem), nothing, Activity.BOUNDS)


def _timed(solution: Solution, budget: Budget) -> Solution:
    """With the status and the findings of a limit of time."""
    if solution.status is Status.INTERRUPTED and late() and not budget.asked:
        solution = dataclasses.replace(solution, status=Status.TIME_LIMIT)
    return dataclasses.replace(solution, findings=(*solution.findings, *left_out(budget, solution)))


def _unsolved(problem: Problem, name: str, options: Any, budget: Budget, begin: float) -> Solution:
    """What there is to hand back where the time is up before the first iterate: the guess."""
    message = "No iterate was found; the trajectory is the guess."
    found = _guess(problem, name, options, Status.TIME_LIMIT, message, time.perf_counter() - begin)
    return joined(restored(dataclasses.replace(found, findings=(stopped_in(budget), *left_out(budget, found)))))


def _impossible(problem: Problem, name: str, options: Any, sure: Sequence[str], seconds: float) -> Solution:
    """What there is to hand back where nothing need be tried: the guess, and why."""
    told = "No motion exists, whatever the method: " + "; ".join(sure) + "."
    return dataclasses.replace(_guess(problem, name, options, Status.INFEASIBLE, told, seconds),
                               notes=("nothing was solved: bounds alone rule it out; the trajectory is the guess",))


def _guess(problem: Problem, name: str, options: Any, status: Status, message: str, seconds: float) -> Solution:
    """The guess as a solution of this status, without an objective."""
    parts, begins = [], 0.0
    for phase in problem.phases:
        guess, space, length = phase.guess, phase.system.space, phase.duration.guess

        def state(t: Any, own: Any = (guess, space, begins, length)) -> np.ndarray:
            x, _ = sample_guess(own[0], own[1], np.clip((np.atleast_1d(t) - own[2]) / own[3], 0.0, 1.0))
            return x if np.ndim(t) else x[0]

        def control(t: Any, own: Any = (guess, space, begins, length)) -> np.ndarray:
            _, u = sample_guess(own[0], own[1], np.clip((np.atleast_1d(t) - own[2]) / own[3], 0.0, 1.0))
            return u if np.ndim(t) else u[0]

        t = begins + length * np.linspace(0.0, 1.0, 21)
        parts.append(Trajectory(t, state(t), control(t), t, state, control))
        begins += length
    return Solution(problem, name, dataclasses.asdict(options), status, message, float("nan"), join(parts), (),
                    {"total": seconds}, parts=tuple(parts) if len(parts) > 1 else ())


def _concluded(solution: Solution, options: Any, chosen: Method, tolerances: Tolerances | None, hurried: bool) -> Solution:
    """The solution with its certificate and bar; hurried: what was stopped gets a certificate only. After Ctrl-C, which may also
    come now, and after the limit, with what certificate there is time for."""
    try:
        with held():
            solution = certify(solution, tolerances) if hurried else conclude(
                solution, options, lambda given, record: chosen.run(given, record, None, judged=tolerances), chosen.finer,
                tolerances)
    except KeyboardInterrupt:  # Ctrl-C for the second time
        pass
    if solution.status in SOLVED and (solution.certificate is None or solution.certificate.left_out):
        return dataclasses.replace(solution, status=Status.INTERRUPTED,
                                   message="The method had converged; the certificate is not complete.")
    return solution
