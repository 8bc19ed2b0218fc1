"""Inverse and forward dynamics as CasADi Functions that bring their own derivatives into MX graphs.

CasADi differentiates a Function inside an MX graph by itself unless it is given something better. Three functions are given
here: the Jacobian, the reverse derivative ``adj1`` (a gradient contracted with a multiplier), and the Jacobian of that reverse
derivative, which is the contracted Hessian. A Lagrangian Hessian then holds one call of each and nothing else. The reverse
derivative sits in the Function's cache of derivatives, where CasADi looks before it makes one; the two Jacobians are its
``custom_jacobian``, which only count once forward (and, for the Hessian, reverse) differentiation is switched off.

The functions are those of ``q -> f(q / |q|)`` (every quaternion divided by its length), so that values and derivatives agree off
the unit sphere too. A copy through ``serialize`` keeps the Jacobian but not the cache: gradients are then differentiated by
CasADi, correct but slower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca

from dynamics import algorithms as alg
from dynamics import kernels
from dynamics.derivatives.forward_second import contracted_forward_dynamics, forward_dynamics_partials
from dynamics.derivatives.inverse_contracted import contracted_inverse_dynamics
from dynamics.derivatives.inverse_first import inverse_dynamics_partials
from dynamics.derivatives.manifold import ambient_gradient, ambient_hessian, ambient_map, symmetrised, unit_configuration
from dynamics.errors import ModelError, near
from dynamics.model.model import Model

Expr = Any
INJECTED = {"inverse_dynamics": ("a", "tau"), "forward_dynamics": ("tau", "a")}
"""Functions that can be injected: name of the last input and of the output."""

# one seed: the reverse derivative; several, or forward mode: the Jacobian. CasADi compares penalty x size with the seeds
_VALUE = {"never_inline": True, "enable_forward": False, "jac_penalty": 0.5}
_REVERSE = {"never_inline": True, "enable_forward": False, "enable_reverse": False, "jac_penalty": 0}


def analytic_function(model: Model, name: str, compiled: bool = False) -> ca.Function:
    """(q, v, a) -> tau or (q, v, tau) -> a for MX graphs, with closed-form first and second derivatives.

    Derivatives with respect to q are those of its nq coordinates. compiled: the function and its three derivatives are
    kernels of C code (made now, or found in the cache); otherwise CasADi interprets them. Raises ModelError for an unknown
    name or a joint kind without closed form, KernelError where compilation fails.
    """
    if name not in INJECTED:
        raise ModelError(f"no analytic function named {name!r}{near(name, INJECTED)}")
    last, output = INJECTED[name]
    q, v, w = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym(last, model.nv)
    y, seed = ca.SX.sym("y", model.nv), ca.SX.sym("seed", model.nv)
    unit, _ = unit_configuration(model, q)
    inputs, x = [q, v, w], (unit, v, w)
    names, outputs = ["q", "v", last], [f"adj_{n}" for n in ("q", "v", last)]
    free = [ca.SX.sym(n, s.shape[0]) for n, s in zip(outputs, inputs, strict=True)]

    inverse = name == "inverse_dynamics"
    value = alg.inverse_dynamics(model, *x) if inverse else alg.forward_dynamics(model, *x)
    first = inverse_dynamics_partials(model, *x) if inverse else forward_dynamics_partials(model, *x)
    jacobians = [first[1] @ ambient_map(model, q), first[2], first[3]]
    # gradients with respect to q, v, w; second derivatives qq, qv, vv, qw
    g = (contracted_inverse_dynamics if inverse else contracted_forward_dynamics)(model, *x, seed)
    gradients = [ambient_gradient(model, q, g[0]), g[1], g[2]]
    E, nothing = ambient_map(model, q), ca.SX(model.nv, model.nv)
    H = [[ambient_hessian(model, q, g[0], symmetrised(g.qq)), E.T @ g.qv, E.T @ g[6]],
         [(E.T @ g.qv).T, g.vv, nothing],
         [(E.T @ g[6]).T, nothing, nothing]]
    second = [block for row, J, s in zip(H, jacobians, inputs, strict=True)
              for block in (*row, ca.SX(s.shape[0], model.nv), J.T)]

    reverse_name, reverse_inputs = f"adj1_{name}", [*names, f"out_{output}", f"adj_{output}"]
    jac = _node(f"jac_{name}", [*inputs, y], jacobians, [*names, f"out_{output}"], [f"jac_{output}_{n}" for n in names],
                {"never_inline": True}, compiled)
    hess = _node(f"jac_{reverse_name}", [*inputs, y, seed, *free], second, [*reverse_inputs, *(f"out_{n}" for n in outputs)],
                 [f"jac_{o}_{i}" for o in outputs for i in reverse_inputs], {"never_inline": True}, compiled)
    reverse = _node(reverse_name, [*inputs, y, seed], gradients, reverse_inputs, outputs,
                    {**_REVERSE, "custom_jacobian": hess}, compiled)
    return _node(name, inputs, [value], names, [output],
                 {**_VALUE, "custom_jacobian": jac, "cache": {reverse_name: reverse}}, compiled)


def _node(name: str, inputs: Sequence[ca.SX], outputs: Sequence[Expr], names_in: Sequence[str], names_out: Sequence[str],
          options: Mapping[str, Any], compiled: bool) -> ca.Function:
    """One Function of the graph: SX, or MX around a kernel that returns the nonzeros of all outputs."""
    results = ca.cse([ca.SX(x) for x in outputs])
    if not compiled:
        return ca.Function(name, list(inputs), results, list(names_in), list(names_out), dict(options))
    packed = ca.Function(name, list(inputs), [ca.vertcat(*(ca.vertcat(*x.nonzeros()) for x in results if x.nnz()))])
    symbols = [ca.MX.sym(n, *s.shape) for n, s in zip(names_in, inputs, strict=True)]
    entries = kernels.compile_kernel(packed, mode="compiled").as_casadi()(*symbols)
    unpacked, start = [], 0
    for x in results:
        unpacked.append(ca.MX(x.sparsity(), entries[start:start + x.nnz()]) if x.nnz() else ca.MX(*x.shape))
        start += x.nnz()
    return ca.Function(name, symbols, unpacked, list(names_in), list(names_out), dict(options))
