"""Answers in which the instant of a jump meets the end of a phase or another instant: the other order is tried."""

from __future__ import annotations

from dataclasses import replace

from ocp.interrupts import Activity, time_is_up
from ocp.problem import SOLVED, Finding, Kind
from ocp.reductions.time_switches import neighbours
from ocp.strategy.answer import answered, lower
from ocp.strategy.records import State
from ocp.strategy.search import Search


def meet(search: Search, state: State) -> Finding | None:
    """Diagnosis: two instants, or an instant and an end of a phase, coincide."""
    found = answered(state)
    if found.status not in SOLVED or state.fired("error_bound") or time_is_up(Activity.SOLVING):
        return None
    first = next(neighbours(found), None)
    return None if first is None else Finding(Kind.INSTANTS_MEET, time=first[1], value=found.objective)


def swapped(search: Search, state: State, why: Finding) -> State | None:
    """A solution of lower objective with the two instants in the other order; None if there is none."""
    for problem, time in neighbours(answered(state)):
        left = replace(why, kind=Kind.INSTANTS_SWAPPED, time=time, data={"objective": why.value})
        if (new := lower(search, state, problem, left)) is not None:
            return new
    return None
