"""Changes of a problem file to the tree of a robot, or the whole tree where it builds the robot itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynamics.errors import ModelError, near
from dynamics.joints import KINDS
from dynamics.model import shapes as solids
from dynamics.model.builder import BodyInertia, Builder, Geometry, Joint, Placement, change_joint, joint
from dynamics.model.model import Model
from dynamics.model.rigid import merged, moved, placement
from ocp.app.files.problem.gallery import in_gallery
from ocp.app.files.robot import states as robot_state
from ocp.app.files.robot.tree_schema import BodyPart
from ocp.app.files.syntax.reader import Section, sound
from ocp.app.pages.meshes import UnreadableMesh, whole_mesh


def read_tree(system: Section, model: Model | None, folder: Path) -> Model:
    """The robot with the ``joints`` changed and the ``bodies`` and ``frames`` added that the section describes.

    model: that of the robot file, None where the file names none. Paths are relative to ``folder``. Leaves the reader that calls it
    after an error was recorded.
    """
    spec, findings = system.spec, system.findings
    for name, change in spec.joints.items():
        section = system.part("joints", name)
        fields = _fields(section)
        if model is None:
            section.refuse("needs a robot file, whose joints it changes", at_key=True)
        elif not findings.reported() and (change.kind is None or _known(section)):
            with section.collecting():
                model = change_joint(model, name, change.kind, **fields)
    findings.settle()
    if model is not None and not (spec.bodies or spec.frames):
        return model
    builder = Builder("robot") if model is None else Builder.of(model)
    order = _in_order(system, model)
    lost = set(spec.bodies) - set(order)  # bodies and frames with errors, and what hangs from them: not reported again
    for name in order:
        if spec.bodies[name].parent in lost or not _add(system.part("bodies", name), builder, name, folder):
            lost.add(name)
    for name, frame in spec.frames.items():
        section = system.part("frames", name)
        if frame.body in lost:
            lost.add(name)
            continue
        with section.collecting("body"):
            builder.frame(name, body=frame.body, placement=_placed(section))
    findings.settle()
    return builder.build()


def _in_order(system: Section, model: Model | None) -> list[str]:
    """Names of the bodies, each after its parent; errors of parents are recorded."""
    own = [] if model is None else [*(body.name for body in model.bodies), *(frame.name for frame in model.frames)]
    known = ["world", *own]
    order: list[str] = []
    spec: Mapping[str, BodyPart] = system.spec.bodies
    left = dict(spec)
    while left:
        ready = [name for name, body in left.items() if body.parent in known or body.parent in order]
        if not ready:
            break
        order += ready
        left = {name: body for name, body in left.items() if name not in ready}
    for name, body in left.items():
        if body.parent not in spec:
            system.refuse(f"no body named {body.parent!r}{near(body.parent, [*known, *spec])}", "bodies", name, "parent")
        elif all(other.parent in spec for other in left.values()):
            system.refuse(f"{name!r} is its own ancestor; the parents of a tree lead to the world", "bodies", name, "parent")
    return order


@sound
def _add(section: Section, builder: Builder, name: str, folder: Path) -> bool:
    """Add a body; None after an error was recorded."""
    spec = section.spec
    made = _joint(section.part("joint"), spec.joint.name or name)
    shapes = [read_shape(shape, folder) for shape in section.parts("shapes")]
    section.findings.settle()
    if spec.density is None:
        inertia = BodyInertia(section.value("mass"), section.value("com"), section.value("inertia"))
    else:
        density, solid = section.value("density"), []
        for i, shape in enumerate(shapes):
            with section.collecting(*(("shapes", i, "mesh") if shape.kind == "mesh" else ("density",))):
                solid.append(moved(shape.placement, _solid(density, shape)))
        inertia = merged(solid)
    if made is not None:
        builder.body(name, parent=spec.parent, joint=made, inertia=inertia, geometry=shapes)
    return True


def _solid(density: float, shape: Geometry) -> BodyInertia:
    """The shape filled evenly, about its own centre."""
    if shape.kind == "box":
        return solids.box(density, shape.size)
    if shape.kind == "cylinder":
        return solids.cylinder(density, *shape.size)
    if shape.kind == "mesh":
        try:
            vertices, triangles = whole_mesh(str(shape.path))
        except UnreadableMesh as error:
            raise ModelError(f"mesh {shape.path} {error}") from None
        return solids.solid_of(density, vertices * (shape.size or 1.0), triangles)
    return solids.ellipsoid(density, shape.size * 3)


@sound
def _joint(section: Section, name: str) -> Joint:
    """The joint; None after an error was recorded."""
    fields = _fields(section)
    _known(section)
    section.findings.settle()
    return joint(name, section.spec.kind, **fields)


def _known(section: Section) -> bool:
    """Whether there are joints of the kind; others are recorded."""
    kind = section.spec.kind
    if kind not in KINDS:
        section.refuse(f"unknown kind of joint {kind!r}{near(kind, KINDS, most=30)}", "kind")
    return kind in KINDS


def _fields(section: Section) -> dict[str, Any]:
    """Arguments of ``dynamics.model.builder.joint``: what is given, as numbers."""
    numbers, spec = section.reader, section.spec
    keys = ("position", "axes", "points", "grid", "lower", "upper", "velocity", "effort", "damping", "armature")
    found = {key: section.value(key) for key in keys if getattr(spec, key, None) not in (None, ())}
    if (quaternion := robot_state.read_rotation(numbers, spec, section.path)) is not None:
        found["rotation"] = robot_state.rotation_matrix(quaternion)
    if spec.axis is not None:
        found["axes"] = (section.value("axis"),)
    if spec.frames:
        found["frames"] = tuple(_placed(part) for part in section.parts("frames"))
    if spec.chart:
        found["chart"] = spec.chart
    if spec.parts:
        parts = [_joint(part, part.spec.name) for part in section.parts("parts")]
        found["parts"] = tuple(part for part in parts if part is not None)
    return found


def _placed(section: Section) -> Placement:
    position = None if section.spec.position is None else section.value("position")
    quaternion = robot_state.read_rotation(section.reader, section.spec, section.path)
    return placement(None if quaternion is None else robot_state.rotation_matrix(quaternion), position)


def read_shape(section: Section, folder: Path) -> Geometry:
    """Something to draw, where it is placed; a mesh file is relative to the folder."""
    spec, file = section.spec, None
    kind = spec.shape()
    size: tuple[float, ...]
    if spec.mesh is not None:
        size = () if spec.scale is None else (section.value("scale"),) * 3
        if not (file := in_gallery(folder / spec.mesh)).is_file():
            section.refuse(f"no file {file}", kind)
    elif spec.cylinder is not None:
        size = tuple(section.value("cylinder").values())
    else:
        size = section.value("box") if spec.box is not None else (section.value("sphere"),)
    return Geometry(kind, size, _placed(section), None if file is None else str(file))
