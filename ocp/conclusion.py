"""What follows a solve: the certificate, the way down from points that are no minimum, and the bar of the objective.

A method hands back a point where first-order conditions hold. If it is a saddle or a maximum, the certificate knows a direction
that leads down: the search starts again a little way along it. The objective is then compared with that of a finer mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.certify import Tolerances, certify
from ocp.certify.kinks import kinks
from ocp.certify.ringing import ringing
from ocp.guess import from_motion
from ocp.interrupts import Activity, Stopped, late, leave_out
from ocp.nlp.local import PARAMETER
from ocp.problem import SOLVED, Problem, Residual, Solution, Status
from ocp.splits import shortfall

#: (problem, options) -> the solution by the method
Run = Callable[[Problem, Any], Solution]

#: (problem that begins at the solution, options, solution) -> the solution on a finer mesh
Finer = Callable[[Problem, Any, Solution], Solution]

#: how far a start lies from a point that is no minimum, relative to the sizes of what moves; and how often it is left
AWAY, LEFT = (0.3, -0.3, 1.0), 3
#: an objective that falls by so many of its sizes falls without bound; what counts as lower
FALLS, LOWER = 1e4, 1e-9
#: times that a mesh of our choice is refined further because the bar of the objective is too wide
REFINED = 3
#: errors of the objective fall at least linearly with the lengths of intervals, which halve: this times the change covers them
COVERS = 2.5


def conclude(solution: Solution, options: Any, run: Run, finer: Finer, tolerances: Tolerances | None = None) -> Solution:
    """The certified solution, of a better point where the first was no minimum, with the bar of its objective.

    run: the method; finer: the same on a finer mesh. Where the bar alone is too wide and the mesh was left to us, the solution on
    the finer mesh takes its place. Raises KeyboardInterrupt where the user ends the way down.
    """
    tolerances = tolerances or Tolerances()
    found = solution if solution.certificate is not None else certify(solution, tolerances)
    told = (*(ringing(found) if found.status in SOLVED else ()), *(() if found.ok else _kinks(found)))
    found = replace(found, notes=(*found.notes, *told))
    for _ in range(LEFT):
        if found.escape is None or found.status not in SOLVED or late(Activity.CURVATURE):
            break
        better = _left(found, options, run, tolerances)
        if better is None:
            break
        found = better
    if found.status not in SOLVED or found.certificate is None or not np.isfinite(tolerances.objective_error):
        return found
    for _ in range(REFINED):
        found, again = _with_bar(found, options, finer, tolerances)
        better = _refined(found, again, options, run, tolerances)
        if better is None:
            return found
        found = better
    return _with_bar(found, options, finer, tolerances)[0]


def _kinks(found: Solution) -> tuple[str, ...]:
    try:
        return kinks(found)
    except Stopped:
        return ()


def _refined(found: Solution, again: Solution | None, options: Any, run: Run, tolerances: Tolerances) -> Solution | None:
    """The certified solution from the finer mesh on, where all that ``found`` misses is a narrow bar; None otherwise."""
    certificate = found.certificate
    assert certificate is not None
    wide = certificate.objective_error
    if again is None or wide is None or wide.holds or len(certificate.failures) > 1 or late(Activity.REFINEMENT):
        return None
    if getattr(options, "refine", "") != "certificate":
        return None
    begun = from_motion(found.problem, again.parts or (again.trajectory,), _parameters(again))
    try:
        new = run(begun, replace(options, mesh=str(again.freeze["mesh"]), guess="given",
                                 controls=found.freeze.get("controls", options.controls)))
    except Stopped:
        return None
    if new.status is Status.INTERRUPTED and not late():
        raise KeyboardInterrupt
    note = f"refined further: objective {found.objective:.9g} had an error of {wide.value:.2g} of its size"
    before = tuple(said for said in found.notes if said.startswith(("pass ", "controls chattered")))
    new = replace(new, options=found.options, notes=(*before, note, *new.notes),
                  iterations=(*found.iterations, *new.iterations[1:]))
    new = new if new.certificate is not None else certify(new, tolerances)
    return new if new.ok else None


def _left(found: Solution, options: Any, run: Run, tolerances: Tolerances) -> Solution | None:
    """A solution below one that is no minimum; None where no way down ends at a point."""
    assert found.certificate is not None
    assert found.certificate.second_order is not None
    size, kind = found.certificate.objective_size, found.certificate.second_order.words.partition(" of ")[0]
    doubtful = found.certificate.second_order.holds  # a minimum as it looks: one attempt tells
    for length in AWAY[:1] if doubtful else AWAY:
        step = length * found.escape
        begun = from_motion(found.problem, found.optimality.moved(step), moved_parameters(found, step))
        try:
            new = run(begun, replace(options, guess="given") if hasattr(options, "mesh") else options)
        except Stopped:
            return None
        if new.status is Status.INTERRUPTED:
            if late():
                return None
            raise KeyboardInterrupt
        note = f"left {kind} of objective {found.objective:.9g} along negative curvature"
        if not new.objective < found.objective - LOWER * size:
            continue
        new = certify(replace(new, notes=(*new.notes, note), iterations=(*found.iterations, *new.iterations[1:])), tolerances)
        falls = new.objective < found.objective - FALLS * size
        if falls and (new.status not in SOLVED or new.escape is not None):
            told = f"From {kind} at {found.objective:.6g} the objective fell to {new.objective:.3g} and went on falling."
            return replace(new, status=Status.UNBOUNDED, message=told)
        if new.status in SOLVED:
            return new
    return None


def _parameters(found: Solution) -> dict[str, float]:
    return {phase.system.parameters[i]: phase.system.parameter_values[i]
            for phase in found.problem.phases for i, _, _ in phase.free_parameters}


def moved_parameters(found: Solution, direction: Any) -> dict[str, float]:
    """Values of the free parameters when the unknowns have moved by so much."""
    local, values = found.optimality.local(), _parameters(found)
    own = local.owners
    for i in np.flatnonzero((own.kind == PARAMETER) & (own.component >= 0)):
        name = found.problem.phases[own.phase[i]].system.parameters[own.component[i]]
        values[name] = float(np.clip(local.x[i] + direction[i], local.x_lower[i], local.x_upper[i]))
    return values


def _with_bar(found: Solution, options: Any, finer: Finer, tolerances: Tolerances) -> tuple[Solution, Solution | None]:
    """The solution with half the bar of its objective: what a finer mesh changes, what is left of optimality, what margins
    and sizes of norms cost; and the solution on the finer mesh, where there is one."""
    certificate = found.certificate
    assert certificate is not None
    size = certificate.objective_size
    margins = (float(np.sum(found.extra.get("margins_cost", 0.0))) + shortfall(found)) / size
    rest = certificate.complementarity.value + certificate.stationarity.value + margins
    if late(Activity.ERROR_BOUND):
        leave_out(Activity.ERROR_BOUND)
        return found, None
    if all(phase.steps is not None for phase in found.problem.phases):
        return _barred(found, rest, tolerances, "(in discrete time there is no finer mesh)"), None
    try:
        again = finer(from_motion(found.problem, found.parts or (found.trajectory,), _parameters(found)), options, found)
    except Stopped:
        leave_out(Activity.ERROR_BOUND)
        return found, None
    except (ArithmeticError, ValueError) as error:
        return _barred(found, float("nan"), tolerances, f"(the solve on a finer mesh failed: {error})"), None
    if again.status is Status.INTERRUPTED:
        leave_out(Activity.ERROR_BOUND)
        return found, None
    if again.status not in SOLVED:
        return _barred(found, float("nan"), tolerances, f"(the solve on a finer mesh ended: {again.status.name.lower()})"), None
    return _barred(found, COVERS * abs(again.objective - found.objective) / size + rest, tolerances,
                   f"({again.objective:.9g} on a finer mesh)"), again


def _barred(found: Solution, value: float, tolerances: Tolerances, where: str) -> Solution:
    assert found.certificate is not None
    bar = Residual("error of the objective", value, tolerances.objective_error, where)
    return replace(found, certificate=replace(found.certificate, objective_error=bar))
