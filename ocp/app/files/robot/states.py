"""Robot states, rotations and bounds by name, turned into vectors x = (q, v), and what names mean in expressions of x."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dynamics.constraints import Constraint
from dynamics.errors import near
from dynamics.joints import JointKind, record
from dynamics.lie import quaternion as quaternions
from dynamics.lie import rpy as rpy_angles
from dynamics.model.model import Joint, Model
from ocp.app.files.robot.tree_schema import ROTATION_FORMS, Base, Configuration, JointPose, RobotState, Rotation
from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.yaml_source import KeyPath
from ocp.problem import Boundary
from ocp.spaces import Space

SX = Any
UNIT_SLACK = 1e-3  # how far from unit length a rounded quaternion may be


@dataclass(frozen=True)
class Spot:
    """A joint, or a part of a composite joint: its record, the body that it carries, where it sits in q and in v."""

    name: str
    kind: JointKind
    body: int
    q: slice
    v: slice

    @property
    def quaternions(self) -> bool:
        """Whether the joint's coordinates contain a unit quaternion."""
        return any(step.kind.quaternion is not None for step in self.kind.chain)


def _add_spots(found: dict[str, Spot], name: str, joint: Joint, body: int, first: tuple[int, int]) -> None:
    kind, (q, v) = record(joint), first
    found[name] = Spot(name, kind, body, slice(q, q + kind.nq), slice(v, v + kind.nv))
    for part in joint.parts:
        _add_spots(found, f"{name}.{part.name}", part, body, (q, v))
        q, v = q + record(part).nq, v + record(part).nv


@dataclass(frozen=True)
class RobotNames:
    """What is needed to read states: the reader, the robot, its state space, the bounds [nx, 2] that values must keep, the key
    under which the file describes the robot, and the constraints of its mechanism."""

    reader: lp.Reader
    model: Model
    space: Space
    bounds: np.ndarray
    key_path: str = "system"
    constraints: tuple[Constraint, ...] = ()

    @property
    def findings(self) -> Findings:
        """Errors of the file."""
        return self.reader.findings

    @property
    def path(self) -> KeyPath:
        """Keys of the mapping."""
        return (self.key_path,)

    @cached_property
    def spots(self) -> dict[str, Spot]:
        """Joints by name; parts of composite joints as ``joint.part``."""
        found: dict[str, Spot] = {}
        for i, body in enumerate(self.model.bodies):
            _add_spots(found, body.joint.name, body.joint, i, (self.model.q_slice(i).start, self.model.v_slice(i).start))
        return found

    def nothing(self) -> PartialState:
        """A state of which nothing is given."""
        return PartialState(np.array(self.space.neutral), np.zeros(self.space.nx, bool), np.zeros(self.space.ndx, bool))


@dataclass(frozen=True)
class PartialState:
    """A state of which only part is spec: x [nx], which coordinates [nx] and which tangent components [ndx] are."""

    x: np.ndarray
    coordinates: np.ndarray
    tangent: np.ndarray

    def boundary(self) -> Boundary | None:
        """As boundary condition; None where nothing is given."""
        if not self.tangent.any():
            return None
        return Boundary(tuple(self.x.tolist()), tuple(self.tangent.tolist()))


# ---- names --------------------------------------------------------------------------------------------------------------
def floating_base(model: Model) -> int | None:
    """The body that a free-flyer joins to the world, or None."""
    return next((i for i, b in enumerate(model.bodies) if b.parent == -1 and b.joint.kind == "free_flyer"), None)


def alias(model: Model, name: str) -> str:
    """``base.px`` means a coordinate of the floating base whatever its joint is called."""
    base = floating_base(model)
    if base is not None and name.startswith("base."):
        return f"{model.bodies[base].joint.name}.{name.removeprefix('base.')}"
    return name


def configuration_by_name(model: Model, q: np.ndarray) -> dict[str, Any]:
    """``{base: .., joints: ..}``: a configuration [nq] as problem files write it."""
    base, found, joints = floating_base(model), dict[str, Any](), dict[str, Any]()
    for i, body in enumerate(model.bodies):
        kind, x = model.kind(i), q[model.q_slice(i)].tolist()
        if body.joint.mimic is not None or not kind.nv:
            continue
        value = x[0] if kind.nq == 1 else x
        if kind.quaternion is not None:
            value = {"position": x[:3]} if kind.nq == 7 else {}
            value["quaternion"] = dict(zip("wxyz", x[kind.quaternion], strict=True))
        (found if i == base else joints)["base" if i == base else body.joint.name] = value
    return {**found, "joints": joints}


