"""Parts of every function of a stage: symbols, and Functions whose matrices the loops can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca

from dynamics.lie.expression import Expr
from ocp.interrupts import Activity, check

Symbol = Callable[..., Expr]

INLINE_LIMIT = 400
"""Instructions of a function up to which it is inlined into one scalar graph (shared terms are then computed once);
larger ones stay calls, so that code size and compile time do not grow with the number of stages. Measured: a six-joint
arm (1260 instructions) under RK4 expands in 118 000 inlined instructions, 2.7 times slower than the calls."""


def symbol_for(functions: Sequence[ca.Function], limit: int | None = None) -> Symbol:
    """``SX.sym`` where every Function can be inlined into one scalar graph of reasonable size, else ``MX.sym``. limit: instructions
    of a Function, INLINE_LIMIT if None."""
    limit = INLINE_LIMIT if limit is None else limit
    for function in functions:
        try:
            size = (function if function.is_a("SXFunction") else function.expand()).n_instructions()
        except RuntimeError:  # an operation without scalar form: linear solver, root finder, external code
            return ca.MX.sym
        if size > limit:
            return ca.MX.sym
    return ca.SX.sym


def dense_function(name: str, inputs: Sequence[Expr], outputs: Sequence[Expr]) -> ca.Function:
    """Function with dense outputs and every shared term computed once."""
    check(Activity.FUNCTIONS)
    return ca.Function(name, list(inputs), shared(outputs, type(inputs[0])))


def shared(outputs: Sequence[Expr], kind: type) -> list[Expr]:
    """Outputs as dense SX or MX, every shared term computed once. CasADi writes down every node to find them, functions that are
    called with all that is in them: where these are beyond INLINE_LIMIT that takes longer than to differentiate them, and they are
    nodes that expressions share as they are."""
    found: list[Expr] = [ca.densify(kind(output)) for output in outputs]
    if kind is ca.MX:
        graph = ca.Function("graph", ca.symvar(ca.veccat(*found)), found)
        if any(graph.instruction_MX(i).which_function().n_instructions() > INLINE_LIMIT for i in range(graph.n_instructions())
               if graph.instruction_id(i) == ca.OP_CALL):
            return found
    return ca.cse(found)


def by_rows(matrix: Expr, width: int) -> Expr:
    """A matrix whose rows, filled up to ``width`` columns, follow one another in memory (CasADi stores by columns)."""
    rows, columns = matrix.shape
    return ca.horzcat(matrix, type(matrix)(rows, width - columns)).T


def filled(vector: Expr, width: int) -> Expr:
    """A column filled up to ``width`` entries."""
    return ca.vertcat(vector, type(vector)(width - vector.shape[0], 1))
