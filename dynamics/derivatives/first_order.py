"""First derivatives of inverse and forward dynamics behind one switch.

Derivatives with respect to q are right-tangent: column j is d/ds f(q [+] s e_j) at s = 0, so they are [nv, nv] whatever
the coordinates. Sources: ``ad`` (CasADi's algorithmic differentiation of the recursive Newton-Euler algorithm), ``analytic``
(closed form, ``inverse_dynamics_partials``: a quarter of the operations of ``ad`` on a humanoid) and ``fd`` (central differences
on the manifold); an unknown source is an error.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynamics import algorithms as alg
from dynamics import functions
from dynamics.algorithms.forward_dynamics import solve_mass
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.derivatives.numeric import difference_jacobian
from dynamics.errors import ModelError, near
from dynamics.model.model import Model

Expr = Any
SOURCES = ("ad", "analytic", "fd")


def _check(source: str) -> None:
    if source not in SOURCES:
        raise ModelError(f"no derivative source {source!r}{near(source, SOURCES)}")


def _symbols(model: Model, last: str) -> list[ca.SX]:
    return [ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym(last, model.nv)]


def inverse_dynamics_derivatives(model: Model, source: str = "ad") -> ca.Function:
    """(q, v, a) -> dtau_dq, dtau_dv, M, each [nv, nv]. Raises ModelError for an unknown source."""
    _check(source)
    outputs = ["dtau_dq", "dtau_dv", "M"]
    if source == "fd":
        return _differences(model, "inverse_dynamics", "a", "inverse_dynamics_derivatives", outputs)
    q, v, a = _symbols(model, "a")
    results = _inverse_terms(model, source, q, v, a)
    return ca.Function("inverse_dynamics_derivatives", [q, v, a], [ca.densify(r) for r in results], ["q", "v", "a"], outputs)


def _inverse_terms(model: Model, source: str, q: Expr, v: Expr, a: Expr) -> list[Expr]:
    """dtau/dq, dtau/dv and M."""
    if source == "analytic":
        return ca.cse([ca.SX(x) for x in inverse_dynamics_partials(model, q, v, a)[1:]])
    tau = alg.inverse_dynamics(model, q, v, a)
    return [ca.jacobian(tau, q) @ alg.rate_matrix(model, q), ca.jacobian(tau, v), alg.mass_matrix(model, q)]


def forward_dynamics_derivatives(model: Model, source: str = "ad") -> ca.Function:
    """(q, v, tau) -> da_dq, da_dv, da_dtau, each [nv, nv]. Raises ModelError for an unknown source.

    ``ad`` and ``analytic`` differentiate the inverse dynamics and use one factorisation of the mass matrix:
    da/dx = -M^-1 dID/dx at a = FD(q, v, tau) (Carpentier and Mansard 2018, Analytical Derivatives of Rigid Body
    Dynamics Algorithms, Eq. 25), which is far shorter than differentiating the articulated-body algorithm.
    """
    _check(source)
    outputs = ["da_dq", "da_dv", "da_dtau"]
    if source == "fd":
        return _differences(model, "forward_dynamics", "tau", "forward_dynamics_derivatives", outputs)
    q, v, tau = _symbols(model, "tau")
    a = ca.SX.sym("a", model.nv)
    id_terms = ca.Function("id_terms", [q, v, a], _inverse_terms(model, source, q, v, a))
    dtau_dq, dtau_dv, M = id_terms(q, v, alg.forward_dynamics(model, q, v, tau))
    n = model.nv
    solved = solve_mass(M, ca.horzcat(-dtau_dq, -dtau_dv, ca.SX.eye(n)))
    results = [ca.densify(solved[:, i * n:(i + 1) * n]) for i in range(3)]
    return ca.Function("forward_dynamics_derivatives", [q, v, tau], results, ["q", "v", "tau"], outputs)


def _differences(model: Model, name: str, last: str, title: str, outputs: list[str]) -> ca.Function:
    """Central differences as an MX graph of calls, so that even this source becomes a kernel."""
    f, move = functions.make(model, name), functions.make(model, "integrate")
    q, v, w = ca.MX.sym("q", model.nq), ca.MX.sym("v", model.nv), ca.MX.sym(last, model.nv)

    d = ca.MX.sym("d", model.nv)
    moved = ca.Function("moved", [d, q, v, w], [f(move(q, d), v, w)], {"never_inline": True})
    results = [difference_jacobian(moved)(ca.DM.zeros(model.nv), q, v, w), *(difference_jacobian(f, i)(q, v, w) for i in (1, 2))]
    return ca.Function(title, [q, v, w], results, ["q", "v", last], outputs)
