"""Robots of the textbooks, built joint by joint: a planar arm, a SCARA, a z-y-x wrist, a quadruped and a biped.

The arms are those of Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023): Examples 2.8.5 (planar arm), 2.8.1
and 2.8.4 (SCARA), 2.9.7 (wrist). The notes give no masses; links here are slender uniform rods of the density asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynamics.errors import ModelError
from dynamics.model.builder import Builder
from dynamics.model.model import BodyInertia, Joint, Model, Placement

_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def planar_arm(lengths: Sequence[float] = (1.0, 1.0, 1.0), base_height: float = 0.0, *, density: float = 1.0) -> Model:
    """An arm in the x-z plane: every joint turns about +y, every link points along +z at q = 0.

    lengths: link lengths l_1 ... l_n (m), any number of them; base_height: l_0 (m), height of the first joint; density of the
    rods (kg/m). Frame ``end_effector`` at the tip: x = sum l_k sin, z = l_0 + sum l_k cos of the summed angles.
    """
    _positive("lengths", lengths)
    builder = Builder(f"planar_arm_{len(lengths)}")
    height, parent = base_height, "world"
    for k, length in enumerate(lengths, start=1):
        builder.body(f"link{k}", parent=parent, inertia=_rod(density * length, (0.0, 0.0, length)),
                     joint=Joint(f"joint{k}", "revolute", Placement(position=(0.0, 0.0, height)), (_Y,)))
        height, parent = length, f"link{k}"
    builder.frame("end_effector", body=parent, placement=Placement(position=(0.0, 0.0, height)))
    return builder.build()


def scara(lengths: Sequence[float] = (0.4, 0.3), base_height: float = 0.5, *, density: float = 5.0) -> Model:
    """A SCARA, q = (alpha, beta, gamma, zeta): three turns about the vertical, then a slide along it (positive upwards).

    lengths: the two horizontal links (m), along x at q = 0; base_height: height of the arm (m). Frame ``end_effector``:
    x = l_1 cos(alpha) + l_2 cos(alpha + beta), y alike with sines, z = base_height + zeta, heading alpha + beta + gamma.
    """
    _positive("lengths", lengths, 2)
    first, second = lengths
    builder = Builder("scara")
    at = Placement
    builder.body("arm", parent="world", inertia=_rod(density * first, (first, 0.0, 0.0)),
                 joint=Joint("alpha", "revolute", at(position=(0.0, 0.0, base_height)), (_Z,)))
    builder.body("forearm", parent="arm", inertia=_rod(density * second, (second, 0.0, 0.0)),
                 joint=Joint("beta", "revolute", at(position=(first, 0.0, 0.0)), (_Z,)))
    builder.body("spindle", parent="forearm", inertia=_rod(0.3, (0.0, 0.0, 0.1)),
                 joint=Joint("gamma", "revolute", at(position=(second, 0.0, 0.0)), (_Z,)))
    builder.body("quill", parent="spindle", inertia=_rod(0.3, (0.0, 0.0, -0.2)), joint=Joint("zeta", "prismatic", axes=(_Z,)))
    builder.frame("end_effector", body="quill")
    return builder.build()


def wrist_zyx(*, mass: float = 0.5, size: float = 0.1) -> Model:
    """A wrist of three intersecting axes z, y, x: the rotation of frame ``end_effector`` is ``Rz(q1) Ry(q2) Rx(q3)``.

    mass (kg) and edge length (m) of the cube that each of the three bodies is.
    """
    _positive("mass and size", (mass, size))
    builder, parent = Builder("wrist_zyx"), "world"
    moment = mass * size**2 / 6
    cube = BodyInertia(mass, (0.0, 0.0, 0.0), ((moment, 0.0, 0.0), (0.0, moment, 0.0), (0.0, 0.0, moment)))
    for name, axis in (("z", _Z), ("y", _Y), ("x", _X)):
        builder.body(f"turned_{name}", parent=parent, joint=Joint(name, "revolute", axes=(axis,)), inertia=cube)
        parent = f"turned_{name}"
    builder.frame("end_effector", body=parent)
    return builder.build()


def quadruped(*, trunk: Sequence[float] = (0.6, 0.3, 0.15), thigh: float = 0.3, shank: float = 0.3) -> Model:
    """A quadruped on point feet: a floating trunk and four legs LF, RF, LH, RH of three joints each, nv = 18.

    Each leg: ``<leg>_HAA`` about x, ``<leg>_HFE`` and ``<leg>_KFE`` about y; frame ``<leg>_FOOT`` at the end of the shank,
    which points along -z at q = 0. trunk: length, width, height (m); thigh, shank: lengths (m).
    """
    _positive("trunk", trunk, 3)
    _positive("thigh and shank", (thigh, shank))
    builder = Builder("quadruped")
    builder.body("trunk", parent="world", joint=Joint("base", "free_flyer"), inertia=_box(12.0, trunk))
    for leg, fore, side in (("LF", 1, 1), ("RF", 1, -1), ("LH", -1, 1), ("RH", -1, -1)):
        hip = Placement(position=(fore * trunk[0] / 2, side * trunk[1] / 2, 0.0))
        builder.body(f"{leg}_HIP", parent="trunk", joint=Joint(f"{leg}_HAA", "revolute", hip, (_X,)),
                     inertia=_box(0.5, (0.08, 0.08, 0.08)))
        out = Placement(position=(0.0, side * 0.08, 0.0))
        builder.body(f"{leg}_THIGH", parent=f"{leg}_HIP", joint=Joint(f"{leg}_HFE", "revolute", out, (_Y,)),
                     inertia=_rod(0.8, (0.0, 0.0, -thigh)))
        knee = Placement(position=(0.0, 0.0, -thigh))
        builder.body(f"{leg}_SHANK", parent=f"{leg}_THIGH", joint=Joint(f"{leg}_KFE", "revolute", knee, (_Y,)),
                     inertia=_rod(0.3, (0.0, 0.0, -shank)))
        builder.frame(f"{leg}_FOOT", body=f"{leg}_SHANK", placement=Placement(position=(0.0, 0.0, -shank)))
    return builder.build()


def biped(*, hip_width: float = 0.2, thigh: float = 0.4, shank: float = 0.4, ankle_height: float = 0.08) -> Model:
    """A biped on extended feet: a floating pelvis and two legs L, R of six joints each, nv = 18.

    Each leg: hip about z, x, y, knee about y, ankle about y, x. Frame ``<side>_SOLE`` on the ground side of the foot, x
    forwards and z upwards at q = 0. Lengths in m.
    """
    _positive("hip_width, thigh, shank and ankle_height", (hip_width, thigh, shank, ankle_height))
    builder = Builder("biped")
    builder.body("pelvis", parent="world", joint=Joint("base", "free_flyer"), inertia=_box(20.0, (0.2, 0.3, 0.4)))
    small = _box(0.5, (0.06, 0.06, 0.06))
    for side, sign in (("L", 1), ("R", -1)):
        parent = "pelvis"
        for name, axis, position, inertia in (
                ("HIP_Z", _Z, (0.0, sign * hip_width / 2, -0.2), small), ("HIP_X", _X, (0.0, 0.0, 0.0), small),
                ("HIP_Y", _Y, (0.0, 0.0, 0.0), _rod(4.0, (0.0, 0.0, -thigh))),
                ("KNEE", _Y, (0.0, 0.0, -thigh), _rod(3.0, (0.0, 0.0, -shank))),
                ("ANKLE_Y", _Y, (0.0, 0.0, -shank), small), ("ANKLE_X", _X, (0.0, 0.0, 0.0), _box(1.0, (0.22, 0.1, 0.05)))):
            builder.body(f"{side}_{name}_LINK", parent=parent, inertia=inertia,
                         joint=Joint(f"{side}_{name}", "revolute", Placement(position=position), (axis,)))
            parent = f"{side}_{name}_LINK"
        builder.frame(f"{side}_SOLE", body=parent, placement=Placement(position=(0.0, 0.0, -ankle_height)))
    return builder.build()


def _rod(mass: float, span: Sequence[float]) -> BodyInertia:
    """A slender uniform rod from the body origin to ``span`` [3] (m), along one of the axes."""
    squares = [x * x for x in span]
    across = [mass * (sum(squares) - s) / 12 for s in squares]
    # a rod without thickness resists no turn about itself: one thousandth keeps the mass matrix regular
    thin = 1e-3 * max(across)
    tensor = tuple(tuple(max(across[i], thin) if i == j else 0.0 for j in range(3)) for i in range(3))
    return BodyInertia(mass, (span[0] / 2, span[1] / 2, span[2] / 2), tensor)


def _box(mass: float, edges: Sequence[float]) -> BodyInertia:
    squares = [x * x for x in edges]
    tensor = tuple(tuple(mass * (sum(squares) - squares[i]) / 12 if i == j else 0.0 for j in range(3)) for i in range(3))
    return BodyInertia(mass, (0.0, 0.0, 0.0), tensor)


def _positive(what: str, values: Sequence[float], count: int | None = None) -> None:
    if count is not None and len(values) != count:
        raise ModelError(f"{what}: expected {count} values, got {len(values)}")
    if not values or any(not 0.0 < x < float("inf") for x in values):
        raise ModelError(f"{what} must be positive and finite, got {tuple(values)}")
