"""Diagnosis and remedy of answers that may be one of several local minima: other starts on a few intervals.

No local condition tells that another valley is lower. Where the Hamiltonian is not convex in the controls, or only a random guess
served, guesses of the cascade are solved on a coarse mesh, which takes little beside that search; one whose objective is lower by
far is followed (multistart: Betts 2010, Practical Methods for Optimal Control and Estimation Using Nonlinear Programming, section
1.16). It is no proof: a better start may exist.
"""

from __future__ import annotations

from dataclasses import replace

from ocp.guesses.motion import from_solution
from ocp.guesses.table import coarse_intervals, perturbations
from ocp.interrupts import Activity, time_is_up
from ocp.problem import SOLVED, Finding, Kind, Problem, Solution
from ocp.reductions import fit_guess
from ocp.strategy.answer import answered, lower
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import DIAGNOSES

#: guesses that are solved on a few intervals: that of the problem, and the widest perturbation
TRIED = ("given", perturbations()[-1])


def may_be_several(search: Search, state: State) -> Finding | None:
    """Diagnosis: the Hamiltonian is not convex in the controls, or a random guess was needed, and the problem gives none."""
    found = answered(state)
    principle = None if found.certificate is None else found.certificate.minimum_principle
    if not search.auto or found.status not in SOLVED or time_is_up(Activity.REFINEMENT) or state.fired("error_bound"):
        return None
    if (guess := str(found.freeze.get("guess", ""))) in perturbations():
        return Finding(Kind.RANDOM_GUESS, name=guess, value=found.objective)
    several = principle is not None and principle.cause is None
    return Finding(Kind.NONCONVEX_HAMILTONIAN, value=found.objective) if several else None


def from_lower(search: Search, state: State, why: Finding) -> State | None:
    """A solution of lower objective from another start; None if there is none."""
    lowest = _lowest(search, state, answered(state), perturbations() if why.kind is Kind.RANDOM_GUESS else TRIED)
    return None if lowest is None else lower(search, state, *lowest)


def _lowest(search: Search, state: State, found: Solution, names: tuple[str, ...] = TRIED) -> tuple[Problem, Finding] | None:
    """The problem that starts at the lowest of the coarse solutions, and the finding to report; None if none is clearly lower."""
    best, count = (found.objective, "", found), coarse_intervals(int(search.options.intervals))
    task = replace(state.task, max_iterations=max(1, len(found.iterations)))  # as many as led to what stands, on more intervals
    for name in names:
        problem = None if time_is_up() else search.method.started(search, task, name)
        coarse = None if problem is None else search.method.probe(search, task, problem, count)
        if coarse is not None and coarse.status in SOLVED and coarse.objective < best[0] and \
                search.method.error(coarse, count) <= DIAGNOSES.max_rel_difference:  # others are no motions of the system
            best = coarse.objective, name, coarse
    size = abs(found.objective) if found.certificate is None else found.certificate.objective_size
    far = max(DIAGNOSES.min_saving * abs(found.objective), search.tolerances.objective_error * size)
    least, name, coarse = best
    if not least < found.objective - far:
        return None
    begun = fit_guess(from_solution(search.problem, coarse))
    return begun, Finding(Kind.LOWER_START, name=name, data={"objective": found.objective})
