"""Forces of a mechanism as records: value, stiffness K, damping D and energy, each exact. Adding a force is adding a record."""

from dynamics.forces.body import Drag, PointForce
from dynamics.forces.expression import Expression
from dynamics.forces.force import Force, Place
from dynamics.forces.ground import Ground
from dynamics.forces.joint import JointDamper, JointFriction, JointSpring, JointStop
from dynamics.forces.tension import Bushing, Cable, Spring
from dynamics.forces.torsion import Torsion

__all__ = ["Bushing", "Cable", "Drag", "Expression", "Force", "Ground", "JointDamper", "JointFriction", "JointSpring", "JointStop",
           "Place", "PointForce", "Spring", "Torsion"]
