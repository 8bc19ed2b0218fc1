"""Build once, solve often: the program of a problem stands ready, and takes the numbers of every case anew.

    problem -> full solve (strategy, mesh, guess) -> options frozen -> reduced -> program    once
    case    -> numbers -> the program, moved -> solve from a point -> solution, certified     every time

What follows from the problem alone (the mesh, the scheme, scaling, kernels) is that of the first solve, so that a case depends on
the problem, its numbers and the point that it starts from, and on nothing that was solved in between.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ocp.certify import Tolerances, certify
from ocp.errors import ProblemError
from ocp.guesses.motion import free_values, from_motion, from_samples
from ocp.interrupts import limited
from ocp.methods import make_options, method, solve
from ocp.nlp import NLP, Warm, prepare_solver
from ocp.observed import translated
from ocp.problem import SOLVED, Problem, Solution, Status
from ocp.problem.numbers import structure_of, with_guess
from ocp.reductions import ReducedProblem, again, invert

Progress = Callable[[Mapping[str, Any]], None]
#: where a solve starts, or ended: arrays by name, pure data
Point = Mapping[str, np.ndarray]
#: barrier parameter of a solve that starts from the solution of a neighbour, so that its active bounds may change
BARRIER = 1e-3
#: of direct methods; others go on from a motion
BY_PROGRAM = ("collocation", "multiple_shooting")


@dataclass(frozen=True)
class Case:
    """A solution, and the point that others may start from; None where it is no answer."""

    solution: Solution
    point: Point | None


class Varied(NamedTuple):
    """What a program takes anew beside bounds and limits: parameters by name, and whether durations that are fixed."""

    parameters: tuple[str, ...] = ()
    durations: bool = False


class Program(Protocol):
    """What solves reduced problems that differ in numbers."""

    def solve(self, problem: Problem, start: Point | None, progress: Progress | None) -> Case:
        """From a point of this program, or from the guess of the problem."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """A problem with its program. base: its own solution, from which cases start unless they are told another point; parameters:
    names of those whose values may differ; tolerances: of certificates; reduced: what the program solves, with its structure."""

    problem: Problem
    name: str
    options: Any
    parameters: tuple[str, ...]
    tolerances: Tolerances
    base: Case
    program: Program
    reduced: Problem
    structure: str

    def solve(self, problem: Problem, start: Point | None = None, *, guess: bool = False, certified: bool = True,
              progress: Progress | None = None, time_limit: float | None = None) -> Case:
        """Solve a case. problem: that of :attr:`problem` with other numbers (``ocp.problem.numbers``); start: the point of another
        case, default: of the base; guess: start from the guess of the problem instead; certified: whether the solution gets its
        certificate (without error bound of the objective, which takes another mesh).

        A solve that comes to nothing from a point is tried again from the guess. Raises ProblemError for numbers that are constants
        of the program.
        """
        begin = time.perf_counter()
        reduced = self._reduce(problem)
        point = None if guess else start or self.base.point
        with limited(time_limit):
            found = self.program.solve(reduced, point, progress)
            if point is not None and found.solution.status not in (*SOLVED, Status.INTERRUPTED, Status.TIME_LIMIT):
                again = self.program.solve(reduced, None, progress)
                found = again if again.solution.status in SOLVED else found
            middle = time.perf_counter()
            solution = certify(found.solution, self.tolerances) if certified else found.solution
        seconds = {**solution.seconds, "method": middle - begin, "certificate": time.perf_counter() - middle}
        return Case(invert(replace(solution, seconds=seconds)), found.point)

    def _reduce(self, problem: Problem) -> Problem:
        """What the program solves in a case."""
        if not isinstance(self.reduced, ReducedProblem):
            return problem
        if (found := again(self.reduced, problem)) is not None:
            return found
        reduced = method(self.name).reduce(problem, self.options)
        if structure_of(reduced) != self.structure:
            raise ProblemError("with these numbers the problem reduces to another one; compile it again",
                               where=f"problem {problem.name!r}")
        return reduced


def compiled(problem: Problem, name: str = "collocation", options: Mapping[str, Any] | None = None, *,
             parameters: Sequence[str] = (), durations: bool = False, tolerances: Tolerances | None = None,
             without: Sequence[str] = (), progress: Progress | None = None) -> Compiled:
    """Solve a problem, and keep its program on the mesh of that solution. parameters: names of those whose values may differ from
    case to case, beside prescribed states, bounds and limits; durations: whether fixed ones may, too. Raises what
    ``ocp.methods.solve`` raises, and ProblemError for an unknown parameter, one that the solver
    chooses, or one that phases give different values."""
    for own in parameters:
        _check_parameter(problem, own)
    given = make_options(name, options or {})
    found = solve(problem, name, given, tolerances=tolerances, without=without, progress=progress)
    frozen = _frozen(name, given, found)
    ready = problem
    if found.status in SOLVED:
        ready = from_motion(problem, found.parts or (found.trajectory,), free_values(problem, found))
    reduced = method(name).reduce(ready, frozen)
    make = DirectProgram if name in BY_PROGRAM else MotionProgram
    made = make(reduced, name, frozen, Varied(tuple(parameters), durations), found.optimality if found.status in SOLVED else None)
    base = made.solve(reduced, None, None)
    if base.solution.status in SOLVED:
        found = invert(certify(base.solution, tolerances or Tolerances()))
    return Compiled(ready, name, frozen, tuple(parameters), tolerances or Tolerances(), Case(found, base.point), made,
                    reduced, structure_of(reduced))


def serves(name: str, one: Problem, other: Problem) -> bool:
    """Whether a program of a method for one problem takes the numbers of another of the same structure."""
    if name in BY_PROGRAM:
        return True
    from ocp.shooting import ilqr

    try:
        ilqr.refuse_limits(one, other)
    except ProblemError:
        return False
    return name == "ilqr"


def _check_parameter(problem: Problem, name: str) -> None:
    values = {phase.system.parameter_values[phase.system.parameters.index(name)] for phase in problem.phases
              if name in phase.system.parameters}
    free = any(phase.system.parameters[i] == name for phase in problem.phases for i, _, _ in phase.free_parameters)
    if len(values) != 1 or free:
        why = "no phase has it" if not values else "the solver chooses it" if free else "phases give it different values"
        raise ProblemError(f"parameter {name!r} cannot be varied: {why}", where=f"problem {problem.name!r}")


def _frozen(name: str, given: Any, found: Solution) -> Any:
    """The options with what the first solve chose."""
    changed = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)
               if f.default is dataclasses.MISSING or getattr(given, f.name) != f.default}
    chosen = {**changed, **(found.freeze if found.status in SOLVED else {})}
    if "refine" in {f.name for f in dataclasses.fields(given)}:
        chosen = {**chosen, "refine": "none"}
        if found.status not in SOLVED:
            chosen |= {"scheme": given.scheme, "intervals": given.intervals}
    return make_options(name, {**chosen, "guess": "given"} if hasattr(given, "guess") else chosen)


# ---- nonlinear programs -----------------------------------------------------------------------------------------------
class DirectProgram:
    """A nonlinear program, whose numbers are its bounds, its limits and unknowns that are fixed by equal bounds."""

    def __init__(self, problem: Problem, name: str, options: Any, varied: Varied, first: Any):
        """first: what the first solve left for its certificate: its program has limits that were tightened between nodes."""
        from ocp.transcription.direct import factors_of

        transcribe = method(name).parts().transcribe
        assert transcribe is not None
        self.name, self.options, self.varied = name, options, varied
        self.program = transcribe(pinned(problem, varied), options)
        self.margins = _tightened(self.program.nlp, None if first is None else first.nlp)
        plain = replace(options.nlp(), scaling="none")
        self.solver = prepare_solver(self.program.nlp, plain, factors_of(self.program.nlp, options.scaling))

    def solve(self, problem: Problem, start: Point | None, progress: Progress | None) -> Case:
        from ocp.transcription.direct import as_solution

        assert self.program.moved is not None
        program = self.program.moved(pinned(problem, self.varied))
        warm = None if start is None else Warm(start["x"], start["lam_x"], start["lam_g"], BARRIER)
        program = replace(program, nlp=self.margins(program.nlp))
        result = self.solver.moved(program.nlp).solve(warm, None, translated(progress, lambda point: program.parts(point.x)))
        chosen = {name: value for name, value in program.parameters(result.x).items() if name not in self.varied.parameters}
        found = as_solution(program, problem, self.name, self.options, result, chosen)
        found = replace(found, findings=(*program.findings, *result.findings, *found.findings))
        solved = result.status in SOLVED
        return Case(found, {"x": result.x, "lam_x": result.lam_x, "lam_g": result.lam_g} if solved else None)


def _tightened(nlp: NLP, first: NLP | None) -> Callable[[NLP], NLP]:
    """What moves limits as those of the first program differ from these, where it has the same unknowns, but for those that are
    fixed, and rows."""
    if first is None or first.m != nlp.m or not nlp.n - len(first.x0) >= 0:
        return lambda own: own
    shifts = {}
    for name in ("x_lower", "x_upper", "g_lower", "g_upper"):
        ours, theirs = getattr(nlp, name), getattr(first, name)
        known = np.zeros(len(ours), dtype=bool)
        known[:len(theirs)] = np.isfinite(theirs) & np.isfinite(ours[:len(theirs)])
        shifts[name] = np.zeros(len(ours))
        shifts[name][known] = theirs[known[:len(theirs)]] - ours[known]
    fixed = nlp.x_lower == nlp.x_upper
    shifts["x_lower"][fixed] = shifts["x_upper"][fixed] = 0.0

    def moved(own: NLP) -> NLP:
        new = {name: getattr(own, name) + shift for name, shift in shifts.items()}
        crossed = new["x_lower"] > new["x_upper"], new["g_lower"] > new["g_upper"]
        for kind, over in zip("xg", crossed, strict=True):
            for end in ("lower", "upper"):
                new[f"{kind}_{end}"] = np.where(over, getattr(own, f"{kind}_{end}"), new[f"{kind}_{end}"])
        return replace(own, **new)

    return moved


def pinned(problem: Problem, varied: Varied) -> Problem:
    """The problem whose parameters of these names are free between equal ends, durations too: unknowns of a program that its bounds
    fix. Their multipliers in ``Solution.extra["lam_x"]`` are the sensitivities of the optimum, with the opposite sign."""
    def own(phase: Any) -> Any:
        at = [(i, phase.system.parameter_values[i]) for i, name in enumerate(phase.system.parameters) if name in varied.parameters]
        return replace(phase, free_parameters=(*phase.free_parameters, *((i, value, value) for i, value in at)),
                       duration=replace(phase.duration, unknown=varied.durations))

    return replace(problem, phases=tuple(own(phase) for phase in problem.phases)) if any(varied) else problem


# ---- loops ------------------------------------------------------------------------------------------------------------
class MotionProgram:
    """Kernels of iLQR, which take start, parameters and bounds as data; a point is a motion."""

    def __init__(self, problem: Problem, name: str, options: Any, varied: Varied, first: Any):
        from ocp.shooting import ilqr

        if name != "ilqr":
            raise ProblemError(f"{name} has no program to keep; take collocation, multiple_shooting or ilqr", where="method")
        self.program = ilqr.prepare(problem, options)

    def solve(self, problem: Problem, start: Point | None, progress: Progress | None) -> Case:
        from ocp.guesses.table import Start
        from ocp.problem.checkpoint import Outside
        from ocp.shooting import ilqr

        if start is not None:
            problem = with_guess(problem, _along(problem, start))
        self.program = ilqr.moved(self.program, problem)
        found, _ = ilqr.shot(self.program, Outside(progress), start=None if start is None else Start("neighbour", "feasible"))
        parts = found.parts or (found.trajectory,)
        point = {f"{name}_{i}": value for i, part in enumerate(parts)
                 for name, value in (("t", part.t), ("x", part.x), ("t_u", part.t_u), ("u", part.u))}
        return Case(found, point if found.status in SOLVED else None)


def _along(problem: Problem, start: Point) -> Problem:
    """The problem with the motion of a point as its guess."""
    phases = tuple(from_samples(phase, start[f"t_{i}"], start[f"x_{i}"], start[f"t_u_{i}"], start[f"u_{i}"])
                   for i, phase in enumerate(problem.phases))
    return replace(problem, phases=phases)
