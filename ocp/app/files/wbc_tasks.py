"""Tasks and schedule of a file of whole-body control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.mechanism import Mechanism
from ocp.app.files import ik_tasks
from ocp.app.files import schema_wbc as schema
from ocp.app.files.load_parts import unknown
from ocp.app.files.robot_state import RobotNames, read_rotation, rotation_matrix
from ocp.app.files.schema_tasks import POSE_AXES
from ocp.app.files.yaml_source import KeyPath
from ocp.control.tasks import (
    Task,
    alignment_task,
    com_task,
    orientation_task,
    pose_task,
    position_task,
    posture_task,
)
from ocp.control.whole_body import EffortTask, ForceTask, Item, MomentumTask
from ocp.plants import Push
from ocp.wbc import Assignment, ContactPlan, Path, Switch, held, moving
from ocp.wbc.closed_loop import stances_of
from ocp.wbc.paths import Source, path_kind, value_at


# ---- tasks --------------------------------------------------------------------------------------------------------------
def read_tasks(names: RobotNames, mechanism: Mechanism, given: Sequence[schema.WbcTask], contacts: Sequence[ContactPlan],
               start: np.ndarray) -> tuple[Assignment, ...]:
    """The tasks with their paths; errors are recorded. Targets that are not given are where the robot starts."""
    findings, found = names.reader.findings, []
    ranks = ik_tasks.ranks(names, given, ("tasks",))
    for i, task in enumerate(given):
        path: KeyPath = ("tasks", i)
        before = len(findings.found)
        gain, ratio = (names.reader.number(getattr(task, key), (*path, key)) for key in ("gain", "damping_ratio"))
        if gain < 0.0 or ratio < 0.0:
            findings.add((*path, "gain" if gain < 0.0 else "damping_ratio"), "must not be negative")
        made = _BUILDERS[task.form()](names, mechanism, getattr(task, task.form()), contacts, start, (*path, task.form()))
        if made is None or len(findings.found) > before:
            continue
        items, source = made
        weight: Any = names.reader.vector(task.weight, len(task.weight), (*path, "weight"), "components") \
            if isinstance(task.weight, tuple) else names.reader.number(task.weight, (*path, "weight"))
        if not np.all(np.asarray(weight) > 0.0):
            findings.add((*path, "weight"), "a weight must be positive; leave the task or the component out instead")
            continue
        name = task.name or (items[0].name if isinstance(items[0], Task) else task.form())
        for k, item in enumerate(items):
            how: dict[str, Any] = {"weight": np.asarray(weight) if isinstance(weight, tuple) else weight}
            if isinstance(item, Task):
                item = replace(item, name=name, gain=gain, damping_ratio=ratio, **how)
            else:
                item = replace(item, **how, **({"gain": gain} if isinstance(item, MomentumTask) else {}))
            target = Path.of(path_kind(item), source) if source is not None else None
            found.append(Assignment(name if not k else f"{name} {k}", ranks[i], item, target, task.on))
        if [a.name for a in found].count(name) > 1:
            findings.add(path, f"the name {name!r} is that of another task; give one of them a name of its own")
    return tuple(found)


Made = tuple[list[Any], Source | None]


def _source(names: RobotNames, value: Any, size: int, path: KeyPath, item: Item | None = None, before: Any = None
            ) -> Source | None:
    """A target [size] from numbers and expressions of t; None after an error was recorded. Of a task that counts some components
    these will do, the others stay as ``before`` [size]."""
    column = names.reader.column(value, path)
    if column is None:
        return None
    chosen = item.shape.components if isinstance(item, Task) else getattr(item, "components", None)
    if chosen is not None and column.numel() == len(chosen) < size:
        whole = ca.SX(ca.DM(before))
        whole[list(chosen)] = column
        column = whole
    if column.numel() != size:
        names.reader.findings.add(path, f"has {column.numel()} components, expected {size}")
        return None
    if names.reader.depends(column, names.reader.t):
        return moving(ca.Function("target", [names.reader.t], [ca.densify(column)]))
    return held(np.asarray(ca.DM(ca.evalf(column)).full()).ravel())


def _components(given: Any, axes: Sequence[str]) -> list[int] | None:
    return None if given.components is None else [axes.index(axis) for axis in given.components]


def _vector_task(names: RobotNames, given: Any, start: np.ndarray, path: KeyPath, task: Any) -> Made | None:
    made = task(np.zeros(3))
    source = held(value_at(names.model, made, start[: names.model.nq])) if given.target is None else _source(
        names, given.target, 3, (*path, "target"))
    return None if source is None else ([made], source)


def _position(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    if not ik_tasks.known_frames(names, given, path):
        return None
    return _vector_task(names, given, start, path, lambda x: position_task(
        given.frame, x, reference=given.reference, components=_components(given, "xyz")))


def _com(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    return _vector_task(names, given, start, path, lambda x: com_task(x, components=_components(given, "xyz")))


def _turned(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    """Orientations and poses: what is left out is where it starts."""
    if not ik_tasks.known_frames(names, given, path):
        return None
    whole = isinstance(given, schema.WbcPose)
    chosen = _components(given, POSE_AXES if whole else "xyz")
    made = pose_task(given.frame, np.eye(3), np.zeros(3), reference=given.reference, components=chosen) if whole else \
        orientation_task(given.frame, np.eye(3), reference=given.reference, components=chosen)
    target = value_at(names.model, made, start[: names.model.nq]).copy()
    if given.form():
        rotation = read_rotation(names.reader, given, path)
        if rotation is None:
            return None
        target[:9] = rotation_matrix(rotation).ravel(order="F")
    if whole and given.position is not None:
        target[9:] = names.reader.vector(given.position, 3, (*path, "position"), "components")
    return [made], held(target)


def _posture(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    model = names.model
    if given.configuration or given.base or given.joints:
        task = ik_tasks.posture(names, given, path)
        return None if task is None else ([task], held(task.target))
    joints = [b.joint.name for i, b in enumerate(model.bodies) if b.joint.mimic is None and model.kind(i).nv
              and set(model.velocity_names[model.v_slice(i)]) <= set(mechanism.driven)]
    task = posture_task(np.concatenate([start[model.q_slice(model.joint_index(j))] for j in joints]), joints=joints)
    return [task], held(task.target)


def _joint(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    task = ik_tasks.joint(names, given, path)
    return None if task is None else ([task], held(task.target))


def _alignment(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    if not ik_tasks.known_frames(names, given, path):
        return None
    axis, direction = (names.reader.vector(getattr(given, key), 3, (*path, key), "components") for key in ("axis", "direction"))
    with names.reader.findings.collecting(path):
        task = alignment_task(given.frame, axis, direction, reference=given.reference)
        return [task], held(task.target)
    return None


def _aim(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    task = ik_tasks.aim(names, given, path)
    return None if task is None else ([task], held(task.target))


def _force(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Sequence[ContactPlan], start: np.ndarray, path: KeyPath
           ) -> Made | None:
    plan = next((plan for plan in contacts if plan.name == given.contact), None)
    if plan is None:
        unknown(names.reader.findings, given.contact, [c.name for c in contacts], (*path, "contact"), "contact")
        return None
    source = _source(names, given.force, 3, (*path, "force"))
    chosen = tuple(_components(given, "xyz") or (0, 1, 2))
    items: list[Item] = [ForceTask(stance.name, np.zeros(3), chosen) for stance in stances_of(plan)]
    return None if source is None else (items, source)


def _momentum(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    source = _source(names, given.target, 6, (*path, "target"))
    chosen = _components(given, POSE_AXES)
    item = MomentumTask(components=(0, 1, 2, 3, 4, 5) if chosen is None else tuple(chosen))
    return None if source is None else ([item], source)


def _effort(names: RobotNames, mechanism: Mechanism, given: Any, contacts: Any, start: np.ndarray, path: KeyPath) -> Made | None:
    return [EffortTask()], None


_BUILDERS: dict[str, Any] = {
    "position": _position, "com": _com, "orientation": _turned, "pose": _turned, "posture": _posture, "joint": _joint,
    "alignment": _alignment, "aim": _aim, "force": _force, "momentum": _momentum, "effort": _effort}


# ---- schedule -----------------------------------------------------------------------------------------------------------
def read_schedule(names: RobotNames, given: Sequence[schema.Event], tasks: Sequence[Assignment], contacts: Sequence[ContactPlan]
                  ) -> tuple[tuple[Switch, ...], tuple[Push, ...]]:
    """Switches and pushes; moves are added to the paths of the tasks. Errors are recorded."""
    reader, switches, pushes = names.reader, list[Switch](), list[Push]()
    known = {"take": [c.name for c in contacts], "release": [c.name for c in contacts], "on": [t.name for t in tasks],
             "off": [t.name for t in tasks]}
    timed = [(reader.number(event.time, ("schedule", i, "time")), i, event) for i, event in enumerate(given)]
    for time, i, event in sorted(timed, key=lambda item: item[:2]):
        path: KeyPath = ("schedule", i)
        over = reader.number(event.over, (*path, "over"))
        if time < 0.0 or over < 0.0:
            reader.findings.add((*path, "time" if time < 0.0 else "over"), "must not be negative")
        what = event.form()
        if what == "push" and event.push is not None:
            if over <= 0.0:
                reader.findings.add(path, "a push lasts for a while; give 'over'")
            with reader.findings.collecting((*path, "push", "frame")):
                names.model.frame(event.push.frame)
            force = reader.vector(event.push.force, 3, (*path, "push", "force"), "components")
            if over > 0.0:
                pushes.append(Push(time, over, frame=event.push.frame, force=force))
        elif what == "move" and event.move is not None:
            _move(names, event.move, tasks, time, over, (*path, "move"))
        elif (name := getattr(event, what)) not in known[what]:
            unknown(reader.findings, name, known[what], (*path, what), "contact" if what in ("take", "release") else "task")
        else:
            switches.append(Switch(time, what, name))
    return tuple(switches), tuple(pushes)


def _move(names: RobotNames, given: schema.Move, tasks: Sequence[Assignment], time: float, over: float, path: KeyPath) -> None:
    reader = names.reader
    task = next((task for task in tasks if task.name == given.task), None)
    if task is None:
        unknown(reader.findings, given.task, [t.name for t in tasks], (*path, "task"), "task")
        return
    if task.path is None:
        reader.findings.add((*path, "task"), f"the task {task.name!r} has no target that could move")
        return
    if not np.isfinite(time + over):  # an error was recorded
        return
    last = task.path.pieces[-1]
    if np.isfinite(last[0]) and last[0] + last[1] > time + 1e-9:
        reader.findings.add(path, f"the task {task.name!r} is still on its way until {last[0] + last[1]:g} s")
        return
    size = task.path.pieces[0][2](0.0)[0].size
    turn = read_rotation(reader, given, path) if given.form() else None
    source: Source | None = None
    if given.by is not None and task.path.kind != "rotation":
        source = task.path.shifted(time + 1e-9, np.array(reader.vector(given.by, 3, (*path, "by"), "components")))
    elif given.joints and isinstance(task.item, Task) and task.item.shape.joints:
        target, at = last[2](time)[0].copy(), 0
        places = {}
        for joint in task.item.shape.joints:
            places[joint] = at
            at += names.model.kind(names.model.joint_index(joint)).nq
        for joint, value in given.joints.items():
            if joint not in places:
                unknown(reader.findings, joint, list(places), (*path, "joints", joint), "joint of this posture")
                continue
            target[places[joint]] = reader.number(value, (*path, "joints", joint))
        source = held(target)
    elif given.to is not None and task.path.kind == "vector":
        source = _source(names, given.to, size, (*path, "to"), task.item, last[2](time)[0])
    elif given.to is None and given.by is None and turn is None:
        reader.findings.add(path, "says nothing about where to; give 'to', 'by', 'joints' or a rotation")
        return
    if turn is not None and task.path.kind != "vector":
        target = (source or last[2])(time)[0].copy()
        target[:9] = rotation_matrix(turn).ravel(order="F")
        source = held(target)
    if source is None:
        if not reader.findings.found:
            reader.findings.add(path, f"is no target of the task {task.name!r}: positions take 'to' and 'by', rotations 'rpy', "
                                "'quaternion' or 'axis_angle', postures 'joints'")
        return
    task.path.move(time, over, source)
