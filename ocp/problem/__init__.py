"""Problems and solutions as data."""

from ocp.problem.bounds import INF, Bounds
from ocp.problem.finding import OF_ONE_PROGRAM, Finding, Kind, distinct
from ocp.problem.implicit_system import implicit_system
from ocp.problem.problem import (
    Boundary,
    Duration,
    Guess,
    Linkage,
    Phase,
    Problem,
    Reference,
    in_steps,
    relinked,
    replaced_systems,
    whole_steps,
    with_parameters,
)
from ocp.problem.solution import (
    MINIMA,
    SOLVED,
    Certificate,
    Residual,
    Solution,
    Statement,
    Status,
    Trajectory,
    Violation,
    glued,
    join,
)
from ocp.problem.system import Form, Formulation, Sampled, System
from ocp.problem.terms import At, Behind, Constraint, Cost, Sense

__all__ = [
    "INF", "MINIMA", "OF_ONE_PROGRAM", "SOLVED", "At", "Behind", "Boundary", "Bounds", "Certificate", "Constraint", "Cost",
    "Duration", "Finding", "Form", "Formulation", "Guess", "Kind", "Linkage", "Phase", "Problem", "Reference", "Residual",
    "Sampled", "Sense", "Solution", "Statement", "Status", "System", "Trajectory", "Violation", "distinct", "glued",
    "implicit_system", "in_steps", "join", "relinked", "replaced_systems", "whole_steps", "with_parameters",
]
