"""Gauss nodes if rates or costs jump at an end of a phase: a node at that end evaluates the wrong side of the jump."""

from __future__ import annotations

from ocp.certify.jumps import at_ends
from ocp.certify.motion import Motion
from ocp.guesses.motion import from_solution
from ocp.problem import SOLVED, Finding, Kind, Status
from ocp.strategy import inner
from ocp.strategy.records import State
from ocp.strategy.search import Refining, Search


def lie_on_a_jump(search: Search, state: State) -> Finding | None:
    """Diagnosis: the first program has a node at an end of a phase that lies on a jump."""
    refinement, found = search.refinement, state.last.solution
    if refinement is None or not refinement.certified or refinement.family.scheme in ("", "gauss") or state.task.number > 1:
        return None
    for phase, part in zip(found.problem.phases, found.parts or (found.trajectory,), strict=True):
        if phase.system.residual is None and (time := next(at_ends(Motion(phase, part)), None)) is not None:
            return Finding(Kind.JUMP_AT_AN_END, phase.name if found.parts else "", time=time)
    return None


def inside(search: Search, state: State, why: Finding) -> State | None:
    """The solution of a search with Gauss nodes, started from the motion; None if it is not solved."""
    from ocp.strategy.loop import searched

    found, method = state.last.solution, search.method
    assert isinstance(method, Refining)
    begun = from_solution(search.problem, found)
    other = searched(*method.gauss_nodes(search, begun, inner.outside(search, state)))
    if other.status is Status.INTERRUPTED:
        return state.ended(Finding(Kind.INTERRUPTED))
    return inner.answered(state, other, why) if other.status in SOLVED else None
