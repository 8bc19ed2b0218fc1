"""What to try when a nonlinear program is not solved from its guess, one rung after another.

    given       the guess as it is, interpolated on the manifold
    dynamics    controls that carry the system along the guess of the states: of robots by inverse dynamics, else least squares
    simulated   states to which the controls of the guess lead, where nothing is asked of the end
    coarse      the solution on a few intervals, to a loose tolerance
    multistart  smooth random perturbations of the guess, a few of them, each with a seed of its own

``coarse 10`` and ``multistart 3`` name one start alone: ten intervals, the seed 3. So a solution says which start served, and a
file holds it.

Where functions or derivatives are not finite at the guess itself, only starts beside it are tried.

Where the first rung ends at a stationary point of the violation, scouts ask on a few intervals whether the others are worth their
time (``hopeless``): a problem that asks for what is not possible fails by each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from dynamics.errors import near
from ocp.errors import ProblemError
from ocp.fitted_guess import simulated, with_fitted_controls
from ocp.guess import from_motion, perturbed
from ocp.interrupts import Activity, Stopped, check
from ocp.nlp import violation, worst_violations
from ocp.nlp.scaling_text import rule
from ocp.problem import Problem, Solution, Status
from ocp.splits import rooted
from ocp.transcription.repeated import crowded

RUNGS = ("given", "dynamics", "simulated", "coarse", "multistart")
GUESSES = ("auto", *RUNGS)
#: starts of the last rung, and the size of the first perturbation; each further one is that much larger
STARTS, SIZE, GROWTH = 5, 0.1, 1.6
#: rungs whose starts are tried on a few intervals before all are given up
SCOUTS = ("dynamics", "simulated", "multistart")
#: a coarse solve: share of the intervals, at least so many, and how far it is solved
SHARE, LEAST, TOLERANCE, ITERATIONS = 0.2, 8, 1e-4, 300

#: rungs that a number may follow, and which
NUMBERED = {"coarse": range(1, 1_000_000), "multistart": range(STARTS)}
#: a point that violates its program no more is feasible
FEASIBLE = 1e-5

#: violations this near to each other are the same
SAME = 0.05

#: what another guess does not mend: a stop by the user, functions that are not finite, and objectives that fall without bound
FINAL = (Status.INTERRUPTED, Status.NOT_A_NUMBER, Status.UNBOUNDED)

Attempt = Callable[[Problem, Any], Solution]


def read_guess(text: str, where: str) -> tuple[str, int | None]:
    """(rung or "auto", the number behind it). Raises ProblemError for what names no start."""
    name, _, number = text.partition(" ")
    if name not in GUESSES:
        raise ProblemError(f"must be one of {', '.join(GUESSES)}, got {text!r}{near(name, GUESSES)}", where=where)
    if not number:
        return name, None
    if not number.isdigit() or int(number) not in NUMBERED.get(name, ()):
        raise ProblemError(f"{text!r} names no start: numbers follow coarse (intervals, such as 'coarse 10') and multistart (a "
                           f"seed from 0 to {STARTS - 1}, such as 'multistart 3')", where=where)
    return name, int(number)


def climb(problem: Problem, options: Any, attempt: Attempt, given: Solution | None = None) -> Solution:
    """The first attempt that converges, going up from the rung ``options.guess`` names; "auto" starts with the first.

    given: what the first rung came to, where it was tried before. A rung by name is tried alone. ``Solution.freeze["guess"]`` is
    the start that served, in words that go into a file; notes say what failed before. Where all rungs fail, the attempt that
    violates its program least comes back. The coarse solve is an attempt whose options have another guess than ``options``.
    """
    failed: list[tuple[str, Solution]] = []
    try:
        return _climbed(problem, options, attempt, given, failed)
    except Stopped:
        if not failed:
            raise
        return replace(min((found for _, found in failed), key=left_over), status=Status.INTERRUPTED)


def _climbed(problem: Problem, options: Any, attempt: Attempt, given: Solution | None, failed: list[tuple[str, Solution]]
             ) -> Solution:
    """The same; failed: gets what failed, by rung."""
    first, number = read_guess(options.guess, "guess")
    rungs = RUNGS if first == "auto" else (first,)
    for rung in rungs:
        for name, changed in _starts(problem, options, rung, number, attempt):
            changed = rooted(changed)
            again = {"max_iterations": min(ITERATIONS, options.max_iterations)} if failed else {}
            known = given if rung == "given" else None
            found = attempt(changed, replace(options, **again)) if known is None else known
            if found.status is Status.INTERRUPTED and failed:
                best = min((found, *(other for _, other in failed)), key=left_over)
                return replace(best, status=found.status)
            if found.status is Status.NOT_A_NUMBER and first == "auto" and len(found.iterations) <= 1:
                return _beside(problem, options, found, attempt)
            if found.status in FINAL or hardened(problem, found):
                return found
            if found.status is Status.CONVERGED:
                told = "; ".join(f"{label}: {other.status.name.lower().replace('_', ' ')}" for label, other in failed)
                notes = (*found.notes, f"guess: {name} (before it failed {told})") if failed else found.notes
                return replace(found, notes=notes, freeze={**found.freeze, "guess": name})
            if _slow(found, options):
                return replace(found, notes=(*found.notes, f"guess: {name}; no other was tried: the point is feasible, and what "
                                             "the limited-memory Hessian lacks are curvatures, not a guess; take hessian exact"))
            if rung == "given" and first == "auto" and known is None and (told := hopeless(problem, options, found, attempt)):
                return replace(found, notes=(*found.notes, told))
            failed.append((name, found))
    best = min((found for _, found in failed), key=left_over)
    if len(failed) > 1:
        best = replace(best, notes=(*best.notes, f"guess: all of {', '.join(label for label, _ in failed)} failed"))
    return best


def hardened(problem: Problem, found: Solution) -> bool:
    """Whether neither another guess nor a finer mesh mends how an attempt ended."""
    refused = found.status is Status.FAILED and not any(row["iteration"] for row in found.iterations)
    return found.status is Status.UNBOUNDED or (refused and crowded(problem))


def _beside(problem: Problem, options: Any, found: Solution, attempt: Attempt) -> Solution:
    """From beside a guess where a function or a derivative is not finite, such as that of a norm at zero; else ``found``."""
    for name, changed in _starts(problem, options, "multistart", None, attempt):
        other = attempt(rooted(changed), replace(options, max_iterations=min(ITERATIONS, options.max_iterations)))
        if other.status in (Status.CONVERGED, Status.INTERRUPTED):
            told = f"guess: {name} (before it failed given: not a number)"
            return replace(other, notes=(*other.notes, told), freeze={**other.freeze, "guess": name})
        if other.status is Status.NOT_A_NUMBER and len(other.iterations) <= 1:
            break
    return found


def hopeless(problem: Problem, options: Any, found: Solution, attempt: Attempt) -> str:
    """Why no other guess is worth a try after ``found``, the attempt from the given one; "" where one may be.

    Only a stationary point of the violation is hopeless, and only where that on a few intervals violates the program as much: what
    is left over is not the mesh's. Then each other start is scouted on these intervals, and none may violate less.
    """
    count = _few(options)
    if all(phase.steps is not None for phase in problem.phases):  # their intervals are given
        return ""
    if found.status is not Status.INFEASIBLE or count >= int(options.intervals):
        return ""
    rough = _rough(problem, options, attempt, count)
    least, largest = violation(rough.optimality.nlp, rough.optimality.x), left_over(rough)
    before = violation(found.optimality.nlp, found.optimality.x), left_over(found)
    if rough.status is not Status.INFEASIBLE or not any(
            abs(new - old) <= SAME * old for new, old in zip((least, largest), before, strict=True)):
        return ""
    scouts = [start for rung in SCOUTS for start in _starts(problem, options, rung, None, attempt)]
    for _, changed in scouts:
        scout = _rough(rooted(changed), options, attempt, count)
        if scout.status in FINAL or violation(scout.optimality.nlp, scout.optimality.x) < (1.0 - SAME) * least:
            return ""
    return (f"guess: given; no other was tried: on {count} intervals the violation is the same, and {len(scouts)} other guesses "
            "end with no less")


def _few(options: Any) -> int:
    """Intervals of a coarse solve."""
    return max(LEAST, int(SHARE * int(options.intervals)))


def _rough(problem: Problem, options: Any, attempt: Attempt, count: int) -> Solution:
    """A coarse solve."""
    return attempt(problem, replace(options, intervals=count, guess="given", tolerance=max(TOLERANCE, options.tolerance),
                                    max_iterations=min(ITERATIONS, options.max_iterations), scaling=rule(options.scaling)))


def _slow(found: Solution, options: Any) -> bool:
    """Whether a quasi-Newton method came to a feasible point and then no further, or not in time."""
    return bool(options.hessian == "limited_memory" and found.status in (Status.STALLED, Status.ITERATION_LIMIT)
                and left_over(found) <= FEASIBLE)


def _starts(problem: Problem, options: Any, rung: str, number: int | None, attempt: Attempt) -> Iterator[tuple[str, Problem]]:
    """Names and problems of a rung; none where it has nothing to offer. number: of the one start that is wanted."""
    check(Activity.SOLVING)
    if rung == "given":
        yield rung, problem
    elif rung == "dynamics":
        changed = with_fitted_controls(problem)
        if changed is not None:
            yield rung, changed
    elif rung == "simulated":
        changed = simulated(problem)
        if changed is not None:
            yield rung, changed
    elif rung == "coarse":
        count = _few(options) if number is None else number
        if any(phase.steps is None for phase in problem.phases) and (number is not None or count < options.intervals):
            rough = _rough(problem, options, attempt, count)
            if rough.status in FINAL:
                return
            values = dict(zip(free_names(problem), rough.extra.get("parameters", ()), strict=False))
            yield f"{rung} {count}", from_motion(problem, rough.parts or (rough.trajectory,), values)
    else:
        for seed in range(STARTS) if number is None else (number,):
            yield f"{rung} {seed}", perturbed(problem, seed, SIZE * GROWTH**seed)


def free_names(problem: Problem) -> list[str]:
    """Names of free parameters, in the order of the solution's."""
    return list(dict.fromkeys(phase.system.parameters[i] for phase in problem.phases for i, _, _ in phase.free_parameters))


def left_over(solution: Solution) -> float:
    """The largest violation of the program where an attempt ended."""
    worst = worst_violations(solution.optimality.nlp, solution.optimality.x, 1)
    return worst[0][1] if worst else 0.0
