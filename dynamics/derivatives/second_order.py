"""First and second derivatives in closed form as CasADi Functions with named arguments and sparse outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca

from dynamics.algorithms.contact_kinematics import Contact
from dynamics.derivatives import contact_derivatives as contact
from dynamics.derivatives import forward_second as forward
from dynamics.derivatives.inverse_contracted import ContractedInverse, contracted_inverse_dynamics
from dynamics.derivatives.inverse_second import InverseSecondPartials, inverse_dynamics_second_partials
from dynamics.model.model import Model

Expr = Any


def _function(title: str, model: Model, inputs: Sequence[tuple[str, int]], build: Callable[..., Sequence[Expr]],
              outputs: Sequence[str]) -> ca.Function:
    symbols = [ca.SX.sym(name, size) for name, size in inputs]
    results = ca.cse([ca.sparsify(ca.SX(x)) for x in build(model, *symbols)])
    return ca.Function(title, symbols, results, [name for name, _ in inputs], list(outputs))


def _state(model: Model, *more: str) -> list[tuple[str, int]]:
    return [("q", model.nq), ("v", model.nv), *((name, model.nv) for name in more)]


def inverse_dynamics_hessian(model: Model) -> ca.Function:
    """(q, v, a, lam) -> gq, gv, ga [nv], qq, qv, vv, qa [nv, nv] of ``lam^T tau``: see ``contracted_inverse_dynamics``."""
    return _function("inverse_dynamics_hessian", model, _state(model, "a", "lam"), contracted_inverse_dynamics,
                     ContractedInverse._fields)


def inverse_dynamics_second_derivatives(model: Model) -> ca.Function:
    """(q, v, a) -> qq, vv, qv, Mq, each [nv, nv * nv] and sparse: see ``inverse_dynamics_second_partials``."""
    return _function("inverse_dynamics_second_derivatives", model, _state(model, "a"), inverse_dynamics_second_partials,
                     InverseSecondPartials._fields)


def forward_dynamics_hessian(model: Model) -> ca.Function:
    """(q, v, tau, mu) -> gq, gv, gtau [nv], qq, qv, vv, qtau [nv, nv] of ``mu^T a``: see ``contracted_forward_dynamics``."""
    return _function("forward_dynamics_hessian", model, _state(model, "tau", "mu"), forward.contracted_forward_dynamics,
                     forward.ContractedForward._fields)


def forward_dynamics_second_derivatives(model: Model) -> ca.Function:
    """(q, v, tau) -> qq, qv, vv, qtau, each [nv, nv * nv]: see ``forward_dynamics_second_partials``."""
    return _function("forward_dynamics_second_derivatives", model, _state(model, "tau"), forward.forward_dynamics_second_partials,
                     forward.ForwardSecondPartials._fields)


def contact_dynamics_derivatives(model: Model, contacts: Sequence[Contact]) -> ca.Function:
    """(q, v, tau) -> a, force and their six first derivatives, as in ``ContactPartials``."""
    return _function("contact_dynamics_derivatives", model, _state(model, "tau"),
                     lambda m, *x: contact.contact_dynamics_partials(m, contacts, *x), contact.ContactPartials._fields)


def contact_dynamics_hessian(model: Model, contacts: Sequence[Contact]) -> ca.Function:
    """(q, v, tau, mu_a, mu_f) -> gradient [3 nv] and H [3 nv, 3 nv] of ``mu_a^T a + mu_f^T force``."""
    inputs = [*_state(model, "tau", "mu_a"), ("mu_f", sum(c.rows for c in contacts))]
    return _function("contact_dynamics_hessian", model, inputs,
                     lambda m, *x: contact.contracted_contact_dynamics(m, contacts, *x), ("gradient", "H"))


def impact_derivatives(model: Model, contacts: Sequence[Contact], restitution: float = 0.0) -> ca.Function:
    """(q, v) -> v_after, impulse and their four first derivatives, as in ``ImpactPartials``."""
    return _function("impact_derivatives", model, _state(model),
                     lambda m, q, v: contact.impact_partials(m, contacts, q, v, restitution), contact.ImpactPartials._fields)


def impact_hessian(model: Model, contacts: Sequence[Contact], restitution: float = 0.0) -> ca.Function:
    """(q, v, mu_v, mu_F) -> gradient [2 nv] and H [2 nv, 2 nv] of ``mu_v^T v_after + mu_F^T impulse``."""
    inputs = [*_state(model, "mu_v"), ("mu_F", sum(c.rows for c in contacts))]
    return _function("impact_hessian", model, inputs,
                     lambda m, q, v, a, b: contact.contracted_impact(m, contacts, q, v, a, b, restitution), ("gradient", "H"))
