"""From a scalar that is not finite back to the operation that made it, written in the user's symbols.

A CasADi function is a list of scalar operations on numbered slots. From an output that is not finite the walk goes back along
operands that are not finite either, and ends at an operation whose operands are all finite. Values that are not finite but never
reach the output, such as the branch of an ``if_else`` that is not taken, are passed by.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.thresholds import EXPLANATION


@dataclass(frozen=True)
class Operand:
    """What an operation was applied to, in the user's symbols, and its value."""

    text: str
    value: float


_INFIX = {ca.OP_ADD: ("+", 1), ca.OP_SUB: ("-", 1), ca.OP_MUL: ("*", 2), ca.OP_DIV: ("/", 2), ca.OP_POW: ("**", 4),
          ca.OP_CONSTPOW: ("**", 4), ca.OP_LT: ("<", 0), ca.OP_LE: ("<=", 0), ca.OP_EQ: ("==", 0), ca.OP_NE: ("!=", 0),
          ca.OP_AND: ("and", 0), ca.OP_OR: ("or", 0)}
_CALLS = {getattr(ca, f"OP_{key}"): name for key, name in {
    "EXP": "exp", "LOG": "log", "SQRT": "sqrt", "SIN": "sin", "COS": "cos", "TAN": "tan", "ASIN": "asin", "ACOS": "acos",
    "ATAN": "atan", "SINH": "sinh", "COSH": "cosh", "TANH": "tanh", "ASINH": "asinh", "ACOSH": "acosh", "ATANH": "atanh",
    "FABS": "abs", "SIGN": "sign", "FMIN": "min", "FMAX": "max", "ATAN2": "atan2", "FLOOR": "floor", "CEIL": "ceil",
    "FMOD": "fmod", "ERF": "erf", "COPYSIGN": "copysign", "HYPOT": "hypot", "LOG1P": "log1p", "EXPM1": "expm1", "NOT": "not",
    "ERFINV": "erfinv", "REMAINDER": "remainder"}.items()}
_TIGHT = 9  # binds tighter than any operator


def expanded(function: ca.Function) -> ca.Function | None:
    """The function as scalar operations; None where it calls what has none."""
    if function.is_a("SXFunction"):
        return function
    try:
        return function.expand()
    except RuntimeError:
        return None


def trace(function: ca.Function, arguments: Sequence[np.ndarray], entry: int, names: Sequence[Sequence[str]]
          ) -> tuple[str, tuple[Operand, ...], float] | None:
    """(operation, operands, result) at the root of an output entry that is not finite; None where it is finite or where the
    function cannot be looked into.

    entry: number of the nonzero of the first output, column by column; names: of the entries of every argument
    """
    flat = expanded(function)
    if flat is None:
        return None
    nodes, outputs = _values(flat, arguments)
    at = outputs.get(entry)
    if at is None or math.isfinite(nodes[at].value):
        return None
    while True:
        broken = [i for i in nodes[at].inputs if not math.isfinite(nodes[i].value)]
        if not broken:
            break
        at = broken[0]
    node = nodes[at]
    texts = _Texts(nodes, names)
    operands = tuple(Operand(texts.text(i, 0)[:EXPLANATION.max_characters * 2], nodes[i].value) for i in node.inputs)
    return texts.text(at, 0), tuple(dict.fromkeys(operands)), node.value


@dataclass(frozen=True)
class _Node:
    """One scalar operation: its operands are numbers of nodes; data: (argument, entry) of an input."""

    op: int
    inputs: tuple[int, ...]
    value: float
    data: tuple[int, int] = (-1, -1)


