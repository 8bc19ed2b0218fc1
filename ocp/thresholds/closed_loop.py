"""Thresholds of closed loops: what the motion of a plant is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from ocp.thresholds.record import threshold


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


CLOSED_LOOPS = ClosedLoops()
