"""Thresholds of the minimum principle: where controls are sampled, and how the best are polished."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_TESTS = "tests/ocp/certify/test_minimum_principle.py::"


@dataclass(frozen=True)
class MinimumPrinciple:
    """Of the global search for controls with a smaller Hamiltonian."""

    times: int = threshold(
        64, why="times at which controls are compared: what is better for less than 1/64 of a phase may be missed",
        test=_TESTS + "test_a_better_valley_is_found_where_the_point_is_stationary")
    points_of_axis: int = threshold(
        129, why="points along the axis of each control through the motion's own",
        test=_TESTS + "test_a_better_valley_is_found_where_the_point_is_stationary")
    most_with_corners: int = threshold(
        7, why="controls up to which all corners of their box are tried: 128 of them",
        test=_TESTS + "test_corners_are_tried")
    sobol_exponent: int = threshold(
        7, why="2 to this power points fill the box of two and more controls",
        test=_TESTS + "test_points_inside_the_box_are_tried")
    max_tried: float = threshold(
        10.0, why="how far controls without bounds are tried, over their scale",
        test=_TESTS + "test_controls_without_bounds_are_tried_far_away")
    newton_steps: int = threshold(
        8, why="Gauss-Newton steps onto path equations", test=_TESTS + "test_other_branches_of_path_equations_are_found")
    violation: float = threshold(
        1e-7, why="violation of path constraints by other controls, over their values, that counts as rounding",
        test=_TESTS + "test_other_branches_of_path_equations_are_found")
    sweeps: int = threshold(
        4, why="times that every control is moved in a smaller window", test=_TESTS + "test_the_best_control_is_polished")
    points_of_window: int = threshold(
        9, why="points of such a window", test=_TESTS + "test_the_best_control_is_polished")
    shrink: float = threshold(
        6.0, why="from window to window: two neighbours of a point stay inside", test=_TESTS + "test_the_best_control_is_polished")
    window: float = threshold(
        0.1, why="first window around the best point, over the box", test=_TESTS + "test_the_best_control_is_polished")
    neighbourhood: float = threshold(
        0.05, why="window around the motion's own control, over the box, that discretisation explains",
        test=_TESTS + "test_discretised_controls_are_no_gap")


MINIMUM_PRINCIPLE = MinimumPrinciple()
