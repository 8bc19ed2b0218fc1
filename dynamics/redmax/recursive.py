"""Algorithms of linear cost that never form J or M: products with J, dJ/dt and J', with M^-1, and hybrid dynamics.

Body coordinates at body origins as in ``dynamics.redmax.kinematics``. Sources: Sueda, Algorithms 5, 6, 9 and 10; Kim 2012,
"Lie group formulation of articulated rigid body dynamics".

>>> from dynamics.model.synthetic import serial_chain
>>> found = hybrid_dynamics(serial_chain(2), [0.3, -0.2], [0, 0], [1, 0], prescribed=["j0"])  # j0 moves as given, j1 without effort
>>> found.a, found.tau
(DM([1, 1.72441]), DM([-8.66635, 0]))
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import body_poses, body_velocities, tree
from dynamics.algorithms.kinematics import body_accelerations
from dynamics.errors import ModelError
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform


@dataclass(frozen=True)
class _Body:
    """Data of body i in every sweep: parent, pose in it, S, its slice of v."""

    parent: int
    X: Transform
    S: Expr
    own: slice


def _bodies(model: Model, q: Expr) -> list[_Body]:
    return [_Body(b.parent, tree.parent_transform(model, i, q), tree.coupled_subspace(model, i, q), model.v_slice(i))
            for i, b in enumerate(model.bodies)]


def twists(model: Model, q: Expr, x: Expr) -> Expr:
    """``J x`` [6n], x [nv]."""
    return ca.vertcat(*body_velocities(model, q, x))


def twist_drift(model: Model, q: Expr, v: Expr) -> Expr:
    """``dJ/dt v`` [6n] along v [nv]."""
    return ca.vertcat(*body_accelerations(model, q, v, ca.DM(model.nv, 1)))


def efforts(model: Model, q: Expr, y: Expr) -> Expr:
    """``J' y`` [nv] of wrenches y [6n] on the bodies."""
    bodies = _bodies(model, tree.as_column(q))
    below = [y[6 * i:6 * i + 6] for i in range(len(bodies))]
    out = tree.zeros(model.nv, 1, q, y)
    for i in reversed(range(len(bodies))):
        body = bodies[i]
        out[body.own] = part(out, body.own) + body.S.T @ below[i]
        if body.parent >= 0:
            below[body.parent] = below[body.parent] + spatial.force_to_parent(body.X, below[i])
    return out


class Preconditioner(NamedTuple):
    """``(M + J' blkdiag(P_m) J + P_r)^-1`` after one sweep over the tree: per body the inertia that it and all below it show."""

    bodies: list[_Body]
    shown: list[Expr]
    inverse: list[Expr]
    nv: int

    def times(self, x: Expr) -> Expr:
        """Its product with x [nv, k], by two sweeps."""
        out = tree.zeros(self.nv, x.shape[1], x, *self.shown)
        p = [ca.DM(6, x.shape[1]) for _ in self.bodies]
        left: dict[int, Expr] = {}
        for i in reversed(range(len(self.bodies))):
            body, U = self.bodies[i], self.shown[i] @ self.bodies[i].S
            left[i] = self.inverse[i] @ (x[body.own, :] - body.S.T @ p[i])
            if body.parent >= 0:
                p[body.parent] = p[body.parent] + spatial.force_to_parent(body.X, p[i] + U @ left[i])
        a: list[Expr] = []
        for i, body in enumerate(self.bodies):
            above = ca.DM(6, x.shape[1]) if body.parent < 0 else spatial.motion_to_child(body.X, a[body.parent])
            y = left[i] - self.inverse[i] @ (body.S.T @ (self.shown[i] @ above))
            out[body.own, :] = y
            a.append(above + body.S @ y)
        return out


def preconditioner(model: Model, q: Expr, P_m: list[Expr] | None = None, P_r: Expr | None = None) -> Preconditioner:
    """P_m: a matrix [6, 6] for each body, symmetric or not; P_r [nv]: a diagonal. None: 0, and it is the inverse of M. The armature
    of joints is counted. Raises ModelError for joints that follow another."""
    _check(model)
    q = tree.as_column(q)
    bodies = _bodies(model, q)
    diagonal = ca.densify(tree.diagonal(model, "armature")) + (0 if P_r is None else P_r)
    shown = [spatial.inertia_matrix(_inertia(model, i)) + (0 if P_m is None else P_m[i]) for i in range(len(bodies))]
    inverse: list[Expr] = [None] * len(bodies)
    for i in reversed(range(len(bodies))):
        body, U = bodies[i], shown[i] @ bodies[i].S
        inverse[i] = _inverted(body.S.T @ U + ca.diag(part(diagonal, body.own)))
        if body.parent >= 0:
            left = shown[i] - U @ inverse[i] @ (body.S.T @ shown[i])
            X = spatial.motion_to_child(body.X, ca.DM.eye(6))
            shown[body.parent] = shown[body.parent] + X.T @ left @ X
    return Preconditioner(bodies, shown, inverse, model.nv)


