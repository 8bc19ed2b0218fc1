"""Universal joint: rotation about a first axis, then about a second axis fixed in the intermediate frame."""

from dynamics.joints.chain import chained
from dynamics.joints.kind import Family, Pose
from dynamics.joints.one_dof import revolute

UNIVERSAL = Family("universal", 2, lambda joint: chained(
    "universal", [(revolute(axis), Pose()) for axis in joint.axes], ("q1", "q2"), ("v1", "v2")))
