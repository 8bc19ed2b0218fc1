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
    with_parameters,
)
from ocp.problem.solution import Certificate, Residual, Solution, Status, Trajectory, Violation, join

__all__ = [
    "INF", "At", "Boundary", "Certificate", "Constraint", "Cost", "Duration", "Guess", "Phase", "Problem", "Reference",
    "Residual", "Sense", "Solution", "Status", "System", "Trajectory", "Violation", "join", "with_parameters",
]
