"""Constraints of a mechanism as records: value, Jacobian, rate, drift. Adding a constraint is adding a record."""

from dynamics.constraints.constraint import Constraint
from dynamics.constraints.contact import Contact
from dynamics.constraints.contacts import FlatContact, PointContact, RollingContact
from dynamics.constraints.friction_cone import Cone
from dynamics.constraints.motions import FrameMotion, JointMotion, PositionEquation, Skate, VelocityEquation
from dynamics.constraints.records import CLOSURES, Closure, Coupling, Rod

__all__ = ["CLOSURES", "Closure", "Cone", "Constraint", "Contact", "Coupling", "FlatContact", "FrameMotion", "JointMotion",
           "PointContact", "PositionEquation", "Rod", "RollingContact", "Skate", "VelocityEquation"]
