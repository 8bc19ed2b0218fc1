"""Thresholds of the strategy: what attempts may cost, when a diagnosis holds, and what is tried beyond an answer."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_TESTS = "tests/ocp/transcription/"
_UNBOUNDED = "tests/ocp/strategy/test_unbounded_durations.py::"


@dataclass(frozen=True)
class Budgets:
    """Limits of programs, passes and time."""

    max_iterations: int = threshold(
        300, why="iterations of a program that yields no answer or has another guess behind it: on a coarse mesh, of a fixed "
        "duration, from another guess, or from the pass before; linear controls chatter where the last takes more than half of "
        "them",
        test="tests/ocp/strategy/test_zero_order_hold.py::"
        "test_controls_that_chatter_and_programs_that_are_hard_become_piecewise_constant")
    max_iterations_from_optimum: int = threshold(
        200, why="iterations on a finer mesh from the multipliers of an optimum; then the program is solved from the motion alone",
        test="tests/ocp/certify/test_objective_bar.py::test_the_error_bound_shrinks_with_the_mesh")
    coarse_tolerance: float = threshold(
        1e-4, why="tolerance of a program on a coarse mesh, whose solution is a guess",
        test=_TESTS + "test_freeze.py::test_the_guess_that_served_is_the_only_one_tried")
    max_switching_controls: int = threshold(
        4, why="linear controls up to which edges move to where they jump, where the certificate decides: more of them jump often "
        "and are singular in turn, and shorter intervals take less time than programs that move all jumps",
        test=_TESTS + "test_refinement_certified.py::test_arms_along_limits_of_speed_are_certified")
    max_early_passes: int = threshold(
        2, why="passes with zero-order hold where other controls are hard to solve for: where it serves, it serves at once",
        test="tests/ocp/strategy/test_zero_order_hold.py::"
        "test_controls_that_chatter_and_programs_that_are_hard_become_piecewise_constant")


@dataclass(frozen=True)
class Diagnoses:
    """When a program is infeasible, unbounded or has controls that chatter."""

    max_rel_difference: float = threshold(
        0.05, why="relative difference up to which two are the same: violations of two programs, a motion on its mesh and one of "
        "the system, a control on both sides of an edge",
        test="tests/ocp/strategy/test_guesses.py::test_what_is_not_possible_ends_after_probes_on_few_intervals")
    grown_error: float = threshold(
        10.0, why="linear controls chatter where the errors of two passes in a row are so many times those of passes before",
        test="tests/ocp/strategy/test_zero_order_hold.py::test_controls_that_chatter_and_programs_that_are_hard_become_piecewise_constant")
    far_duration: float = threshold(
        100.0, why="a duration without upper end is far at so many times its guess, and is compared up to so many times that",
        test=_UNBOUNDED + "test_a_guess_a_thousand_times_too_short_is_no_unbounded_duration")
    min_saving: float = threshold(
        0.1, why="saving by each longer duration, relative to the cost, from which an objective without lower bound is reported",
        test=_UNBOUNDED + "test_an_unbounded_duration_is_named_with_what_longer_motions_cost")
    duration_period: int = threshold(
        10, why="iterations from one look at durations without upper end to the next",
        test=_UNBOUNDED + "test_an_unbounded_duration_is_named_with_what_longer_motions_cost")


@dataclass(frozen=True)
class Answers:
    """What is tried beyond a certified answer."""

    escape_step: float = threshold(
        0.3, why="length of the first steps along a direction of negative curvature, to both sides, relative to the scale of the "
        "unknowns; the last one is the whole scale",
        test="tests/ocp/certify/test_both_sides.py::test_a_saddle_that_nobody_left_is_none_the_less_named")
    unbounded_fall: float = threshold(
        1e4, why="an objective that falls by so many of its scales falls without bound",
        test="tests/ocp/certify/test_second_order.py::test_an_objective_without_a_lower_bound_is_named")
    windows: int = threshold(
        20, why="windows of a phase whose extremes of controls are the two values in a guess of the relaxed problem; it is solved "
        "where controls chatter in more than half of them",
        test="tests/ocp/strategy/test_attained.py::test_what_switches_ever_faster_tends_to_the_relaxed_objective")
    impulse_growth: float = threshold(
        1.75, why="growth of an unbounded control by halved intervals that only an impulse has: 2, and integrable ones less",
        test="tests/ocp/strategy/test_attained.py::test_impulses_are_no_minima")
    error_coverage: float = threshold(
        2.5, why="error bound of the objective over its change by halved intervals: errors fall at least linearly with these",
        test="tests/ocp/certify/test_objective_bar.py::test_the_error_bound_holds_the_true_optimum_on_coarse_meshes")


BUDGETS, DIAGNOSES, ANSWERS = Budgets(), Diagnoses(), Answers()
