"""Build once, solve often: the program of a problem stands ready, and takes the numbers of every case anew.

    problem -> full solve (strategy, mesh, guess) -> options frozen -> reduced -> program    once
    case    -> numbers -> the program, moved -> solve from a point -> solution, certified     every time

What follows from the problem alone (the mesh, the scheme, scaling, kernels) is that of the first solve, so that a case depends on
the problem, its numbers and the point that it starts from, and on nothing that was solved in between.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ocp.certify import Tolerances, certify
from ocp.errors import ProblemError
from ocp.guesses.motion import from_solution
from ocp.interrupts import limited
from ocp.methods import make_options, method, solve
from ocp.nlp import NLP, NLPResult, Solver, Warm, prepare_solver
from ocp.observed import translated
from ocp.problem import SOLVED, Guess, Problem, Solution, Status
from ocp.problem.numbers import structure_of, with_guess
from ocp.reductions import ReducedProblem, again, invert
from ocp.transcription.static_unknowns import static_unknowns

Progress = Callable[[Mapping[str, Any]], None]
#: where a solve starts, or ended: arrays by name, pure data
Point = Mapping[str, np.ndarray]
#: barrier parameters of a solve that starts from the solution of a neighbour: the first keeps most active bounds, that of a second
#: try lets them change
WARM_BARRIER, RETRY_BARRIER = 1e-7, 1e-2
#: how solves end after which nothing else is tried
ENDED = (*SOLVED, Status.INTERRUPTED, Status.TIME_LIMIT)
#: what only one thread of a process may do at a time: building, and solvers that keep a state of the process, as IPOPT's MUMPS
ALONE = threading.RLock()
#: of direct methods; others go on from a path
BY_PROGRAM = ("collocation", "multiple_shooting")


@dataclass(frozen=True, eq=False)
class Case:
    """How a solve ended, and the point that others may start from, None where it is no answer; the solution, with its motion
    between the knots, is made where somebody asks for it."""

    status: Status
    objective: float
    point: Point | None
    make: Callable[[], Solution]

    @cached_property
    def solution(self) -> Solution:
        """The solution, reconstructed on demand."""
        return self.make()



class Varied(NamedTuple):
    """Numbers that a program takes anew beside bounds and limits: parameters by name, and whether durations that are fixed."""

    parameters: tuple[str, ...] = ()
    durations: bool = False


class Program(Protocol):
    """A solver of reduced problems that differ in numbers. made_of: what it was made of beside problem, name and options."""

    made_of: tuple[Any, ...]

    def solve(self, problem: Problem, start: Point | None, progress: Progress | None) -> Case:
        """From a point of this program, or from the guess of the problem."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """A problem with its program. base: its own solution, from which cases start unless they get another point; parameters:
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pure data: the program is made anew where it is read, from cached kernels."""
        base = (self.base.solution, self.base.point)
        return _read, (self.problem, self.name, self.options, self.parameters, self.tolerances, base, self.reduced, self.structure,
                       self.program.made_of)

    def solve(self, problem: Problem, start: Point | None = None, *, guess: bool = False, certified: bool = True,
              progress: Progress | None = None, time_limit: float | None = None) -> Case:
        """Solve a case. problem: that of :attr:`problem` with other numbers (``ocp.problem.numbers``); start: the point of another
        case, default: of the base; guess: start from the guess of the problem instead; certified: whether the solution gets its
        certificate (without error bound of the objective, which takes another mesh).

        A solve that fails from a point is tried again from the guess. Raises ProblemError for numbers that are constants
        of the program.
        """
        begin = time.perf_counter()
        reduced = self._reduce(problem)
        point = None if guess else start or self.base.point
        with limited(time_limit) if certified or time_limit is not None else nullcontext():
            found = self.program.solve(reduced, point, progress)
            if point is not None and found.status not in ENDED:
                again = self.program.solve(reduced, None, progress)
                found = again if again.status in SOLVED else found
            middle = time.perf_counter()
            judged = certify(found.solution, self.tolerances) if certified else None
        spent = {"method": middle - begin, "certificate": time.perf_counter() - middle}

        def whole() -> Solution:
            solution = found.solution if judged is None else judged
            return invert(replace(solution, seconds={**solution.seconds, **spent}))

        return Case(found.status if judged is None else judged.status, found.objective, found.point, whole)

    def _reduce(self, problem: Problem) -> Problem:
        """The program of a case."""
        if not isinstance(self.reduced, ReducedProblem):
            return problem
        if (found := again(self.reduced, problem)) is not None:
            return found
        reduced = method(self.name).reduce(problem, self.options)
        if structure_of(reduced) != self.structure:
            raise ProblemError("these values change the structure of the problem; compile it again",
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
        ready = from_solution(problem, found)
    reduced = method(name).reduce(ready, frozen)
    first = found.optimality if found.status in SOLVED else None
    made = _program(reduced, name, frozen, Varied(tuple(parameters), durations), _limits(first.nlp) if name in BY_PROGRAM and first
                    else None)
    base = made.solve(reduced, None, None)
    if base.status in SOLVED:
        found = invert(certify(base.solution, tolerances or Tolerances()))
    return Compiled(ready, name, frozen, tuple(parameters), tolerances or Tolerances(), _known(found, base.point), made, reduced,
                    structure_of(reduced))


def _known(solution: Solution, point: Point | None) -> Case:
    return Case(solution.status, solution.objective, point, lambda: solution)


def _program(problem: Problem, name: str, options: Any, varied: Varied, first: Mapping[str, np.ndarray] | None) -> Program:
    if name in BY_PROGRAM:
        return DirectProgram(problem, name, options, varied, first)
    return MotionProgram(problem, name, options, varied)


def _read(problem: Problem, name: str, options: Any, parameters: tuple[str, ...], tolerances: Tolerances, base: Any,
          reduced: Problem, structure: str, made_of: Any) -> Compiled:
    made = _program(reduced, name, options, *made_of)
    return Compiled(problem, name, options, parameters, tolerances, _known(*base), made, reduced, structure)


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


def _frozen(name: str, value: Any, found: Solution) -> Any:
    """The options with what the first solve chose."""
    changed = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)
               if f.default is dataclasses.MISSING or getattr(value, f.name) != f.default}
    chosen = {**changed, **(found.freeze if found.status in SOLVED else {})}
    if "refine" in {f.name for f in dataclasses.fields(value)}:
        chosen = {**chosen, "refine": "none"}
        if found.status not in SOLVED:
            chosen |= {"scheme": value.scheme, "intervals": value.intervals}
    return make_options(name, {**chosen, "guess": "given"} if hasattr(value, "guess") else chosen)


# ---- nonlinear programs -----------------------------------------------------------------------------------------------
class DirectProgram:
    """A nonlinear program, whose numbers are its bounds, its limits and unknowns that are fixed by equal bounds. Where IPOPT would
    solve it, the same method in compiled loops comes first (``ocp.nlp.interior_point``), whose kernels and elimination stay."""

    def __init__(self, problem: Problem, name: str, options: Any, varied: Varied, first: Mapping[str, np.ndarray] | None):
        """first: limits of the program of the first solve, which were tightened between nodes."""
        from ocp.transcription.direct import factors_of

        transcribe = method(name).parts().transcribe
        assert transcribe is not None
        repeats = options.solver == "ipopt" and options.hessian != "limited_memory"
        self.name, self.options, self.varied = name, replace(options, solver="interior_point") if repeats else options, varied
        self._first = pinned(problem, varied)
        self.program = transcribe(self._first, self.options)
        self._guess: tuple[list[Guess], np.ndarray] = [phase.guess for phase in problem.phases], self.program.nlp.x0
        assert self.program.moved is not None
        assert self.program.limited is not None
        self._moved, self._limited = self.program.moved, self.program.limited
        self.made_of = varied, first
        self.margins = _tightened(self.program.nlp, first)
        self._factors = factors_of(self.program.nlp, options.scaling)
        self.solver = self._prepared(self.options)
        self._second = options if repeats else None

    def _prepared(self, options: Any) -> Solver:
        return prepare_solver(self.program.nlp, replace(options.nlp(), scaling="none"), self._factors)

    @cached_property
    def second(self) -> Solver | None:
        """The fallback if the first solver fails."""
        with ALONE:
            return None if self._second is None else self._prepared(self._second)

    def solve(self, problem: Problem, start: Point | None, progress: Progress | None) -> Case:
        """Solve one case from a start point, or cold."""
        given = pinned(problem, self.varied)
        nlp = self._limited(given)
        nlp = nlp if start is not None else nlp.limited(x0=self._first_point(given, nlp))
        warm = None if start is None else Warm(start["x"], start["lam_x"], start["lam_g"], WARM_BARRIER, RETRY_BARRIER)
        nlp, tell = self.margins(nlp), translated(progress, lambda point: self._moved(given).parts(point.x))
        result = _ran(self.solver.moved(nlp), warm, tell)
        if result.status not in ENDED and (second := self.second) is not None:
            other = _ran(second.moved(nlp), warm, tell)
            result = other if other.status in ENDED else result
        point = {"x": result.x, "lam_x": result.lam_x, "lam_g": result.lam_g} if result.status in SOLVED else None
        return Case(result.status, result.f, point, lambda: self._solution(problem, given, result))

    def _first_point(self, original: Problem, nlp: NLP) -> np.ndarray:
        """The guess of a problem as unknowns [n] of its program, which other numbers leave as it is, but for what they fix."""
        guesses = [phase.guess for phase in original.phases]
        if len(self._guess[0]) != len(guesses) or any(a is not b for a, b in zip(self._guess[0], guesses, strict=True)):
            self._guess = guesses, self._moved(with_guess(self._first, original)).nlp.x0
        lengths = len(nlp.x0) - static_unknowns(original).count
        x0 = np.concatenate([self._guess[1][:lengths], nlp.x0[lengths:]])
        return np.where(nlp.x_lower == nlp.x_upper, nlp.x_lower, x0)

    def _solution(self, problem: Problem, original: Problem, result: NLPResult) -> Solution:
        from ocp.transcription.direct import as_solution

        program = self._moved(original)
        program = replace(program, nlp=self.margins(program.nlp))
        chosen = {name: value for name, value in program.parameters(result.x).items() if name not in self.varied.parameters}
        found = as_solution(program, problem, self.name, self.options, result, chosen)
        return replace(found, findings=(*program.findings, *result.findings, *found.findings))


def _ran(solver: Solver, warm: Warm | None, progress: Progress | None) -> NLPResult:
    with nullcontext() if solver.options.solver == "interior_point" else ALONE:
        return solver.solve(warm, None, progress)


def _limits(nlp: NLP) -> dict[str, np.ndarray]:
    return {name: getattr(nlp, name) for name in ("x_lower", "x_upper", "g_lower", "g_upper")}


def _tightened(nlp: NLP, first: Mapping[str, np.ndarray] | None) -> Callable[[NLP], NLP]:
    """The transformation of limits from those of the first program to these, where it has the same unknowns, but for those that are
    fixed, and constraints."""
    if first is None or len(first["g_lower"]) != nlp.m or not nlp.n - len(first["x_lower"]) >= 0:
        return lambda own: own
    shifts = {}
    for name, ours in _limits(nlp).items():
        theirs = first[name]
        known = np.zeros(len(ours), dtype=bool)
        known[:len(theirs)] = np.isfinite(theirs) & np.isfinite(ours[:len(theirs)])
        shifts[name] = np.zeros(len(ours))
        shifts[name][known] = theirs[known[:len(theirs)]] - ours[known]
    fixed = nlp.x_lower == nlp.x_upper
    shifts["x_lower"][fixed] = shifts["x_upper"][fixed] = 0.0
    if not any(np.any(shift) for shift in shifts.values()):
        return lambda own: own

    def moved(own: NLP) -> NLP:
        new = {name: getattr(own, name) + shift for name, shift in shifts.items()}
        for kind in "xg":
            names = f"{kind}_lower", f"{kind}_upper"
            if (over := new[names[0]] > new[names[1]]).any():
                new |= {name: np.where(over, getattr(own, name), new[name]) for name in names}
        return own.limited(**new)

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
    """Kernels of iLQR, which take start, parameters and bounds as data; a point is the path of its stages."""

    def __init__(self, problem: Problem, name: str, options: Any, varied: Varied):
        from ocp.shooting import ilqr

        if name != "ilqr":
            raise ProblemError(f"{name} cannot be compiled; use collocation, multiple_shooting or ilqr", where="method")
        self.program, self.made_of = ilqr.prepare(problem, options), (varied, None)

    def solve(self, problem: Problem, start: Point | None, progress: Progress | None) -> Case:
        """Solve one case from a start point, or cold."""
        from ocp.guesses.table import Start
        from ocp.problem.checkpoint import Outside
        from ocp.shooting import ilqr

        self.program = ilqr.moved(self.program, problem)
        own, path = (None, None) if start is None else (Start("neighbour", "feasible"), (start["x"], start["u"]))
        found, _ = ilqr.shot(self.program, Outside(progress), start=own, path=path)
        now, solved = self.program.store.path, found.status in SOLVED
        return Case(found.status, found.objective, {"x": now.x.copy(), "u": now.u.copy()} if solved else None, lambda: found)
