"""A file of whole-body control (``ocp wbc``): a robot, contacts, tasks by priority, what happens when, and the plant."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import StrictBool, StrictInt

from dynamics.constraints import Cone, FlatContact, PointContact
from ocp.app.files.control.tasks import KINDS as OF_IK
from ocp.app.files.control.tasks import ComTask, OfSix, OfThree, PositionTask, RankedTask, Referred
from ocp.app.files.robot.schema import RobotFile
from ocp.app.files.robot.tree_schema import BasePose, Configuration, FreeRotation, PushForce, RandomStart, RobotState
from ocp.app.files.syntax.parts import Key, Name, Number, NumberOrList, OneOf, Part, Vector3, refuse
from ocp.problem import INF
from ocp.solvers.hqp import HQPOptions
from ocp.wbc.follow import Following


def _box(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    return x, y, z


def _ends(pair: tuple[float | None, float | None]) -> tuple[float, float]:
    low, high = pair
    return -INF if low is None else low, INF if high is None else high


class Within(Part):
    """A box along the axes of the world; what is null does not end."""

    makes = _box
    x: tuple[Number | None, Number | None] = Key("from, to [m]", (None, None), then=_ends)
    y: tuple[Number | None, Number | None] = Key("from, to [m]", (None, None), then=_ends)
    z: tuple[Number | None, Number | None] = Key("from, to [m]", (None, None), then=_ends)


def _contact(points: Any, position: Any, axis: Any, sides: int, pyramid: str, half_sizes: Any = None, slip: Any = None, **more: Any
             ) -> PointContact | FlatContact:
    more |= {"cone": Cone(sides, pyramid), "slip": slip}
    return PointContact(points=points, **more) if half_sizes is None else \
        FlatContact(position=position, axis=axis, half_sizes=half_sizes, **more)


class Contact(Part):
    """Where the robot may touch a plane of the world."""

    makes = _contact
    frame: Name = Key("frame of the robot that touches")
    points: tuple[Vector3, ...] = Key("points that touch, in the frame [m]", ((0.0, 0.0, 0.0),), min_length=1)
    half_sizes: tuple[Number, Number] | None = Key("half sizes of a rectangular sole around 'position' [m]; null: the points", None)
    position: Vector3 = Key("centre of the sole in the frame [m]", (0.0, 0.0, 0.0))
    axis: Vector3 = Key("axis of the frame along the normal of a sole", (0.0, 0.0, 1.0))
    normal: Vector3 = Key("outward normal of the plane in world axes; any nonzero vector", (0.0, 0.0, 1.0))
    height: Number = Key("height of the plane along its normal [m]", 0.0)
    within: Within | None = Key("box of the world outside of which the plane ends, as at the mouth of a hole; null: it does not "
                                "end", None)
    friction: Number = Key("coefficient of friction", above=0, hint="; on ice take a small one")
    taken: StrictBool = Key("whether the robot stands on it at the start", True)
    slides: StrictBool = Key("the points move along the plane, with known friction", False, name="slip",
                             then=lambda slides: (0.0, 0.0, 0.0) if slides else None)
    least: Number = Key("smallest normal force of each point [N]", 0.0, least=0)
    most: Number | None = Key("largest normal force of each point [N]; null: unbounded", None)
    ramp: Number = Key("time in which the force grows at touchdown and shrinks before lift-off [s]", 0.1, least=0)
    sides: StrictInt = Key("number of sides of the pyramid that approximates the cone", 8, least=3)
    pyramid: Literal["inner", "outer"] = Key("pyramid inside the cone or around it", "inner")


class WbcPosition(PositionTask):
    """Origin of a frame at a point."""

    target: Vector3 | None = Key("expressions of t [m]; null: where it is when the task begins", None)  # type: ignore[assignment]


class WbcCom(ComTask):
    """Centre of mass at a point."""

    target: Vector3 | None = Key("expressions of t [m]; null: where it is when the task begins", None)  # type: ignore[assignment]


class WbcOrientation(OfThree, Referred, FreeRotation):
    """Axes of a frame along prescribed ones; no rotation: those at which it begins."""


class WbcPose(OfSix, Referred, BasePose):
    """Position and orientation of a frame; what is left out is where it begins."""


class WbcPosture(Configuration):
    """Joints at given values; none named: every joint with a motor, where it begins."""


class ForceItem(OfThree):
    """Force of a contact on the robot, at each of its points."""

    contact: Name = Key("contact whose force it is")
    force: Vector3 = Key("force on the robot in world axes, expressions of t [N]")


class MomentumItem(OfSix):
    """Momentum about the centre of mass, world axes."""

    target: tuple[Number, ...] = Key("momentum, linear then angular [kg m/s; kg m²/s]", (0.0,) * 6, min_length=6, max_length=6)


class EffortItem(Part):
    """Torques as small as possible."""


KINDS = (*OF_IK, "force", "momentum", "effort")


class WbcTask(RankedTask):
    """One task: exactly one of the kinds, how much it counts, and how fast it acts."""

    forms = KINDS
    pose: WbcPose | None = Key("position and orientation of a frame", None)
    position: WbcPosition | None = Key("origin of a frame", None)
    orientation: WbcOrientation | None = Key("axes of a frame", None)
    com: WbcCom | None = Key("centre of mass", None)
    posture: WbcPosture | None = Key("values of several joints", None)
    force: ForceItem | None = Key("force of a contact", None)
    momentum: MomentumItem | None = Key("momentum about the centre of mass", None)
    effort: EffortItem | None = Key("torques as small as possible", None)
    gain: Number = Key("frequency of its error [rad/s]; of a momentum the rate of its decay [1/s]", 10.0, least=0)
    damping_ratio: Number = Key("damping ratio of its error; 1: no overshoot", 1.0, least=0)
    on: StrictBool = Key("whether the task is active at the start; the schedule may change it", True)


class Move(FreeRotation):
    """A task's target goes somewhere else."""

    task: Name = Key("task whose target moves")
    to: NumberOrList | None = Key("new target of a position, centre of mass, force or joint, expressions of t", None)
    by: Vector3 | None = Key("displacement of the target of a position or centre of mass [m]", None)
    joints: dict[str, Number] = Key("new values of joints of a posture; the others stay [rad or m]", dict)


