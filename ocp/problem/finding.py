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

Kind = enum.StrEnum("Kind", [
    # the certificate: its checks, by the names of their tolerances under ``accept:``
    "STATIONARITY", "COMPLEMENTARITY", "GAP_SEGMENT", "GAP_TOTAL", "ERROR_ESTIMATE", "ENERGY", "OBJECTIVE", "POINT",
    "MINIMUM_PRINCIPLE", "OBJECTIVE_ERROR", "VIOLATION", "VIOLATION_BETWEEN",
    # kinds of points, and why they hold for the discrete problem alone
    "STRICT_MINIMUM", "FLAT_MINIMUM", "SADDLE", "MAXIMUM", "POINT_NOT_EXAMINED", "ACTIVE_CONSTRAINTS",
    "PIECEWISE_CONSTANT_CONTROLS", "FLAT_DIRECTIONS",
    # special causes of the value of a check
    "STATE_DEPENDENT_JUMP", "MOVING_JUMP", "OSCILLATING_COST", "CONVEX_HAMILTONIAN", "WAITING", "BETTER_PARAMETER", "ERROR_GROWTH",
    "NOT_EXAMINED", "RATES_NOT_FINITE", "REINTEGRATION_FAILED", "DISCRETE_TIME", "SIZES_DIFFER", "FINER_SOLVE_FAILED",
    "JUMP_AT_AN_END", "PHASE_VANISHES", "NOT_ATTAINED", "CONTROLS_SWITCH_FAST", "RELAXED_IS_LOWER",
    "STARTS_DISAGREE",
    # why a check fails, as advice tells
    "VIOLATED_BETWEEN_KNOTS", "VIOLATED_AT_KNOTS", "DESCENT_FAILED", "PHASE_MISSING", "POINT_INACCURATE", "MESH_TOO_COARSE",
    "UNSTABLE_MOTION", "INACCURATE_SEGMENTS", "OBJECTIVE_NOT_CONVERGED", "DIFFERENT_POINTS",
    # beside the checks
    "STIFF", "OSCILLATING_CONTROLS", "MOTION_ON_KINKS",
    # the problem by itself: bounds that rule a solution out
    "DISTANCE_TOO_LONG", "STATE_OUT_OF_REACH", "CONSTRAINT_OUT_OF_REACH", "END_OUT_OF_REACH", "CONTACTS_OUT_OF_REACH",
    "CONTACTS_REPEAT", "NOTHING_SOLVED",
    # the strategy: what was tried, why, and what came of it
    "STOPPED_IN", "LEFT_OUT", "PASS", "PASS_NOT_SOLVED", "TOO_COARSE", "CERTIFIED", "NOT_CERTIFIED", "MESH_ERROR",
    "MESH_TOLERANCE_MISSED", "ACCURATE", "INTERRUPTED", "LAST_PASS_RETURNED", "PROGRAM_NOT_SOLVED", "REFINED_MESH_NOT_SOLVED",
    "NO_RULE_LEFT", "PASSES_USED_UP", "REFINEMENT_STALLED", "NO_FINER_MESH", "GUESS_SERVED", "GUESSES_FAILED", "LOCALLY_INFEASIBLE",
    "QUASI_NEWTON_STALLED", "UNBOUNDED_DURATION", "BADLY_SCALED", "BOUNDS_TIGHTENED", "CHATTERING_CONTROLS", "SINGULAR_SMOOTHED",
    "SINGULAR_NEARLY_SMOOTH", "SINGULAR_CHATTERS", "HARD_PROGRAM", "PATH_CONSTRAINTS_OVERSHOT", "ZERO_ORDER_HOLD",
    "JUMP_NOT_ON_MESH", "COSTS_TOO_FAST", "EDGES_AT_JUMPS", "EDGES_MOVED", "EDGES_NOT_MOVED", "EDGES_STAY", "NO_JUMP_AT_EDGES",
    "NO_SWITCH", "LINEAR_CONTROLS_WOULD_JUMP", "LOBATTO_ORDER", "NOT_A_MINIMUM", "ESCAPED", "BETTER_CONTROLS", "CONTROLS_IMPROVED",
    "NONCONVEX_HAMILTONIAN", "LOWER_START", "ERRORS_PAY", "RANDOM_GUESS",
    "FALLS_WITHOUT_BOUND", "NO_ITERATE", "NO_ERROR_BOUND", "WIDE_ERROR_BOUND", "REFINED_FURTHER",
    # nonlinear programs and their solvers
    "SCALED", "UNSCALED_VIOLATION", "ROUNDING_REACHED", "CYCLED", "OVERDETERMINED", "REDUNDANT_EQUATION",
    "TANGENT_UNKNOWNS_CENTRED", "RESUMED", "PARAMETER_CHOSEN", "DURATION_CHOSEN",
    # how a solve ended: the return status of a solver that is not ours, or what our own ran into
    "SOLVER_STATUS", "LARGEST_VIOLATION", "TOO_FEW_UNKNOWNS", "NO_STEP", "ITERATION_LIMIT", "SINGULAR_SYSTEM",
    "NO_DESCENT_DIRECTION", "OUT_OF_MEMORY", "ITERATES_DIVERGED", "SUCCESS_REFUTED", "OBJECTIVE_UNBOUNDED",
    "CERTIFICATE_INCOMPLETE", "CERTIFICATE_MISSING",
    # what is not finite: functions of the user, else rows and columns of the program
    "NOT_FINITE", "FUNCTION_NOT_FINITE", "CONSTRAINT_NOT_FINITE", "OBJECTIVE_NOT_FINITE", "GRADIENT_NOT_FINITE",
    "JACOBIAN_NOT_FINITE",
    # shooting
    "GUESS_FROM_INVERSE_DYNAMICS", "GUESS_MOVED_INTO_BOUNDS", "GUESS_STATIONARY",
    # how a search ended
    "GRADIENT_CONVERGED", "POLISHED", "COST_AT_ROUNDING", "NOTHING_FREE", "ITERATIONS_USED_UP", "SEARCH_INTERRUPTED",
    "GRADIENT_ABOVE_ROUNDING", "NO_DECREASE", "HESSIAN_INDEFINITE", "VIOLATION_NOT_HALVED", "VIOLATION_STAYS",
    "MULTIPLIER_UPDATES_USED_UP", "LINE_SEARCH_STOPPED",
    # rollouts and derivatives that are not finite
    "STATE_NOT_FINITE", "STATE_TOO_LARGE", "RUNNING_COST_NOT_FINITE", "FINAL_COST_NOT_FINITE", "PATH_CONSTRAINT_NOT_FINITE",
    "STEP_FAILED", "DYNAMICS_DERIVATIVE_NOT_FINITE", "CONSTRAINT_DERIVATIVE_NOT_FINITE", "COST_DERIVATIVE_NOT_FINITE",
    "COST_HESSIAN_NOT_FINITE", "COSTATES_OVERFLOW",
    # kernels and derivatives
    "DERIVATIVES_CHOSEN", "CODE_GENERATED", "NOT_FORWARD_DYNAMICS", "TIMED_CONSTRAINTS", "KERNELS_COMPILED", "KERNELS_INTERPRETED",
    "KERNELS_WORTH_COMPILING", "KERNEL_MODES", "KERNEL_REMARK",
    # reductions: how a problem was formulated for a method
    "ABSOLUTE_VALUE_AS_SUM", "NORM_AS_SLACK", "PIECES_AT_JUMPS", "INSTANTS_MEET", "INSTANTS_SWAPPED",
    "PIECES_AT_SURFACES", "SURFACE_MET", "OTHER_MODES",
    # options that are written otherwise by now
    "OPTIONS_IN_SECTION",
    # closed loops: what the plant did, judged by the file
    "CONSTRAINT_BROKEN", "TRACKING_MISSED", "TRACKING_LOST", "BODY_ON_GROUND", "BASE_SANK", "BASE_TILTED", "NOTHING_HOLDS",
    "TIPPING", "LEANING", "CONTACT_SLID", "JOINT_SPEED", "JOINT_RANGE",
])
"""The subject of a finding; values are the names in small letters, and stable: they stand in ``summary.json`` and in Python."""

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

    @property
    def excess(self) -> float:
        """How many times its tolerance the value is; NaN without both."""
        return np.nan if self.value is None or self.tolerance is None else float(self.value / self.tolerance)

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
