"""Problems and solutions as data."""

from ocp.problem.problem import (
    INF,
    At,
    Boundary,
    Constraint,
    Cost,
    Duration,
    Guess,
    Phase,
    Problem,
    Reference,
    Sense,
    System,
)
from ocp.problem.solution import Certificate, Residual, Solution, Status, Trajectory, Violation

__all__ = [
    "INF", "At", "Boundary", "Certificate", "Constraint", "Cost", "Duration", "Guess", "Phase", "Problem", "Reference",
    "Residual", "Sense", "Solution", "Status", "System", "Trajectory", "Violation",
]
