"""Thresholds of mesh refinement: when it may stop, how bounds are tightened, how meshes change, and how the next pass begins."""

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
        1.5, why="estimated errors of segments, relative to what is allowed, above which no certificate is needed for another mesh",
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
        1.1, why="margin of a tightened bound over the overshoot that was measured",
        test=_CERTIFIED + "test_margins_spread_to_the_intervals_beside_and_grow_twice_where_they_did_not_suffice")
    beside: float = threshold(
        0.25, why="share of a margin that holds in the intervals beside: a step in the margin would bend the motion there",
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
        test="tests/ocp/strategy/test_zero_order_hold.py::test_controls_that_chatter_become_piecewise_constant")
    beside_jump: float = threshold(
        100.0, why="error of a kink beside a jump of controls, in tolerances, up to which the interval is not cut: the shorter it "
        "is, the less are controls determined there",
        test=_POLICIES + "test_kinks_of_controls_that_the_objective_no_longer_feels_are_told")
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
