"""Derivatives of any CasADi Function by complex steps, without algorithmic differentiation.

``Im f(x + i h e) / h`` is df/dx up to h^2, without subtraction, so h = 1e-30 gives derivatives to rounding. The Function is
expanded to scalar operations and every one of them is written out over pairs (real part, imaginary part) with its exact
complex formula; nothing here knows a derivative rule, which makes this a road of its own to compare others with.

The formulas keep an imaginary part of relative size 1e-30 to full precision. Operations that are not analytic (``fabs``,
``fmin``, comparisons, ...) branch on the real part, which continues the active branch. A part that is zero whatever the
numbers are stays a structural zero. Squares limit real parts to about 1e-75 to 1e+75.

To differentiate on the configuration manifold, compose with ``dynamics.algorithms.jet`` (or ``integrate``) first: the right
tangent derivative of f is the derivative of ``d -> f(q [+] d)`` at d = 0.

Sources: Squire and Trapp (1998), Using complex variables to estimate derivatives; Martins, Sturdza and Alonso (2003), The
complex-step derivative approximation; Kahan (1987), Branch cuts for complex elementary functions (inverse functions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.errors import ModelError

Expr = Any
STEP = 1e-30


class Z(NamedTuple):
    """A complex scalar expression; ``im`` is None where it is zero whatever the numbers are."""

    re: Expr
    im: Expr = None

    @property
    def imag(self) -> Expr:
        return ca.SX(0) if self.im is None else self.im


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
    """Place of every nonzero in the column-major numbering of all entries."""
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
        raise ModelError(f"{why}: it is a black box of class {function.class_name()}", element=where)
    return expanded


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
    work: dict[int, Z] = {}
    out: list[list[Z]] = [[Z(ca.SX(0))] * function.nnz_out(k) for k in range(function.n_out())]
    nodes: list[ca.SX] | None = None
    for k in range(function.n_instructions()):
        op, source, target = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if op == ca.OP_INPUT:
            work[target[0]] = inputs[source[0]][source[1]]
        elif op == ca.OP_OUTPUT:
            out[target[0]][target[1]] = work[source[0]]
        elif op == ca.OP_CONST:
            work[target[0]] = Z(ca.SX(function.instruction_constant(k)))
        elif op == ca.OP_CALL:
            nodes = function.instructions_sx() if nodes is None else nodes
            values = _call(_expanded(nodes[k].which_function()), [work[i] for i in source])
            work.update((i, value) for i, value in zip(target, values, strict=True) if i >= 0)
        else:
            work[target[0]] = _evaluate(op, [work[i] for i in source], function.name())
    return out


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


# --- Arithmetic ------------------------------------------------------------------------------------------------------------


def _squared(x: Expr) -> Expr:
    return x**2


def _add(a: Z, b: Z) -> Z:
    if a.im is None or b.im is None:
        return Z(a.re + b.re, b.im if a.im is None else a.im)
    return Z(a.re + b.re, a.im + b.im)


def _neg(a: Z) -> Z:
    return Z(-a.re, None if a.im is None else -a.im)


def _sub(a: Z, b: Z) -> Z:
    return _add(a, _neg(b))


def _mul(a: Z, b: Z) -> Z:
    if a.im is None:
        return Z(a.re * b.re, None if b.im is None else a.re * b.im)
    if b.im is None:
        return Z(a.re * b.re, a.im * b.re)
    return Z(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _inv(a: Z) -> Z:
    if a.im is None:
        return Z(1 / a.re)
    square = _squared(a.re) + _squared(a.im)
    return Z(a.re / square, -a.im / square)


def _div(a: Z, b: Z) -> Z:
    if b.im is None:
        return Z(a.re / b.re, None if a.im is None else a.im / b.re)
    square = _squared(b.re) + _squared(b.im)
    above = _mul(a, Z(b.re, -b.im))
    return Z(above.re / square, above.im / square)


def _sq(a: Z) -> Z:
    return Z((a.re - a.im) * (a.re + a.im), 2 * a.re * a.im)


def _times_i(a: Z) -> Z:
    return Z(-a.imag, a.re)


# --- Roots, powers, exponentials --------------------------------------------------------------------------------------------


def _select(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """One of the two; a NaN or infinity in the other does no harm."""
    return ca.if_else(condition, yes, no)


def _flip(condition: Expr) -> Expr:
    """-1 where the condition holds, else 1."""
    return 1 - 2 * condition


def _sqrt(a: Z) -> Z:
    """Principal branch. The larger part comes from a sum of positive numbers, the smaller from ``2 re im = Im a``."""
    s = ca.sqrt((ca.hypot(a.re, a.im) + ca.fabs(a.re)) / 2)
    other = _select(s == 0, 0, a.im / (2 * s))
    left = a.re < 0
    return Z(_select(left, ca.fabs(other), s), _select(left, ca.copysign(s, a.im), other))


def _exp(a: Z) -> Z:
    e = ca.exp(a.re)
    return Z(e * ca.cos(a.im), e * ca.sin(a.im))


def _expm1(a: Z) -> Z:
    return Z(ca.expm1(a.re) * ca.cos(a.im) - 2 * _squared(ca.sin(a.im / 2)), ca.exp(a.re) * ca.sin(a.im))


def _log(a: Z) -> Z:
    return Z(ca.log(ca.hypot(a.re, a.im)), ca.atan2(a.im, a.re))


def _log1p(a: Z) -> Z:
    whole = 1 + a.re
    small = ca.log1p(a.re * (2 + a.re) + _squared(a.im)) / 2  # cancels near -1, where the other one is exact
    return Z(_select(whole > 0.5, small, ca.log(ca.hypot(whole, a.im))), ca.atan2(a.im, whole))


def _pow(a: Z, n: Z) -> Z:
    """Polar form with the angle measured from the nearer half of the real axis, where it is as small as Im a: so integer
    powers of negative numbers keep it, and ``(-1)^n`` is exact. Other powers of negative numbers take the principal branch."""
    if a.im is None and n.im is None:
        return Z(a.re**n.re)
    r, c, im = ca.hypot(a.re, a.imag), n.re, a.imag
    back = ca.logic_and(a.re < 0, c == ca.floor(c))
    facing = _flip(back)
    sign = _flip(ca.logic_and(back, ca.fabs(ca.fmod(c, 2)) == 1))
    theta = ca.atan2(facing * im, facing * a.re)
    size, angle = sign * r**c, c * theta
    if n.im is not None:
        half_turn = _select(back, ca.copysign(ca.SX(math.pi), im), 0)
        size = size * ca.exp(-n.im * (theta + half_turn))
        angle = angle + n.im * _select(r == 0, 0, ca.log(r))
    return Z(size * ca.cos(angle), size * ca.sin(angle))


def _hypot(a: Z, b: Z) -> Z:
    return _sqrt(_add(_square(a), _square(b)))


def _square(a: Z) -> Z:
    return Z(_squared(a.re)) if a.im is None else _sq(a)


# --- Trigonometric and hyperbolic functions and their inverses ---------------------------------------------------------------


def _sin(a: Z) -> Z:
    return Z(ca.sin(a.re) * ca.cosh(a.im), ca.cos(a.re) * ca.sinh(a.im))


def _cos(a: Z) -> Z:
    return Z(ca.cos(a.re) * ca.cosh(a.im), -ca.sin(a.re) * ca.sinh(a.im))


def _sinh(a: Z) -> Z:
    return Z(ca.sinh(a.re) * ca.cos(a.im), ca.cosh(a.re) * ca.sin(a.im))


def _cosh(a: Z) -> Z:
    return Z(ca.cosh(a.re) * ca.cos(a.im), ca.sinh(a.re) * ca.sin(a.im))


def _tan(a: Z) -> Z:
    """Addition theorem ``(t + i T) / (1 - i t T)``, T = tanh Im a, with ``1 - T^2 = 1 / cosh^2`` against cancellation."""
    t, T = ca.tan(a.re), ca.tanh(a.im)
    below = 1 + _squared(t * T)
    return Z(t / _squared(ca.cosh(a.im)) / below, T * (1 + _squared(t)) / below)


def _tanh(a: Z) -> Z:
    """``tanh a = -i tan(i a)``; written out so that ``1 - tanh^2`` does not cancel."""
    t, T = ca.tan(a.im), ca.tanh(a.re)
    below = 1 + _squared(t * T)
    return Z(T * (1 + _squared(t)) / below, t / _squared(ca.cosh(a.re)) / below)


def _roots(a: Z) -> tuple[Z, Z]:
    """sqrt(1 - a), sqrt(1 + a)."""
    one = Z(ca.SX(1))
    return _sqrt(_sub(one, a)), _sqrt(_add(one, a))


def _asin(a: Z) -> Z:
    low, high = _roots(a)
    return Z(ca.atan2(a.re, low.re * high.re - low.im * high.im), ca.asinh(low.re * high.im - low.im * high.re))


def _acos(a: Z) -> Z:
    low, high = _roots(a)
    return Z(2 * ca.atan2(low.re, high.re), ca.asinh(high.re * low.im - high.im * low.re))


def _atan(a: Z) -> Z:
    return _arctangent(a.re, a.im, (1 - a.re) * (1 + a.re) - _squared(a.im))


def _arctangent(x: Expr, y: Expr, gap: Expr) -> Z:
    """atan(x + i y) with gap = 1 - x^2 - y^2, which the caller factors where it could cancel."""
    near = ca.fabs(y)
    im = ca.copysign(ca.log1p(4 * near / (_squared(x) + _squared(1 - near))) / 4, y)
    return Z(ca.atan2(2 * x, gap) / 2, im)


def _asinh(a: Z) -> Z:
    turned = _asin(_times_i(a))
    return Z(turned.im, -turned.re)


def _acosh(a: Z) -> Z:
    one = Z(ca.SX(1))
    low, high = _sqrt(_sub(a, one)), _sqrt(_add(a, one))
    return Z(ca.asinh(low.re * high.re + low.im * high.im), 2 * ca.atan2(low.im, high.re))


def _atanh(a: Z) -> Z:
    turned = _arctangent(-a.im, a.re, (1 - a.re) * (1 + a.re) - _squared(a.im))
    return Z(turned.im, -turned.re)


def _atan2(y: Z, x: Z) -> Z:
    """Continued from the real angle: in axes turned by it the rest is ``atan(i q r^2 / (r^4 + p^2) + ...)``, no branch cut."""
    p, q = x.re * x.imag + y.re * y.imag, x.re * y.imag - y.re * x.imag
    square = _squared(x.re) + _squared(y.re)
    below = _squared(square) + _squared(p)
    rest = _atan(Z(q * p / below, q * square / below))
    return Z(ca.atan2(y.re, x.re) + rest.re, rest.im)


# --- Error function: 32-point Gauss quadrature along the imaginary direction -------------------------------------------------

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def _erf(a: Z) -> Z:
    """``erf(x + i y) = erf(x) + 2 i y / sqrt(pi) int_0^1 exp(-(x + i y s)^2) ds``; exact for ``|y| <= 2``, ``|x y| <= 10``."""
    re, im = ca.SX(0), ca.SX(0)
    for node, weight in zip((_NODES + 1) / 2, _WEIGHTS / 2, strict=True):
        s = a.im * float(node)
        e = float(weight) * ca.exp((s - a.re) * (s + a.re))
        re, im = re + e * ca.cos(2 * a.re * s), im + e * ca.sin(2 * a.re * s)
    factor = 2 / math.sqrt(math.pi) * a.im
    return Z(ca.erf(a.re) + factor * im, factor * re)


# --- Branches on the real part ------------------------------------------------------------------------------------------------


def _signed(value: Expr, a: Z, negative: Expr) -> Z:
    return Z(value, None if a.im is None else _select(negative, -a.im, a.im))


def _fabs(a: Z) -> Z:
    return _signed(ca.fabs(a.re), a, a.re < 0)


def _copysign(a: Z, b: Z) -> Z:
    one = ca.SX(1)
    return _signed(ca.copysign(a.re, b.re), a, ca.copysign(one, a.re) * ca.copysign(one, b.re) < 0)


def _fmin(a: Z, b: Z) -> Z:
    return Z(ca.fmin(a.re, b.re), _select(a.re <= b.re, a.imag, b.imag))


def _fmax(a: Z, b: Z) -> Z:
    return Z(ca.fmax(a.re, b.re), _select(a.re >= b.re, a.imag, b.imag))


def _modulo(real: Callable[[Expr, Expr], Expr]) -> Callable[[Z, Z], Z]:
    """``a - n b`` with the integer n that the real parts give."""

    def rule(a: Z, b: Z) -> Z:
        value = real(a.re, b.re)
        if b.im is None:
            return Z(value, a.im)
        turns = (a.re - value) / b.re
        return Z(value, a.imag - turns * b.im)

    return rule


def _real_only(real: Callable[..., Expr]) -> Callable[..., Z]:
    return lambda *arguments: Z(real(*(z.re for z in arguments)))


def _when(condition: Expr, value: Expr) -> Expr:
    return ca.if_else(condition, value, 0)


Rule = tuple[Callable[..., Any], Callable[..., Z]]
_STEPS: dict[int, Callable[..., Any]] = {
    ca.OP_SIGN: ca.sign, ca.OP_FLOOR: ca.floor, ca.OP_CEIL: ca.ceil, ca.OP_NOT: ca.logic_not, ca.OP_AND: ca.logic_and,
    ca.OP_OR: ca.logic_or, ca.OP_LT: lambda a, b: a < b, ca.OP_LE: lambda a, b: a <= b, ca.OP_EQ: lambda a, b: a == b,
    ca.OP_NE: lambda a, b: a != b,
}
RULES: dict[int, Rule] = {
    ca.OP_ASSIGN: (lambda a: a, lambda a: a),
    ca.OP_LIFT: (lambda a, _: a, lambda a, _: a),
    ca.OP_ADD: (lambda a, b: a + b, _add),
    ca.OP_SUB: (lambda a, b: a - b, _sub),
    ca.OP_MUL: (lambda a, b: a * b, _mul),
    ca.OP_DIV: (lambda a, b: a / b, _div),
    ca.OP_NEG: (lambda a: -a, _neg),
    ca.OP_TWICE: (lambda a: 2 * a, lambda a: Z(2 * a.re, 2 * a.im)),
    ca.OP_SQ: (_squared, _sq),
    ca.OP_INV: (lambda a: 1 / a, _inv),
    ca.OP_SQRT: (ca.sqrt, _sqrt),
    ca.OP_EXP: (ca.exp, _exp),
    ca.OP_EXPM1: (ca.expm1, _expm1),
    ca.OP_LOG: (ca.log, _log),
    ca.OP_LOG1P: (ca.log1p, _log1p),
    ca.OP_POW: (lambda a, b: a**b, _pow),
    ca.OP_CONSTPOW: (lambda a, b: a**b, _pow),
    ca.OP_HYPOT: (ca.hypot, _hypot),
    ca.OP_SIN: (ca.sin, _sin), ca.OP_COS: (ca.cos, _cos), ca.OP_TAN: (ca.tan, _tan),
    ca.OP_ASIN: (ca.asin, _asin), ca.OP_ACOS: (ca.acos, _acos), ca.OP_ATAN: (ca.atan, _atan),
    ca.OP_SINH: (ca.sinh, _sinh), ca.OP_COSH: (ca.cosh, _cosh), ca.OP_TANH: (ca.tanh, _tanh),
    ca.OP_ASINH: (ca.asinh, _asinh), ca.OP_ACOSH: (ca.acosh, _acosh), ca.OP_ATANH: (ca.atanh, _atanh),
    ca.OP_ATAN2: (ca.atan2, _atan2),
    ca.OP_ERF: (ca.erf, _erf),
    ca.OP_FABS: (ca.fabs, _fabs),
    ca.OP_COPYSIGN: (ca.copysign, _copysign),
    ca.OP_FMIN: (ca.fmin, _fmin), ca.OP_FMAX: (ca.fmax, _fmax),
    ca.OP_FMOD: (ca.fmod, _modulo(ca.fmod)), ca.OP_REMAINDER: (ca.remainder, _modulo(ca.remainder)),
    ca.OP_IF_ELSE_ZERO: (_when, lambda c, a: Z(_when(c.re, a.re), None if a.im is None else _when(c.re, a.im))),
    **{op: (real, _real_only(real)) for op, real in _STEPS.items()},
}
