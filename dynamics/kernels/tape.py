"""The operations of a scalar function, one after another, over values of any kind: expressions, numbers, intervals, texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import casadi as ca

T = TypeVar("T")


def replay(function: ca.Function, read: Callable[[int, int], T], constant: Callable[[float], T],
           apply: Callable[[int, list[T]], T], call: Callable[[int, list[T]], Sequence[T]] | None = None) -> list[list[T]]:
    """The nonzeros of every output of an SX function.

    read(i, j): the value of nonzero j of input i; constant(c): that of a constant; apply(code, operands): that of an operation of
    CasADi (``ca.OP_ADD``, ...); call(k, operands): the results of instruction k, a call of another function, -1 being none of its
    slots. Raises ValueError for calls without ``call``.
    """
    work: dict[int, T] = {}
    outputs: list[list[Any]] = [[None] * function.nnz_out(i) for i in range(function.n_out())]
    for k in range(function.n_instructions()):
        code, source, target = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if code == ca.OP_OUTPUT:
            outputs[target[0]][target[1]] = work[source[0]]
        elif code == ca.OP_INPUT:
            work[target[0]] = read(source[0], source[1])
        elif code == ca.OP_CONST:
            work[target[0]] = constant(function.instruction_constant(k))
        elif code != ca.OP_CALL:
            work[target[0]] = apply(code, [work[i] for i in source])
        elif call is None:
            raise ValueError(f"{function.name()} calls other functions")
        else:
            work.update(pair for pair in zip(target, call(k, [work[i] for i in source]), strict=True) if pair[0] >= 0)
    return outputs


def operation(code: int, operands: Sequence[ca.SX]) -> ca.SX:
    """The result of an operation on expressions."""
    return ca.SX.unary(code, *operands) if len(operands) == 1 else ca.SX.binary(code, *operands)


def codes(function: ca.Function) -> set[int]:
    """The kinds of operations in a function."""
    return {function.instruction_id(k) for k in range(function.n_instructions())}
