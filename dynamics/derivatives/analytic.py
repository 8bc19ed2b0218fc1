"""Inverse and forward dynamics with their closed-form first and second derivatives, for use in MX graphs.

The functions are those of ``q -> f(q / |q|)`` (every quaternion divided by its length), so that values and derivatives agree off
the unit sphere too.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynamics import algorithms as alg
from dynamics.derivatives.forward_second import contracted_forward_dynamics, forward_dynamics_partials
from dynamics.derivatives.injection import with_derivatives
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.derivatives.manifold import ambient_gradient, ambient_hessian, ambient_map, symmetrised, unit_configuration
from dynamics.errors import ModelError, near
from dynamics.model.model import Model

Expr = Any
INJECTED = {"inverse_dynamics": ("a", "tau"), "forward_dynamics": ("tau", "a")}
"""Functions that can be injected: name of the last input and of the output."""


def analytic_function(model: Model, name: str, compiled: bool = False) -> ca.Function:
    """(q, v, a) -> tau or (q, v, tau) -> a for MX graphs, with closed-form first and second derivatives.

    Derivatives with respect to q are those of its nq coordinates. compiled: see ``with_derivatives``. Raises ModelError for an
    unknown name or a joint kind without closed form, KernelError where compilation fails.
    """
    if name not in INJECTED:
        raise ModelError(f"no analytic function named {name!r}{near(name, INJECTED)}")
    last, output = INJECTED[name]
    q, v, w, seed = (ca.SX.sym(n, size) for n, size in (("q", model.nq), ("v", model.nv), (last, model.nv), ("seed", model.nv)))
    unit, _ = unit_configuration(model, q)
    x = (unit, v, w)
    inverse = name == "inverse_dynamics"
    value = alg.inverse_dynamics(model, *x) if inverse else alg.forward_dynamics(model, *x)
    first = inverse_dynamics_partials(model, *x) if inverse else forward_dynamics_partials(model, *x)
    # gradients with respect to q, v, w; second derivatives qq, qv, vv, qw
    g = (contracted_inverse_dynamics if inverse else contracted_forward_dynamics)(model, *x, seed)
    E, nothing = ambient_map(model, q), ca.SX(model.nv, model.nv)
    H = [[ambient_hessian(model, q, g[0], symmetrised(g.qq)), E.T @ g.qv, E.T @ g[6]],
         [(E.T @ g.qv).T, g.vv, nothing],
         [(E.T @ g[6]).T, nothing, nothing]]
    return with_derivatives(
        name, {"q": q, "v": v, last: w}, output, value, seed, jacobian=[first[1] @ E, first[2], first[3]],
        gradient=[ambient_gradient(model, q, g[0]), g[1], g[2]], hessian=H, compiled=compiled)