class Hybrid(NamedTuple):
    """a and tau [nv] of all joints, and the wrench [6] through every joint, on the body in its coordinates."""

    a: Expr
    tau: Expr
    wrenches: list[Expr]


def hybrid_dynamics(model: Model, q: Expr, v: Expr, known: Expr, prescribed: Collection[str] = ()) -> Hybrid:
    """Accelerations where efforts are given, efforts where accelerations are: known [nv] holds the acceleration of every joint
    named in ``prescribed`` and the effort of every other. None prescribed: forward dynamics; all: inverse dynamics. Damping and
    armature of joints are counted. Raises ModelError for joints that follow another, UnknownNameError."""
    _check(model)
    q, v, known = (tree.as_column(x) for x in (q, v, known))
    held = {model.joint_index(name) for name in prescribed}
    bodies, V = _bodies(model, q), twists(model, q, v)
    armature, damping = (ca.densify(tree.diagonal(model, which)) for which in ("armature", "damping"))
    M: list[Expr] = []
    B: list[Expr] = []
    eta: list[Expr] = []
    for i, (body, pose) in enumerate(zip(bodies, body_poses(model, q), strict=True)):
        inertia, phi = _inertia(model, i), V[6 * i:6 * i + 6]
        fall = pose.R.T @ spatial.constant(model.gravity)
        M.append(spatial.inertia_matrix(inertia))
        B.append(spatial.cross_force(phi, spatial.apply_inertia(inertia, phi))
                 - spatial.force(inertia.m * fall, ca.cross(inertia.h, fall)))
        bias = tree.joint_bias(model, i, q, v)
        eta.append(spatial.cross_motion(phi, body.S @ part(v, body.own)) + (0 if bias is None else bias))
    inverse: dict[int, Expr] = {}
    for i in reversed(range(len(bodies))):
        body, S, own = bodies[i], bodies[i].S, part(known, bodies[i].own)
        if i in held:
            shown, push = M[i], B[i] + M[i] @ (eta[i] + S @ own)
        else:
            U = M[i] @ S
            inverse[i] = _inverted(S.T @ U + ca.diag(part(armature, body.own)))
            own = own - part(damping, body.own) * part(v, body.own)
            shown = M[i] - U @ inverse[i] @ U.T
            push = B[i] + M[i] @ eta[i] + U @ inverse[i] @ (own - S.T @ (M[i] @ eta[i] + B[i]))
        if body.parent >= 0:
            X = spatial.motion_to_child(body.X, ca.DM.eye(6))
            M[body.parent] = M[body.parent] + X.T @ shown @ X
            B[body.parent] = B[body.parent] + spatial.force_to_parent(body.X, push)
    a, tau = tree.zeros(model.nv, 1, q, v, known), tree.zeros(model.nv, 1, q, v, known)
    A: list[Expr] = []
    F: list[Expr] = []
    for i, body in enumerate(bodies):
        S, own, lost = body.S, part(known, body.own), part(damping, body.own) * part(v, body.own)
        above = eta[i] if body.parent < 0 else eta[i] + spatial.motion_to_child(body.X, A[body.parent])
        own_a = own if i in held else inverse[i] @ (own - lost - S.T @ (M[i] @ above + B[i]))
        A.append(above + S @ own_a)
        F.append(M[i] @ A[i] + B[i])
        a[body.own] = own_a
        tau[body.own] = S.T @ F[i] + part(armature, body.own) * own_a + lost if i in held else own
    return Hybrid(a, tau, F)


def delassus(model: Model, q: Expr, rows: Expr) -> Expr:
    """``G M^-1 G'`` [m, m] of a constraint matrix G [m, nv], the coupling of multipliers, O(n) for each of m."""
    return rows @ preconditioner(model, q).times(ca.densify(rows.T))


def _inertia(model: Model, i: int) -> spatial.Inertia:
    inertia = model.bodies[i].inertia
    return spatial.inertia_from_com(inertia.mass, inertia.com, inertia.inertia)


def _inverted(matrix: Expr) -> Expr:
    n = matrix.shape[0]
    if n == 0:
        return ca.DM(0, 0)
    return 1 / matrix if n == 1 else ca.solve(ca.densify(matrix), type(matrix).eye(n))


def _check(model: Model) -> None:
    for body in model.bodies:
        if body.joint.mimic is not None:
            raise ModelError(f"follows {body.joint.mimic.leader!r}; a recursion needs independent joints",
                             element=f"joint {body.joint.name!r}")
