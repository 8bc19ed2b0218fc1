"""The robot form of the problem file: a model file, states by joint name, rotations in named forms only."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, Tag, model_validator

from ocp.app.files.schema_forces import Design, MechanismConstraint, RobotForce
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
    Sampled,
    Text,
    Vector3,
    by_form,
    key,
    refuse,
)
from ocp.app.files.schema_state import RobotState, Rotation, StartState
from ocp.app.files.schema_tasks import Task
from ocp.app.files.schema_tree import BodyPart, FramePart, JointChange, MassSprings, Shape


class PositionError(Part):
    """``position of frame - target`` [3], world axes."""

    frame: Name = key("frame of the robot")
    position: Vector3 = key("target in the world [m]")


class OrientationError(Rotation):
    """Rotation vector [3] from the target to the frame, target axes."""

    frame: Name = key("frame of the robot")


class PoseError(Rotation):
    """``log(target^-1 pose)`` [6]: [linear; angular]."""

    frame: Name = key("frame of the robot")
    position: Vector3 = key("target position in the world [m]")


class RobotConstraint(Constraint):
    """A constraint on expressions, or on the pose of a frame."""

    forms = ("expression", "position_error", "orientation_error", "pose_error")

    position_error: PositionError | None = key("3 components [m]", None)
    orientation_error: OrientationError | None = key("3 components [rad]", None)
    pose_error: PoseError | None = key("6 components [linear (m); angular (rad)]", None)


class RobotCost(Cost):
    """A term of the objective; errors are residuals of states, controls and poses of frames."""

    forms = (*Cost.forms, "state_error", "position_error", "orientation_error", "pose_error")

    state_error: RobotState | None = key("tangent difference from a state, written as 'start' is; what is not named does not count",
                                         None)
    position_error: PositionError | None = key("3 residuals [m]", None)
    orientation_error: OrientationError | None = key("3 residuals [rad]", None)
    pose_error: PoseError | None = key("6 residuals [linear (m); angular (rad)]", None)


class UseLimits(Part):
    """Which limits of the robot file become bounds."""

    position: StrictBool = key("joint positions", True)
    velocity: StrictBool = key("joint velocities", True)
    effort: StrictBool = key("joint efforts", True)


class Thruster(Part):
    """A control that pushes along an axis of a frame, or twists it, from outside or against another body."""

    name: Name = key("name of the control [N]")
    frame: Name = key("frame that is pushed")
    position: Vector3 = key("point of the frame where the force acts [m]", (0.0, 0.0, 0.0))
    axis: Vector3 = key("direction of the force in frame axes, any length; zero: a moment alone", (0.0, 0.0, 1.0))
    moment_ratio: Number = key("moment about the axis per force [m]", 0.0)
    moment: Vector3 = key("further moment per unit of the control, in frame axes [m]", (0.0, 0.0, 0.0))
    against: Name | None = key("frame of the body that bears the opposite; null: none, as with a propeller", None)


class Drive(Part):
    """A motor behind gears: ``ratio u`` at each velocity that it is geared to."""

    name: Name = key("name of the control [N m or N], before the gears")
    gears: dict[str, Number] = key("velocities by name, and the ratio to each; several are a transmission")
    lower: Number | None = key("least control; null: none but what efforts of joints allow", None)
    upper: Number | None = key("largest control; null: none but what efforts of joints allow", None)
    rotor: Number = key("inertia of the rotor [kg m^2 or kg], before a single gear", 0.0)


class RobotModel(Part):
    """A robot from a URDF or MJCF file, with joints changed and bodies added; or of such bodies alone."""

    robot: Name | None = key("path of a .urdf or .xml file relative to this file, or robots:NAME from the robots extra; null: the "
                             "robot is what 'bodies' say", None)
    joints: dict[str, JointChange] = key("joints of the robot file in another form, by name", dict)
    bodies: dict[str, BodyPart] = key("further bodies by name, each with its joint", dict)
    frames: dict[str, FramePart] = key("further frames by name", dict)
    mass_springs: MassSprings | None = key("a deformable body that hangs on the robot, or moves beside it", None)
    root: Literal["fixed", "free_flyer", "planar"] = key("how the root link is attached (URDF)", "fixed")
    mimic: Literal["couple", "independent"] = key("mimic joints follow their leader exactly, or are joints of their own (URDF)",
                                                  "couple")
    lock: dict[str, NumberOrList] = key("joints that are held: name and value [rad or m], or a list of coordinates", dict)
    gravity: Vector3 | None = key("gravity in the world [m/s^2]; null: that of the robot file, else [0, 0, -9.81]", None)
    packages: dict[str, str] = key("folders of ROS packages, relative to this file", dict)
    srdf: str = key("SRDF file with named configurations, relative to this file; auto: the one beside the URDF", "auto")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.robot is None and not self.bodies:
            raise refuse("needs a robot: the path of its file under 'robot', or 'bodies'")
        return self


class RobotFile(Part):
    """The head of a file that asks something of one robot: words, constants and the robot."""

    name: Name = key("name, a few words")
    description: str = key("what is asked for, in prose", "")
    source: str = key("where robot and tasks are from", "")
    constants: dict[str, Number] = key("named numbers; each may use earlier ones and pi", dict)
    robot: Annotated[
        Text | Annotated[RobotModel, Tag("<RobotModel>")],
        by_form("the path of a robot file, robots:NAME, or a mapping with the key 'robot'", "<RobotModel>", degrees=False)
        ] = key("the robot: path of its file, or a mapping as under 'system' of a problem file")


class RobotSystem(RobotModel):
    """The robot as a controlled system: x = (q, v), controls are joint efforts and thrusts, or accelerations and thrusts."""

    formulation: Literal["forward_dynamics", "inverse_dynamics", "residual"] = key(
        "forward_dynamics: efforts are the controls; inverse_dynamics: accelerations are, and limits of efforts and joints without "
        "a motor become constraints; residual: efforts are, and accelerations and multipliers of constraints are unknowns of the "
        "equations of motion", "forward_dynamics")
    actuated: Annotated[Annotated[Literal["all", "joints"], Tag("<text>")] | Annotated[tuple[str, ...], Tag("<list>")],
                        by_form("'all', 'joints' or a list of names")] = key(
        "what drives the robot: all, the actuators of its file (URDF: every joint); joints, a motor at every joint; or a list of "
        "names of actuators and joints", "all")
    limits: UseLimits = key("limits of the robot file that become bounds", UseLimits)
    motors: tuple[Drive, ...] = key("motors behind gears; joints that these drive get none from 'actuated: all' or 'joints'", ())
    thrusters: tuple[Thruster, ...] = key("controls that push along an axis of a frame", ())
    forces: tuple[RobotForce, ...] = key("springs, dampers, drag and other forces that act by themselves", ())
    constraints: tuple[MechanismConstraint, ...] = key("loop closures, contacts, prescribed motions and other constraints", ())
    design: tuple[Design, ...] = key("numbers of the robot that are parameters of the problem, for the solver to choose", ())
    define: dict[str, Number] = key("named expressions, usable in all later ones", dict)
    sampled: Sampled | None = key("discrete time: steps of an integrator with held controls; formulation: forward_dynamics. null: "
                                  "continuous time", None)
    scenery: tuple[Shape, ...] = key("what stands in the world and is drawn: tables, walls, obstacles; dynamics and constraints "
                                     "know nothing of it", ())


class RobotBounds(Part):
    """Bounds by name; they replace those of the robot file."""

    joints: dict[str, Bound] = key("joint values [rad or m]", dict)
    velocities: dict[str, Bound] = key("joint velocities [rad/s or m/s]", dict)
    controls: dict[str, Bound] = key("efforts and thrusts [N m or N], in both formulations", dict)
    accelerations: dict[str, Bound] = key("accelerations [rad/s^2 or m/s^2]; formulation: inverse_dynamics or residual", dict)


class GuessState(RobotState):
    """A state of the initial guess, or the configuration that inverse kinematics finds."""

    ik: tuple[Task, ...] = key("tasks in order of priority: the configuration is the one that meets them, searched from what else "
                               "is named here, otherwise from the state at the start", ())


class RobotGuess(Part):
    """Initial guess: values at equally spaced times."""

    states: Annotated[
        Annotated[GuessState, Tag("<GuessState>")] | Annotated[tuple[GuessState, ...], Tag("<list>"), Field(min_length=1)],
        by_form("a mapping such as {joints: {..}}, or a list of these", "<GuessState>", degrees=False)
        ] | None = key("one state or a list of states at equally spaced times; null: from start to final", None)
    controls: dict[str, NumberOrList] = key("efforts and thrusts, in both formulations: a value or a list of values", dict)
    accelerations: dict[str, NumberOrList] = key("accelerations: a value or a list of values; formulation: inverse_dynamics or "
                                                 "residual", dict)


class RobotPhase(Part):
    """One stretch of time."""

    duration: Duration
    start: StartState | None = key("state at the start: everything by name, or 'others' for the rest", None)
    final: RobotState | None = key("state at the end; what is not named is free", None)
    bounds: RobotBounds = key("bounds along the path", RobotBounds)
    costs: tuple[RobotCost, ...] = key("terms of the objective; [] asks for any feasible motion")
    constraints: tuple[RobotConstraint, ...] = key("constraints beyond bounds", ())
    contacts: tuple[Name, ...] | None = key("contacts of system.constraints that are active in this phase; null: all", None)
    guess: RobotGuess = key("initial guess", RobotGuess)


class RobotProblem(Common):
    """A problem file about a robot."""

    system: RobotSystem = key("the robot")
    phase: RobotPhase = key("duration, boundary states, bounds, costs and constraints")
    mpc: MPC | None = key("receding horizon in closed loop, for ocp mpc", None)


class RobotReset(Part):
    """What jumps between two phases; everything else goes on, component by component of the same name."""

    joints: dict[str, Number] = key("joint values after: expressions of the state before", dict)
    velocities: dict[str, Number] = key("joint velocities after: expressions of the state before", dict)
    impact: StrictBool = key("all velocities jump as the constraints of this phase strike: the momentum that they take is theirs",
                             False)
    restitution: Number = key("of contacts that were not active before: speed after per speed before", 0.0)


class RobotPhaseInOrder(RobotPhase):
    """One of several phases."""

    name: PhaseName = key("name of the phase")
    system: RobotSystem | None = key("the robot in this phase; null: that of the file", None)
    reset: RobotReset | None = key("what jumps at the start of this phase; null: nothing", None)


class RobotPhases(Common):
    """A problem file about a robot in several phases."""

    system: RobotSystem | None = key("the robot, in every phase that does not say otherwise", None)
    phases: tuple[RobotPhaseInOrder, ...] = key("phases in order of time", min_length=1)
