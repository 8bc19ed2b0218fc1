"""Thresholds of what bounds, and the ends by themselves, rule out."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_TESTS = "tests/ocp/explain/test_reach.py::"


@dataclass(frozen=True)
class Reach:
    """Interval enclosures of reachable states, and searches for states that meet an end."""

    slices: int = threshold(
        64, why="slices of a phase, each with a box of states", test=_TESTS + "test_the_tube_of_a_double_integrator_is_its_reach")
    sweeps: int = threshold(
        3, why="times that boxes are narrowed from start to end and back",
        test=_TESTS + "test_forces_too_small_for_the_distance_are_ruled_out")
    unbounded_duration: float = threshold(
        1e30, unit="s", why="stands for a duration without bound",
        test=_TESTS + "test_free_durations_count_with_their_longest")
    max_operations: int = threshold(
        20_000, why="operations of a function up to which it is enclosed",
        test=_TESTS + "test_forces_too_small_for_the_distance_are_ruled_out")
    points: int = threshold(
        3, why="random points at which rates are compared with states, and derivatives with each other: at one alone they may "
        "agree by chance",
        test=_TESTS + "test_what_carries_a_body_along_somewhere_is_no_speed_limit")
    starts: int = threshold(
        12, why="random starts of the search for an end, besides that of the guess",
        test=_TESTS + "test_an_end_out_of_reach_is_named_with_what_is_missed")
    spread: float = threshold(
        3.0, unit="rad, m", why="distance of random starts from the guess where a coordinate has no bounds",
        test=_TESTS + "test_ends_that_can_be_met_are_left_alone")
    missed: float = threshold(
        1e-5, why="violation of an end, relative to 1 + its bound, above which it is missed; a program that ends below it is "
        "feasible",
        test=_TESTS + "test_ends_that_can_be_met_are_left_alone")
    bound_weight: float = threshold(
        1e3, why="weight of bounds and prescribed states beside constraints: constraints shall be missed, not bounds",
        test=_TESTS + "test_an_end_out_of_reach_is_named_with_what_is_missed")
    max_evaluations: int = threshold(
        100, why="evaluations of one search for an end", test=_TESTS + "test_a_hand_out_of_reach_is_told_by_axes")


REACH = Reach()
