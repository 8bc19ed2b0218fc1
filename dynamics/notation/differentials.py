"""Differentials of matrix-valued maps, without vectorising: ``Df(x) . z`` has the shape of f.

Source: Traversaro and Saccon, Multibody dynamics notation, section 3.1, Eq. 9, and Eqs. 71-73 for poses.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from dynamics import algorithms as alg
from dynamics.lie import se3
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


def differential(f: Expr, x: Expr, z: Expr) -> Expr:
    """``Df(x) . z`` [shape of f]: directional derivative of the expression f along z [shape of x], x a symbol."""
    return ca.reshape(ca.jtimes(ca.vec(f), ca.vec(x), ca.vec(z)), *f.shape)


def differentials(f: Expr, xs: Sequence[Expr], zs: Sequence[Expr]) -> list[Expr]:
    """Partial differentials ``D_k f . z_k``, one for each argument; their sum is the differential of f."""
    return [differential(f, x, z) for x, z in zip(xs, zs, strict=True)]


def trivialised_pose_differential(model: Model, frame: str) -> ca.Function:
    """(q, delta [nv]) -> ``E_Delta_AE`` [6] with ``E_Delta^ = A_H_E^-1 D(A_H_E) . dq``, dq the motion of q along delta.

    Forward kinematics differentiated as a 4x4 matrix (Eqs. 70-73): the definition of the left-trivialised Jacobian.
    """
    q, delta = ca.SX.sym("q", model.nq), ca.SX.sym("delta", model.nv)
    pose = alg.frame_pose(model, q, frame)
    H = se3.to_matrix(se3.Pose(pose.R, pose.p))
    change = differential(H, q, alg.rate_matrix(model, q) @ delta)
    inverse = se3.to_matrix(se3.inverse(se3.Pose(pose.R, pose.p)))
    return ca.Function("pose_differential", [q, delta], [se3.vee(inverse @ change)], ["q", "delta"], ["E_Delta_AE"])
