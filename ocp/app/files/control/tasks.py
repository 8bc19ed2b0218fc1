"""Tasks and clearances of files, as those of the solver, and the configurations of initial guesses that they describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, StrictInt

from dynamics.constraints import Constraint
from dynamics.mechanism.assembly import Assembly
from dynamics.model.model import Model
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.states import PartialState, RobotNames, read_rotation, rotation_matrix
from ocp.app.files.robot.tree_schema import AtFrame, Configuration, JointValue, Rotation
from ocp.app.files.syntax.parts import Key, Name, Number, NumberOrList, OneOf, Part, Vector3, refuse
from ocp.app.files.syntax.reader import Section, sound
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.control import clearance
from ocp.control import tasks as control

if TYPE_CHECKING:
    from ocp.app.files.robot.schema import GuessState
    from ocp.control.ik import IKResult

KINDS = ("pose", "position", "orientation", "com", "posture", "joint", "alignment", "aim")
POSE_AXES = ("x", "y", "z", "rx", "ry", "rz")

Components = Annotated[tuple[Literal["x", "y", "z"], ...], Field(min_length=1)]
PoseComponents = Annotated[tuple[Literal["x", "y", "z", "rx", "ry", "rz"], ...], Field(min_length=1)]


class Referred(AtFrame):
    """A task: motion of one frame of the robot relative to another."""

    reference: Name = Key("frame in whose axes the rest is given: world, or one of the robot", "world")


class OfThree(Part):
    """An error of three components."""

    components: Components | None = Key("which of x, y, z count (rotations: about axes of the target); null: all", None)


class OfSix(Part):
    """An error of six components."""

    components: PoseComponents | None = Key("which of x, y, z, rx, ry, rz of the error count, in axes of the target; null: all",
                                            None, examples=["[x, y, rz]"])


class PositionTask(OfThree, Referred):
    """Origin of a frame at a point."""

    target: Vector3 = Key("desired position of its origin, in the reference [m]")


class OrientationTask(OfThree, Referred, Rotation):
    """Axes of a frame along prescribed ones."""


class PoseTask(OfSix, Referred, Rotation):
    """Position and orientation of a frame."""

    position: Vector3 = Key("desired position of its origin, in the reference [m]")


class ComTask(OfThree):
    """Centre of mass at a point."""

    target: Vector3 = Key("desired centre of mass in the world [m]")


class PostureTask(Configuration):
    """Joints at given values; the others are left free."""


class JointTask(Part):
    """One joint at a value."""

    name: Name = Key("name of the joint", examples=["elbow"])
    value: JointValue = Key("desired coordinate [rad or m]")


class AlignmentTask(Referred):
    """An axis of a frame along a direction."""

    axis: Vector3 = Key("axis in the frame, any nonzero vector", nonzero=True)
    direction: Vector3 = Key("desired direction in the reference, any nonzero vector", nonzero=True)


class AimTask(Referred):
    """An axis of a frame from its origin towards a point."""

    axis: Vector3 = Key("axis in the frame, any nonzero vector", nonzero=True)
    point: Vector3 = Key("point to aim at, in the reference [m]")


class RankedTask(OneOf):
    """A task among others: exactly one of its kinds."""

    name: Name | None = Key("name in tables and in a schedule; default: its kind and frame", None)
    priority: StrictInt | None = Key("1 is the highest; equal numbers are weighed against each other. Given for all tasks or for "
                                     "none: then each task of the list ranks below the one before it", None, least=1)
    joint: JointTask | None = Key("value of one joint", None)
    alignment: AlignmentTask | None = Key("axis of a frame along a direction", None)
    aim: AimTask | None = Key("axis of a frame towards a point", None)
    weight: NumberOrList = Key("weight of the squared error against tasks of equal priority, one or one for each component", 1.0,
                               above=0, hint="; leave the task or the component out instead")


class Task(RankedTask):
    """One task: exactly one of the eight kinds, and how much it counts."""

    forms = KINDS
    pose: PoseTask | None = Key("position and orientation of a frame", None)
    position: PositionTask | None = Key("origin of a frame", None)
    orientation: OrientationTask | None = Key("axes of a frame", None)
    com: ComTask | None = Key("centre of mass", None)
    posture: PostureTask | None = Key("values of several joints, or of the floating base", None)
    tolerance: Number | None = Key("largest error of a fulfilled task [m or rad]; null: that of the options", None, above=0)


# ---- clearances ---------------------------------------------------------------------------------------------------------
class Sphere(Part):
    """All points within a radius of a centre."""

    makes = clearance.Ball
    frame: Name = Key("frame that carries it: one of the robot, or world")
    radius: Number = Key("radius [m]", least=0)
    centre: Vector3 = Key("centre in axes of the frame [m]", (0.0, 0.0, 0.0))


class Capsule(Part):
    """All points within a radius of a segment."""

    makes = clearance.Capsule
    frame: Name = Key("frame that carries it: one of the robot, or world")
    radius: Number = Key("radius [m]", least=0)
    start: Vector3 = Key("one end of the segment in axes of the frame [m]")
    end: Vector3 = Key("other end of the segment in axes of the frame [m]")


class HalfSpace(Part):
    """Everything behind a plane."""

    makes = clearance.HalfSpace
    normal: Vector3 = Key("direction that points away from it, any nonzero vector", nonzero=True)
    point: Vector3 = Key("a point of the plane [m]", (0.0, 0.0, 0.0))
    frame: Name = Key("frame in whose axes point and normal are given", "world")


class Shape(OneOf):
    """Exactly one shape."""

    sphere: Sphere | None = Key("a ball", None)
    capsule: Capsule | None = Key("a segment with a radius", None)
    half_space: HalfSpace | None = Key("everything behind a plane", None)


class Clearance(Part):
    """Two shapes that stay apart."""

    name: Name | None = Key("name in tables; default: the two frames", None)
    first: Shape = Key("a sphere or a capsule")
    second: Shape = Key("a sphere, a capsule or a half-space")
    margin: Number = Key("least distance [m]", 0.0)

    def check(self) -> None:
        if self.first.half_space is not None:
            raise refuse("a half-space must be the second shape")


GUESS_TOLERANCE = 1e-6  # m and rad; a guess needs no more


@dataclass(frozen=True)
class TaskList:
    """Tasks by priority. tolerances and indices: of each task, one level after the other; an index is its position in the file's
    list, a tolerance is None where the file gives none."""

    levels: tuple[tuple[control.Task, ...], ...]
    tolerances: tuple[float | None, ...]
    indices: tuple[int, ...]

    @property
    def tasks(self) -> tuple[control.Task, ...]:
        """All tasks, the highest priority first."""
        return tuple(task for level in self.levels for task in level)


# ---- reading tasks --------------------------------------------------------------------------------------------------------------
@sound
def read_tasks(names: RobotNames, holder: Section, key: str) -> TaskList:
    """The tasks of a list by priority; None after errors were recorded."""
    rank = ranks(holder, key)
    read = holder.all(key, lambda section: _task(names, section))
    tolerances = [section.value("tolerance") for section in holder.parts(key)]
    names.findings.settle()
    order = [[i for i, own in enumerate(rank) if own == r] for r in sorted(set(rank))]
    flat = [i for level in order for i in level]
    return TaskList(tuple(tuple(read[i] for i in level) for level in order), tuple(tolerances[i] for i in flat), tuple(flat))


def ranks(holder: Section, key: str) -> list[int]:
    """The priority of every task of a list; errors are recorded."""
    spec = [task.priority for task in getattr(holder.spec, key)]
    if not any(spec):
        return list(range(len(spec)))
    for i, (section, priority) in enumerate(zip(holder.parts(key), spec, strict=True)):
        if priority is None:
            holder.refuse("has no priority, but other tasks have one; give it for all tasks or for none", key, i)
        section.value("priority")
    return [priority or 0 for priority in spec]


@sound
def _task(names: RobotNames, section: Section) -> control.Task:
    kind, task = section.spec.form(), section.spec
    made: control.Task = _BUILDERS[kind](names, section.part(kind))
    names.findings.settle()
    shape, model = made.shape, names.model
    coordinates = [model.kind(model.joint_index(one)).nv for one in shape.joints or ()]
    rows = len(shape.components or ()) or sum(coordinates) or (6 if kind == "pose" else 3)
    weight = section.each("weight", rows, "components of the error")
    return replace(made, name=task.name or made.name, weight=weight[0] if len(set(weight)) == 1 else np.array(weight))


def _known_frames(names: RobotNames, section: Section) -> None:
    """Leave the reader after an error was recorded: the frame and the reference exist, and the frame can move."""
    model, spec = names.model, section.spec
    section.frame(model, "frame")
    section.frame(model, "reference")
    names.findings.settle()
    if model.frame(spec.frame).body == model.frame(spec.reference).body:
        section.refuse(f"the frame {spec.frame!r} does not move relative to {spec.reference!r}", "frame")


def components(section: Section) -> list[int] | None:
    """Which rows of an error count, None for all; errors are recorded."""
    spec = section.spec.components
    if spec is None:
        return None
    for i, component in enumerate(spec):
        if component in spec[:i]:
            section.refuse(f"{component!r} is listed twice", "components", i)
    return [POSE_AXES.index(component) for component in dict.fromkeys(spec)]


@sound
def frame_task(names: RobotNames, section: Section, here: Callable[[control.Task], np.ndarray] | None = None) -> control.Task:
    """A task about a frame or the centre of mass; None after an error was recorded. here: the target of a task where the robot is,
    in the place of what is left out, and of a target that may depend on time, which the caller reads."""
    kind, spec, values = str(section.path[-1]), section.spec, dict[str, Any]()
    present = type(spec).model_fields
    if "frame" in present:
        _known_frames(names, section)
        values = {"frame": spec.frame, "reference": spec.reference}
    if "rpy" in present:
        quaternion = read_rotation(names.reader, spec, section.path)
        values["rotation"] = np.eye(3) if quaternion is None else rotation_matrix(quaternion)
    for key in ("target", "position", "axis", "direction", "point"):
        if key in present:
            absent = getattr(spec, key) is None or (here is not None and key == "target")
            values["position" if key == "target" else key] = np.zeros(3) if absent else np.array(section.value(key))
    if "components" in present:
        values["components"] = components(section)
    names.findings.settle()
    made: control.Task = _TASKS[kind](**values)
    if here is None or kind in ("alignment", "aim"):
        return made
    target = here(made).copy()
    if "rpy" in present and spec.form():
        target[:9] = made.target[:9]
    if kind == "pose" and spec.position is not None:
        target[9:] = made.target[9:]
    return replace(made, target=target)


@sound
def joint(names: RobotNames, section: Section) -> control.Task:
    """One joint at a value; None after an error was recorded."""
    found = robot_state.read_joint(names, section.spec.name, section.spec.value, section.path)
    names.findings.settle()
    assert found is not None
    return replace(_of_joints(names, found, section), name=f"joint {section.spec.name}")


@sound
def posture(names: RobotNames, section: Section) -> control.Task:
    """The joints that are named at their values; None after an error was recorded."""
    found = robot_state.read_configuration(names, section.spec, section.path)
    names.findings.settle()
    return _of_joints(names, found, section)


def _of_joints(names: RobotNames, found: PartialState, section: Section) -> control.Task:
    model = names.model
    joints, target = [], []
    for i, body in enumerate(model.bodies):
        qs = model.q_slice(i)
        if body.joint.mimic is not None or not model.kind(i).nv or not found.coordinates[qs].any():
            continue
        if not found.coordinates[qs].all():
            section.refuse("a posture needs both the position and the rotation of the base; use a position or an orientation task "
                           "for one of them", "base")
        joints.append(body.joint.name)
        target.append(found.x[qs])
    if not joints:
        section.refuse("names no joint; give joints, configuration or base")
    names.findings.settle()
    return control.posture_task(np.concatenate(target), joints=joints)


_TASKS: dict[str, Any] = {
    "pose": control.pose_task, "position": control.position_task, "orientation": control.orientation_task,
    "com": control.com_task, "alignment": control.alignment_task, "aim": control.aim_task}
_BUILDERS: dict[str, Any] = {**dict.fromkeys(_TASKS, frame_task), "posture": posture, "joint": joint}


# ---- clearances ---------------------------------------------------------------------------------------------------------
def read_clearances(names: RobotNames, holder: Section) -> tuple[clearance.Clearance, ...]:
    """The clearances; errors are recorded."""
    return holder.all("clearances", lambda section: _clearance(section, names.model))


@sound
def _clearance(section: Section, model: Model) -> clearance.Clearance:
    first, second = _shape(section.part("first"), model), _shape(section.part("second"), model)
    section.findings.settle()
    if model.frame(first.frame).body == model.frame(second.frame).body:
        section.refuse(f"{first.frame!r} and {second.frame!r} do not move relative to each other")
    return clearance.Clearance(first, second, section.value("margin"), section.spec.name or f"{first.frame} and {second.frame}")


def _shape(shape: Section, model: Model) -> Any:
    section = shape.part(shape.spec.form())
    section.frame(model, "frame")
    return section.made()


# ---- initial guesses ----------------------------------------------------------------------------------------------------
def solve_guess(names: RobotNames, spec: GuessState, piece: PartialState, start: PartialState | None, path: KeyPath
                ) -> PartialState:
    """``piece`` with the configuration that meets the tasks of a guess, searched from what it names, else from ``start``, within
    the bounds of the phase. Where a task of the first priority cannot be met, an error names it."""
    from ocp.control.ik import solve_ik  # only here: it loads Numba and OSQP

    findings, nq, nv = names.reader.findings, names.model.nq, names.model.nv
    before = len(findings.found)
    tasks = read_tasks(names, Section(names.reader, spec, path), "ik")
    if tasks is None or findings.found:  # a start or a bound that is wrong would only breed a second error
        return piece
    tolerances = [GUESS_TOLERANCE if t is None else t for t in tasks.tolerances]
    with findings.collecting((*path, "ik")):
        result = solve_ik(within(names), tasks.levels, q0=robot_state.complete(names, start, piece)[:nq], tolerance=tolerances,
                          constraints=names.constraints)
        for name in open_loops(names.model, names.constraints, result, min(tolerances)):
            findings.add((*path, "ik"), f"inverse kinematics leaves {name} after {result.starts} starts")
        for k in unmet(result, tasks, tolerances):
            name = tasks.tasks[k].name
            findings.add((*path, "ik", tasks.indices[k]), f"inverse kinematics cannot meet the task {name!r}: its residual is "
                         f"{result.residuals[name]:.3g} (tolerance {tolerances[k]:g}) after {result.starts} starts")
        if len(findings.found) == before:
            piece.x[:nq] = result.q
            piece.coordinates[:nq] = piece.tangent[:nv] = True
    return piece


def within(names: RobotNames) -> Model:
    """The robot with the bounds of the file as its position limits."""
    bodies = []
    for i, body in enumerate(names.model.bodies):
        kind, qs = names.model.kind(i), names.model.q_slice(i)
        if kind.nv and kind.is_vector_space and body.joint.mimic is None:
            lower, upper = names.bounds[qs].T
            limits = replace(body.joint.limits, lower=tuple(lower.tolist()), upper=tuple(upper.tolist()))
            body = replace(body, joint=replace(body.joint, limits=limits))
        bodies.append(body)
    return replace(names.model, bodies=tuple(bodies))


def open_loops(model: Model, constraints: Sequence[Constraint], result: IKResult, tolerance: float) -> list[str]:
    """Constraints of the mechanism that a configuration breaks, and by how much, in words."""
    found, turned = [], Assembly(model, constraints).misses(result.q)[2] if constraints else []
    for task in control.closure_tasks(model, constraints):
        c = task.shape.constraint
        assert c is not None
        if not result.residuals[task.name] <= tolerance:
            found.append(f"{task.name} open by {result.residuals[task.name]:.3g} (m, rad)")
        elif c.name in turned:
            found.append(f"{task.name} closed the wrong way, its frames half a turn apart")
    return found


def unmet(result: IKResult, tasks: TaskList, tolerances: Sequence[float]) -> list[int]:
    """Which tasks of the first priority are not met, by their index in ``tasks.tasks``."""
    return [k for k, task in enumerate(tasks.levels[0]) if not result.residuals[task.name] <= tolerances[k]]
