"""In which coordinates the motion of a frame B with respect to A is written: one table, and the linear maps it implies.

    left    ``B_v_AB``     axes and origin of B (body, left-trivialised): what this package stores
    mixed   ``B[A]_v_AB``  origin of B, axes of A (hybrid): [rate of A_o_B; angular velocity in A]
    right   ``A_v_AB``     axes and origin of A (inertial, right-trivialised): the velocity of the point of B now at A's origin
    kindr   linear part in A, angular part in B: no frame has these coordinates, but ANYbotics/kindr and MuJoCo store them

Every representation is a linear map T(A_H_B) of the left one, so a wrench goes by the inverse transpose of T (its power is
kept) and the derivative of a velocity by T and dT/dt. Source: Traversaro and Saccon, Multibody dynamics notation (version 2),
sections 5.1, 5.2 and 6; for kindr the library's cheat sheet, section "Generalized coordinates".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms.tree import as_column
from dynamics.errors import ModelError, near
from dynamics.lie import se3
from dynamics.spatial import Transform

Expr = Any


@dataclass(frozen=True)
class Representation:
    """linear_in_A, angular_in_A: axes of the two parts (A, else B); at_A: origin of A (else B) as the reference point;
    reference: the word for it in ``dynamics.algorithms`` (None: it has none)."""

    name: str
    linear_in_A: bool
    angular_in_A: bool
    at_A: bool
    reference: str | None


REPRESENTATIONS: Mapping[str, Representation] = MappingProxyType({r.name: r for r in (
    Representation("left", False, False, False, "body"),
    Representation("mixed", True, True, False, "world_aligned"),
    Representation("right", True, True, True, "world"),
    Representation("kindr", True, False, False, None),
)})


def representation(name: str) -> Representation:
    """The record of a representation. Raises ModelError with near misses."""
    if name not in REPRESENTATIONS:
        raise ModelError(f"no velocity representation named {name!r}{near(name, REPRESENTATIONS)}")
    return REPRESENTATIONS[name]


def as_pose(A_H_B: Any) -> Transform:
    """A pose of any make as a Transform of CasADi matrices: Transform, ``lie.Pose``, (R, p), or a 4x4 matrix.

    Raises ModelError for a numeric rotation that is not orthogonal and right-handed to 1e-6.
    """
    if isinstance(A_H_B, tuple) and len(A_H_B) == 2:
        R, p = (as_column(np.asarray(x, float) if isinstance(x, list) else x) for x in A_H_B)
    else:
        R, p = se3.from_matrix(A_H_B)
    if R.shape != (3, 3) or p.shape != (3, 1):
        raise ModelError(f"a pose is a rotation [3, 3] and an origin [3, 1], got {tuple(R.shape)} and {tuple(p.shape)}")
    if isinstance(R, ca.DM) and not is_SO3(R):
        raise ModelError(f"not a right-handed orthonormal rotation matrix: {np.array(R).round(6).tolist()}")
    return Transform(R, p)


def is_SO3(R: Any, tolerance: float = 1e-6) -> bool:
    """True for a numeric matrix with ``R^T R = 1`` and ``det R = +1``; Traversaro and Saccon, Eq. 1."""
    R = np.array(R, float)
    return bool(R.shape == (3, 3) and np.abs(R.T @ R - np.eye(3)).max() < tolerance and np.linalg.det(R) > 0.0)


def is_SE3(H: Any, tolerance: float = 1e-6) -> bool:
    """True for a numeric homogeneous transform [4, 4]; Traversaro and Saccon, Eq. 3."""
    H = np.array(H, float)
    return bool(H.shape == (4, 4) and is_SO3(H[:3, :3], tolerance) and np.abs(H[3] - [0, 0, 0, 1]).max() < tolerance)


class Axes(NamedTuple):
    """A representation, and the rotations of its linear and angular parts."""

    representation: Representation
    linear: Expr
    angular: Expr


# ------------------------------------------------------------------------------------------------ the linear maps
def _parts(A_H_B: Transform, name: str) -> Axes:
    r, one = representation(name), ca.DM.eye(3)
    return Axes(r, A_H_B.R if r.linear_in_A else one, A_H_B.R if r.angular_in_A else one)


def motion_map(A_H_B: Any, target: str) -> Expr:
    """T [6, 6]: a left-trivialised twist ``B_v_AB`` to the target representation."""
    H = as_pose(A_H_B)
    r, P, Q = _parts(H, target)
    shift = spatial.hat(H.p) @ Q if r.at_A else ca.DM(3, 3)
    return spatial.blocks(P, shift, ca.DM(3, 3), Q)


def motion_map_inverse(A_H_B: Any, source: str) -> Expr:
    """T^-1 [6, 6]: a twist in the source representation to the left-trivialised one, by structure (no numeric inverse)."""
    H = as_pose(A_H_B)
    r, P, Q = _parts(H, source)
    shift = -(P.T @ spatial.hat(H.p)) if r.at_A else ca.DM(3, 3)
    return spatial.blocks(P.T, shift, ca.DM(3, 3), Q.T)


def motion_map_rate(A_H_B: Any, B_v_AB: Expr, target: str) -> Expr:
    """dT/dt [6, 6] along the motion ``B_v_AB`` (left-trivialised) [6]; Traversaro and Saccon, Eq. 37, for each row of the
    table: the adjoint of the frame the representation is read in, which itself moves."""
    H, v = as_pose(A_H_B), as_column(B_v_AB)
    r, _, Q = _parts(H, target)
    turn, zero = H.R @ spatial.hat(spatial.angular(v)), ca.DM(3, 3)
    dP, dQ = turn if r.linear_in_A else zero, turn if r.angular_in_A else zero
    shift = spatial.hat(H.R @ spatial.linear(v)) @ Q + spatial.hat(H.p) @ dQ if r.at_A else zero
    return spatial.blocks(dP, shift, zero, dQ)


def motion_map_inverse_rate(A_H_B: Any, B_v_AB: Expr, source: str) -> Expr:
    """d(T^-1)/dt [6, 6] along ``B_v_AB``: ``-T^-1 dT/dt T^-1``."""
    back = motion_map_inverse(A_H_B, source)
    return -back @ motion_map_rate(A_H_B, B_v_AB, source) @ back


def force_map(A_H_B: Any, target: str) -> Expr:
    """T^-T [6, 6]: a wrench ``B_f`` to the target representation, keeping its power; Traversaro and Saccon, Eq. 59."""
    return motion_map_inverse(A_H_B, target).T


def force_map_inverse(A_H_B: Any, source: str) -> Expr:
    """T^T [6, 6]: a wrench in the source representation to ``B_f``."""
    return motion_map(A_H_B, source).T


# ------------------------------------------------------------------------------------------------ conversions
def convert_twist(A_H_B: Any, v: Expr, source: str, target: str) -> Expr:
    """Velocity of B with respect to A [6, k], from one representation to another."""
    return motion_map(A_H_B, target) @ (motion_map_inverse(A_H_B, source) @ as_column(v))


def convert_wrench(A_H_B: Any, f: Expr, source: str, target: str) -> Expr:
    """Wrench on B [6, k], from one representation to another. ``f^T v`` is the same in all of them."""
    return force_map(A_H_B, target) @ (force_map_inverse(A_H_B, source) @ as_column(f))


def convert_twist_rate(A_H_B: Any, v: Expr, v_dot: Expr, source: str, target: str) -> Expr:
    """Derivative [6] of the twist in the target representation from v and dv/dt [6], both in the source one.

    Entrywise derivatives (apparent accelerations): between left and right no cross product appears, towards mixed and kindr
    one does. Traversaro and Saccon, Eqs. 45, 46 and 53.
    """
    left = motion_map_inverse(A_H_B, source) @ as_column(v)
    left_dot = motion_map_inverse(A_H_B, source) @ (as_column(v_dot) - motion_map_rate(A_H_B, left, source) @ left)
    return motion_map(A_H_B, target) @ left_dot + motion_map_rate(A_H_B, left, target) @ left
