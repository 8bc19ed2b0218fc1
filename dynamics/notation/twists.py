"""Twists: trivialisations of a moving pose, the velocity transform and its derivative, relative velocities.

Names after Traversaro and Saccon, Multibody dynamics notation: ``C_v_AB`` is the velocity of B with respect to A in C. Poses
are anything :func:`dynamics.notation.representation.as_pose` takes. Linear parts in m/s, angular parts in rad/s.
"""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms.moving_frames import derivative_in_moving_frame
from dynamics.algorithms.tree import as_column
from dynamics.lie import se3, so3
from dynamics.lie.expression import Expr
from dynamics.notation.representation import PoseLike, as_pose, convert_twist, motion_map_inverse
from dynamics.spatial import Transform


def composite(A_H_B: PoseLike) -> Transform:
    """Pose ``A_H_B[A]`` of the composite frame B[A]: origin of B, axes of A."""
    return Transform(spatial.constant([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), as_pose(A_H_B).p)


# ------------------------------------------------------------------------------------------------ pose rates and twists
def twist_from_pose_rate(A_R_B: Expr, A_o_B: Expr, A_Rdot_B: Expr, A_odot_B: Expr, representation: str = "left") -> Expr:
    """Twist [6] of B with respect to A from the entrywise rates of its pose; Traversaro and Saccon, Eqs. 17-26 and 35.

    A_R_B, A_Rdot_B: [3, 3]; A_o_B, A_odot_B: [3]. Only the tangent part of A_Rdot_B counts: a rate that leaves SO(3) has no
    twist.
    """
    H = as_pose((A_R_B, A_o_B))
    Rdot, odot = as_column(A_Rdot_B), as_column(A_odot_B)
    left = spatial.motion(H.R.T @ odot, so3.vee(H.R.T @ Rdot))
    return convert_twist(H, left, "left", representation)


def pose_rate(A_H_B: PoseLike, v: Expr, representation: str = "left") -> tuple[Expr, Expr]:
    """Entrywise rates (A_Rdot_B [3, 3], A_odot_B [3]) of a pose: ``dH/dt = H (B_v_AB)^``, Eqs. 36 and 77."""
    H = as_pose(A_H_B)
    left = motion_map_inverse(H, representation) @ as_column(v)
    return H.R @ spatial.hat(spatial.angular(left)), H.R @ spatial.linear(left)


def homogeneous_rate(A_H_B: PoseLike, v: Expr, representation: str = "left") -> Expr:
    """``dH/dt`` [4, 4] as one matrix; last row zero."""
    Rdot, odot = pose_rate(A_H_B, v, representation)
    return ca.blockcat([[Rdot, odot], [ca.DM(1, 3), ca.DM(1, 1)]])


# ------------------------------------------------------------------------------------------------ velocity transform
def A_X_B(A_H_B: PoseLike) -> Expr:
    """Velocity transform [6, 6] from B to A coordinates, the adjoint Ad of ``A_H_B``; Traversaro and Saccon, Eq. 27."""
    return spatial.motion_matrix(as_pose(A_H_B))


def B_X_A(A_H_B: PoseLike) -> Expr:
    """Its inverse [6, 6], built from the inverse pose."""
    return spatial.motion_matrix(spatial.inverse(as_pose(A_H_B)))


def A_X_B_rate(A_H_B: PoseLike, B_v_AB: Expr) -> Expr:
    """``dA_X_B/dt = A_X_B (B_v_AB x)`` [6, 6]; Traversaro and Saccon, Eqs. 37 and 42."""
    return A_X_B(A_H_B) @ spatial.cross_motion_matrix(as_column(B_v_AB))


def adjoint_action(A_H_B: PoseLike, xi: Expr) -> Expr:
    """``vee6(H xi^ H^-1)`` [6], the conjugation that defines the adjoint; Traversaro and Saccon, Eqs. 29-31.

    The definition, computed with 4x4 matrices; :func:`A_X_B` times xi is the same vector.
    """
    H = as_pose(A_H_B)
    return se3.vee(se3.to_matrix(_lie(H)) @ se3.hat(xi) @ se3.to_matrix(_lie(spatial.inverse(H))))


def _lie(H: Transform) -> se3.Pose:
    return se3.Pose(H.R, H.p)


def express(C_H_B: PoseLike, B_v: Expr) -> Expr:
    """A twist known in B coordinates, in any other frame C: ``C_v_AB = C_X_B B_v_AB`` [6, k]; Eq. 33."""
    return spatial.motion_to_parent(as_pose(C_H_B), as_column(B_v))


# ------------------------------------------------------------------------------------------------ relative velocities
def relative_twist(A_H_B: PoseLike, B_v_WB: Expr, A_v_WA: Expr) -> Expr:
    """``B_v_AB`` [6] of two frames that both move in W, each given by its left-trivialised twist in W.

    From ``C_v_WA + C_v_AB = C_v_WB`` in any one frame C.
    """
    return as_column(B_v_WB) - spatial.motion_to_child(as_pose(A_H_B), as_column(A_v_WA))


def opposite_twist(A_H_B: PoseLike, B_v_AB: Expr) -> Expr:
    """``A_v_BA`` [6] (left-trivialised for the inverse pose) from ``B_v_AB``: ``C_v_BA = -C_v_AB`` in every C."""
    return -spatial.motion_to_parent(as_pose(A_H_B), as_column(B_v_AB))


def velocity_of_moving_point(B_v_A: Expr, B_r_AP: Expr, B_rdot_AP: Expr, B_w_IB: Expr) -> Expr:
    """Absolute velocity [3] of P in the axes of a rotating frame B, seen from a moving point A: ``v_A + dr/dt + w x r``.

    B_v_A: absolute velocity of A; B_r_AP: from A to P; B_rdot_AP: derivative of its components; B_w_IB: angular velocity of B;
    all in B axes. ANYbotics/kindr cheat sheet, "Linear Velocity".
    """
    return as_column(B_v_A) + derivative_in_moving_frame(B_r_AP, B_rdot_AP, B_w_IB)


def angular_velocity_in(C_R_B: Expr, B_w_AB: Expr) -> Expr:
    """``C_w_AB = C_R_B B_w_AB`` [3]: an angular velocity changes axes by rotation only; Traversaro and Saccon, Eq. 34."""
    return as_column(C_R_B) @ as_column(B_w_AB)


def skew_in(C_R_B: Expr, B_W: Expr) -> Expr:
    """The skew matrix [3, 3] of an angular velocity in other axes, ``C_R_B B_W C_R_B^T``."""
    R = as_column(C_R_B)
    return R @ as_column(B_W) @ R.T


def composed_angular_velocity(D_R_B: Expr, B_w_AB: Expr, D_R_C: Expr, C_w_BC: Expr, D_w_CD: Expr) -> Expr:
    """``D_w_AD = D_w_AB + D_w_BC + D_w_CD`` [3], each relative angular velocity given in its own moving axes."""
    return angular_velocity_in(D_R_B, B_w_AB) + angular_velocity_in(D_R_C, C_w_BC) + as_column(D_w_CD)
