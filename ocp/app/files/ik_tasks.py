"""Tasks and clearances of a file turned into those of the solver, and the configurations of initial guesses that they describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics.model.model import Model
from ocp.app.files import schema_tasks as schema
from ocp.app.files.load_parts import unique_names
from ocp.app.files.robot_state import (
    PartialState,
    RobotNames,
    complete,
    read_configuration,
    read_joint,
    read_rotation,
    rotation_matrix,
)
from ocp.app.files.schema_state import Configuration
from ocp.app.files.yaml_source import KeyPath
from ocp.control.clearance import Ball, Capsule, Clearance, HalfSpace
from ocp.control.ik import IKResult, solve_ik
from ocp.control.tasks import (
    Task,
    aim_task,
    alignment_task,
    com_task,
    orientation_task,
    pose_task,
    position_task,
    posture_task,
)

GUESS_TOLERANCE = 1e-6  # m and rad; a guess needs no more


@dataclass(frozen=True)
class TaskList:
    """Tasks by priority. tolerances and indices: of each task, one level after the other; an index is its place in the file's
    list, a tolerance is None where the file gives none."""

    levels: tuple[tuple[Task, ...], ...]
    tolerances: tuple[float | None, ...]
    indices: tuple[int, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, the highest priority first."""
        return tuple(task for level in self.levels for task in level)


# ---- tasks --------------------------------------------------------------------------------------------------------------
def read_tasks(names: RobotNames, given: Sequence[schema.Task], path: KeyPath) -> TaskList | None:
    """The tasks by priority; None after errors were recorded. ``path`` is that of the list."""
    findings = names.reader.findings
    before = len(findings.found)
    order_of = ranks(names, given, path)
    read = [_task(names, task, (*path, i)) for i, task in enumerate(given)]
    labels = [task.name if task is not None else f"<{i}>" for i, task in enumerate(read)]
    for i, label in enumerate(labels):
        if label in labels[:i]:
            findings.add((*path, i), f"the name {label!r} is already that of {path[-1]}[{labels.index(label)}]; give one of them "
                         "a name of its own")
    tolerances = [_tolerance(names, task.tolerance, (*path, i, "tolerance")) for i, task in enumerate(given)]
    if len(findings.found) > before:
        return None
    order = [[i for i, rank in enumerate(order_of) if rank == r] for r in sorted(set(order_of))]
    flat = [i for level in order for i in level]
    return TaskList(tuple(tuple(task for i in level if (task := read[i]) is not None) for level in order),
                    tuple(tolerances[i] for i in flat), tuple(flat))


def ranks(names: RobotNames, given: Sequence[Any], path: KeyPath) -> list[int]:
    """The priority of every task of a list; errors are recorded."""
    ranked = [task.priority for task in given if task.priority is not None]
    if not ranked:
        return list(range(len(given)))
    found = []
    for i, task in enumerate(given):
        if task.priority is None:
            names.reader.findings.add((*path, i), "has no priority, but other tasks have one; give it for all tasks or for none")
        elif task.priority < 1:
            names.reader.findings.add((*path, i, "priority"), f"priorities count from 1, got {task.priority}")
        found.append(task.priority or 0)
    return found


def _tolerance(names: RobotNames, value: Any, path: KeyPath) -> float | None:
    if value is None:
        return None
    number = names.reader.number(value, path)
    if number <= 0.0:
        names.reader.findings.add(path, f"must be positive, got {number:g}")
    return number


def _task(names: RobotNames, task: schema.Task, path: KeyPath) -> Task | None:
    kind, findings = task.form(), names.reader.findings
    place: KeyPath = (*path, kind)
    before = len(findings.found)
    made = _BUILDERS[kind](names, getattr(task, kind), place)
    if made is None or len(findings.found) > before:
        return None
    rows = len(made.shape.components or ()) or _rows(names.model, made)
    weight = names.reader.vector(task.weight, rows, (*path, "weight"), "components of the error")
    for i, w in enumerate(weight):
        if w <= 0.0:
            spot: KeyPath = (*path, "weight", i) if isinstance(task.weight, tuple) else (*path, "weight")
            findings.add(spot, f"a weight must be positive, got {w:g}; leave the task or the component out instead")
            break
    if len(findings.found) > before:
        return None
    return replace(made, name=task.name or made.name, weight=weight[0] if len(set(weight)) == 1 else np.array(weight))


def _rows(model: Model, task: Task) -> int:
    if task.shape.kind == "posture":
        return sum(model.kind(model.joint_index(joint)).nv for joint in task.shape.joints or ())
    return 6 if task.shape.kind == "pose" else 3


