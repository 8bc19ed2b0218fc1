"""Diagnoses and remedies once there is a certified answer: points that are no minimum, and the error bound of the objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.certify import certify
from ocp.guess import from_motion
from ocp.interrupts import Activity, Stopped, late, leave_out
from ocp.nlp.local import PARAMETER
from ocp.problem import OF_ONE_PROGRAM, SOLVED, Finding, Kind, Residual, Solution, Status
from ocp.reductions import objective_shortfall
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import ANSWERS, ROUNDING


def answered(state: State) -> Solution:
    """The answer so far."""
    assert state.answer is not None
    return state.answer


def not_a_minimum(search: Search, state: State) -> Finding | None:
    found = answered(state)
    if found.escape is None or found.status not in SOLVED or late(Activity.CURVATURE):
        return None
    if found.certificate is None or state.fired("error_bound"):
        return None
    kind = found.certificate.second_order
    assert kind is not None
    return Finding(Kind.NOT_A_MINIMUM, value=found.objective, data={"point": kind.kind, "doubtful": kind.holds})


def escape(search: Search, state: State, why: Finding) -> State | None:
    """A solution below the point, from a little way along a direction of negative curvature; None where no such way ends at one."""
    from ocp.strategy.loop import searched

    found = answered(state)
    assert found.certificate is not None
    size = found.certificate.objective_size
    first = ANSWERS.escape_step
    steps = (first,) if why.data["doubtful"] else (first, -first, 1.0)  # a minimum as it looks: one attempt tells
    for length in steps:
        direction = length * found.escape
        begun = from_motion(found.problem, found.optimality.moved(direction), moved_parameters(found, direction))
        new = searched(*search.method.restarted(search, begun))
        if new.status is Status.INTERRUPTED:
            if late():
                return None
            raise KeyboardInterrupt
        if not new.objective < found.objective - ROUNDING.negligible * size:
            continue
        new = replace(new, findings=(*_of_search(found), replace(why, kind=Kind.ESCAPED), *new.findings),
                      iterations=(*found.iterations, *new.iterations[1:]),
                      strategy=(*found.strategy, *new.strategy))
        new = new if new.certificate is not None else certify(new, search.tolerances)
        falls = new.objective < found.objective - ANSWERS.unbounded_fall * size
        if falls and (new.status not in SOLVED or new.escape is not None):
            ending = replace(why, kind=Kind.FALLS_WITHOUT_BOUND, data={**why.data, "objective": new.objective})
            return replace(state, answer=replace(new, status=Status.UNBOUNDED, ending=ending))
        if new.status in SOLVED:
            return replace(state, answer=new)
    return None


def _of_search(found: Solution) -> tuple[Finding, ...]:
    """Findings that stay true when another program has a better answer."""
    return tuple(one for one in found.findings if one.kind not in OF_ONE_PROGRAM)


def moved_parameters(found: Solution, direction: Any) -> dict[str, float]:
    """Values of the free parameters when the unknowns have moved by so much."""
    local, values = found.optimality.local(), parameters(found)
    own = local.owners
    for i in np.flatnonzero((own.kind == PARAMETER) & (own.component >= 0)):
        name = found.problem.phases[own.phase[i]].system.parameters[own.component[i]]
        values[name] = float(np.clip(local.x[i] + direction[i], local.x_lower[i], local.x_upper[i]))
    return values


def parameters(found: Solution) -> dict[str, float]:
    """Values of the free parameters of a solution, by name."""
    return {phase.system.parameters[i]: phase.system.parameter_values[i]
            for phase in found.problem.phases for i, _, _ in phase.free_parameters}


def without_bound(search: Search, state: State) -> Finding | None:
    found = answered(state)
    if found.status not in SOLVED or found.certificate is None or not np.isfinite(search.tolerances.objective_error):
        return None
    return Finding(Kind.NO_ERROR_BOUND) if found.certificate.objective_error is None else None


def bound(search: Search, state: State, why: Finding) -> State | None:
    """The answer with half the width of the error bound of its objective: what a finer mesh changes, what is left of optimality,
    what tightened bounds and slack norms cost."""
    found = answered(state)
    certificate = found.certificate
    assert certificate is not None
    size = certificate.objective_size
    margins = (float(np.sum(found.extra.get("margins_cost", 0.0))) + objective_shortfall(found)) / size
    rest = certificate.complementarity.value + certificate.stationarity.value + margins

    def bounded(value: float, data: Mapping[str, Any], cause: Kind | None = None, finer: Solution | None = None) -> State:
        residual = Residual(Kind.OBJECTIVE_ERROR, value, search.tolerances.objective_error, cause=cause, data=data)
        return replace(state, answer=replace(found, certificate=replace(certificate, objective_error=residual)), finer=finer)

    if late(Activity.ERROR_BOUND):
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
    return bounded(ANSWERS.error_coverage * abs(again.objective - found.objective) / size + rest,
                   {"finer_objective": again.objective}, finer=again)


def wide_bound(search: Search, state: State) -> Finding | None:
    """That all the answer misses is a narrow error bound, where the mesh was left to us."""
    found, refinement = answered(state), search.refinement
    certificate = found.certificate
    wide = None if certificate is None else certificate.objective_error
    if state.finer is None or wide is None or wide.holds or late(Activity.REFINEMENT):
        return None
    if certificate is None or len(certificate.failures) > 1:
        return None
    certified = refinement is not None and refinement.certified
    return Finding(Kind.WIDE_ERROR_BOUND, value=wide.value, tolerance=wide.tolerance, data={"objective": found.objective}) \
        if certified else None


def from_finer(search: Search, state: State, why: Finding) -> State | None:
    """The certified solution from the finer mesh on; None where the certificate does not take it."""
    from ocp.strategy.loop import searched

    found, again = answered(state), state.finer
    assert again is not None
    begun = from_motion(found.problem, again.parts or (again.trajectory,), parameters(again))
    new = searched(*search.method.restarted(search, begun, mesh=str(again.freeze["mesh"]),
                                            controls=found.freeze.get("controls", search.options.controls)))
    if new.status is Status.INTERRUPTED and not late():
        raise KeyboardInterrupt
    new = replace(new, options=found.options, findings=(*_of_search(found), replace(why, kind=Kind.REFINED_FURTHER), *new.findings),
                  iterations=(*found.iterations, *new.iterations[1:]), strategy=(*found.strategy, *new.strategy))
    new = new if new.certificate is not None else certify(new, search.tolerances)
    return replace(state, answer=new, finer=None) if new.ok else None
