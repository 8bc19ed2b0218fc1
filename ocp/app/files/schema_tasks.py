"""Tasks and clearances of inverse kinematics as a file states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from ocp.app.files.schema_parts import Key, Name, Number, NumberOrList, OneOf, Part, Vector3, refuse
from ocp.app.files.schema_tree import Configuration, JointValue, Rotation
from ocp.control import clearance

KINDS = ("pose", "position", "orientation", "com", "posture", "joint", "alignment", "aim")
AXES = ("x", "y", "z")
POSE_AXES = (*AXES, "rx", "ry", "rz")

Components = Annotated[tuple[Literal["x", "y", "z"], ...], Field(min_length=1)]
PoseComponents = Annotated[tuple[Literal["x", "y", "z", "rx", "ry", "rz"], ...], Field(min_length=1)]


class PositionTask(Part):
    """Origin of a frame at a point."""

    frame: Name = Key("frame of the robot")
    target: Vector3 = Key("where its origin shall be, in the reference [m]")
    reference: Name = Key("frame in whose axes the target is given: world, or one of the robot", "world")
    components: Components | None = Key("which of x, y, z count; null: all", None)


class OrientationTask(Rotation):
    """Axes of a frame along prescribed ones."""

    frame: Name = Key("frame of the robot")
    reference: Name = Key("frame in whose axes the rotation is given: world, or one of the robot", "world")
    components: Components | None = Key("rotations about which axes of the target count; null: all", None)


class PoseTask(Rotation):
    """Position and orientation of a frame."""

    frame: Name = Key("frame of the robot")
    position: Vector3 = Key("where its origin shall be, in the reference [m]")
    reference: Name = Key("frame in whose axes the pose is given: world, or one of the robot", "world")
    components: PoseComponents | None = Key("which of x, y, z, rx, ry, rz of the error count, in axes of the target; null: "
                                            "all", None)


class ComTask(Part):
    """Centre of mass at a point."""

    target: Vector3 = Key("where the centre of mass shall be in the world [m]")
    components: Components | None = Key("which of x, y, z count; null: all", None)


class PostureTask(Configuration):
    """Joints at given values; the others are left free."""


class JointTask(Part):
    """One joint at a value."""

    name: Name = Key("name of the joint")
    value: JointValue = Key("its value [rad or m]")


class AlignmentTask(Part):
    """An axis of a frame along a direction."""

    frame: Name = Key("frame of the robot")
    axis: Vector3 = Key("axis in the frame, any length but zero", nonzero=True)
    direction: Vector3 = Key("where it shall point, in the reference, any length but zero", nonzero=True)
    reference: Name = Key("frame in whose axes the direction is given: world, or one of the robot", "world")


class AimTask(Part):
    """An axis of a frame from its origin towards a point."""

    frame: Name = Key("frame of the robot")
    axis: Vector3 = Key("axis in the frame, any length but zero", nonzero=True)
    point: Vector3 = Key("point to aim at, in the reference [m]")
    reference: Name = Key("frame in whose axes the point is given: world, or one of the robot", "world")


class RankedTask(OneOf):
    """A task among others: exactly one of its kinds."""

    name: Name | None = Key("name in tables and in a schedule; default: its kind and frame", None)
    priority: StrictInt | None = Key("1 is the highest; equal numbers are weighed against each other. Given for all tasks or for "
                                     "none: then each task of the list ranks below the one before it", None)
    joint: JointTask | None = Key("value of one joint", None)
    alignment: AlignmentTask | None = Key("axis of a frame along a direction", None)
    aim: AimTask | None = Key("axis of a frame towards a point", None)
    weight: NumberOrList = Key("weight of the squared error against tasks of equal priority, one or one for each component", 1.0)


class Task(RankedTask):
    """One task: exactly one of the eight kinds, and how much it counts."""

    forms = KINDS
    pose: PoseTask | None = Key("position and orientation of a frame", None)
    position: PositionTask | None = Key("origin of a frame", None)
    orientation: OrientationTask | None = Key("axes of a frame", None)
    com: ComTask | None = Key("centre of mass", None)
    posture: PostureTask | None = Key("values of several joints, or of the floating base", None)
    tolerance: Number | None = Key("largest error at which the task is met [m, rad]; null: that of the options", None, above=0)


# ---- clearances ---------------------------------------------------------------------------------------------------------
class Sphere(Part):
    """All points within a radius of a centre."""

    makes = clearance.Ball
    frame: Name = Key("frame that carries it: one of the robot, or world")
    radius: Number = Key("radius [m]", least=0)
    centre: Vector3 = Key("centre in axes of the frame [m]", (0.0, 0.0, 0.0))


class Capsule(Part):
    """All points within a radius of a segment."""

    makes = clearance.Capsule
    frame: Name = Key("frame that carries it: one of the robot, or world")
    radius: Number = Key("radius [m]", least=0)
    start: Vector3 = Key("one end of the segment in axes of the frame [m]")
    end: Vector3 = Key("other end of the segment in axes of the frame [m]")


class HalfSpace(Part):
    """Everything behind a plane."""

    makes = clearance.HalfSpace
    normal: Vector3 = Key("direction that points away from it, any length but zero", nonzero=True)
    point: Vector3 = Key("a point of the plane [m]", (0.0, 0.0, 0.0))
    frame: Name = Key("frame in whose axes point and normal are given", "world")


class Shape(OneOf):
    """Exactly one shape."""

    sphere: Sphere | None = Key("a ball", None)
    capsule: Capsule | None = Key("a segment with a radius", None)
    half_space: HalfSpace | None = Key("everything behind a plane", None)


class Clearance(Part):
    """Two shapes that stay apart."""

    name: Name | None = Key("name in tables; default: the two frames", None)
    first: Shape = Key("a sphere or a capsule")
    second: Shape = Key("a sphere, a capsule or a half-space")
    margin: Number = Key("least distance [m]", 0.0)

    def check(self) -> None:
        if self.first.half_space is not None:
            raise refuse("a half-space goes second")


def is_ik_tree(tree: Any) -> bool:
    """Whether a file's tree is meant to be an inverse-kinematics file."""
    return isinstance(tree, Mapping) and "tasks" in tree and not {"phase", "system", "wbc"} & tree.keys()
