"""A file of whole-body control (``ocp wbc``): a robot, contacts, tasks by priority, what happens when, and the plant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from ocp.app.files.schema_parts import Name, Number, NumberOrList, Part, Vector3, exactly_one, refuse
from ocp.app.files.schema_robot import RobotFile
from ocp.app.files.schema_state import BasePose, Configuration, RobotState
from ocp.app.files.schema_tasks import KINDS as OF_IK
from ocp.app.files.schema_tasks import Components, ComTask, PoseAxis, PositionTask, RankedTask


class FreeRotation(BasePose):
    """A rotation in one of three forms, or none."""

    position: None = Field(None, description="not of a rotation")


class Within(Part):
    """A box along the axes of the world; what is null does not end."""

    x: tuple[Number | None, Number | None] = Field((None, None), description="from, to [m]")
    y: tuple[Number | None, Number | None] = Field((None, None), description="from, to [m]")
    z: tuple[Number | None, Number | None] = Field((None, None), description="from, to [m]")


class Contact(Part):
    """Where the robot may touch a plane of the world."""

    frame: Name = Field(description="frame of the robot that touches")
    points: tuple[Vector3, ...] = Field(((0.0, 0.0, 0.0),), min_length=1, description="points that touch, in the frame [m]")
    half_sizes: tuple[Number, Number] | None = Field(
        None, description="of a flat rectangular sole around 'position' [m]; null: the points")
    position: Vector3 = Field((0.0, 0.0, 0.0), description="centre of the sole in the frame [m]")
    axis: Vector3 = Field((0.0, 0.0, 1.0), description="axis of the frame that points along the normal, of a sole")
    normal: Vector3 = Field((0.0, 0.0, 1.0), description="of the plane, away from it, in the world; any length but zero")
    height: Number = Field(0.0, description="of the plane along its normal [m]")
    within: Within | None = Field(None, description="box of the world outside of which the plane ends, as at the mouth of a hole; "
                                                    "null: it does not end")
    friction: Number = Field(description="coefficient of friction, positive")
    taken: StrictBool = Field(True, description="whether the robot stands on it at the start")
    slides: StrictBool = Field(False, description="the points move along the plane, with known friction")
    least: Number = Field(0.0, description="least normal force of each point [N]")
    most: Number | None = Field(None, description="largest normal force of each point [N]; null: any")
    ramp: Number = Field(0.1, description="seconds in which the force grows when it is taken, and shrinks when it is released")
    sides: StrictInt = Field(8, description="of the pyramid that stands for the cone")
    pyramid: Literal["inner", "outer"] = Field("inner", description="whether the pyramid lies in the cone or holds it")


class WbcPosition(PositionTask):
    """Origin of a frame at a point."""

    target: Vector3 | None = Field(None, description="expressions of t [m]; null: where it is when the task begins")  # type: ignore[assignment]


class WbcCom(ComTask):
    """Centre of mass at a point."""

    target: Vector3 | None = Field(None, description="expressions of t [m]; null: where it is when the task begins")  # type: ignore[assignment]


class WbcOrientation(FreeRotation):
    """Axes of a frame along prescribed ones; no rotation: those at which it begins."""

    frame: Name = Field(description="frame of the robot")
    reference: Name = Field("world", description="frame in whose axes the rotation is given: world, or one of the robot")
    components: Components | None = Field(None, description="rotations about which axes of the target count; null: all")


class WbcPose(BasePose):
    """Position and orientation of a frame; what is left out is where it begins."""

    frame: Name = Field(description="frame of the robot")
    reference: Name = Field("world", description="frame in whose axes the pose is given: world, or one of the robot")
    components: Annotated[tuple[PoseAxis, ...], Field(min_length=1)] | None = Field(
        None, description="which of x, y, z, rx, ry, rz of the error count, in axes of the target; null: all")


class WbcPosture(Configuration):
    """Joints at given values; none named: every joint with a motor, where it begins."""


class ForceItem(Part):
    """Force of a contact on the robot, at each of its points."""

    contact: Name = Field(description="contact whose force it is")
    force: Vector3 = Field(description="on the robot, in the world, expressions of t [N]")
    components: Components | None = Field(None, description="which of x, y, z count; null: all")


class MomentumItem(Part):
    """Momentum about the centre of mass, world axes."""

    target: tuple[Number, ...] = Field((0.0,) * 6, min_length=6, max_length=6, description="[linear; angular] [kg m/s; kg m²/s]")
    components: Annotated[tuple[PoseAxis, ...], Field(min_length=1)] | None = Field(
        None, description="which of x, y, z, rx, ry, rz count; null: all")


class EffortItem(Part):
    """Torques as small as possible."""


KINDS = (*OF_IK, "force", "momentum", "effort")


class WbcTask(RankedTask):
    """One task: exactly one of the kinds, how much it counts, and how fast it acts."""

    kinds = KINDS
    pose: WbcPose | None = Field(None, description="position and orientation of a frame")
    position: WbcPosition | None = Field(None, description="origin of a frame")
    orientation: WbcOrientation | None = Field(None, description="axes of a frame")
    com: WbcCom | None = Field(None, description="centre of mass")
    posture: WbcPosture | None = Field(None, description="values of several joints")
    force: ForceItem | None = Field(None, description="force of a contact")
    momentum: MomentumItem | None = Field(None, description="momentum about the centre of mass")
    effort: EffortItem | None = Field(None, description="torques as small as possible")
    gain: Number = Field(10.0, description="frequency of its error [rad/s]; of a momentum the rate of its decay [1/s]")
    damping_ratio: Number = Field(1.0, description="of its error; 1: no overshoot")
    on: StrictBool = Field(True, description="whether it is on at the start; the schedule may put it on and off")


class Move(FreeRotation):
    """A task's target goes somewhere else."""

    task: Name = Field(description="task whose target moves")
    to: NumberOrList | None = Field(None, description="where to, expressions of t: of positions, centres of mass, forces, joints")
    by: Vector3 | None = Field(None, description="from what it reached before, of positions and centres of mass [m]")
    joints: dict[str, Number] = Field(default_factory=dict, description="of postures: joints that move, the others stay [rad or m]")


