"""What double precision leaves of numbers, relative to their magnitude."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold


@dataclass(frozen=True)
class Rounding:
    """Relative to the magnitude of what is compared."""

    rounding: float = threshold(
        1e-13, why="changes by less are rounding errors of a subtraction; steps by less change nothing",
        test="tests/ocp/certify/test_certificate_scale.py::test_rounding_is_no_effect_of_what_stands_still")
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
