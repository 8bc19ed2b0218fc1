"""How much work one evaluation of a Function is, counted through the functions that it calls."""

from __future__ import annotations

import casadi as ca


def operations(function: ca.Function) -> int:
    """Scalar instructions of one evaluation: those of scalar graphs, of matrix graphs one for each nonzero that an instruction
    writes (products: one for each multiplication), and those of every function called, as often as it is called.

    External code and callbacks count as one.
    """
    return _count(function, {})


def _count(function: ca.Function, known: dict[int, int]) -> int:
    key = hash(function)
    if key not in known:
        known[key] = _counted(function, known)
    return known[key]


def _counted(function: ca.Function, known: dict[int, int]) -> int:
    if function.is_a("SXFunction"):
        return int(function.n_instructions())
    if function.class_name() == "Map":
        info = function.info()
        return int(info["n"]) * _count(info["f"], known)
    if not function.is_a("MXFunction"):
        return 1
    total = 0
    for k in range(function.n_instructions()):
        what = function.instruction_id(k)
        if what in (ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_PARAMETER, ca.OP_CONST):
            continue
        node = function.instruction_MX(k)
        if what == ca.OP_CALL:
            total += _count(node.which_function(), known)
        elif what == ca.OP_MTIMES:
            left = node.dep(1)
            total += int(node.dep(2).nnz() * left.nnz() / max(1, left.shape[1]))
        else:
            total += node.nnz()
    return total
