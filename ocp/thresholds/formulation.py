"""Thresholds of reductions: algebraic equations, norms of controls, and redundant conditions."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_ALGEBRAIC = "tests/ocp/reductions/test_algebraic.py::"
_NORMS = "tests/ocp/reductions/test_control_norms.py::"
_REDUNDANT = "tests/ocp/reductions/test_redundant_conditions.py::"


@dataclass(frozen=True)
class Formulation:
    """Of equivalent formulations of a problem."""

    max_newton_steps: int = threshold(
        50, why="steps of Newton's method for algebraic unknowns at a point of the guess",
        test=_ALGEBRAIC + "test_the_guess_is_made_consistent")
    max_halvings: int = threshold(
        12, why="halvings of a Newton step that does not reduce the residual",
        test=_ALGEBRAIC + "test_the_guess_is_made_consistent")
    max_residual: float = threshold(
        1e-10, why="residual of algebraic equations, relative to the magnitude of their terms, at which they hold",
        test=_ALGEBRAIC + "test_the_guess_is_made_consistent")
    min_singular_value: float = threshold(
        1e-11, why="singular values of the scaled Jacobian of algebraic equations, relative to the largest, below which they are "
        "zero",
        test=_ALGEBRAIC + "test_what_equations_leave_open_is_named")
    cone_regularisation: float = threshold(
        1e-7, why="addend to the slack of a norm in its cone, relative to the magnitude of the norm: keeps the cone finite at its "
        "apex",
        test=_NORMS + "test_bars_tell_what_sizes_may_fall_short_of_norms")
    max_offset: float = threshold(
        1e-3, why="offset under the root of a norm, relative to the square of its magnitude, up to which it has a kink",
        test=_NORMS + "test_other_roots_stay_as_they_are")
    rank_distance: float = threshold(
        0.05, why="distance from the guess at which ranks are looked at, too: at the guess itself they may be lost by chance",
        test=_REDUNDANT + "test_where_rows_have_no_derivative_at_the_guess_it_is_beside_it_that_counts")
    max_projection_steps: int = threshold(
        30, why="Newton steps to a state that constraints allow",
        test=_REDUNDANT + "test_joints_of_a_loop_at_rest_are_as_many_as_it_has_freedoms")


FORMULATION = Formulation()
