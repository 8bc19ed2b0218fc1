"""Read a robot from MJCF (or any file that MuJoCo compiles) through MuJoCo's own compiler.

Needs the ``mujoco`` extra. A Model has no contacts or closed loops; its notes list them. Springs, tendons and actuators
belong to the mechanism, which ``dynamics.mechanism.read_mechanism`` reads.
Conventions follow the MuJoCo documentation, chapters "Computation" and "XML Reference".
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dynamics.errors import ModelError
from dynamics.model.mjcf_constraints import beyond_the_tree, closing, couplings, tell_the_rest
from dynamics.model.model import Body, BodyInertia, Frame, Geometry, Joint, Limits, Mimic, Model, Placement
from dynamics.model.rigid import (
    body_inertia,
    compose,
    inverse,
    merged,
    moved,
    placement,
    rotation_axis_angle,
    rotation_quaternion,
)
from dynamics.model.validation import friction_note
from dynamics.model.xmltree import Notes, load

_KINDS = ("free_flyer", "spherical", "prismatic", "revolute")  # in the order of mjtJoint: free, ball, slide, hinge
_NV = {"free_flyer": 6, "spherical": 3, "prismatic": 1, "revolute": 1}

#: MuJoCo's model
MjModel: TypeAlias = Any


def read_mjcf(path_or_text: str | os.PathLike[str], *, gravity: tuple[float, ...] | None = None) -> Model:
    """The robot described by an MJCF file, given as a path or as its text.

    gravity: [3] m/s^2 in the world; None takes the file's.

    Coordinates are MuJoCo's own, in its order (quaternions are w, x, y, z in both), except that a joint tied to another
    by a linear ``<equality><joint>`` becomes a mimic joint and owns none. Velocities differ for a free joint only: ours
    is the twist of the body in its own axes, MuJoCo's linear part is in world axes.

    A body with several joints becomes a chain of massless bodies that ends in it; bodies without joints are merged into
    their parent. A body's frame sits at the anchor of its last joint; where that is not MuJoCo's body frame, a frame
    with the body's name is. Sites are frames; keyframes and the reference pose ``qpos0`` are named configurations.

    Raises ModelError naming the extra when MuJoCo is missing, and in MuJoCo's words and line when it cannot compile.
    """
    m, source, mujoco = compile_mjcf(path_or_text)
    notes = Notes()
    for sentence in beyond_the_tree(m, mujoco):
        notes.tell(sentence)
    return model_of(m, source, mujoco, notes, gravity).model


class Read(NamedTuple):
    """A tree, the names of the frames that its sites have become, and (name, joint, first frame, second frame) of what closes its
    loops."""

    model: Model
    sites: tuple[str, ...]
    loops: tuple[tuple[str, str, str, str], ...]


def model_of(m: MjModel, source: str | None, mujoco: ModuleType, notes: Notes, gravity: tuple[float, ...] | None = None,
             closed: bool = False) -> Read:
    """The tree of a compiled model; ``notes`` get what is left out. closed: with frames for what closes its loops."""
    joint_names = names_of(m, mujoco, "JOINT", m.njnt)
    tree = _Tree(m, mujoco, notes, joint_names, couplings(m, mujoco, joint_names, notes))
    for b, name in enumerate(names_of(m, mujoco, "BODY", m.nbody)):
        if b > 0:
            _add_body(tree, b, name)
    sites = tuple(_add_frame(tree, name, int(m.site_bodyid[s]), placement(rotation_quaternion(m.site_quat[s]), m.site_pos[s]))
                  for s, name in enumerate(names_of(m, mujoco, "SITE", m.nsite)))
    loops = []
    for name, joint, ends in closing(m, mujoco) if closed else ():
        first, second = (sites[number] if kind == "SITE" else _add_frame(tree, f"{name}.{which}", number, at)
                         for which, (kind, number, at) in zip(("first", "second"), ends, strict=True))
        loops.append((name, joint, first, second))
    tell_the_rest(m, notes)
    if (told := friction_note(c.joint for c in tree.carriers)) is not None:
        notes.tell(told)
    if tree.grounded:
        notes.tell(f"{tree.grounded:g} kg of bodies fixed to the world have no effect")
    bodies = tuple(Body(c.name, c.parent, c.joint, merged(c.parts), tuple(c.geometry)) for c in tree.carriers)
    try:
        model = Model(bytes(m.names).split(b"\0", 1)[0].decode() or "robot",  # the name buffer starts with the model's
                      bodies, tuple(tree.frames.values()),
                      tuple(float(x) for x in (m.opt.gravity if gravity is None else gravity)),
                      _configurations(tree), notes.lines())
    except ModelError as err:
        raise ModelError(err.message, source=source, line=err.line, element=err.element) from err
    return Read(model, sites, tuple(loops))


class Compiled(NamedTuple):
    """MuJoCo's model, the name of its file, and the module mujoco."""

    model: Any
    source: str | None
    mujoco: ModuleType


