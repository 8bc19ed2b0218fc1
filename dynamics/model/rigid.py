"""Constant poses and inertias in plain NumPy, for readers: what is fixed once need never be symbolic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from dynamics.errors import ModelError
from dynamics.model.model import BodyInertia, Placement
from dynamics.model.records import BEYOND, computable

# Files write quarter turns with few digits (1.57079632679). An angle this close (rad) to a multiple of pi/2 is taken as
# exact, so that the rotation matrix keeps its structural zeros; over one metre that is 0.1 nm.
QUARTER_TURN_SLACK = 1e-10


def placement(rotation: np.ndarray | None = None, position: Sequence[float] | np.ndarray | None = None) -> Placement:
    """A Placement from arrays [3, 3] and [3]; identity where None."""
    R = np.eye(3) if rotation is None else np.asarray(rotation, float)
    p = np.zeros(3) if position is None else np.asarray(position, float)
    # + 0.0 turns -0.0 into 0.0: equal robots then print, and fingerprint, equally
    return Placement(tuple(tuple(float(x) + 0.0 for x in row) for row in R), tuple(float(x) + 0.0 for x in p))


def compose(A_H_B: Placement, B_H_C: Placement) -> Placement:
    """``A_H_C = A_H_B B_H_C``."""
    R = np.asarray(A_H_B.rotation)
    return placement(R @ np.asarray(B_H_C.rotation), np.asarray(A_H_B.position) + R @ np.asarray(B_H_C.position))


def inverse(A_H_B: Placement) -> Placement:
    """``B_H_A``."""
    Rt = np.asarray(A_H_B.rotation).T
    return placement(Rt, -Rt @ np.asarray(A_H_B.position))


def _cos_sin(angle: float) -> tuple[float, float]:
    turns = round(angle / (math.pi / 2))
    if abs(angle - turns * (math.pi / 2)) < QUARTER_TURN_SLACK * max(1, abs(turns)):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[turns % 4]
    return math.cos(angle), math.sin(angle)


def rotation_rpy(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """[3, 3] rotation of URDF's fixed-axis x-y-z angles (rad), ``Rz(yaw) Ry(pitch) Rx(roll)``."""
    (cr, sr), (cp, sp), (cy, sy) = _cos_sin(roll), _cos_sin(pitch), _cos_sin(yaw)
    Rx = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    Ry = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    Rz = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return np.asarray(Rz @ Ry @ Rx)


def rotation_axis_angle(axis: Sequence[float] | np.ndarray, angle: float) -> np.ndarray:
    """[3, 3] rotation by ``angle`` (rad) about a unit axis [3], Rodrigues' formula."""
    a = np.asarray(axis, float)
    c, s = _cos_sin(angle)
    hat = np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])
    return np.asarray(np.outer(a, a) + c * (np.eye(3) - np.outer(a, a)) + s * hat)


def rotation_quaternion(q: Sequence[float] | np.ndarray) -> np.ndarray:
    """[3, 3] rotation of a quaternion (w, x, y, z) of any positive norm."""
    w, x, y, z = np.asarray(q, float) / np.linalg.norm(q)
    R = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])
    nearest = np.round(R)
    return np.where(np.abs(R - nearest) < 1e-15, nearest, R)  # rounding noise would hide structural zeros


def rotation_from_z(axis: Sequence[float] | np.ndarray) -> np.ndarray:
    """[3, 3] rotation of least angle that takes the z axis to a unit ``axis`` [3]."""
    a = np.asarray(axis, float)
    if a[2] < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])  # half a turn about x; the least rotation is not unique here
    v = np.array([-a[1], a[0], 0.0])  # z x a
    hat = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.asarray(np.eye(3) + hat + hat @ hat / (1 + a[2]))


def moved(A_H_B: Placement, inertia: BodyInertia) -> BodyInertia:
    """An inertia given in frame B, expressed in frame A (still about its own centre of mass)."""
    R, p = np.asarray(A_H_B.rotation), np.asarray(A_H_B.position)
    return body_inertia(inertia.mass, p + R @ np.asarray(inertia.com), R @ np.asarray(inertia.inertia) @ R.T)


def body_inertia(mass: float, com: Sequence[float] | np.ndarray, tensor: np.ndarray) -> BodyInertia:
    """A BodyInertia from arrays, the tensor made exactly symmetric and free of rounding noise. Raises ModelError for numbers whose
    products are none."""
    I = np.asarray(tensor, float)
    if not computable(mass, com, I):
        raise ModelError(f"mass, mass centre and inertia {BEYOND}", element="inertia")
    I = (I + I.T) / 2
    I = np.where(np.abs(I) < 1e-16 * np.abs(I).max(), 0.0, I)
    return BodyInertia(float(mass), tuple(float(x) + 0.0 for x in np.asarray(com, float)),
                       tuple(tuple(float(x) + 0.0 for x in row) for row in I))


def merged(parts: Iterable[BodyInertia]) -> BodyInertia:
    """One inertia for rigidly joined parts given in one frame; parallel-axis theorem."""
    parts = [part for part in parts if part.mass or np.any(part.inertia)]
    if len(parts) <= 1:
        return parts[0] if parts else BodyInertia()
    mass = math.fsum(part.mass for part in parts)
    if mass == 0.0:
        return body_inertia(0.0, np.zeros(3), np.sum([part.inertia for part in parts], axis=0))
    com = np.sum([part.mass * np.asarray(part.com) for part in parts], axis=0) / mass
    tensor = np.zeros((3, 3))
    for part in parts:
        d = np.asarray(part.com) - com
        tensor += np.asarray(part.inertia) + part.mass * (d @ d * np.eye(3) - np.outer(d, d))
    return body_inertia(mass, com, tensor)

