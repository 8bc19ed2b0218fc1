"""The robot form of the problem file: a model file, states by joint name, rotations in named forms only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StrictBool, Tag, model_validator

from ocp.app.files.schema_design import Design
from ocp.app.files.schema_forces import MechanismConstraint, RobotForce
from ocp.app.files.schema_mpc import MPC
from ocp.app.files.schema_parts import (
    Bound,
    Common,
    Constraint,
    Cost,
    Duration,
    Name,
    Number,
    NumberOrList,
    Part,
    PhaseName,
    Vector3,
    exactly_one,
    expected,
    refuse,
)
from ocp.app.files.schema_state import RobotState, Rotation, StartState
from ocp.app.files.schema_tasks import Task
from ocp.app.files.schema_time import Sampled
from ocp.app.files.schema_tree import BodyPart, FramePart, JointChange, MassSprings, Shape


def _state_list_tag(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return "<list>"
    return "<GuessState>" if isinstance(value, (Mapping, GuessState)) else None


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


class RobotCost(Cost):
    """A term of the objective; errors are residuals of states, controls and poses of frames."""

    state_error: RobotState | None = Field(
        None, description="tangent difference from a state, written as 'start' is; what is not named does not count")
    position_error: PositionError | None = Field(None, description="3 residuals [m]")
    orientation_error: OrientationError | None = Field(None, description="3 residuals [rad]")
    pose_error: PoseError | None = Field(None, description="6 residuals [linear (m); angular (rad)]")

    def forms(self) -> tuple[str, ...]:
        return (*super().forms(), "state_error", "position_error", "orientation_error", "pose_error")


class UseLimits(Part):
    """Which limits of the robot file become bounds."""

    position: StrictBool = Field(True, description="joint positions")
    velocity: StrictBool = Field(True, description="joint velocities")
    effort: StrictBool = Field(True, description="joint efforts")


class Thruster(Part):
    """A control that pushes along an axis of a frame, or twists it, from outside or against another body."""

    name: Name = Field(description="name of the control [N]")
    frame: Name = Field(description="frame that is pushed")
    position: Vector3 = Field((0.0, 0.0, 0.0), description="point of the frame where the force acts [m]")
    axis: Vector3 = Field((0.0, 0.0, 1.0), description="direction of the force in frame axes, any length; zero: a moment alone")
    moment_ratio: Number = Field(0.0, description="moment about the axis per force [m]")
    moment: Vector3 = Field((0.0, 0.0, 0.0), description="further moment per unit of the control, in frame axes [m]")
    against: Name | None = Field(None, description="frame of the body that bears the opposite; null: none, as with a propeller")


class Drive(Part):
    """A motor behind gears: ``ratio u`` at each velocity that it is geared to."""

    name: Name = Field(description="name of the control [N m or N], before the gears")
    gears: dict[str, Number] = Field(description="velocities by name, and the ratio to each; several are a transmission")
    lower: Number | None = Field(None, description="least control; null: none but what efforts of joints allow")
    upper: Number | None = Field(None, description="largest control; null: none but what efforts of joints allow")
    rotor: Number = Field(0.0, description="inertia of the rotor [kg m^2 or kg], before a single gear")


def _actuated_tag(value: Any) -> str | None:
    return "<all>" if isinstance(value, str) else "<list>" if isinstance(value, (list, tuple)) else None


class RobotModel(Part):
    """A robot from a URDF or MJCF file, with joints changed and bodies added; or of such bodies alone."""

    robot: Name | None = Field(
        None, description="path of a .urdf or .xml file relative to this file, or robots:NAME from the robots extra; null: the "
                          "robot is what 'bodies' say")
    joints: dict[str, JointChange] = Field(default_factory=dict, description="joints of the robot file in another form, by name")
    bodies: dict[str, BodyPart] = Field(default_factory=dict, description="further bodies by name, each with its joint")
    frames: dict[str, FramePart] = Field(default_factory=dict, description="further frames by name")
    mass_springs: MassSprings | None = Field(None, description="a deformable body that hangs on the robot, or moves beside it")
    root: Literal["fixed", "free_flyer", "planar"] = Field("fixed", description="how the root link is attached (URDF)")
    mimic: Literal["couple", "independent"] = Field(
        "couple", description="mimic joints follow their leader exactly, or are joints of their own (URDF)")
    lock: dict[str, NumberOrList] = Field(
        default_factory=dict, description="joints that are held: name and value [rad or m], or a list of coordinates")
    gravity: Vector3 | None = Field(
        None, description="gravity in the world [m/s^2]; null: that of the robot file, else [0, 0, -9.81]")
    packages: dict[str, str] = Field(default_factory=dict, description="folders of ROS packages, relative to this file")
    srdf: str = Field(
        "auto", description="SRDF file with named configurations, relative to this file; auto: the one beside the URDF")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.robot is None and not self.bodies:
            raise refuse("needs a robot: the path of its file under 'robot', or 'bodies'")
        return self


def _robot_tag(value: Any) -> str | None:
    return "<path>" if isinstance(value, str) else "<RobotModel>" if isinstance(value, (Mapping, RobotModel)) else None


class RobotFile(Part):
    """The head of a file that asks something of one robot: words, constants and the robot."""

    name: Name = Field(description="name, a few words")
    description: str = Field("", description="what is asked for, in prose")
    source: str = Field("", description="where robot and tasks are from")
    constants: dict[str, Number] = Field(default_factory=dict, description="named numbers; each may use earlier ones and pi")
    robot: Annotated[
        Annotated[str, Tag("<path>"), Field(min_length=1)] | Annotated[RobotModel, Tag("<RobotModel>")],
        Discriminator(_robot_tag, **expected("the path of a robot file, robots:NAME, or a mapping with the key 'robot'"))] = Field(
        description="the robot: path of its file, or a mapping as under 'system' of a problem file")


class RobotSystem(RobotModel):
    """The robot as a controlled system: x = (q, v), controls are joint efforts and thrusts, or accelerations and thrusts."""

    formulation: Literal["forward_dynamics", "inverse_dynamics", "residual"] = Field(
        "forward_dynamics", description="forward_dynamics: efforts are the controls; inverse_dynamics: accelerations are, and "
                                        "limits of efforts and joints without a motor become constraints; residual: efforts are, "
                                        "and accelerations and multipliers of constraints are unknowns of the equations of motion")
    actuated: Annotated[Annotated[Literal["all", "joints"], Tag("<all>")] | Annotated[tuple[str, ...], Tag("<list>")],
                        Discriminator(_actuated_tag, **expected("'all', 'joints' or a list of names"))] = Field(
        "all", description="what drives the robot: all, the actuators of its file (URDF: every joint); joints, a motor at every "
                           "joint; or a list of names of actuators and joints")
    limits: UseLimits = Field(
        default_factory=lambda: UseLimits.model_validate({}), description="limits of the robot file that become bounds")
    motors: tuple[Drive, ...] = Field(
        (), description="motors behind gears; joints that these drive get none from 'actuated: all' or 'joints'")
    thrusters: tuple[Thruster, ...] = Field((), description="controls that push along an axis of a frame")
    forces: tuple[RobotForce, ...] = Field((), description="springs, dampers, drag and other forces that act by themselves")
    constraints: tuple[MechanismConstraint, ...] = Field(
        (), description="loop closures, contacts, prescribed motions and other constraints")
    design: tuple[Design, ...] = Field(
        (), description="numbers of the robot that are parameters of the problem, for the solver to choose")
    define: dict[str, Number] = Field(default_factory=dict, description="named expressions, usable in all later ones")
    sampled: Sampled | None = Field(
        None, description="discrete time: steps of an integrator with held controls; formulation: forward_dynamics. null: "
                          "continuous time")
    scenery: tuple[Shape, ...] = Field((), description="what stands in the world and is drawn: tables, walls, obstacles; dynamics "
                                                       "and constraints know nothing of it")


class RobotBounds(Part):
    """Bounds by name; they replace those of the robot file."""

    joints: dict[str, Bound] = Field(default_factory=dict, description="joint values [rad or m]")
    velocities: dict[str, Bound] = Field(default_factory=dict, description="joint velocities [rad/s or m/s]")
    controls: dict[str, Bound] = Field(default_factory=dict, description="efforts and thrusts [N m or N], in both formulations")
    accelerations: dict[str, Bound] = Field(
        default_factory=dict, description="accelerations [rad/s^2 or m/s^2]; formulation: inverse_dynamics or residual")


class GuessState(RobotState):
    """A state of the initial guess, or the configuration that inverse kinematics finds."""

    ik: tuple[Task, ...] = Field(
        (), description="tasks in order of priority: the configuration is the one that meets them, searched from what else is "
                        "named here, otherwise from the state at the start")


class RobotGuess(Part):
    """Initial guess: values at equally spaced times."""

    states: Annotated[
        Annotated[GuessState, Tag("<GuessState>")]
        | Annotated[tuple[GuessState, ...], Tag("<list>"), Field(min_length=1)],
        Discriminator(_state_list_tag, **expected("a mapping such as {joints: {..}}, or a list of these"))] | None = Field(
        None, description="one state or a list of states at equally spaced times; null: from start to final")
    controls: dict[str, NumberOrList] = Field(
        default_factory=dict, description="efforts and thrusts, in both formulations: a value or a list of values")
    accelerations: dict[str, NumberOrList] = Field(
        default_factory=dict, description="accelerations: a value or a list of values; formulation: inverse_dynamics or residual")


class RobotPhase(Part):
    """One stretch of time."""

    duration: Duration
    start: StartState | None = Field(None, description="state at the start: everything by name, or 'others' for the rest")
    final: RobotState | None = Field(None, description="state at the end; what is not named is free")
    bounds: RobotBounds = Field(default_factory=lambda: RobotBounds.model_validate({}), description="bounds along the path")
    costs: tuple[RobotCost, ...] = Field(description="terms of the objective; [] asks for any feasible motion")
    constraints: tuple[RobotConstraint, ...] = Field((), description="constraints beyond bounds")
    contacts: tuple[Name, ...] | None = Field(
        None, description="contacts of system.constraints that are active in this phase; null: all")
    guess: RobotGuess = Field(default_factory=lambda: RobotGuess.model_validate({}), description="initial guess")


class RobotProblem(Common):
    """A problem file about a robot."""

    system: RobotSystem = Field(description="the robot")
    phase: RobotPhase = Field(description="duration, boundary states, bounds, costs and constraints")
    mpc: MPC | None = Field(None, description="receding horizon in closed loop, for ocp mpc")


class RobotReset(Part):
    """What jumps between two phases; everything else goes on, component by component of the same name."""

    joints: dict[str, Number] = Field(default_factory=dict, description="joint values after: expressions of the state before")
    velocities: dict[str, Number] = Field(
        default_factory=dict, description="joint velocities after: expressions of the state before")
    impact: StrictBool = Field(
        False, description="all velocities jump as the constraints of this phase strike: the momentum that they take is theirs")
    restitution: Number = Field(0.0, description="of contacts that were not active before: speed after per speed before")


class RobotPhaseInOrder(RobotPhase):
    """One of several phases."""

    name: PhaseName = Field(description="name of the phase")
    system: RobotSystem | None = Field(None, description="the robot in this phase; null: that of the file")
    reset: RobotReset | None = Field(None, description="what jumps at the start of this phase; null: nothing")


class RobotPhases(Common):
    """A problem file about a robot in several phases."""

    system: RobotSystem | None = Field(None, description="the robot, in every phase that does not say otherwise")
    phases: tuple[RobotPhaseInOrder, ...] = Field(min_length=1, description="phases in order of time")
