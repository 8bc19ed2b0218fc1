"""The robot form of the problem file: a model file, states by joint name, rotations in named forms only."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, Tag

from dynamics import mechanism
from ocp.app.files.control.mpc_schema import MPC
from ocp.app.files.control.tasks import Task
from ocp.app.files.problem import sections_schema as sections
from ocp.app.files.robot import tree_schema as tree
from ocp.app.files.robot.forces_schema import Design, MechanismConstraint, RobotForce
from ocp.app.files.robot.tree_schema import AtFrame, RobotState, Rotation, Shape, StartState
from ocp.app.files.syntax import parts
from ocp.app.files.syntax.parts import Key, Name, Number, NumberOrList, Part, Vector3


class PositionError(AtFrame):
    """``position of frame - target`` [3], world axes."""

    position: Vector3 = Key("target in the world [m]")


class OrientationError(Rotation, AtFrame):
    """Rotation vector [3] from the target to the frame, target axes."""


class PoseError(Rotation, PositionError):
    """``log(target^-1 pose)`` [6]: [linear; angular]."""


class RobotConstraint(sections.Constraint):
    """A constraint on expressions, or on the pose of a frame."""

    forms = ("expression", "position_error", "orientation_error", "pose_error")

    position_error: PositionError | None = Key("3 components [m]", None)
    orientation_error: OrientationError | None = Key("3 components [rad]", None)
    pose_error: PoseError | None = Key("6 components [linear (m); angular (rad)]", None)
    impact: tuple[Name, ...] = Key("at the end: contacts that strike there; it holds of the state after them", ())

    def check(self) -> None:
        super().check()
        if self.impact and self.at != "final":
            raise parts.refuse("'impact' belongs to 'at: final'")


class RobotCost(sections.Cost):
    """A term of the objective; errors are residuals of states, controls and poses of frames."""

    forms = (*sections.Cost.forms, "state_error", "position_error", "orientation_error", "pose_error")

    state_error: RobotState | None = Key("tangent difference from a state, written as 'start' is; what is not named does not "
                                         "count", None)
    position_error: PositionError | None = Key("3 residuals [m]", None)
    orientation_error: OrientationError | None = Key("3 residuals [rad]", None)
    pose_error: PoseError | None = Key("6 residuals [linear (m); angular (rad)]", None)
    impact: tuple[Name, ...] = Key("at the end: contacts that strike there; the cost is of the state after them", ())

    def check(self) -> None:
        super().check()
        if self.impact and not self.is_final():
            raise parts.refuse("'impact' belongs to costs at the end")


class UseLimits(Part):
    """Which limits of the robot file become bounds."""

    position: StrictBool = Key("joint positions", True)
    velocity: StrictBool = Key("joint velocities", True)
    effort: StrictBool = Key("joint efforts", True)


class Thruster(Part):
    """A control that pushes along an axis of a frame, or twists it, from outside or against another body."""

    makes = mechanism.Thruster
    name: Name = Key("name of the control [N]", examples=["left_rotor"])
    frame: Name = Key("frame that is pushed")
    position: Vector3 = Key("point of the frame where the force acts [m]", (0.0, 0.0, 0.0))
    axis: Vector3 = Key("direction of the force in frame axes; zero: only a moment", (0.0, 0.0, 1.0))
    moment_ratio: Number = Key("moment about the axis per force [m]", 0.0)
    moment: Vector3 = Key("further moment per unit of the control, in frame axes [m]", (0.0, 0.0, 0.0))
    against: Name | None = Key("frame of the body that bears the reaction; null: none, as of a propeller", None, examples=["trunk"])


class Drive(Part):
    """A motor behind gears: ``ratio u`` at each velocity that it is geared to."""

    makes = mechanism.Motor
    name: Name = Key("name of the control [N m or N], before the gears", examples=["belt"])
    gears: dict[str, Number] = Key("velocities by name, and the ratio to each; several are a transmission",
                                  then=lambda found: tuple(found.items()))
    lower: Number | None = Key("smallest control [N m or N]; null: limited only by efforts of joints", None)
    upper: Number | None = Key("largest control [N m or N]; null: limited only by efforts of joints", None)
    rotor: Number = Key("inertia of the rotor [kg m^2 or kg], before a single gear", 0.0, least=0, name="")


class RobotModel(Part):
    """A robot from a URDF or MJCF file, with joints changed and bodies added; or of such bodies alone."""

    robot: Name | None = Key("path of a .urdf or .xml file relative to this file, or robots:NAME from the robots extra; null: the "
                             "robot is what 'bodies' say", None, path=True)
    joints: dict[str, tree.JointChange] = Key("joints of the robot file in another form, by name", dict)
    bodies: dict[str, tree.BodyPart] = Key("further bodies by name, each with its joint", dict)
    frames: dict[str, tree.FramePart] = Key("further frames by name", dict)
    mass_springs: tree.MassSprings | None = Key("a deformable body that hangs on the robot, or moves beside it", None)
    root: Literal["fixed", "free_flyer", "planar"] = Key("how the root link is attached (URDF)", "fixed")
    mimic: Literal["couple", "independent"] = Key("mimic joints follow their leader exactly, or are joints of their own (URDF)",
                                                  "couple")
    lock: dict[str, NumberOrList] = Key("locked joints: name and value [rad or m], or a list of coordinates", dict)
    gravity: Vector3 | None = Key("gravity in the world [m/s^2]; null: that of the robot file, else [0, 0, -9.81]", None)
    packages: dict[str, str] = Key("folders of ROS packages, relative to this file", dict, path=True, examples=["{solo: ../solo}"])
    srdf: str = Key("SRDF file with named configurations, relative to this file; auto: the one beside the URDF", "auto",
                    path=True)

    def check(self) -> None:
        if self.robot is None and not self.bodies:
            raise parts.refuse("needs a robot: the path of its file under 'robot', or 'bodies'")


class RobotFile(Part):
    """The head of a file that asks something of one robot: words, constants and the robot."""

    name: Name = Key("name, a few words")
    description: str = Key("description of the file", "")
    source: str = Key("source of robot and tasks", "")
    constants: dict[str, Number] = Key("named numbers; each may use earlier ones and pi", dict)
    robot: Annotated[
        parts.Text | Annotated[RobotModel, Tag("<RobotModel>")],
        parts.by_form("the path of a robot file, robots:NAME, or a mapping with the key 'robot'", "<RobotModel>", degrees=False)
        ] = Key("the robot: path of its file, or a mapping as under 'system' of a problem file")


class RobotSystem(RobotModel):
    """The robot as a controlled system: x = (q, v), controls are joint efforts and thrusts, or accelerations and thrusts."""

    formulation: Literal["auto", "forward_dynamics", "inverse_dynamics", "residual"] = Key(
        "auto: residual for robots with contacts, else forward_dynamics; forward_dynamics: efforts are the controls; "
        "inverse_dynamics: accelerations are, and limits of efforts and joints without a motor become constraints; residual: "
        "efforts are, and accelerations and multipliers of constraints are unknowns of the equations of motion", "auto")
    actuated: Annotated[Annotated[Literal["all", "joints"], Tag("<text>")] | Annotated[tuple[str, ...], Tag("<list>")],
                        parts.by_form("'all', 'joints' or a list of names")] = Key(
        "what drives the robot: all, the actuators of its file (URDF: every joint); joints, a motor at every joint; or a list of "
        "names of actuators and joints", "all")
    limits: UseLimits = Key("limits of the robot file that become bounds", UseLimits)
    motors: tuple[Drive, ...] = Key("motors behind gears; joints that these drive get none from 'actuated: all' or 'joints'", ())
    thrusters: tuple[Thruster, ...] = Key("controls that push along an axis of a frame", ())
    forces: tuple[RobotForce, ...] = Key("springs, dampers, drag and other forces that act by themselves", ())
    constraints: tuple[MechanismConstraint, ...] = Key("loop closures, contacts, prescribed motions and other constraints", ())
    design: tuple[Design, ...] = Key("numbers of the robot that are parameters of the problem, for the solver to choose", ())
    define: dict[str, Number] = Key("named expressions, usable in all later ones", dict)
    sampled: sections.Sampled | None = Key("discrete time: steps of an integrator with piecewise constant controls; formulation: "
                                           "forward_dynamics. null: continuous time", None)
    scenery: tuple[Shape, ...] = Key("shapes in the world that are only drawn: tables, walls, obstacles", ())


class RobotBounds(Part):
    """Bounds by name; they replace those of the robot file."""

    joints: dict[str, parts.Bound] = Key("joint values [rad or m]", dict)
    velocities: dict[str, parts.Bound] = Key("joint velocities [rad/s or m/s]", dict)
    controls: dict[str, parts.Bound] = Key("efforts and thrusts [N m or N], in both formulations", dict)
    accelerations: dict[str, parts.Bound] = Key("accelerations [rad/s^2 or m/s^2]; formulation: inverse_dynamics or residual", dict)


class GuessState(RobotState):
    """A state of the initial guess, or the configuration that inverse kinematics finds."""

    ik: tuple[Task, ...] = Key("tasks in order of priority: the configuration is the one that meets them, searched from what else "
                               "is named here, otherwise from the state at the start", ())


class RobotGuess(Part):
    """Initial guess: values at equally spaced times."""

    states: Annotated[
        Annotated[GuessState, Tag("<GuessState>")] | Annotated[tuple[GuessState, ...], Tag("<list>"), Field(min_length=1)],
        parts.by_form("a mapping such as {joints: {..}}, or a list of these", "<GuessState>", degrees=False)
        ] | None = Key("one state or a list of states at equally spaced times; null: from start to final", None)
    controls: dict[str, NumberOrList] = Key("efforts and thrusts, in both formulations: a value or a list of values", dict)
    accelerations: dict[str, NumberOrList] = Key("accelerations: a value or a list of values; formulation: inverse_dynamics or "
                                                 "residual", dict)


class RobotPhase(Part):
    """One stretch of time."""

    duration: sections.Duration = Key("length of the phase [s], or the range in which it is free")
    start: StartState | None = Key("state at the start: everything by name, or 'others' for the rest", None)
    final: RobotState | None = Key("state at the end; what is not named is free", None)
    bounds: RobotBounds = Key("bounds along the path", RobotBounds)
    costs: tuple[RobotCost, ...] = Key("terms of the objective; [] asks for any feasible motion")
    constraints: tuple[RobotConstraint, ...] = Key("constraints beyond bounds", ())
    contacts: tuple[Name, ...] | None = Key("contacts of system.constraints that are active in this phase; null: all", None)
    guess: RobotGuess = Key("initial guess", RobotGuess)


class RobotProblem(sections.Common):
    """A problem file about a robot."""

    system: RobotSystem = Key("the robot")
    phase: RobotPhase = Key("duration, boundary states, bounds, costs and constraints")
    mpc: MPC | None = Key("receding horizon in closed loop, for ocp mpc", None)


def _strikes(value: Any) -> str | None:
    return "<flag>" if isinstance(value, bool) else "<list>" if isinstance(value, (list, tuple)) else None


Strikes = Annotated[
    Annotated[StrictBool, Tag("<flag>")] | Annotated[tuple[Name, ...], Tag("<list>"), Field(min_length=1)],
    Discriminator(_strikes, custom_error_type="expected", custom_error_message="true, false or a list of contacts")]


class RobotReset(Part):
    """State components that jump between two phases; all others are continuous, component by component of the same name."""

    joints: dict[str, Number] = Key("joint values after: expressions of the state before", dict)
    velocities: dict[str, Number] = Key("joint velocities after: expressions of the state before", dict)
    impact: Strikes = Key("all velocities jump as the constraints of this phase strike: the momentum that they take is theirs; a "
                          "list: of the contacts only these, while the others stand without an impulse", False)
    restitution: Number = Key("coefficient of restitution of contacts that were not active before", 0.0)
    consistent: StrictBool = Key("contacts of this phase touch the ground at its start, and those that do not strike are at rest; "
                                 "false: Baumgarte's stabilisation takes them there", True)


class RobotPhaseInOrder(RobotPhase):
    """One of several phases."""

    name: parts.PhaseName = Key("name of the phase")
    system: RobotSystem | None = Key("the robot in this phase; null: that of the file", None)
    reset: RobotReset | None = Key("jump of the state at the start of this phase; null: none", None)


class RobotPhases(sections.Common):
    """A problem file about a robot in several phases."""

    system: RobotSystem | None = Key("the robot in all phases without their own", None)
    phases: tuple[RobotPhaseInOrder, ...] = Key("phases in order of time", min_length=1)
    mpc: MPC | None = Key("receding horizon across the phases in closed loop, for ocp mpc", None)