def compile_mjcf(path_or_text: str | os.PathLike[str]) -> Compiled:
    """(MuJoCo's model, name of the file, the module mujoco), with all that the file's flags disable switched off. Raises ModelError
    as ``read_mjcf`` does."""
    try:
        import mujoco
    except ImportError:
        raise ModelError("reading MJCF needs MuJoCo; get it with: pip install lieocp[mujoco]") from None
    content, source, path = load(path_or_text, "MJCF")
    try:
        m = mujoco.MjModel.from_xml_string(content) if path is None else mujoco.MjModel.from_xml_path(str(path))
        _disable(m, mujoco.mjtDisableBit)
        return Compiled(m, source, mujoco)
    except ValueError as err:
        words = " ".join(str(err).split())
        line = re.search(r"line(?: number)?[ =]+(\d+)", words, re.IGNORECASE)
        raise ModelError(f"MuJoCo cannot compile this model: {words}", source=source,
                         line=int(line.group(1)) if line else None) from err


def _disable(m: MjModel, bit: Any) -> None:
    """Zero what ``<option><flag .../>`` switches off, as MuJoCo's step would ignore it."""
    def off(*flags: str) -> bool:
        # older versions have one flag PASSIVE in the place of SPRING and DAMPER
        return any(int(m.opt.disableflags) & int(getattr(bit, f"mjDSBL_{flag}", 0)) for flag in flags)

    for flags, arrays in ((("GRAVITY",), (m.opt.gravity,)), (("EQUALITY", "CONSTRAINT"), (m.eq_active0,)),
                          (("SPRING", "PASSIVE"), (m.jnt_stiffness, m.tendon_stiffness)),
                          (("DAMPER", "PASSIVE"), (m.dof_damping, m.tendon_damping)),
                          (("FRICTIONLOSS", "CONSTRAINT"), (m.dof_frictionloss, m.tendon_frictionloss)),
                          (("LIMIT", "CONSTRAINT"), (m.jnt_limited, m.tendon_limited)),
                          (("CONTACT", "CONSTRAINT"), (m.geom_contype, m.geom_conaffinity)),
                          (("CLAMPCTRL",), (m.actuator_ctrllimited,))):
        if off(*flags):
            for array in arrays:
                array[:] = 0
    if off("PASSIVE") or (off("SPRING") and off("DAMPER")):  # then MuJoCo leaves out all passive forces
        m.body_gravcomp[:] = 0


def names_of(m: MjModel, mujoco: ModuleType, what: str, count: int) -> list[str]:
    """Names of all objects of one type; what and number, made unique, for those without one."""
    given = [mujoco.mj_id2name(m, getattr(mujoco.mjtObj, f"mjOBJ_{what}"), i) for i in range(count)]
    taken = Counter(name for name in given if name)
    out = []
    for i, name in enumerate(given):
        wish = name or f"{what.lower()}{i}"
        while not name and taken[wish]:
            wish += "_"
        out.append(wish)
    return out


# ------------------------------------------------------------------------------------------------ tree
@dataclass
class _Carrier:
    """A body being filled; ``index`` is MuJoCo's number of its joint."""

    name: str
    parent: int
    joint: Joint
    index: int
    parts: list[BodyInertia] = field(default_factory=list)
    geometry: list[Geometry] = field(default_factory=list)


