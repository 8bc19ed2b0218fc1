"""The records a robot is made of: placements, inertias, limits, joints, bodies, frames. Plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

Vector = tuple[float, ...]
Matrix = tuple[tuple[float, ...], ...]
GRAVITY: Vector = (0.0, 0.0, -9.81)
#: in SI units; products of three such numbers, as mass times length squared, are numbers too
LARGEST = 1e100
BEYOND = f"must be numbers of at most {LARGEST:g}, for products of larger ones are none"
IDENTITY: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def computable(*values: ArrayLike) -> bool:
    """Whether these are numbers that mechanics may multiply."""
    return all(bool(np.all(np.abs(np.asarray(value, float)) <= LARGEST)) for value in values)


@dataclass(frozen=True)
class Placement:
    """Constant pose of a frame in its parent: rotation [3, 3] and origin [3] (m)."""

    rotation: Matrix = IDENTITY
    position: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class BodyInertia:
    """Mass [kg], centre of mass [3] (m, body frame), inertia about the centre of mass [3, 3] (kg m^2, body axes)."""

    mass: float = 0.0
    com: Vector = (0.0, 0.0, 0.0)
    inertia: Matrix = ((0.0,) * 3,) * 3


@dataclass(frozen=True)
class Limits:
    """Per-coordinate limits of a joint, each a tuple or None when the joint has none.

    lower, upper: [nq] rad or m (only for kinds whose coordinates are a vector space); velocity: [nv] rad/s or m/s;
    effort: [nv] N m or N. Infinite entries are allowed.
    """

    lower: Vector | None = None
    upper: Vector | None = None
    velocity: Vector | None = None
    effort: Vector | None = None


@dataclass(frozen=True)
class Mimic:
    """``q_joint = multiplier * q_leader + offset`` (rad or m); only between joints of one degree of freedom."""

    leader: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Joint:
    """One joint: kind (a key of ``dynamics.joints.KINDS``), placement of the joint frame in the parent body, axes
    (unit vectors in the joint frame; as many as the kind needs), limits, armature (reflected rotor inertia added to the
    diagonal of the mass matrix, kg m^2 or kg), damping (N m s/rad or N s/m), dry friction (N m or N), all [nv].

    Some kinds need more: chart, the name of coordinates of a rotation (three letters of Euler angles, or ``rotation_vector``);
    parts, the joints of a chain (``composite``; each with kind, placement in the frame of the one before, and parameters of
    its own); points of a curve [n][3] (m); frames along a curve; grid of points of a surface [rows][columns][6]."""

    name: str
    kind: str
    placement: Placement = Placement()
    axes: tuple[Vector, ...] = ()
    limits: Limits = Limits()
    armature: Vector = ()
    damping: Vector = ()
    friction: Vector = ()
    mimic: Mimic | None = None
    chart: str = ""
    parts: tuple[Joint, ...] = ()
    points: tuple[Vector, ...] = ()
    frames: tuple[Placement, ...] = ()
    grid: tuple[tuple[Vector, ...], ...] = ()


@dataclass(frozen=True)
class Body:
    """One rigid body; ``geometry`` holds drawing primitives only (never used by dynamics)."""

    name: str
    parent: int
    joint: Joint
    inertia: BodyInertia = BodyInertia()
    geometry: tuple[Geometry, ...] = ()


@dataclass(frozen=True)
class Geometry:
    """A primitive to draw: kind ``sphere`` (radius), ``box`` (x, y, z), ``cylinder`` (radius, length) or ``mesh``
    (``path`` names the file; size: scale factors along x, y, z, or none), placed in the body frame. Sizes in m."""

    kind: str
    size: Vector = ()
    placement: Placement = Placement()
    path: str | None = None


@dataclass(frozen=True)
class Frame:
    """A named frame fixed to a body (-1: to the world)."""

    name: str
    body: int
    placement: Placement = Placement()
