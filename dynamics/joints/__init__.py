"""Joint kinds: one record per kind, one table. Adding a kind is adding a record here."""

from types import MappingProxyType

from dynamics.joints.kind import JointKind
from dynamics.joints.one_dof import CONTINUOUS, FIXED, PRISMATIC, REVOLUTE
from dynamics.joints.planar import PLANAR
from dynamics.joints.rotational import FREE_FLYER, SPHERICAL
from dynamics.joints.universal import UNIVERSAL

KINDS = MappingProxyType({k.name: k for k in (
    FIXED, REVOLUTE, CONTINUOUS, PRISMATIC, UNIVERSAL, PLANAR, SPHERICAL, FREE_FLYER)})

__all__ = ["KINDS", "JointKind"]