@dataclass
class _Tree:
    m: MjModel
    mujoco: ModuleType
    notes: Notes
    joint_names: list[str]
    mimics: dict[int, Mimic]
    carriers: list[_Carrier] = field(default_factory=list)
    frames: dict[str, Frame] = field(default_factory=dict)
    at: dict[int, tuple[int, Placement]] = field(default_factory=lambda: {0: (-1, Placement())})
    names: set[str] = field(default_factory=lambda: {"world"})
    grounded: float = 0.0  # mass [kg] of bodies welded to the world

    def free_name(self, wish: str) -> str:
        name, count = wish, 2
        while name in self.names:
            name, count = f"{wish}_{count}", count + 1
        if name != wish:
            self.notes.tell(f"the name {wish!r} is used more than once; one is renamed to {name!r}")
        self.names.add(name)
        return name


def _add_body(tree: _Tree, b: int, name: str) -> None:
    """Body ``b`` with its chain of joints; ``tree.at[b]`` records where MuJoCo's frame of it sits on our last body."""
    m = tree.m
    body, at = tree.at[int(m.body_parentid[b])]
    at = compose(at, placement(rotation_quaternion(m.body_quat[b]), m.body_pos[b]))
    first, count = int(m.body_jntadr[b]), int(m.body_jntnum[b])
    for k in range(count):
        j = first + k
        kind, anchor, turn = _KINDS[int(m.jnt_type[j])], np.array(m.jnt_pos[j]), np.eye(3)
        reference = float(m.qpos0[m.jnt_qposadr[j]])
        if kind == "free_flyer":
            at, anchor = Placement(), np.zeros(3)  # a free joint measures the pose from the world, not from body_pos
        elif kind == "revolute":
            turn = rotation_axis_angle(m.jnt_axis[j], -reference)  # the file draws the body at the reference
        elif kind == "prismatic":
            at, anchor = compose(at, placement(None, -reference * m.jnt_axis[j])), np.zeros(3)
        carrier = tree.free_name(name if k == count - 1 else f"{name}_{k + 1}_of_{count}")
        joint = _joint(tree, j, kind, compose(at, placement(turn, anchor)))
        tree.carriers.append(_Carrier(carrier, body, joint, j))
        body, at = len(tree.carriers) - 1, placement(None, -anchor)
    tree.at[b] = (body, at)
    if count == 0:
        _add_frame(tree, name, b, Placement())
    elif at != Placement():
        tree.frames[carrier] = Frame(carrier, body, at)
    if body < 0:
        tree.grounded += float(m.body_mass[b])
        if m.body_geomnum[b]:
            tree.notes.tell("shapes of bodies fixed to the world are not imported")
        return
    own = placement(rotation_quaternion(m.body_iquat[b]), m.body_ipos[b])
    inertia = body_inertia(float(m.body_mass[b]), np.zeros(3), np.diag(m.body_inertia[b]))
    tree.carriers[body].parts.append(moved(compose(at, own), inertia))
    tree.carriers[body].geometry += _shapes(tree, b, at)


def _add_frame(tree: _Tree, name: str, b: int, local: Placement) -> str:
    body, at = tree.at[b]
    free = tree.free_name(name)
    tree.frames[free] = Frame(free, body, compose(at, local))
    return free


def _joint(tree: _Tree, j: int, kind: str, at: Placement) -> Joint:
    m, name = tree.m, tree.joint_names[j]
    dofs = slice(int(m.jnt_dofadr[j]), int(m.jnt_dofadr[j]) + _NV[kind])

    def per_dof(values: np.ndarray) -> tuple[float, ...]:
        return tuple(float(x) for x in values[dofs]) if np.any(values[dofs]) else ()

    axes: tuple[tuple[float, ...], ...] = ()
    lower = upper = effort = None
    if kind in ("revolute", "prismatic"):
        with np.errstate(invalid="ignore"):  # of an axis beyond all numbers; what comes out is refused
            axis = m.jnt_axis[j] / np.linalg.norm(m.jnt_axis[j])
        axes = (tuple(float(x) + 0.0 for x in axis),)
        if m.jnt_limited[j]:
            lower, upper = ((float(x),) for x in m.jnt_range[j])
        if m.jnt_actfrclimited[j]:
            low, high = (float(x) for x in m.jnt_actfrcrange[j])
            effort = (high,) if low == -high else None
            if effort is None:
                tree.notes.tell(f"joint {name!r}: actuator force range {low:g} to {high:g} is asymmetric; only drives keep it")
    elif m.jnt_limited[j]:
        tree.notes.tell(f"joint {name!r}: the range of a ball joint is not imported")
    for array, rows, what in (("jnt_stiffnesspoly", j, "nonlinear spring"), ("dof_dampingpoly", dofs, "nonlinear damper"),
                              ("jnt_springyield", j, "yielding spring")):
        if np.any(getattr(m, array, np.zeros(m.nv + m.njnt))[rows]):  # older versions have no such array
            tree.notes.tell(f"joint {name!r}: its {what} is not imported")
    return Joint(name, kind, at, axes, Limits(lower, upper, None, effort), per_dof(m.dof_armature),
                 per_dof(m.dof_damping), per_dof(m.dof_frictionloss), tree.mimics.get(j))


