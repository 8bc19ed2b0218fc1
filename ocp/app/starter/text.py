"""The starter files as text, with a comment on every line that a user may want to change."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.app.robot import NamedRobot, ends
from ocp.app.starter.plan import Plan

SMALL = 12  # degrees of freedom up to which efforts are minimised; beyond, accelerations, which takes a fraction of the time
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*( [\w./-]+)*")
_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
#: what frames are called that tasks are about, the surest word first
TOOLS = ("tool0", "tcp", "end_effector", "ee_link", "tool", "gripper", "hand")


@dataclass(frozen=True)
class Target:
    """What a frame shall reach: position [3] m and rpy [3] rad; or, where rpy is None, the coordinates ``components`` of the
    position."""

    frame: str
    position: tuple[float, ...]
    rpy: tuple[float, ...] | None
    components: str

    def pose(self) -> str:
        """The keys of a pose."""
        return f"frame: {_flow(self.frame)}, position: {_flow(self.position)}, rpy: {_flow(self.rpy)}"

    def task(self) -> str:
        """A task of inverse kinematics."""
        if self.rpy is not None:
            return f"pose: {{{self.pose()}}}"
        some = "" if self.components == "xyz" else f", components: [{', '.join(self.components)}]"
        return f"position: {{frame: {_flow(self.frame)}, target: {_flow(self.position)}{some}}}"

    def constraint(self) -> list[str]:
        """The lines of a constraint."""
        if self.rpy is not None:
            return [f"      pose_error: {{{self.pose()}}}  # or position_error, without rpy", "      equal: 0"]
        chosen = ["xyz".index(letter) for letter in self.components]
        texts = ", ".join(f"'position(\"{self.frame}\")[{i}]'" for i in chosen)
        return [f"      expression: [{texts}]  # [m]; as many as its joints decide",
                f"      equal: {_flow([self.position[i] for i in chosen])}"]


def starter(robot: NamedRobot, plan: Plan, kind: str, command: str, target: Target | None) -> str:
    """A file of the kind ``move``, ``pose``, ``mpc`` or ``ik``; target: for ``pose`` and ``ik``."""
    name, frame = robot.stem, "" if target is None else target.frame
    what = {"move": "moves its joints", "pose": f"brings {frame} to a pose", "mpc": "follows in closed loop",
            "ik": f"{frame} at a pose"}
    run = {"ik": "ik", "mpc": "mpc"}.get(kind, "solve")
    head = [f"# Written by: {command}",
            f"# Run it with: ocp {run} THIS_FILE; names of joints, frames and drives: ocp robot {robot.file}",
            *(f"# Note: {remark}." for remark in plan.remarks), f"name: {_flow(f'{name} {what[kind]}')}"]
    body = _ik(robot, plan, target) if kind == "ik" and target is not None else _problem(robot, plan, kind, target)
    return "\n".join([*head, *body]) + "\n"


def _problem(robot: NamedRobot, plan: Plan, kind: str, target: Target | None) -> list[str]:
    mechanism, small = robot.mechanism, robot.mechanism.model.nv <= SMALL
    closed_loop = kind == "mpc"
    inverse = not closed_loop and not plan.free and not any(len(motor.gears) > 1 for motor in mechanism.motors)
    T = plan.duration
    rows = [*_system(robot, plan, inverse), "phase:",
            f"  duration: {T:g}  # [s]; {{lower: {T / 2:g}, upper: {T * 2:g}}} lets the solver choose", "  start:",
            *_joints(plan.start, 4), "    rest: true", *(["    others: neutral"] if _named_otherwise(plan) else [])]
    if kind == "move":
        rows += ["  final:  # what is not named here is free", *_joints(plan.goal, 4), *_rest(plan)]
    elif kind == "pose":
        rows += ["  final: {rest: true}" if not plan.free else "  final:", *([] if not plan.free else _rest(plan))]
    rows += ["  costs:", *_costs(robot, plan, kind, small)]
    if target is not None:
        rows += ["  constraints:", "    - name: goal", "      at: final", *target.constraint(),
                 f"    # - {{name: above the table, expression: 'position(\"{target.frame}\")[2]', lower: 0.0}}",
                 "  guess:", "    states:  # at equally spaced times: the start, and what inverse kinematics finds",
                 "      - {}", f"      - ik: [{{{target.task()}}}]", "        rest: true"]
    if closed_loop:
        rows += ["mpc:", "  rate: 100      # samples per second", "  duration: 2    # [s] to simulate",
                 f"  horizon: {min(plan.duration, 0.5):g}   # [s] that every step looks ahead",
                 "  iterations: 2  # of the solver at every step",
                 "  disturbances: {measurement_noise: {q: 1e-4, v: 1e-3}, seed: 1}", "solve:", "  method: ilqr",
                 "  ilqr: {intervals: 50}"]
    else:
        rows += ["solve: {}  # as it is: refined until the certificate holds; {method: ilqr} and {time_limit: 60} are others"]
    return rows


def _system(robot: NamedRobot, plan: Plan, inverse: bool) -> list[str]:
    rows = ["system:", f"  robot: {_flow(robot.file)}"]
    if robot.path.suffix == ".urdf":
        rows += [f"  root: {robot.root}  # how the root link is attached: fixed, free_flyer or planar"]
    rows += [f"  lock: {_flow(plan.lock)}  # held; without this line it is free"] if plan.lock else []
    if plan.limits:
        rows += [f"  limits: {{{', '.join(f'{name}: false' for name in plan.limits)}}}  # of the robot file; see the note above"]
    words = "  formulation: inverse_dynamics  # accelerations as controls, efforts from them; forward_dynamics: the other way"
    return [*rows, words] if inverse else rows


def _costs(robot: NamedRobot, plan: Plan, kind: str, small: bool) -> list[str]:
    weights = _flow(_weights(robot, plan))
    effort = f"{{name: effort, running_residual: tau, weights: {weights}}}  # squares, each measured by its limit"
    if kind == "mpc":
        return ["    - name: goal", "      state_error:", *_joints(plan.goal, 8), "      weights: 10",
                "    - {name: motion, running_residual: v, weights: 0.1}", f"    - {effort}"]
    if small:
        return [f"    - {effort}", "    - {name: motion, running_residual: v, weights: 0.1}"]
    return ["    - {name: smoothness, running_residual: a}  # quick, also for many joints; least effort takes longer:",
            f"    # - {effort}"]


def _weights(robot: NamedRobot, plan: Plan) -> list[float]:
    limits = np.abs((robot.mechanism.locked(plan.lock) if plan.lock else robot.mechanism).control_limits).max(axis=1)
    known = limits[np.isfinite(limits) & (limits > 0) & (limits < 1e5)]
    scales = np.where(np.isfinite(limits) & (limits > 0) & (limits < 1e5), limits, known.max() if len(known) else 1.0)
    return [float(f"{1 / scale**2:.2g}") for scale in scales]


def _joints(values: Mapping[str, float], indent: int) -> list[str]:
    space = " " * indent
    rows = [f"{space}  {_flow(name)}: {value:g}" for name, value in values.items()]
    if len(", ".join(row.strip() for row in rows)) <= 100:
        return [f"{space}joints: {{{', '.join(row.strip() for row in rows)}}}  # [rad or m]"]
    return [f"{space}joints:  # [rad or m]", *rows]


def _rest(plan: Plan) -> list[str]:
    if not plan.free:
        return ["    rest: true"]
    return ["    velocities: {" + ", ".join(f"{_flow(name)}: 0" for name in plan.goal) + "}"]


def _named_otherwise(plan: Plan) -> bool:
    return any(name not in plan.start for name in plan.free)


def _ik(robot: NamedRobot, plan: Plan, target: Target) -> list[str]:
    given = {"robot": robot.file, **({"root": robot.root} if robot.path.suffix == ".urdf" else {}),
             **({"lock": plan.lock} if plan.lock else {})}
    return [f"robot: {_flow(given)}", "start:", *_joints(plan.start, 2),
            "tasks:  # the most important first; others: position, orientation, com, aim, posture", "  - name: tool",
             f"    {target.task()}"]


def _flow(value: Any) -> str:
    """A value as YAML writes it within a line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value, ensure_ascii=False)
    return f"{value:g}"


def end_frame(robot: NamedRobot) -> str:
    """A frame that is called a tool or a hand; else that at the end of the longest branch."""
    model = robot.mechanism.model
    names = [*(frame.name for frame in model.frames if frame.body >= 0), *(body.name for body in model.bodies)]
    for word in TOOLS:
        if found := [name for name in names if word in name.lower()]:
            return min(found, key=len)

    def depth(name: str) -> int:
        body, count = model.frame(name).body, 0
        while body >= 0:
            body, count = model.bodies[body].parent, count + 1
        return count

    return max(ends(model), key=depth)


def rpy_of(R: np.ndarray) -> tuple[float, float, float]:
    """Roll, pitch, yaw about the fixed axes x, y, z."""
    pitch = float(np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0])))
    if np.hypot(R[0, 0], R[1, 0]) < 1e-9:
        return float(np.arctan2(-R[1, 2], R[1, 1])), pitch, 0.0
    return float(np.arctan2(R[2, 1], R[2, 2])), pitch, float(np.arctan2(R[1, 0], R[0, 0]))
