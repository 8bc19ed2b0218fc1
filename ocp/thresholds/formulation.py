"""Thresholds of rounding, of reductions (algebraic equations, norms of controls, redundant conditions) and of initial guesses."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold


@dataclass(frozen=True)
class Rounding:
    """Relative to the magnitude of what is compared."""

    rounding: float = threshold(
        1e-13, why="changes by less are rounding errors of a subtraction; steps by less change nothing",
        test="tests/ocp/certify/test_certificate_scale.py::test_rounding_is_no_effect_of_constant_states")
    negligible: float = threshold(
        1e-9, why="a scale below this part of the largest one is noise, a singular value below it is zero",
        test="tests/ocp/explain/test_explain_dependent.py::test_independent_equations_are_left_alone")
    coincident: float = threshold(
        1e-12, why="instants, as parts of a phase, and bounds that are no further apart coincide",
        test="tests/ocp/transcription/test_refinement_switches.py::test_frozen_mesh_with_switches_gives_the_same_answer_in_one_pass")
    regularisation: float = threshold(
        1e-10, why="addend to the diagonal of a scaled matrix that keeps it regular where rows repeat each other",
        test="tests/ocp/certify/test_second_order.py::test_weakly_active_bounds_are_treated_as_theory_says")
    beside: float = threshold(
        1e-9, why="distance from an instant, as part of its segment or phase, at which one side of it is seen: controls and rates "
        "may jump there",
        test="tests/ocp/certify/test_both_sides.py::test_controls_have_kinks_where_their_bounds_cut_them_off")
    resolution: float = threshold(
        1e-6, why="variations by less are not resolved by tolerances of solvers: what varies by less is constant",
        test="tests/ocp/certify/test_jumps.py::test_instants_that_are_given_and_kinks_are_no_matter")


ROUNDING = Rounding()


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


_FITTED = "tests/ocp/problem/test_fitted_guess.py::"
_STARTS = "tests/ocp/strategy/test_shooting_starts.py::"
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
    motion_penalties: float = threshold(
        1e-5, why="factor of the first penalties from a motion of inverse dynamics, which may cost a thousand times the optimum",
        test=_STARTS + "test_where_a_rollout_runs_away_its_motion_is_what_the_search_starts_from")
    motion_iterations: int = threshold(
        4, why="factor of the limit of iterations from there, for under small penalties steps are short",
        test=_STARTS + "test_where_a_rollout_runs_away_its_motion_is_what_the_search_starts_from")
    max_distance: float = threshold(
        1e3, why="distance of a simulated state from its start, in ranges of the states, beyond which the motion runs away",
        test=_FITTED + "test_nothing_is_simulated_where_a_simulation_says_nothing")
    max_evaluations: int = threshold(
        20_000, why="evaluations of the rates by one simulation",
        test=_FITTED + "test_nothing_is_simulated_where_a_simulation_says_nothing")


GUESSES = Guesses()
