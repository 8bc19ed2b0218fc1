"""Diagnoses and remedies after an unsolved program."""

from __future__ import annotations

from dataclasses import replace

from ocp.guesses.table import coarse_intervals, perturbations
from ocp.nlp import violation
from ocp.problem import Finding, Kind, Solution, Status
from ocp.strategy.direct import at_guess, left_over
from ocp.strategy.records import State, Task
from ocp.strategy.search import Search
from ocp.thresholds import BUDGETS, DIAGNOSES, REACH
from ocp.transcription.refine.policy import halved

#: guesses that are solved on a few intervals before all are given up
PROBED = ("dynamics", "simulated", *perturbations())
#: how a program ends that no other guess mends: functions that are not finite, an objective that falls without bound
FINAL = (Status.INTERRUPTED, Status.NOT_A_NUMBER, Status.UNBOUNDED)


def unsolved(search: Search, state: State) -> Finding:
    """The outcome of the last attempt as a finding."""
    last = state.last
    return Finding(Kind.PROGRAM_NOT_SOLVED, value=last.missed[0], data={
        "pass": last.task.number, "guess": last.task.guess, "status": last.solution.status.name, "size": last.size()})


def interrupted(search: Search, state: State) -> Finding | None:
    """Diagnosis: the user or the time limit ended the solve."""
    return Finding(Kind.INTERRUPTED) if state.last.solution.status is Status.INTERRUPTED else None


def without_remedy(search: Search, state: State) -> Finding | None:
    """Diagnosis: neither a guess nor a mesh can change the outcome, or the limit of passes is reached."""
    exhausted = search.brief or (search.refinement is not None and state.task.number >= search.refinement.max_passes)
    over = exhausted and state.task.begun is None  # a cascade of guesses is one pass
    return unsolved(search, state) if over or search.method.final(search, state) else None


def quasi_newton_stalled(search: Search, state: State) -> Finding | None:
    """Diagnosis: a quasi-Newton method stalled at a feasible point, or did not converge in time."""
    slow = state.last.solution.status in (Status.STALLED, Status.ITERATION_LIMIT) and state.last.missed[0] <= REACH.missed
    limited = getattr(search.options, "hessian", "") == "limited_memory" and state.task.beside is None
    stalled = limited and slow and calls_for_guesses(search, state)
    return Finding(Kind.QUASI_NEWTON_STALLED, name=state.task.guess) if stalled else None


def locally_infeasible(search: Search, state: State) -> Finding | None:
    """Diagnosis: no other guess is promising after the first attempt. It ended at a stationary point of the violation, a coarse
    mesh has the same violation, so that it is no discretisation error, and no other guess reduces it there."""
    task, found = state.task, state.last.solution
    if not search.auto or task.number > 1 or task.guess != "given" or found.status is not Status.INFEASIBLE:
        return None
    intervals = int(search.options.intervals)
    count = coarse_intervals(intervals)
    if all(phase.steps is not None for phase in search.problem.phases) or count >= intervals:  # their intervals are given
        return None
    coarse = search.method.probe(search, task, search.problem, count)
    if coarse is None:
        return None
    least, before = _violation(coarse), _violation(found)
    if coarse.status is not Status.INFEASIBLE or not any(
            abs(new - old) <= DIAGNOSES.max_rel_difference * old for new, old in zip(least, before, strict=True)):
        return None
    tried = 0
    for name in PROBED:
        problem = search.method.started(search, task, name)
        if problem is None:
            continue
        other = search.method.probe(search, task, problem, count)
        assert other is not None
        if other.status in FINAL or _violation(other)[0] < (1.0 - DIAGNOSES.max_rel_difference) * least[0]:
            return None
        tried += 1
    return Finding(Kind.LOCALLY_INFEASIBLE, value=least[1], data={"intervals": count, "guesses": tried})


def _violation(found: Solution) -> tuple[float, float]:
    """The violation at the end of a program: the measure that its solver minimises, and the largest."""
    return violation(found.optimality.nlp, found.optimality.x), left_over(found)


def calls_for_guesses(search: Search, state: State) -> bool:
    """Whether other guesses are tried now."""
    allowed = 0 if search.refinement is None else search.refinement.rules.policy.failures
    return state.task.begun is not None or state.failures > allowed or state.last.solution.status is Status.NOT_A_NUMBER


def guess_not_served(search: Search, state: State) -> Finding | None:
    """Diagnosis: more passes failed than the policy allows, or functions are not finite at the guess."""
    return unsolved(search, state) if calls_for_guesses(search, state) else None


def next_guess(search: Search, state: State, why: Finding) -> State:
    """The next guess of the cascade on the same mesh; only perturbed ones if functions are not finite at the guess itself."""
    task, count = state.task, len(state.attempts)
    if task.begun is None:
        tried = not task.warm and search.guesses[0] == "given"  # by the last attempt
        names, begun, number = search.guesses[tried:], count - tried, task.number + 1
    else:
        names, begun, number = task.left, task.begun, task.number
    beside = task.beside
    perturbed = perturbations()[0] in search.guesses
    if perturbed and search.auto and state.last.solution.status is Status.NOT_A_NUMBER and at_guess(state.last.solution) and \
            not task.warm:
        if beside is not None:
            return _exhausted(state, why, begun, beside)
        names, beside = perturbations(), count - 1
    for k, name in enumerate(names):
        problem = search.method.started(search, task, name)
        if problem is not None:
            return replace(state, task=Task(
                problem, task.plans, task.margins, number, name, names[k + 1:], begun, beside, scaling=task.scaling,
                max_iterations=None if begun == count else BUDGETS.max_iterations))
    own = range(begun, count) or range(count - 1, count)
    return _exhausted(state, why, begun, min(own, key=lambda k: state.attempts[k].missed) if beside is None else beside)


def _exhausted(state: State, why: Finding, begun: int, best: int) -> State:
    """The state after all guesses failed. begun: attempts before the cascade; best: number of the returned attempt."""
    names = tuple(one.task.guess for one in state.attempts[begun:])
    state = state.said(Finding(Kind.GUESSES_FAILED, data={"guesses": names})) if len(names) > 1 else state
    return state.ended(replace(why, data={**why.data, "attempt": best}))


def is_warm(search: Search, state: State) -> Finding | None:
    """Diagnosis: a pass that started from the one before failed."""
    return unsolved(search, state) if state.task.warm else None


def original_guess(search: Search, state: State, why: Finding) -> State:
    """The same mesh again, from the guess of the problem."""
    return replace(state, task=state.task.next(search.problem, warm=False))


def on_a_mesh(search: Search, state: State) -> Finding | None:
    """Diagnosis: a pass on a mesh that may be refined failed."""
    return unsolved(search, state) if search.refinement is not None else None


def halve_intervals(search: Search, state: State, why: Finding) -> State:
    """The mesh with every interval halved."""
    task = state.task.on(tuple(halved(plan) for plan in state.task.plans))
    return replace(state, task=task.next(state.task.problem, warm=state.task.warm))
