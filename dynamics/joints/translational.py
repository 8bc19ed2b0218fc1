"""Translations without rotation: in the x-y plane of the joint frame, and in space."""

from __future__ import annotations

from dynamics.joints.chain import chained
from dynamics.joints.kind import Family, JointKind, Pose
from dynamics.joints.one_dof import prismatic


def _make(name: str, axes: str) -> JointKind:
    units = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
    return chained(name, [(prismatic(units[axis]), Pose()) for axis in axes], tuple(axes), [f"v{axis}" for axis in axes])


_PLANE, _SPACE = _make("planar_translation", "xy"), _make("translation", "xyz")
PLANAR_TRANSLATION = Family("planar_translation", 0, lambda joint: _PLANE)
TRANSLATION = Family("translation", 0, lambda joint: _SPACE)
