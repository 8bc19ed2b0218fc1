"""What to try when a nonlinear program is not solved from its guess, one rung after another.

    given       the guess as it is, interpolated on the manifold
    dynamics    controls of robots by inverse dynamics along the guess of the states
    coarse      the solution on a few intervals, to a loose tolerance
    multistart  smooth random perturbations of the guess, a few of them, each with a seed of its own
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ocp.guess import from_motion, perturbed, with_dynamic_controls
from ocp.nlp import worst_violations
from ocp.problem import Problem, Solution, Status

RUNGS = ("given", "dynamics", "coarse", "multistart")
GUESSES = ("auto", *RUNGS)
#: starts of the last rung, and the size of the first perturbation; each further one is that much larger
STARTS, SIZE, GROWTH = 5, 0.1, 1.6
#: a coarse solve: share of the intervals, at least so many, and how far it is solved
SHARE, LEAST, TOLERANCE, ITERATIONS = 0.2, 8, 1e-4, 300

#: what another guess does not mend: a stop by the user, and functions that are not finite, which is for the user to see
FINAL = (Status.INTERRUPTED, Status.NOT_A_NUMBER)

Attempt = Callable[[Problem, Any], Solution]


def climb(problem: Problem, options: Any, attempt: Attempt) -> Solution:
    """The first attempt that converges, going up from the rung ``options.guess`` names; "auto" starts with the first.

    A rung by name is tried alone. Notes of the solution say which guess served, in words that go into a file, and what failed
    before. Where all rungs fail, the attempt that violates its program least comes back.
    """
    rungs = RUNGS if options.guess == "auto" else (options.guess,)
    failed: list[tuple[str, Solution]] = []
    for rung in rungs:
        for name, changed in _starts(problem, options, rung, attempt):
            again = {"max_iterations": min(ITERATIONS, options.max_iterations)} if failed else {}
            found = attempt(changed, replace(options, **again))
            if found.status in FINAL or (found.status is Status.CONVERGED and not failed):
                return found
            if found.status is Status.CONVERGED:
                told = "; ".join(f"{label}: {other.status.name.lower().replace('_', ' ')}" for label, other in failed)
                return replace(found, notes=(*found.notes, f"guess: {name} (before it failed {told})"))
            failed.append((name, found))
    best = min((found for _, found in failed), key=_violation)
    if len(failed) > 1:
        best = replace(best, notes=(*best.notes, f"guess: all of {', '.join(label for label, _ in failed)} failed"))
    return best


def _starts(problem: Problem, options: Any, rung: str, attempt: Attempt) -> Iterator[tuple[str, Problem]]:
    """Names and problems of a rung; none where it has nothing to offer."""
    if rung == "given":
        yield rung, problem
    elif rung == "dynamics":
        changed = with_dynamic_controls(problem)
        if changed is not None:
            yield rung, changed
    elif rung == "coarse":
        count = max(LEAST, int(SHARE * options.intervals))
        if count < options.intervals:
            rough = attempt(problem, replace(options, intervals=count, guess="given", tolerance=max(TOLERANCE, options.tolerance),
                                             max_iterations=min(ITERATIONS, options.max_iterations)))
            if rough.status in FINAL:
                return
            values = dict(zip(_free(problem), rough.extra.get("parameters", ()), strict=False))
            yield f"{rung} ({count} intervals)", from_motion(problem, rough.parts or (rough.trajectory,), values)
    else:
        for seed in range(STARTS):
            yield f"{rung} (seed {seed})", perturbed(problem, seed, SIZE * GROWTH**seed)


def _free(problem: Problem) -> list[str]:
    """Names of free parameters, in the order of the solution's."""
    return list(dict.fromkeys(phase.system.parameters[i] for phase in problem.phases for i, _, _ in phase.free_parameters))


def _violation(solution: Solution) -> float:
    worst = worst_violations(solution.optimality.nlp, solution.optimality.x, 1)
    return worst[0][1] if worst else 0.0
