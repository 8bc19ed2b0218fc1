"""Inverse, forward and constrained dynamics with their closed-form first and second derivatives, for use in MX graphs.

The functions are those of ``q -> f(q / |q|)`` (every quaternion divided by its length), so that values and derivatives agree off
the unit sphere too.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from dynamics.constraints import Constraint
from dynamics.derivatives.constrained import constrained_dynamics_partials, contracted_constrained_dynamics
from dynamics.derivatives.forward_second import contracted_forward_dynamics, forward_dynamics_partials
from dynamics.derivatives.injection import with_derivatives
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.derivatives.manifold import ambient_gradient, ambient_hessian, ambient_map, symmetrised, unit_configuration
from dynamics.errors import ModelError, near
from dynamics.kernels import remembered
from dynamics.model.model import Model

CONSTRAINED = "constrained_dynamics"
INJECTED = {"inverse_dynamics": ("a", "tau"), "forward_dynamics": ("tau", "a")}
"""Functions that can be injected: name of the last input and of the output."""


def analytic_function(model: Model, name: str, compiled: bool = False) -> ca.Function:
    """(q, v, a) -> tau or (q, v, tau) -> a for MX graphs, with closed-form first and second derivatives.

    Derivatives with respect to q are those of its nq coordinates. compiled: see ``with_derivatives``. The expressions are kept in
    the cache of kernels: the second time, in any process, they are read. Raises ModelError for an unknown name or a joint kind
    without closed form, KernelError where compilation fails.
    """
    if name not in INJECTED:
        raise ModelError(f"no analytic function named {name!r}{near(name, INJECTED)}")
    last, output = INJECTED[name]
    forms = remembered(["analytic function", name, model.fingerprint], lambda: _forms(model, name))
    q, v, w, seed = symbols = forms.sx_in()
    value, *rest = forms.call(symbols)
    jacobian, gradient, (qq, qv, qw, vv) = rest[:3], rest[3:6], rest[6:]
    nothing = ca.SX(model.nv, model.nv)
    return with_derivatives(
        name, {"q": q, "v": v, last: w}, output, value, seed, jacobian=jacobian, gradient=gradient,
        hessian=[[qq, qv, qw], [qv.T, vv, nothing], [qw.T, nothing, nothing]], compiled=compiled)


def _forms(model: Model, name: str) -> ca.Function:
    """(q, v, w, seed) -> value; Jacobians by q, v, w; gradients of ``seed' value`` by q, v, w; its second derivatives qq, qv, qw,
    vv; all in the coordinates of q."""
    q, v, w, seed = (ca.SX.sym(n, size) for n, size in (("q", model.nq), ("v", model.nv), (INJECTED[name][0], model.nv),
                                                        ("seed", model.nv)))
    unit, _ = unit_configuration(model, q)
    x = (unit, v, w)
    E = ambient_map(model, q)
    # values are those of the first derivatives' own graph, not of the recursive algorithms: beside derivatives they cost nothing
    if name == "inverse_dynamics":
        value, *first = inverse_dynamics_partials(model, *x)
        gq, gv, gw, qq, qv, vv, qw = contracted_inverse_dynamics(model, *x, seed)
    else:
        partials = forward_dynamics_partials(model, *x)
        value, *first, _ = partials
        gq, gv, gw, qq, qv, vv, qw = contracted_forward_dynamics(model, *x, seed, None, partials)
    results = [value, first[0] @ E, *first[1:3], ambient_gradient(model, q, gq), gv, gw,
               ambient_hessian(model, q, gq, symmetrised(qq)), E.T @ qv, E.T @ qw, vv]
    return ca.Function("forms", [q, v, w, seed], ca.cse([ca.SX(y) for y in results]))


def analytic_constrained(model: Model, constraints: Sequence[Constraint], compiled: bool = False) -> ca.Function:
    """(q, v, tau, t) -> (a [nv], multipliers of the reduced constraints [m]) in one column, for MX graphs, with closed-form first
    and second derivatives; else as ``analytic_function``."""
    held, n = tuple(constraints), model.nv
    forms = remembered(["analytic constrained", model.fingerprint, *map(repr, held)], lambda: _constrained_forms(model, held))
    q, v, tau, t, seed = symbols = forms.sx_in()
    value, *rest = forms.call(symbols)
    jacobian, gradient, (qq, qv, qw, qt, rest_of) = rest[:4], rest[4:8], rest[8:]
    blocks = [[rest_of[i, j] for j in (slice(0, n), slice(n, 2 * n), slice(2 * n, 2 * n + 1))] for i in (
        slice(0, n), slice(n, 2 * n), slice(2 * n, 2 * n + 1))]
    return with_derivatives(
        CONSTRAINED, {"q": q, "v": v, "tau": tau, "t": t}, "y", value, seed, jacobian=jacobian, gradient=gradient,
        hessian=[[qq, qv, qw, qt], *([first, *row] for first, row in zip((qv.T, qw.T, qt.T), blocks, strict=True))],
        compiled=compiled)


def _constrained_forms(model: Model, constraints: tuple[Constraint, ...]) -> ca.Function:
    """(q, v, tau, t, seed) -> (a, multipliers); Jacobians and gradients by q, v, tau, t; second derivatives qq, qv, qtau, qt, and
    those by (v, tau, t); all in the coordinates of q."""
    n = model.nv
    q, v, tau, t = (ca.SX.sym(name, size) for name, size in (("q", model.nq), ("v", n), ("tau", n), ("t", 1)))
    unit, _ = unit_configuration(model, q)
    E, parts = ambient_map(model, q), (slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n), slice(3 * n, 3 * n + 1))
    found = constrained_dynamics_partials(model, constraints, unit, v, tau, t=t)
    value = ca.vertcat(found.a, found.force)
    seed = ca.SX.sym("seed", value.shape[0])
    gradient, H = contracted_constrained_dynamics(model, constraints, unit, v, tau, (seed[:n], seed[n:]), t=t)
    by_q, *others = (found.Y[:, at] for at in parts)
    results = [value, by_q @ E, *others, ambient_gradient(model, q, gradient[parts[0]]), *(gradient[at] for at in parts[1:]),
               ambient_hessian(model, q, gradient[parts[0]], H[parts[0], parts[0]]), *(E.T @ H[parts[0], at] for at in parts[1:]),
               H[n:, n:]]
    return ca.Function("forms", [q, v, tau, t, seed], ca.cse([ca.SX(y) for y in results]))
