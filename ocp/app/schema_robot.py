"""The robot form of the problem file: a model file, states by joint name, rotations in named forms only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, StrictFloat, Tag, model_validator
from typing_extensions import TypeAliasType

from ocp.app.schema_parts import (
    Bound,
    Common,
    Constraint,
    Cost,
    Degrees,
    Duration,
    Name,
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


class Base(Rotation):
    """Pose and velocity of a floating base; what is left out stays free."""

    position: Vector3 | None = Field(None, description="origin in the world [m]")
    linear_velocity: Vector3 | None = Field(None, description="velocity of the origin in base axes [m/s]")
    angular_velocity: Vector3 | None = Field(None, description="angular velocity in base axes [rad/s]")

    def form(self) -> str | None:
        given = [name for name in ("rpy", "quaternion", "axis_angle") if getattr(self, name) is not None]
        if len(given) > 1:
            raise refuse(f"needs at most one rotation; found {' and '.join(given)}")
        return given[0] if given else None


def _joint_tag(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return "<list>"
    if isinstance(value, Rotation) or (isinstance(value, Mapping) and "deg" not in value):
        return "<Rotation>"
    return number_tag(value)


def _state_list_tag(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return "<list>"
    return "<RobotState>" if isinstance(value, (Mapping, RobotState)) else None


_Expression = Annotated[str, Tag("<expression>"), Field(min_length=1)]
_Numbers = Annotated[StrictFloat, Tag("<number>")] | _Expression | Annotated[Degrees, Tag("<Degrees>")]

JointValue = TypeAliasType("JointValue", Annotated[
    _Numbers | Annotated[tuple[Number, ...], Tag("<list>"), Field(min_length=1)] | Annotated[Rotation, Tag("<Rotation>")],
    Discriminator(_joint_tag, **expected("a number [rad or m], a list with one for each coordinate of the joint, or a "
                                         f"rotation ({ROTATION_FORMS})")),
    Field(description="value of a joint: number, list of coordinates, or for a spherical joint a rotation")])


class RobotState(Part):
    """A state of a robot by names. What is not named is free; in a guess it follows the line from start to final."""

    configuration: str | None = Field(
        None, description="named configuration (SRDF or MJCF keyframe): fixes every joint that is not named here")
    base: Base | None = Field(None, description="floating base")
    joints: dict[str, JointValue] = Field(default_factory=dict, description="joint values by joint name [rad or m]")
    velocities: dict[str, NumberOrList] = Field(
        default_factory=dict, description="joint velocities by joint name [rad/s or m/s]")
    rest: StrictBool = Field(False, description="true: every velocity is zero")


class PositionError(Part):
    """``position of frame - target`` [3], world axes."""

    frame: Name = Field(description="frame of the robot")
    position: Vector3 = Field(description="target in the world [m]")


class OrientationError(Rotation):
    """Rotation vector [3] from the target to the frame, target axes."""

    frame: Name = Field(description="frame of the robot")


class PoseError(Rotation):
    """``log(target^-1 pose)`` [6]: [linear; angular]."""

    frame: Name = Field(description="frame of the robot")
    position: Vector3 = Field(description="target position in the world [m]")


class RobotConstraint(Constraint):
    """A constraint on expressions, or on the pose of a frame."""

    position_error: PositionError | None = Field(None, description="3 components [m]")
    orientation_error: OrientationError | None = Field(None, description="3 components [rad]")
    pose_error: PoseError | None = Field(None, description="6 components [linear (m); angular (rad)]")

    def one_quantity(self) -> str:
        return exactly_one(self, ("expression", "position_error", "orientation_error", "pose_error"))


class UseLimits(Part):
    """Which limits of the robot file become bounds."""

    position: StrictBool = Field(True, description="joint positions")
    velocity: StrictBool = Field(True, description="joint velocities")
    effort: StrictBool = Field(True, description="joint efforts")


class Thruster(Part):
    """A control that pushes along an axis of a frame."""

    name: Name = Field(description="name of the control [N]")
    frame: Name = Field(description="frame at whose origin the force acts")
    axis: Vector3 = Field((0.0, 0.0, 1.0), description="direction of the force in frame axes, any length but zero")
    moment_ratio: Number = Field(0.0, description="moment about the axis per force [m]")


def _actuated_tag(value: Any) -> str | None:
    return "<all>" if isinstance(value, str) else "<list>" if isinstance(value, (list, tuple)) else None


class RobotSystem(Part):
    """A robot from a URDF or MJCF file; x = (q, v), controls are joint efforts and thrusts."""

    robot: Name = Field(
        description="path of a .urdf or .xml file relative to this file, or robots:NAME from the robots extra")
    root: Literal["fixed", "free_flyer"] = Field("fixed", description="how the root link is attached (URDF)")
    mimic: Literal["couple", "independent"] = Field(
        "couple", description="mimic joints follow their leader exactly, or are joints of their own (URDF)")
    actuated: Annotated[Annotated[Literal["all"], Tag("<all>")] | Annotated[tuple[str, ...], Tag("<list>")],
                        Discriminator(_actuated_tag, **expected("'all' or a list of joint names"))] = Field(
        "all", description="joints with a motor: all, or a list of names")
    gravity: Vector3 | None = Field(
        None, description="gravity in the world [m/s^2]; null: that of the robot file, else [0, 0, -9.81]")
    packages: dict[str, str] = Field(default_factory=dict, description="folders of ROS packages, relative to this file")
    srdf: str = Field(
        "auto", description="SRDF file with named configurations, relative to this file; auto: the one beside the URDF")
    limits: UseLimits = Field(
        default_factory=lambda: UseLimits.model_validate({}), description="limits of the robot file that become bounds")
    thrusters: tuple[Thruster, ...] = Field((), description="controls that push along an axis of a frame")
    derivatives: str = Field("ad", description="source of the dynamics derivatives")


class RobotBounds(Part):
    """Bounds by name; they replace those of the robot file."""

    joints: dict[str, Bound] = Field(default_factory=dict, description="joint values [rad or m]")
    velocities: dict[str, Bound] = Field(default_factory=dict, description="joint velocities [rad/s or m/s]")
    controls: dict[str, Bound] = Field(default_factory=dict, description="controls [N m or N]")


class RobotGuess(Part):
    """Initial guess: values at equally spaced times."""

    states: Annotated[
        Annotated[RobotState, Tag("<RobotState>")]
        | Annotated[tuple[RobotState, ...], Tag("<list>"), Field(min_length=1)],
        Discriminator(_state_list_tag, **expected("a mapping such as {joints: {..}}, or a list of these"))] | None = Field(
        None, description="one state or a list of states at equally spaced times; null: from start to final")
    controls: dict[str, NumberOrList] = Field(default_factory=dict, description="controls: a value or a list of values")


class RobotPhase(Part):
    """One stretch of time."""

    duration: Duration
    start: RobotState | None = Field(None, description="state at the start")
    final: RobotState | None = Field(None, description="state at the end")
    bounds: RobotBounds = Field(default_factory=lambda: RobotBounds.model_validate({}), description="bounds along the path")
    costs: tuple[Cost, ...] = Field(description="terms of the objective; [] asks for any feasible motion")
    constraints: tuple[RobotConstraint, ...] = Field((), description="constraints beyond bounds")
    guess: RobotGuess = Field(default_factory=lambda: RobotGuess.model_validate({}), description="initial guess")


class RobotProblem(Common):
    """A problem file about a robot."""

    system: RobotSystem = Field(description="the robot")
    phase: RobotPhase = Field(description="duration, boundary states, bounds, costs and constraints")
