"""Plain NumPy dynamics of trees with constant motion subspaces, in world coordinates and safe for complex steps.

Written from the textbook formulas with dense 6x6 matrices, so that it shares nothing with the code under test but the reading of a
Model. A complex perturbation i h of joint coordinate (j, p) multiplies the joint's pose from the right by exp(i h s); h = 1e-30
makes the second-order term vanish, so 1 + i h s^ is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

H = 1e-30


def hat(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def crm(v):
    """v x for motion vectors [linear; angular]."""
    return np.block([[hat(v[3:]), hat(v[:3])], [np.zeros((3, 3)), hat(v[3:])]])


def crf(v):
    return -crm(v).T


def swapped(f):
    """The matrix that takes v to v x* f, column by column from the definition."""
    return np.stack([crf(e) @ f for e in np.eye(6)], axis=1)


@dataclass(frozen=True)
class Tree:
    parents: tuple
    R: tuple  # joint poses, parent to child, possibly complex
    p: tuple
    S: tuple
    inertias: tuple
    columns: tuple
    gravity: np.ndarray
    armature: np.ndarray
    damping: np.ndarray
    wrenches: tuple  # on each body, body coordinates

    @property
    def n(self):
        return len(self.armature)

    def way(self, i):
        out = []
        while i >= 0:
            out.append(i)
            i = self.parents[i]
        return out


def read(model, q, f_ext=None) -> Tree:
    """The tree at configuration q. Joint kinds with a constant subspace only, no mimic."""
    R, p, S, inertias = [], [], [], []
    for i, body in enumerate(model.bodies):
        kind, joint = model.kind(i), body.joint
        assert kind.bias is None
        assert joint.mimic is None
        pose = kind.transform(ca.DM(q[model.q_slice(i)]))
        R0 = np.array(joint.placement.rotation)
        R.append(R0 @ np.array(ca.DM(pose.R)))
        p.append(np.array(joint.placement.position) + R0 @ np.array(ca.DM(pose.p)).ravel())
        S.append(np.array(ca.DM(kind.subspace(ca.DM(kind.neutral)))))
        m, c = body.inertia.mass, hat(body.inertia.com)
        inertias.append(np.block([[m * np.eye(3), -m * c], [m * c, np.array(body.inertia.inertia) - m * c @ c]]))
    stack = [np.concatenate([np.array(getattr(b.joint, w) or np.zeros(model.kind(i).nv)) for i, b in enumerate(model.bodies)])
             for w in ("armature", "damping")]
    wrenches = tuple(np.array((f_ext or {}).get(b.name, np.zeros(6)), float) for b in model.bodies)
    return Tree(tuple(b.parent for b in model.bodies), tuple(R), tuple(p), tuple(S), tuple(inertias),
                tuple(model.v_slice(i) for i in range(len(model.bodies))), np.array(model.gravity), *stack, wrenches)


def stepped(tree: Tree, component: int, h=1j * H) -> Tree:
    i = next(i for i, c in enumerate(tree.columns) if c.start <= component < c.stop)
    s = h * tree.S[i][:, component - tree.columns[i].start]
    R, p = list(tree.R), list(tree.p)
    p[i] = p[i] + R[i] @ s[:3]
    R[i] = R[i] @ (np.eye(3) + hat(s[3:]))
    return replace(tree, R=tuple(R), p=tuple(p))


@dataclass(frozen=True)
class World:
    """World-coordinate quantities of every body: transforms X, subspaces, their rates, twists, accelerations, inertias, forces."""

    S: list
    Sd: list
    Pd: list
    Pdd: list
    v: list
    a: list
    I: list
    f: list


def world(tree: Tree, v, a) -> World:
    w = World([], [], [], [], [], [], [], [])
    X = []
    zero, base = np.zeros(6), np.r_[-tree.gravity, np.zeros(3)]
    for i, parent in enumerate(tree.parents):
        up = X[parent] if parent >= 0 else np.eye(6)
        R, p = tree.R[i], tree.p[i]
        X.append(up @ np.block([[R, hat(p) @ R], [np.zeros((3, 3)), R]]))
        inverse = np.linalg.inv(X[i])
        S, c = X[i] @ tree.S[i], tree.columns[i]
        vp, ap = (w.v[parent], w.a[parent]) if parent >= 0 else (zero, base)
        vi = vp + S @ v[c]
        ai = ap + S @ a[c] + crm(vi) @ S @ v[c]
        I = inverse.T @ tree.inertias[i] @ inverse
        w.S.append(S)
        w.Sd.append(crm(vi) @ S)
        w.Pd.append(crm(vp) @ S)
        w.Pdd.append(crm(ap) @ S + crm(vp) @ crm(vp) @ S)
        w.v.append(vi)
        w.a.append(ai)
        w.I.append(I)
        w.f.append(I @ ai + crf(vi) @ I @ vi - inverse.T @ tree.wrenches[i])
    return w


def subtree(tree, values):
    out = list(values)
    for i in reversed(range(len(out))):
        if tree.parents[i] >= 0:
            out[tree.parents[i]] = out[tree.parents[i]] + out[i]
    return out


def B(I, v):
    """Eq. 6 of Singh, Russell and Wensing (2022)."""
    return (crf(v) @ I - I @ crm(v) + swapped(I @ v)) / 2


def rnea(tree: Tree, v, a):
    w = world(tree, v, a)
    f = subtree(tree, w.f)
    tau = tree.armature * a + tree.damping * v + 0 * sum(x.sum() for x in f)  # complex where anything is
    for i, c in enumerate(tree.columns):
        tau[c] = tau[c] + w.S[i].T @ f[i]
    return tau


def first_order(tree: Tree, v, a):
    """dtau/dq, dtau/dv, M by Eqs. 7, 8 and 16, literally."""
    w = world(tree, v, a)
    f, I, Bc = subtree(tree, w.f), subtree(tree, w.I), subtree(tree, [B(I, x) for I, x in zip(w.I, w.v, strict=True)])
    dtype = complex if np.iscomplexobj(f[0]) else float
    Q, V, M = (np.zeros((tree.n, tree.n), dtype) for _ in range(3))
    for i in range(len(I)):
        for j in tree.way(i):
            r, c = tree.columns[i], tree.columns[j]
            Q[r, c] = w.S[i].T @ (2 * Bc[i] @ w.Pd[j] + I[i] @ w.Pdd[j])
            V[r, c] = w.S[i].T @ (2 * Bc[i] @ w.S[j] + I[i] @ (w.Pd[j] + w.Sd[j]))
            M[r, c] = w.S[i].T @ I[i] @ w.S[j]
            M[c, r] = M[r, c].T
            if i != j:
                Q[c, r] = w.S[j].T @ (2 * Bc[i] @ w.Pd[i] + I[i] @ w.Pdd[i] + swapped(f[i]) @ w.S[i])
                V[c, r] = w.S[j].T @ (2 * Bc[i] @ w.S[i] + I[i] @ (w.Pd[i] + w.Sd[i]))
    return Q, V + np.diag(tree.damping), M + np.diag(tree.armature)


def derivative_q(function, tree: Tree):
    """d function(tree) / dq by complex steps, new last index."""
    return np.stack([np.imag(function(stepped(tree, k))) / H for k in range(tree.n)], axis=-1)


def derivative_x(function, x):
    """d function(x) / dx by complex steps, new last index."""
    return np.stack([np.imag(function(x + 1j * H * e)) / H for e in np.eye(len(x))], axis=-1)
