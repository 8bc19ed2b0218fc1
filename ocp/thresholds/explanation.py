"""Thresholds of explanations: conflicts, prices, dependences, and what is worth a line."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

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
        test=_EXPLAIN + "test_explain_infeasible.py::test_what_is_feasible_is_told_to_be_so")
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
