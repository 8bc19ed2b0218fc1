"""A search within a search, whose answer may replace the earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ocp.problem import Finding, Kind, Solution
from ocp.strategy.records import State
from ocp.strategy.search import Outside, Search


def _behind(state: State, row: Mapping[str, Any]) -> dict[str, Any]:
    """An iteration of the inner search with a continued number."""
    before = {"iteration": len(state.log), "pass": len(state.passes)}
    return {**row, **{name: row[name] + count for name, count in before.items() if name in row}}  # coarse solves have no pass


def outside(search: Search, state: State) -> Outside:
    """Callbacks of the inner search."""
    show = search.outside.progress
    return replace(search.outside, resume=None, progress=None if show is None else lambda row: show(_behind(state, row)))


def answered(state: State, found: Solution, why: Finding) -> State:
    """The state with the answer of the inner search, and with the earlier attempts in its log."""
    log = (*state.log, *(_behind(state, row) for row in found.iterations))
    return replace(state, ending=Finding(Kind.ACCURATE),
                   answer=replace(found, findings=(*state.findings, why, *found.findings), iterations=log))
