"""A file of whole-body control (``ocp wbc``): a robot, contacts, tasks by priority, what happens when, and the plant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import StrictBool, StrictInt, model_validator

from ocp.app.files.schema_parts import Name, Number, NumberOrList, OneOf, Part, Vector3, key, refuse
from ocp.app.files.schema_robot import RobotFile
from ocp.app.files.schema_state import BasePose, Configuration, RobotState
from ocp.app.files.schema_tasks import KINDS as OF_IK
from ocp.app.files.schema_tasks import Components, ComTask, PoseComponents, PositionTask, RankedTask


class FreeRotation(BasePose):
    """A rotation in one of three forms, or none."""

    position: None = key("not of a rotation", None)


class Within(Part):
    """A box along the axes of the world; what is null does not end."""

    x: tuple[Number | None, Number | None] = key("from, to [m]", (None, None))
    y: tuple[Number | None, Number | None] = key("from, to [m]", (None, None))
    z: tuple[Number | None, Number | None] = key("from, to [m]", (None, None))


class Contact(Part):
    """Where the robot may touch a plane of the world."""

    frame: Name = key("frame of the robot that touches")
    points: tuple[Vector3, ...] = key("points that touch, in the frame [m]", ((0.0, 0.0, 0.0),), min_length=1)
    half_sizes: tuple[Number, Number] | None = key("of a flat rectangular sole around 'position' [m]; null: the points", None)
    position: Vector3 = key("centre of the sole in the frame [m]", (0.0, 0.0, 0.0))
    axis: Vector3 = key("axis of the frame that points along the normal, of a sole", (0.0, 0.0, 1.0))
    normal: Vector3 = key("of the plane, away from it, in the world; any length but zero", (0.0, 0.0, 1.0))
    height: Number = key("of the plane along its normal [m]", 0.0)
    within: Within | None = key("box of the world outside of which the plane ends, as at the mouth of a hole; null: it does not end",
                                None)
    friction: Number = key("coefficient of friction, positive")
    taken: StrictBool = key("whether the robot stands on it at the start", True)
    slides: StrictBool = key("the points move along the plane, with known friction", False)
    least: Number = key("least normal force of each point [N]", 0.0)
    most: Number | None = key("largest normal force of each point [N]; null: any", None)
    ramp: Number = key("seconds in which the force grows when it is taken, and shrinks when it is released", 0.1)
    sides: StrictInt = key("of the pyramid that stands for the cone", 8)
    pyramid: Literal["inner", "outer"] = key("whether the pyramid lies in the cone or holds it", "inner")


class WbcPosition(PositionTask):
    """Origin of a frame at a point."""

    target: Vector3 | None = key("expressions of t [m]; null: where it is when the task begins", None)  # type: ignore[assignment]


class WbcCom(ComTask):
    """Centre of mass at a point."""

    target: Vector3 | None = key("expressions of t [m]; null: where it is when the task begins", None)  # type: ignore[assignment]


class WbcOrientation(FreeRotation):
    """Axes of a frame along prescribed ones; no rotation: those at which it begins."""

    frame: Name = key("frame of the robot")
    reference: Name = key("frame in whose axes the rotation is given: world, or one of the robot", "world")
    components: Components | None = key("rotations about which axes of the target count; null: all", None)


class WbcPose(BasePose):
    """Position and orientation of a frame; what is left out is where it begins."""

    frame: Name = key("frame of the robot")
    reference: Name = key("frame in whose axes the pose is given: world, or one of the robot", "world")
    components: PoseComponents | None = key("which of x, y, z, rx, ry, rz of the error count, in axes of the target; null: all", None)


class WbcPosture(Configuration):
    """Joints at given values; none named: every joint with a motor, where it begins."""


class ForceItem(Part):
    """Force of a contact on the robot, at each of its points."""

    contact: Name = key("contact whose force it is")
    force: Vector3 = key("on the robot, in the world, expressions of t [N]")
    components: Components | None = key("which of x, y, z count; null: all", None)


class MomentumItem(Part):
    """Momentum about the centre of mass, world axes."""

    target: tuple[Number, ...] = key("[linear; angular] [kg m/s; kg m²/s]", (0.0,) * 6, min_length=6, max_length=6)
    components: PoseComponents | None = key("which of x, y, z, rx, ry, rz count; null: all", None)


class EffortItem(Part):
    """Torques as small as possible."""


KINDS = (*OF_IK, "force", "momentum", "effort")


class WbcTask(RankedTask):
    """One task: exactly one of the kinds, how much it counts, and how fast it acts."""

    forms = KINDS
    pose: WbcPose | None = key("position and orientation of a frame", None)
    position: WbcPosition | None = key("origin of a frame", None)
    orientation: WbcOrientation | None = key("axes of a frame", None)
    com: WbcCom | None = key("centre of mass", None)
    posture: WbcPosture | None = key("values of several joints", None)
    force: ForceItem | None = key("force of a contact", None)
    momentum: MomentumItem | None = key("momentum about the centre of mass", None)
    effort: EffortItem | None = key("torques as small as possible", None)
    gain: Number = key("frequency of its error [rad/s]; of a momentum the rate of its decay [1/s]", 10.0)
    damping_ratio: Number = key("of its error; 1: no overshoot", 1.0)
    on: StrictBool = key("whether it is on at the start; the schedule may put it on and off", True)


class Move(FreeRotation):
    """A task's target goes somewhere else."""

    task: Name = key("task whose target moves")
    to: NumberOrList | None = key("where to, expressions of t: of positions, centres of mass, forces, joints", None)
    by: Vector3 | None = key("from what it reached before, of positions and centres of mass [m]", None)
    joints: dict[str, Number] = key("of postures: joints that move, the others stay [rad or m]", dict)


