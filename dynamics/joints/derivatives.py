"""All derivatives of one joint that analytic dynamics need, in closed form from its S and slices: nothing is differentiated here.

With A the motion transform of the joint's pose from child to parent, ``D_k A = A (S_k x)`` on any joint, and so
``dA/dt = A (S v x)``, ``D_k dA/dt = A ((S_k x) (S v x) + (D_k S v) x)``. Source: Sueda,
"Analytically differentiable articulated rigid body dynamics", section 3.2, there joint by joint.
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.joints.kind import JointKind, Slices
from dynamics.lie.expression import Expr


class JointDerivatives(NamedTuple):
    """S and dS/dt [6, nv]; their derivatives along velocity component k, one [6, nv] each; the transform A [6, 6] from child to
    parent twists, dA/dt, and one [6, 6] for each component."""

    S: Expr
    S_dot: Expr
    dS: list[Expr]
    dS_dot: list[Expr]
    A: Expr
    A_dot: Expr
    dA: list[Expr]
    dA_dot: list[Expr]


def slices(kind: JointKind, q: Expr) -> Slices:
    """Those of the record, zeros where S is constant."""
    if kind.slices is not None:
        return kind.slices(q)
    zero = ca.DM(6, kind.nv)
    return Slices([zero] * kind.nv, lambda k, l: zero)


def rates(first: Slices, v: Expr) -> tuple[Expr, list[Expr]]:
    """dS/dt [6, nv] along v, and its derivative along each component."""
    n = len(first.first)
    zero = ca.DM(6, n)
    S_dot = sum((D * v[k] for k, D in enumerate(first.first)), zero)
    return S_dot, [sum((first.second(k, l) * v[k] for k in range(n)), zero) for l in range(n)]


def joint_derivatives(kind: JointKind, q: Expr, v: Expr) -> JointDerivatives:
    """q [nq], v [nv]: expressions or numbers of one joint."""
    S, pose = kind.subspace(q), kind.transform(q)
    known = slices(kind, q)
    S_dot, dS_dot = rates(known, v)
    A, spin = spatial.motion_matrix(pose), spatial.cross_motion_matrix(S @ v)
    each = [spatial.cross_motion_matrix(S[:, k]) for k in range(kind.nv)]
    turned = [spatial.cross_motion_matrix(D @ v) for D in known.first]
    return JointDerivatives(S, S_dot, known.first, dS_dot, A, A @ spin, [A @ x for x in each],
                            [A @ (x @ spin + y) for x, y in zip(each, turned, strict=True)])
