"""Thresholds of mesh refinement: when it may stop, how bounds are tightened, how meshes change, the next pass; of singular
arcs, where the smoothest controls of all that the program hardly tells apart are chosen; and of jumps of controls."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_CERTIFIED = "tests/ocp/transcription/test_refinement_certified.py::"
_POLICIES = "tests/ocp/transcription/test_refinement.py::"
_CARRY = "tests/ocp/transcription/test_refinement_carry.py::"


@dataclass(frozen=True)
class Criterion:
    """When a refinement may stop, and which errors decide on the next mesh."""

    max_overshoot: float = threshold(
        0.01, why="overshoot between nodes, relative to the range, up to which tightened bounds mend it; beyond, intervals are cut",
        test=_CERTIFIED + "test_bounds_are_tightened_by_what_was_measured")
    screen: float = threshold(
        1.1, why="estimated errors of segments, relative to what is allowed, above which no certificate is needed for another "
        "mesh: both measure the same integral, by other rules",
        test=_CERTIFIED + "test_estimates_that_only_rounding_moves_are_left_to_the_certificate")
    min_progress: float = threshold(
        0.25, why="share of the error before above which a pass, or a row of passes, made no progress",
        test=_CERTIFIED + "test_estimates_that_only_rounding_moves_are_left_to_the_certificate")
    max_demand: float = threshold(
        1e3, why="error that a check of the whole motion may claim of its worst interval at once, relative to what is allowed",
        test=_CERTIFIED + "test_refines_until_it_holds")


@dataclass(frozen=True)
class Tightening:
    """Bounds that are tightened where a motion overshoots them between nodes."""

    safety: float = threshold(
        1.1, why="tightening of a bound over the overshoot that was measured",
        test=_CERTIFIED + "test_margins_spread_to_the_intervals_beside_and_grow_twice_where_they_did_not_suffice")
    beside: float = threshold(
        0.25, why="share of a tightening that applies to the intervals beside it: a step in it would distort the motion",
        test=_CERTIFIED + "test_margins_spread_to_the_intervals_beside_and_grow_twice_where_they_did_not_suffice")
    max_passes: int = threshold(
        3, why="passes that tighten bounds where a motion overshoots them; then intervals are cut, and zero-order hold takes the "
        "place of polynomial controls that overshoot path constraints",
        test=_CERTIFIED + "test_arms_along_limits_of_speed_are_certified")


@dataclass(frozen=True)
class MeshChange:
    """From errors of intervals to the next mesh."""

    aim: float = threshold(
        0.3, why="part of the tolerance at which the next mesh aims", test=_POLICIES + "test_h_cuts_as_the_order_asks")
    smooth: float = threshold(
        0.5, why="digits that one more degree must gain for an interval to count as smooth: at degree 3 a cut in two gains as "
        "much per node",
        test=_POLICIES + "test_hp_cuts_kinks_raises_degrees_elsewhere_and_joins_what_is_too_fine")
    max_pieces: int = threshold(
        6, why="pieces that a smooth interval is cut into at once", test=_POLICIES + "test_h_cuts_as_the_order_asks")
    max_change: int = threshold(
        4, why="pieces of an interval with a kink, whose error falls as the square of its width, and degrees added to a smooth "
        "interval, in one pass; factor by which an arc may grow in one",
        test=_POLICIES + "test_h_cuts_as_the_order_asks")
    many_intervals: int = threshold(
        60, why="intervals of a fine mesh: of more at most the worst half changes in one pass; controls by zero-order hold that "
        "take the place of chattering ones begin with so many",
        test="tests/ocp/strategy/test_zero_order_hold.py::test_controls_that_chatter_and_programs_that_are_hard_become_piecewise_constant")
    beside_jump: float = threshold(
        100.0, why="error of a kink beside a jump of controls, in tolerances, up to which the interval is not cut: the shorter it "
        "is, the less are controls determined there",
        test=_POLICIES + "test_kinks_of_controls_that_the_objective_no_longer_feels_are_reported")
    fine: float = threshold(
        1e-2, why="part of the tolerance below which intervals are made coarser",
        test=_POLICIES + "test_hp_cuts_kinks_raises_degrees_elsewhere_and_joins_what_is_too_fine")


@dataclass(frozen=True)
class WarmStart:
    """How a program begins near an optimum."""

    barrier: float = threshold(
        1e-7, why="barrier parameter of a start next to an optimum, and gradient relative to the scale of the objective that the "
        "last proximal step may add: on twelve runs of the gallery times fell to 0.67 in all",
        test=_CARRY + "test_passes_take_fewer_iterations")


CRITERION, TIGHTENING, MESH_CHANGE, WARM_START = Criterion(), Tightening(), MeshChange(), WarmStart()


_SINGULAR = "tests/ocp/transcription/test_refinement_singular.py::"


@dataclass(frozen=True)
class Smoothing:
    """Where controls are singular, and how they are smoothed."""

    guide_weight: float = threshold(
        1e-3, why="weight of the roughness beside the objective, in scales of the objective, for the guide of the search for "
        "switches",
        test=_SINGULAR + "test_singular_arcs_of_the_gallery")
    proximal_weight: float = threshold(
        1e-4, why="the same of proximal steps", test=_SINGULAR + "test_singular_arcs_of_the_gallery")
    guide_solves: int = threshold(
        3, why="solves for the guide; after each but the last, terms of the roughness that are still large lose their weight: "
        "kinks and jumps",
        test=_SINGULAR + "test_singular_arcs_of_the_gallery")
    max_steps: int = threshold(
        8, why="proximal steps", test=_SINGULAR + "test_singular_arcs_of_the_gallery")
    min_control_change: float = threshold(
        1e-3, why="part of its range by which a control must be off its bounds to be singular, or off its guess to be worth a fit",
        test=_SINGULAR + "test_a_singular_arc_in_closed_form")
    min_arc: int = threshold(
        3, why="intervals in a row off the bounds that make an arc; fewer are a switch",
        test="tests/ocp/transcription/test_refinement_switches.py::test_block_in_the_least_time")


SMOOTHING = Smoothing()


_SWITCHES = "tests/ocp/transcription/test_refinement_switches.py::"


@dataclass(frozen=True)
class Switches:
    """Jumps of controls and edges of a mesh there."""

    min_jump: float = threshold(
        0.3, why="part of the range of a control that makes a jump", test=_SWITCHES + "test_smooth_controls_have_no_switches")
    min_smoothed_jump: float = threshold(
        0.12, why="the same where controls were smoothed over their jumps",
        test="tests/ocp/transcription/test_refinement_singular.py::test_singular_arcs_of_the_gallery")
    small: float = threshold(
        0.1, why="part of a jump, of a range or of an interval that is small: controls at rest beside a jump change by less, a "
        "kink is rougher, and an edge nearer to a switch gives way",
        test=_SWITCHES + "test_edges_within_a_jump_give_way")
    max_width: float = threshold(
        1.6, why="intervals that a jump of a polynomial may be spread over; half of one more where a single value lies in "
        "between, one more where controls were smoothed",
        test=_SWITCHES + "test_held_controls_switch_at_a_knot_that_moves")
    chattering_distance: float = threshold(
        2.5, why="intervals between neighbours of three jumps within which a control chatters",
        test=_SWITCHES + "test_full_push_to_a_free_speed_has_no_switch")
    vanished: float = threshold(
        1e-5, why="length of an arc, relative to its phase, at which it has vanished: no arc becomes shorter",
        test=_SWITCHES + "test_arcs_last_as_long_as_their_phase_may")
    close: float = threshold(
        0.02, why="distance from a bound that counts as active, over the range of the value along the phase",
        test="tests/ocp/transcription/test_refinement_singular.py::test_active_bounds_of_states_are_held_along_arcs")
    active_share: float = threshold(
        0.8, why="share of the points of an arc at a bound from which the bound is active all along it",
        test="tests/ocp/transcription/test_refinement_singular.py::test_active_bounds_of_states_are_held_along_arcs")


SWITCHES = Switches()
