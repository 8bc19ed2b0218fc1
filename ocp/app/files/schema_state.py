"""Rotations, configurations and states of robots by name: the parts of problem files that say where a robot is."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, Tag
from typing_extensions import TypeAliasType

from ocp.app.files import schema_parts as parts
from ocp.app.files.schema_parts import Key, Number, NumberOrList, OneOf, Part, Vector3, by_form, refuse

ROTATION_FORMS = ("rpy: [roll, pitch, yaw], quaternion: {w: .., x: .., y: .., z: ..} or "
                  "axis_angle: {axis: [.., .., ..], angle: ..}")


def _named_components(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        raise refuse("a bare list is never a rotation, because the order of its entries is ambiguous; write one of "
                     f"{ROTATION_FORMS}")
    return value


class Quaternion(Part):
    """A unit quaternion by component; scaled to unit length when it is within 1e-3 of it."""

    w: Number = Key("scalar part")
    x: Number = Key("vector part, x")
    y: Number = Key("vector part, y")
    z: Number = Key("vector part, z")


class AxisAngle(Part):
    """A rotation about an axis."""

    axis: Vector3 = Key("direction of the axis, any length but zero")
    angle: Number = Key("angle about the axis [rad]")


class Rotation(OneOf):
    """A rotation in exactly one of three forms."""

    forms = ("rpy", "quaternion", "axis_angle")

    rpy: Vector3 | None = Key("roll, pitch, yaw [rad] about the fixed axes x, y, z in this order", None)
    quaternion: Annotated[Quaternion | None, BeforeValidator(_named_components)] = Key("Hamilton quaternion {w, x, y, z}", None)
    axis_angle: Annotated[AxisAngle | None, BeforeValidator(_named_components)] = Key("rotation by angle about axis", None)


class BasePose(Rotation):
    """Pose of a floating base; what is left out stays free."""

    optional = "rotation"

    position: Vector3 | None = Key("origin in the world [m]", None)


class Base(BasePose):
    """Pose and velocity of a floating base; what is left out stays free."""

    linear_velocity: Vector3 | None = Key("velocity of the origin in base axes [m/s]", None)
    angular_velocity: Vector3 | None = Key("angular velocity in base axes [rad/s]", None)


class JointPose(BasePose):
    """Value of a joint that turns freely: a rotation, and where it also moves freely a position."""

    position: Vector3 | None = Key("free_flyer only: origin in the joint frame [m]", None)


JointValue = TypeAliasType("JointValue", Annotated[
    parts.Float | parts.Text | parts.InDegrees | Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1)]
    | Annotated[JointPose, Tag("<JointPose>")],
    by_form(f"a number [rad or m], a list with one for each coordinate of the joint, or a rotation ({ROTATION_FORMS})",
            "<JointPose>"),
    Field(description="value of a joint: number, list of coordinates, or for one that turns freely a rotation")])


class Configuration(Part):
    """A configuration of a robot by names."""

    configuration: str | None = Key("named configuration (SRDF or MJCF keyframe): fixes every joint that is not named here", None)
    base: BasePose | None = Key("floating base", None)
    joints: dict[str, JointValue] = Key("joint values by joint name [rad or m]", dict)


class RobotState(Configuration):
    """A state of a robot by names. What is not named is free; in a guess it follows the line from start to final."""

    base: Base | None = Key("floating base", None)
    velocities: dict[str, NumberOrList] = Key("joint velocities by joint name [rad/s or m/s]", dict)
    rest: StrictBool = Key("true: every velocity is zero", False)


class StartState(RobotState):
    """The state at the start: in the first phase everything is named, or ``others`` says what holds for the rest."""

    others: Annotated[str, Field(min_length=1)] | None = Key(
        "what is not named here: free (the solver chooses), neutral (zero and at rest), or a named configuration (there and at "
        "rest); null: everything is named", None)