def _values(function: ca.Function, arguments: Sequence[np.ndarray]) -> tuple[list[_Node], dict[int, int]]:
    """Every operation with its value, and the node of each nonzero of the first output."""
    nodes: list[_Node] = []
    held: dict[int, int] = {}  # the node whose value a work slot holds now
    outputs: dict[int, int] = {}
    given = [np.asarray(a, dtype=float).ravel() for a in arguments]
    for k in range(function.n_instructions()):
        op, inputs = function.instruction_id(k), function.instruction_input(k)
        if op == ca.OP_OUTPUT:
            where = function.instruction_output(k)
            if where[0] == 0:
                outputs[where[1]] = held[inputs[0]]
            continue
        if op == ca.OP_INPUT:
            node = _Node(op, (), float(given[inputs[0]][inputs[1]]), (inputs[0], inputs[1]))
        elif op == ca.OP_CONST:
            node = _Node(op, (), float(function.instruction_constant(k)))
        else:
            sources = tuple(held[i] for i in inputs)
            node = _Node(op, sources, _apply(op, [nodes[i].value for i in sources]))
        held[function.instruction_output(k)[0]] = len(nodes)
        nodes.append(node)
    return nodes, outputs


def _apply(op: int, values: Sequence[float]) -> float:
    """The operation as CasADi's interpreter computes it; constants would be simplified first, 0 * inf to 0."""
    return float(_operation(op, len(values))(*values))


@functools.cache
def _operation(op: int, count: int) -> ca.Function:
    symbols = [ca.SX.sym(f"a{i}") for i in range(count)]
    return ca.Function("operation", symbols, [ca.SX.unary(op, *symbols) if count == 1 else ca.SX.binary(op, *symbols)])


class _Texts:
    """Operations written out, long operands cut short; remembers what it has written."""

    def __init__(self, nodes: Sequence[_Node], names: Sequence[Sequence[str]]):
        self.nodes, self.names = nodes, names
        self.known: dict[int, tuple[str, int]] = {}

    def text(self, at: int, binding: int, *, cut: bool = False) -> str:
        """The text of a node, in parentheses where an operator that binds so tightly surrounds it; cut short inside others."""
        words, own = self._written(at)
        if len(words) > EXPLANATION.max_characters and (cut or binding > 0):
            words, own = "..." if cut else "(...)", _TIGHT
        return f"({words})" if own < binding else words

    def _written(self, at: int) -> tuple[str, int]:
        if at not in self.known:
            # operands stand before what uses them: filled in order, without recursion as deep as the expression
            for i in self._below(at):
                self.known.setdefault(i, self._write(i))
        return self.known[at]

    def _below(self, at: int) -> list[int]:
        seen, todo = {at}, [at]
        while todo:
            for i in self.nodes[todo.pop()].inputs:
                if i not in seen and i not in self.known:
                    seen.add(i)
                    todo.append(i)
        return sorted(seen)

    def _write(self, at: int) -> tuple[str, int]:
        node = self.nodes[at]
        op, inputs = node.op, node.inputs
        if op == ca.OP_INPUT:
            argument, entry = node.data
            return str(self.names[argument][entry]), _TIGHT
        if op == ca.OP_CONST:
            return f"{node.value:.6g}", _TIGHT if node.value >= 0 else 3
        if op in _INFIX:
            word, level = _INFIX[op]
            a, b = self.text(inputs[0], level + (level == 4)), self.text(inputs[1], level + (word in ("-", "/", "**")))
            return (f"{a}{word}{b}" if level == 4 else f"{a} {word} {b}"), level
        if op in _CALLS:
            return f"{_CALLS[op]}({', '.join(self.text(i, 0, cut=True) for i in inputs)})", _TIGHT
        simple: dict[int, tuple[str, int]] = {ca.OP_NEG: ("-{}", 3), ca.OP_SQ: ("{}**2", 4), ca.OP_TWICE: ("2 * {}", 2),
                                              ca.OP_INV: ("1 / {}", 2), ca.OP_ASSIGN: ("{}", 0)}
        if op in simple:
            form, level = simple[op]
            return form.format(self.text(inputs[0], level + 1)), level
        if op == ca.OP_IF_ELSE_ZERO:
            return f"if_else({self.text(inputs[0], 0)}, {self.text(inputs[1], 0)}, 0)", _TIGHT
        return f"operation {op}({', '.join(self.text(i, 0) for i in inputs)})", _TIGHT
