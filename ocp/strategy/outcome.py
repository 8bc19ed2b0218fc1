"""The result of a search: the solution of its best attempt, its ending, and its findings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.interrupts import asked, time_is_up
from ocp.problem import Finding, Kind, Solution, Status
from ocp.problem.checkpoint import text
from ocp.strategy.direct import COLUMNS
from ocp.strategy.records import Attempt, State
from ocp.strategy.search import Refinement, Search
from ocp.transcription.refine.margins import prices
from ocp.transcription.refine.plan import plans_text


def outcome(search: Search, state: State) -> Solution:
    """The solution of a search that has ended."""
    if state.answer is not None:
        return replace(state.answer, strategy=(*state.firings, *state.answer.strategy))
    assert state.ending is not None
    chosen = _chosen(state)
    refinement, best = search.refinement, state.passes[-1] if state.passes else None
    found = replace(chosen.solution, findings=(*chosen.solution.findings, *state.findings), iterations=state.log)
    if state.ending.kind is Kind.INTERRUPTED:
        found = _interrupted(found, state, best, refinement)
    elif state.ending.kind is Kind.PROGRAM_NOT_SOLVED and best is not None:
        ending = replace(state.ending, kind=Kind.REFINED_MESH_NOT_SOLVED)
        found = replace(found, status=state.last.solution.status, ending=_after(state.last.solution, ending))
    elif refinement is not None and best is not None and state.ending.kind is not Kind.ACCURATE:
        status = found.status if refinement.certified else Status.MESH_TOLERANCE
        found = replace(found, status=status, ending=replace(state.ending, data={
            **state.ending.data, "passes": len(state.passes), "error": _error(best)}))
    elif best is None and state.ending.kind in (Kind.LOCALLY_INFEASIBLE, Kind.QUASI_NEWTON_STALLED):
        found = replace(found, ending=_after(found, state.ending))
    if refinement is not None:
        found = _refined(search, refinement, state, found, best)
    return replace(found, strategy=state.firings)


def _chosen(state: State) -> Attempt:
    """The last solved pass; else the attempt with the least violation of its program."""
    if state.passes:
        return state.passes[-1]
    assert state.ending is not None
    if (attempt := state.ending.data.get("attempt")) is not None:
        return state.attempts[attempt]
    if state.ending.kind is Kind.INTERRUPTED:
        unsolved = [one for one in state.attempts if not one.solved] or state.attempts
        return min(unsolved, key=lambda one: one.missed)
    return state.last


def _interrupted(found: Solution, state: State, best: Attempt | None, refinement: Refinement | None) -> Solution:
    if best is None:
        return replace(found, status=Status.INTERRUPTED)
    limit = time_is_up() and not asked()
    ending = Finding(Kind.LAST_PASS_RETURNED, data={"pass": best.task.number, "limit": limit})
    certified = refinement is not None and refinement.certified
    status = Status.INTERRUPTED if not limit else found.status if certified else Status.MESH_TOLERANCE
    return replace(found, status=status, ending=ending)


def _after(program: Solution, ending: Finding) -> Finding:
    """The ending of a search, with that of its last program under "program"."""
    return ending if program.ending is None else replace(ending, data={**ending.data, "program": program.ending})


def _error(best: Attempt) -> dict[str, Any]:
    assert best.judged is not None
    return best.judged.estimate.finding(best.solution.problem).record()


def _refined(search: Search, refinement: Refinement, state: State, found: Solution, best: Attempt | None) -> Solution:
    """With the log of passes, the mesh, and what tightened bounds cost; its problem has the guess of the search."""
    judged = state.verdicts
    extra: dict[str, Any] = {**found.extra, "refinement": np.array([one.row for one in judged]).reshape(-1, len(COLUMNS)),
                             "refinement_columns": text(COLUMNS)}
    freeze, findings = dict(found.freeze), list(found.findings)
    if best is not None and best.judged is not None:
        estimate, tolerance = best.judged.estimate, refinement.rules.tolerance
        names = [phase.name for phase in search.problem.phases] if len(search.problem.phases) > 1 else [""]
        meshes = dict(zip(names, refinement.family.meshes(search.problem, best.task.plans), strict=True))
        tightened = any(margin.any for margin in best.task.margins)
        costs = np.concatenate(prices(best.solution, best.judged.bounds, meshes)) if tightened else None
        if times := next((one.ramps for one in reversed(judged) if one.ramps), ()):
            findings.append(Finding(Kind.LINEAR_CONTROLS_WOULD_JUMP, data={"times": times}))
        if costs is not None:
            extra["margins_cost"] = costs
            findings.append(Finding(Kind.BOUNDS_TIGHTENED, value=float(costs.sum())))
        accurate = state.ending is not None and state.ending.kind is Kind.ACCURATE
        if accurate and not refinement.certified and estimate.largest > tolerance:
            largest = estimate.finding(search.problem)
            missed = replace(largest, kind=Kind.MESH_TOLERANCE_MISSED, tolerance=tolerance,
                             data={**largest.data, "motion": estimate.motion})
            findings.append(missed)
            found = replace(found, ending=missed)
        mesh = plans_text(best.task.plans)
        freeze |= {"scheme": refinement.family.scheme, "mesh": mesh, "refine": "none" if costs is None else "certificate",
                   "guess": _served(state)}
        extra["refinement_mesh"] = text([mesh])
        several = len(search.problem.phases) > 1
        for phase, errors in zip(search.problem.phases, estimate.phases, strict=True):
            extra[f"{phase.name}.refinement_error" if several else "refinement_error"] = errors.total
    solved = replace(search.problem, phases=tuple(
        replace(phase, system=replace(phase.system, parameter_values=own.system.parameter_values))
        for phase, own in zip(search.problem.phases, found.problem.phases, strict=True)))
    return replace(found, problem=solved, findings=tuple(findings), extra=extra, freeze=freeze,
                   seconds={**_seconds(state), "total": time.perf_counter() - search.begun})


def _served(state: State) -> str:
    """The guess of the cascade that succeeded last."""
    return next((str(one.solution.freeze["guess"]) for one in reversed(state.attempts) if "guess" in one.solution.freeze), "given")


def _seconds(state: State) -> Mapping[str, float]:
    """Seconds of all attempts by stage."""
    found: dict[str, float] = {}
    for attempt in state.attempts:
        for key, value in attempt.solution.seconds.items():
            found[key] = found.get(key, 0.0) + value
    return found