class PushEvent(Part):
    """A force from outside."""

    frame: Name = key("frame at whose origin it acts")
    force: Vector3 = key("in world axes [N]")


class Event(OneOf):
    """Something that happens at a time."""

    beside = ("time", "over")

    time: Number = key("when [s]")
    over: Number = key("how long a move or a push takes [s]", 0.0)
    move: Move | None = key("a target moves smoothly", None)
    take: Name | None = key("contact to be taken as soon as it touches", None)
    release: Name | None = key("contact to be given up, its force shrinking over its ramp", None)
    on: Name | None = key("task that begins, from where the robot is then", None)
    off: Name | None = key("task that ends", None)
    push: PushEvent | None = key("a force on a frame, for 'over' seconds", None)


class PlantPart(Part):
    """What stands for the real robot."""

    kind: Literal["hybrid", "mujoco"] = key("our simulator of events, or MuJoCo (the extra of that name)", "hybrid")
    friction: dict[str, Number] = key("of contacts where it is not what the controller thinks", dict)
    restitution: dict[str, Number] = key("of contacts, in [0, 1]; hybrid only", dict)
    cone: Literal["exact", "inner", "outer"] = key("what friction may be: the exact cone, or a pyramid within or around it; "
                                                   "pyramids hybrid only", "exact")
    sides: StrictInt = key("of the pyramid; the normal of its first is the first tangent of the plane", 4, ge=3)


class Control(Part):
    """How the controller runs."""

    rate: Number = key("control steps per second [Hz]", 500.0)
    duration: Number = key("simulated time [s]", 5.0)
    engine: Literal["active_set", "osqp", "daqp"] = key("what looks for limits that hold", "active_set")
    rest_gain: Number = key("rate at which velocities of standing points decay [1/s]", 20.0)
    trust: Number = key("share of the friction that the controller counts on, so that feet do not stand on the edge of slipping",
                        0.95)
    horizon: Number | None = key("seconds within which joints keep their limits; null: they do not", 0.05)
    efforts: NumberOrList | dict[str, Number] | None = key("limits of torques [N m or N], of all or by joint; null: those of the "
                                                           "robot file", None)


class Expect(Part):
    """What a coordinate or velocity must be at the end."""

    value: Number = key("value [rad, m, rad/s or m/s]")
    tolerance: Number = key("largest difference", 1e-6)


class WbcFile(RobotFile):
    """A file of whole-body control."""

    start: RobotState = key("where it starts; what is not named is zero. Contacts within 2 cm are closed", RobotState)
    contacts: dict[str, Contact] = key("contacts by name", dict)
    tasks: tuple[WbcTask, ...] = key("tasks in order of priority, or each with its priority; none: no torques", ())
    schedule: tuple[Event, ...] = key("what happens when", ())
    wbc: Control = key("how the controller runs; {} takes every default")
    expect: dict[str, Expect] = key("closed forms: states at the end by name, q.JOINT and v.JOINT, of a floating base q.base.px "
                                    "and so on", dict)
    plant: PlantPart = key("what stands for the real robot", PlantPart)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.tasks and any(event.move or event.on or event.off for event in self.schedule):
            raise refuse("the schedule names tasks, and there are none")
        return self


def is_wbc_tree(tree: Any) -> bool:
    """Whether a file's tree is meant to be one of whole-body control."""
    return isinstance(tree, Mapping) and "wbc" in tree and "phase" not in tree and "system" not in tree
