"""Constraints of one knot in Numba: their values, Jacobian and Hessian by z, and how far they are violated."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.bank import Bank, evaluate
from dynamics.kernels.calls import address_of, row_address
from dynamics.kernels.linked import linked
from dynamics.loops.vectors import INLINE
from ocp.shooting.engine.knots import JACOBIAN, ROW_HESSIAN, bind
from ocp.shooting.engine.record import ConstraintSet, Engine, Path, Plan
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL

Array = np.ndarray


@linked(**INLINE)
def bind_rows(bank: Bank, plan: Plan, path: Path, k: int) -> int:
    """Arguments (t, x, u, p, k) of the rows of a knot, after its step; returns the first slot of its kind."""
    first = bind(bank, plan, path, k)
    bank.arg[4] = row_address(path.inner, k)
    return first


@linked(**INLINE)
def jacobian(e: Engine, k: int) -> int:
    """Constraints c of knot k and their Jacobian C by z, after the expansion of its step. Returns 0 or a status."""
    bank, conset = e.bank, e.conset
    first = bind_rows(bank, e.plan, e.path, k)
    bank.res[0] = row_address(conset.c, k)
    bank.res[1] = row_address(conset.C, k)
    bank.res[2] = address_of(conset.B)
    status = evaluate(bank, first + JACOBIAN)
    C, T, B, kind = conset.C[k], conset.T[k], conset.B, e.plan.which[k]
    count = conset.value_counts[kind]
    if count > 0:
        for r in range(conset.number[kind]):
            for i in range(count):
                by = B[r * count + i]
                if by != 0.0:  # a cone has the forces of one contact
                    for s in range(C.shape[1]):
                        C[r, s] += by * T[i, s]
    return status


@linked(**INLINE)
def row_curvature(e: Engine, k: int) -> int:
    """Hessian of the rows of knot k times their gradient, into ``hessian``, after ``jacobian``. Returns 0 or a status."""
    bank, conset = e.bank, e.conset
    first = bind_rows(bank, e.plan, e.path, k)
    bank.arg[5] = row_address(conset.T, k)
    bank.arg[6] = row_address(conset.gradient, k)
    bank.res[0] = row_address(conset.hessian, 0)
    return evaluate(bank, first + ROW_HESSIAN)


@linked(**INLINE)
def violation(conset: ConstraintSet, kind: int, k: int) -> float:
    """Largest violation of the constraints of knot k."""
    largest, c = 0.0, conset.c[k]
    for r in range(conset.number[kind]):
        if conset.holds[k, r]:
            largest = max(largest, row_violation(conset, kind, r, c))
    return largest


@linked(**INLINE)
def row_violation(conset: ConstraintSet, kind: int, r: int, c: Array) -> float:
    """Violation of one row; a cone counts in its first row."""
    if conset.kind[kind, r] == EQUAL:
        return float(abs(c[r]))
    if conset.kind[kind, r] == BELOW:
        return max(0.0, float(c[r]))
    if conset.kind[kind, r] == CONE:
        norm = 0.0
        for s in range(r + 1, r + conset.size[kind, r]):
            norm += c[s] ** 2
        return max(0.0, float(np.sqrt(norm) - c[r]))
    return 0.0
