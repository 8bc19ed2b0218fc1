"""Tasks and clearances of inverse kinematics as a file states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StrictInt, model_validator

from ocp.app.files.schema_parts import Name, Number, NumberOrList, Part, Vector3, exactly_one, refuse
from ocp.app.files.schema_state import Configuration, JointValue, Rotation

KINDS = ("pose", "position", "orientation", "com", "posture", "joint", "alignment", "aim")
AXES = ("x", "y", "z")
POSE_AXES = (*AXES, "rx", "ry", "rz")

Axis = Literal["x", "y", "z"]
PoseAxis = Literal["x", "y", "z", "rx", "ry", "rz"]
Components = Annotated[tuple[Axis, ...], Field(min_length=1)]


class PositionTask(Part):
    """Origin of a frame at a point."""

    frame: Name = Field(description="frame of the robot")
    target: Vector3 = Field(description="where its origin shall be, in the reference [m]")
    reference: Name = Field("world", description="frame in whose axes the target is given: world, or one of the robot")
    components: Components | None = Field(None, description="which of x, y, z count; null: all")


class OrientationTask(Rotation):
    """Axes of a frame along prescribed ones."""

    frame: Name = Field(description="frame of the robot")
    reference: Name = Field("world", description="frame in whose axes the rotation is given: world, or one of the robot")
    components: Components | None = Field(None, description="rotations about which axes of the target count; null: all")


class PoseTask(Rotation):
    """Position and orientation of a frame."""

    frame: Name = Field(description="frame of the robot")
    position: Vector3 = Field(description="where its origin shall be, in the reference [m]")
    reference: Name = Field("world", description="frame in whose axes the pose is given: world, or one of the robot")
    components: Annotated[tuple[PoseAxis, ...], Field(min_length=1)] | None = Field(
        None, description="which of x, y, z, rx, ry, rz of the error count, in axes of the target; null: all")


class ComTask(Part):
    """Centre of mass at a point."""

    target: Vector3 = Field(description="where the centre of mass shall be in the world [m]")
    components: Components | None = Field(None, description="which of x, y, z count; null: all")


class PostureTask(Configuration):
    """Joints at given values; the others are left free."""


class JointTask(Part):
    """One joint at a value."""

    name: Name = Field(description="name of the joint")
    value: JointValue = Field(description="its value [rad or m]")


class AlignmentTask(Part):
    """An axis of a frame along a direction."""

    frame: Name = Field(description="frame of the robot")
    axis: Vector3 = Field(description="axis in the frame, any length but zero")
    direction: Vector3 = Field(description="where it shall point, in the reference, any length but zero")
    reference: Name = Field("world", description="frame in whose axes the direction is given: world, or one of the robot")


class AimTask(Part):
    """An axis of a frame from its origin towards a point."""

    frame: Name = Field(description="frame of the robot")
    axis: Vector3 = Field(description="axis in the frame, any length but zero")
    point: Vector3 = Field(description="point to aim at, in the reference [m]")
    reference: Name = Field("world", description="frame in whose axes the point is given: world, or one of the robot")


class RankedTask(Part):
    """A task among others: exactly one of its kinds."""

    kinds: ClassVar[tuple[str, ...]]

    name: Name | None = Field(None, description="name in tables and in a schedule; default: its kind and frame")
    priority: StrictInt | None = Field(
        None, description="1 is the highest; equal numbers are weighed against each other. Given for all tasks or for none: then "
                          "each task of the list ranks below the one before it")
    joint: JointTask | None = Field(None, description="value of one joint")
    alignment: AlignmentTask | None = Field(None, description="axis of a frame along a direction")
    aim: AimTask | None = Field(None, description="axis of a frame towards a point")
    weight: NumberOrList = Field(
        1.0, description="weight of the squared error against tasks of equal priority, one or one for each component")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        self.kind()
        return self

    def kind(self) -> str:
        """The kind that is given."""
        return exactly_one(self, self.kinds)


class Task(RankedTask):
    """One task: exactly one of the eight kinds, and how much it counts."""

    kinds = KINDS
    pose: PoseTask | None = Field(None, description="position and orientation of a frame")
    position: PositionTask | None = Field(None, description="origin of a frame")
    orientation: OrientationTask | None = Field(None, description="axes of a frame")
    com: ComTask | None = Field(None, description="centre of mass")
    posture: PostureTask | None = Field(None, description="values of several joints, or of the floating base")
    tolerance: Number | None = Field(
        None, description="largest error at which the task is met [m, rad]; null: that of the options")


# ---- clearances ---------------------------------------------------------------------------------------------------------
class Sphere(Part):
    """All points within a radius of a centre."""

    frame: Name = Field(description="frame that carries it: one of the robot, or world")
    radius: Number = Field(description="radius [m]")
    centre: Vector3 = Field((0.0, 0.0, 0.0), description="centre in axes of the frame [m]")


class Capsule(Part):
    """All points within a radius of a segment."""

    frame: Name = Field(description="frame that carries it: one of the robot, or world")
    radius: Number = Field(description="radius [m]")
    start: Vector3 = Field(description="one end of the segment in axes of the frame [m]")
    end: Vector3 = Field(description="other end of the segment in axes of the frame [m]")


class HalfSpace(Part):
    """Everything behind a plane."""

    normal: Vector3 = Field(description="direction that points away from it, any length but zero")
    point: Vector3 = Field((0.0, 0.0, 0.0), description="a point of the plane [m]")
    frame: Name = Field("world", description="frame in whose axes point and normal are given")


class Shape(Part):
    """Exactly one shape."""

    sphere: Sphere | None = Field(None, description="a ball")
    capsule: Capsule | None = Field(None, description="a segment with a radius")
    half_space: HalfSpace | None = Field(None, description="everything behind a plane")

    @model_validator(mode="after")
    def _one_form(self) -> Shape:
        self.form()
        return self

    def form(self) -> str:
        """The shape that is given."""
        return exactly_one(self, ("sphere", "capsule", "half_space"))


class Clearance(Part):
    """Two shapes that stay apart."""

    name: Name | None = Field(None, description="name in tables; default: the two frames")
    first: Shape = Field(description="a sphere or a capsule")
    second: Shape = Field(description="a sphere, a capsule or a half-space")
    margin: Number = Field(0.0, description="least distance [m]")

    @model_validator(mode="after")
    def _order(self) -> Clearance:
        if self.first.half_space is not None:
            raise refuse("a half-space goes second")
        return self


def is_ik_tree(tree: Any) -> bool:
    """Whether a file's tree is meant to be an inverse-kinematics file."""
    return isinstance(tree, Mapping) and "tasks" in tree and not {"phase", "system", "wbc"} & tree.keys()