class PushEvent(Part):
    """A force from outside."""

    frame: Name = Field(description="frame at whose origin it acts")
    force: Vector3 = Field(description="in world axes [N]")


WHAT = ("move", "take", "release", "on", "off", "push")


class Event(Part):
    """Something that happens at a time."""

    time: Number = Field(description="when [s]")
    over: Number = Field(0.0, description="how long a move or a push takes [s]")
    move: Move | None = Field(None, description="a target moves smoothly")
    take: Name | None = Field(None, description="contact to be taken as soon as it touches")
    release: Name | None = Field(None, description="contact to be given up, its force shrinking over its ramp")
    on: Name | None = Field(None, description="task that begins, from where the robot is then")
    off: Name | None = Field(None, description="task that ends")
    push: PushEvent | None = Field(None, description="a force on a frame, for 'over' seconds")

    @model_validator(mode="after")
    def _one(self) -> Event:
        exactly_one(self, WHAT)
        return self


class PlantPart(Part):
    """What stands for the real robot."""

    kind: Literal["hybrid", "mujoco"] = Field("hybrid", description="our simulator of events, or MuJoCo (the extra of that name)")
    friction: dict[str, Number] = Field(default_factory=dict, description="of contacts where it is not what the controller thinks")
    restitution: dict[str, Number] = Field(default_factory=dict, description="of contacts, in [0, 1]; hybrid only")
    cone: Literal["exact", "inner", "outer"] = Field("exact", description="what friction may be: the exact cone, or a pyramid "
                                                                          "within or around it; pyramids hybrid only")
    sides: StrictInt = Field(4, ge=3, description="of the pyramid; the normal of its first is the first tangent of the plane")


class Control(Part):
    """How the controller runs."""

    rate: Number = Field(500.0, description="control steps per second [Hz]")
    duration: Number = Field(5.0, description="simulated time [s]")
    engine: Literal["active_set", "osqp", "daqp"] = Field("active_set", description="what looks for limits that hold")
    rest_gain: Number = Field(20.0, description="rate at which velocities of standing points decay [1/s]")
    trust: Number = Field(0.95, description="share of the friction that the controller counts on, so that feet do not stand on the "
                                            "edge of slipping")
    horizon: Number | None = Field(0.05, description="seconds within which joints keep their limits; null: they do not")
    efforts: NumberOrList | dict[str, Number] | None = Field(
        None, description="limits of torques [N m or N], of all or by joint; null: those of the robot file")


class Expect(Part):
    """What a coordinate or velocity must be at the end."""

    value: Number = Field(description="value [rad, m, rad/s or m/s]")
    tolerance: Number = Field(1e-6, description="largest difference")


class WbcFile(RobotFile):
    """A file of whole-body control."""

    start: RobotState = Field(default_factory=lambda: RobotState.model_validate({}),
                              description="where it starts; what is not named is zero. Contacts within 2 cm are closed")
    contacts: dict[str, Contact] = Field(default_factory=dict, description="contacts by name")
    tasks: tuple[WbcTask, ...] = Field((), description="tasks in order of priority, or each with its priority; none: no torques")
    schedule: tuple[Event, ...] = Field((), description="what happens when")
    wbc: Control = Field(description="how the controller runs; {} takes every default")
    expect: dict[str, Expect] = Field(
        default_factory=dict, description="closed forms: states at the end by name, q.JOINT and v.JOINT, of a floating base "
                                          "q.base.px and so on")
    plant: PlantPart = Field(default_factory=lambda: PlantPart.model_validate({}), description="what stands for the real robot")

    @model_validator(mode="after")
    def _something(self) -> WbcFile:
        if not self.tasks and any(event.move or event.on or event.off for event in self.schedule):
            raise refuse("the schedule names tasks, and there are none")
        return self


def is_wbc_tree(tree: Any) -> bool:
    """Whether a file's tree is meant to be one of whole-body control."""
    return isinstance(tree, Mapping) and "wbc" in tree and "phase" not in tree and "system" not in tree
