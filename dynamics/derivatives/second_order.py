"""First and second derivatives in closed form as CasADi Functions with named arguments and sparse outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca

from dynamics.constraints import Constraint
from dynamics.derivatives import constrained
from dynamics.derivatives import forward_second as forward
from dynamics.derivatives.inverse_contracted import ContractedInverse, contracted_inverse_dynamics
from dynamics.derivatives.inverse_second import InverseSecondPartials, inverse_dynamics_second_partials
from dynamics.lie.expression import Expr
from dynamics.mechanism.constrained import Restitution, reduced, stacked
from dynamics.model.model import Model


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


def _rows(model: Model, constraints: Sequence[Constraint]) -> int:
    """Number of rows of the reduced constraints."""
    return int(stacked(model, reduced(constraints), "jacobian", ca.SX.sym("q", model.nq)).shape[0])


def constrained_dynamics_derivatives(model: Model, constraints: Sequence[Constraint]) -> ca.Function:
    """(q, v, tau, t) -> a, force, Y: see ``constrained.Constrained``."""
    return _function("constrained_dynamics_derivatives", model, [*_state(model, "tau"), ("t", 1)],
                     lambda m, q, v, tau, t: constrained.constrained_dynamics_partials(m, constraints, q, v, tau, t=t),
                     constrained.Constrained._fields)


def constrained_dynamics_hessian(model: Model, constraints: Sequence[Constraint]) -> ca.Function:
    """(q, v, tau, t, mu_a, mu_f) -> gradient [n_x] and H [n_x, n_x] of ``mu_a' a + mu_f' force`` by x = (q, v, tau, t)."""
    inputs = [*_state(model, "tau"), ("t", 1), ("mu_a", model.nv), ("mu_f", _rows(model, constraints))]
    return _function("constrained_dynamics_hessian", model, inputs, lambda m, q, v, tau, t, *mu:
                     constrained.contracted_constrained_dynamics(m, constraints, q, v, tau, mu, t=t), ("gradient", "H"))


def impact_derivatives(model: Model, constraints: Sequence[Constraint], restitution: Restitution = 0.0) -> ca.Function:
    """(q, v, t) -> v_after, impulse, Y: see ``constrained.Struck``."""
    return _function("impact_derivatives", model, [*_state(model), ("t", 1)],
                     lambda m, q, v, t: constrained.impact_partials(m, constraints, q, v, restitution, t=t),
                     constrained.Struck._fields)


def impact_hessian(model: Model, constraints: Sequence[Constraint], restitution: Restitution = 0.0) -> ca.Function:
    """(q, v, t, mu_v, mu_F) -> gradient [n_x] and H [n_x, n_x] of ``mu_v' v_after + mu_F' impulse`` by x = (q, v, t)."""
    inputs = [*_state(model), ("t", 1), ("mu_v", model.nv), ("mu_F", _rows(model, constraints))]
    return _function("impact_hessian", model, inputs, lambda m, q, v, t, *mu: constrained.contracted_impact(
        m, constraints, q, v, mu, restitution, t=t), ("gradient", "H"))
