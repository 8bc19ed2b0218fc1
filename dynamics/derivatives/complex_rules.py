"""Complex arithmetic over pairs of real CasADi expressions: one exact formula for every scalar operation.

The formulas keep an imaginary part of relative size 1e-30 to full precision. Operations that are not analytic (``fabs``,
``fmin``, comparisons, ...) branch on the real part, which continues the active branch. Squares limit real parts to about 1e-75
to 1e+75.

Source of the inverse functions: Kahan (1987), Branch cuts for complex elementary functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.lie.expression import Expr


class Z(NamedTuple):
    """A complex scalar expression; ``im`` is None where it is zero whatever the numbers are."""

    re: Expr
    im: Expr = None

    @property
    def imag(self) -> Expr:
        """The imaginary part; zero where none is kept."""
        return ca.SX(0) if self.im is None else self.im


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
    turned = _asin(Z(-a.imag, a.re))  # i a
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
