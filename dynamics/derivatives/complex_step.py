"""Derivatives of any CasADi Function by complex steps, without algorithmic differentiation.

``Im f(x + i h e) / h`` is df/dx up to h^2, without subtraction, so h = 1e-30 gives derivatives to rounding. The Function is
expanded to scalar operations and every one of them is written out over pairs (real part, imaginary part) with its exact
complex formula; nothing here knows a derivative rule, which makes this a method of its own to compare others with.

The rules are in ``complex_rules``. A part that is zero whatever the numbers are stays a structural zero.

To differentiate on the configuration manifold, compose with ``dynamics.algorithms.jet`` (or ``integrate``) first: the right
tangent derivative of f is the derivative of ``d -> f(q [+] d)`` at d = 0.

Sources: Squire and Trapp (1998), Using complex variables to estimate derivatives; Martins, Sturdza and Alonso (2003), The
complex-step derivative approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import casadi as ca
import numpy as np

from dynamics.derivatives.complex_rules import RULES, Z
from dynamics.errors import ModelError
from dynamics.kernels.tape import replay

STEP = 1e-30


def complexified(function: ca.Function) -> ca.Function:
    """The continuation of ``function`` to complex arguments as an SX Function over real and imaginary parts.

    Inputs: those of ``function``, then their imaginary parts (names end in ``_im``); outputs likewise. Imaginary inputs have
    the sparsity of the real ones; imaginary outputs have only entries that can be nonzero. Raises ModelError when the
    function cannot be expanded to scalar operations or uses one that has no complex rule.
    """
    expanded = _expanded(function)
    names_in, names_out = expanded.name_in(), expanded.name_out()
    x = [ca.SX.sym(name, expanded.sparsity_in(k)) for k, name in enumerate(names_in)]
    d = [ca.SX.sym(f"{name}_im", expanded.sparsity_in(k)) for k, name in enumerate(names_in)]
    values = _run(expanded, [_pairs(*pair) for pair in zip(x, d, strict=True)])
    y = [_real(expanded.sparsity_out(k), z) for k, z in enumerate(values)]
    y_im = [_imaginary(expanded.sparsity_out(k), z) for k, z in enumerate(values)]
    return ca.Function(f"{expanded.name()}_complex", x + d, y + y_im,
                       names_in + [f"{n}_im" for n in names_in], names_out + [f"{n}_im" for n in names_out])


def complex_step_jacobian(function: ca.Function, i_in: int = 0, i_out: int = 0, *, step: float = STEP) -> ca.Function:
    """The dense Jacobian J [numel out, numel in] of output ``i_out`` by input ``i_in`` (both column by column).

    The result has the inputs of ``function``. Rows and columns of structural zeros of a sparse output or input are zero.
    Raises ModelError as :func:`complexified` does.
    """
    expanded = _expanded(function)
    names, shape = expanded.name_in(), (expanded.numel_out(i_out), expanded.numel_in(i_in))
    inputs = [ca.MX.sym(name, expanded.sparsity_in(k)) for k, name in enumerate(names)]
    x = [ca.SX.sym(name, expanded.sparsity_in(k)) for k, name in enumerate(names)]
    seed = ca.SX.sym("seed", x[i_in].nnz())
    z = [_pairs(e, seed if k == i_in else None) for k, e in enumerate(x)]
    y_im = _imaginary(expanded.sparsity_out(i_out), _run(expanded, z)[i_out])
    J = ca.MX(ca.DM.zeros(*shape))
    if y_im.nnz():
        column = ca.Function(f"{expanded.name()}_step", [seed, *x], [ca.vec(ca.densify(y_im))])
        columns = column.map(f"{expanded.name()}_steps", "serial", seed.nnz(), list(range(1, len(x) + 1)), [])
        J[:, _positions(x[i_in].sparsity())] = columns(ca.DM(step * np.eye(seed.nnz())), *inputs) / step
    return ca.Function(f"{expanded.name()}_complex_step", inputs, [J], names, ["J"])


def _positions(sparsity: ca.Sparsity) -> list[int]:
    """Index of every nonzero in the column-major numbering of all entries."""
    rows, columns = sparsity.get_triplet()
    return [r + sparsity.size1() * c for r, c in zip(rows, columns, strict=True)]


def _expanded(function: ca.Function) -> ca.Function:
    where = f"function {function.name()!r}"
    why = "cannot be expanded to scalar operations, so it has no complex continuation"
    try:
        expanded = function if function.is_a("SXFunction") else function.expand()
    except RuntimeError as error:
        raise ModelError(f"{why}: {str(error).strip().splitlines()[-1]}", element=where) from error
    if expanded.has_free():
        raise ModelError(f"has free variables {', '.join(map(str, expanded.free_sx()))}; make them inputs", element=where)
    if not function.is_a("SXFunction") and any(hash(f) == hash(function) for f in _called(expanded)):
        if function.is_a("MXFunction"):  # never inlined, not even into itself
            return _expanded(_open(function))
        raise ModelError(f"{why}: it is a black box of class {function.class_name()}", element=where)
    return expanded


def _open(function: ca.Function) -> ca.Function:
    """A copy of an MX Function, without the options that forbid inlining."""
    pieces: list[dict[int, ca.MX]] = [{} for _ in range(function.n_out())]
    for k in range(function.n_instructions()):
        if function.instruction_id(k) == ca.OP_OUTPUT:
            node = function.instruction_MX(k)
            pieces[node.info()["ind"]][node.info()["offset"]] = node.dep(0).nz[:]
    outputs = []
    for i, parts in enumerate(pieces):
        nonzeros = ca.vertcat(*(parts[at] for at in sorted(parts)))
        outputs.append(ca.MX(function.sparsity_out(i), nonzeros) if parts else ca.MX(*function.size_out(i)))
    return ca.Function(function.name(), function.mx_in(), outputs, function.name_in(), function.name_out())


def _called(function: ca.Function) -> list[ca.Function]:
    if not function.get_function():
        return []
    nodes = function.instructions_sx()
    return [nodes[k].which_function()
            for k in range(function.n_instructions()) if function.instruction_id(k) == ca.OP_CALL]


def _pairs(x: ca.SX, d: ca.SX | None) -> list[Z]:
    """The nonzeros of x with imaginary parts d."""
    imaginary = [None] * x.nnz() if d is None else d.nonzeros()
    return [Z(*pair) for pair in zip(x.nonzeros(), imaginary, strict=True)]


def _run(function: ca.Function, inputs: Sequence[Sequence[Z]]) -> list[list[Z]]:
    """Nonzeros of every output from the nonzeros of every input: the tape, run over pairs."""
    instructions = cache(function.instructions_sx)

    def call(k: int, operands: list[Z]) -> list[Z]:
        return _call(_expanded(instructions()[k].which_function()), operands)

    return replay(function, lambda i, j: inputs[i][j], lambda value: Z(ca.SX(value)),
                  lambda code, operands: _evaluate(code, operands, function.name()), call)


def _call(function: ca.Function, arguments: Sequence[Z]) -> list[Z]:
    """A function that was not inlined: its tape in place of the call."""
    inputs, start = [], 0
    for k in range(function.n_in()):
        inputs.append(arguments[start:start + function.nnz_in(k)])
        start += function.nnz_in(k)
    return [value for output in _run(function, inputs) for value in output]


def _evaluate(op: int, arguments: list[Z], name: str) -> Z:
    if op not in RULES:
        raise ModelError(f"operation {operation_name(op)} has no complex rule", element=f"function {name!r}")
    real, rule = RULES[op]
    if all(z.im is None for z in arguments):
        return Z(real(*(z.re for z in arguments)))
    value = rule(*arguments)
    return Z(value.re) if value.im is not None and ca.SX(value.im).is_zero() else value


def operation_name(op: int) -> str:
    """CasADi's name of an operation number, ``OP_SIN`` for instance."""
    return next((n for n, value in vars(ca).items() if n.startswith("OP_") and value == op), f"number {op}")


def _real(sparsity: ca.Sparsity, values: Sequence[Z]) -> ca.SX:
    return ca.SX(sparsity, ca.vertcat(*(z.re for z in values))) if values else ca.SX(sparsity)


def _imaginary(sparsity: ca.Sparsity, values: Sequence[Z]) -> ca.SX:
    kept = [(place, z.im) for place, z in zip(_positions(sparsity), values, strict=True) if z.im is not None]
    if not kept:
        return ca.SX(*sparsity.shape)
    rows, columns = zip(*(divmod(place, sparsity.size1())[::-1] for place, _ in kept), strict=True)
    return ca.SX.triplet(rows, columns, ca.vertcat(*(value for _, value in kept)), *sparsity.shape)
