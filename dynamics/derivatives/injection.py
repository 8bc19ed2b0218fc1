"""Functions that bring their own derivatives into MX graphs.

CasADi differentiates a Function inside an MX graph by itself unless it is given something better. Three functions are given
here: the Jacobian, the reverse derivative ``adj1`` (a gradient contracted with a multiplier), and the Jacobian of that reverse
derivative, which is the contracted Hessian. A Lagrangian Hessian then holds one call of each and nothing else. The reverse
derivative sits in the Function's cache of derivatives, where CasADi looks before it makes one; the two Jacobians are its
``custom_jacobian``, which only count once forward (and, for the Hessian, reverse) differentiation is switched off.

A copy through ``serialize`` keeps the Jacobian but not the cache: gradients are then differentiated by CasADi, correct but
slower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca

from dynamics import kernels
from dynamics.lie.expression import Expr

# never "never_inline": scalar graphs keep such calls, and what value, gradient and Hessian share would be computed for each.
# one seed: the reverse derivative; several, or forward mode: the Jacobian. CasADi compares penalty x size with the seeds
_VALUE = {"enable_forward": False, "jac_penalty": 0.5}
_REVERSE = {"enable_forward": False, "enable_reverse": False, "jac_penalty": 0}


def with_derivatives(
    name: str, inputs: Mapping[str, Expr], output: str, value: Expr, seed: Expr, *, jacobian: Sequence[Expr],
    gradient: Sequence[Expr], hessian: Sequence[Sequence[Expr]], compiled: bool = False,
) -> ca.Function:
    """The function ``inputs -> value`` [ny, 1] that answers requests for derivatives with the expressions given.

    inputs: name -> symbol [n_i, 1], all SX or all MX; jacobian[i]: d value / d input i [ny, n_i]; gradient[i]: the derivative
    [n_i, 1] of ``seed' value`` for the symbol ``seed`` [ny, 1]; hessian[i][j]: that of gradient[i] by input j [n_i, n_j]. Their
    common subexpressions are not merged: pass them through ``ca.cse`` together.
    compiled (SX only): the function and its derivatives are kernels of C code, made now or found in the cache; otherwise CasADi
    interprets them, or generates code for them together with the graph they stand in. Raises KernelError where compilation fails.
    """
    names, symbols = list(inputs), list(inputs.values())
    kind = type(seed)
    y = kind.sym("y", *seed.shape)
    outputs = [f"adj_{n}" for n in names]
    free = [kind.sym(n, *s.shape) for n, s in zip(outputs, symbols, strict=True)]
    second = [block for row, J, s in zip(hessian, jacobian, symbols, strict=True)
              for block in (*row, kind(s.shape[0], seed.shape[0]), J.T)]
    reverse_name, reverse_inputs = f"adj1_{name}", [*names, f"out_{output}", f"adj_{output}"]
    jac = _node(f"jac_{name}", [*symbols, y], jacobian, [*names, f"out_{output}"], [f"jac_{output}_{n}" for n in names],
                {}, compiled)
    hess = _node(f"jac_{reverse_name}", [*symbols, y, seed, *free], second, [*reverse_inputs, *(f"out_{n}" for n in outputs)],
                 [f"jac_{o}_{i}" for o in outputs for i in reverse_inputs], {}, compiled)
    reverse = _node(reverse_name, [*symbols, y, seed], gradient, reverse_inputs, outputs,
                    {**_REVERSE, "custom_jacobian": hess}, compiled)
    return _node(name, symbols, [value], names, [output],
                 {**_VALUE, "custom_jacobian": jac, "cache": {reverse_name: reverse}}, compiled)


def _node(name: str, inputs: Sequence[Expr], outputs: Sequence[Expr], names_in: Sequence[str], names_out: Sequence[str],
          options: Mapping[str, Any], compiled: bool) -> ca.Function:
    """One Function of the graph: SX or MX, or MX around a kernel that returns the nonzeros of all outputs."""
    kind = type(inputs[0])
    results = [kind(x) for x in outputs]
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
