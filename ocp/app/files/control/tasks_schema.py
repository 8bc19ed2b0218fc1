"""Tasks and clearances of inverse kinematics as a file states them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from ocp.app.files.robot.tree_schema import AtFrame, Configuration, JointValue, Rotation
from ocp.app.files.syntax.parts import Key, Name, Number, NumberOrList, OneOf, Part, Vector3, refuse
from ocp.control import clearance

KINDS = ("pose", "position", "orientation", "com", "posture", "joint", "alignment", "aim")
AXES = ("x", "y", "z")
POSE_AXES = (*AXES, "rx", "ry", "rz")

Components = Annotated[tuple[Literal["x", "y", "z"], ...], Field(min_length=1)]
PoseComponents = Annotated[tuple[Literal["x", "y", "z", "rx", "ry", "rz"], ...], Field(min_length=1)]


class Referred(AtFrame):
    """What a frame of the robot shall do as seen from another."""

    reference: Name = Key("frame in whose axes the rest is given: world, or one of the robot", "world")


class OfThree(Part):
    """An error of three components."""

    components: Components | None = Key("which of x, y, z count (rotations: about axes of the target); null: all", None)


class OfSix(Part):
    """An error of six components."""

    components: PoseComponents | None = Key("which of x, y, z, rx, ry, rz of the error count, in axes of the target; null: all",
                                            None)


class PositionTask(OfThree, Referred):
    """Origin of a frame at a point."""

    target: Vector3 = Key("where its origin shall be, in the reference [m]")


class OrientationTask(OfThree, Referred, Rotation):
    """Axes of a frame along prescribed ones."""


class PoseTask(OfSix, Referred, Rotation):
    """Position and orientation of a frame."""

    position: Vector3 = Key("where its origin shall be, in the reference [m]")


class ComTask(OfThree):
    """Centre of mass at a point."""

    target: Vector3 = Key("where the centre of mass shall be in the world [m]")


class PostureTask(Configuration):
    """Joints at given values; the others are left free."""


class JointTask(Part):
    """One joint at a value."""

    name: Name = Key("name of the joint")
    value: JointValue = Key("its value [rad or m]")


class AlignmentTask(Referred):
    """An axis of a frame along a direction."""

    axis: Vector3 = Key("axis in the frame, any length but zero", nonzero=True)
    direction: Vector3 = Key("where it shall point, in the reference, any length but zero", nonzero=True)


class AimTask(Referred):
    """An axis of a frame from its origin towards a point."""

    axis: Vector3 = Key("axis in the frame, any length but zero", nonzero=True)
    point: Vector3 = Key("point to aim at, in the reference [m]")


class RankedTask(OneOf):
    """A task among others: exactly one of its kinds."""

    name: Name | None = Key("name in tables and in a schedule; default: its kind and frame", None)
    priority: StrictInt | None = Key("1 is the highest; equal numbers are weighed against each other. Given for all tasks or for "
                                     "none: then each task of the list ranks below the one before it", None, least=1)
    joint: JointTask | None = Key("value of one joint", None)
    alignment: AlignmentTask | None = Key("axis of a frame along a direction", None)
    aim: AimTask | None = Key("axis of a frame towards a point", None)
    weight: NumberOrList = Key("weight of the squared error against tasks of equal priority, one or one for each component", 1.0,
                               above=0, hint="; leave the task or the component out instead")


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
class Round(Part):
    """What a radius goes around."""

    frame: Name = Key("frame that carries it: one of the robot, or world")
    radius: Number = Key("radius [m]", least=0)


class Sphere(Round):
    """All points within a radius of a centre."""

    makes = clearance.Ball
    centre: Vector3 = Key("centre in axes of the frame [m]", (0.0, 0.0, 0.0))


class Capsule(Round):
    """All points within a radius of a segment."""

    makes = clearance.Capsule
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
