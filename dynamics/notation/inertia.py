"""Generalised inertia, momentum and the Newton-Euler equation of one rigid body, in every frame and representation.

``B_M`` [6, 6] maps the twist ``B_v_AB`` of a body to its momentum, a force vector: kg m/s and kg m^2/s. Source: Traversaro and
Saccon, Multibody dynamics notation, section 7, with Eqs. 37 and 61 for what moves.
"""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms.tree import as_column
from dynamics.lie.expression import Expr
from dynamics.notation.representation import (
    PoseLike,
    as_pose,
    force_map,
    motion_map,
    motion_map_inverse,
    motion_map_rate,
)


def inertia_at_com(mass: Expr, C_I: Expr) -> Expr:
    """``C_M`` [6, 6] = diag(m 1, C_I) in a frame C at the centre of mass; Eq. 67. C_I: [3, 3] kg m^2."""
    return ca.diagcat(mass * ca.DM.eye(3), as_column(C_I))


def inertia_in(B_H_C: PoseLike, C_M: Expr) -> Expr:
    """``B_M = B_X^C C_M C_X_B`` [6, 6] of an inertia given in C; Eq. 68, for any pose, turned axes included."""
    H = as_pose(B_H_C)
    to_C = spatial.motion_matrix(spatial.inverse(H))
    return to_C.T @ as_column(C_M) @ to_C


def parallel_axis(mass: Expr, B_o_C: Expr, B_R_C: Expr, C_I: Expr) -> Expr:
    """``B_I`` [3, 3] about the origin of B from ``C_I`` about the centre of mass C: ``R C_I R^T - m o^ o^``; Eq. 69."""
    R, o = as_column(B_R_C), spatial.hat(as_column(B_o_C))
    return R @ as_column(C_I) @ R.T - mass * o @ o


def inertia_represented(A_H_B: PoseLike, B_M: Expr, representation: str) -> Expr:
    """The inertia [6, 6] that maps the twist of a representation to the momentum in the same: ``T^-T B_M T^-1``.

    ``right`` is the inertia in the inertial frame A, which moves with the body; see :func:`inertia_rate`.
    """
    back = motion_map_inverse(A_H_B, representation)
    return back.T @ as_column(B_M) @ back


def inertia_rate(A_H_B: PoseLike, B_v_AB: Expr, B_M: Expr, representation: str) -> Expr:
    """Its derivative [6, 6] while B moves with ``B_v_AB``; in ``right`` it is ``(v x*) M - M (v x)`` with v = A_v_AB."""
    M = inertia_represented(A_H_B, B_M, representation)
    turn = motion_map_rate(A_H_B, B_v_AB, representation) @ motion_map_inverse(A_H_B, representation)
    return -turn.T @ M - M @ turn


def momentum(A_H_B: PoseLike, v: Expr, B_M: Expr, representation: str = "left") -> Expr:
    """Momentum [6] in a representation, from the twist v [6] in the same one; ``right``: about the inertial origin."""
    return inertia_represented(A_H_B, B_M, representation) @ as_column(v)


def newton_euler(A_H_B: PoseLike, v: Expr, v_dot: Expr, B_M: Expr, representation: str = "left") -> Expr:
    """Resultant wrench [6] on a body with twist v and apparent acceleration v_dot, all in one representation.

    left:  ``M vdot + v x* M v``;  right: ``d/dt (A_M A_v)``, the rate of the momentum in the inertial frame. The others are
    the same law in their coordinates: ``f = M vdot + c``, with c quadratic in the velocity.
    """
    v, v_dot, back = as_column(v), as_column(v_dot), motion_map_inverse(A_H_B, representation)
    left = back @ v
    left_dot = back @ (v_dot - motion_map_rate(A_H_B, left, representation) @ left)
    M = as_column(B_M)
    return force_map(A_H_B, representation) @ (M @ left_dot + spatial.cross_force(left, M @ left))


def free_body_acceleration(A_H_B: PoseLike, v: Expr, f: Expr, B_M: Expr, representation: str = "left") -> Expr:
    """dv/dt [6] of a free body under the resultant wrench f [6]: :func:`newton_euler` solved for the acceleration."""
    v, back, M = as_column(v), motion_map_inverse(A_H_B, representation), as_column(B_M)
    left = back @ v
    B_f = motion_map(A_H_B, representation).T @ as_column(f)
    left_dot = ca.solve(M, B_f - spatial.cross_force(left, M @ left))
    return motion_map(A_H_B, representation) @ left_dot + motion_map_rate(A_H_B, left, representation) @ left
