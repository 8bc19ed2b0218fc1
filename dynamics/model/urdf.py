"""Read a robot from URDF (http://wiki.ros.org/urdf/XML), without ROS and without the mesh files.

Nothing is dropped without a word: what is not read, changed or odd is listed in ``Model.notes``, what is wrong raises
ModelError with file, line and element.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from dynamics.errors import ModelError, near
from dynamics.model.model import (
    GRAVITY,
    Body,
    BodyInertia,
    Frame,
    Geometry,
    Joint,
    Mimic,
    Model,
    Placement,
)
from dynamics.model.packages import resolve
from dynamics.model.rigid import compose, inverse, merged, moved, placement, rotation_from_z
from dynamics.model.srdf import apply_srdf, find_srdf
from dynamics.model.urdf_elements import JointElement, LinkElement, read_joint, read_link
from dynamics.model.urdf_topology import SINGLE_AXIS, armatures, mimics, root_link
from dynamics.model.validation import friction_note, smallest_inertia
from dynamics.model.xmltree import Element, Notes, load, parse


def read_urdf(path_or_text: str | os.PathLike[str], *, root: Literal["fixed", "free_flyer", "planar"] = "fixed",
              lump_fixed: bool = True, keep_fixed: Collection[str] = (),
              packages: Mapping[str, str | os.PathLike[str]] | None = None,
              srdf: str | os.PathLike[str] | None = None, mimic: Literal["couple", "independent"] = "couple",
              gravity: tuple[float, ...] = GRAVITY) -> Model:
    """The robot described by a URDF file, given as a path or as its text.

    root: "fixed" welds the root link to the world (its inertia then has no effect, its name is a frame of the world);
        "free_flyer" and "planar" (in the x-y plane of the world) carry it by a joint named ``root_joint``.
    lump_fixed: merge links behind fixed joints into the body that carries them, each name staying as a frame. False
        keeps every one as a body with a joint of kind "fixed". keep_fixed: names of fixed joints that stay joints all the same.
    packages: folder of each package by name, for ``package://`` and ``model://`` mesh paths (see ``packages.resolve``).
    srdf: path or text of an SRDF file whose group states become named configurations, or "auto": the file of the same
        name beside the URDF or in ``../srdf`` where there is one; it may name joints that the robot lacks (a note).
    mimic: "couple" makes every mimic joint follow its leader exactly; "independent" reads each as a joint of its own.
    gravity: [3] m/s^2 in the world.

    Bodies and joints come depth first, in the order of the file. The body frame is the joint frame after motion, i.e.
    the URDF link frame; only for a planar joint whose normal is not z is it turned, and a frame with the link's name
    keeps the original. A mimic joint follows its independent leader (chains are composed). An axis left out is x, and
    one of ``lower`` and ``upper`` left out of a <limit> is 0, as the URDF specification says; with both left out the
    joint is unlimited.

    Raises ModelError with source, line and element.
    """
    if root not in ("fixed", "free_flyer", "planar"):
        raise ModelError(f"unknown root {root!r}{near(str(root), ('fixed', 'free_flyer', 'planar'))}")
    if mimic not in ("couple", "independent"):
        raise ModelError(f"unknown treatment of mimic joints {mimic!r}{near(str(mimic), ('couple', 'independent'))}")
    content, source, path = load(path_or_text, "URDF")
    top, notes = parse(content, source), Notes()
    links, joints = _read_elements(top, notes, path.parent if path else None, packages)
    start = root_link(top, links, joints)
    armature = armatures(top, joints, notes)
    tree = _Tree(notes, {}, armature, mimics(joints, mimic == "couple", notes),
                 frozenset(name for name, j in joints.items() if j.kind == "fixed" and lump_fixed and name not in keep_fixed))
    _grow(tree, links, joints, start, root)
    if "name" not in top.attributes:
        notes.tell("<robot> has no name", top.line)
    name = top.attributes.get("name") or (path.stem if path else "robot")
    model = _assemble(tree, name, source, gravity)
    fixed = [j.name for j in joints.values() if j.kind == "fixed"]
    if srdf == "auto":
        if path is None:
            raise ModelError("srdf='auto' looks beside the URDF file, but its text was given; pass the SRDF path",
                             source=source)
        found = find_srdf(path, name)
        return model if found is None else apply_srdf(found, model, fixed_joints=fixed, unknown_joints="note")
    return model if srdf is None else apply_srdf(srdf, model, fixed_joints=fixed)


# ------------------------------------------------------------------------------------------------ elements
def _read_elements(top: Element, notes: Notes, base: Path | None, packages: Mapping[str, str | os.PathLike[str]] | None
                   ) -> tuple[dict[str, LinkElement], dict[str, JointElement]]:
    if top.tag != "robot":
        hint = {"mujoco": "; this is MJCF, use read_mjcf", "sdf": "; this is SDF, which is not read"}.get(top.tag, "")
        raise top.error(None, f"root element must be <robot>, got <{top.tag}>{hint}")
    links: dict[str, LinkElement] = {}
    joints: dict[str, JointElement] = {}
    for element in top.children:
        if element.tag.startswith("xacro:"):
            raise element.error(None, f"<{element.tag}>: a xacro file; run xacro on it first and read the result")
        if element.tag == "link":
            link = read_link(element, notes, lambda uri: resolve(uri, base, packages))
            if link.name in links:
                raise _twice("link", link.name, element, links[link.name].element)
            links[link.name] = link
        elif element.tag == "joint":
            joint = read_joint(element, notes)
            if joint.name in joints:
                raise _twice("joint", joint.name, element, joints[joint.name].element)
            joints[joint.name] = joint
        elif element.tag not in ("transmission", "material"):
            if element.tag.lower() in ("link", "joint"):
                raise element.error(None, f"unknown element <{element.tag}>; did you mean <{element.tag.lower()}>?")
            notes.tell(f"<{element.tag}> in <robot> is not read", element.line)
    if not links:
        raise top.error(None, "the robot has no <link>")
    return links, joints


def _twice(what: str, name: str, element: Element, first: Element) -> ModelError:
    return element.error(f"{what} {name!r}", f"the name is already taken on line {first.line}; names must differ")


# ------------------------------------------------------------------------------------------------ tree
@dataclass
class _Carrier:
    """A body being filled: what hangs rigidly from it, all in its frame."""

    name: str
    parent: int
    joint: Joint
    parts: list[BodyInertia] = field(default_factory=list)
    geometry: list[Geometry] = field(default_factory=list)


@dataclass
class _Tree:
    notes: Notes
    frames: dict[str, Frame]
    armature: Mapping[str, float]
    mimics: Mapping[str, Mimic]
    lumped: frozenset[str]  # fixed joints
    carriers: list[_Carrier] = field(default_factory=list)
    grounded: float = 0.0  # mass [kg] of links welded to the world

    def carry(self, name: str, parent: int, joint: Joint) -> int:
        self.carriers.append(_Carrier(name, parent, joint))
        return len(self.carriers) - 1

    def attach(self, link: LinkElement, body: int, at: Placement) -> None:
        if body < 0:
            self.grounded += link.inertia.mass
            if link.geometry:
                self.notes.tell("shapes of links fixed to the world are not imported", link.element.line)
            return
        self.carriers[body].parts.append(moved(at, link.inertia))
        self.carriers[body].geometry += [
            Geometry(g.kind, g.size, compose(at, g.placement), g.path) for g in link.geometry]


def _grow(tree: _Tree, links: Mapping[str, LinkElement], joints: Mapping[str, JointElement], start: str,
          root: str) -> None:
    below: dict[str, list[JointElement]] = {name: [] for name in links}
    for joint in joints.values():
        below[joint.parent].append(joint)
    body = -1
    if root != "fixed":
        name = _free_name("root_joint", joints)
        body = tree.carry(_moving_name(start, links, tree.notes), -1, Joint(name, root))
    _name_frame(tree, start, body, Placement(), links)
    tree.attach(links[start], body, Placement())
    pending = [(j, body, Placement()) for j in reversed(below[start])]
    while pending:
        joint, body, at = pending.pop()  # `at` is the parent link's frame in its body
        at = compose(at, joint.placement)
        if joint.name not in tree.lumped:
            # the joint frame of a planar joint has the plane's normal for its z axis; the link frame turns with it
            turn = placement(rotation_from_z(joint.axis)) if joint.kind == "planar" and joint.axis else Placement()
            body = tree.carry(_moving_name(joint.child, links, tree.notes), body,
                              _model_joint(tree, joint, compose(at, turn)))
            at = inverse(turn)
        _name_frame(tree, joint.child, body, at, links)
        tree.attach(links[joint.child], body, at)
        pending += [(j, body, at) for j in reversed(below[joint.child])]


def _model_joint(tree: _Tree, joint: JointElement, at: Placement) -> Joint:
    armature = tree.armature.get(joint.name, 0.0)
    return Joint(joint.name, joint.kind, at, (joint.axis,) if joint.kind in SINGLE_AXIS and joint.axis else (),
                 joint.limits, (armature,) if armature else (), joint.damping, joint.friction,
                 tree.mimics.get(joint.name))


def _name_frame(tree: _Tree, link: str, body: int, at: Placement, links: Mapping[str, LinkElement]) -> None:
    """A frame with the link's name, unless the body (or the world) is that very frame."""
    if body < 0 and at == Placement() and link == "world":
        return
    name = _moving_name(link, links, tree.notes)
    if body < 0 or at != Placement() or tree.carriers[body].name != name:
        tree.frames[name] = Frame(name, body, at)