class Event(OneOf):
    """Something that happens at a time."""

    beside = ("time", "over")

    time: Number = Key("when [s]", least=0)
    over: Number = Key("duration of a move or a push [s]", 0.0, least=0)
    move: Move | None = Key("a target moves smoothly", None)
    take: Name | None = Key("contact that becomes active at touchdown", None)
    release: Name | None = Key("contact that is released, its force shrinking over its ramp", None)
    on: Name | None = Key("task that starts, from the state of the robot at that time", None)
    off: Name | None = Key("task that ends", None)
    push: PushForce | None = Key("a force on a frame, for 'over' seconds", None)


class PlantPart(Part):
    """The simulated robot."""

    kind: Name = Key("hybrid, our simulator of events; mujoco (the extra of that name); or one that was registered", "hybrid")
    friction: dict[str, Number] = Key("coefficients of friction other than those of the controller", dict, least=0)
    restitution: dict[str, Number] = Key("coefficient of restitution of contacts, 0 to 1; hybrid only", dict, least=0, most=1)
    cone: Literal["exact", "inner", "outer"] = Key("friction model: the exact cone, or (hybrid only) a pyramid inside "
                                                   "or around it", "exact")
    sides: StrictInt = Key("number of sides of the pyramid; the normal of the first is the first tangent of the plane", 4, ge=3)


class Control(Part):
    """How the controller runs."""

    rate: Number = Key("control steps per second [Hz]", 500.0, above=0)
    duration: Number = Key("simulated time [s]", 5.0, above=0)
    engine: Literal["active_set", "osqp", "daqp"] = Key(
        "engine that finds the active constraints", "active_set", name="options", then=lambda name: HQPOptions(engine=name))
    rest_gain: Number = Key("decay rate of velocities of contact points [1/s]", 20.0)
    trust: Number = Key("share of the coefficient of friction that the controller uses", 0.95, above=0, most=1)
    horizon: Number | None = Key("time ahead over which joints keep their limits [s]; null: not enforced", 0.05, above=0,
                                 unit="s; null leaves limits of joints out")
    efforts: NumberOrList | dict[str, Number] | None = Key("limits of torques [N m or N], of all or by joint; null: those of the "
                                                           "robot file", None, name="")


class Follow(Part):
    """A motion that the robot follows: a solved one, with its contacts and their forces, or one that a receding horizon plans."""

    makes = Following
    run: str = Key("folder of a run of ocp solve, relative to this file; or 'mpc'", "", path=True)
    mpc: str = Key("problem file with a section 'mpc', relative to this file, which plans at its own rate", "", path=True)
    priority: StrictInt = Key("of joints and base; forces have the next lower one", 1, least=1)
    gain: Number = Key("frequency of the errors [rad/s]", 20.0, least=0)
    forces: StrictBool = Key("follow the forces of contacts of one point, too", True)

    def check(self) -> None:
        if bool(self.run) == bool(self.mpc):
            raise refuse("names either a run or a file for mpc")


class WbcTrials(RandomStart):
    """What is random in the trials of ``ocp wbc FILE --trials N``. Contacts that are taken touch at every start."""

    friction: dict[str, Number] = Key("half the width of a uniform distribution about the friction of the plant, by contact", dict,
                                      least=0)


class Expect(Part):
    """Required value of a coordinate or velocity at the end."""

    value: Number = Key("value [rad, m, rad/s or m/s]")
    tolerance: Number = Key("largest difference", 1e-6)


class WbcFile(RobotFile):
    """A file of whole-body control."""

    start: RobotState = Key("where it starts; what is not named is zero. Contacts within 2 cm are closed", RobotState)
    contacts: dict[str, Contact] = Key("contacts by name", dict)
    tasks: tuple[WbcTask, ...] = Key("tasks in order of priority, or each with its priority; none: no torques", ())
    schedule: tuple[Event, ...] = Key("what happens when", ())
    follow: Follow | None = Key("a motion to follow; without 'start' the robot begins where it does, without a duration the "
                                "loop ends with it", None)
    wbc: Control = Key("options of the controller; {} for all defaults")
    expect: dict[str, Expect] = Key("closed forms: states at the end by name, q.JOINT and v.JOINT, of a floating base q.base.px "
                                    "and so on", dict)
    plant: PlantPart = Key("simulator in place of the real robot", PlantPart)
    trials: WbcTrials = Key("random variations of trials", WbcTrials)

    def check(self) -> None:
        if not self.tasks and any(event.move or event.on or event.off for event in self.schedule):
            raise refuse("the schedule names tasks, and there are none")
