"""First derivatives of inverse and forward dynamics behind one switch.

Derivatives with respect to q are right-tangent: column j is d/ds f(q [+] s e_j) at s = 0, so they are [nv, nv] whatever
the coordinates. Sources: ``ad`` (CasADi's algorithmic differentiation of the recursive Newton-Euler algorithm), ``analytic``
(closed form, ``inverse_dynamics_partials``: a quarter of the operations of ``ad`` on a humanoid) and ``fd`` (central differences
on the manifold); an unknown source is an error.
"""

from __future__ import annotations

import casadi as ca

from dynamics import algorithms as alg
from dynamics.algorithms.forward_dynamics import solve_mass
from dynamics.derivatives.candidates import candidate
from dynamics.errors import ModelError, near
from dynamics.model.model import Model

SOURCES = ("ad", "analytic", "fd")


def inverse_dynamics_derivatives(model: Model, source: str = "ad") -> ca.Function:
    """(q, v, a) -> dtau_dq, dtau_dv, M, each [nv, nv]. Raises ModelError for an unknown source."""
    return _by_ad(model) if _known(source) == "ad" else _of_catalogue(model, "inverse_first", source)


def forward_dynamics_derivatives(model: Model, source: str = "ad") -> ca.Function:
    """(q, v, tau) -> da_dq, da_dv, da_dtau, each [nv, nv]. Raises ModelError for an unknown source.

    ``ad`` and ``analytic`` differentiate the inverse dynamics and use one factorisation of the mass matrix:
    da/dx = -M^-1 dID/dx at a = FD(q, v, tau) (Carpentier and Mansard 2018, Analytical Derivatives of Rigid Body
    Dynamics Algorithms, Eq. 25), which is far shorter than differentiating the articulated-body algorithm.
    """
    if _known(source) != "ad":
        return _of_catalogue(model, "forward_first", source)
    n, inverse = model.nv, _by_ad(model)
    q, v, tau = ca.SX.sym("q", model.nq), ca.SX.sym("v", n), ca.SX.sym("tau", n)
    dtau_dq, dtau_dv, M = inverse(q, v, alg.forward_dynamics(model, q, v, tau))
    solved = solve_mass(M, ca.horzcat(-dtau_dq, -dtau_dv, ca.SX.eye(n)))
    results = [ca.densify(solved[:, i * n:(i + 1) * n]) for i in range(3)]
    return ca.Function("forward_dynamics_derivatives", [q, v, tau], results, ["q", "v", "tau"], ["da_dq", "da_dv", "da_dtau"])


def _known(source: str) -> str:
    if source not in SOURCES:
        raise ModelError(f"no derivative source {source!r}{near(source, SOURCES)}")
    return source


def _of_catalogue(model: Model, quantity: str, source: str) -> ca.Function:
    function = candidate(model, quantity, source).build(dense=True)
    assert function is not None
    return function


def _by_ad(model: Model) -> ca.Function:
    """Of inverse dynamics."""
    q, v, a = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv)
    tau = alg.inverse_dynamics(model, q, v, a)
    results = [ca.jacobian(tau, q) @ alg.rate_matrix(model, q), ca.jacobian(tau, v), alg.mass_matrix(model, q)]
    return ca.Function("inverse_dynamics_derivatives", [q, v, a], [ca.densify(x) for x in results], ["q", "v", "a"],
                       ["dtau_dq", "dtau_dv", "M"])
