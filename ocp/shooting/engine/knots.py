"""What the loops do at one knot: by a kernel of the bank, or by loops over the robot (``Mechanics``, ``Sensitivities``).

Numba chooses by the type of the record, so the loops over knots are written once: ``take``, ``differentiate``, ``bend``,
``complete`` and ``in_one`` below declare what a record can do, the overloads under them do it, and called from Python the
declarations raise. Where the record is a robot, whatever has a kernel (start, passages, end; steps in closed form) still runs by
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from dynamics.kernels.bank import Bank, evaluate
from dynamics.kernels.calls import row_address
from dynamics.kernels.linked import INNER, linked
from dynamics.kernels.record import RecordType
from dynamics.loops.vectors import INLINE
from ocp.shooting.robot import lagrangian, sensitivities
from ocp.shooting.robot.mechanics import Mechanics, take_step
from ocp.shooting.robot.sensitivities import Sensitivities

Array = np.ndarray
STEP, EXPAND, SLOPE, BEND, DIFFERENCE, PLUS, VALUE, JACOBIAN, ROW_BEND, WHOLE = range(10)
SLOTS = 10
"""Functions of a kind of stage in the bank: slot ``SLOTS kind + function``."""

Step = Bank | Mechanics
Derivatives = Bank | Sensitivities


def take(step: Step, bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, after: Array, to: int,
         cost: Array, at: int) -> int:
    """One step from row k of t, h, x, u: write after[to] and cost[at]. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def differentiate(record: Derivatives, bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, g: Array,
                  F: Array, H: Array, hessian: bool) -> int:
    """Write row k of g and F and, if wanted, the Gauss-Newton Hessian. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def bend(record: Derivatives, bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, costate: Array,
         H: Array) -> int:
    """Write the full Hessian of row k with costate[k + 1]. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def complete(record: Derivatives, bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, g: Array,
             F: Array, H: Array, costate: Array) -> int:
    """``differentiate`` and ``bend`` in one, for a kind that has it (``in_one``): row k of g, F and the full Hessian with costate[k
    + 1], the same numbers. What the two have in common is computed once. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def in_one(record: Derivatives, bank: Bank, kind: int) -> bool:
    """Whether a kind of stage can ``complete``."""
    raise NotImplementedError("for use inside compiled loops")


@linked(**INLINE)
def bind(bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int) -> None:
    """Arguments (t, x, u, p, h) of a stage."""
    arg = bank.arg
    arg[0] = row_address(t, k)
    arg[1] = row_address(x, k)
    arg[2] = row_address(u, k)
    arg[3] = row_address(p, kind)
    arg[4] = row_address(h, k)


@linked(**INLINE)
def _take_kernel(bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, after: Array, to: int,
                 cost: Array, at: int) -> int:
    bind(bank, kind, t, h, p, x, u, k)
    bank.res[0] = row_address(after, to)
    bank.res[1] = row_address(cost, at)
    return evaluate(bank, SLOTS * kind + STEP)


@linked(**INLINE)
def _differentiate_kernel(bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, g: Array, F: Array,
                          H: Array, hessian: bool) -> int:
    bind(bank, kind, t, h, p, x, u, k)
    bank.res[0] = row_address(g, k)
    bank.res[1] = row_address(F, k)
    bank.res[2] = row_address(H, k)
    return evaluate(bank, SLOTS * kind + (EXPAND if hessian else SLOPE))


@linked(**INLINE)
def _bend_kernel(bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, costate: Array, H: Array) -> int:
    bind(bank, kind, t, h, p, x, u, k)
    bank.arg[5] = row_address(costate, k + 1)
    bank.res[0] = row_address(H, k)
    bank.res[1] = bank.res[2] = 0  # a kernel that gives g and F as well
    return evaluate(bank, SLOTS * kind + BEND)


@linked(**INLINE)
def _complete_kernel(bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, k: int, g: Array, F: Array, H: Array,
                     costate: Array) -> int:
    bind(bank, kind, t, h, p, x, u, k)
    bank.arg[5] = row_address(costate, k + 1)
    bank.res[0] = row_address(H, k)
    bank.res[1] = row_address(g, k)
    bank.res[2] = row_address(F, k)
    return evaluate(bank, SLOTS * kind + WHOLE)


def _is_bank(kind: Any) -> bool:
    return isinstance(kind, RecordType) and kind.record is Bank


# Numba compares the signatures of these functions, annotations included. Those of the loops are given as they are: every
# level of calls would compile all below it once more
@overload(take)
def _take(step, bank, kind, t, h, p, x, u, k, after, to, cost, at):  # type: ignore[no-untyped-def]
    if _is_bank(step):
        return lambda step, bank, kind, t, h, p, x, u, k, after, to, cost, at: _take_kernel(
            bank, kind, t, h, p, x, u, k, after, to, cost, at)
    if isinstance(step, RecordType) and step.record is Mechanics:
        by_robot = njit(**INNER)(take_step)

        def by_either(step, bank, kind, t, h, p, x, u, k, after, to, cost, at):  # type: ignore[no-untyped-def]
            if bank.address[SLOTS * kind + STEP] != 0:
                return _take_kernel(bank, kind, t, h, p, x, u, k, after, to, cost, at)
            return by_robot(step, t, h, p[kind], x, u, k, after, to, cost, at)
        return by_either
    return None


@overload(differentiate)
def _differentiate(record, bank, kind, t, h, p, x, u, k, g, F, H, hessian):  # type: ignore[no-untyped-def]
    if _is_bank(record):
        return lambda record, bank, kind, t, h, p, x, u, k, g, F, H, hessian: _differentiate_kernel(
            bank, kind, t, h, p, x, u, k, g, F, H, hessian)
    if isinstance(record, RecordType) and record.record is Sensitivities:
        by_robot = njit(**INNER)(sensitivities.expand)

        def by_either(record, bank, kind, t, h, p, x, u, k, g, F, H, hessian):  # type: ignore[no-untyped-def]
            if bank.address[SLOTS * kind + STEP] != 0:
                return _differentiate_kernel(bank, kind, t, h, p, x, u, k, g, F, H, hessian)
            return by_robot(record, t, h, p[kind], x, u, k, g, F, H, hessian)
        return by_either
    return None


@overload(bend)
def _bend(record, bank, kind, t, h, p, x, u, k, costate, H):  # type: ignore[no-untyped-def]
    if _is_bank(record):
        return lambda record, bank, kind, t, h, p, x, u, k, costate, H: _bend_kernel(bank, kind, t, h, p, x, u, k, costate, H)
    if isinstance(record, RecordType) and record.record is Sensitivities:
        by_robot = njit(**INNER)(lagrangian.curve)

        def by_either(record, bank, kind, t, h, p, x, u, k, costate, H):  # type: ignore[no-untyped-def]
            if bank.address[SLOTS * kind + BEND] != 0:
                return _bend_kernel(bank, kind, t, h, p, x, u, k, costate, H)
            return by_robot(record, t, h, p[kind], x, u, k, costate, H)
        return by_either
    return None


@overload(complete)
def _complete(record, bank, kind, t, h, p, x, u, k, g, F, H, costate):  # type: ignore[no-untyped-def]
    if _is_bank(record):
        return lambda record, bank, kind, t, h, p, x, u, k, g, F, H, costate: _complete_kernel(
            bank, kind, t, h, p, x, u, k, g, F, H, costate)
    if isinstance(record, RecordType) and record.record is Sensitivities:
        by_robot = njit(**INNER)(lagrangian.complete)

        def by_either(record, bank, kind, t, h, p, x, u, k, g, F, H, costate):  # type: ignore[no-untyped-def]
            if bank.address[SLOTS * kind + WHOLE] != 0:
                return _complete_kernel(bank, kind, t, h, p, x, u, k, g, F, H, costate)
            return by_robot(record, t, h, p[kind], x, u, k, g, F, H, costate)
        return by_either
    return None


@overload(in_one)
def _in_one(record, bank, kind):  # type: ignore[no-untyped-def]
    if _is_bank(record):
        return lambda record, bank, kind: bank.address[SLOTS * kind + WHOLE] != 0
    if isinstance(record, RecordType) and record.record is Sensitivities:
        # a step without a kernel is one by loops
        return lambda record, bank, kind: bank.address[SLOTS * kind + WHOLE] != 0 or bank.address[SLOTS * kind + STEP] == 0
    return None


@linked(**INLINE)
def away(bank: Bank, kind: int, flat: int, x0: Array, k: int, x1: Array, j: int, dx: Array, i: int) -> bool:
    """dx[i] = x1[j] [-] x0[k] in the space of a kind; flat: number of its coordinates if it is flat, else 0."""
    for c in range(flat):
        dx[i, c] = x1[j, c] - x0[k, c]
    if flat == 0:
        bank.arg[0] = row_address(x0, k)
        bank.arg[1] = row_address(x1, j)
        bank.res[0] = row_address(dx, i)
        return evaluate(bank, SLOTS * kind + DIFFERENCE) == 0
    return True


@linked(**INLINE)
def moved(bank: Bank, kind: int, flat: int, x0: Array, k: int, dx: Array, i: int, x1: Array, j: int) -> bool:
    """x1[j] = x0[k] [+] dx[i]; x1[j] may be x0[k] where the space is flat."""
    for c in range(flat):
        x1[j, c] = x0[k, c] + dx[i, c]
    if flat == 0:
        bank.arg[0] = row_address(x0, k)
        bank.arg[1] = row_address(dx, i)
        bank.res[0] = row_address(x1, j)
        return evaluate(bank, SLOTS * kind + PLUS) == 0
    return True

