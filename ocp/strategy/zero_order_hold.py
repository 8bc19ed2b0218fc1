"""Zero-order hold: piecewise-constant controls, if others chatter or make programs converge slowly."""

from __future__ import annotations

from ocp.guesses.motion import from_solution
from ocp.interrupts import Activity, time_is_up
from ocp.problem import SOLVED, Finding, Kind, Solution, Status
from ocp.strategy import inner
from ocp.strategy.collocation import cornered
from ocp.strategy.outcome import outcome
from ocp.strategy.records import State
from ocp.strategy.search import Refining, Search
from ocp.thresholds import TIGHTENING

#: how programs end that are hard to solve, and not impossible
HARD = (Status.ITERATION_LIMIT, Status.STALLED)


def may_serve(search: Search, state: State) -> Finding | None:
    """Diagnosis: programs with controls of this parameterisation converge slowly, violate path constraints in pass after pass, or
    the search ended without a certificate."""
    if state.answer is not None or not search.alternative or (state.task.begun is not None and state.ending is None):
        return None
    if state.ending is not None:
        serves = not time_is_up(Activity.REFINEMENT) and _shape_to_blame(outcome(search, state))
        return state.ending if serves else None
    if state.last.solution.status in SOLVED:
        overshoots = state.task.number >= TIGHTENING.max_passes and cornered(search)
        return Finding(Kind.PATH_CONSTRAINTS_OVERSHOT, data={"passes": state.task.number}) if overshoots else None
    status = state.last.solution.status
    overshot = status is Status.INFEASIBLE and bool(state.passes) and cornered(search)
    return Finding(Kind.HARD_PROGRAM, data={"status": status.name}) if status in HARD or overshot else None


def _shape_to_blame(found: Solution) -> bool:
    """Whether to retry with another control parameterisation after a refinement failed."""
    certificate = found.certificate
    if certificate is None:  # nothing was solved, or on meshes that were too coarse to be judged
        return found.status in (*HARD, Status.CONVERGED, Status.MESH_TOLERANCE)
    blamed = {one.kind for one in certificate.failures} - {Kind.MINIMUM_PRINCIPLE}  # that asks for other values, not another shape
    return bool(blamed) and found.status is not Status.INTERRUPTED and not (
        certificate.causes & {Kind.STATE_DEPENDENT_JUMP, Kind.MOVING_JUMP, Kind.OSCILLATING_COST})


def hold(search: Search, state: State, why: Finding) -> State | None:
    """The solution with zero-order hold, if it is certified, with the earlier attempts in its log."""
    from ocp.strategy.loop import searched

    early, problem, method = state.ending is None, search.problem, search.method
    assert isinstance(method, Refining)
    if not early:  # it begins where the search ended, so that the file with what is frozen gives the solve again
        found = outcome(search, state)
        problem = from_solution(problem, found)
    lost = state.attempts[0].solution.status is Status.NOT_A_NUMBER
    other = searched(*method.zero_order_hold(search, problem, inner.outside(search, state), early=early, cascade=early and lost))
    if other.certificate is not None and other.certificate.holds:
        return inner.answered(state, other, Finding(Kind.ZERO_ORDER_HOLD, data={"early": early}))
    if other.status is Status.INTERRUPTED:
        return state.ended(Finding(Kind.INTERRUPTED))
    return None
