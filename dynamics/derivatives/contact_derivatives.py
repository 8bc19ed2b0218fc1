"""First and second derivatives of dynamics with contacts at rest, and of impacts: one symmetric system for both.

Contacts (all their rows active) turn the equations of motion into

    ID(q, v, a) - J^T f = tau        J a + dJ/dt v = 0

and an impact with restitution e into ``M (v+ - v) = J^T F``, ``J (v+ + e v) = 0``. Both read r(x, y) = 0 with the unknowns
y = (a, -f) or (v+, -F), r linear in y, and the same symmetric matrix ``K = dr/dy = [[M, J^T], [J, 0]]``, so

    dy/dx = -K^-1 r_x         d2(mu^T y)/dx dx = -(r_xx + r_xy Y + (r_xy Y)^T) contracted with lambda = K^-1 mu,  Y = dy/dx.

The dynamics in r come in closed form, the few kinematic terms of the contacts by differentiation of their Jacobian along
``jet``. Second derivatives with respect to q are symmetrised: Hessians of ``d -> f(q [+] d)``. Source: Singh and Wensing,
arXiv:2203.00679, sections on constrained dynamics and impact. The rows of J must be independent, else K is singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca

from dynamics import algorithms as alg
from dynamics.algorithms import tree
from dynamics.algorithms.contact_kinematics import Contact, contact_drift, contact_jacobian
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.derivatives.manifold import symmetrised
from dynamics.model.model import Model

Expr = Any


class ContactPartials(NamedTuple):
    """a [nv], force [m] (world axes, the contacts' rows in order), and their derivatives with respect to q (tangent), v, tau."""

    a: Expr
    force: Expr
    da_dq: Expr
    da_dv: Expr
    da_dtau: Expr
    df_dq: Expr
    df_dv: Expr
    df_dtau: Expr


class ImpactPartials(NamedTuple):
    """v_after [nv], impulse [m] (N s), and their derivatives with respect to q (tangent) and the velocity v before."""

    v_after: Expr
    impulse: Expr
    dv_dq: Expr
    dv_dv: Expr
    dF_dq: Expr
    dF_dv: Expr


def _solve(M: Expr, J: Expr, b: Expr) -> Expr:
    """``K^-1 b``. M from the leaves to the root and the constraints after it need no pivots: K is then LDL^T with D of both
    signs, since M is positive and -J M^-1 J^T negative definite."""
    n, m = M.shape[0], J.shape[0]
    K = ca.blockcat([[M, J.T], [J, ca.SX(m, m)]])
    order = [*reversed(range(n)), *range(n, n + m)]
    back = sorted(range(n + m), key=order.__getitem__)
    D, LT, p = ca.ldl(K[order, order], False)
    return ca.ldl_solve(b[order, :], D, LT, p)[back, :]


class _System(NamedTuple):
    """The solution y [nv + m], the parts of K, and dr/dx [nv + m, columns of x]."""

    y: Expr
    M: Expr
    J: Expr
    r_x: Expr


def _contact_system(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, tau: Expr) -> _System:
    n = model.nv
    J, drift = contact_jacobian(model, q, contacts), contact_drift(model, q, v, contacts)
    bias, M = alg.bias_force(model, q, v), ca.SX(alg.mass_matrix(model, q))
    y = _solve(M, J, ca.vertcat(tau - bias, -drift))
    first = inverse_dynamics_partials(model, q, v, y[:n])
    d = ca.SX.sym("d", n)
    symbols = [ca.SX.sym("q", model.nq), ca.SX.sym("v", n), ca.SX.sym("y", n + J.shape[0])]
    rows = _contact_rows(model, contacts, alg.jet(model, symbols[0], d), *symbols[1:])
    kinematic = ca.Function("rows", symbols, ca.substitute(
        [ca.jacobian(rows, d), ca.jacobian(rows, symbols[1])], [d], [ca.SX.zeros(n)]))
    k_q, k_v = kinematic(q, v, y)
    dynamic_q, dynamic_v = (ca.vertcat(x, ca.SX(J.shape[0], n)) for x in (first.dtau_dq, first.dtau_dv))
    r_tau = ca.vertcat(-ca.DM.eye(n), ca.DM(J.shape[0], n))
    return _System(y, M, J, ca.horzcat(dynamic_q + k_q, dynamic_v + k_v, r_tau))


def _contact_rows(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, y: Expr) -> Expr:
    """The part of r that the contacts add: [J^T y_f; J a + dJ/dt v]."""
    n = model.nv
    J = contact_jacobian(model, q, contacts)
    return ca.vertcat(J.T @ y[n:], J @ y[:n] + contact_drift(model, q, v, contacts))


def contact_dynamics_partials(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, tau: Expr) -> ContactPartials:
    """Accelerations and contact forces under tau [nv], and their first derivatives. q: [nq]; v: [nv]. Raises ModelError."""
    q, v, tau = tree.as_column(q), tree.as_column(v), tree.as_column(tau)
    n = model.nv
    system = _contact_system(model, contacts, q, v, tau)
    Y = -_solve(system.M, system.J, system.r_x)
    blocks = [Y[:, k * n:(k + 1) * n] for k in range(3)]
    return ContactPartials(system.y[:n], -system.y[n:], *(b[:n, :] for b in blocks), *(-b[n:, :] for b in blocks))


def contracted_contact_dynamics(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, tau: Expr, mu_a: Expr, mu_f: Expr
                                ) -> tuple[Expr, Expr]:
    """Gradient [3 nv] and Hessian [3 nv, 3 nv] of ``mu_a^T a + mu_f^T f`` with respect to (q, v, tau), q tangent and
    symmetrised. mu_a: [nv]; mu_f: [m]."""
    q, v, tau, mu_a, mu_f = (tree.as_column(x) for x in (q, v, tau, mu_a, mu_f))
    n = model.nv
    system = _contact_system(model, contacts, q, v, tau)
    Y = -_solve(system.M, system.J, system.r_x)
    lam = _solve(system.M, system.J, ca.vertcat(mu_a, -mu_f))
    dyn = contracted_inverse_dynamics(model, q, v, system.y[:n], lam[:n])
    d = ca.SX.sym("d", n)
    symbols = [ca.SX.sym("q", model.nq), ca.SX.sym("v", n), ca.SX.sym("y", system.y.shape[0]), ca.SX.sym("l", lam.shape[0])]
    phi = ca.dot(symbols[3], _contact_rows(model, contacts, alg.jet(model, symbols[0], d), *symbols[1:3]))
    x = ca.vertcat(d, symbols[1])
    gradient = ca.gradient(phi, x)
    second = ca.Function("second", symbols, ca.substitute(
        [ca.jacobian(gradient, x), ca.jacobian(gradient, symbols[2])], [d], [ca.SX.zeros(n)]))
    k_xx, k_xy = second(q, v, system.y, lam)
    m = lam.shape[0] - n
    r_xx = ca.blockcat([[symmetrised(dyn.qq), dyn.qv], [dyn.qv.T, dyn.vv]]) + k_xx
    r_xy = ca.vertcat(ca.horzcat(dyn.qa, ca.SX(n, m)), ca.SX(n, n + m)) + k_xy
    mixed = ca.vertcat(r_xy @ Y, ca.SX(n, 3 * n))
    H = -(ca.diagcat(r_xx, ca.SX(n, n)) + mixed + mixed.T)
    return -(system.r_x.T @ lam), H


# ------------------------------------------------------------------------------------------------ impact
def _impact_system(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, restitution: float) -> _System:
    n = model.nv
    J, M = contact_jacobian(model, q, contacts), alg.mass_matrix(model, q)
    y = _solve(M, J, ca.vertcat(M @ v, -restitution * (J @ v)))
    # M(q) u is the inverse dynamics of u at rest without gravity
    first = inverse_dynamics_partials(_weightless(model), q, ca.DM.zeros(n), y[:n] - v)
    d = ca.SX.sym("d", n)
    symbols = [ca.SX.sym("q", model.nq), ca.SX.sym("v", n), ca.SX.sym("y", n + J.shape[0])]
    rows = _impact_rows(model, contacts, alg.jet(model, symbols[0], d), symbols[1], symbols[2], restitution)
    kinematic = ca.Function("rows", symbols, ca.substitute([ca.jacobian(rows, d)], [d], [ca.SX.zeros(n)]))
    r_q = ca.vertcat(first.dtau_dq, ca.SX(J.shape[0], n)) + kinematic(q, v, y)
    return _System(y, M, J, ca.horzcat(r_q, ca.vertcat(-M, restitution * J)))


def _weightless(model: Model) -> Model:
    return replace(model, gravity=(0.0, 0.0, 0.0))


def _impact_rows(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, y: Expr, restitution: float) -> Expr:
    J = contact_jacobian(model, q, contacts)
    return ca.vertcat(J.T @ y[model.nv:], J @ (y[:model.nv] + restitution * v))


def impact_partials(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, restitution: float = 0.0) -> ImpactPartials:
    """Velocity after an impact on the contacts, impulse, and their first derivatives. q: [nq]; v: [nv] before the impact."""
    q, v = tree.as_column(q), tree.as_column(v)
    n = model.nv
    system = _impact_system(model, contacts, q, v, restitution)
    Y = -_solve(system.M, system.J, system.r_x)
    return ImpactPartials(system.y[:n], -system.y[n:], Y[:n, :n], Y[:n, n:], -Y[n:, :n], -Y[n:, n:])


def contracted_impact(model: Model, contacts: Sequence[Contact], q: Expr, v: Expr, mu_v: Expr, mu_F: Expr,
                      restitution: float = 0.0) -> tuple[Expr, Expr]:
    """Gradient [2 nv] and Hessian [2 nv, 2 nv] of ``mu_v^T v_after + mu_F^T impulse`` with respect to (q, v), q tangent and
    symmetrised."""
    q, v, mu_v, mu_F = (tree.as_column(x) for x in (q, v, mu_v, mu_F))
    n = model.nv
    system = _impact_system(model, contacts, q, v, restitution)
    Y = -_solve(system.M, system.J, system.r_x)
    lam = _solve(system.M, system.J, ca.vertcat(mu_v, -mu_F))
    m = lam.shape[0] - n
    dyn = contracted_inverse_dynamics(_weightless(model), q, ca.DM.zeros(n), system.y[:n] - v, lam[:n])
    d = ca.SX.sym("d", n)
    symbols = [ca.SX.sym("q", model.nq), ca.SX.sym("v", n), ca.SX.sym("y", n + m), ca.SX.sym("l", n + m)]
    phi = ca.dot(symbols[3], _impact_rows(model, contacts, alg.jet(model, symbols[0], d), symbols[1], symbols[2], restitution))
    x = ca.vertcat(d, symbols[1])
    gradient = ca.gradient(phi, x)
    second = ca.Function("second", symbols, ca.substitute(
        [ca.jacobian(gradient, x), ca.jacobian(gradient, symbols[2])], [d], [ca.SX.zeros(n)]))
    k_xx, k_xy = second(q, v, system.y, lam)
    r_xx = ca.blockcat([[symmetrised(dyn.qq), -dyn.qa], [-dyn.qa.T, ca.SX(n, n)]]) + k_xx
    r_xy = ca.vertcat(ca.horzcat(dyn.qa, ca.SX(n, m)), ca.SX(n, n + m)) + k_xy
    mixed = r_xy @ Y
    return -(system.r_x.T @ lam), -(r_xx + mixed + mixed.T)
