"""The cascade of initial guesses: where to start a nonlinear program that is not solved from the guess of its problem.

    given       the guess as it is, interpolated on the manifold
    dynamics    controls that carry the system along the guess of the states: of robots by inverse dynamics, else least squares
    simulated   states to which the controls of the guess lead, where nothing is asked of the end
    coarse      the solution on a few intervals, to a loose tolerance
    multistart  smooth random perturbations of the guess, a few of them, each with a seed of its own

``coarse 10`` and ``multistart 3`` name one guess alone: ten intervals, the seed 3. So a solution says which guess served, and a
file holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamics.errors import near
from ocp.errors import ProblemError
from ocp.fitted_guess import simulated, with_fitted_controls
from ocp.guess import from_motion, perturbed
from ocp.problem import Problem, Solution, Status
from ocp.thresholds import GUESSES

AUTO = "auto"
KINDS = ("given", "dynamics", "simulated", "coarse", "multistart")
NAMES = (AUTO, *KINDS)
#: numbers that may follow a kind
NUMBERED = {"coarse": range(1, 1_000_000), "multistart": range(GUESSES.seeds)}
#: a coarse solution that ended so is no guess
USELESS = (Status.INTERRUPTED, Status.NOT_A_NUMBER, Status.UNBOUNDED)

#: (problem, intervals) -> its solution on a coarse mesh
Probe = Callable[[Problem, int], Solution]


def read_guess(text: str, where: str) -> tuple[str, int | None]:
    """(kind of guess or "auto", the number behind it). Raises ProblemError for what names no guess."""
    name, _, number = text.partition(" ")
    if name not in NAMES:
        raise ProblemError(f"must be one of {', '.join(NAMES)}, got {text!r}{near(name, NAMES)}", where=where)
    if not number:
        return name, None
    if not number.isdigit() or int(number) not in NUMBERED.get(name, ()):
        raise ProblemError(f"{text!r} names no start: numbers follow coarse (intervals, such as 'coarse 10') and multistart (a "
                           f"seed from 0 to {GUESSES.seeds - 1}, such as 'multistart 3')", where=where)
    return name, int(number)


def coarse_intervals(intervals: int) -> int:
    """Intervals of a coarse solve beside so many."""
    return max(GUESSES.min_coarse_intervals, int(GUESSES.coarse_share * intervals))


def perturbations() -> tuple[str, ...]:
    """Names of the randomly perturbed guesses."""
    return tuple(f"multistart {seed}" for seed in range(GUESSES.seeds))


def guesses(option: str, problem: Problem, intervals: int) -> tuple[str, ...]:
    """Names of the guesses that the option ``guess`` stands for, in order; those of "auto" begin with the given one."""
    kind, number = read_guess(option, "guess")
    if number is not None:
        return (f"{kind} {number}",)
    coarse, found = coarse_intervals(intervals), list[str]()
    for one in KINDS if kind == AUTO else (kind,):
        if one == "multistart":
            found += perturbations()
        elif one != "coarse":
            found.append(one)
        elif coarse < intervals and any(phase.steps is None for phase in problem.phases):
            found.append(f"coarse {coarse}")
    return tuple(found)


def guessed(problem: Problem, name: str, probe: Probe) -> Problem | None:
    """The problem with the guess of this name; None where it has nothing to offer. probe: solves on a coarse mesh."""
    kind, number = read_guess(name, "guess")
    if kind == "given":
        return problem
    if kind == "dynamics":
        return with_fitted_controls(problem)
    if kind == "simulated":
        return simulated(problem)
    if kind == "multistart":
        assert number is not None
        return perturbed(problem, number, GUESSES.first_perturbation * GUESSES.perturbation_growth**number)
    if all(phase.steps is not None for phase in problem.phases):  # their intervals are given
        return None
    assert number is not None
    coarse = probe(problem, number)
    if coarse.status in USELESS:
        return None
    return from_motion(problem, coarse.parts or (coarse.trajectory,), free_values(problem, coarse))


def free_names(problem: Problem) -> list[str]:
    """Names of free parameters, in the order of a solution's."""
    return list(dict.fromkeys(phase.system.parameters[i] for phase in problem.phases for i, _, _ in phase.free_parameters))


def free_values(problem: Problem, found: Solution) -> dict[str, Any]:
    """Values of free parameters in a solution, by name."""
    return dict(zip(free_names(problem), found.extra.get("parameters", ()), strict=False))
