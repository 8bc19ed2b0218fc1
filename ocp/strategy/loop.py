"""The one loop that every method runs through: solve, diagnose, remedy, until the answer stands or nothing is left to try.

``table.RULES`` is what is tried, in order; a remedy hands back the state with another task, an ending, or a better answer.
"""

from __future__ import annotations

import time
from dataclasses import replace

from ocp.certify import certify
from ocp.certify.kinks import kinks
from ocp.certify.ringing import ringing
from ocp.interrupts import deadline
from ocp.problem import SOLVED, Finding, Kind, Solution, Status
from ocp.strategy.outcome import outcome
from ocp.strategy.records import Attempt, Firing, State, Task
from ocp.strategy.rule import Stage
from ocp.strategy.search import Search
from ocp.thresholds import BUDGETS


def searched(search: Search, state: State) -> Solution:
    """The solution of a search, not yet concluded: certified only where the certificate decides on meshes."""
    while state.ending is None:
        try:
            state = apply_rules(search, step(search, state))
        except KeyboardInterrupt:
            if not state.passes:
                raise
            state = state.ended(Finding(Kind.INTERRUPTED))
    state = apply_rules(search, state, Stage.ENDED)
    return search.method.frozen(search, outcome(search, state)) if state.answer is None else outcome(search, state)


def concluded(search: Search, found: Solution) -> Solution:
    """The certified solution that stands: rules go on from an answer until none has a better one. Raises KeyboardInterrupt where
    the user ends that."""
    found = found if found.certificate is not None else certify(found, search.tolerances, deadline(BUDGETS.grace_s))
    remarks = (*(ringing(found) if found.status in SOLVED else ()), *(() if found.ok else kinks(found)))
    state = State(Task(search.problem), answer=replace(found, findings=(*found.findings, *remarks)))
    before: Solution | None = None
    while state.answer is not before:
        before = state.answer
        state = apply_rules(search, state, Stage.ANSWER)
    assert state.answer is not None
    return replace(state.answer, strategy=(*state.answer.strategy, *state.firings))


def step(search: Search, state: State) -> State:
    """The state after its task was solved, or not."""
    began = time.perf_counter()
    attempt = search.method.attempt(search, state)
    first, own = len(state.log), {"pass": float(attempt.task.number)} if search.refinement is not None else {}
    rows = tuple({**row, **own, "iteration": first + i} for i, row in enumerate(attempt.solution.iterations))
    firings = state.firings
    if firings:  # what a remedy cost
        spent = firings[-1].plus(1, len(rows), time.perf_counter() - began)
        firings = (*firings[:-1], spent)
    state = replace(state, attempts=(*state.attempts, attempt), log=(*state.log, *rows), firings=firings)
    return state.said(*_remarks(search, state, attempt))


def _remarks(search: Search, state: State, attempt: Attempt) -> tuple[Finding, ...]:
    """What is to be said of an attempt: of passes how they ended, of guesses that served after others had failed which."""
    task, found = attempt.task, []
    if task.begun is not None and attempt.solved and len(state.attempts) - 1 > task.begun:
        failed = {one.task.guess: one.solution.status.name for one in state.attempts[task.begun:-1]}
        found.append(Finding(Kind.GUESS_SERVED, name=task.guess, data={"failed": failed}))
    if search.refinement is None or attempt.solution.status is Status.INTERRUPTED:
        return tuple(found)
    if attempt.judged is None:
        return (*found, Finding(Kind.PASS_NOT_SOLVED, name=task.guess, data={
            "pass": task.number, "status": attempt.solution.status.name, **attempt.size()}))
    row, passes = attempt.judged.row, state.verdicts
    change = None if len(passes) < 2 else row[5] - passes[-2].row[5]
    found.append(Finding(Kind.PASS, value=row[5], data={
        "pass": task.number, **attempt.size(), "unknowns": int(row[4]), "objective_error": row[8], "change": change,
        "verdict": attempt.judged.verdict.finding, "seconds": row[9]}))
    singular = attempt.judged.singular
    if singular is not None and singular.finding is not None:
        found.append(replace(singular.finding, data={"pass": task.number, **singular.finding.data}))
    return tuple(found)


def apply_rules(search: Search, state: State, stage: Stage | None = None) -> State:
    """The state after the first rule that has something to say and a remedy that comes to something."""
    from ocp.strategy.table import RULES

    own = stage or (Stage.SOLVED if state.last.solution.status in SOLVED else Stage.UNSOLVED)
    for rule in RULES:
        spent = rule.at_most is not None and state.fired(rule.name) >= rule.at_most
        if own not in rule.stages or spent or state.failed(rule.name) or rule.name in search.without or not rule.serves(search):
            continue
        began, diagnosis = time.perf_counter(), rule.diagnose(search, state)
        if diagnosis is None:
            continue
        new = rule.remedy(search, state, diagnosis)
        after = state if new is None else new
        firing = Firing(rule.name, diagnosis, state.task.number, new is not None, 0, _length(after) - _length(state),
                        time.perf_counter() - began)
        state = replace(after, firings=(*state.firings, firing))
        if new is not None:
            return state
    return state if stage is not None else state.ended(Finding(Kind.NO_RULE_LEFT))


def _length(state: State) -> int:
    """Iterations so far."""
    return len(state.log if state.answer is None else state.answer.iterations)
