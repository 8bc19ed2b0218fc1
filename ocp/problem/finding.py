"""What is found about an answer, and on the way to it, as data.

A finding says what it is (``Kind``) and where: phase, constraint or state, component, time, value beside its tolerance. Code
compares kinds and numbers; sentences are made of them at the face alone (``ocp.app.sentences``).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


class Kind(enum.StrEnum):
    """What a finding is about. Names are stable: they stand in ``summary.json`` and in Python."""

    # the certificate: its checks, by the names of their tolerances under ``accept:``
    STATIONARITY = "stationarity"
    COMPLEMENTARITY = "complementarity"
    GAP_SEGMENT = "gap_segment"
    GAP_TOTAL = "gap_total"
    ERROR_ESTIMATE = "error_estimate"
    ENERGY = "energy"
    OBJECTIVE = "objective"
    POINT = "point"
    OBJECTIVE_ERROR = "objective_error"
    VIOLATION = "violation"
    VIOLATION_BETWEEN = "violation_between"
    # kinds of points, and why that is said of the discrete problem alone
    STRICT_MINIMUM = "strict_minimum"
    FLAT_MINIMUM = "flat_minimum"
    SADDLE = "saddle"
    MAXIMUM = "maximum"
    POINT_NOT_EXAMINED = "point_not_examined"
    ACTIVE_CONSTRAINTS = "active_constraints"
    PIECEWISE_CONSTANT_CONTROLS = "piecewise_constant_controls"
    FLAT_DIRECTIONS = "flat_directions"
    # special causes of the value of a check
    STATE_DEPENDENT_JUMP = "state_dependent_jump"
    OSCILLATING_COST = "oscillating_cost"
    ERROR_GROWTH = "error_growth"
    NOT_EXAMINED = "not_examined"
    RATES_NOT_FINITE = "rates_not_finite"
    REINTEGRATION_FAILED = "reintegration_failed"
    DISCRETE_TIME = "discrete_time"
    SIZES_DIFFER = "sizes_differ"
    FINER_SOLVE_FAILED = "finer_solve_failed"
    # why a check fails, as advice tells
    VIOLATED_BETWEEN_KNOTS = "violated_between_knots"
    VIOLATED_AT_KNOTS = "violated_at_knots"
    DESCENT_FAILED = "descent_failed"
    PHASE_MISSING = "phase_missing"
    POINT_INACCURATE = "point_inaccurate"
    MESH_TOO_COARSE = "mesh_too_coarse"
    UNSTABLE_MOTION = "unstable_motion"
    INACCURATE_SEGMENTS = "inaccurate_segments"
    OBJECTIVE_NOT_CONVERGED = "objective_not_converged"
    DIFFERENT_POINTS = "different_points"
    # beside the checks
    STIFF = "stiff"
    OSCILLATING_CONTROLS = "oscillating_controls"
    MOTION_ON_KINKS = "motion_on_kinks"

    # the problem by itself: bounds that rule a solution out
    DISTANCE_TOO_LONG = "distance_too_long"
    STATE_OUT_OF_REACH = "state_out_of_reach"
    CONSTRAINT_OUT_OF_REACH = "constraint_out_of_reach"
    END_OUT_OF_REACH = "end_out_of_reach"
    NOTHING_SOLVED = "nothing_solved"

    # the strategy: what was tried, why, and what came of it

    # nonlinear programs and their solvers

    # shooting

    # kernels and derivatives


@dataclass(frozen=True)
class Finding:
    """One finding. name: of the constraint, state, control, parameter, kernel or check it is about; time [s]; data: what else its
    kind has, numbers, names and tuples of these."""

    kind: Kind
    phase: str = ""
    name: str = ""
    component: str = ""
    time: float | None = None
    value: float | None = None
    tolerance: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """For JSON: the kind by its name, and what is given of the rest."""
        given = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        return {"kind": str(self.kind), **{name: _plain(value) for name, value in given.items() if value not in ("", None, {})}}


def _plain(value: Any) -> Any:
    """The value in JSON's own types."""
    if isinstance(value, Kind):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value
