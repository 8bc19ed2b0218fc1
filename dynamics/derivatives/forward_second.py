"""First and second derivatives of forward dynamics from those of inverse dynamics and one factorisation of the mass matrix.

Differentiating ``tau = ID(q, v, FD(q, v, tau))`` once and twice, all derivatives of ID taken at a = FD(q, v, tau):

    A_q = -M^-1 dID/dq        A_v = -M^-1 dID/dv        A_tau = M^-1
    d2a/dq_j dq_k = -M^-1 (d2ID/dq_j dq_k + dM/dq_k A_qj + dM/dq_j A_qk)      and likewise for the other pairs.

Contracted with mu, the second line needs only the inverse dynamics contracted with lambda = M^-1 mu. Sources: Carpentier and
Mansard (2018), Analytical Derivatives of Rigid Body Dynamics Algorithms, Eq. 25; Singh, Russell and Wensing (2024), On Second-Order
Derivatives of Rigid-Body Dynamics: Theory and Implementation; Nganga and Wensing (2021) for the contraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics.algorithms import tree
from dynamics.algorithms.forward_dynamics import solve_mass
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_and_mass, inverse_dynamics_partials
from dynamics.derivatives.inverse_second import inverse_dynamics_second_partials
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


class ForwardPartials(NamedTuple):
    """a [nv]; da/dq, da/dv, da/dtau = M^-1, each [nv, nv]; and M."""

    a: Expr
    da_dq: Expr
    da_dv: Expr
    da_dtau: Expr
    M: Expr


class ContractedForward(NamedTuple):
    """Derivatives of the scalar ``mu^T a(q, v, tau)``: gradients [nv] and second derivatives [nv, nv]; qq in raw order, entry
    [j, k] belongs to component j of the first letter and k of the second. vtau and tautau are zero."""

    gq: Expr
    gv: Expr
    gtau: Expr
    qq: Expr
    qv: Expr
    vv: Expr
    qtau: Expr


class ForwardSecondPartials(NamedTuple):
    """Tensors [nv, nv * nv], stored as those of ``InverseSecondPartials``: entry (i; j, k) of qv is d2a_i / dq_j dv_k."""

    qq: Expr
    qv: Expr
    vv: Expr
    qtau: Expr


def forward_dynamics_partials(model: Model, q: Expr, v: Expr, tau: Expr, f_ext: Mapping[str, Expr] | None = None
                              ) -> ForwardPartials:
    """q: [nq]; v, tau: [nv]; f_ext: body name -> wrench [6], body coordinates. Raises ModelError, UnknownNameError."""
    n = model.nv
    # a from the same sweep and the same factorisation: shorter than the articulated-body algorithm once both are needed anyway
    still, M = inverse_dynamics_and_mass(model, q, v, tree.zeros(n, 1, q, v, tau), f_ext)
    a = solve_mass(M, tree.as_column(tau) - still)
    first = inverse_dynamics_partials(model, q, v, a, f_ext)
    solved = solve_mass(first.M, ca.horzcat(-first.dtau_dq, -first.dtau_dv, ca.DM.eye(n)))
    return ForwardPartials(a, solved[:, :n], solved[:, n:2 * n], solved[:, 2 * n:], first.M)


def contracted_forward_dynamics(model: Model, q: Expr, v: Expr, tau: Expr, mu: Expr, f_ext: Mapping[str, Expr] | None = None,
                                first: ForwardPartials | None = None) -> ContractedForward:
    """Gradient and second derivatives of ``mu^T forward_dynamics(q, v, tau, f_ext)``. mu: [nv]; first: the first derivatives at the
    same arguments, where they are known already. Raises as above."""
    mu = tree.as_column(mu)
    first = first or forward_dynamics_partials(model, q, v, tau, f_ext)
    lam = first.da_dtau.T @ mu
    x = contracted_inverse_dynamics(model, q, v, first.a, lam, f_ext)
    mixed = x.qa @ first.da_dq
    return ContractedForward(-x.gq, -x.gv, lam, -(x.qq + mixed + mixed.T), -(x.qv + x.qa @ first.da_dv), -x.vv,
                             -(x.qa @ first.da_dtau))


def forward_dynamics_second_partials(model: Model, q: Expr, v: Expr, tau: Expr, f_ext: Mapping[str, Expr] | None = None
                                     ) -> ForwardSecondPartials:
    """All second derivatives in full. O(n^4) operations: meant for inspection and for small robots."""
    n = model.nv
    first = forward_dynamics_partials(model, q, v, tau, f_ext)
    second = inverse_dynamics_second_partials(model, q, v, first.a, f_ext)
    pages = [second.Mq[:, k * n:(k + 1) * n] for k in range(n)]
    # entry (i; k, j): sum_l dM_il/dq_j A_lk, then exchanged to (i; j, k)
    exchanged = np.arange(n * n).reshape(n, n).T.ravel().tolist()

    def through(A: Expr) -> Expr:
        return ca.horzcat(*(page @ A for page in pages))[:, exchanged] if n else ca.DM(0, 0)

    by_q = through(first.da_dq)
    return ForwardSecondPartials(*(-solve_mass(first.M, x) for x in (
        second.qq + by_q + by_q[:, exchanged], second.qv + through(first.da_dv), second.vv, through(first.da_dtau))))
