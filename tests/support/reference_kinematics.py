"""Forward kinematics of a Model in plain NumPy and SciPy, written apart from the library's algorithms.

Homogeneous 4 x 4 matrices and matrix exponentials throughout: nothing here is shared with ``dynamics``.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm


def matrix(placement) -> np.ndarray:
    H = np.eye(4)
    H[:3, :3], H[:3, 3] = np.asarray(placement.rotation), np.asarray(placement.position)
    return H


def _hat(a) -> np.ndarray:
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def _quaternion(w, x, y, z) -> np.ndarray:
    # left times right multiplication matrix, the 3 x 3 block
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    right = np.array([[w, x, y, z], [-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])
    return (left @ right)[1:, 1:]


def _motion(kind: str, axes, q: np.ndarray) -> np.ndarray:
    H = np.eye(4)
    if kind in ("revolute", "continuous"):
        H[:3, :3] = expm(_hat(axes[0]) * q[0])
    elif kind == "prismatic":
        H[:3, 3] = np.asarray(axes[0]) * q[0]
    elif kind == "planar":
        H[:3, :3] = expm(_hat((0, 0, 1)) * q[2])
        H[:2, 3] = q[:2]
    elif kind == "spherical":
        H[:3, :3] = _quaternion(*q)
    elif kind == "free_flyer":
        H[:3, 3] = q[:3]
        H[:3, :3] = _quaternion(*q[3:])
    elif kind != "fixed":
        raise AssertionError(kind)
    return H


def body_poses(model, q) -> list[np.ndarray]:
    """World pose [4, 4] of every body."""
    q, out = np.asarray(q, float), []
    for i, body in enumerate(model.bodies):
        joint = body.joint
        qi = q[model.q_slice(i)] if joint.kind != "fixed" else q[:0]
        if joint.mimic is not None:
            qi = joint.mimic.multiplier * qi + joint.mimic.offset
        base = np.eye(4) if body.parent < 0 else out[body.parent]
        out.append(base @ matrix(joint.placement) @ _motion(joint.kind, joint.axes, qi))
    return out


def frame_pose(model, q, name: str, bodies=None) -> np.ndarray:
    """World pose [4, 4] of a frame or body by name."""
    frame = model.frame(name)
    bodies = body_poses(model, q) if bodies is None else bodies
    return (np.eye(4) if frame.body < 0 else bodies[frame.body]) @ matrix(frame.placement)


def spatial_inertia(inertia) -> np.ndarray:
    """[10] mass, first moment, and inertia about the origin of the body frame (xx xy yy xz yz zz)."""
    c, m = np.asarray(inertia.com), inertia.mass
    about = np.asarray(inertia.inertia) - m * _hat(c) @ _hat(c)
    return np.array([m, *(m * c), about[0, 0], about[0, 1], about[1, 1], about[0, 2], about[1, 2], about[2, 2]])


def total_inertia_in_world(model, q) -> np.ndarray:
    """[4, 4] pseudo-inertia matrix of the whole robot in world coordinates (second moments of mass)."""
    total = np.zeros((4, 4))
    for body, H in zip(model.bodies, body_poses(model, q), strict=True):
        I, c, m = np.asarray(body.inertia.inertia), np.asarray(body.inertia.com), body.inertia.mass
        P = np.zeros((4, 4))
        P[:3, :3] = np.trace(I) / 2 * np.eye(3) - I + m * np.outer(c, c)
        P[:3, 3] = P[3, :3] = m * c
        P[3, 3] = m
        total += H @ P @ H.T
    return total


def random_configuration(model, rng: np.random.Generator) -> np.ndarray:
    """A configuration of any size of joint motion, quaternions of unit length (limits are not looked at)."""
    parts = []
    for i, body in enumerate(model.bodies):
        if body.joint.mimic is None:
            part = rng.uniform(-2.0, 2.0, model.kind(i).nq)
            if body.joint.kind in ("free_flyer", "spherical"):
                part[-4:] /= np.linalg.norm(part[-4:])
            parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(0)
