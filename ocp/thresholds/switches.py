"""Thresholds of switches: where controls jump, and arcs between jumps whose lengths are free."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_TESTS = "tests/ocp/transcription/test_refinement_switches.py::"


@dataclass(frozen=True)
class Switches:
    """Jumps of controls and edges of a mesh there."""

    min_jump: float = threshold(
        0.3, why="part of the range of a control that makes a jump", test=_TESTS + "test_smooth_controls_have_no_switches")
    min_smoothed_jump: float = threshold(
        0.12, why="the same where controls were smoothed over their jumps",
        test="tests/ocp/transcription/test_refinement_singular.py::test_singular_arcs_of_the_gallery")
    small: float = threshold(
        0.1, why="part of a jump, of a range or of an interval that is small: controls at rest beside a jump change by less, a "
        "kink is rougher, and an edge nearer to a switch gives way",
        test=_TESTS + "test_edges_within_a_jump_give_way")
    max_width: float = threshold(
        1.6, why="intervals that a jump of a polynomial may be spread over; half of one more where a single value lies in "
        "between, one more where controls were smoothed",
        test=_TESTS + "test_held_controls_switch_at_a_knot_that_moves")
    chattering_distance: float = threshold(
        2.5, why="intervals between neighbours of three jumps within which a control chatters",
        test=_TESTS + "test_full_push_to_a_free_speed_has_no_switch")
    vanished: float = threshold(
        1e-5, why="length of an arc, relative to its phase, at which it has vanished: no arc becomes shorter",
        test=_TESTS + "test_arcs_last_as_long_as_their_phase_may")
    active_share: float = threshold(
        0.8, why="share of the points of an arc at a bound from which the bound is active all along it",
        test="tests/ocp/transcription/test_refinement_singular.py::test_active_bounds_of_states_are_held_along_arcs")


SWITCHES = Switches()
