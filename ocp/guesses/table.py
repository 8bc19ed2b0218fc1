"""The list of guesses: where methods start that do not end well from the guess of their problem, in order.

Methods that make a nonlinear program (``ROWS``):

    given       the guess as it is, interpolated on the manifold
    dynamics    controls that carry the system along the guess of the states: of robots by inverse dynamics, else least squares
    simulated   states to which the controls of the guess lead, where nothing is asked of the end
    coarse      the solution on a few intervals, to a loose tolerance
    multistart  smooth random perturbations of the guess, a few of them, each with a seed of its own

``coarse 10`` and ``multistart 3`` name one guess alone: ten intervals, the seed 3. So a solution says which guess served, and a
file holds it.

Shooting (``starts``) also chooses whether states are unknowns of their own, which decides, with where it starts, into which
stationary point of the violation it may fall; no start is best for all problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynamics.errors import near
from ocp.errors import ProblemError
from ocp.guesses.fitted import simulated, with_fitted_controls
from ocp.guesses.inverse_dynamics import carried
from ocp.guesses.motion import from_solution
from ocp.guesses.perturbed import perturbed, with_moved_ends
from ocp.guesses.straight import has_line
from ocp.problem import Phase, Problem, Solution, Status
from ocp.thresholds import GUESSES

AUTO = "auto"
#: a coarse solution that ended so is no guess
USELESS = (Status.INTERRUPTED, Status.NOT_A_NUMBER, Status.UNBOUNDED)

#: (problem, intervals) -> its solution on a coarse mesh
Probe = Callable[[Problem, int], Solution]


@dataclass(frozen=True)
class Row:
    """A kind of guess: made(problem, number, probe) -> the problem with it, None where it has nothing to offer; numbers: that may
    follow its name; own(problem, intervals): those of "auto", of a kind with numbers."""

    name: str
    made: Callable[[Problem, int, Probe], Problem | None]
    numbers: range = range(0)
    own: Callable[[Problem, int], Sequence[int]] | None = None

    def names(self, problem: Problem, intervals: int) -> tuple[str, ...]:
        """Of the guesses that the name stands for, beside so many intervals."""
        return (self.name,) if self.own is None else tuple(f"{self.name} {number}" for number in self.own(problem, intervals))


def coarse_intervals(intervals: int) -> int:
    """Intervals of a coarse solve beside so many."""
    return max(GUESSES.min_coarse_intervals, int(GUESSES.coarse_share * intervals))


def _fewer(problem: Problem, intervals: int) -> Sequence[int]:
    few = coarse_intervals(intervals)
    return (few,) if few < intervals and any(phase.steps is None for phase in problem.phases) else ()


def _coarse(problem: Problem, intervals: int, probe: Probe) -> Problem | None:
    if all(phase.steps is not None for phase in problem.phases):  # their intervals are given
        return None
    coarse = probe(problem, intervals)
    if coarse.status in USELESS:
        return None
    return from_solution(problem, coarse)


def _perturbed(problem: Problem, seed: int, probe: Probe) -> Problem:
    """Near the guess first; its last end, too: there gradients of conditions may vanish (``cos(th) = -1`` at 0)."""
    rng, size = np.random.default_rng(seed), GUESSES.first_perturbation * GUESSES.perturbation_growth**seed
    found = perturbed(problem, rng, size)
    return replace(found, phases=(*found.phases[:-1], with_moved_ends(found.phases[-1], rng.normal, size, start=False)))


ROWS = {row.name: row for row in (
    Row("given", lambda problem, number, probe: problem),
    Row("dynamics", lambda problem, number, probe: with_fitted_controls(problem)),
    Row("simulated", lambda problem, number, probe: simulated(problem)),
    Row("coarse", _coarse, range(1, 1_000_000), _fewer),
    Row("multistart", _perturbed, range(GUESSES.seeds), lambda problem, intervals: range(GUESSES.seeds)),
)}
NAMES = (AUTO, *ROWS)


def read_guess(text: str, where: str) -> tuple[str, int | None]:
    """(kind of guess or "auto", the number behind it). Raises ProblemError for what names no guess."""
    name, _, number = text.partition(" ")
    if name not in NAMES:
        raise ProblemError(f"must be one of {', '.join(NAMES)}, got {text!r}{near(name, NAMES)}", where=where)
    if not number:
        return name, None
    if name == AUTO or not number.isdigit() or int(number) not in ROWS[name].numbers:
        raise ProblemError(f"{text!r} is no initial guess: only coarse (intervals, such as 'coarse 10') and multistart (a seed "
                           f"from 0 to {GUESSES.seeds - 1}, such as 'multistart 3') take a number", where=where)
    return name, int(number)


def perturbations() -> tuple[str, ...]:
    """Names of the randomly perturbed guesses."""
    return tuple(f"multistart {seed}" for seed in ROWS["multistart"].numbers)


def guesses(option: str, problem: Problem, intervals: int) -> tuple[str, ...]:
    """Names of the guesses that the option ``guess`` stands for, in order; those of "auto" begin with the given one."""
    kind, number = read_guess(option, "guess")
    if number is not None:
        return (option,)
    return tuple(name for row in (ROWS.values() if kind == AUTO else (ROWS[kind],)) for name in row.names(problem, intervals))


def guessed(problem: Problem, name: str, probe: Probe) -> Problem | None:
    """The problem with the guess of this name; None where it has nothing to offer. probe: solves on a coarse mesh."""
    kind, number = read_guess(name, "guess")
    return ROWS[kind].made(problem, 0 if number is None else number, probe)


# ---- shooting -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Start:
    """One way to start: its name, the way of shooting, and where its states come from, if not from the guess: "line", the straight
    line (``ocp.guesses.straight``), or "motion", that of inverse dynamics (``ocp.guesses.inverse_dynamics``). softness: factor of
    the first penalties; patience: factor of the limit of iterations."""

    name: str
    shooting: str
    states: str = ""
    softness: float = 1.0
    patience: int = 1


FAILURES = (Status.INFEASIBLE, Status.STALLED, Status.ITERATION_LIMIT)
"""Endings after which another start may help."""
MOTION = "motion of inverse dynamics"
"""Name of the start that takes over where a rollout runs away."""
GAPPED = ("feasible", "multiple")
"""Ways of shooting that have the states as unknowns of their own."""


def starts(phases: Sequence[Phase], shooting: str, more: bool) -> tuple[Start, ...]:
    """The starts in their order. The first is as asked; more: those after it, too, along the straight line on the manifold from the
    start to the prescribed final state, with the controls of the guess; from the controls of the guess alone, or along the states
    of the guess where these did not count at first. Where inverse dynamics finds the controls, the motion that they carry comes
    second: a rollout may run away from it, for no feedback acts on it, and from its states feedback does."""
    found = [Start("given", shooting)]
    if more and shooting not in GAPPED and any(carried(phase) for phase in phases):
        found.append(Start(MOTION, "feasible", "motion", GUESSES.motion_penalties, GUESSES.motion_iterations))
    if more and has_line(phases):
        found.append(Start("straight line", "feasible", "line"))
    if more and shooting in GAPPED:
        found.append(Start("controls alone", "single"))
    elif more and all(np.ptp(phase.guess.x, axis=0).any() for phase in phases):
        found.append(Start("states of the guess", "feasible"))
    return tuple(found)
