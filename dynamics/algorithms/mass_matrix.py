"""Joint-space mass matrix by the composite-rigid-body algorithm.

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), Table 6.2.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.model.model import Model

Expr = Any


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
            # two joints that share a coordinate (mimic) contribute both off-diagonal blocks to the same place
            M[vj, vi] += block
            M[vi, vj] += block.T
    return M


def _symmetric(block: Expr) -> Expr:
    """A block known to be symmetric, its lower triangle copied from the upper one: M is then symmetric to the bit."""
    return ca.triu2symm(ca.triu(block))
