"""How large a function is: instructions in its graph, those of inner functions included."""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca


class Count(NamedTuple):
    """executed: instructions in one evaluation, a function called twice counted twice; distinct: each function counted once, which
    is what a compiler sees."""

    executed: int
    distinct: int


def count(function: ca.Function) -> Count:
    """Instructions of an SX or MX function; 0 for kinds that CasADi does not count."""
    sizes: dict[int, tuple[int, int]] = {}
    executed = _walk(function, sizes)
    return Count(executed, sum(own for _, own in sizes.values()))


def _walk(function: ca.Function, seen: dict[int, tuple[int, int]]) -> int:
    key = function.__hash__()
    if key in seen:
        return seen[key][0]
    if function.is_a("SXFunction"):
        n = function.n_instructions()
        seen[key] = (n, n)
        return n
    if function.is_a("MXFunction"):
        n = function.n_instructions()
        total = n
        for k in range(n):
            if function.instruction_id(k) == ca.OP_CALL:
                total += _walk(function.instruction_MX(k).which_function(), seen)
        seen[key] = (total, n)
        return total
    if function.is_a("Map"):  # one function, so many times
        inner = function.get_function("f") if "f" in function.get_function() else None
        total = 0
        if inner is not None:
            total = _walk(inner, seen) * (function.size2_in(0) // max(1, inner.size2_in(0)))
        seen[key] = (total, 0)
        return total
    seen[key] = (0, 0)
    return 0
