"""Constraints of a mechanism as records: value, Jacobian, rate, drift. Adding a constraint is adding a record."""

from dynamics.constraints.constraint import Constraint
from dynamics.constraints.contacts import Contact, FlatContact, PointContact, RollingContact
from dynamics.constraints.motions import FrameMotion, JointMotion, PositionEquation, Skate, VelocityEquation
from dynamics.constraints.records import CLOSURES, Closure, Coupling, Rod

__all__ = ["CLOSURES", "Closure", "Constraint", "Contact", "Coupling", "FlatContact", "FrameMotion", "JointMotion", "PointContact",
           "PositionEquation", "Rod", "RollingContact", "Skate", "VelocityEquation"]
