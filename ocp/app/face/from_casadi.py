"""CasADi's SX as text of the file language: symbols by their names, every operation as it is written there."""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynamics.kernels.tape import replay
from ocp.app.face.expression import Expr, Relation, call, expr, vector
from ocp.app.face.functions import if_else
from ocp.errors import ProblemError

_BINARY = {ca.OP_ADD: lambda a, b: a + b, ca.OP_SUB: lambda a, b: a - b, ca.OP_MUL: lambda a, b: a * b,
           ca.OP_DIV: lambda a, b: a / b, ca.OP_POW: lambda a, b: a**b, ca.OP_CONSTPOW: lambda a, b: a**b,
           ca.OP_LT: lambda a, b: a < b, ca.OP_LE: lambda a, b: a <= b,
           ca.OP_AND: lambda a, b: a & b, ca.OP_OR: lambda a, b: a | b}
_UNARY = {ca.OP_NEG: lambda a: -a, ca.OP_SQ: lambda a: a**2, ca.OP_TWICE: lambda a: 2 * a, ca.OP_INV: lambda a: 1 / a,
          ca.OP_ASSIGN: lambda a: a}
_NAMED = {ca.OP_EXP: "exp", ca.OP_LOG: "log", ca.OP_SQRT: "sqrt", ca.OP_SIN: "sin", ca.OP_COS: "cos", ca.OP_TAN: "tan",
          ca.OP_ASIN: "asin", ca.OP_ACOS: "acos", ca.OP_ATAN: "atan", ca.OP_SINH: "sinh", ca.OP_COSH: "cosh", ca.OP_TANH: "tanh",
          ca.OP_FABS: "abs", ca.OP_SIGN: "sign", ca.OP_ATAN2: "atan2", ca.OP_FMIN: "min", ca.OP_FMAX: "max"}


def from_casadi(value: Any) -> Expr:
    """An SX or DM column as an expression; its symbols are names of the problem. Raises ProblemError for what has no text."""
    if isinstance(value, ca.MX):
        raise ProblemError("a CasADi MX has no text; use SX symbols with the names of states and controls, or those of the problem")
    if isinstance(value, ca.DM):
        return expr(value.full().squeeze())
    if not isinstance(value, ca.SX):
        raise ProblemError(f"expected an expression, got a CasADi {type(value).__name__}; call it first, with SX symbols")
    if value.size2() != 1:
        raise ProblemError(f"expected a column, got a CasADi expression of {value.size1()} x {value.size2()}")
    symbols = ca.symvar(value)
    function = ca.Function("f", symbols, [ca.densify(value)])

    def constant(number: float) -> Any:
        return expr(int(number) if number.is_integer() and abs(number) < 1e15 else number)

    def apply(code: int, operands: list[Any]) -> Any:
        if code == ca.OP_IF_ELSE_ZERO:
            condition, value = operands
            return if_else(condition, value, 0)
        if code in _NAMED:
            return call(_NAMED[code], *operands)
        if code in _BINARY:
            return _BINARY[code](*operands)
        if code in _UNARY:
            return _UNARY[code](*operands)
        if code == ca.OP_NOT:
            return _not(*operands)
        raise ProblemError(f"the CasADi operation in {value} (number {code}) has no text in the language of files")

    (out,) = replay(function, lambda i, _: Expr(str(symbols[i])), constant, apply)
    return out[0] if len(out) == 1 else vector(out)


def _not(condition: Any) -> Any:
    """The opposite of a comparison, which CasADi makes of if_else."""
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}.get(getattr(condition, "sign", ""))
    if opposite is None:
        raise ProblemError(f"the opposite of {condition} has no text in the language of files")
    return Relation(condition.left, opposite, condition.right)
