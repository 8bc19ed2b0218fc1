"""Diagnoses and remedies once there is a certified answer: points that are no minimum, and the error bound of the objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.certify import certify
from ocp.certify.minimum_principle import Better
from ocp.certify.vanishing import shortfall
from ocp.guesses.motion import from_motion
from ocp.interrupts import Activity, Stopped, leave_out, time_is_up
from ocp.nlp.local import PARAMETER
from ocp.problem import OF_ONE_PROGRAM, SOLVED, Finding, Kind, Problem, Residual, Solution, Status, Trajectory
from ocp.reductions import objective_shortfall
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import ANSWERS, ROUNDING

#: what fails where intervals are too long; optimality, too, of methods whose tolerance is relative to the cost where a search
#: begins, for on shorter intervals it begins at an optimum
OF_MESH = frozenset({Kind.GAP_SEGMENT, Kind.GAP_TOTAL, Kind.ERROR_ESTIMATE, Kind.ENERGY, Kind.OBJECTIVE, Kind.OBJECTIVE_ERROR,
                     Kind.VIOLATION_BETWEEN, Kind.STATIONARITY, Kind.COMPLEMENTARITY})


def answered(state: State) -> Solution:
    """The answer so far."""
    assert state.answer is not None
    return state.answer


def not_a_minimum(search: Search, state: State) -> Finding | None:
    """Diagnosis: the certified point is a saddle, a maximum or a flat minimum with descent by terms of higher order."""
    found = answered(state)
    if found.escape is None or found.status not in SOLVED or time_is_up(Activity.CURVATURE):
        return None
    if found.certificate is None or state.fired("error_bound"):
        return None
    kind = found.certificate.second_order
    assert kind is not None
    return Finding(Kind.NOT_A_MINIMUM, value=found.objective, data={"point": kind.kind, "doubtful": kind.holds})


def escape(search: Search, state: State, why: Finding) -> State | None:
    """A solution of lower objective, started from a displacement along a direction of negative curvature; None if there is none."""
    found = answered(state)
    first = ANSWERS.escape_step
    steps = (first,) if why.data["doubtful"] else (first, -first, 1.0)  # a minimum as it looks: one attempt tells
    for length in steps:
        direction = length * found.escape
        begun = from_motion(found.problem, found.optimality.moved(direction), moved_parameters(found, direction))
        if (new := lower(search, state, begun, replace(why, kind=Kind.ESCAPED))) is not None:
            return new
        if time_is_up():
            return None
    return None


def misses_the_minimum_principle(search: Search, state: State) -> Finding | None:
    """Diagnosis: other admissible controls have a smaller Hamiltonian."""
    found = answered(state)
    if found.better_controls is None or found.status not in SOLVED or time_is_up(Activity.CURVATURE) or state.fired("error_bound"):
        return None
    gap = found.certificate.minimum_principle if found.certificate is not None else None
    assert gap is not None
    if gap.cause is Kind.BETTER_PARAMETER:
        return Finding(Kind.BETTER_PARAMETER, name=gap.data["name"], value=gap.data["value"], data={"objective": found.objective})
    if gap.cause is Kind.WAITING:
        return None
    return Finding(Kind.BETTER_CONTROLS, gap.phase, time=gap.time, value=gap.value, data={"objective": found.objective})


def with_better_controls(search: Search, state: State, why: Finding) -> State | None:
    """A solution of lower objective, started from the motion with the controls that minimise the Hamiltonian; None if there is
    none."""
    found = answered(state)
    parts = [part if better is None else _controlled(part, better)
             for part, better in zip(found.parts or (found.trajectory,), found.better_controls, strict=True)]
    values = parameters(found)
    if why.kind is Kind.BETTER_PARAMETER and why.value is not None:
        values[why.name] = why.value
    return lower(search, state, from_motion(found.problem, parts, values), replace(why, kind=Kind.CONTROLS_IMPROVED))


def _controlled(part: Trajectory, better: Better) -> Trajectory:
    """The trajectory with better controls at the nearest of its times."""
    def control(t: Any) -> np.ndarray:
        """The control at a time [s], with the better controls at the nearest samples."""
        own, flat = part.control(t), np.atleast_1d(np.asarray(t, dtype=float))
        nearest = np.argmin(np.abs(flat[:, None] - better.t), axis=1)
        u = np.where((better.gap > 0)[nearest, None], better.u[nearest], np.atleast_2d(own))
        return np.asarray(u[0] if np.ndim(t) == 0 else u)

    return replace(part, u=control(part.t_u), control=control)


def lower(search: Search, state: State, begun: Problem, left: Finding, *, certified: bool = False) -> State | None:
    """The state with the solution from a guess as answer, if its objective is lower; None otherwise. left: the finding to report
    then; certified: whether a certified solution of equal objective also replaces an uncertified answer."""
    from ocp.strategy.loop import searched

    found = answered(state)
    assert found.certificate is not None
    size = found.certificate.objective_size
    new = searched(*search.method.restarted(search, begun))
    if new.status is Status.INTERRUPTED:
        if time_is_up():
            return None
        raise KeyboardInterrupt
    below = new.objective < found.objective - ROUNDING.negligible * size
    certified = certified and not found.ok and (found.status not in SOLVED or new.objective <= _of_motion(found)
                                                + search.tolerances.objective_error * size)
    if not (below or certified):
        return None
    new = replace(new, findings=(*_of_search(found), left, *new.findings),
                  iterations=(*found.iterations, *new.iterations[1:]), strategy=(*found.strategy, *new.strategy))
    new = new if new.certificate is not None else certify(new, search.tolerances)
    if certified and not new.ok:
        return None
    falls = new.objective < found.objective - ANSWERS.unbounded_fall * size
    if falls and (new.status not in SOLVED or new.escape is not None):
        ending = replace(left, kind=Kind.FALLS_WITHOUT_BOUND, value=found.objective, data={**left.data, "objective": new.objective})
        return replace(state, answer=replace(new, status=Status.UNBOUNDED, ending=ending))
    return replace(state, answer=new) if new.status in SOLVED else None


def _of_motion(found: Solution) -> float:
    """The objective integrated along the motion."""
    assert found.certificate is not None
    assert found.certificate.objective is not None
    return float(found.certificate.objective.data.get("integrated", found.objective))


def _of_search(found: Solution) -> tuple[Finding, ...]:
    """Findings that remain valid for an answer of another program."""
    return tuple(one for one in found.findings if one.kind not in OF_ONE_PROGRAM)


def moved_parameters(found: Solution, direction: Any) -> dict[str, float]:
    """Values of the free parameters after a displacement of the unknowns."""
    local, values = found.optimality.local(), parameters(found)
    own = local.owners
    for i in np.flatnonzero((own.kind == PARAMETER) & (own.component >= 0)):
        phase = found.problem.phases[own.phase[i]]
        low, high = next(bounds for index, *bounds in phase.free_parameters if index == own.component[i])
        values[phase.system.parameters[own.component[i]]] = float(np.clip(local.x[i] + direction[i], low, high))
    return values


def parameters(found: Solution) -> dict[str, float]:
    """Values of the free parameters of a solution, by name."""
    return {phase.system.parameters[i]: phase.system.parameter_values[i]
            for phase in found.problem.phases for i, _, _ in phase.free_parameters}


def without_bound(search: Search, state: State) -> Finding | None:
    """Diagnosis: the objective has no error bound yet."""
    found = answered(state)
    if found.status not in SOLVED or found.certificate is None or not np.isfinite(search.tolerances.objective_error):
        return None
    return Finding(Kind.NO_ERROR_BOUND) if found.certificate.objective_error is None else None


def bound(search: Search, state: State, why: Finding) -> State | None:
    """The answer with half the width of its objective's error bound: the change on a finer mesh, the remaining optimality error,
    and the cost of tightened bounds, slack norms and bounds used instead of zero."""
    found = answered(state)
    certificate = found.certificate
    assert certificate is not None
    size = certificate.objective_size
    own, gaps = _own_error(found) / size, _worth(found, "certificate_gap_cost") / size
    margins = (float(np.sum(found.extra.get("margins_cost", 0.0))) + objective_shortfall(found) + shortfall(found)) / size
    rest = certificate.complementarity.value + certificate.stationarity.value + margins

    def bounded(value: float, data: Mapping[str, Any], cause: Kind | None = None, finer: Solution | None = None) -> State:
        """The answer with this error bound."""
        residual = Residual(Kind.OBJECTIVE_ERROR, value, search.tolerances.objective_error, cause=cause, data=data)
        return replace(state, answer=replace(found, certificate=replace(certificate, objective_error=residual)), finer=finer)

    if time_is_up(Activity.ERROR_BOUND):
        leave_out(Activity.ERROR_BOUND)
        return None
    if all(phase.steps is not None for phase in found.problem.phases):
        return bounded(rest, {}, Kind.DISCRETE_TIME)
    begun = from_motion(found.problem, found.parts or (found.trajectory,), parameters(found))
    try:
        again = search.method.on_finer_mesh(search, begun, found)
    except Stopped:
        leave_out(Activity.ERROR_BOUND)
        return None
    except (ArithmeticError, ValueError) as error:
        return bounded(float("nan"), {"error": str(error)}, Kind.FINER_SOLVE_FAILED)
    if again.status is Status.INTERRUPTED:
        leave_out(Activity.ERROR_BOUND)
        return None
    if again.status not in SOLVED:
        return bounded(float("nan"), {"status": again.status.name}, Kind.FINER_SOLVE_FAILED)
    covered = coverage(state, again.objective) * abs(again.objective - found.objective)
    return bounded(max(covered / size, ANSWERS.error_coverage * gaps, own) + rest,
                   {"finer_objective": again.objective}, finer=again)


def coverage(state: State, finer: float) -> float:
    """The factor by which the change on the finer mesh bounds all later changes: the sum of a geometric series, if earlier changes
    show a lower order than the usual one."""
    found = answered(state).objective
    before = [one.diagnosis.data["objective"] for one in state.firings if one.rule == "finer_mesh" and one.taken]
    ratio = abs(finer - found) / abs(found - before[-1]) if before and found != before[-1] else 0.0
    return max(ANSWERS.error_coverage, 1.0 / (1.0 - ratio)) if ratio < 1 else ANSWERS.error_coverage


def _own_error(found: Solution) -> float:
    """The distance of the objective from that of the motion, in its unit: quadrature along the trajectory, re-integrated states
    weighted by costates, and the gain by better controls."""
    certificate = found.certificate
    assert certificate is not None
    assert certificate.objective is not None
    data = certificate.objective.data
    quadrature = abs(data["integrated"] - data["reported"]) if "integrated" in data else 0.0
    return quadrature + sum(_worth(found, name) for name in ("certificate_gap_cost", "certificate_hamiltonian_gap"))


def _worth(found: Solution, name: str) -> float:
    """The error of the objective that the certificate measured under this name, in its unit."""
    return abs(float(np.sum(found.extra.get(name, 0.0))))


def wide_bound(search: Search, state: State) -> Finding | None:
    """Diagnosis: only the error bound of the objective fails, or, of a method that refines no mesh before, only what shorter
    intervals mend; and the mesh may be finer."""
    found = answered(state)
    certificate = found.certificate
    wide = None if certificate is None else certificate.objective_error
    if state.finer is None or certificate is None or wide is None or time_is_up(Activity.REFINEMENT):
        return None
    failing = {one.kind for one in certificate.failures}
    if not failing or not failing <= (OF_MESH if search.refinement is None else {Kind.OBJECTIVE_ERROR}):
        return None
    before = [one.diagnosis.value for one in state.firings if one.rule == "finer_mesh"]
    if before and not wide.value < before[-1] / np.sqrt(2):  # less than of order one half: no finer mesh comes to it in time
        return None
    return Finding(Kind.WIDE_ERROR_BOUND, value=wide.value, tolerance=wide.tolerance, data={"objective": found.objective}) \
        if search.method.finer_answers(search) else None


def from_finer(search: Search, state: State, why: Finding) -> State | None:
    """The solution on the finer mesh, or that of a search from there; None if neither is certified."""
    from ocp.strategy.loop import searched

    found, again = answered(state), state.finer
    assert again is not None
    direct = certify(again, search.tolerances)
    if not direct.ok and search.refinement is None:
        direct = _finer_still(search, found, direct)
    if direct.ok:
        again = direct
        log = (*found.iterations, *again.iterations[1:])
        return replace(state, finer=None, answer=replace(
            direct, options=found.options, iterations=log, strategy=found.strategy, freeze={**found.freeze, **again.freeze},
            findings=(*_of_search(found), replace(why, kind=Kind.REFINED_FURTHER), *direct.findings)))
    if search.refinement is None:
        return None
    begun = from_motion(found.problem, again.parts or (again.trajectory,), parameters(again))
    same = {name: found.freeze.get(name, getattr(search.options, name)) for name in ("scheme", "controls")}
    new = searched(*search.method.restarted(search, begun, mesh=str(again.freeze["mesh"]), **same))
    if new.status is Status.INTERRUPTED and not time_is_up():
        raise KeyboardInterrupt
    new = found_before(found, new, replace(why, kind=Kind.REFINED_FURTHER))
    new = new if new.certificate is not None else certify(new, search.tolerances)
    return replace(state, answer=new, finer=None) if new.ok else None


def _finer_still(search: Search, found: Solution, finer: Solution) -> Solution:
    """The certified solution on as many more intervals as the order asks for by which halving them reduced what fails; the given
    one where that does not lead to a certificate."""
    before, after = (max(one.excess for one in each.certificate.failures) if each.certificate is not None else 0.0
                     for each in (found, finer))
    order, again = np.log2(before / after), finer
    if finer.certificate is None or not {one.kind for one in finer.certificate.failures} <= OF_MESH or not order >= 1:
        return finer
    try:
        for _ in range(int(np.ceil(np.log2(after) / order))):
            begun = from_motion(again.problem, again.parts or (again.trajectory,), parameters(again))
            again = search.method.on_finer_mesh(search, begun, replace(again, options=found.options))
            if again.status not in SOLVED:
                return finer
        return certify(again, search.tolerances)
    except (Stopped, ArithmeticError, ValueError):
        return finer


def found_before(found: Solution, new: Solution, why: Finding) -> Solution:
    """A new answer that tells what was done for the one before, and why it takes its place."""
    return replace(new, options=found.options, findings=(*_of_search(found), why, *new.findings),
                   iterations=(*found.iterations, *new.iterations[1:]), strategy=(*found.strategy, *new.strategy))
