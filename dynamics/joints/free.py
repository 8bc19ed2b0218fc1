"""Free motion in coordinates whose rates are the velocities: in the plane, and in space with translation or rotation first.

``planar`` and ``free_flyer`` have the same motions, but twists of the body as velocities. Three coordinates cannot cover all
rotations: the chart of a free joint (Euler angles, or ``rotation_vector``) has singularities, a free-flyer has none.
"""

from __future__ import annotations

from typing import Any

from dynamics.joints.chain import chained
from dynamics.joints.euler import EULER
from dynamics.joints.exponential import EXPONENTIAL
from dynamics.joints.kind import Family, JointKind, Pose
from dynamics.joints.one_dof import revolute
from dynamics.joints.translational import PLANAR_TRANSLATION, TRANSLATION

_FREE_2D = chained("free_2d", [(PLANAR_TRANSLATION.make(None), Pose()), (revolute((0.0, 0.0, 1.0)), Pose())],
                   ("x", "y", "theta"), ("vx", "vy", "dtheta"))


def _make(joint: Any, rotation_first: bool) -> JointKind:
    turn = EXPONENTIAL.make(joint) if joint.chart == "rotation_vector" else EULER.make(joint)
    move = TRANSLATION.make(joint)
    parts = [("r", turn), ("p", move)] if rotation_first else [("p", move), ("r", turn)]
    return chained("free_3d_reversed" if rotation_first else "free_3d", [(kind, Pose()) for _, kind in parts],
                   [letter + name for letter, kind in parts for name in kind.q_names],
                   [f"d{letter}{name}" for letter, kind in parts for name in kind.q_names])


FREE_2D = Family("free_2d", 0, lambda joint: _FREE_2D)
FREE_3D = Family("free_3d", 0, lambda joint: _make(joint, rotation_first=False), takes=("chart",))
FREE_3D_REVERSED = Family("free_3d_reversed", 0, lambda joint: _make(joint, rotation_first=True), takes=("chart",))
