"""Bounds of a robot's joints, speeds and inputs: those of its file, or those that the problem names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from ocp.app.files import load_parts as lp
from ocp.app.files.robot_state import alias, quaternion_coordinates
from ocp.app.files.schema_robot import RobotBounds, UseLimits
from ocp.app.files.yaml_source import KeyPath
from ocp.bridge import state_limits
from ocp.problem import INF


@dataclass(frozen=True)
class RobotBoxes:
    """Bounds [n, 2] of states, of inputs (efforts of driven joints, then thrusts) and of accelerations."""

    x: np.ndarray
    inputs: np.ndarray
    accelerations: np.ndarray


def read_bounds(reader: lp.Reader, mechanism: Mechanism, use: UseLimits, given: RobotBounds) -> RobotBoxes:
    """The robot's limits, replaced where the problem names others."""
    model, inputs, nq = mechanism.model, mechanism.controls, mechanism.model.nq
    x, u, a = state_limits(model), mechanism.control_limits.copy(), np.tile([-INF, INF], (model.nv, 1))
    for used, values in ((use.position, x[:nq]), (use.velocity, x[nq:]), (use.effort, u)):
        if not used:
            values[:] = -INF, INF
    own = _own_bounds(reader, model, given.joints, model.coordinate_names, "joints")
    for k, bound in own.items():
        x[k] = bound
    fast = _own_bounds(reader, model, given.velocities, model.velocity_names, "velocities")
    for k, bound in fast.items():
        x[nq + k] = bound
    pushed = _own_bounds(reader, model, given.controls, inputs, "controls")
    for k, bound in pushed.items():
        u[k] = bound
    for k, bound in _own_bounds(reader, model, given.accelerations, model.velocity_names, "accelerations").items():
        a[k] = bound
    _refuse_frozen(reader, model, inputs, x, u, own, fast, pushed)
    return RobotBoxes(x, u, a)


def _own_bounds(reader: lp.Reader, model: Model, given: Mapping[str, Any], known: tuple[str, ...], group: str
                ) -> dict[int, tuple[float, float]]:
    found = {}
    mimics = {b.joint.name: b.joint.mimic.leader for b in model.bodies if b.joint.mimic}
    index = {n: i for i, n in enumerate(known)}
    rotations = quaternion_coordinates(model) if group == "joints" else set[str]()
    for name, value in given.items():
        path: KeyPath = (*reader.phase, "bounds", group, name)
        real = name if group == "controls" else alias(model, name)
        if real in rotations and real in index:
            reader.findings.add(path, f"{name!r} is a component of a quaternion and cannot be bounded; use a constraint",
                                at_key=True)
        elif real in index:
            found[index[real]] = lp.read_bound(reader, value, path)
        elif parts := [n for n in known if n.startswith(f"{real}.")]:
            reader.findings.add(path, f"{name!r} has several components; bound one of {', '.join(parts)}", at_key=True)
        elif name in mimics:
            reader.findings.add(path, f"the joint {name!r} follows {mimics[name]!r}; bound that one", at_key=True)
        else:
            lp.unknown(reader.findings, name, known, path, "control" if group == "controls" else "joint")
    return found


def _refuse_frozen(reader: lp.Reader, model: Model, inputs: tuple[str, ...], x: np.ndarray, u: np.ndarray,
                   own: Mapping[int, Any], fast: Mapping[int, Any], pushed: Mapping[int, Any]) -> None:
    # robot files write 0 for "not known"; taken literally, nothing could move
    stuck = [n for k, n in enumerate(model.coordinate_names) if k not in own and not x[k].any()]
    still = [n for k, n in enumerate(model.velocity_names) if k not in fast and not x[model.nq + k].any()]
    weak = [n for k, n in enumerate(inputs) if k not in pushed and not u[k].any()]
    for names, key, group in ((stuck, "position", "joints"), (still, "velocity", "velocities"), (weak, "effort", "controls")):
        if names:
            reader.findings.add((*reader.place, "robot"), f"the robot file limits the {key} of {', '.join(map(repr, names))} to 0; "
                                f"give phase.bounds.{group}, or set system.limits.{key}: false")