def _moving_name(link: str, links: Mapping[str, LinkElement], notes: Notes) -> str:
    """The link's name; another one for a link called "world" that is not the inertial frame."""
    if link != "world":
        return link
    name = _free_name("world_link", links)
    notes.tell(f"link 'world' is not the inertial frame; it is renamed to {name!r}")
    return name


def _free_name(wish: str, taken: Mapping[str, object]) -> str:
    name, count = wish, 2
    while name in taken:
        name, count = f"{wish}_{count}", count + 1
    return name


def _assemble(tree: _Tree, name: str, source: str | None, gravity: tuple[float, ...]) -> Model:
    if tree.grounded:
        tree.notes.tell(f"{tree.grounded:g} kg of links fixed to the world have no effect")
    bodies = []
    for carrier in tree.carriers:
        body = Body(carrier.name, carrier.parent, carrier.joint, merged(carrier.parts), tuple(carrier.geometry))
        if (negative := smallest_inertia(body)) is not None:
            tree.notes.tell(f"body {body.name!r}: the inertia of the whole body has eigenvalue {negative:.3g} kg m^2: "
                            "kept as given, but the mass matrix may be indefinite")
        bodies.append(body)
    if (told := friction_note(body.joint for body in bodies)) is not None:
        tree.notes.tell(told)
    leaders = {b.parent for b in bodies}
    for i, body in enumerate(bodies):
        bare = body.inertia.mass == 0 and not np.any(body.inertia.inertia) and not any(body.joint.armature)
        if bare and i not in leaders and body.joint.kind != "fixed" and body.joint.mimic is None:
            tree.notes.tell(f"joint {body.joint.name!r} moves no mass: the mass matrix is singular")
    try:
        return Model(name, tuple(bodies), tuple(tree.frames.values()), tuple(float(g) for g in gravity), {},
                     tree.notes.lines())
    except ModelError as err:
        raise ModelError(err.message, source=source, line=err.line, element=err.element) from err
