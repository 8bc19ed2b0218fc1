"""First partial derivatives of inverse dynamics in closed form, O(N d) operations for N joints and depth d.

Source: Singh, Russell and Wensing (2022), Eqs. 7, 8 and 16 (after Singh, Russell and Wensing 2022, "Efficient Analytical
Derivatives of Rigid-Body Dynamics using Spatial Vector Algebra"), with composite quantities of the subtree below joint i:

    dtau_i/dq_j = S_i^T (2 B_i psi_dot_j + I_i psi_ddot_j)                 j on the way from the root to i, or j = i
    dtau_j/dq_i = S_j^T (2 B_i psi_dot_i + I_i psi_ddot_i + S_i x* f_i)    j strictly above i
    dtau_i/dv_j = S_i^T (2 B_i S_j + I_i (psi_dot_j + S_dot_j)),  and the same with i and j exchanged

Joints that are not on one path to the root do not feel each other, and those entries are structurally zero. Derivatives with
respect to q are right-tangent, d/ds f(q [+] s e_j). External wrenches are constant in body coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.derivatives.sweep import Sweep, add_coriolis, coriolis_to_parent, cross_columns, sweep
from dynamics.model.model import Model
from dynamics.spatial import angular

Expr = Any


class InversePartials(NamedTuple):
    """tau [nv] and dtau/dq, dtau/dv, dtau/da = M, each [nv, nv] with the tree's structural zeros."""

    tau: Expr
    dtau_dq: Expr
    dtau_dv: Expr
    M: Expr


def inverse_dynamics_partials(model: Model, q: Expr, v: Expr, a: Expr, f_ext: Mapping[str, Expr] | None = None,
                              hubs: str = "limb") -> InversePartials:
    """Inverse dynamics and its first derivatives, armature and damping included.

    q: [nq]; v, a: [nv]; f_ext: body name -> wrench [6] on that body, body coordinates. hubs: see ``dynamics.derivatives.sweep``,
    changes the operation count and not the result. Raises ModelError, UnknownNameError.
    """
    q, v, a = tree.as_column(q), tree.as_column(v), tree.as_column(a)
    passed = sweep(model, q, v, a, f_ext, hubs)
    tau, dq, dv, M = passed.lifted.first(*backward(passed, q, v, a))
    armature, damping = tree.diagonal(model, "armature"), tree.diagonal(model, "damping")
    return InversePartials(
        tau + armature * a + damping * v, dq, dv + ca.diag(damping), M + ca.diag(armature))


def inverse_dynamics_and_mass(model: Model, q: Expr, v: Expr, a: Expr, f_ext: Mapping[str, Expr] | None = None,
                              hubs: str = "limb") -> tuple[Expr, Expr]:
    """tau [nv] and M [nv, nv] of ``inverse_dynamics_partials``, term by term the same graphs, without the other derivatives."""
    q, v, a = tree.as_column(q), tree.as_column(v), tree.as_column(a)
    passed = sweep(model, q, v, a, f_ext, hubs)
    n, links = passed.reduced.nu, passed.links
    tau, M = tree.zeros(n, 1, q, v, a), tree.zeros(n, n, q, v, a)
    inertia, f = [x.inertia for x in links], [x.force for x in links]
    below: list[list[tuple[list[int], Expr]]] = [[] for _ in links]
    for i in reversed(range(len(links))):
        x, own, parent = links[i], passed.columns(i), passed.reduced.links[i].parent
        h = spatial.apply_inertia(inertia[i], x.S)
        tau[own] = x.S.T @ f[i]
        M[own, own] = ca.triu2symm(ca.triu(x.S.T @ h))
        for index, carried in below[i]:
            block = x.S.T @ carried
            M[own, index], M[index, own] = block, block.T
        if parent < 0:
            continue
        parts = [(list(range(own.start, own.stop)), h), *below[i]]
        moved, moved_f = inertia[i], f[i]
        if (hop := x.hop) is not None:
            parts = [(index, spatial.force_to_parent(hop, carried)) for index, carried in parts]
            moved, moved_f = spatial.transform_inertia(hop, moved), spatial.force_to_parent(hop, moved_f)
        inertia[parent], f[parent] = spatial.add_inertia(inertia[parent], moved), f[parent] + moved_f
        below[parent] += parts
    armature, damping = tree.diagonal(model, "armature"), tree.diagonal(model, "damping")
    return passed.lifted.rows(tau) + armature * a + damping * v, passed.lifted.congruence(M) + ca.diag(armature)


class _Carried(NamedTuple):
    """Columns of all joints below, in the hub of the current link: their indices, I S, 2 B psi_dot + I psi_ddot + S x* f,
    2 B S + I (psi_dot + S_dot), each [6, k], and the moment [3, k] of 2 B^T S."""

    indices: list[int]
    h: Expr
    by_q: Expr
    by_v: Expr
    b: Expr


class FirstOrder(NamedTuple):
    """tau [n], its derivatives by q and v, and M [n, n]."""

    tau: Expr
    dq: Expr
    dv: Expr
    M: Expr


def backward(passed: Sweep, *like: Expr) -> FirstOrder:
    """tau, dtau/dq, dtau/dv and M of the links, from a forward sweep."""
    n, links = passed.reduced.nu, passed.links
    tau = tree.zeros(n, 1, *like)
    dq, dv, M = (tree.zeros(n, n, *like) for _ in range(3))
    inertia, B, f = [x.inertia for x in links], [x.B for x in links], [x.force for x in links]
    below: list[list[_Carried]] = [[] for _ in links]
    for i in reversed(range(len(links))):
        x, own = links[i], passed.columns(i)
        h = spatial.apply_inertia(inertia[i], x.S)
        free = B[i].times(x.psi_dot) + spatial.apply_inertia(inertia[i], x.psi_ddot)
        by_v = B[i].times(x.S) + spatial.apply_inertia(inertia[i], x.psi_dot + x.S_dot)
        b = B[i].transposed(x.S)
        tau[own] = x.S.T @ f[i]
        dq[own, own], dv[own, own], M[own, own] = x.S.T @ free, x.S.T @ by_v, ca.triu2symm(ca.triu(x.S.T @ h))
        for part in below[i]:
            index = part.indices
            dq[own, index], dv[own, index] = x.S.T @ part.by_q, x.S.T @ part.by_v
            dq[index, own] = part.b.T @ angular(x.psi_dot) + part.h.T @ x.psi_ddot
            dv[index, own] = part.b.T @ angular(x.S) + part.h.T @ (x.psi_dot + x.S_dot)
            block = x.S.T @ part.h
            M[own, index], M[index, own] = block, block.T
        parent = passed.reduced.links[i].parent
        if parent < 0:
            continue
        parts = [_Carried(list(range(own.start, own.stop)), h, free + cross_columns(x.S, f[i]), by_v, b), *below[i]]
        moved, moved_B, moved_f = inertia[i], B[i], f[i]
        if (hop := x.hop) is not None:
            parts = [_Carried(p.indices, spatial.force_to_parent(hop, p.h), spatial.force_to_parent(hop, p.by_q),
                              spatial.force_to_parent(hop, p.by_v), hop.R @ p.b) for p in parts]
            moved, moved_B = spatial.transform_inertia(hop, moved), coriolis_to_parent(hop, moved_B)
            moved_f = spatial.force_to_parent(hop, moved_f)
        inertia[parent] = spatial.add_inertia(inertia[parent], moved)
        B[parent], f[parent] = add_coriolis(B[parent], moved_B), f[parent] + moved_f
        below[parent] += parts
    return FirstOrder(tau, dq, dv, M)
