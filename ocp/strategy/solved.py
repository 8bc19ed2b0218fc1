"""Diagnoses and remedies after a solved program on a mesh: its accuracy and the next mesh."""

from __future__ import annotations

from dataclasses import replace

from ocp.problem import Finding, Kind, Solution, Trajectory, join
from ocp.strategy.records import Judged, State
from ocp.strategy.search import Refinement, Refining, Search
from ocp.thresholds import BUDGETS, CRITERION, DIAGNOSES, VERDICTS
from ocp.transcription.refine.continued import continued
from ocp.transcription.refine.criteria import same
from ocp.transcription.refine.policy import next_plan
from ocp.transcription.refine.switches import located, shift, unplaced


def _of(state: State) -> Judged:
    return state.verdicts[-1]


def shaped(state: State) -> bool:
    """Whether singular controls are smoothed and therefore determined, so that their remaining error is one of the mesh."""
    singular = _of(state).singular
    return singular is not None and singular.solved


def accurate(search: Search, state: State) -> bool:
    """Whether the last pass has the requested accuracy."""
    assert search.refinement is not None
    return search.refinement.criterion.accurate(state.verdicts, shaped(state))


def moving(search: Search, state: State) -> bool:
    """Whether edges are to be placed at, or moved to, jumps of controls."""
    jumps = _of(state).jumps
    return any(jumps) and (unplaced(state.task.plans, jumps) or (not state.settled and _rough(search, state)))


def _rough(search: Search, state: State) -> bool:
    """Whether an interval beside an edge at a jump misses the tolerance."""
    assert search.refinement is not None
    return any(max(errors.total[k - 1], errors.total[k]) > search.refinement.rules.tolerance
               for plan, errors in zip(state.task.plans, _of(state).verdict.errors, strict=True) for k in plan.jumps)


def is_certified(search: Search, state: State) -> Finding | None:
    """Diagnosis: the certificate holds, or the mesh is given."""
    certifies = search.refinement is None or search.refinement.certified
    return Finding(Kind.ACCURATE) if certifies and (search.refinement is None or accurate(search, state)) else None


def chatters(search: Search, state: State) -> Finding | None:
    """Diagnosis: controls that enter linearly chatter. Such programs converge slowly, and finer meshes represent their motions
    worse."""
    refinement, passes = search.refinement, state.verdicts
    assert refinement is not None
    if accurate(search, state) or not search.alternative or not any(own.any() for own in refinement.linear) or len(passes) < 2:
        return None
    errors = [one.verdict.worst for one in passes]
    slow = state.task.warm and len(state.last.solution.iterations) > BUDGETS.max_iterations // 2
    grown = len(errors) > 2 and min(errors[-2:]) > DIAGNOSES.grown_error * min(errors[:-2])
    return Finding(Kind.CHATTERING_CONTROLS) if slow or grown else None


def at_a_jump(search: Search, state: State) -> Finding | None:
    """Diagnosis: the remaining error is the time at which the motion crosses a discontinuity, which no mesh determines."""
    return Finding(Kind.JUMP_NOT_ON_MESH) if _caused_by(search, state, Kind.STATE_DEPENDENT_JUMP, Kind.MOVING_JUMP) else None


def too_fast(search: Search, state: State) -> Finding | None:
    """Diagnosis: running costs oscillate faster than intervals can follow."""
    return Finding(Kind.COSTS_TOO_FAST) if _caused_by(search, state, Kind.OSCILLATING_COST) else None


def _caused_by(search: Search, state: State, *causes: Kind) -> bool:
    """Whether a failed check of a certificate has one of these causes."""
    certificate = state.last.solution.certificate
    return certificate is not None and not accurate(search, state) and bool(certificate.causes & set(causes))


def badly_scaled(search: Search, state: State) -> Finding | None:
    """Diagnosis: the solver stopped before the optimum, because unknowns, constraints or the cost are small."""
    certificate, refinement = state.last.solution.certificate, search.refinement
    assert refinement is not None
    if not refinement.certified or certificate is None or state.task.scaling is not None or \
            search.options.scaling != "none" or state.task.number >= refinement.max_passes:
        return None
    gap, defect = certificate.gap_segment, certificate.error_estimate
    jumps = not gap.holds and gap.value > VERDICTS.defect_factor * defect.value  # at knots, for within segments it obeys the rates
    early = jumps or not (certificate.stationarity.holds and certificate.complementarity.holds)
    return Finding(Kind.BADLY_SCALED, value=certificate.stationarity.value, tolerance=certificate.stationarity.tolerance,
                   data={"pass": state.task.number}) if early else None


