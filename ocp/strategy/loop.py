"""The loop of every method: solve, diagnose, remedy, until an answer stands or no rule applies.
``table.RULES`` holds the rules in order. A remedy returns the state with another task, an ending, or a better answer.

"""

from __future__ import annotations

import time
from dataclasses import replace

from ocp.certify import certify
from ocp.certify.kinks import kinks
from ocp.certify.ringing import ringing
from ocp.certify.vanishing import vanished
from ocp.interrupts import Activity, Stopped, check
from ocp.problem import SOLVED, Finding, Kind, Solution, Status
from ocp.strategy.outcome import outcome
from ocp.strategy.records import Attempt, Firing, State, Task
from ocp.strategy.rule import Stage
from ocp.strategy.search import Search

#: rules that search again from elsewhere
OTHER_STARTS = ("escape", "better_controls", "other_starts")


def searched(search: Search, state: State) -> Solution:
    """The solution of a search, not yet concluded: certified only where the certificate decides on meshes."""
    while state.ending is None:
        try:
            state = apply_rules(search, step(search, state))
        except KeyboardInterrupt:
            if not state.attempts:
                raise
            state = state.ended(Finding(Kind.INTERRUPTED))
    state = apply_rules(search, state, Stage.ENDED)
    return search.method.frozen(search, outcome(search, state)) if state.answer is None else outcome(search, state)


def concluded(search: Search, found: Solution) -> Solution:
    """The final certified solution: rules are applied to answers until none improves them. Raises KeyboardInterrupt if the user
    ends the search."""
    found = found if found.certificate is not None else certify(found, search.tolerances)
    remarks = (*vanished(found), *(ringing(found) if found.status in SOLVED else ()), *(() if found.ok else _kinks(found)))
    state = State(Task(search.problem), answer=replace(found, findings=(*found.findings, *remarks)))
    before: Solution | None = None
    while state.answer is not before:
        before = state.answer
        state = apply_rules(search, state, Stage.ANSWER)
    assert state.answer is not None
    starts = 1 + sum(one.taken and one.rule in OTHER_STARTS for one in (*state.answer.strategy, *state.firings))
    told = (Finding(Kind.STARTS_DISAGREE, data={"starts": starts}),) if starts > 1 else ()
    return replace(state.answer, strategy=(*state.answer.strategy, *state.firings), findings=(*state.answer.findings, *told))


def _kinks(found: Solution) -> tuple[Finding, ...]:
    """The finding that the motion lies on kinks, unless the time is up."""
    try:
        return kinks(found)
    except Stopped:
        return ()


def step(search: Search, state: State) -> State:
    """The state after its task was solved or failed."""
    check(Activity.SOLVING)
    began = time.perf_counter()
    tried = search.method.attempt(search, state)
    first, own = len(state.log), {"pass": float(tried.task.number)} if search.refinement is not None else {}
    rows = tuple({**row, **own, "iteration": first + i} for i, row in enumerate(tried.solution.iterations))
    firings = state.firings
    if firings:  # what a remedy cost
        spent = firings[-1].plus(1, len(rows), time.perf_counter() - began)
        firings = (*firings[:-1], spent)
    state = replace(state, attempts=(*state.attempts, tried), log=(*state.log, *rows), firings=firings)
    return state.with_findings(*_remarks(search, state, tried))


def _remarks(search: Search, state: State, tried: Attempt) -> tuple[Finding, ...]:
    """Findings of an attempt: the outcome of a pass, and the guess that succeeded after others had failed."""
    task, found = tried.task, []
    if task.begun is not None and tried.solved and len(state.attempts) - 1 > task.begun:
        failed = {one.task.guess: one.solution.status.name for one in state.attempts[task.begun:-1]}
        found.append(Finding(Kind.GUESS_SERVED, name=task.guess, data={"failed": failed}))
    if search.refinement is None or tried.solution.status is Status.INTERRUPTED:
        return tuple(found)
    if tried.judged is None:
        return (*found, Finding(Kind.PASS_NOT_SOLVED, name=task.guess, data={
            "pass": task.number, "status": tried.solution.status.name, **tried.size()}))
    row, passes = tried.judged.row, state.verdicts
    change = None if len(passes) < 2 else row[5] - passes[-2].row[5]
    found.append(Finding(Kind.PASS, value=row[5], data={
        "pass": task.number, **tried.size(), "unknowns": int(row[4]), "objective_error": row[8], "change": change,
        "verdict": tried.judged.verdict.finding, "seconds": row[9]}))
    singular = tried.judged.singular
    if singular is not None and singular.finding is not None:
        found.append(replace(singular.finding, data={"pass": task.number, **singular.finding.data}))
    return tuple(found)


def apply_rules(search: Search, state: State, stage: Stage | None = None) -> State:
    """The state after the first rule whose diagnosis applies and whose remedy succeeds."""
    from ocp.strategy.table import RULES

    own = stage or (Stage.SOLVED if state.last.solution.status in SOLVED else Stage.UNSOLVED)
    for rule in RULES:
        spent = rule.at_most is not None and state.fired(rule.name) >= rule.at_most
        if own not in rule.stages or spent or state.failed(rule.name) or rule.name in search.without or not rule.serves(search):
            continue
        began, diagnosis = time.perf_counter(), rule.diagnose(search, state)
        if diagnosis is None:
            continue
        try:
            new = rule.remedy(search, state, diagnosis)
        except Stopped:  # what stands already, stands
            if stage is None:
                raise
            new = None
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
