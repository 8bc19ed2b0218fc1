"""What there is to know of a robot by name, as rows of text: joints, drives, bodies, frames, named configurations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynamics.mechanism import Mechanism
from dynamics.model.model import Model

Rows = list[tuple[str, ...]]
FREE = "free"


def joint_rows(robot: Mechanism) -> Rows:
    """Name, kind, limits of position, velocity and effort of every joint; followers of others say of which."""
    model = robot.model
    rows: Rows = []
    for i, body in enumerate(model.bodies):
        joint = body.joint
        if not model.kind(i).nv:
            continue
        if joint.mimic is not None:
            offset = f" {joint.mimic.offset:+.4g}" if joint.mimic.offset else ""
            follows = f"{joint.kind}, follows {joint.mimic.multiplier:+.4g}*{joint.mimic.leader}{offset}"
            rows.append((joint.name, follows, "", "", "", ""))
            continue
        limits = (_numbers(getattr(joint.limits, which)) for which in ("lower", "upper", "velocity", "effort"))
        rows.append((joint.name, joint.kind, *limits))
    return rows


def drive_rows(robot: Mechanism) -> Rows:
    """Name, what it drives, and limits of every motor and thruster."""
    rows: Rows = []
    for motor in robot.motors:
        where = " ".join(f"{name}" if ratio == 1 else f"{ratio:+.4g}*{name}" for name, ratio in motor.gears)
        kind = "motor" if len(motor.gears) == 1 else "transmission"
        rows.append((motor.name, kind, where, _number(motor.lower), _number(motor.upper)))
    for thruster in robot.thrusters:
        rows.append((thruster.name, "thruster", f"on {thruster.frame}", _number(thruster.lower), _number(thruster.upper)))
    return rows


def body_rows(model: Model) -> Rows:
    """Name, parent, the joint between, mass [kg] and the frames of every body."""
    frames = {i: [f.name for f in model.frames if f.body == i] for i in range(-1, len(model.bodies))}
    rows: Rows = [("world", "", "", "", ", ".join(frames[-1]))] if frames[-1] else []
    for i, body in enumerate(model.bodies):
        parent = "world" if body.parent < 0 else model.bodies[body.parent].name
        rows.append((body.name, parent, body.joint.name, f"{body.inertia.mass:.4g}", ", ".join(frames[i])))
    return rows


def configuration_rows(model: Model) -> Rows:
    """Name and coordinates of every named configuration."""
    return [(name, " ".join(f"{x:.4g}" for x in q)) for name, q in model.configurations.items()]


def undriven(robot: Mechanism) -> tuple[str, ...]:
    """Velocities that nothing drives."""
    driven = {name for motor in robot.motors for name, _ in motor.gears}
    return tuple(name for name in robot.model.velocity_names if name not in driven)


def ends(model: Model) -> tuple[str, ...]:
    """Frames at the ends of the tree, the last of each branch: where a tool or a foot is."""
    found = []
    for i, body in enumerate(model.bodies):
        if not model.children(i):
            own = [f.name for f in model.frames if f.body == i]
            found.append(own[-1] if own else body.name)
    return tuple(found)


def _numbers(values: Sequence[float] | None) -> str:
    return FREE if values is None or not np.isfinite(values).any() else " ".join(map(_number, values))


def _number(value: float) -> str:
    return FREE if not np.isfinite(value) else f"{value:.4g}"
