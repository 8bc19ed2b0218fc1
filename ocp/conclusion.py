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
from ocp.certify.ringing import ringing
from ocp.guess import from_motion
from ocp.interrupts import deadline, late
from ocp.problem import SOLVED, Problem, Residual, Solution, Status

#: (problem, options) -> the solution by the method
Run = Callable[[Problem, Any], Solution]

#: (problem that begins at the solution, options, solution) -> the solution on a finer mesh
Finer = Callable[[Problem, Any, Solution], Solution]

#: how far a start lies from a point that is no minimum, relative to the sizes of what moves; and how often it is left
AWAY, LEFT = (0.3, -0.3, 1.0), 3
#: an objective that falls by so many of its sizes falls without bound; what counts as lower
FALLS, LOWER = 1e4, 1e-9
#: errors of the objective fall at least linearly with the lengths of intervals, which halve: this times the change covers them
COVERS = 2.5
#: seconds that a certificate may take after a limit of time
GRACE = 3.0
#: what is said where there is no time for more
NO_BAR = "time limit: the objective has no bar, for that takes a solve on a finer mesh"


def conclude(solution: Solution, options: Any, run: Run, finer: Finer, tolerances: Tolerances | None = None) -> Solution:
    """The certified solution, of a better point where the first was no minimum, with the bar of its objective.

    run: the method; finer: the same on a finer mesh. Raises KeyboardInterrupt where the user ends the way down.
    """
    tolerances = tolerances or Tolerances()
    found = solution if solution.certificate is not None else certify(solution, tolerances, deadline(GRACE))
    found = replace(found, notes=(*found.notes, *ringing(found)))
    for _ in range(LEFT):
        if found.escape is None or found.status not in SOLVED or late():
            break
        better = _left(found, options, run, tolerances)
        if better is None:
            break
        found = better
    if found.status not in SOLVED or found.certificate is None or not np.isfinite(tolerances.objective_error):
        return found
    return _with_bar(found, options, finer, tolerances)


def _left(found: Solution, options: Any, run: Run, tolerances: Tolerances) -> Solution | None:
    """A solution below one that is no minimum; None where no way down ends at a point."""
    assert found.certificate is not None
    assert found.certificate.second_order is not None
    size, kind = found.certificate.objective_size, found.certificate.second_order.words.partition(" of ")[0]
    for length in AWAY:
        begun = from_motion(found.problem, found.optimality.moved(length * found.escape), _parameters(found))
        new = run(begun, replace(options, guess="given") if hasattr(options, "mesh") else options)
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


def _with_bar(found: Solution, options: Any, finer: Finer, tolerances: Tolerances) -> Solution:
    """The solution with half the bar of its objective: what a finer mesh changes, what is left of optimality, what margins cost."""
    certificate = found.certificate
    assert certificate is not None
    size = certificate.objective_size
    margins = float(np.sum(found.extra.get("margins_cost", 0.0))) / size
    rest = certificate.complementarity.value + certificate.stationarity.value + margins
    if late():
        return replace(found, notes=(*found.notes, NO_BAR))
    try:
        again = finer(from_motion(found.problem, found.parts or (found.trajectory,), _parameters(found)), options, found)
    except (ArithmeticError, ValueError) as error:
        return _barred(found, float("nan"), tolerances, f"(the solve on a finer mesh failed: {error})")
    if again.status is Status.INTERRUPTED:
        return replace(found, notes=(*found.notes, NO_BAR if late() else "interrupted before the objective had its bar"))
    if again.status not in SOLVED:
        return _barred(found, float("nan"), tolerances, f"(the solve on a finer mesh ended: {again.status.name.lower()})")
    return _barred(found, COVERS * abs(again.objective - found.objective) / size + rest, tolerances,
                   f"({again.objective:.9g} on a finer mesh)")


def _barred(found: Solution, value: float, tolerances: Tolerances, where: str) -> Solution:
    assert found.certificate is not None
    bar = Residual("error of the objective", value, tolerances.objective_error, where)
    return replace(found, certificate=replace(found.certificate, objective_error=bar))