def known_frames(names: RobotNames, given: Any, path: KeyPath) -> bool:
    """Whether the frame and the reference exist and the frame can move; errors are recorded."""
    model, good = names.model, True
    for key in ("frame", "reference"):
        name = getattr(given, key, None)
        if name is None:
            continue
        before = len(names.reader.findings.found)
        with names.reader.findings.collecting((*path, key)):
            model.frame(name)
        good = good and len(names.reader.findings.found) == before
    if good and model.frame(given.frame).body == model.frame(given.reference).body:
        names.reader.findings.add((*path, "frame"), f"the frame {given.frame!r} does not move relative to {given.reference!r}")
        return False
    return good


def _components(given: Sequence[str] | None, known: tuple[str, ...], names: RobotNames, path: KeyPath) -> list[int] | None:
    if given is None:
        return None
    for i, component in enumerate(given):
        if component in given[:i]:
            names.reader.findings.add((*path, "components", i), f"{component!r} is listed twice")
    return [known.index(component) for component in dict.fromkeys(given)]


def _rotation(names: RobotNames, given: Any, path: KeyPath) -> np.ndarray | None:
    quaternion = read_rotation(names.reader, given, path)
    return None if quaternion is None else rotation_matrix(quaternion)


def _vector(names: RobotNames, value: Any, path: KeyPath) -> np.ndarray:
    found = np.array(names.reader.vector(value, 3, path, "components"))
    return np.where(np.isfinite(found), found, 0.0)  # an error was recorded


def _direction(names: RobotNames, value: Any, path: KeyPath) -> np.ndarray | None:
    found = names.reader.vector(value, 3, path, "components")
    if not any(found):
        names.reader.findings.add(path, f"the {path[-1]} is zero")
        return None
    return np.array(found)


def _pose(names: RobotNames, given: schema.PoseTask, path: KeyPath) -> Task | None:
    known, R = known_frames(names, given, path), _rotation(names, given, path)
    p = _vector(names, given.position, (*path, "position"))
    components = _components(given.components, schema.POSE_AXES, names, path)
    return pose_task(given.frame, R, p, reference=given.reference, components=components) if known and R is not None else None


def _position(names: RobotNames, given: schema.PositionTask, path: KeyPath) -> Task | None:
    known, p = known_frames(names, given, path), _vector(names, given.target, (*path, "target"))
    components = _components(given.components, schema.AXES, names, path)
    return position_task(given.frame, p, reference=given.reference, components=components) if known else None


def _orientation(names: RobotNames, given: schema.OrientationTask, path: KeyPath) -> Task | None:
    known, R = known_frames(names, given, path), _rotation(names, given, path)
    components = _components(given.components, schema.AXES, names, path)
    return orientation_task(given.frame, R, reference=given.reference, components=components) if known and R is not None else None


def _com(names: RobotNames, given: schema.ComTask, path: KeyPath) -> Task:
    components = _components(given.components, schema.AXES, names, path)
    return com_task(_vector(names, given.target, (*path, "target")), components=components)


def _alignment(names: RobotNames, given: schema.AlignmentTask, path: KeyPath) -> Task | None:
    known, axis = known_frames(names, given, path), _direction(names, given.axis, (*path, "axis"))
    direction = _direction(names, given.direction, (*path, "direction"))
    if not known or axis is None or direction is None:
        return None
    return alignment_task(given.frame, axis, direction, reference=given.reference)


def aim(names: RobotNames, given: schema.AimTask, path: KeyPath) -> Task | None:
    """An axis of a frame towards a point; None after an error was recorded."""
    known, axis = known_frames(names, given, path), _direction(names, given.axis, (*path, "axis"))
    point = _vector(names, given.point, (*path, "point"))
    return aim_task(given.frame, axis, point, reference=given.reference) if known and axis is not None else None


def joint(names: RobotNames, given: schema.JointTask, path: KeyPath) -> Task | None:
    """One joint at a value; None after an error was recorded."""
    before = len(names.reader.findings.found)
    found = read_joint(names, given.name, given.value, path)
    made = None if found is None or len(names.reader.findings.found) > before else _of_joints(names, found, path)
    return None if made is None else replace(made, name=f"joint {given.name}")


def posture(names: RobotNames, given: Configuration, path: KeyPath) -> Task | None:
    """The joints that are named at their values; None after an error was recorded."""
    before = len(names.reader.findings.found)
    found = read_configuration(names, given, path)
    return _of_joints(names, found, path) if len(names.reader.findings.found) == before else None


