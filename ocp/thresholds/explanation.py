"""Thresholds of what bounds, and the ends by themselves, rule out, and of explanations of why a problem was not solved."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_REACH = "tests/ocp/explain/test_reach.py::"


@dataclass(frozen=True)
class Reach:
    """Interval enclosures of reachable states, and searches for states that meet an end."""

    slices: int = threshold(
        64, why="slices of a phase, each with a box of states", test=_REACH + "test_the_tube_of_a_double_integrator_is_its_reach")
    sweeps: int = threshold(
        3, why="times that boxes are narrowed from start to end and back",
        test=_REACH + "test_forces_too_small_for_the_distance_are_ruled_out")
    unbounded_duration: float = threshold(
        1e30, unit="s", why="stands for a duration without bound",
        test=_REACH + "test_free_durations_count_with_their_longest")
    max_operations: int = threshold(
        20_000, why="operations of a function up to which it is enclosed",
        test=_REACH + "test_forces_too_small_for_the_distance_are_ruled_out")
    points: int = threshold(
        3, why="random points at which rates are compared with states, and derivatives with each other: at one alone they may "
        "agree by chance",
        test=_REACH + "test_what_carries_a_body_along_somewhere_is_no_speed_limit")
    starts: int = threshold(
        12, why="random starts of the search for an end, besides that of the guess",
        test=_REACH + "test_an_end_out_of_reach_is_named_with_what_is_missed")
    spread: float = threshold(
        3.0, unit="rad, m", why="distance of random starts from the guess where a coordinate has no bounds",
        test=_REACH + "test_ends_that_can_be_met_are_left_alone")
    missed: float = threshold(
        1e-5, why="violation of an end, relative to 1 + its bound, above which it is missed; a program that ends below it is "
        "feasible",
        test=_REACH + "test_ends_that_can_be_met_are_left_alone")
    bound_weight: float = threshold(
        1e3, why="weight of bounds and prescribed states beside constraints: constraints shall be missed, not bounds",
        test=_REACH + "test_an_end_out_of_reach_is_named_with_what_is_missed")
    max_evaluations: int = threshold(
        100, why="evaluations of one search for an end", test=_REACH + "test_a_hand_out_of_reach_is_reported_by_axes")


REACH = Reach()


_EXPLAIN = "tests/ocp/explain/"


@dataclass(frozen=True)
class Explanation:
    """Why a problem has no solution, or what its constraints cost."""

    min_price: float = threshold(
        1e-7, why="effect of a multiplier over one scale of its bound, relative to the cost, below which it is worth no line",
        test=_EXPLAIN + "test_explain_prices.py::test_what_does_not_press_has_no_price")
    mesh_factor: int = threshold(
        5, why="factor on the intervals of a mesh that was refined and still is too coarse",
        test=_EXPLAIN + "test_advice.py::test_what_makes_a_mesh_finer_is_an_option_that_the_solve_heeds")
    runaway: float = threshold(
        1e6, why="magnitude of a variable without a bound on that side that looks as if it diverged",
        test=_EXPLAIN + "test_explain_dependent.py::test_what_may_run_away_is_named")
    runaway_falling: float = threshold(
        1e3, why="the same where the objective falls without bound",
        test=_EXPLAIN + "test_explain_dependent.py::test_what_may_run_away_is_named")
    max_dense_entries: int = threshold(
        1_500_000, why="entries up to which all singular values are computed; beyond, the smallest by inverse iteration",
        test=_EXPLAIN + "test_explain_dependent.py::test_a_combination_is_named_with_its_weights")
    max_combinations: int = threshold(
        12, why="dependent combinations that are looked for in large programs",
        test=_EXPLAIN + "test_explain_dependent.py::test_two_combinations_are_kept_apart")
    min_share: float = threshold(
        1e-3, why="share of a constraint in a dependent combination below which it does not belong to it",
        test=_EXPLAIN + "test_explain_dependent.py::test_a_combination_is_named_with_its_weights")
    proximal_weight: float = threshold(
        1e-9, why="weight of the distance to the start, which picks one of many feasible motions: small beside any real slack",
        test=_EXPLAIN + "test_explain_infeasible.py::test_feasible_problems_are_reported_as_such")
    elastic_iterations: int = threshold(
        500, why="iterations of an elastic program",
        test=_EXPLAIN + "test_explain_infeasible.py::test_too_short_a_duration_has_six_ways_out")
    elastic_tolerance: float = threshold(
        1e-8, why="tolerance of an elastic program: below every slack that counts",
        test=_EXPLAIN + "test_explain_infeasible.py::test_less_than_the_least_amount_is_not_enough")
    digits: int = threshold(
        3, why="digits to which amounts are rounded up: as a user would write them",
        test=_EXPLAIN + "test_explain_infeasible.py::test_amounts_are_rounded_up")
    max_alternatives: int = threshold(
        12, why="groups of constraints that are relaxed one by one",
        test=_EXPLAIN + "test_explain_infeasible.py::test_too_short_a_duration_has_six_ways_out")
    max_operations: int = threshold(
        20_000, why="operations of second derivatives that are searched: those of a humanoid take minutes",
        test=_EXPLAIN + "test_explain_not_finite.py::test_derivatives_come_after_values")
    max_characters: int = threshold(
        60, why="characters of an operand; longer ones are written (...)",
        test=_EXPLAIN + "test_explain_not_finite.py::test_texts_mean_what_they_say")


EXPLANATION = Explanation()
