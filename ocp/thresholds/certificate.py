"""Thresholds of the certificate: what things are measured by, where it looks, how it integrates, and how it decides."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_CERTIFY = "tests/ocp/certify/"


@dataclass(frozen=True)
class Scales:
    """Of states, controls, costs and constraints along a motion."""

    samples: int = threshold(
        256, why="times at which scales are evaluated, besides the knots",
        test=_CERTIFY + "test_certificate_scale.py::test_states_are_measured_by_their_range")
    trials: int = threshold(
        32, why="times at which finite deviations are evaluated, each once per state and control",
        test=_CERTIFY + "test_certificate_scale.py::test_scales_of_constraints_follow_their_factors")
    constant: float = threshold(
        1e-2, why="a constant state or control counts as this part of its declared scale",
        test=_CERTIFY + "test_certificate_scale.py::test_the_scale_of_a_constant_state_is_its_effect")
    chain: int = threshold(
        3, why="integrations from a constant state to one that varies, as from a jerk to a position",
        test=_CERTIFY + "test_certificate_scale.py::test_the_scale_of_a_constant_state_is_its_effect")
    widest_bounds: float = threshold(
        1e6, why="bounds that are so many times wider than the motion declare no scale",
        test=_CERTIFY + "test_certificate_scale.py::test_the_scale_of_a_constant_state_is_its_effect")
    deviation: float = threshold(
        1e-6, why="deviation of constant states and controls, relative to their magnitude, that shows their effect on rates",
        test=_CERTIFY + "test_certificate_scale.py::test_rounding_is_no_effect_of_constant_states")
    vanishing_cost: float = threshold(
        1e-4, why="scale of a cost that vanishes at its optimum, relative to its variation",
        test=_CERTIFY + "test_certificate_growth.py::test_the_scale_of_the_objective_follows_the_cost")


@dataclass(frozen=True)
class Search:
    """Where a motion is looked at: samples, and extremes and zeros between them."""

    min_samples: int = threshold(
        4_000, why="samples of a motion, however much its functions cost",
        test=_CERTIFY + "test_events.py::test_a_violation_is_measured_at_its_peak_and_not_at_the_next_sample")
    max_samples: int = threshold(
        100_000, why="samples of a motion, however little its functions cost",
        test=_CERTIFY + "test_events.py::test_a_violation_is_measured_at_its_peak_and_not_at_the_next_sample")
    max_operations: float = threshold(
        6e7, why="operations of all functions together that samples may cost",
        test=_CERTIFY + "test_events.py::test_a_switch_of_the_state_is_found_along_the_motion")
    smooth_samples: int = threshold(
        2_000, why="samples at which smooth rates are tested for finite values",
        test=_CERTIFY + "test_certificate_growth.py::test_rates_that_are_not_finite_for_a_moment_are_found")
    zoom_points: int = threshold(
        33, why="points of a search window; the next one lies between the neighbours of the best point",
        test=_CERTIFY + "test_events.py::test_zoom_finds_the_largest_value_of_every_window")
    zoom_rounds: int = threshold(
        9, why="nested windows: 32^-9 of a sample, which is rounding",
        test=_CERTIFY + "test_events.py::test_zoom_finds_the_largest_value_of_every_window")
    max_windows: int = threshold(
        400, why="extremes that are searched for at once, of one function",
        test=_CERTIFY + "test_events.py::test_a_switch_that_turns_back_between_samples_is_found")
    max_breaks: int = threshold(
        600, why="instants of a phase where functions break at which integration and quadrature stop",
        test=_CERTIFY + "test_enclosures.py::test_pulses_of_seeded_places_and_widths_are_found")
    max_kinks: int = threshold(
        40, why="instants at which one control meets its bounds or leaves them; a control with more of them chatters",
        test=_CERTIFY + "test_both_sides.py::test_controls_have_kinks_where_their_bounds_cut_them_off")
    movement: float = threshold(
        0.2, why="part of its range by which an operation may move in an interval of time that is not halved",
        test=_CERTIFY + "test_enclosures.py::test_pulses_are_cornered_whatever_makes_them")
    halvings: int = threshold(
        2, why="halvings of quarters of segments: what these resolve, integrators do, too",
        test=_CERTIFY + "test_enclosures.py::test_what_is_smooth_or_fast_everywhere_has_no_events")
    max_degree: int = threshold(
        16, why="degree up to which samples in an interval stand for a polynomial: they resolve it where they resolve its inputs",
        test=_CERTIFY + "test_enclosures.py::test_powers_are_pulses")
    interval_cost: float = threshold(
        20.0, why="cost of enclosing an operation over an interval of time, over that of evaluating it",
        test=_CERTIFY + "test_enclosures.py::test_a_robot_is_smooth")
    max_peaks: int = threshold(
        24, why="peaks of a constraint between samples that are searched for violations",
        test=_CERTIFY + "test_events.py::test_a_violation_is_measured_at_its_peak_and_not_at_the_next_sample")
    wall_deviation: float = threshold(
        1e-8, why="deviation, relative to scales, that shows the gradient of a violated constraint: far thinner than any wall that "
        "must be seen",
        test=_CERTIFY + "test_certificate_scale.py::test_a_wall_is_refused_by_its_own_row")


@dataclass(frozen=True)
class Quadrature:
    """Evaluation of functions along a motion, and integrals over it."""

    nodes_per_panel: int = threshold(
        4, why="nodes of the method for which a segment has one panel of five Gauss points",
        test=_CERTIFY + "test_certificate_objective.py::test_one_interval_of_high_degree_is_resolved")
    max_batch_operations: float = threshold(
        2e7, why="operations of one call of a function at many times: a call cannot be interrupted",
        test=_CERTIFY + "test_certify.py::test_machine_code_changes_no_number")
    max_batch: int = threshold(
        4096, why="times at which a function is evaluated at once: memory",
        test=_CERTIFY + "test_certify.py::test_machine_code_changes_no_number")
    compiled_from: int = threshold(
        2000, why="evaluations of a function after which machine code of it pays; interpreter and compiler both grow with its size",
        test=_CERTIFY + "test_certify.py::test_machine_code_changes_no_number")
    max_panels: int = threshold(
        32, why="panels of a segment up to which the quadrature of the objective is doubled",
        test=_CERTIFY + "test_certificate_objective.py::test_the_quadrature_agrees_with_closed_forms_and_with_quadpack")
    change: float = threshold(
        1e-10, why="change of the objective by a doubling, relative to its scale, below which the quadrature has converged",
        test=_CERTIFY + "test_certificate_objective.py::test_the_quadrature_agrees_with_closed_forms_and_with_quadpack")
    halvings: int = threshold(
        24, why="halvings of panels towards an instant where a function breaks",
        test=_CERTIFY + "test_events.py::test_integrals_resolve_pulses")
    newton_steps: int = threshold(
        25, why="steps of Newton's method for algebraic unknowns",
        test="tests/ocp/reductions/test_algebraic.py::test_the_certificate_solves_the_equations_by_itself")
    newton_step: float = threshold(
        1e-9, why="relative length of the last step of Newton's method up to which it has converged",
        test="tests/ocp/reductions/test_algebraic.py::test_the_certificate_solves_the_equations_by_itself")


@dataclass(frozen=True)
class Reintegration:
    """Independent integration of segments, of the whole motion and of deviations from it."""

    rtol: float = threshold(
        1e-10, why="relative tolerance: far below every gap that is judged",
        test=_CERTIFY + "test_certificate_stiff.py::test_a_true_motion_has_no_gap")
    atol: float = threshold(
        1e-12, why="absolute tolerance, in scales of the states",
        test=_CERTIFY + "test_certificate_stiff.py::test_a_true_motion_has_no_gap")
    rough_rtol: float = threshold(
        1e-6, why="relative tolerance of deviations, of which only the growth counts",
        test=_CERTIFY + "test_certificate_growth.py::test_growth_is_that_of_the_linear_system")
    rough_atol: float = threshold(
        1e-8, why="absolute tolerance of deviations, in scales of the states",
        test=_CERTIFY + "test_certificate_growth.py::test_growth_is_that_of_the_linear_system")
    deviation: float = threshold(
        1e-3, why="size of deviations, in scales of the states: linear, and far above the rough tolerance",
        test=_CERTIFY + "test_certificate_growth.py::test_growth_is_that_of_the_linear_system")
    deviations: int = threshold(
        3, why="deviations that are followed where states are many",
        test=_CERTIFY + "test_certificate_growth.py::test_growth_is_that_of_the_linear_system")
    reported_growth: float = threshold(
        10.0, why="growth of errors from start to end from which the open-loop gap is reported",
        test=_CERTIFY + "test_both_sides.py::test_open_loop_gaps_are_judged_by_the_mean_growth")
    max_stacked_work: float = threshold(
        2e7, why="segments times deviations times operations of the rates up to which all are integrated side by side",
        test=_CERTIFY + "test_certificate_growth.py::test_gaps_grow_as_the_motion_integrated_from_its_start")
    explicit_calls: int = threshold(
        250, why="calls of the rates by the explicit method after which the implicit one is tried",
        test=_CERTIFY + "test_certificate_stiff.py::test_a_true_motion_has_no_gap")
    max_explicit_calls: int = threshold(
        60_000, why="calls of the rates by the explicit method where the implicit one failed",
        test=_CERTIFY + "test_certificate_growth.py::test_gaps_grow_as_the_motion_integrated_from_its_start")
    step_safety: float = threshold(
        0.9, why="share of the step that the estimated error allows",
        test=_CERTIFY + "test_explicit.py::test_values_and_calls_are_those_of_scipy")
    min_step_factor: float = threshold(
        0.2, why="factor from an explicit step to the next, at least",
        test=_CERTIFY + "test_explicit.py::test_values_and_calls_are_those_of_scipy")
    max_step_factor: float = threshold(
        10.0, why="factor from an explicit step to the next, at most",
        test=_CERTIFY + "test_explicit.py::test_values_and_calls_are_those_of_scipy")
    min_explicit_step: float = threshold(
        1e-15, why="explicit step, relative to the time integrated, below which the value goes to infinity",
        test=_CERTIFY + "test_explicit.py::test_a_value_that_goes_to_infinity_has_no_end")
    implicit_newton_steps: int = threshold(
        12, why="steps of Newton's method for the stages of an implicit step",
        test=_CERTIFY + "test_certificate_stiff.py::test_a_nonlinear_oscillator_agrees_with_another_implicit_method")
    newton_contraction: float = threshold(
        0.2, why="ratio of successive Newton steps above which stages need Jacobians of their own",
        test=_CERTIFY + "test_certificate_stiff.py::test_a_nonlinear_oscillator_agrees_with_another_implicit_method")
    max_implicit_steps: int = threshold(
        4000, why="implicit steps, refused ones included",
        test=_CERTIFY + "test_certificate_stiff.py::test_what_cannot_be_integrated_is_none")
    max_matrix_entries: int = threshold(
        20_000_000, why="entries of the matrices of Newton's method that are factorised at once: memory",
        test=_CERTIFY + "test_certificate_stiff.py::test_rows_with_steps_of_their_own_agree_with_the_matrix_exponential")


@dataclass(frozen=True)
class SecondOrder:
    """Second-order conditions by the inertia of the reduced Hessian; eigenvalues are relative to the scale of the objective."""

    flat: float = threshold(
        1e-4, why="eigenvalues within this are zero",
        test=_CERTIFY + "test_second_order.py::test_flat_directions_are_reported")
    negative: float = threshold(
        5e-3, why="eigenvalues below minus this are negative: those that discretisation gives singular arcs are smaller",
        test=_CERTIFY + "test_second_order.py::test_the_edge_between_minimum_and_saddle_is_where_theory_puts_it")
    min_gain: float = threshold(
        1e-3, why="gain of a move by the whole scale, relative to the objective: oscillations on a singular arc over a few short "
        "intervals gain nothing",
        test=_CERTIFY + "test_second_order.py::test_a_maximum_in_a_corner_is_left")
    doubtful: float = threshold(
        1e-7, why="eigenvalues of flat minima below minus this are tried as directions of descent",
        test=_CERTIFY + "test_second_order.py::test_a_maximum_beside_something_large_is_left")
    doubtful_share: float = threshold(
        0.3, why="share of negative terms in the curvature along such a direction",
        test=_CERTIFY + "test_second_order.py::test_a_maximum_beside_something_large_is_left")
    nearest: float = threshold(
        0.03, why="first distance along flat directions, in scales: its fourth power exceeds rounding errors",
        test=_CERTIFY + "test_flat.py::test_higher_orders_decide_in_discrete_time")
    max_residual: float = threshold(
        1e-5, why="largest change of active constraints along a direction, in their scales",
        test=_CERTIFY + "test_second_order.py::test_a_saddle_whose_descent_direction_lies_in_a_corner")
    shift_factor: float = threshold(
        16.0, why="factor between shifts that bracket the lowest eigenvalue",
        test=_CERTIFY + "test_second_order.py::test_an_objective_without_a_lower_bound_is_named")
    max_shift: float = threshold(
        1e9, why="shift beyond which eigenvalues are rounding errors",
        test=_CERTIFY + "test_second_order.py::test_an_objective_without_a_lower_bound_is_named")
    met: float = threshold(
        1e-4, why="distance from a bound, in scales, within which it is met",
        test=_CERTIFY + "test_both_sides.py::test_a_bound_that_is_met_holds_only_where_it_pushes")
    active_multiplier: float = threshold(
        1e-6, why="density of a multiplier, relative to the objective, above which a constraint that is met is strongly active",
        test=_CERTIFY + "test_both_sides.py::test_a_bound_that_is_met_holds_only_where_it_pushes")
    rounds: int = threshold(
        12, why="times that weakly active constraints are made active because a direction would violate them; then all are",
        test=_CERTIFY + "test_second_order.py::test_a_saddle_whose_descent_direction_lies_in_a_corner")
    dense_share: float = threshold(
        0.15, why="unknowns with more neighbours than this part of all come last in the factorisation",
        test=_CERTIFY + "test_second_order.py::test_inertia_is_that_of_dense_eigenvalues")
    min_block: int = threshold(
        48, why="columns of a block of the factorisation",
        test=_CERTIFY + "test_second_order.py::test_inertia_is_that_of_dense_eigenvalues")
    lapack_block: int = threshold(
        64, why="columns that LAPACK factorises at once",
        test=_CERTIFY + "test_second_order.py::test_inertia_is_that_of_dense_eigenvalues")
    max_unknowns: int = threshold(
        200_000, why="unknowns and constraints from which the matrix is too large for the blocks",
        test=_CERTIFY + "test_second_order.py::test_inertia_is_that_of_dense_eigenvalues")


@dataclass(frozen=True)
class Verdicts:
    """How checks are composed, and what is reported beside them."""

    defect_factor: float = threshold(
        10.0, why="factor from the sum of all defects to the allowed difference of the objective from its quadrature",
        test=_CERTIFY + "test_certificate_objective.py::test_the_tolerance_follows_the_mesh")
    gradient_weight: float = threshold(
        0.3, why="weight of the gradient beside the gain of a Newton step: it costs its square, yet tells whether multipliers are "
        "right",
        test=_CERTIFY + "test_both_sides.py::test_a_point_above_its_optimum_is_seen_where_the_gradient_is_small")
    max_turns: int = threshold(
        1500, why="extrema of running costs beyond the resolution of refined meshes",
        test=_CERTIFY + "test_certificate_objective.py::"
        "test_running_costs_that_turn_beyond_any_mesh_end_at_once_and_are_reported_with_their_turns")
    turn_levels: int = threshold(
        100, why="levels in the range of a running cost: an oscillation crosses at least one of them",
        test=_CERTIFY + "test_certificate_objective.py::test_running_costs_that_a_mesh_can_follow_are_followed")
    jump_distance: float = threshold(
        1e-11, why="distance from a jump of the rates at which both sides of it are evaluated, relative to the duration",
        test=_CERTIFY + "test_jumps.py::test_what_an_instant_would_gain_is_the_gradient_of_the_closed_form")
    ringing_share: float = threshold(
        0.6, why="share of reversals among the steps of a control from which it is reported to oscillate",
        test=_CERTIFY + "test_ringing.py::test_switches_are_no_ringing")
    ringing_amplitude: float = threshold(
        0.01, why="amplitude of these steps, relative to the control's range",
        test=_CERTIFY + "test_ringing.py::test_a_saw_on_a_control_is_named")
    ringing_points: int = threshold(
        20, why="control points below which nothing is reported",
        test=_CERTIFY + "test_ringing.py::test_switches_are_no_ringing")
    kink_distance: float = threshold(
        0.05, why="distance from a kink, as part of the largest one, within which a motion lies on it",
        test=_CERTIFY + "test_kinks.py::test_kinks_that_the_motion_avoids_are_not_reported")
    kink_share: float = threshold(
        0.2, why="share of the time that a motion lies on a kink from which it is reported",
        test=_CERTIFY + "test_kinks.py::test_the_advice_of_the_note_gives_the_closed_form")


SCALES, SEARCH, QUADRATURE = Scales(), Search(), Quadrature()
REINTEGRATION, SECOND_ORDER, VERDICTS = Reintegration(), SecondOrder(), Verdicts()