def _of_joints(names: RobotNames, found: PartialState, path: KeyPath) -> Task | None:
    model, findings = names.model, names.reader.findings
    joints, target = [], []
    for i, body in enumerate(model.bodies):
        qs = model.q_slice(i)
        if body.joint.mimic is not None or not model.kind(i).nv or not found.coordinates[qs].any():
            continue
        if not found.coordinates[qs].all():
            findings.add((*path, "base"), "a posture needs both the position and the rotation of the base; use a position or an "
                         "orientation task for one of them")
            return None
        joints.append(body.joint.name)
        target.append(found.x[qs])
    if not joints:
        findings.add(path, "names no joint; give joints, configuration or base")
        return None
    return posture_task(np.concatenate(target), joints=joints)


_BUILDERS: dict[str, Any] = {"pose": _pose, "position": _position, "orientation": _orientation, "com": _com, "posture": posture,
                             "joint": joint, "alignment": _alignment, "aim": aim}


# ---- clearances ---------------------------------------------------------------------------------------------------------
def read_clearances(names: RobotNames, given: Sequence[schema.Clearance], path: KeyPath) -> tuple[Clearance, ...]:
    """The clearances; errors are recorded."""
    read = []
    for i, item in enumerate(given):
        place: KeyPath = (*path, i)
        first, second = _shape(names, item.first, (*place, "first")), _shape(names, item.second, (*place, "second"))
        margin = names.reader.number(item.margin, (*place, "margin"))
        if first is None or second is None or isinstance(first, HalfSpace):
            continue
        if names.model.frame(first.frame).body == names.model.frame(second.frame).body:
            names.reader.findings.add(place, f"{first.frame!r} and {second.frame!r} do not move relative to each other")
            continue
        read.append(Clearance(first, second, margin, item.name or f"{first.frame} and {second.frame}"))
    unique_names(names.reader.findings, [clearance.name for clearance in read], path)
    return tuple(read)


def _shape(names: RobotNames, shape: schema.Shape, path: KeyPath) -> Ball | Capsule | HalfSpace | None:
    form, findings, before = shape.form(), names.reader.findings, len(names.reader.findings.found)
    path = (*path, form)

    def point(value: Any, key: str) -> tuple[float, float, float]:
        x, y, z = names.reader.vector(value, 3, (*path, key), "components")
        return x, y, z

    made: Ball | Capsule | HalfSpace
    if shape.half_space is not None:
        plane = shape.half_space
        made = HalfSpace(point(plane.normal, "normal"), point(plane.point, "point"), plane.frame)
        if not any(made.normal):
            findings.add((*path, "normal"), "the normal is zero")
    else:
        solid = shape.sphere or shape.capsule
        assert solid is not None
        radius = names.reader.number(solid.radius, (*path, "radius"))
        if radius < 0.0:
            findings.add((*path, "radius"), f"must not be negative, got {radius:g} m")
        made = Ball(solid.frame, radius, point(solid.centre, "centre")) if isinstance(solid, schema.Sphere) else \
            Capsule(solid.frame, radius, point(solid.start, "start"), point(solid.end, "end"))
    with findings.collecting((*path, "frame")):
        names.model.frame(made.frame)
    return made if len(findings.found) == before else None


# ---- initial guesses ----------------------------------------------------------------------------------------------------
def solve_guess(names: RobotNames, given: Sequence[schema.Task], piece: PartialState, start: PartialState | None,
                path: KeyPath) -> PartialState:
    """``piece`` with the configuration that meets the tasks, searched from what it names, else from ``start``, within the bounds
    of the phase. Where a task of the first priority cannot be met, an error names it."""
    findings, nq, nv = names.reader.findings, names.model.nq, names.model.nv
    before = len(findings.found)
    tasks = read_tasks(names, given, (*path, "ik"))
    if tasks is None or findings.found:  # a start or a bound that is wrong would only breed a second error
        return piece
    tolerances = [GUESS_TOLERANCE if t is None else t for t in tasks.tolerances]
    with findings.collecting((*path, "ik")):
        result = solve_ik(within(names), tasks.levels, q0=complete(names, start, piece)[:nq], tolerance=tolerances)
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


def unmet(result: IKResult, tasks: TaskList, tolerances: Sequence[float]) -> list[int]:
    """Which tasks of the first priority are not met, by their place in ``tasks.tasks``."""
    return [k for k, task in enumerate(tasks.levels[0]) if not result.residuals[task.name] <= tolerances[k]]