def _shapes(tree: _Tree, b: int, at: Placement) -> list[Geometry]:
    m, types = tree.m, tree.mujoco.mjtGeom
    out: list[Geometry] = []
    for g in range(int(m.body_geomadr[b]), int(m.body_geomadr[b]) + int(m.body_geomnum[b])):
        here = compose(at, placement(rotation_quaternion(m.geom_quat[g]), m.geom_pos[g]))
        size, kind = [float(x) for x in m.geom_size[g]], int(m.geom_type[g])
        if kind == types.mjGEOM_SPHERE:
            out.append(Geometry("sphere", (size[0],), here))
        elif kind == types.mjGEOM_BOX:
            out.append(Geometry("box", tuple(2 * s for s in size), here))  # MuJoCo gives half sizes
        elif kind in (types.mjGEOM_CYLINDER, types.mjGEOM_CAPSULE):
            out.append(Geometry("cylinder", (size[0], 2 * size[1]), here))
            if kind == types.mjGEOM_CAPSULE:
                out += [Geometry("sphere", (size[0],), compose(here, placement(None, (0.0, 0.0, side * size[1]))))
                        for side in (-1, 1)]
        elif kind == types.mjGEOM_MESH:
            out.append(_mesh(m, int(m.geom_dataid[g]), here))
        else:
            tree.notes.tell(f"shapes of type {types(kind).name.removeprefix('mjGEOM_').lower()} are not imported")
    return out


def _mesh(m: MjModel, i: int, here: Placement) -> Geometry:
    # MuJoCo moves the vertices into the mesh's principal axes; undo that to draw the file as it is
    moved_by = placement(rotation_quaternion(m.mesh_quat[i]), m.mesh_pos[i])
    start, scale = int(m.mesh_pathadr[i]), tuple(float(x) for x in m.mesh_scale[i])
    path = bytes(m.paths)[start:].split(b"\0", 1)[0].decode() if start >= 0 else None
    return Geometry("mesh", () if scale == (1.0, 1.0, 1.0) else scale, compose(here, inverse(moved_by)), path)


# ------------------------------------------------------------------------------------------------ configurations
def _configurations(tree: _Tree) -> dict[str, tuple[float, ...]]:
    m = tree.m
    found = {"qpos0": _ours(tree, m.qpos0, "qpos0")}
    for k, name in enumerate(names_of(m, tree.mujoco, "KEY", m.nkey)):
        found[f"key {name}" if name in found else name] = _ours(tree, m.key_qpos[k], name)
    return found


def _ours(tree: _Tree, qpos: np.ndarray, where: str) -> tuple[float, ...]:
    """MuJoCo's configuration without the coordinates of mimic joints, quaternions made unit."""
    q: list[float] = []
    for carrier in tree.carriers:
        start = int(tree.m.jnt_qposadr[carrier.index])
        kind, mimic = carrier.joint.kind, carrier.joint.mimic
        size = {"free_flyer": 7, "spherical": 4}.get(kind, 1)
        part = np.array(qpos[start:start + size], float)
        if mimic is not None:
            leader = float(qpos[tree.m.jnt_qposadr[tree.joint_names.index(mimic.leader)]])
            if abs(mimic.multiplier * leader + mimic.offset - part[0]) > 1e-9:
                tree.notes.tell(f"configuration {where!r}: joint {carrier.joint.name!r} does not obey its coupling; "
                                "its value is not used")
            continue
        if size > 1:
            part[-4:] /= np.linalg.norm(part[-4:])
        q += [float(x) for x in part]
    return tuple(q)
