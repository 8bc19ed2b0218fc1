"""Tasks and clearances of a file turned into those of the solver, and the configurations of initial guesses that they describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics.constraints import Constraint
from dynamics.mechanism.assembly import Assembly
from dynamics.model.model import Model
from ocp.app.files import robot_state
from ocp.app.files import schema_tasks as schema
from ocp.app.files.load_parts import Section, unique_names
from ocp.app.files.robot_state import PartialState, RobotNames, read_rotation, rotation_matrix
from ocp.app.files.yaml_source import KeyPath
from ocp.control import tasks as control
from ocp.control.clearance import Ball, Capsule, Clearance, HalfSpace
from ocp.control.ik import IKResult, solve_ik
from ocp.control.tasks import Task, closure_tasks

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
    tolerances = [Section(names.reader, task, (*path, i)).positive("tolerance") for i, task in enumerate(given)]
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


def _task(names: RobotNames, task: schema.Task, path: KeyPath) -> Task | None:
    kind, findings = task.form(), names.reader.findings
    section, before = Section(names.reader, task, path), len(findings.found)
    made = _BUILDERS[kind](names, section.part(kind))
    if made is None or len(findings.found) > before:
        return None
    rows = len(made.shape.components or ()) or _rows(names.model, made)
    weight = names.reader.vector(task.weight, rows, section.at("weight"), "components of the error")
    for i, w in enumerate(weight):
        if w <= 0.0:
            section.refuse(f"a weight must be positive, got {w:g}; leave the task or the component out instead",
                           "weight", *((i,) if isinstance(task.weight, tuple) else ()))
            return None
    if len(findings.found) > before:
        return None
    return replace(made, name=task.name or made.name, weight=weight[0] if len(set(weight)) == 1 else np.array(weight))


def _rows(model: Model, task: Task) -> int:
    if task.shape.kind == "posture":
        return sum(model.kind(model.joint_index(joint)).nv for joint in task.shape.joints or ())
    return 6 if task.shape.kind == "pose" else 3


def known_frames(names: RobotNames, section: Section) -> bool:
    """Whether the frame and the reference exist and the frame can move; errors are recorded."""
    model, given, before = names.model, section.given, len(names.reader.findings.found)
    section.frame(model, "frame")
    section.frame(model, "reference")
    if len(names.reader.findings.found) == before and model.frame(given.frame).body == model.frame(given.reference).body:
        section.refuse(f"the frame {given.frame!r} does not move relative to {given.reference!r}", "frame")
    return len(names.reader.findings.found) == before


def _components(section: Section) -> list[int] | None:
    given = section.given.components
    if given is None:
        return None
    for i, component in enumerate(given):
        if component in given[:i]:
            section.refuse(f"{component!r} is listed twice", "components", i)
    return [schema.POSE_AXES.index(component) for component in dict.fromkeys(given)]


def frame_task(names: RobotNames, section: Section) -> Task | None:
    """A task whose target is written out; None after an error was recorded."""
    kind, given, values = str(section.path[-1]), section.given, dict[str, Any]()
    before, present = len(names.reader.findings.found), type(given).model_fields
    if "frame" in present:
        known_frames(names, section)
        values = {"frame": given.frame, "reference": given.reference}
    if "rpy" in present and (quaternion := read_rotation(names.reader, given, section.path)) is not None:
        values["rotation"] = rotation_matrix(quaternion)
    for key in ("target", "position", "axis", "direction", "point"):
        if key in present:
            values["position" if key == "target" else key] = vector = np.array(section.vector(key))
            if key in ("axis", "direction") and not vector.any():
                section.refuse(f"the {key} is zero", key)
    if "components" in present:
        values["components"] = _components(section)
    return _TASKS[kind](**values) if len(names.reader.findings.found) == before else None


def joint(names: RobotNames, section: Section) -> Task | None:
    """One joint at a value; None after an error was recorded."""
    before, given = len(names.reader.findings.found), section.given
    found = robot_state.read_joint(names, given.name, given.value, section.path)
    made = None if found is None or len(names.reader.findings.found) > before else _of_joints(names, found, section)
    return None if made is None else replace(made, name=f"joint {given.name}")


def posture(names: RobotNames, section: Section) -> Task | None:
    """The joints that are named at their values; None after an error was recorded."""
    before = len(names.reader.findings.found)
    found = robot_state.read_configuration(names, section.given, section.path)
    return _of_joints(names, found, section) if len(names.reader.findings.found) == before else None


def _of_joints(names: RobotNames, found: PartialState, section: Section) -> Task | None:
    model = names.model
    joints, target = [], []
    for i, body in enumerate(model.bodies):
        qs = model.q_slice(i)
        if body.joint.mimic is not None or not model.kind(i).nv or not found.coordinates[qs].any():
            continue
        if not found.coordinates[qs].all():
            section.refuse("a posture needs both the position and the rotation of the base; use a position or an orientation task "
                           "for one of them", "base")
            return None
        joints.append(body.joint.name)
        target.append(found.x[qs])
    if not joints:
        section.refuse("names no joint; give joints, configuration or base")
        return None
    return control.posture_task(np.concatenate(target), joints=joints)


_TASKS: dict[str, Any] = {
    "pose": control.pose_task, "position": control.position_task, "orientation": control.orientation_task,
    "com": control.com_task, "alignment": control.alignment_task, "aim": control.aim_task}
_BUILDERS: dict[str, Any] = {**dict.fromkeys(_TASKS, frame_task), "posture": posture, "joint": joint}


# ---- clearances ---------------------------------------------------------------------------------------------------------
_SHAPES: dict[str, type[Ball | Capsule | HalfSpace]] = {"sphere": Ball, "capsule": Capsule, "half_space": HalfSpace}


def read_clearances(names: RobotNames, given: Sequence[schema.Clearance], path: KeyPath) -> tuple[Clearance, ...]:
    """The clearances; errors are recorded."""
    read = []
    for i, item in enumerate(given):
        section = Section(names.reader, item, (*path, i))
        first, second = _shape(names, section.part("first")), _shape(names, section.part("second"))
        margin = section.number("margin")
        if first is None or second is None or isinstance(first, HalfSpace):
            continue
        if names.model.frame(first.frame).body == names.model.frame(second.frame).body:
            section.refuse(f"{first.frame!r} and {second.frame!r} do not move relative to each other")
            continue
        read.append(Clearance(first, second, margin, item.name or f"{first.frame} and {second.frame}"))
    unique_names(names.reader.findings, [clearance.name for clearance in read], path)
    return tuple(read)


def _shape(names: RobotNames, shape: Section) -> Ball | Capsule | HalfSpace | None:
    form, before = shape.given.form(), len(names.reader.findings.found)
    section = shape.part(form)
    made = _SHAPES[form](**names.reader.record(section.given, section.path))
    if isinstance(made, HalfSpace):
        if not any(made.normal):
            section.refuse("the normal is zero", "normal")
    else:
        section.not_negative("radius", "m")
    section.frame(names.model, "frame")
    return made if len(names.reader.findings.found) == before else None


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
    for task in closure_tasks(model, constraints):
        c = task.shape.constraint
        assert c is not None
        if not result.residuals[task.name] <= tolerance:
            found.append(f"{task.name} open by {result.residuals[task.name]:.3g} (m, rad)")
        elif c.name in turned:
            found.append(f"{task.name} closed the wrong way, its frames half a turn apart")
    return found


def unmet(result: IKResult, tasks: TaskList, tolerances: Sequence[float]) -> list[int]:
    """Which tasks of the first priority are not met, by their place in ``tasks.tasks``."""
    return [k for k, task in enumerate(tasks.levels[0]) if not result.residuals[task.name] <= tolerances[k]]