def rescale(search: Search, state: State, why: Finding) -> State:
    """The same mesh again, scaled by the solution."""
    assert search.refinement is not None
    task, found = state.task, state.last.solution
    meshes = search.refinement.family.meshes(search.problem, task.plans)
    begun = continued(search.problem, found.parts or (found.trajectory,), found.problem, meshes)
    return replace(state, task=replace(task.next(begun, warm=True), scaling="guess"))


def is_accurate(search: Search, state: State) -> Finding | None:
    """Diagnosis: the errors are within their tolerance."""
    return Finding(Kind.ACCURATE) if accurate(search, state) and not moving(search, state) else None


def passes_used_up(search: Search, state: State) -> Finding | None:
    """Diagnosis: the limit of passes is reached."""
    assert search.refinement is not None
    if state.task.number < search.refinement.max_passes:
        return None
    return Finding(Kind.ACCURATE if accurate(search, state) else Kind.PASSES_USED_UP, data={"pass": state.task.number})


def inaccurate(search: Search, state: State) -> Finding | None:
    """Diagnosis: the largest error, if it exceeds its tolerance."""
    return _of(state).verdict.finding


def refine(search: Search, state: State, why: Finding) -> State:
    """The next mesh, with edges at jumps and bounds tightened where motions overshoot them; or the reason why there is none."""
    refinement, task, judged, method = search.refinement, state.task, _of(state), search.method
    assert refinement is not None
    passes, criterion = state.verdicts, refinement.criterion
    # else the objective no longer feels the controls' shape
    felt = shaped(state) or len(passes) < 2 or not same(passes[-2:], criterion.still)
    after = tuple(next_plan(plan, errors if felt else errors.of_motion, refinement.rules)
                  for plan, errors in zip(task.plans, judged.verdict.errors, strict=True))
    solution = state.last.solution
    parts, solved = solution.parts or (solution.trajectory,), solution.problem
    if moving(search, state):
        assert isinstance(method, Refining)
        guided = with_parts(solution, judged.guide) if judged.guide else solution
        moved = located(search.problem, guided, task.plans, after, judged.jumps, refinement.family.meshes,
                        lambda cut, cuts, on: method.on_arcs(search, task, cut, cuts, on))
        after, parts, solved = moved.plans, moved.parts, moved.problem
        state = replace(state, settled=moved.found and shift(task.plans, after) <= criterion.shift)
        if accurate(search, state) and not moved.found:
            return state.ended(Finding(Kind.ACCURATE))
        state = state.with_findings(replace(moved.finding, data={"pass": task.number, **moved.finding.data}))
    margins = judged.verdict.margins
    tightened = any((new.times != old.times).any() for new, old in zip(margins, task.margins, strict=True))
    if after == task.plans and not tightened:
        return state.ended(_unless_fine(search, state, Finding(Kind.NO_FINER_MESH)))
    if _stalled(refinement, state):
        return state.ended(_unless_fine(search, state, Finding(Kind.REFINEMENT_STALLED)))
    begun = continued(search.problem, parts, solved, refinement.family.meshes(search.problem, after))
    return replace(state, task=replace(task, margins=margins).on(after).next(begun, warm=True))


def _unless_fine(search: Search, state: State, why: Finding) -> Finding:
    assert search.refinement is not None
    fine = accurate(search, state) or search.refinement.criterion.undetermined(state.verdicts)
    return Finding(Kind.ACCURATE) if fine else why


def _stalled(refinement: Refinement, state: State) -> bool:
    """Whether the last passes hardly changed the objective and reduced the error by less than a factor, far from the tolerance, so
    that finer meshes do not help (chattering along singular arcs)."""
    # errors are compared by one measure: before the first certificate they hold no overshoots
    passes = [p for p in state.verdicts if bool(p.verdict.allowed) == bool(state.verdicts[-1].verdict.allowed)]
    errors = [p.verdict.worst if refinement.certified else p.verdict.largest if shaped(state) else p.estimate.motion
              for p in passes]
    last = refinement.rules.policy.stall
    near = refinement.certified and errors[-1] <= CRITERION.screen
    return (len(passes) > last and not near and same(passes[-last:], refinement.criterion.still)
            and min(errors[-last:]) > CRITERION.min_progress * min(errors[:-last]))


def with_parts(solution: Solution, parts: tuple[Trajectory, ...]) -> Solution:
    """The solution with other trajectories, phase by phase."""
    return replace(solution, trajectory=join(parts), parts=parts if len(parts) > 1 else ())


def ended(search: Search, state: State, why: Finding) -> State:
    """The state with an ending."""
    return state.ended(why)
