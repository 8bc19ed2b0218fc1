"""The table of methods, and the one way from a problem to a certified solution."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynamics.errors import near
from ocp.certify import Tolerances, certify
from ocp.errors import ProblemError, UnsupportedError
from ocp.guesses.sampling import sample_guess
from ocp.interrupts import Activity, Budget, Progress, Stopped, attempt, check, holding_interrupts, limited, time_is_up
from ocp.options import MethodOptions, outside, record_of
from ocp.problem import SOLVED, Finding, Kind, Problem, Solution, Status, Trajectory, join
from ocp.problem.checkpoint import NOBODY, Checkpoint, Keep, Outside
from ocp.problem.left_out import left_out, stopped_in
from ocp.reach import end_findings, first_findings
from ocp.reductions import chain_of, invert, with_dropped_conditions
from ocp.strategy.loop import concluded, searched
from ocp.strategy.records import State
from ocp.strategy.search import Judge, Search
from ocp.strategy.table import OPTIONAL

if TYPE_CHECKING:
    from ocp.transcription.program import Transcription

#: options that say how time is discretised
OF_TIME = ("integrator", "intervals", "steps", "controls", "cost_quadrature")


def in_discrete_time(problem: Problem) -> bool:
    """Whether all steps are given, so that there is no time to discretise."""
    return all(phase.steps is not None for phase in problem.phases)


def idle(problem: Problem, options: MethodOptions) -> tuple[str, ...]:
    """Options of a record that differ from their default and that the problem leaves without a meaning."""
    changed = {f.name for f in dataclasses.fields(options) if getattr(options, f.name) != f.default}
    return tuple(name for name in OF_TIME if name in changed) if in_discrete_time(problem) else ()


NOTHING_TO_SAY = "does not apply to a discrete-time system; leave it out"


#: (problem, options, outside, judge, rules that are not to fire, tolerances) -> the search, and where it begins
Searching = Callable[[Problem, Any, Outside, Judge | None, frozenset[str], Tolerances], tuple[Search, State]]


class Parts(NamedTuple):
    """Of a method: its record of options; ``unsupported(problem)``, a sentence for each thing that it cannot enforce;
    ``searching``, its search; ``transcribe(problem, options)``, the program, of methods that make one."""

    options: type[MethodOptions]
    unsupported: Callable[[Problem], list[str]]
    searching: Searching
    transcribe: Callable[[Problem, Any], Transcription] | None = None


def _collocation() -> Parts:
    from ocp.strategy.collocation import searching
    from ocp.transcription.collocation import CollocationOptions, transcribe, unsupported

    return Parts(CollocationOptions, unsupported, searching, transcribe)


def _multiple_shooting() -> Parts:
    from ocp.strategy.multiple_shooting import searching
    from ocp.transcription.multiple_shooting import MultipleShootingOptions, transcribe, unsupported

    return Parts(MultipleShootingOptions, unsupported, searching, transcribe)


def _ilqr() -> Parts:
    from ocp.shooting.options import ILQROptions, unsupported

    def searching(*options: Any) -> tuple[Search, State]:
        from ocp.strategy.shooting import searching  # loads Numba

        return searching(*options)

    return Parts(ILQROptions, unsupported, searching)


def _adjoint() -> Parts:
    from ocp.shooting.adjoint import AdjointOptions, unsupported
    from ocp.strategy.shooting import searching_adjoint

    return Parts(AdjointOptions, unsupported, searching_adjoint)


@dataclass(frozen=True)
class Method:
    """A method by name; its parts are imported on use, so that one method never pays for another. reductions: names of those that
    it needs, in their order; options may leave some out."""

    name: str
    summary: str
    parts: Callable[[], Parts]
    reductions: tuple[str, ...]

    def options_type(self) -> type[MethodOptions]:
        """The record of the method's options."""
        return self.parts().options

    def unsupported(self, problem: Problem) -> list[str]:
        """One sentence for each thing that this method cannot enforce."""
        return self.parts().unsupported(problem)

    def reduce(self, problem: Problem, options: MethodOptions) -> Problem:
        """The problem that the method solves; ``ocp.reductions.invert`` leads back from its solution."""
        return chain_of(self.reductions).apply(problem, options)


