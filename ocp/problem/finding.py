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
    PASS = "pass"
    PASS_NOT_SOLVED = "pass_not_solved"
    TOO_COARSE = "too_coarse"
    CERTIFIED = "certified"
    NOT_CERTIFIED = "not_certified"
    MESH_ERROR = "mesh_error"
    MESH_TOLERANCE_MISSED = "mesh_tolerance_missed"
    ACCURATE = "accurate"
    INTERRUPTED = "interrupted"
    LAST_PASS_RETURNED = "last_pass_returned"
    PROGRAM_NOT_SOLVED = "program_not_solved"
    REFINED_MESH_NOT_SOLVED = "refined_mesh_not_solved"
    NO_RULE_LEFT = "no_rule_left"
    PASSES_USED_UP = "passes_used_up"
    REFINEMENT_STALLED = "refinement_stalled"
    NO_FINER_MESH = "no_finer_mesh"
    GUESS_SERVED = "guess_served"
    GUESSES_FAILED = "guesses_failed"
    LOCALLY_INFEASIBLE = "locally_infeasible"
    QUASI_NEWTON_STALLED = "quasi_newton_stalled"
    UNBOUNDED_DURATION = "unbounded_duration"
    BADLY_SCALED = "badly_scaled"
    BOUNDS_TIGHTENED = "bounds_tightened"
    CHATTERING_CONTROLS = "chattering_controls"
    SINGULAR_CONTROLS_CHATTER = "singular_controls_chatter"
    SINGULAR_SMOOTHED = "singular_smoothed"
    SINGULAR_NEARLY_SMOOTH = "singular_nearly_smooth"
    SINGULAR_CHATTERS = "singular_chatters"
    HARD_PROGRAM = "hard_program"
    PATH_CONSTRAINTS_OVERSHOT = "path_constraints_overshot"
    ZERO_ORDER_HOLD = "zero_order_hold"
    JUMP_NOT_ON_MESH = "jump_not_on_mesh"
    COSTS_TOO_FAST = "costs_too_fast"
    EDGES_AT_JUMPS = "edges_at_jumps"
    EDGES_MOVED = "edges_moved"
    EDGES_NOT_MOVED = "edges_not_moved"
    EDGES_STAY = "edges_stay"
    NO_JUMP_AT_EDGES = "no_jump_at_edges"
    NO_SWITCH = "no_switch"
    LINEAR_CONTROLS_WOULD_JUMP = "linear_controls_would_jump"
    LOBATTO_ORDER = "lobatto_order"
    NOT_A_MINIMUM = "not_a_minimum"
    ESCAPED = "escaped"
    FALLS_WITHOUT_BOUND = "falls_without_bound"
    NO_ERROR_BOUND = "no_error_bound"
    WIDE_ERROR_BOUND = "wide_error_bound"
    REFINED_FURTHER = "refined_further"

    # nonlinear programs and their solvers

    # shooting

    # kernels and derivatives

    # reductions: how a problem was formulated for a method
    ABSOLUTE_VALUE_AS_SUM = "absolute_value_as_sum"
    NORM_AS_SLACK = "norm_as_slack"


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
    if isinstance(value, Finding):
        return value.record()
    if isinstance(value, Kind):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value
