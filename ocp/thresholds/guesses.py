"""Thresholds of initial guesses: random perturbations, coarse solves, and guesses that fit the dynamics."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_FITTED = "tests/ocp/problem/test_fitted_guess.py::"
_FREEZE = "tests/ocp/transcription/test_freeze.py::"


@dataclass(frozen=True)
class Guesses:
    """Of the cascade of guesses."""

    seeds: int = threshold(
        5, why="seeds of random perturbations", test=_FREEZE + "test_malformed_choices")
    first_perturbation: float = threshold(
        0.1, why="size of the first random perturbation, and of a slack whose norm is zero in the guess, relative to the range of "
        "what is perturbed",
        test="tests/ocp/reductions/test_control_norms.py::test_least_norm_has_the_optimum_of_the_way_alone")
    perturbation_growth: float = threshold(
        1.6, why="factor from the size of a random perturbation to that of the next one",
        test=_FREEZE + "test_the_guess_that_served_is_the_only_one_tried")
    coarse_share: float = threshold(
        0.2, why="share of the intervals that a coarse solve has",
        test=_FREEZE + "test_the_guess_that_served_is_the_only_one_tried")
    min_coarse_intervals: int = threshold(
        8, why="intervals of a coarse solve, at least", test=_FREEZE + "test_the_guess_that_served_is_the_only_one_tried")
    control_weight: float = threshold(
        1e-3, why="weight of the distance of fitted controls from their guess, in their ranges, beside the rates that they miss",
        test=_FITTED + "test_controls_carry_the_guess_of_the_states")
    refits: int = threshold(
        3, why="times that controls are fitted anew after a free duration was",
        test=_FITTED + "test_a_free_duration_is_fitted_with_them")
    max_distance: float = threshold(
        1e3, why="distance of a simulated state from its start, in ranges of the states, beyond which the motion runs away",
        test=_FITTED + "test_nothing_is_simulated_where_a_simulation_says_nothing")
    max_evaluations: int = threshold(
        20_000, why="evaluations of the rates by one simulation",
        test=_FITTED + "test_nothing_is_simulated_where_a_simulation_says_nothing")


GUESSES = Guesses()
