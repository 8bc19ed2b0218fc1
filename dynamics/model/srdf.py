"""Named configurations from SRDF group states (MoveIt's semantic description of a URDF)."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from dynamics.errors import near
from dynamics.joints import record
from dynamics.model.model import Joint, Model
from dynamics.model.xmltree import Element, Notes, attribute, load, parse, to_number

_ROOT_NAMES = ("root_joint",)  # what files call the joint of a floating base, beside their <virtual_joint>
MIMIC_SLACK = 1e-6  # rad or m; states in files are rounded
UNIT_SLACK = 1e-3  # how far from unit length a rounded quaternion may be


def find_srdf(urdf: Path, robot: str) -> Path | None:
    """The SRDF of a URDF file: ``<stem>.srdf`` or ``<robot name>.srdf`` beside it, in ``srdf`` or in ``../srdf``."""
    folders = (urdf.parent, urdf.parent / "srdf", urdf.parent.parent / "srdf")
    tried = [folder / f"{name}.srdf" for name in dict.fromkeys((urdf.stem, robot)) for folder in folders]
    return next((candidate for candidate in tried if candidate.is_file()), None)


def apply_srdf(path_or_text: str | os.PathLike[str], model: Model, *, fixed_joints: Collection[str] = (),
               unknown_joints: Literal["error", "note"] = "error") -> Model:
    """The model with one named configuration per ``<group_state>``, in our order of coordinates.

    Joints that a state leaves out stay neutral; the value of a mimic joint must agree with its leader. A floating base
    takes ``x y z qx qy qz qw`` (the order of ROS and Pinocchio) and gives ``x y z qw qx qy qz``. The base is called by
    its own joint name, ``root_joint``, or the name of the file's ``<virtual_joint>``; for a robot fixed to the world
    its value is noted and not used, as is that of a joint in ``fixed_joints`` (names merged away by the reader).
    States that share a name become ``group/name``.

    Raises ModelError with file, line and near misses for a wrong value, and for an unknown joint unless
    ``unknown_joints`` is "note" (one SRDF often serves several variants of a robot).
    """
    content, source, _ = load(path_or_text, "SRDF")
    top, notes = parse(content, source), Notes()
    if top.tag != "robot":
        raise top.error(None, f"root element of an SRDF must be <robot>, got <{top.tag}>")
    states = top.all("group_state")
    names = Counter(attribute(s, "name", "group_state") for s in states)
    base = _base_names(top, model)
    found: dict[str, tuple[float, ...]] = dict(model.configurations)
    for state in states:
        name = state.attributes["name"]
        where = f"group_state {name!r}"
        if names[name] > 1:
            name = f"{state.attributes.get('group', '')}/{name}"
        if name in found:
            raise state.error(where, f"configuration {name!r} is defined twice")
        found[name] = _configuration(state, where, model, base, fixed_joints, notes,
                                     unknown_joints == "note")
    for tag in ("rotor_params", "passive_joint"):
        for element in top.all(tag):
            notes.tell(f"<{tag}> in the SRDF is not read", element.line)
    return replace(model, configurations=found, notes=(*model.notes, *notes.lines()))


def _base_names(top: Element, model: Model) -> dict[str, str | None]:
    """Names a file may use for the base joint -> the model's joint, or None where the root is fixed to the world."""
    root = next((b.joint.name for b in model.bodies if b.parent < 0 and b.joint.kind == "free_flyer"), None)
    aliases = [attribute(v, "name", "virtual_joint") for v in top.all("virtual_joint")]
    known = {b.joint.name for b in model.bodies}
    return {name: root for name in (*_ROOT_NAMES, *aliases) if name not in known}


def _configuration(state: Element, where: str, model: Model, base: dict[str, str | None], fixed: Collection[str],
                   notes: Notes, lenient: bool) -> tuple[float, ...]:
    q = np.concatenate([np.asarray(record(b.joint).neutral, float) for b in model.bodies if b.joint.mimic is None]
                       or [np.zeros(0)])
    joints = {b.joint.name: i for i, b in enumerate(model.bodies)}
    followers: list[tuple[Element, int, float]] = []
    seen: dict[str, int] = {}
    for element in state.all("joint"):
        name = attribute(element, "name", where)
        if name in seen:
            raise element.error(where, f"joint {name!r} is set twice (first on line {seen[name]})")
        seen[name] = element.line
        parts = attribute(element, "value", where).split()
        values = [to_number(part, element, where, f"value of joint {name!r}") for part in parts]
        if name in fixed or base.get(name, name) is None:
            notes.tell(f"{where}: joint {name!r} is fixed in this model; its value is not used", element.line)
            continue
        target = base.get(name) or name
        if target not in joints and lenient:
            notes.tell(f"{where}: joint {name!r} does not exist in {model.name!r}; its value is not used", element.line)
            continue
        if target not in joints:
            raise element.error(where, f"joint {name!r} does not exist in {model.name!r}{near(name, joints)}")
        i = joints[target]
        coordinates = _coordinates(values, model.bodies[i].joint, element, where, name)
        if model.bodies[i].joint.mimic is not None:
            followers.append((element, i, coordinates[0]))
        else:
            q[model.q_slice(i)] = coordinates
    for element, i, value in followers:
        joint = model.bodies[i].joint
        assert joint.mimic is not None
        if joint.mimic.leader not in seen and joint.mimic.multiplier:
            q[model.q_slice(i)] = (value - joint.mimic.offset) / joint.mimic.multiplier
            seen[joint.mimic.leader] = element.line
        coupled = joint.mimic.multiplier * q[model.q_slice(i)][0] + joint.mimic.offset
        if abs(coupled - value) > MIMIC_SLACK:
            notes.tell(f"{where}: joint {joint.name!r} is set to {value:g}, but it mimics {joint.mimic.leader!r}, "
                       f"which puts it at {coupled:g}", element.line)
    return tuple(float(x) for x in q)


def _coordinates(values: list[float], joint: Joint, element: Element, where: str, name: str) -> list[float]:
    """Values in the file's order -> coordinates of the joint kind in ours."""
    if joint.kind == "free_flyer":
        if len(values) != 7:
            raise element.error(where, f"joint {name!r} needs 7 numbers x y z qx qy qz qw, got {len(values)}")
        x, y, z, qx, qy, qz, qw = values
        norm = math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        if abs(norm - 1) > UNIT_SLACK:
            raise element.error(where, f"joint {name!r}: quaternion qx qy qz qw has length {norm:.6g}, expected 1")
        return [x, y, z, qw / norm, qx / norm, qy / norm, qz / norm]
    size = record(joint).nq
    if len(values) != size:
        raise element.error(where, f"joint {name!r} of kind {joint.kind!r} needs {size} number(s), got {len(values)}")
    return values
