"""Tasks and clearances of a file turned into those of the solver, and the configurations of initial guesses that they describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.constraints import Constraint
from dynamics.model.model import Model
from ocp.app.files.control import tasks_schema as schema
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.schema import GuessState
from ocp.app.files.robot.states import PartialState, RobotNames, read_rotation, rotation_matrix
from ocp.app.files.syntax.reader import Section, sound
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.control import tasks as control
from ocp.control.clearance import Clearance
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
    given = [task.priority for task in getattr(holder.given, key)]
    if not any(given):
        return list(range(len(given)))
    for i, (section, priority) in enumerate(zip(holder.parts(key), given, strict=True)):
        if priority is None:
            holder.refuse("has no priority, but other tasks have one; give it for all tasks or for none", key, i)
        section.value("priority")
    return [priority or 0 for priority in given]


@sound
def _task(names: RobotNames, section: Section) -> Task:
    kind, task = section.given.form(), section.given
    made = _BUILDERS[kind](names, section.part(kind))
    names.findings.settle()
    rows = len(made.shape.components or ()) or _rows(names.model, made)
    weight = section.each("weight", rows, "components of the error")
    return replace(made, name=task.name or made.name, weight=weight[0] if len(set(weight)) == 1 else np.array(weight))


def _rows(model: Model, task: Task) -> int:
    if task.shape.kind == "posture":
        return sum(model.kind(model.joint_index(joint)).nv for joint in task.shape.joints or ())
    return 6 if task.shape.kind == "pose" else 3


def _known_frames(names: RobotNames, section: Section) -> None:
    """Leave the reader after an error was recorded: the frame and the reference exist, and the frame can move."""
    model, given = names.model, section.given
    section.frame(model, "frame")
    section.frame(model, "reference")
    names.findings.settle()
    if model.frame(given.frame).body == model.frame(given.reference).body:
        section.refuse(f"the frame {given.frame!r} does not move relative to {given.reference!r}", "frame")


def components(section: Section) -> list[int] | None:
    """Which rows of an error count, None for all; errors are recorded."""
    given = section.given.components
    if given is None:
        return None
    for i, component in enumerate(given):
        if component in given[:i]:
            section.refuse(f"{component!r} is listed twice", "components", i)
    return [schema.POSE_AXES.index(component) for component in dict.fromkeys(given)]


@sound
def frame_task(names: RobotNames, section: Section, here: Callable[[Task], np.ndarray] | None = None) -> Task:
    """A task about a frame or the centre of mass; None after an error was recorded. here: the target of a task where the robot is,
    in the place of what is left out, and of a target that may depend on time, which the caller reads."""
    kind, given, values = str(section.path[-1]), section.given, dict[str, Any]()
    present = type(given).model_fields
    if "frame" in present:
        _known_frames(names, section)
        values = {"frame": given.frame, "reference": given.reference}
    if "rpy" in present:
        quaternion = read_rotation(names.reader, given, section.path)
        values["rotation"] = np.eye(3) if quaternion is None else rotation_matrix(quaternion)
    for key in ("target", "position", "axis", "direction", "point"):
        if key in present:
            absent = getattr(given, key) is None or (here is not None and key == "target")
            values["position" if key == "target" else key] = np.zeros(3) if absent else np.array(section.value(key))
    if "components" in present:
        values["components"] = components(section)
    names.findings.settle()
    made: Task = _TASKS[kind](**values)
    if here is None or kind in ("alignment", "aim"):
        return made
    target = here(made).copy()
    if "rpy" in present and given.form():
        target[:9] = made.target[:9]
    if kind == "pose" and given.position is not None:
        target[9:] = made.target[9:]
    return replace(made, target=target)


@sound
def joint(names: RobotNames, section: Section) -> Task:
    """One joint at a value; None after an error was recorded."""
    found = robot_state.read_joint(names, section.given.name, section.given.value, section.path)
    names.findings.settle()
    assert found is not None
    return replace(_of_joints(names, found, section), name=f"joint {section.given.name}")


@sound
def posture(names: RobotNames, section: Section) -> Task:
    """The joints that are named at their values; None after an error was recorded."""
    found = robot_state.read_configuration(names, section.given, section.path)
    names.findings.settle()
    return _of_joints(names, found, section)


def _of_joints(names: RobotNames, found: PartialState, section: Section) -> Task:
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
def read_clearances(names: RobotNames, holder: Section) -> tuple[Clearance, ...]:
    """The clearances; errors are recorded."""
    return holder.all("clearances", lambda section: _clearance(section, names.model))


@sound
def _clearance(section: Section, model: Model) -> Clearance:
    first, second = _shape(section.part("first"), model), _shape(section.part("second"), model)
    section.findings.settle()
    if model.frame(first.frame).body == model.frame(second.frame).body:
        section.refuse(f"{first.frame!r} and {second.frame!r} do not move relative to each other")
    return Clearance(first, second, section.value("margin"), section.given.name or f"{first.frame} and {second.frame}")


def _shape(shape: Section, model: Model) -> Any:
    section = shape.part(shape.given.form())
    section.frame(model, "frame")
    return section.made()


# ---- initial guesses ----------------------------------------------------------------------------------------------------
def solve_guess(names: RobotNames, given: GuessState, piece: PartialState, start: PartialState | None, path: KeyPath
                ) -> PartialState:
    """``piece`` with the configuration that meets the tasks of a guess, searched from what it names, else from ``start``, within
    the bounds of the phase. Where a task of the first priority cannot be met, an error names it."""
    findings, nq, nv = names.reader.findings, names.model.nq, names.model.nv
    before = len(findings.found)
    tasks = read_tasks(names, Section(names.reader, given, path), "ik")
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
    found = []
    for task in closure_tasks(model, constraints):
        c = task.shape.constraint
        assert c is not None
        if not result.residuals[task.name] <= tolerance:
            found.append(f"{task.name} open by {result.residuals[task.name]:.3g} (m, rad)")
        elif np.array(ca.DM(c.facing(model, ca.DM(result.q)))).min(initial=1.0) < 0.0:
            found.append(f"{task.name} closed the wrong way, its frames half a turn apart")
    return found


def unmet(result: IKResult, tasks: TaskList, tolerances: Sequence[float]) -> list[int]:
    """Which tasks of the first priority are not met, by their place in ``tasks.tasks``."""
    return [k for k, task in enumerate(tasks.levels[0]) if not result.residuals[task.name] <= tolerances[k]]
