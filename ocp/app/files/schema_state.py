"""Rotations, configurations and states of robots by name: the parts of problem files that say where a robot is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, StrictFloat, Tag, model_validator
from typing_extensions import TypeAliasType

from ocp.app.files.schema_parts import (
    Degrees,
    Number,
    NumberOrList,
    Part,
    Vector3,
    exactly_one,
    expected,
    number_tag,
    refuse,
)

ROTATION_FORMS = ("rpy: [roll, pitch, yaw], quaternion: {w: .., x: .., y: .., z: ..} or "
                  "axis_angle: {axis: [.., .., ..], angle: ..}")


def _named_components(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        raise refuse("a bare list is never a rotation, because the order of its entries is ambiguous; write one of "
                     f"{ROTATION_FORMS}")
    return value


class Quaternion(Part):
    """A unit quaternion by component; scaled to unit length when it is within 1e-3 of it."""

    w: Number = Field(description="scalar part")
    x: Number = Field(description="vector part, x")
    y: Number = Field(description="vector part, y")
    z: Number = Field(description="vector part, z")


class AxisAngle(Part):
    """A rotation about an axis."""

    axis: Vector3 = Field(description="direction of the axis, any length but zero")
    angle: Number = Field(description="angle about the axis [rad]")


class Rotation(Part):
    """A rotation in exactly one of three forms."""

    rpy: Vector3 | None = Field(None, description="roll, pitch, yaw [rad] about the fixed axes x, y, z in this order")
    quaternion: Annotated[Quaternion | None, BeforeValidator(_named_components)] = Field(
        None, description="Hamilton quaternion {w, x, y, z}")
    axis_angle: Annotated[AxisAngle | None, BeforeValidator(_named_components)] = Field(
        None, description="rotation by angle about axis")

    @model_validator(mode="after")
    def _one_form(self) -> Rotation:
        self.form()
        return self

    def form(self) -> str | None:
        """The form that is given."""
        return exactly_one(self, ("rpy", "quaternion", "axis_angle"))


class BasePose(Rotation):
    """Pose of a floating base; what is left out stays free."""

    position: Vector3 | None = Field(None, description="origin in the world [m]")

    def form(self) -> str | None:
        given = [name for name in ("rpy", "quaternion", "axis_angle") if getattr(self, name) is not None]
        if len(given) > 1:
            raise refuse(f"needs at most one rotation; found {' and '.join(given)}")
        return given[0] if given else None


class Base(BasePose):
    """Pose and velocity of a floating base; what is left out stays free."""

    linear_velocity: Vector3 | None = Field(None, description="velocity of the origin in base axes [m/s]")
    angular_velocity: Vector3 | None = Field(None, description="angular velocity in base axes [rad/s]")


class JointPose(BasePose):
    """Value of a joint that turns freely: a rotation, and where it also moves freely a position."""

    position: Vector3 | None = Field(None, description="free_flyer only: origin in the joint frame [m]")


def _joint_tag(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return "<list>"
    if isinstance(value, Rotation) or (isinstance(value, Mapping) and "deg" not in value):
        return "<JointPose>"
    return number_tag(value)


_Expression = Annotated[str, Tag("<expression>"), Field(min_length=1)]
_Numbers = Annotated[StrictFloat, Tag("<number>")] | _Expression | Annotated[Degrees, Tag("<Degrees>")]

JointValue = TypeAliasType("JointValue", Annotated[
    _Numbers | Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1)] | Annotated[JointPose, Tag("<JointPose>")],
    Discriminator(_joint_tag, **expected("a number [rad or m], a list with one for each coordinate of the joint, or a "
                                         f"rotation ({ROTATION_FORMS})")),
    Field(description="value of a joint: number, list of coordinates, or for one that turns freely a rotation")])


class Configuration(Part):
    """A configuration of a robot by names."""

    configuration: str | None = Field(
        None, description="named configuration (SRDF or MJCF keyframe): fixes every joint that is not named here")
    base: BasePose | None = Field(None, description="floating base")
    joints: dict[str, JointValue] = Field(default_factory=dict, description="joint values by joint name [rad or m]")


class RobotState(Configuration):
    """A state of a robot by names. What is not named is free; in a guess it follows the line from start to final."""

    base: Base | None = Field(None, description="floating base")
    velocities: dict[str, NumberOrList] = Field(
        default_factory=dict, description="joint velocities by joint name [rad/s or m/s]")
    rest: StrictBool = Field(False, description="true: every velocity is zero")


class StartState(RobotState):
    """The state at the start: in the first phase everything is named, or ``others`` says what holds for the rest."""

    others: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="what is not named here: free (the solver chooses), neutral (zero and at rest), or a named configuration "
                          "(there and at rest); null: everything is named")
