"""The starter files as text, with a comment on every line that a user may want to change."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.syntax.yaml_text import YAML_WORDS
from ocp.app.pages.report import environment
from ocp.app.robot import NamedRobot, ends
from ocp.app.starter.plan import Plan

MAX_DOF_OF_EFFORT_COST = 12  # efforts are minimised; with more degrees of freedom accelerations, in a fraction of the time
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*( [\w./-]+)*")
#: what frames are called that tasks are about, the surest word first
TOOLS = ("tool0", "tcp", "end_effector", "ee_link", "tool", "gripper", "hand")


@dataclass(frozen=True)
class Target:
    """Target of a frame: position [3] m and rpy [3] rad; or, where rpy is None, the coordinates ``components`` of the
    position."""

    frame: str
    position: tuple[float, ...]
    rpy: tuple[float, ...] | None
    components: str

    def pose(self) -> str:
        """The keys of a pose."""
        return f"frame: {flow(self.frame)}, position: {flow(self.position)}, rpy: {flow(self.rpy)}"

    def task(self) -> str:
        """A task of inverse kinematics."""
        if self.rpy is not None:
            return f"pose: {{{self.pose()}}}"
        some = "" if self.components == "xyz" else f", components: [{', '.join(self.components)}]"
        return f"position: {{frame: {flow(self.frame)}, target: {flow(self.position)}{some}}}"

    def constraint(self) -> str:
        """The lines of a constraint."""
        if self.rpy is not None:
            return f"      pose_error: {{{self.pose()}}}  # or position_error, without rpy\n      equal: 0"
        chosen = ["xyz".index(letter) for letter in self.components]
        texts = ", ".join(f"'position(\"{self.frame}\")[{i}]'" for i in chosen)
        return (f"      expression: [{texts}]  # [m]; as many as its joints decide\n"
                f"      equal: {flow([self.position[i] for i in chosen])}")


def starter(robot: NamedRobot, plan: Plan, kind: str, command: str, target: Target | None) -> str:
    """A file of the kind ``move``, ``pose``, ``mpc`` or ``ik``; target: for ``pose`` and ``ik``."""
    name, frame, mechanism = robot.stem, "" if target is None else target.frame, robot.mechanism
    what = {"move": "moves its joints", "pose": f"brings {frame} to a pose", "mpc": "follows in closed loop",
            "ik": f"{frame} at a pose"}
    given = {"robot": robot.file, **({"root": robot.root} if robot.path.suffix == ".urdf" else {}),
             **({"lock": plan.lock} if plan.lock else {})}
    inverse = kind != "mpc" and not plan.free and not any(len(motor.gears) > 1 for motor in mechanism.motors)
    return rendered("problem.yaml.j2", command=command, run={"ik": "ik", "mpc": "mpc"}.get(kind, "solve"), robot=robot, plan=plan,
                    kind=kind, target=target, title=f"{name} {what[kind]}", given=given, inverse=inverse,
                    small=mechanism.model.nv <= MAX_DOF_OF_EFFORT_COST, weights=_weights(robot, plan), joints=_joints)


def rendered(template: str, **values: Any) -> str:
    """A starter file by its template, in which ``flow`` writes values as YAML does."""
    made = environment(Path(__file__).parent, markup=False, flow=flow, suffixed="{}{}".format)
    return str(made.get_template(template).render(**values))


def _weights(robot: NamedRobot, plan: Plan) -> list[float]:
    limits = np.abs((robot.mechanism.locked(plan.lock) if plan.lock else robot.mechanism).control_limits).max(axis=1)
    known = limits[np.isfinite(limits) & (limits > 0) & (limits < 1e5)]
    scales = np.where(np.isfinite(limits) & (limits > 0) & (limits < 1e5), limits, known.max() if len(known) else 1.0)
    return [float(f"{1 / scale**2:.2g}") for scale in scales]


def _joints(values: Mapping[str, float], indent: int) -> str:
    """Joints by name, on one line if it is short enough."""
    space = " " * indent
    rows = [f"{flow(name)}: {value:.10g}" for name, value in values.items()]
    if len(", ".join(rows)) <= 100:
        return f"{space}joints: {{{', '.join(rows)}}}  # [rad or m]"
    return "\n".join([f"{space}joints:  # [rad or m]", *(f"{space}  {row}" for row in rows)])


def flow(value: Any) -> str:
    """A value as YAML writes it within a line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in YAML_WORDS else json.dumps(value, ensure_ascii=False)
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


def rpy_of(R: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw [3] about the fixed axes x, y, z."""
    pitch = float(np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0])))
    if np.hypot(R[0, 0], R[1, 0]) < 1e-9:
        return np.array([np.arctan2(-R[1, 2], R[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])
