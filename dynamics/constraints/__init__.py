"""Constraints of a mechanism as records: value, Jacobian, drift. Adding a constraint is adding a record."""

from dynamics.constraints.constraint import Constraint
from dynamics.constraints.records import CLOSURES, Closure, Coupling, Rod

__all__ = ["CLOSURES", "Closure", "Constraint", "Coupling", "Rod"]