METHODS: Mapping[str, Method] = {m.name: m for m in (
    Method("collocation", "direct collocation by schemes of any degree, solved as a nonlinear program", _collocation,
           ("time_switches", "vanishing_sums", "hidden_constraints", "control_norms", "lifted_forces", "algebraic_equations",
            "algebraic_elimination", "redundant_conditions")),
    Method("multiple_shooting", "direct multiple shooting with any integrator, solved as a nonlinear program", _multiple_shooting,
           ("time_switches", "vanishing_sums", "hidden_constraints", "control_norms", "algebraic_equations",
            "algebraic_elimination", "redundant_conditions")),
    Method("ilqr", "iterative LQR / DDP with control bounds, compiled loops", _ilqr,
           ("vanishing_sums", "algebraic_equations", "algebraic_elimination", "redundant_conditions", "control_bounds")),
    Method("adjoint", "single shooting by adjoint gradients and L-BFGS-B, for parameters of long and stiff motions", _adjoint,
           ("algebraic_equations", "algebraic_elimination")),
)}


def method(name: str) -> Method:
    """A method by name. Raises ProblemError with near misses."""
    if name not in METHODS:
        raise ProblemError(f"no method named {name!r}{near(name, METHODS)}", where="method")
    return METHODS[name]


def make_options(name: str, values: Mapping[str, Any]) -> MethodOptions:
    """The options record of a method. Raises ProblemError for an unknown key (with near misses) or a bad value."""
    return record_of(method(name).options_type(), values, f"solve.{name}")


def spelt_otherwise(name: str, options: object) -> tuple[Finding, ...]:
    """That options of a method, as given, now stand in a section of its record."""
    if not isinstance(options, Mapping):
        return ()
    found = outside(method(name).options_type(), options)
    return (Finding(Kind.OPTIONS_IN_SECTION, name=name, data={"sections": found}),) if found else ()


def switched_off(names: Sequence[str]) -> frozenset[str]:
    """Rules of the strategy that are not to fire. Raises ProblemError, with near misses, for what is no rule that may be switched
    off."""
    for name in names:
        if name not in OPTIONAL:
            raise ProblemError(f"no rule named {name!r} may be switched off{near(name, OPTIONAL)}",
                               where="solve.strategy.without")
    return frozenset(names)


def solve(
    problem: Problem, name: str = "collocation", options: Mapping[str, Any] | MethodOptions | None = None, *,
    tolerances: Tolerances | None = None, progress: Progress | None = None, checkpoint: Keep | None = None,
    resume: Checkpoint | None = None, time_limit: float | None = None, so_far: Callable[[Solution], Any] | None = None,
    without: Sequence[str] = (),
) -> Solution:
    """Solve and certify. options: a mapping of option names, or the method's options record.

    checkpoint: called with a mapping of arrays (``ocp.problem.checkpoint``) every ten seconds, when the solve is interrupted,
    and at its end unless it converged. resume: such a mapping, of the same problem and method; the solve goes on from there.
    Iterations are numbered on, and the log of the solution has those before, too; limits of iterations count anew.
    time_limit [s]: work stops at its next step after it (``ocp.interrupts``), and the best of what was found comes back, without
    the error bound of its objective; status TIME_LIMIT where that is no solution, or not certified in time; findings name what was
    left out. so_far: gets every solution that may be the last, not certified: the guess, and what the method found. A problem whose
    bounds alone prove that it has no solution is not solved: status INFEASIBLE, no certificate. without: names of rules of the
    strategy (``ocp.strategy.table``) that are not to fire.

    The solution of a system with algebraic unknowns has them behind its controls, by ``problem.phases[i].system.inputs``.

    Raises UnsupportedError, naming every constraint that the method cannot enforce and the methods that can;
    ProblemError for unknown methods, options and rules, and for a checkpoint of another problem.
    ``solution.ok`` tells whether the answer can be trusted. After Ctrl-C, or the limit, the certificate gets a second; where that
    does not suffice the status is INTERRUPTED, or TIME_LIMIT.
    """
    chosen, off = method(name), switched_off(without)
    record = _admitted(chosen, problem, options)
    begin, own, spelt = time.perf_counter(), tolerances or Tolerances(), spelt_otherwise(name, options)
    with limited(time_limit) as budget:
        problem = chosen.reduce(problem, record)
        whole = with_dropped_conditions(problem)
        if sure := [one for one in _ruled_out(whole, first_findings) if one.data["sure"]]:
            return invert(_impossible(problem, name, record, sure, time.perf_counter() - begin))
        if so_far is not None:
            so_far(_unsolved(problem, name, record, budget, begin))
        try:
            check(Activity.FUNCTIONS)
            with holding_interrupts(False, progress) as ctrl_c:
                outside = Outside(ctrl_c.progress, checkpoint, resume)
                search, state = chosen.parts().searching(problem, record, outside, judge(own), off, own)
                solution = searched(search, state)
        except Stopped:
            if budget.asked:
                raise
            return _unsolved(problem, name, record, budget, begin)
        middle = time.perf_counter()
        if so_far is not None:
            so_far(invert(_timed(solution, budget)))
        quiet = dataclasses.replace(search, outside=NOBODY)
        certified = _timed(_concluded(quiet, solution, solution.status is Status.INTERRUPTED), budget)
    if certified.status is Status.INFEASIBLE:
        certified = dataclasses.replace(certified, findings=(*certified.findings, *_ruled_out(whole, end_findings)))
    if in_discrete_time(problem):
        certified = dataclasses.replace(certified, options={k: v for k, v in certified.options.items() if k not in OF_TIME})
    seconds = dict(certified.seconds) | {"method": middle - begin, "certificate": time.perf_counter() - middle}
    return invert(dataclasses.replace(certified, seconds=seconds, findings=(*spelt, *certified.findings)))


