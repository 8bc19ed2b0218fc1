"""What is found about an answer, and on the way to it, as data.

A finding says what it is (``Kind``) and where: phase, constraint or state, component, time, value beside its tolerance. Code
compares kinds and numbers; sentences are made of them at the face alone (``ocp.app.sentences``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
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
    MINIMUM_PRINCIPLE = "minimum_principle"
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
    MOVING_JUMP = "moving_jump"
    OSCILLATING_COST = "oscillating_cost"
    CONVEX_HAMILTONIAN = "convex_hamiltonian"
    WAITING = "waiting"
    BETTER_PARAMETER = "better_parameter"
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
    SOLE_UNLIMITED = "sole_unlimited"
    PHASE_VANISHES = "phase_vanishes"
    MOTION_ON_KINKS = "motion_on_kinks"

    # the problem by itself: bounds that rule a solution out
    DISTANCE_TOO_LONG = "distance_too_long"
    STATE_OUT_OF_REACH = "state_out_of_reach"
    CONSTRAINT_OUT_OF_REACH = "constraint_out_of_reach"
    END_OUT_OF_REACH = "end_out_of_reach"
    NOTHING_SOLVED = "nothing_solved"

    # the strategy: what was tried, why, and what came of it
    STOPPED_IN = "stopped_in"
    LEFT_OUT = "left_out"
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
    SINGULAR_SMOOTHED = "singular_smoothed"
    SINGULAR_NEARLY_SMOOTH = "singular_nearly_smooth"
    SINGULAR_CHATTERS = "singular_chatters"
    HARD_PROGRAM = "hard_program"
    PATH_CONSTRAINTS_OVERSHOT = "path_constraints_overshot"
    ZERO_ORDER_HOLD = "zero_order_hold"
    JUMP_AT_AN_END = "jump_at_an_end"
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
    BETTER_CONTROLS = "better_controls"
    STARTS_DISAGREE = "starts_disagree"
    CONTROLS_IMPROVED = "controls_improved"
    FALLS_WITHOUT_BOUND = "falls_without_bound"
    NO_ITERATE = "no_iterate"
    NO_ERROR_BOUND = "no_error_bound"
    WIDE_ERROR_BOUND = "wide_error_bound"
    REFINED_FURTHER = "refined_further"

    # nonlinear programs and their solvers
    SCALED = "scaled"
    UNSCALED_VIOLATION = "unscaled_violation"
    ROUNDING_REACHED = "rounding_reached"
    CYCLED = "cycled"
    OVERDETERMINED = "overdetermined"
    REDUNDANT_EQUATION = "redundant_equation"
    TANGENT_UNKNOWNS_CENTRED = "tangent_unknowns_centred"
    RESUMED = "resumed"
    PARAMETER_CHOSEN = "parameter_chosen"
    DURATION_CHOSEN = "duration_chosen"
    # how a solve ended: the return status of a solver that is not ours, or what our own ran into
    SOLVER_STATUS = "solver_status"
    LARGEST_VIOLATION = "largest_violation"
    TOO_FEW_UNKNOWNS = "too_few_unknowns"
    NO_STEP = "no_step"
    ITERATION_LIMIT = "iteration_limit"
    SINGULAR_SYSTEM = "singular_system"
    NO_DESCENT_DIRECTION = "no_descent_direction"
    OUT_OF_MEMORY = "out_of_memory"
    ITERATES_DIVERGED = "iterates_diverged"
    SUCCESS_REFUTED = "success_refuted"
    OBJECTIVE_UNBOUNDED = "objective_unbounded"
    CERTIFICATE_INCOMPLETE = "certificate_incomplete"
    CERTIFICATE_MISSING = "certificate_missing"
    # what is not finite: functions of the user, else rows and columns of the program
    NOT_FINITE = "not_finite"
    FUNCTION_NOT_FINITE = "function_not_finite"
    CONSTRAINT_NOT_FINITE = "constraint_not_finite"
    OBJECTIVE_NOT_FINITE = "objective_not_finite"
    GRADIENT_NOT_FINITE = "gradient_not_finite"
    JACOBIAN_NOT_FINITE = "jacobian_not_finite"

    # shooting
    GUESS_FROM_INVERSE_DYNAMICS = "guess_from_inverse_dynamics"
    GUESS_MOVED_INTO_BOUNDS = "guess_moved_into_bounds"
    GUESS_STATIONARY = "guess_stationary"
    # how a search ended
    GRADIENT_CONVERGED = "gradient_converged"
    POLISHED = "polished"
    COST_AT_ROUNDING = "cost_at_rounding"
    NOTHING_FREE = "nothing_free"
    ITERATIONS_USED_UP = "iterations_used_up"
    SEARCH_INTERRUPTED = "search_interrupted"
    GRADIENT_ABOVE_ROUNDING = "gradient_above_rounding"
    NO_DECREASE = "no_decrease"
    HESSIAN_INDEFINITE = "hessian_indefinite"
    VIOLATION_NOT_HALVED = "violation_not_halved"
    VIOLATION_STAYS = "violation_stays"
    MULTIPLIER_UPDATES_USED_UP = "multiplier_updates_used_up"
    LINE_SEARCH_STOPPED = "line_search_stopped"
    # rollouts and derivatives that are not finite
    STATE_NOT_FINITE = "state_not_finite"
    STATE_TOO_LARGE = "state_too_large"
    RUNNING_COST_NOT_FINITE = "running_cost_not_finite"
    FINAL_COST_NOT_FINITE = "final_cost_not_finite"
    PATH_CONSTRAINT_NOT_FINITE = "path_constraint_not_finite"
    STEP_FAILED = "step_failed"
    DYNAMICS_DERIVATIVE_NOT_FINITE = "dynamics_derivative_not_finite"
    CONSTRAINT_DERIVATIVE_NOT_FINITE = "constraint_derivative_not_finite"
    COST_DERIVATIVE_NOT_FINITE = "cost_derivative_not_finite"
    COST_HESSIAN_NOT_FINITE = "cost_hessian_not_finite"
    COSTATES_OVERFLOW = "costates_overflow"

    # kernels and derivatives
    DERIVATIVES_CHOSEN = "derivatives_chosen"
    CODE_GENERATED = "code_generated"
    NOT_FORWARD_DYNAMICS = "not_forward_dynamics"
    TIMED_CONSTRAINTS = "timed_constraints"
    KERNELS_COMPILED = "kernels_compiled"
    KERNELS_INTERPRETED = "kernels_interpreted"
    KERNELS_WORTH_COMPILING = "kernels_worth_compiling"
    KERNEL_MODES = "kernel_modes"
    KERNEL_REMARK = "kernel_remark"

    # reductions: how a problem was formulated for a method
    ABSOLUTE_VALUE_AS_SUM = "absolute_value_as_sum"
    NORM_AS_SLACK = "norm_as_slack"


#: kinds of findings about one program, its solver and how it is evaluated: they say nothing of other programs
OF_ONE_PROGRAM = frozenset({
    Kind.SCALED, Kind.UNSCALED_VIOLATION, Kind.ROUNDING_REACHED, Kind.CYCLED, Kind.OVERDETERMINED, Kind.REDUNDANT_EQUATION,
    Kind.TANGENT_UNKNOWNS_CENTRED, Kind.RESUMED, Kind.PARAMETER_CHOSEN, Kind.DURATION_CHOSEN,
    Kind.GUESS_FROM_INVERSE_DYNAMICS, Kind.GUESS_MOVED_INTO_BOUNDS, Kind.GUESS_STATIONARY, Kind.DERIVATIVES_CHOSEN,
    Kind.CODE_GENERATED, Kind.KERNELS_COMPILED, Kind.KERNELS_INTERPRETED, Kind.KERNELS_WORTH_COMPILING, Kind.KERNEL_MODES,
    Kind.KERNEL_REMARK})


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

    def __str__(self) -> str:
        """The kind, and what it is about: for messages of errors; sentences are made at the face."""
        about = " ".join(part for part in (self.name, self.component) if part)
        when = "" if self.time is None else f" at t = {self.time:.6g} s"
        return str(self.kind).replace("_", " ") + (f" ({about})" if about else "") + when

    def record(self) -> dict[str, Any]:
        """For JSON: the kind by its name, and what is given of the rest."""
        given = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        return {"kind": str(self.kind), **{name: _plain(value) for name, value in given.items() if value not in ("", None, {})}}


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Every finding once, in order of appearance."""
    found: list[Finding] = []
    for one in findings:
        found += [] if one in found else [one]
    return tuple(found)


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
