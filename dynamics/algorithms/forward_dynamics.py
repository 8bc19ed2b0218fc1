"""Forward dynamics by the articulated-body algorithm.

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), Table 7.1, with [linear; angular] component order. Robots with
mimic joints are not trees in their independent coordinates; for them M a = tau - h is solved through the mass matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.algorithms.inverse_dynamics import bias_force
from dynamics.algorithms.mass_matrix import check_inertia, mass_matrix
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform


class Articulated(NamedTuple):
    """Articulated inertia [[P, Q], [Q^T, J]] acting on [linear; angular]; P and J are symmetric."""

    P: Expr
    Q: Expr
    J: Expr


def forward_dynamics(model: Model, q: Expr, v: Expr, tau: Expr, f_ext: Mapping[str, Expr] | None = None) -> Expr:
    """Acceleration a [nv] under the generalised force tau [nv]; the inverse of ``inverse_dynamics``.

    q: [nq]; v, tau: [nv]; f_ext: body name -> wrench [6] on that body, body coordinates. Raises ModelError that names the joints
    whose motion has no inertia, wherever the robot is.
    """
    q, v, tau = tree.as_column(q), tree.as_column(v), tree.as_column(tau)
    tree.check_sizes(model, q=(q, model.nq), v=(v, model.nv), tau=(tau, model.nv))
    check_inertia(model)
    if model.has_coupling:
        return solve_mass(mass_matrix(model, q), tau - bias_force(model, q, v, f_ext))
    return _articulated_body(model, q, v, tau, f_ext)


def solve_mass(M: Expr, b: Expr) -> Expr:
    """``M^-1 b`` [nv, k] by LDL^T from the leaves to the root: that order causes no fill-in. RBDA section 6.5."""
    n = M.shape[0]
    if isinstance(M, ca.MX) or isinstance(b, ca.MX):  # CasADi has no LDL^T for MX
        return ca.solve(M, b)
    order = list(reversed(range(n)))
    D, LT, p = ca.ldl(M[order, order], False)
    return ca.ldl_solve(b[order, :], D, LT, p)[order, :]


class _Outward(NamedTuple):
    """By body, what the walk from the root to the leaves finds: X from the parent, S, the accelerations that velocities make,
    inertias and bias forces."""

    transforms: list[Transform]
    subspaces: list[Expr]
    drifts: list[Expr]
    inertias: list[Articulated]
    biases: list[Expr]


def _outward(model: Model, q: Expr, v: Expr, external: Mapping[int, Expr]) -> _Outward:
    found, twists = _Outward([], [], [], [], []), list[Expr]()
    for i, body in enumerate(model.bodies):
        X, S = tree.parent_transform(model, i, q), tree.coupled_subspace(model, i, q)
        own = S @ part(v, model.v_slice(i))
        if body.parent >= 0:
            twist = spatial.motion_to_child(X, twists[body.parent]) + own
            drift = spatial.cross_motion(twist, own)
        else:
            twist, drift = own, ca.DM(6, 1)
        bias = tree.joint_bias(model, i, q, v)
        inertia = spatial.inertia_from_com(body.inertia.mass, body.inertia.com, body.inertia.inertia)
        p = spatial.cross_force(twist, spatial.apply_inertia(inertia, twist))
        twists.append(twist)
        found.transforms.append(X)
        found.subspaces.append(S)
        found.drifts.append(drift if bias is None else drift + bias)
        found.biases.append(p - external[i] if i in external else p)
        found.inertias.append(Articulated(inertia.m * ca.DM.eye(3), -ca.skew(inertia.h), inertia.I))
    return found


def _articulated_body(model: Model, q: Expr, v: Expr, tau: Expr, f_ext: Mapping[str, Expr] | None) -> Expr:
    external = tree.wrench_by_body(model, f_ext)
    armature, damping = tree.diagonal(model, "armature"), tree.diagonal(model, "damping")
    count = len(model.bodies)
    transforms, subspaces, drifts, inertias, biases = _outward(model, q, v, external)
    gains: list[Any] = [None] * count
    for i in reversed(range(count)):
        S, vs, parent = subspaces[i], model.v_slice(i), model.bodies[i].parent
        if model.kind(i).nv == 0:
            if parent >= 0:
                force = biases[i] + _times(inertias[i], drifts[i])
                inertias[parent] = _add(inertias[parent], _to_parent(transforms[i], inertias[i]))
                biases[parent] = biases[parent] + spatial.force_to_parent(transforms[i], force)
            continue
        U = _times(inertias[i], S)
        D = S.T @ U + ca.diag(armature[vs])
        u = part(tau, vs) - part(damping, vs) * part(v, vs) - S.T @ biases[i]
        K = _solve_small(D, ca.horzcat(U.T, u))  # [D^-1 U^T, D^-1 u]
        UD, Du = K[:, :6], K[:, 6]
        gains[i] = (UD, Du)
        if parent >= 0:
            reduced = _minus_outer(inertias[i], U, UD)
            force = biases[i] + _times(reduced, drifts[i]) + U @ Du
            inertias[parent] = _add(inertias[parent], _to_parent(transforms[i], reduced))
            biases[parent] = biases[parent] + spatial.force_to_parent(transforms[i], force)

    base = spatial.motion(-spatial.constant(model.gravity), ca.DM(3, 1))
    accelerations: list[Expr] = []
    out = tree.zeros(model.nv, 1, q, v, tau, *external.values())
    for i, body in enumerate(model.bodies):
        acc = spatial.motion_to_child(transforms[i], accelerations[body.parent] if body.parent >= 0 else base) + drifts[i]
        if model.kind(i).nv:
            UD, Du = gains[i]
            joint_acc = Du - UD @ acc
            out[model.v_slice(i)] = joint_acc
            acc = acc + subspaces[i] @ joint_acc
        accelerations.append(acc)
    return out


def _solve_small(D: Expr, b: Expr) -> Expr:
    """``D^-1 b`` for the joint-sized symmetric positive definite D."""
    if D.shape == (1, 1):
        return b * (1 / D)
    if isinstance(D, ca.MX) or isinstance(b, ca.MX):  # CasADi has no LDL^T for MX
        return ca.solve(D, b)
    d, LT, p = ca.ldl(ca.densify(D), False)
    return ca.ldl_solve(b, d, LT, p)


def _times(A: Articulated, m: Expr) -> Expr:
    lin, ang = spatial.linear(m), spatial.angular(m)
    return spatial.force(A.P @ lin + A.Q @ ang, A.Q.T @ lin + A.J @ ang)


def _add(a: Articulated, b: Articulated) -> Articulated:
    return Articulated(a.P + b.P, a.Q + b.Q, a.J + b.J)


def _minus_outer(A: Articulated, U: Expr, UD: Expr) -> Articulated:
    """A - U D^-1 U^T, keeping the symmetry of P and J explicit (half of the products are shared)."""
    top, bottom = spatial.linear(U), spatial.angular(U)
    return Articulated(A.P - _symmetric_product(top, UD[:, 0:3]), A.Q - top @ UD[:, 3:6],
                       A.J - _symmetric_product(bottom, UD[:, 3:6]))


def _symmetric_product(A: Expr, B: Expr) -> Expr:
    """A B [3, 3] known to be symmetric: the lower triangle is copied from the upper one."""
    rows, columns = [A[i, :] for i in range(3)], [B[:, j] for j in range(3)]
    upper = {(i, j): rows[i] @ columns[j] for i in range(3) for j in range(i, 3)}
    return ca.blockcat([[upper[min(i, j), max(i, j)] for j in range(3)] for i in range(3)])


def _to_parent(A_H_B: Transform, A: Articulated) -> Articulated:
    """X^T A X from child to parent coordinates, RBDA (2.66) for a general symmetric inertia."""
    R, p = A_H_B.R, ca.skew(A_H_B.p)
    P = _symmetric_product(R @ A.P, R.T)
    Q0 = R @ A.Q @ R.T
    J0 = _symmetric_product(R @ A.J, R.T)
    Pp = P @ p
    pQ = p @ Q0
    shift = pQ + pQ.T - _symmetric_product(p, Pp)
    return Articulated(P, Q0 - Pp, J0 + shift)
