"""One URDF ``<link>`` or ``<joint>``, checked and typed; no knowledge of the tree."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynamics.errors import ModelError, near
from dynamics.model.model import BodyInertia, Geometry, Limits, Mimic, Placement
from dynamics.model.records import BEYOND, computable
from dynamics.model.rigid import body_inertia, compose, placement, rotation_rpy
from dynamics.model.xmltree import Element, Notes, attribute, number, numbers, only, to_number, vocabulary

# URDF joint type -> joint kind
KIND_OF_TYPE = {"fixed": "fixed", "revolute": "revolute", "continuous": "continuous", "prismatic": "prismatic",
                "planar": "planar", "floating": "free_flyer"}
TRIANGLE_SLACK = 1e-6  # relative; tensors in files are rounded
ROUNDED = 1e-6  # how far from unit length an axis written with six digits may be; beyond, a note says so


@dataclass(frozen=True)
class LinkElement:
    """A link: its inertia in the link frame and what to draw."""

    name: str
    element: Element
    inertia: BodyInertia
    geometry: tuple[Geometry, ...]


@dataclass(frozen=True)
class JointElement:
    """A joint between two named links; ``axis`` is None for types that have none."""

    name: str
    element: Element
    kind: str
    parent: str
    child: str
    placement: Placement
    axis: tuple[float, ...] | None
    limits: Limits
    damping: tuple[float, ...]
    friction: tuple[float, ...]
    mimic: Mimic | None


def read_origin(parent: Element, where: str, notes: Notes) -> Placement:
    """The ``<origin>`` child: xyz (m) and rpy (rad, fixed axes), identity where absent."""
    origin = only(parent, "origin", where)
    if origin is None:
        return Placement()
    vocabulary(origin, where, notes, attributes=("xyz", "rpy"))
    zero = (0.0, 0.0, 0.0)
    return placement(rotation_rpy(*numbers(origin, "rpy", 3, where, zero)), numbers(origin, "xyz", 3, where, zero))


# ------------------------------------------------------------------------------------------------ links
def read_link(element: Element, notes: Notes, resolve: Callable[[str], str | None]) -> LinkElement:
    """Raises ModelError with the line of what is wrong."""
    name = attribute(element, "name", None)
    where = f"link {name!r}"
    vocabulary(element, where, notes, tags=("inertial", "visual", "collision"), attributes=("name",))
    inertial = only(element, "inertial", where)
    inertia = BodyInertia() if inertial is None else _read_inertial(inertial, where, notes)
    visual = [g for e in element.all("visual") for g in _read_shape(e, where, notes, resolve)]
    collision = [g for e in element.all("collision") for g in _read_shape(e, where, notes, resolve)]
    # collision shapes stand in where the visual ones are only mesh files, which need not exist
    if all(g.kind == "mesh" for g in visual):
        visual += [g for g in collision if g.kind != "mesh" or not visual]
    return LinkElement(name, element, inertia, tuple(visual))


def _read_inertial(element: Element, where: str, notes: Notes) -> BodyInertia:
    vocabulary(element, where, notes, tags=("origin", "mass", "inertia"))
    mass_element, tensor_element = only(element, "mass", where), only(element, "inertia", where)
    if mass_element is None:
        raise element.error(where, "<inertial> lacks <mass value=...>")
    if tensor_element is None:
        raise element.error(where, "<inertial> lacks <inertia ixx=... .../>; write zeros for a point mass")
    vocabulary(mass_element, where, notes, attributes=("value",))
    mass = number(mass_element, "value", where)
    if mass < 0:
        raise mass_element.error(where, f"mass must not be negative, got {mass:g} kg")
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    vocabulary(tensor_element, where, notes, attributes=names)
    xx, xy, xz, yy, yz, zz = (number(tensor_element, n, where) for n in names)
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not computable(mass, tensor):
        raise element.error(where, f"mass and inertia {BEYOND}")
    _check_tensor(tensor, tensor_element, where, notes)
    origin = read_origin(element, where, notes)
    R = np.asarray(origin.rotation)
    return body_inertia(mass, origin.position, R @ tensor @ R.T)


def _check_tensor(tensor: np.ndarray, element: Element, where: str, notes: Notes) -> None:
    low, middle, high = np.linalg.eigvalsh(tensor)
    slack = TRIANGLE_SLACK * max(float(np.abs(tensor).max()), 1e-12)
    negative = [n for n, value in zip(("ixx", "iyy", "izz"), np.diag(tensor), strict=True) if value < -slack]
    if negative:
        raise element.error(where, f"moment of inertia {negative[0]!r} must not be negative, "
                                   f"got {element.attributes[negative[0]]}")
    if low < -slack:  # known robots have this (products of inertia too large for the moments), so it is no error
        notes.tell(f"{where}: inertia is not positive semidefinite (smallest eigenvalue {low:.3g} kg m^2): "
                   "no rigid body has it", element.line)
    elif low + middle < high - slack:
        notes.tell(f"{where}: principal moments {low:.3g}, {middle:.3g}, {high:.3g} kg m^2 break the triangle "
                   "inequality: no rigid body has them (kept as given)", element.line)


def _read_shape(element: Element, where: str, notes: Notes, resolve: Callable[[str], str | None]) -> list[Geometry]:
    vocabulary(element, where, notes, tags=("origin", "geometry", "material"), attributes=("name",))
    geometry = only(element, "geometry", where)
    if geometry is None:
        raise element.error(where, f"<{element.tag}> lacks <geometry>")
    shapes = ("box", "cylinder", "sphere", "capsule", "mesh")
    vocabulary(geometry, where, notes, tags=shapes, attributes=("name",))
    at = read_origin(element, where, notes)
    out: list[Geometry] = []
    for shape in geometry.children:
        if shape.tag == "box":
            out.append(Geometry("box", _sizes(shape, where, numbers(shape, "size", 3, where)), at))
        elif shape.tag == "sphere":
            out.append(Geometry("sphere", _sizes(shape, where, (number(shape, "radius", where),)), at))
        elif shape.tag in ("cylinder", "capsule"):
            radius, length = number(shape, "radius", where), number(shape, "length", where)
            out.append(Geometry("cylinder", _sizes(shape, where, (radius, length)), at))
            if shape.tag == "capsule":  # a capsule is a cylinder between two spheres
                out += [Geometry("sphere", (radius,), compose(at, placement(None, (0, 0, side * length / 2))))
                        for side in (-1, 1)]
        elif shape.tag == "mesh":
            vocabulary(shape, where, notes, attributes=("filename", "scale"))
            uri = attribute(shape, "filename", where)
            path = resolve(uri)
            if path is None:
                notes.tell(f"{where}: mesh {uri!r} cannot be located; name its folder in `packages`", shape.line)
            scale = _scale(shape, where, notes)
            out.append(Geometry("mesh", () if scale == (1.0, 1.0, 1.0) else scale, at, path or uri))
    return out


def _scale(mesh: Element, where: str, notes: Notes) -> tuple[float, ...]:
    """Scale [3] of a mesh. It only matters to pictures, so that a slip is a note: one number holds for all axes, of several the
    first three count, and what is not numeric counts as 1."""
    try:
        return numbers(mesh, "scale", 3, where, (1.0, 1.0, 1.0))
    except ModelError as error:
        try:
            found = [to_number(word, mesh, where, "scale") for word in mesh.attributes["scale"].split()]
        except ModelError:
            found = []
        scale = tuple(found[:3]) if len(found) >= 3 else tuple(found) * 3 if len(found) == 1 else (1.0, 1.0, 1.0)
        notes.tell(f"{where}: {error.message}; the mesh is drawn with scale {' '.join(f'{s:g}' for s in scale)}", mesh.line)
        return scale


def _sizes(element: Element, where: str, sizes: tuple[float, ...]) -> tuple[float, ...]:
    if any(s < 0 for s in sizes):
        raise element.error(where, f"size of <{element.tag}> must not be negative, got {sizes}")
    return sizes


# ------------------------------------------------------------------------------------------------ joints
def read_joint(element: Element, notes: Notes) -> JointElement:
    """Raises ModelError with the line of what is wrong."""
    name = attribute(element, "name", None)
    where = f"joint {name!r}"
    kind_name = attribute(element, "type", where)
    if kind_name not in KIND_OF_TYPE:
        raise element.error(where, f"unknown joint type {kind_name!r}{near(kind_name.lower(), KIND_OF_TYPE)}")
    kind = KIND_OF_TYPE[kind_name]
    vocabulary(element, where, notes, attributes=("name", "type"),
               tags=("parent", "child", "origin", "axis", "limit", "dynamics", "mimic"))
    ends: list[str] = []
    for tag in ("parent", "child"):
        end = only(element, tag, where)
        if end is None:
            raise element.error(where, f"lacks <{tag} link=.../>")
        vocabulary(end, where, notes, attributes=("link",))
        ends.append(attribute(end, "link", where))
    damping, friction = _read_dynamics(element, where, kind, notes)
    return JointElement(name, element, kind, ends[0], ends[1], read_origin(element, where, notes),
                        _read_axis(element, where, kind, notes), _read_limits(element, where, kind, notes),
                        damping, friction, _read_mimic(element, where, name, kind, notes))


def _read_axis(joint: Element, where: str, kind: str, notes: Notes) -> tuple[float, ...] | None:
    element = only(joint, "axis", where)
    if element is not None:
        vocabulary(element, where, notes, attributes=("xyz",))
        axis = np.array(numbers(element, "xyz", 3, where))
    else:
        axis = np.array([1.0, 0.0, 0.0])  # the default of the URDF specification
    if kind in ("fixed", "free_flyer"):
        return None
    norm = math.hypot(*axis)
    if norm < 1e-9 and element is not None:
        raise element.error(where, f"axis must not be zero, got {element.attributes['xyz']!r}")
    if abs(norm - 1) > ROUNDED and element is not None:
        notes.tell(f"{where}: axis {element.attributes['xyz']!r} has length {norm:.6g}; normalised", element.line)
    return tuple(float(x) for x in (axis if abs(norm - 1) < 1e-15 else axis / norm) + 0.0)


def _read_limits(joint: Element, where: str, kind: str, notes: Notes) -> Limits:
    element = only(joint, "limit", where)
    if element is None:
        if kind in ("revolute", "prismatic"):
            notes.tell(f"{where}: URDF asks for <limit> on a {kind} joint; none given, so the joint is unlimited",
                       joint.line)
        return Limits()
    vocabulary(element, where, notes, attributes=("lower", "upper", "velocity", "effort"))
    rates: dict[str, tuple[float, ...] | None] = {"velocity": None, "effort": None}
    for which in rates:
        if which in element.attributes:
            value = number(element, which, where, infinite=True)
            if value < 0:
                raise element.error(where, f"{which} limit must not be negative, got {value:g}")
            rates[which] = (value,)
            if value == 0 and kind in ("revolute", "continuous", "prismatic"):
                notes.tell(f"{which} limit is 0: such a joint can{' bear no load' if which == 'effort' else 'not move'}"
                           " (kept as given)", element.line)
    lower = number(element, "lower", where, 0.0, infinite=True)
    upper = number(element, "upper", where, 0.0, infinite=True)
    if lower > upper:
        raise element.error(where, f"lower limit {lower:g} exceeds upper limit {upper:g}")
    if kind not in ("revolute", "continuous", "prismatic"):
        if kind != "fixed":
            notes.tell(f"{where}: <limit> has no meaning for several degrees of freedom; not read", element.line)
        return Limits()
    if kind == "continuous":
        if lower or upper:
            notes.tell(f"{where}: a continuous joint has no position limits; {lower:g} and {upper:g} not used",
                       element.line)
        return Limits(velocity=rates["velocity"], effort=rates["effort"])
    missing = [a for a in ("lower", "upper") if a not in element.attributes]
    if len(missing) == 2:
        # the specification's default, 0 for both, would lock the joint; no author means that
        notes.tell(f"{where}: <limit> has neither lower nor upper; the joint is unlimited", element.line)
        return Limits(velocity=rates["velocity"], effort=rates["effort"])
    if missing:
        notes.tell(f"{where}: <limit> lacks {missing[0]}, which the URDF specification sets to 0", element.line)
    if lower == upper:
        notes.tell(f"{where}: lower and upper limit are both {lower:g}: the joint cannot move", element.line)
    return Limits((lower,), (upper,), rates["velocity"], rates["effort"])


def _read_dynamics(joint: Element, where: str, kind: str, notes: Notes) -> tuple[tuple[float, ...], tuple[float, ...]]:
    element = only(joint, "dynamics", where)
    if element is None:
        return (), ()
    vocabulary(element, where, notes, attributes=("damping", "friction"))
    values = []
    for which in ("damping", "friction"):
        value = number(element, which, where, 0.0)
        if value < 0:
            raise element.error(where, f"{which} must not be negative, got {value:g}")
        values.append(value)
    if kind in ("planar", "free_flyer") and any(values):
        notes.tell(f"{where}: <dynamics> has no meaning for several degrees of freedom; not read", element.line)
    if kind in ("fixed", "planar", "free_flyer"):
        return (), ()
    return (values[0],) if values[0] else (), (values[1],) if values[1] else ()


def _read_mimic(joint: Element, where: str, name: str, kind: str, notes: Notes) -> Mimic | None:
    element = only(joint, "mimic", where)
    if element is None:
        return None
    vocabulary(element, where, notes, attributes=("joint", "multiplier", "offset"))
    leader = attribute(element, "joint", where)
    if kind == "fixed":
        notes.tell("<mimic> on a fixed joint has no effect", element.line)
        return None
    if kind in ("planar", "free_flyer"):
        raise element.error(where, "only a joint of one degree of freedom can mimic another")
    if leader == name:
        raise element.error(where, "mimics itself; <mimic joint=...> must name another joint")
    return Mimic(leader, number(element, "multiplier", where, 1.0), number(element, "offset", where, 0.0))


# ------------------------------------------------------------------------------------------------ transmissions
def read_armature(transmission: Element, notes: Notes) -> tuple[str, float] | None:
    """Joint name and reflected rotor inertia ``n^2 J`` of a simple transmission that states one, else None.

    ``mechanicalReduction`` n and ``rotorInertia`` J (kg m^2) are looked for in the transmission, its joint and its
    actuator.
    """
    joints, actuators = transmission.all("joint"), transmission.all("actuator")
    places = [transmission, *joints, *actuators]
    inertias = [e for p in places for tag in ("rotorInertia", "rotor_inertia") for e in p.all(tag)]
    if not inertias:
        notes.tell("<transmission> gives no rotor inertia; armature not set", transmission.line)
        return None
    if len(joints) != 1 or len(inertias) != 1:
        notes.tell("<transmission> couples several joints or rotors; armature not set", transmission.line)
        return None
    name = attribute(joints[0], "name", f"transmission {transmission.attributes.get('name', '')!r}")
    where = f"joint {name!r}"
    ratios = [e for p in places for tag in ("mechanicalReduction", "mechanical_reduction") for e in p.all(tag)]
    values = {to_number(e.text, e, where, f"<{e.tag}>") for e in ratios}
    if len(values) > 1:
        raise ratios[1].error(where, f"two different reductions {sorted(values)} for one joint")
    inertia = to_number(inertias[0].text, inertias[0], where, f"<{inertias[0].tag}>")
    if inertia < 0:
        raise inertias[0].error(where, f"rotor inertia must not be negative, got {inertia:g}")
    return name, (values.pop() if values else 1.0) ** 2 * inertia
