"""Reductions: their interface, the chain that composes them, and the reduced problem with its inverse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from ocp.problem import Phase, Problem, Solution, Trajectory, join


class Redundant(NamedTuple):
    """Conditions that a reduction has left out because others imply them.
    By phase: components of the start and of the final state [ndx], empty without such a condition; by linkage: its equations.

    """

    start: tuple[tuple[bool, ...], ...]
    final: tuple[tuple[bool, ...], ...]
    linkages: tuple[tuple[bool, ...], ...]


class Reduction(ABC):
    """An equivalent formulation of a problem, and the way back.

    keeps_controls: the controls of the problem are the first inputs of the reduced one. drops_conditions: bounds or end conditions
    are missing from the reduced problem, so that an analysis of bounds looks at the problem before. judged_in_pieces: the motion
    lies where functions of the problem jump, so that rounding decides on their values: those of the pieces count.
    """

    name: str
    keeps_controls: bool = True
    drops_conditions: bool = False
    judged_in_pieces: bool = False

    def needed(self, options: Any) -> bool:
        """Whether a method with these options asks for it."""
        return True

    @abstractmethod
    def apply(self, problem: Problem) -> tuple[Problem, Any]:
        """(the reduced problem, inverse data); the problem itself where there is nothing to do."""

    def again(self, problem: Problem, reduced: Problem, data: Any) -> tuple[Problem, Any] | None:
        """The same for a problem that differs from the one that was reduced in numbers alone (``ocp.problem.numbers``); None where
        it has to be reduced anew."""
        return None

    @abstractmethod
    def invert(self, solution: Solution, data: Any) -> Solution:
        """The solution of the problem that was given, of one of the reduced problem."""

    def fit_guess(self, problem: Problem, data: Any) -> Problem:
        """The reduced problem whose guess was changed, with one that meets what the reduction added."""
        return problem

    def objective_shortfall(self, solution: Solution, data: Any) -> float:
        """By how much the reduced problem may lower the objective."""
        return 0.0

    def redundant(self, data: Any) -> Redundant | None:
        """The conditions that it left out."""
        return None

    def redundant_before(self, found: Redundant, data: Any) -> Redundant:
        """Conditions that were left out of the reduced problem, as those of the problem that was given."""
        return found

    def origins(self, data: Any) -> tuple[int, ...] | None:
        """For every phase of the reduced problem the number of the phase that it is a piece of; None: they are the same."""
        return None


def in_given_phases(solution: Solution, data: Sequence[Phase | None],
                    back: Callable[[Phase, Phase, Trajectory], tuple[Phase, Trajectory]]) -> Solution:
    """The solution whose phases and trajectories are ``back(given, phase, path)``, those without a given phase as they are."""
    problem, paths = solution.problem, solution.parts or (solution.trajectory,)
    pairs = [(phase, path) if given is None else back(given, phase, path)
             for given, phase, path in zip(data, problem.phases, paths, strict=True)]
    parts = tuple(path for _, path in pairs)
    return replace(solution, problem=replace(problem, phases=tuple(phase for phase, _ in pairs)), trajectory=join(parts),
                   parts=parts if solution.parts else ())


class Step(NamedTuple):
    """A reduction that changed something: its inverse data, and the problem as it was before."""

    reduction: Reduction
    data: Any
    before: Problem


@dataclass(frozen=True)
class ReducedProblem(Problem):
    """The problem that a method solves, and the steps that lead back from it. ``dataclasses.replace`` keeps the steps, so that they
    stay with the problem when a strategy changes its guess; the number of phases must not change."""

    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Chain:
    """Reductions in their order."""

    reductions: tuple[Reduction, ...]

    def apply(self, problem: Problem, options: Any = None) -> Problem:
        """The reduced problem; the problem itself where nothing is needed, and where it has been reduced before."""
        if isinstance(problem, ReducedProblem):
            return problem
        steps: list[Step] = []
        for reduction in self.reductions:
            if not reduction.needed(options):
                continue
            reduced, data = reduction.apply(problem)
            if reduced is not problem:
                steps.append(Step(reduction, data, problem))
                problem = reduced
        return _with_steps(problem, steps)


def invert(solution: Solution, *, keep_controls: bool = False) -> Solution:
    """The solution of a reduced problem as one of the problem that was given; others as they are. keep_controls: only as far back
    as the controls are those of the reduced problem, whose multipliers and curvature ``solution.optimality`` knows."""
    while isinstance(solution.problem, ReducedProblem):
        *rest, last = solution.problem.steps
        if keep_controls and not last.reduction.keeps_controls:
            break
        solution = last.reduction.invert(solution, last.data)
        solution = replace(solution, problem=_with_steps(solution.problem, rest))
    return solution


def again(reduced: ReducedProblem, problem: Problem) -> Problem | None:
    """A problem that differs in numbers alone from one that was reduced, reduced in the same way; None where that takes more."""
    if len(reduced.steps) > 1:
        return None
    step = reduced.steps[0]
    found = step.reduction.again(problem, reduced, step.data)
    return None if found is None else _with_steps(_with_steps(found[0], ()), (Step(step.reduction, found[1], problem),))


def fit_guess(problem: Problem) -> Problem:
    """The problem with a guess that fits its reductions, after a strategy has changed it."""
    for step in _steps(problem):
        problem = step.reduction.fit_guess(problem, step.data)
    return problem


def objective_shortfall(solution: Solution) -> float:
    """By how much reductions may have lowered the objective of a solution."""
    return sum(step.reduction.objective_shortfall(solution, step.data) for step in _steps(solution.problem))


def redundant(problem: Problem) -> Redundant | None:
    """The conditions of the problem that its reductions have left out as redundant."""
    found: Redundant | None = None
    for step in reversed(_steps(problem)):
        own = step.reduction.redundant(step.data)
        found = own if own is not None else None if found is None else step.reduction.redundant_before(found, step.data)
    return found


def origins(problem: Problem) -> tuple[int, ...]:
    """For every phase of a reduced problem the number of the phase, of the problem that was given, that it is a piece of."""
    found = tuple(range(len(problem.phases)))
    for step in reversed(_steps(problem)):
        if (of := step.reduction.origins(step.data)) is not None:
            found = tuple(of[i] for i in found)
    return found


def judged_in_pieces(problem: Problem) -> bool:
    """Whether rates and costs along a motion are those of the pieces of its phases."""
    return any(step.reduction.judged_in_pieces for step in _steps(problem))


def with_dropped_conditions(problem: Problem) -> Problem:
    """The problem before the last reductions that took bounds or end conditions out of it."""
    for step in reversed(_steps(problem)):
        if not step.reduction.drops_conditions:
            break
        problem = _with_steps(step.before, _steps(problem)[:-1])
    return problem


def _steps(problem: Problem) -> tuple[Step, ...]:
    return problem.steps if isinstance(problem, ReducedProblem) else ()


def _with_steps(problem: Problem, steps: Sequence[Step]) -> Problem:
    """The problem with these steps; a plain one without any."""
    if not steps and not isinstance(problem, ReducedProblem):
        return problem
    own = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    return ReducedProblem(**own, steps=tuple(steps)) if steps else Problem(**own)
