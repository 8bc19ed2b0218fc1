"""Joint-space mass matrix by the composite-rigid-body algorithm.

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), Table 6.2.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import configuration, tree
from dynamics.algorithms.built import built_once
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model

#: a pivot below this fraction of its diagonal entry is zero: what is left of it is rounding
SINGULAR = 1e-13


@built_once
def mass_matrix(model: Model, q: Expr) -> Expr:
    """M(q) [nv, nv], symmetric positive definite for bodies with mass; armature on the diagonal. q: [nq]."""
    q = tree.as_column(q)
    tree.check_sizes(model, q=(q, model.nq))
    transforms = [tree.parent_transform(model, i, q) for i in range(len(model.bodies))]
    subspaces = [tree.coupled_subspace(model, i, q) for i in range(len(model.bodies))]
    composite = [spatial.inertia_from_com(b.inertia.mass, b.inertia.com, b.inertia.inertia) for b in model.bodies]
    for i in reversed(range(len(model.bodies))):
        parent = model.bodies[i].parent
        if parent >= 0:
            composite[parent] = spatial.add_inertia(
                composite[parent], spatial.transform_inertia(transforms[i], composite[i]))

    M = tree.zeros(model.nv, model.nv, q)
    armature = tree.diagonal(model, "armature")
    for k in range(model.nv):
        M[k, k] = armature[k]
    for i in range(len(model.bodies)):
        vi = model.v_slice(i)
        F = spatial.apply_inertia(composite[i], subspaces[i])
        M[vi, vi] += _symmetric(subspaces[i].T @ F)
        j = i
        while model.bodies[j].parent >= 0:
            F = spatial.force_to_parent(transforms[j], F)
            j = model.bodies[j].parent
            vj = model.v_slice(j)
            block = subspaces[j].T @ F
            # two joints that share a coordinate (mimic) contribute both off-diagonal blocks to the same entries
            M[vj, vi] += block
            M[vi, vj] += block.T
    return M


def bare_joints(model: Model, q: np.ndarray | None = None) -> list[tuple[str, str]]:
    """(velocity, body) of joints whose motion has no inertia at q [nq], or wherever the robot is (None): there M(q) is singular.

    The pivots of M = L' D L, eliminated from the leaves to the root, are the articulated inertias along the joints (RBDA
    section 7.2): one that vanishes belongs to a joint to blame.
    """
    at = configuration.random_configuration(model, np.random.default_rng(0)) if q is None else q
    bare = _bare_of_matrix(model, at) if model.has_coupling else _bare_of_tree(model, at)
    carriers = {k: body.name for i, body in enumerate(model.bodies) if body.joint.mimic is None
                for k in range(*model.v_slice(i).indices(model.nv))}
    return [(model.velocity_names[k], carriers[k]) for k in bare]


def _bare_of_matrix(model: Model, q: np.ndarray) -> list[int]:
    M = np.array(ca.DM(mass_matrix(model, ca.DM(q))))
    if not np.isfinite(M).all():
        return []
    diagonal, bare = M.diagonal().copy(), []
    for k in reversed(range(model.nv)):
        if abs(M[k, k]) <= SINGULAR * diagonal[k]:
            bare.append(k)
            continue
        M[:k, :k] -= np.outer(M[:k, k], M[k, :k] / M[k, k])
    return bare[::-1]


def _bare_of_tree(model: Model, q: np.ndarray) -> list[int]:
    """The same, body after body: work grows with their number and not with its square."""
    column, armature, bare = ca.DM(q), np.array(tree.diagonal(model, "armature")).ravel(), []
    composite = [np.array(spatial.inertia_matrix(spatial.inertia_from_com(b.inertia.mass, b.inertia.com, b.inertia.inertia)))
                 for b in model.bodies]
    articulated = [inertia.copy() for inertia in composite]
    for i in reversed(range(len(model.bodies))):
        here, columns = model.bodies[i], range(*model.v_slice(i).indices(model.nv))
        S, left = np.array(tree.coupled_subspace(model, i, column)).reshape(6, -1), articulated[i]
        if not np.isfinite(left).all():
            return []
        for k, s in reversed(list(zip(columns, S.T, strict=True))):
            pivot = s @ left @ s + armature[k]
            if abs(pivot) <= SINGULAR * (s @ composite[i] @ s + armature[k]):
                bare.append(k)
                continue
            left = left - np.outer(left @ s, left @ s) / pivot
        if here.parent >= 0:
            X = np.array(spatial.force_matrix(tree.parent_transform(model, i, column)))
            with np.errstate(all="ignore"):  # positions of 1e300 m
                composite[here.parent] += X @ composite[i] @ X.T
                articulated[here.parent] += X @ left @ X.T
    return bare[::-1]


def check_inertia(model: Model, q: np.ndarray | None = None) -> None:
    """Raise ModelError that names the ``bare_joints``: no acceleration follows from forces."""
    if bare := bare_joints(model, q):
        names = " and ".join(f"{velocity!r} (body {body!r})" for velocity, body in bare)
        where = "" if q is None else " here"
        raise ModelError(f"nothing resists the motion of {names}{where}: the mass matrix is singular; give the moving bodies "
                         "inertia or the joint an armature, or make it fixed", element=f"model {model.name!r}")


def _symmetric(block: Expr) -> Expr:
    """A block known to be symmetric, its lower triangle copied from the upper one: M is then symmetric to the bit."""
    return ca.triu2symm(ca.triu(block))