def state_by_name(model: Model, q: np.ndarray, v: np.ndarray) -> dict[str, Any]:
    """The same with velocities [nv], where there are any."""
    base, found, velocities = floating_base(model), configuration_by_name(model, q), dict[str, object]()
    for i, body in enumerate(model.bodies):
        own = v[model.v_slice(i)].tolist()
        if body.joint.mimic is None and i == base:
            found["base"] |= {"linear_velocity": own[:3], "angular_velocity": own[3:]}
        elif body.joint.mimic is None and own:
            velocities[body.joint.name] = own[0] if len(own) == 1 else own
    return {**found, "velocities": velocities} if v.any() else configuration_by_name(model, q)


def aliases(model: Model, names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """``base.px`` and the name that it stands for, of those of these names that are the floating base's; all with the prefix."""
    base = floating_base(model)
    joint = None if base is None else f"{prefix}{model.bodies[base].joint.name}."
    return {f"{prefix}base.{name.removeprefix(joint)}": name for name in names if joint and name.startswith(joint)}


def entries(model: Model, vector: SX, *, velocities: bool) -> dict[str, SX]:
    """The components of q or v by name, with ``base.`` for the floating base and mimic joints through their leaders."""
    names = model.velocity_names if velocities else model.coordinate_names
    found = {name: vector[i] for i, name in enumerate(names)}
    found |= {short: found[name] for short, name in aliases(model, names).items()}
    for body in model.bodies:
        mimic = body.joint.mimic
        if mimic is not None:
            found[body.joint.name] = mimic.multiplier * found[mimic.leader] + (0.0 if velocities else mimic.offset)
    return found


def _spot(names: RobotNames, name: str, path: KeyPath, *, at_key: bool = True) -> Spot | None:
    """A joint with coordinates of its own, or a part of one; None after an error was recorded."""
    model, findings, spot = names.model, names.reader.findings, names.spots.get(name)
    if spot is not None:
        joint = model.bodies[spot.body].joint
        if joint.mimic is not None:
            findings.add(path, f"the joint {name!r} follows {joint.mimic.leader!r}; give that one", at_key=at_key)
            return None
        if spot.body == floating_base(model):
            findings.add(path, f"{name!r} is the floating base; give 'base' beside 'joints'", at_key=at_key)
            return None
        if spot.kind.nv:
            return spot
    movable = [n for n, s in names.spots.items() if s.kind.nv and not model.bodies[s.body].joint.mimic
               and s.body != floating_base(model)]
    findings.add(path, f"no joint that moves named {name!r}{near(name, movable)}", at_key=at_key)
    return None


# ---- rotations ----------------------------------------------------------------------------------------------------------
def read_rotation(reader: lp.Reader, spec: Rotation, path: KeyPath) -> np.ndarray | None:
    """Unit quaternion [4] (w, x, y, z); None where no rotation is given or after an error was recorded."""
    form, section = spec.form(), lp.Section(reader, spec, path)
    if form == "rpy":
        return np.asarray(ca.DM(rpy_angles.to_quaternion(section.value("rpy"))).full()).ravel()
    if form == "axis_angle":
        turn = section.part(form)
        axis, angle = np.array(turn.value("axis")), turn.value("angle")
        if not axis.any():
            return None
        # half the angle in closed form, so that angles beyond pi keep their sense
        return np.concatenate([[math.cos(angle / 2)], math.sin(angle / 2) * axis / np.linalg.norm(axis)])
    if form == "quaternion":
        q = np.array(list(section.value(form).values()))
        length = float(np.linalg.norm(q))
        if abs(length - 1.0) > UNIT_SLACK:
            section.refuse(f"a unit quaternion is expected; this one has length {length:.6g}", form)
            return None
        return q / length
    return None


def rotation_matrix(q: np.ndarray) -> np.ndarray:
    """Rotation matrix [3, 3] of a unit quaternion [4] (w, x, y, z)."""
    return np.asarray(ca.DM(quaternions.to_matrix(ca.DM(q))).full())


# ---- states -------------------------------------------------------------------------------------------------------------
def read_configuration(names: RobotNames, spec: Configuration, path: KeyPath) -> PartialState:
    """The given part of a configuration, velocities free; errors are recorded."""
    found = names.nothing()
    if spec.configuration is not None:
        _configuration(names, spec.configuration, found, path)
    if spec.base is not None:
        _base(names, lp.Section(names.reader, spec.base, (*path, "base")), found)
    for name, value in spec.joints.items():
        key_path: KeyPath = (*path, "joints", name)
        spot = _spot(names, name, key_path)
        if spot is not None:
            _joint_value(names, spot, value, found, key_path)
    if spec.configuration is not None and spec.configuration in names.model.configurations:
        _check_configuration(names, spec, found, path)
    return found


def read_joint(names: RobotNames, name: str, value: Any, path: KeyPath) -> PartialState | None:
    """One joint at a value, from a mapping with the keys ``name`` and ``value``; None where there is no such joint (recorded)."""
    found = names.nothing()
    spot = _spot(names, name, (*path, "name"), at_key=False)
    if spot is None:
        return None
    _joint_value(names, spot, value, found, (*path, "value"))
    return found


def read_state(names: RobotNames, state: RobotState, path: KeyPath) -> PartialState:
    """The given part of a state; errors are recorded."""
    model = names.model
    found = read_configuration(names, state, path)
    if state.rest:
        found.coordinates[model.nq :] = found.tangent[model.nv :] = True
    body = floating_base(model)
    if isinstance(state.base, Base) and body is not None:
        v = model.v_slice(body).start
        for key, start in (("linear_velocity", v), ("angular_velocity", v + 3)):
            speed = getattr(state.base, key)
            if speed is not None:
                _velocity(names, state, speed, slice(start, start + 3), found, (*path, "base", key))
    for name, value in state.velocities.items():
        key_path: KeyPath = (*path, "velocities", name)
        spot = _spot(names, name, key_path)
        if spot is not None:
            _velocity(names, state, value, spot.v, found, key_path)
    return found


def _configuration(names: RobotNames, name: str, found: PartialState, path: KeyPath) -> None:
    model = names.model
    if name not in model.configurations:
        none = f"; the robot file comes with none (set {names.key_path}.srdf)"
        hint = near(name, model.configurations) if model.configurations else none
        names.reader.findings.add((*path, "configuration"), f"no configuration named {name!r}{hint}")
        return
    found.x[: model.nq] = model.configurations[name]
    found.coordinates[: model.nq] = found.tangent[: model.nv] = True


def _check_configuration(names: RobotNames, spec: Configuration, found: PartialState, path: KeyPath) -> None:
    """Record values of a named configuration outside their bounds, unless the file gives them by joint."""
    own = {k for name in spec.joints if (spot := names.spots.get(name)) is not None for k in range(spot.q.start, spot.q.stop)}
    base = floating_base(names.model)
    if base is not None and spec.base is not None and spec.base.position is not None:
        own |= set(range(names.model.q_slice(base).start, names.model.q_slice(base).start + 3))
    check_bounds(names, found, (k for k in range(names.model.nq) if k not in own), (*path, "configuration"))


def _base(names: RobotNames, section: lp.Section, found: PartialState) -> None:
    model, body = names.model, floating_base(names.model)
    if body is None:
        section.refuse(f"the robot has no floating base; it needs {names.key_path}.root: free_flyer", at_key=True)
        return
    q, v = model.q_slice(body).start, model.v_slice(body).start
    _position(names, section, found, q, v)
    rotation = read_rotation(section.reader, section.spec, section.path)
    if rotation is not None:
        _set(found, slice(q + 3, q + 7), slice(v + 3, v + 6), rotation)


def _position(names: RobotNames, section: lp.Section, found: PartialState, q: int, v: int) -> None:
    """The position [3] of what moves freely, where it is given. q, v: where it begins in the state and its tangent."""
    if section.spec.position is not None:
        _set(found, slice(q, q + 3), slice(v, v + 3), section.value("position"))
        check_bounds(names, found, range(q, q + 3), section.at("position"))


def _joint_value(names: RobotNames, spot: Spot, value: Any, found: PartialState, path: KeyPath) -> None:
    reader, kind, what = names.reader, spot.kind, f"the joint {spot.name!r} is {spot.kind.name}; its value is"
    if kind.quaternion is not None:
        free = kind.group == "free"
        if not isinstance(value, JointPose) or (free and value.position is None) or not value.form():
            wanted = f"a position and a rotation, {{position: [x, y, z]}} with one of {ROTATION_FORMS}" if free else \
                f"a rotation, one of {ROTATION_FORMS}"
            reader.findings.add(path, f"{what} {wanted}")
            return
        if value.position is not None and not free:
            reader.findings.add((*path, "position"), f"{what} a rotation; it has no position", at_key=True)
            return
        rotation = read_rotation(reader, value, path)
        _position(names, lp.Section(reader, value, path), found, spot.q.start, spot.v.start)
        if rotation is not None:
            first = spot.q.start + kind.quaternion.start
            _set(found, slice(first, first + 4), slice(spot.v.stop - 3, spot.v.stop), rotation)
        return
    if spot.quaternions:
        inner = [name for name in names.spots if name.startswith(f"{spot.name}.")]
        reader.findings.add(path, f"the joint {spot.name!r} is {kind.name} and turns freely; give its parts: {', '.join(inner)}",
                            at_key=True)
    elif isinstance(value, JointPose):
        reader.findings.add(path, f"{what} {_wanted(kind.q_names)}, not a rotation")
    elif (len(value) if isinstance(value, tuple) else 1) != kind.nq:
        reader.findings.add(path, f"{what} {_wanted(kind.q_names)}")
    else:
        _set(found, spot.q, spot.v, reader.vector(value, kind.nq, path, "coordinates"))
        check_bounds(names, found, range(spot.q.start, spot.q.stop), path)


def _wanted(coordinates: tuple[str, ...]) -> str:
    return "a number" if len(coordinates) == 1 else f"a list [{', '.join(coordinates)}]"


def _velocity(names: RobotNames, state: RobotState, value: Any, vs: slice, found: PartialState, path: KeyPath) -> None:
    reader, model, size = names.reader, names.model, vs.stop - vs.start
    if size > 1 and not isinstance(value, tuple):
        reader.findings.add(path, f"needs a list of {size} velocities ({', '.join(model.velocity_names[vs])})")
        return
    numbers = reader.vector(value, size, path, "velocity components")
    if state.rest and any(n != 0.0 for n in numbers):
        reader.findings.add(path, "contradicts 'rest: true', which makes every velocity zero; name all velocities instead")
    key_path = slice(model.nq + vs.start, model.nq + vs.stop)
    _set(found, key_path, slice(model.nv + vs.start, model.nv + vs.stop), numbers)
    check_bounds(names, found, range(key_path.start, key_path.stop), path)


def _set(found: PartialState, coordinates: slice, tangent: slice, values: Any) -> None:
    found.x[coordinates] = values
    found.coordinates[coordinates] = found.tangent[tangent] = True


def check_bounds(names: RobotNames, found: PartialState, coordinates: Iterable[int], path: KeyPath) -> None:
    """Record values outside their bounds."""
    for k in coordinates:
        lower, upper = names.bounds[k]
        lp.check_inside(names.reader.findings, found.x[k], lower, upper, path, repr(names.space.names[k]))


def quaternion_coordinates(model: Model) -> set[str]:
    """Names of the coordinates that are components of quaternions."""
    found: set[str] = set()
    for kind, qs, _ in model.factors:
        if kind.quaternion is not None:
            found |= set(model.coordinate_names[qs][kind.quaternion])
    return found


# ---- guesses ------------------------------------------------------------------------------------------------------------
def guess_path(names: RobotNames, start: PartialState | None, final: PartialState | None, pieces: list[PartialState],
               s: np.ndarray) -> np.ndarray:
    """Guessed states [k, nx] at fractions s: the given pieces at equally spaced times, and where they are silent the line
    from start to final (a part given at one end only stays there, a part given at neither is neutral)."""
    first, last = complete(names, final, start), complete(names, start, final)
    nodes = np.linspace(0.0, 1.0, max(2, len(pieces)))
    path = lp.on_geodesic(names.space, np.array([0.0, 1.0]), np.array([first, last]), nodes)
    for k, row in enumerate(path):
        if pieces:
            piece = pieces[min(k, len(pieces) - 1)]
            row[piece.coordinates] = piece.x[piece.coordinates]
    return lp.on_geodesic(names.space, nodes, path, s)


def complete(names: RobotNames, *states: PartialState | None) -> np.ndarray:
    """A whole state [nx]: what the last of ``states`` gives, then the one before it, and at rest where all are silent."""
    attitude = {k for start in names.space.quaternions for k in range(start, start + 4)}
    x = np.array([value if k in attitude else lp.resting_value(names.bounds[k, 0], names.bounds[k, 1], value)
                  for k, value in enumerate(names.space.neutral)])
    for state in states:
        if state is not None:
            x[state.coordinates] = state.x[state.coordinates]
    return x
