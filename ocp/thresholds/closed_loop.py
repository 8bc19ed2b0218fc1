"""Thresholds of closed loops: what the motion of a plant is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold

_WBC = "tests/ocp/wbc/test_verdicts.py::"


@dataclass(frozen=True)
class ClosedLoops:
    """When a loop has lost what it is for."""

    broken: float = threshold(
        1e-4, why="violation of a bound or path constraint, over the range that it moves through: the certificate's between knots; "
        "accept.violation_between overrides it",
        test="tests/ocp/mpc/test_judge.py::test_a_violation_is_measured_by_the_range_of_its_row")
    end: float = threshold(
        0.25, why="part of a horizon, at the end of a run, over which an error that stays is lost",
        test="tests/ocp/mpc/test_judge.py::test_a_pole_that_fell_is_lost_and_one_that_is_caught_is_not")
    growth: float = threshold(
        2.0, why="error at the end of a run, over the largest one before the last horizon, from which it grows without end",
        test="tests/ocp/mpc/test_judge.py::test_a_pole_that_fell_is_lost_and_one_that_is_caught_is_not")
    lost: float = threshold(
        0.5, why="error of what is tracked, over that of the same plant without control, from which the loop achieves nothing",
        test="tests/ocp/mpc/test_judge.py::test_a_pole_that_fell_is_lost_and_one_that_is_caught_is_not")
    level: float = threshold(
        0.5, why="cosine of the slope up to which a plane is ground, and no wall",
        test=_WBC + "test_the_ground_is_the_lowest_plane_that_faces_upwards")
    link: float = threshold(
        0.05, unit="m", why="length of a link from which its end may touch the ground: shorter ones lie within bodies beside them",
        test=_WBC + "test_parts_of_a_robot_are_its_base_and_its_joints")
    clear: float = threshold(
        0.01, unit="m", why="height of a part at the start from which it may fall to the ground: lower, it stands or kneels there",
        test=_WBC + "test_parts_of_a_robot_are_its_base_and_its_joints")
    touching: float = threshold(
        1e-4, unit="m", why="gap of a part that touches: as that at which contacts are taken",
        test=_WBC + "test_a_robot_that_touches_the_ground_with_its_base_has_fallen")
    low: float = threshold(
        0.3, why="height of the base above its ground, over that at the start, below which it no longer stands",
        test=_WBC + "test_the_height_of_the_base_counts_from_its_ground")
    lying: float = threshold(
        1.27, unit="rad", why="tilt of the base from which it lies: its upright axis has lost seven tenths of its height",
        test=_WBC + "test_a_base_that_tips_over_is_seen_at_the_angle_of_the_closed_form")
    leaning: float = threshold(
        0.52, unit="rad", why="tilt of the base at the end, 30 degrees, that no task asks for",
        test=_WBC + "test_leaning_is_no_fault_where_a_task_asks_for_it")
    met: float = threshold(
        0.1, unit="rad", why="error of a task that turns the base, up to which it leans as the task asks",
        test=_WBC + "test_leaning_is_no_fault_where_a_task_asks_for_it")
    support: float = threshold(
        0.01, unit="m", why="distance of the extrapolated mass centre from the points that touch: soles are known so well",
        test=_WBC + "test_an_inverted_pendulum_tips_beyond_its_extrapolated_mass_centre")
    slid: float = threshold(
        0.01, unit="m", why="motion of a standing contact: soft contacts creep by less",
        test=_WBC + "test_sliding_feet_are_reported_with_their_distance")
    limits: float = threshold(
        1e-3, why="speed beyond a limit of a joint, over the limit; rad or m beyond its range",
        test=_WBC + "test_speeds_beyond_the_limits_of_joints_are_reported")


CLOSED_LOOPS = ClosedLoops()
