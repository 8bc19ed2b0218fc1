"""Wrenches: the transform dual to that of twists, its derivative, and power.

``B_f`` is [force; moment about the origin of B], both in axes of B, N and N m. Source: Traversaro and Saccon, Multibody
dynamics notation, section 6. The Lie-theoretic names: ``A_X^B`` is the coadjoint of the inverse pose, ``v x*`` is ``-ad*``.
"""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms.tree import as_column
from dynamics.lie.expression import Expr
from dynamics.notation.representation import PoseLike, as_pose


def A_Xf_B(A_H_B: PoseLike) -> Expr:
    """Wrench transform [6, 6] from B to A, ``A_X^B = (B_X_A)^T``; Traversaro and Saccon, Eqs. 59 and 64."""
    return spatial.force_matrix(as_pose(A_H_B))


def B_Xf_A(A_H_B: PoseLike) -> Expr:
    """Its inverse [6, 6], ``(A_X_B)^T``."""
    return spatial.force_matrix(spatial.inverse(as_pose(A_H_B)))


def A_Xf_B_rate(A_H_B: PoseLike, B_v_AB: Expr) -> Expr:
    """``dA_X^B/dt = A_X^B (B_v_AB x*)`` [6, 6]; Traversaro and Saccon, Eqs. 61 and 66."""
    return A_Xf_B(A_H_B) @ spatial.cross_force_matrix(as_column(B_v_AB))


def express(A_H_B: PoseLike, B_f: Expr) -> Expr:
    """``A_f`` [6, k] of a wrench given in B: the moment also collects ``A_o_B x force``."""
    return spatial.force_to_parent(as_pose(A_H_B), as_column(B_f))


def power(f: Expr, v: Expr) -> Expr:
    """Pairing of a wrench and a twist in the same coordinates (W). The same number in every frame, Eq. 60."""
    return ca.dot(as_column(f), as_column(v))


def wrench_of_force(A_p: Expr, A_force: Expr, A_moment: Expr | None = None) -> Expr:
    """``A_f`` [6] of a force [3] (N) acting at the point A_p [3] (m), with an optional free moment [3] (N m), all in A axes."""
    force, moment = as_column(A_force), ca.DM(3, 1) if A_moment is None else as_column(A_moment)
    return spatial.force(force, moment + ca.cross(as_column(A_p), force))
