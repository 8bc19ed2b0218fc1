"""Second derivatives of inverse dynamics contracted with a multiplier, ``lambda^T tau``, in closed form: O(N d) operations.

A solver never needs the tensors of second derivatives, only their product with multipliers. With the multiplier read as a
velocity, ``w_i = w_parent + S_i lambda_i`` and ``Lambda_i = w_parent x S_i``, the sum ``lambda^T tau = sum_b w_b^T f_b`` is
differentiated body by body; composite sums of h = I w, z = 2 B(I, v)^T w and D = 2 B(I, w) over the subtree below a joint
give, for every pair of a joint j and a joint k on its way to the root (k = j included), per column,

    a = S x* z + 2 psi_dot x* h - D psi_dot + 2 B^T Lambda        b = S x* h + I Lambda
    c = S x* f + 2 B psi_dot + I psi_ddot                         e = 2 S x* h - D S        g = I (psi_dot + S_dot) + 2 B S

    qq[j, k] = a . psi_dot_k + b . psi_ddot_k + c . Lambda_k      vq[j, k] = e . psi_dot_k + g . Lambda_k
    qv[j, k] = a . S_k + b . (psi_dot_k + S_dot_k)  (k above j)   vv[j, k] = e . S_k  (k above j)
    aq[j, k] = (I S) . Lambda_k                                   qa[j, k] = b . S_k  (k above j)

It follows from the identities K1-K16 of Singh, Russell and Wensing (2022); compare Nganga and Wensing (2021), "Accelerating
Second-Order Differential Dynamic Programming for Rigid-Body Systems", which reach the same object by reverse differentiation.
z, a and e are pure moments, so most products are of 3-vectors.

Order of differentiation: entry [j, k] of qq is d/ds_k d/ds_j of lambda^T tau(q exp(s_k) exp(s_j)): the perturbation k acts first.
Inside one joint of several degrees of freedom it is not symmetric; see ``dynamics.derivatives.manifold``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.derivatives.inverse_first import backward
from dynamics.derivatives.sweep import (
    Sweep,
    add_coriolis,
    coriolis,
    coriolis_to_parent,
    cross_columns,
    moment_columns,
    sweep,
)
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import angular, linear


class ContractedInverse(NamedTuple):
    """Derivatives of the scalar ``lambda^T tau(q, v, a)``.

    gq, gv, ga: gradients [nv]. qq, qv, vv, qa [nv, nv]: entry [j, k] is the second derivative with respect to component j of the
    first letter and k of the second; qq in the raw order of the module's text, vv symmetric. va and aa are zero.
    """

    gq: Expr
    gv: Expr
    ga: Expr
    qq: Expr
    qv: Expr
    vv: Expr
    qa: Expr


def contracted_inverse_dynamics(model: Model, q: Expr, v: Expr, a: Expr, multiplier: Expr,
                                f_ext: Mapping[str, Expr] | None = None, hubs: str = "limb") -> ContractedInverse:
    """Gradient and second derivatives of ``multiplier^T inverse_dynamics(q, v, a, f_ext)``.

    q: [nq]; v, a, multiplier: [nv]; f_ext: body name -> wrench [6], constant in body coordinates. hubs as in
    ``inverse_dynamics_partials``. Raises ModelError, UnknownNameError.
    """
    q, v, a, multiplier = (tree.as_column(x) for x in (q, v, a, multiplier))
    tree.check_sizes(model, multiplier=(multiplier, model.nv))
    passed = sweep(model, q, v, a, f_ext, hubs)
    first = backward(passed, q, v, a) if passed.reduced.moving else ()
    links = _backward(passed, passed.lifted.lift(multiplier), q, v, a, multiplier)
    gq, gv, ga, *matrices = passed.lifted.second(multiplier, first, links)
    armature, damping = tree.diagonal(model, "armature"), tree.diagonal(model, "damping")
    return ContractedInverse(
        gq, gv + damping * multiplier, ga + armature * multiplier, *matrices)


class _Multiplier(NamedTuple):
    """w_i [6] and Lambda_i [6, n] in the coordinates of the hub."""

    w: Expr
    turned: Expr


def _multipliers(passed: Sweep, u: Expr) -> list[_Multiplier]:
    out: list[_Multiplier] = []
    for link, x in zip(passed.reduced.links, passed.links, strict=True):
        above = ca.DM(6, 1) if link.parent < 0 else out[link.parent].w
        if x.hop is not None and link.parent >= 0:
            above = spatial.motion_to_child(x.hop, above)
        out.append(_Multiplier(above + x.S @ part(u, link.columns), spatial.cross_motion(above, x.S)))
    return out


class _Carried(NamedTuple):
    """Columns of the joints below: indices, moments a and e [3, k], wrenches b, c, g and IS [6, k]."""

    indices: list[int]
    a: Expr
    e: Expr
    b: Expr
    c: Expr
    g: Expr
    IS: Expr


def _backward(passed: Sweep, u: Expr, *like: Expr) -> tuple[Expr, ...]:
    n, links = passed.reduced.nu, passed.links
    gq, gv, ga = (tree.zeros(n, 1, *like) for _ in range(3))
    qq, qv, vv, qa = (tree.zeros(n, n, *like) for _ in range(4))
    over = _multipliers(passed, u)
    inertia, B, f = [x.inertia for x in links], [x.B for x in links], [x.force for x in links]
    h = [spatial.apply_inertia(x.inertia, m.w) for x, m in zip(links, over, strict=True)]
    z = [x.B.transposed(m.w) for x, m in zip(links, over, strict=True)]
    D = [coriolis(x.inertia, m.w) for x, m in zip(links, over, strict=True)]
    below: list[list[_Carried]] = [[] for _ in links]
    for i in reversed(range(len(links))):
        x, own, turned, parent = links[i], passed.columns(i), over[i].turned, passed.reduced.links[i].parent
        S, fast = x.S, x.psi_dot + x.S_dot
        IS = spatial.apply_inertia(inertia[i], S)
        # every force of e and of a cancels: 2 w x p = 2 w x p, and z is a moment
        Sh = cross_columns(S, h[i])
        DS = D[i].K2 @ angular(S)
        e = 2 * angular(Sh) - DS
        a = (-(spatial.hat(z[i]) @ angular(S)) + 2 * moment_columns(x.psi_dot, h[i]) - D[i].K2 @ angular(x.psi_dot)
             + B[i].transposed(turned))
        b = Sh + spatial.apply_inertia(inertia[i], turned)
        c = cross_columns(S, f[i]) + B[i].times(x.psi_dot) + spatial.apply_inertia(inertia[i], x.psi_ddot)
        g = spatial.apply_inertia(inertia[i], fast) + B[i].times(S)
        gq[own] = angular(x.psi_dot).T @ z[i] + x.psi_ddot.T @ h[i] + turned.T @ f[i]
        gv[own], ga[own] = fast.T @ h[i] + angular(S).T @ z[i], S.T @ h[i]
        qq[own, own] = a.T @ angular(x.psi_dot) + b.T @ x.psi_ddot + c.T @ turned
        qv[own, own] = (e.T @ angular(x.psi_dot) + g.T @ turned).T
        vv[own, own] = ca.triu2symm(ca.triu((angular(Sh) - DS).T @ angular(S) + linear(Sh).T @ linear(S)
                                            - _force_of(D[i], S).T @ linear(S)))
        qa[own, own] = (IS.T @ turned).T
        for p in below[i]:
            j = p.indices
            block = p.a.T @ angular(x.psi_dot) + p.b.T @ x.psi_ddot + p.c.T @ turned
            qq[j, own], qq[own, j] = block, block.T
            qv[j, own] = p.a.T @ angular(S) + p.b.T @ fast
            qv[own, j] = (p.e.T @ angular(x.psi_dot) + p.g.T @ turned).T
            block = p.e.T @ angular(S)
            vv[j, own], vv[own, j] = block, block.T
            qa[j, own], qa[own, j] = p.b.T @ S, (p.IS.T @ turned).T
        if parent < 0:
            continue
        parts = [_Carried(list(range(own.start, own.stop)), a, e, b, c, g, IS), *below[i]]
        sums = (inertia[i], B[i], D[i], f[i], h[i], z[i])
        if (hop := x.hop) is not None:
            parts = [_Carried(p.indices, hop.R @ p.a, hop.R @ p.e, *(spatial.force_to_parent(hop, y) for y in p[3:]))
                     for p in parts]
            sums = (spatial.transform_inertia(hop, sums[0]), coriolis_to_parent(hop, sums[1]), coriolis_to_parent(hop, sums[2]),
                    spatial.force_to_parent(hop, sums[3]), spatial.force_to_parent(hop, sums[4]), hop.R @ sums[5])
        inertia[parent] = spatial.add_inertia(inertia[parent], sums[0])
        B[parent], D[parent] = add_coriolis(B[parent], sums[1]), add_coriolis(D[parent], sums[2])
        f[parent], h[parent], z[parent] = f[parent] + sums[3], h[parent] + sums[4], z[parent] + sums[5]
        below[parent] += parts
    return gq, gv, ga, qq, qv, vv, qa


def _force_of(D: Any, S: Expr) -> Expr:
    """Force part [3, k] of ``D S``."""
    return -(spatial.hat(D.p2) @ angular(S))