def _admitted(chosen: Method, problem: Problem, options: Mapping[str, Any] | MethodOptions | None) -> MethodOptions:
    """The record of the options of a method that can solve the problem. Raises as ``solve`` does where it, or they, cannot."""
    if reasons := chosen.unsupported(problem):
        able = [m.name for m in METHODS.values() if m is not chosen and not m.unsupported(problem)]
        raise UnsupportedError(chosen.name, reasons, able)
    record = make_options(chosen.name, options or {}) if options is None or isinstance(options, Mapping) else options
    if names := idle(problem, record):
        raise ProblemError(NOTHING_TO_SAY, where=f"solve.{chosen.name}.{names[0]}")
    return record


def uncertified(problem: Problem, name: str, options: MethodOptions, outside: Outside = NOBODY) -> Solution:
    """The solution by a method alone, without certificate and error bound; but one that refines until the certificate holds."""
    chosen, own = method(name), Tolerances()
    search, state = chosen.parts().searching(chosen.reduce(problem, options), options, outside, judge(own), frozenset(), own)
    return searched(search, state)


def judge(tolerances: Tolerances) -> Judge:
    """The function that certifies solutions on the way."""
    return lambda found: certify(found, tolerances)


def _ruled_out(problem: Problem, findings: Callable[[Problem], tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """Conditions that bounds or ends alone rule out; none where the time is up."""
    nothing: tuple[Finding, ...] = ()
    return attempt(lambda: findings(problem), nothing, Activity.BOUNDS)


def _timed(solution: Solution, budget: Budget) -> Solution:
    """With the status and the findings of a limit of time."""
    if solution.status is Status.INTERRUPTED and time_is_up() and not budget.asked:
        solution = dataclasses.replace(solution, status=Status.TIME_LIMIT)
    return dataclasses.replace(solution, findings=(*solution.findings, *left_out(budget, solution)))


def _unsolved(problem: Problem, name: str, options: MethodOptions, budget: Budget, begin: float) -> Solution:
    """The guess as the answer where the time is up before the first iterate."""
    found = _guess(problem, name, options, Status.TIME_LIMIT, time.perf_counter() - begin)
    findings = (stopped_in(budget), *left_out(budget, found))
    return invert(dataclasses.replace(found, findings=findings, ending=Finding(Kind.NO_ITERATE)))


def _impossible(problem: Problem, name: str, options: MethodOptions, sure: Sequence[Finding], seconds: float) -> Solution:
    """The guess as the answer where nothing need be tried, and why."""
    found = _guess(problem, name, options, Status.INFEASIBLE, seconds)
    return dataclasses.replace(found, findings=(*sure, Finding(Kind.NOTHING_SOLVED)))


def _guess(problem: Problem, name: str, options: MethodOptions, status: Status, seconds: float) -> Solution:
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
    return Solution(problem, name, dataclasses.asdict(options), status, float("nan"), join(parts), (), {"total": seconds},
                    parts=tuple(parts) if len(parts) > 1 else ())


def _concluded(search: Search, solution: Solution, hurried: bool) -> Solution:
    """The solution with its certificate and error bound; hurried: what was stopped gets a certificate only. After Ctrl-C, which may
    also come now, and after the limit, with what certificate there is time for."""
    try:
        with holding_interrupts():
            solution = certify(solution, search.tolerances) if hurried else concluded(search, solution)
    except KeyboardInterrupt:  # Ctrl-C for the second time
        pass
    if solution.status in SOLVED and (solution.certificate is None or solution.certificate.left_out):
        return dataclasses.replace(solution, status=Status.INTERRUPTED, ending=Finding(Kind.CERTIFICATE_INCOMPLETE))
    return solution
