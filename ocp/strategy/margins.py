"""Diagnosis and remedy of answers whose bounds are tightened between nodes at a cost that matters: shorter intervals there.

To first order the objective pays the multipliers times the tightening, and the overshoot of a smooth motion, which the tightening
follows, falls with the square of the width of an interval or faster. Where a margin costs more than the accuracy asks for, the
mesh is cut instead. Since a finer mesh needs none, they count twice in the error bound of the objective: by what they cost, and by
the change of the objective on that mesh.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ocp.certify import certify
from ocp.guesses.motion import from_motion
from ocp.interrupts import Activity, time_is_up
from ocp.problem import Finding, Kind, Status
from ocp.strategy.answer import answered, bound, found_before, parameters
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import ANSWERS, MESH_CHANGE
from ocp.transcription.refine.plan import plans_text, read_plans
from ocp.transcription.refine.policy import cut


def costly(search: Search, state: State) -> Finding | None:
    """Diagnosis: tightened bounds alone use most of the tolerance of the error bound."""
    found = answered(state)
    certificate = found.certificate
    if certificate is None or certificate.objective_error is None or time_is_up(Activity.REFINEMENT) or \
            not search.method.finer_answers(search):
        return None
    cost, tolerance = float(np.sum(found.extra.get("margins_cost", 0.0))), certificate.objective_error.tolerance
    most = tolerance * certificate.objective_size / (2.0 * (1.0 + ANSWERS.error_coverage))
    return Finding(Kind.BOUNDS_TIGHTENED, value=cost, tolerance=most, data={"objective": found.objective}) if cost > most else None


def cut_there(search: Search, state: State, why: Finding) -> State | None:
    """The certified answer on a mesh whose intervals are cut where tightening costs most, with a narrower error bound; None if
    there is none."""
    from ocp.strategy.loop import searched

    found = answered(state)
    assert found.certificate is not None
    assert found.certificate.objective_error is not None
    assert why.tolerance is not None
    costs, mesh = found.extra["margins_cost"], str(found.freeze["mesh"])
    names = [phase.name for phase in search.problem.phases]
    plans = read_plans(mesh, names, str(found.freeze["scheme"]), "margins")
    wanted = np.ceil(np.sqrt(costs * np.count_nonzero(costs) / (MESH_CHANGE.aim * why.tolerance)))
    pieces = np.split(np.clip(wanted, 1, MESH_CHANGE.max_change).astype(int), np.cumsum([plan.intervals for plan in plans])[:-1])
    finer = plans_text([cut(plan, own.tolist()) for plan, own in zip(plans, pieces, strict=True)])
    begun = from_motion(found.problem, found.parts or (found.trajectory,), parameters(found))
    same = {name: found.freeze.get(name, getattr(search.options, name)) for name in ("scheme", "controls")}
    new = searched(*search.method.restarted(search, begun, mesh=finer, **same))
    if new.status is Status.INTERRUPTED and not time_is_up():
        raise KeyboardInterrupt
    new = found_before(found, new, replace(why, kind=Kind.REFINED_FURTHER, value=found.certificate.objective_error.value))
    new = new if new.certificate is not None else certify(new, search.tolerances)
    after = bound(search, replace(state, answer=new, finer=None), why) if new.ok else None
    certificate = None if after is None else answered(after).certificate
    error = None if certificate is None else certificate.objective_error
    return after if error is not None and error.value < found.certificate.objective_error.value else None
