"""Rotation about a point by Euler angles: three turns about moving axes, in any of the twelve sequences (``Joint.chart``).

Coordinates are the angles, velocities their rates. The sequences are those of ``dynamics.lie.euler``, each singular at its own
middle angle; a ``spherical`` joint has no singularity.
"""

from __future__ import annotations

from typing import Any

from dynamics.joints.chain import chained
from dynamics.joints.kind import Family, JointKind, Pose
from dynamics.joints.one_dof import revolute
from dynamics.lie import euler

_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def _make(joint: Any) -> JointKind:
    sequence = euler.sequence(joint.chart)
    return chained("euler", [(revolute(_AXES[letter]), Pose()) for letter in sequence.name],
                   sequence.components, [f"d{name}" for name in sequence.components])


EULER = Family("euler", 0, _make, takes=("chart",))
