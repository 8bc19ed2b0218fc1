"""Accelerations of a frame: apparent, intrinsic, mixed (classical), proper, and what sensors measure.

Apparent ``C_vdot_AB`` is the entrywise derivative of ``C_v_AB`` and depends on how C moves; intrinsic ``C_a_AB = C_X_B
B_vdot_AB`` is a motion vector and changes coordinates like a twist (Featherstone's spatial acceleration). Left and right
apparent accelerations are intrinsic ones; the mixed apparent acceleration [A_oddot_B; A_wdot_AB] is not. Source: Traversaro
and Saccon, Multibody dynamics notation, section 5.4. m/s^2 and rad/s^2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import kinematics, tree
from dynamics.algorithms.tree import as_column
from dynamics.model.model import Model
from dynamics.notation.representation import as_pose, convert_twist_rate, motion_map

Expr = Any


# ------------------------------------------------------------------------------------------------ frames
def intrinsic(C_H_B: Any, B_vdot_AB: Expr) -> Expr:
    """``C_a_AB = C_X_B B_vdot_AB`` [6]; Traversaro and Saccon, Eq. 47."""
    return spatial.motion_to_parent(as_pose(C_H_B), as_column(B_vdot_AB))


def apparent(C_H_B: Any, B_v_CB: Expr, B_v_AB: Expr, B_vdot_AB: Expr) -> Expr:
    """``C_vdot_AB = C_X_B (B_v_CB x B_v_AB + B_vdot_AB)`` [6] seen from a third moving frame C; Eqs. 45 and 56."""
    crossed = spatial.cross_motion(as_column(B_v_CB), as_column(B_v_AB))
    return spatial.motion_to_parent(as_pose(C_H_B), crossed + as_column(B_vdot_AB))


def intrinsic_from_apparent(C_vdot_AB: Expr, C_v_AC: Expr, C_v_AB: Expr) -> Expr:
    """``C_a_AB = C_vdot_AB + C_v_AC x C_v_AB`` [6]; Eqs. 49-51."""
    return as_column(C_vdot_AB) + spatial.cross_motion(as_column(C_v_AC), as_column(C_v_AB))


def apparent_from_intrinsic(C_a_AB: Expr, C_v_AC: Expr, C_v_AB: Expr) -> Expr:
    """The inverse of :func:`intrinsic_from_apparent`."""
    return as_column(C_a_AB) - spatial.cross_motion(as_column(C_v_AC), as_column(C_v_AB))


def mixed_from_intrinsic(BA_a_AB: Expr, BA_v_AB: Expr) -> Expr:
    """``[A_oddot_B; A_wdot_AB]`` [6] from the intrinsic acceleration and the twist in B[A]; Eqs. 52-55.

    B[A] translates with B and does not turn, so the correction is ``-[A_odot_B; 0] x v``.
    """
    v = as_column(BA_v_AB)
    carrier = spatial.motion(spatial.linear(v), ca.DM(3, 1))
    return apparent_from_intrinsic(BA_a_AB, carrier, v)


def intrinsic_from_mixed(BA_vdot_AB: Expr, BA_v_AB: Expr) -> Expr:
    """The inverse of :func:`mixed_from_intrinsic`."""
    v = as_column(BA_v_AB)
    return intrinsic_from_apparent(BA_vdot_AB, spatial.motion(spatial.linear(v), ca.DM(3, 1)), v)


def classical(B_v_AB: Expr, B_vdot_AB: Expr) -> Expr:
    """Classical acceleration in body axes [6]: ``[A_oddot_B; A_wdot_AB]`` rotated into B, ``vdot + [w x v; 0]``."""
    v = as_column(B_v_AB)
    return as_column(B_vdot_AB) + spatial.motion(ca.cross(spatial.angular(v), spatial.linear(v)), ca.DM(3, 1))


def proper(A_R_B: Expr, B_vdot_AB: Expr, gravity: Expr) -> Expr:
    """Intrinsic acceleration relative to free fall, B coordinates [6]: gravity [3] (m/s^2, axes of the inertial A) is taken
    off. It is what the inverse dynamics of a body needs, RBDA section 5.3."""
    return as_column(B_vdot_AB) - spatial.motion(as_column(A_R_B).T @ as_column(gravity), ca.DM(3, 1))


def specific_force(A_R_B: Expr, B_v_AB: Expr, B_vdot_AB: Expr, gravity: Expr) -> Expr:
    """Reading [3] of an ideal accelerometer at the origin of B, sensor axes: ``B_R_A (A_oddot_B - gravity)``."""
    return spatial.linear(classical(B_v_AB, proper(A_R_B, B_vdot_AB, gravity)))


class FrameMotion(NamedTuple):
    """World pose, left-trivialised twist [6] and its derivative [6] of a frame."""

    pose: Expr
    twist: Expr
    acceleration: Expr


# ------------------------------------------------------------------------------------------------ frames of a robot
def _left(model: Model, q: Expr, v: Expr, a: Expr, frame: str) -> FrameMotion:
    """World pose, left-trivialised twist and its derivative of a named frame. Raises UnknownNameError."""
    named = model.frame(frame)
    pose = kinematics.frame_pose(model, q, frame)
    if named.body < 0:
        return FrameMotion(pose, ca.DM(6, 1), ca.DM(6, 1))
    offset = tree.placement_transform(named.placement)
    acceleration = kinematics.body_accelerations(model, q, v, a)[named.body]
    twist = kinematics.body_velocities(model, q, v)[named.body]
    return FrameMotion(pose, spatial.motion_to_child(offset, twist), spatial.motion_to_child(offset, acceleration))


def frame_acceleration(model: Model, q: Expr, v: Expr, a: Expr, frame: str, representation: str = "left") -> Expr:
    """Apparent acceleration [6] of a frame: derivative of its twist in the given representation (no gravity in it).

    q: [nq]; v, a: [nv]. ``mixed`` is the classical one, [A_oddot; A_wdot]. Raises UnknownNameError, ModelError.
    """
    pose, twist, acceleration = _left(model, q, v, a, frame)
    return convert_twist_rate(pose, twist, acceleration, "left", representation)


def frame_intrinsic_acceleration(model: Model, q: Expr, v: Expr, a: Expr, frame: str, representation: str = "left") -> Expr:
    """Intrinsic acceleration [6] of a frame in the coordinates of the given representation."""
    pose, _, acceleration = _left(model, q, v, a, frame)
    return motion_map(pose, representation) @ acceleration


def accelerometer(model: Model, q: Expr, v: Expr, a: Expr, frame: str) -> Expr:
    """Reading [3] (m/s^2) of an ideal accelerometer fixed to ``frame``, in its axes; at rest it shows ``-gravity``."""
    pose, twist, acceleration = _left(model, q, v, a, frame)
    return specific_force(pose.R, twist, acceleration, spatial.constant(model.gravity))


def gyroscope(model: Model, q: Expr, v: Expr, frame: str) -> Expr:
    """Reading [3] (rad/s) of an ideal gyroscope fixed to ``frame``, in its axes."""
    return spatial.angular(kinematics.frame_velocity(model, q, v, frame, "body"))
