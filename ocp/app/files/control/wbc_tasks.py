"""Tasks and schedule of a file of whole-body control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.constraints import Contact
from dynamics.mechanism import Mechanism
from ocp.app.files.control import tasks as ik_tasks
from ocp.app.files.robot.states import RobotNames, read_rotation, rotation_matrix
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.reader import Section, sound, unknown
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.control import tasks as control
from ocp.control.stance import stances_of
from ocp.control.tasks import Task
from ocp.control.whole_body import EffortTask, ForceTask, Item, MomentumTask
from ocp.plants import Push
from ocp.wbc import Assignment, Path, Switch, constant, moving
from ocp.wbc.paths import Source, path_kind, value_at

# ---- tasks --------------------------------------------------------------------------------------------------------------
Made = tuple[list[Any], Source | None]


@dataclass(frozen=True)
class Stage:
    """Names that tasks refer to: those of the robot and its contacts, with the state [nx] at which it starts."""

    names: RobotNames
    mechanism: Mechanism
    contacts: Sequence[Contact]
    start: np.ndarray

    @property
    def findings(self) -> Findings:
        """Errors of the file."""
        return self.names.findings

    @property
    def path(self) -> KeyPath:
        """Keys of the mapping."""
        return ()

    def here(self, task: Task) -> np.ndarray:
        """The target of a task that is met at the start."""
        return value_at(self.names.model, task, self.start[: self.names.model.nq])


def read_tasks(stage: Stage, file: Section) -> tuple[Assignment, ...]:
    """The tasks with their paths; errors are recorded. Targets that are not given are where the robot starts."""
    ranks = ik_tasks.ranks(file, "tasks")
    found = file.all("tasks", lambda section: _read(stage, section, ranks[int(section.path[-1])]))
    return tuple(assignment for named in found for assignment in named.parts)


@dataclass(frozen=True)
class _Named:
    """Controller tasks of one task of the file: one for each point of a contact."""

    name: str
    parts: tuple[Assignment, ...]


@sound
def _read(stage: Stage, section: Section, rank: int) -> _Named:
    task, form = section.spec, section.spec.form()
    how = {"gain": section.value("gain"), "damping_ratio": section.value("damping_ratio")}
    made = _BUILDERS[form](stage, section.part(form))
    weight = np.asarray(section.value("weight"))
    stage.findings.settle()
    items, source = made
    name = task.name or (items[0].name if isinstance(items[0], Task) else form)
    found = []
    for k, item in enumerate(items):
        keys = ("gain", "damping_ratio") if isinstance(item, Task) else ("gain",) if isinstance(item, MomentumTask) else ()
        item = replace(item, weight=weight if weight.ndim else float(weight), **{key: how[key] for key in keys},
                       **({"name": name} if isinstance(item, Task) else {}))
        target = None if source is None else Path.of(path_kind(item), source)
        found.append(Assignment(name if not k else f"{name} {k}", rank, item, target, task.on))
    return _Named(name, tuple(found))


def _source(section: Section, key: str, size: int, item: Item | None = None, before: Any = None) -> Source | None:
    """A target [size] from numbers and expressions of t; None after an error was recorded. Of a task that counts some components
    these will do, the others stay as ``before`` [size]."""
    reader = section.reader
    column = reader.column(getattr(section.spec, key), section.at(key))
    if column is None:
        return None
    chosen = item.shape.components if isinstance(item, Task) else getattr(item, "components", None)
    if chosen is not None and column.numel() == len(chosen) < size:
        whole = ca.SX(ca.DM(before))
        whole[list(chosen)] = column
        column = whole
    if column.numel() != size:
        section.refuse(f"has {column.numel()} components, expected {size}", key)
        return None
    if reader.depends(column, reader.t):
        return moving(ca.Function("target", [reader.t], [ca.densify(column)]))
    return constant(np.asarray(ca.DM(ca.evalf(column)).full()).ravel())


def _at_rest(task: Task | None) -> Made | None:
    return None if task is None else ([task], constant(task.target))


def _framed(stage: Stage, section: Section) -> Made | None:
    """Tasks about frames and the centre of mass: what is left out is where it starts."""
    made = ik_tasks.frame_task(stage.names, section, stage.here)
    if made is None or getattr(section.spec, "target", None) is None:
        return _at_rest(made)
    source = _source(section, "target", 3)
    return None if source is None else ([made], source)


def _posture(stage: Stage, section: Section) -> Made | None:
    model, spec = stage.names.model, section.spec
    if spec.configuration or spec.base or spec.joints:
        return _at_rest(ik_tasks.posture(stage.names, section))
    joints = [b.joint.name for i, b in enumerate(model.bodies) if b.joint.mimic is None and model.kind(i).nv
              and set(model.velocity_names[model.v_slice(i)]) <= set(stage.mechanism.driven)]
    values = [stage.start[model.q_slice(model.joint_index(j))] for j in joints]
    return _at_rest(control.posture_task(np.concatenate(values), joints=joints))


def _force(stage: Stage, section: Section) -> Made | None:
    plan = next((plan for plan in stage.contacts if plan.name == section.spec.contact), None)
    if plan is None:
        known = [c.name for c in stage.contacts]
        unknown(section.reader.findings, section.spec.contact, known, section.at("contact"), "contact")
        return None
    source = _source(section, "force", 3)
    chosen = tuple(ik_tasks.components(section) or (0, 1, 2))
    items: list[Item] = [ForceTask(stance.name, np.zeros(3), chosen) for stance in stances_of(plan)]
    return None if source is None else (items, source)


def _momentum(stage: Stage, section: Section) -> Made | None:
    source = _source(section, "target", 6)
    item = MomentumTask(components=tuple(ik_tasks.components(section) or range(6)))
    return None if source is None else ([item], source)


_BUILDERS: dict[str, Callable[[Stage, Section], Any]] = {
    **dict.fromkeys(("position", "com", "orientation", "pose", "alignment", "aim"), _framed), "posture": _posture,
    "joint": lambda stage, section: _at_rest(ik_tasks.joint(stage.names, section)),
    "force": _force, "momentum": _momentum, "effort": lambda stage, section: ([EffortTask()], None)}


# ---- schedule -----------------------------------------------------------------------------------------------------------
def read_schedule(stage: Stage, file: Section, tasks: Sequence[Assignment]
                  ) -> tuple[tuple[Switch, ...], tuple[Push, ...]]:
    """Switches and pushes; moves are added to the paths of the tasks. Errors are recorded."""
    switches, pushes = list[Switch](), list[Push]()
    known = {**dict.fromkeys(("take", "release"), [c.name for c in stage.contacts]),
             **dict.fromkeys(("on", "off"), [t.name for t in tasks])}
    for section in sorted(file.parts("schedule"), key=lambda section: float(section.value("time"))):
        what, time, over = section.spec.form(), section.value("time"), section.value("over")
        if what == "push":
            if over <= 0.0:
                section.refuse("a push needs a duration; give 'over'")
            push = section.part("push")
            push.frame(stage.names.model, "frame")
            force = push.value("force")
            if over > 0.0:
                pushes.append(Push(time, over, frame=push.spec.frame, force=force))
        elif what == "move":
            _move(stage.names, section.part("move"), tasks, time, over)
        elif (name := getattr(section.spec, what)) not in known[what]:
            unknown(section.findings, name, known[what], section.at(what), "contact" if what in ("take", "release") else "task")
        else:
            switches.append(Switch(time, what, name))
    return tuple(switches), tuple(pushes)


def _move(names: RobotNames, section: Section, tasks: Sequence[Assignment], time: float, over: float) -> None:
    reader, spec = section.reader, section.spec
    task = next((task for task in tasks if task.name == spec.task), None)
    if task is None:
        unknown(reader.findings, spec.task, [t.name for t in tasks], section.at("task"), "task")
        return
    if task.path is None:
        section.refuse(f"the task {task.name!r} has no movable target", "task")
        return
    if not np.isfinite(time + over):  # an error was recorded
        return
    last = task.path.pieces[-1]
    if np.isfinite(last[0]) and last[0] + last[1] > time + 1e-9:
        section.refuse(f"the task {task.name!r} is still moving until {last[0] + last[1]:g} s")
        return
    turn = read_rotation(reader, spec, section.path) if spec.form() else None
    source: Source | None = None
    if spec.by is not None and task.path.kind != "rotation":
        source = task.path.shifted(time + 1e-9, np.array(section.value("by")))
    elif spec.joints and isinstance(task.item, Task) and task.item.shape.joints:
        source = _moved_joints(names, section, task.item.shape.joints, last[2](time)[0].copy())
    elif spec.to is not None and task.path.kind == "vector":
        source = _source(section, "to", task.path.pieces[0][2](0.0)[0].size, task.item, last[2](time)[0])
    elif spec.to is None and spec.by is None and turn is None:
        section.refuse("has no target; give 'to', 'by', 'joints' or a rotation")
        return
    if turn is not None and task.path.kind != "vector":
        target = (source or last[2])(time)[0].copy()
        target[:9] = rotation_matrix(turn).ravel(order="F")
        source = constant(target)
    if source is not None:
        task.path.move(time, over, source)
    elif not reader.findings.found:
        section.refuse(f"is no target of the task {task.name!r}: positions take 'to' and 'by', rotations 'rpy', 'quaternion' or "
                       "'axis_angle', postures 'joints'")


def _moved_joints(names: RobotNames, section: Section, joints: Sequence[str], target: np.ndarray) -> Source:
    """A posture with the joints elsewhere that the section names. target: of ``joints`` in their order."""
    places, at = {}, 0
    for joint in joints:
        places[joint] = at
        at += names.model.kind(names.model.joint_index(joint)).nq
    for joint, value in section.spec.joints.items():
        if joint in places:
            target[places[joint]] = section.reader.number(value, section.at("joints", joint))
        else:
            unknown(section.reader.findings, joint, list(places), section.at("joints", joint), "joint of this posture")
    return constant(target)
