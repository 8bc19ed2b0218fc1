"""Evaluation of one knot in the loops: by a kernel of the bank, or by loops over the robot (``Mechanics``, ``Sensitivities``).

Numba chooses by the type of the record, so the loops over knots are written once: ``take``, ``differentiate``, ``full_hessian``,
``complete`` and ``in_one`` below declare what an engine can do, the overloads under them do it, and called from Python the
declarations raise. Where there is a robot, whatever has a kernel (start, passages, end; steps in closed form) still runs by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from dynamics.kernels.bank import Bank, evaluate
from dynamics.kernels.calls import address_of, row_address
from dynamics.kernels.linked import INNER, linked
from dynamics.kernels.record import record_at
from dynamics.loops.vectors import INLINE
from ocp.shooting.engine.record import Engine, Path, Plan, Sampler
from ocp.shooting.robot import lagrangian, sensitivities
from ocp.shooting.robot.mechanics import Mechanics, take_step
from ocp.shooting.robot.sensitivities import Sensitivities

Array = np.ndarray
STEP, EXPAND, FIRST_ORDER, HESSIAN, DIFFERENCE, PLUS, VALUE, JACOBIAN, ROW_HESSIAN, WHOLE = range(10)
SLOTS = 10
"""Functions of a kind of stage in the bank: slot ``SLOTS kind + function``."""


def take(e: Engine | Sampler, path: Path, k: int, after: Array) -> int:
    """One step from knot k of a path: write the next state and the cost of the knot. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def differentiate(e: Engine, k: int, H: Array, hessian: bool) -> int:
    """Write knot k of the model's g and F and, if wanted, the Gauss-Newton Hessian into H. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def full_hessian(e: Engine, k: int) -> int:
    """Write the full Hessian of knot k with the costate of the next. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def complete(e: Engine, k: int) -> int:
    """``differentiate`` and ``full_hessian`` in one, where a knot has it (``in_one``): the same numbers. Common parts are
    computed once. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def in_one(e: Engine, k: int) -> bool:
    """Whether knot k can ``complete``."""
    raise NotImplementedError("for use inside compiled loops")


@linked(**INLINE)
def bind(bank: Bank, plan: Plan, path: Path, k: int) -> int:
    """Arguments (t, x, u, p, h) of knot k of a path; returns the first slot of its kind."""
    arg, kind = bank.arg, plan.which[k]
    arg[0] = row_address(plan.t, k)
    arg[1] = row_address(path.x, k)
    arg[2] = row_address(path.u, k)
    arg[3] = row_address(plan.p, k)
    arg[4] = row_address(plan.h, k)
    return SLOTS * kind


@linked
def _take(e: Engine | Sampler, path: Path, k: int, after: Array) -> int:
    bank = e.bank
    first = bind(bank, e.plan, path, k)
    bank.res[0] = address_of(after)
    bank.res[1] = row_address(path.cost, k)
    bank.res[2] = row_address(path.inner, k)
    return evaluate(bank, first + STEP)


@linked
def _differentiate(e: Engine, k: int, H: Array, hessian: bool) -> int:
    bank = e.bank
    first = bind(bank, e.plan, e.path, k)
    bank.res[0] = row_address(e.model.g, k)
    bank.res[1] = row_address(e.model.F, k)
    bank.res[2] = row_address(H, k)
    _put_inner(e, k, 3 if hessian else 2)
    return evaluate(bank, first + (EXPAND if hessian else FIRST_ORDER))


@linked(**INLINE)
def _put_inner(e: Engine, k: int, which: int) -> None:
    """Results from this one on: derivatives and values of what the rows of knot k hold."""
    e.bank.res[which] = row_address(e.conset.T, k)
    e.bank.res[which + 1] = row_address(e.path.inner, k)


@linked
def _full_hessian(e: Engine, k: int) -> int:
    bank = e.bank
    first = bind(bank, e.plan, e.path, k)
    bank.arg[5] = row_address(e.policy.costate, k + 1)
    bank.res[0] = row_address(e.model.H, k)
    for i in range(1, min(5, bank.res.shape[0])):
        bank.res[i] = 0  # a kernel that gives g and F as well
    return evaluate(bank, first + HESSIAN)


@linked
def _complete(e: Engine, k: int) -> int:
    bank = e.bank
    first = bind(bank, e.plan, e.path, k)
    bank.arg[5] = row_address(e.policy.costate, k + 1)
    bank.res[0] = row_address(e.model.H, k)
    bank.res[1] = row_address(e.model.g, k)
    bank.res[2] = row_address(e.model.F, k)
    _put_inner(e, k, 3)
    return evaluate(bank, first + WHOLE)


@linked
def _has(e: Engine, k: int, function: int) -> bool:
    return bool(e.bank.address[SLOTS * e.plan.which[k] + function] != 0)


def _is_robot(engine: Any, field: str, record: type) -> bool:
    return getattr(dict(engine.fields)[field], "record", None) is record


# Numba compares the signatures of these functions, annotations included. Those of the loops are given as they are: every
# level of calls would compile all below it once more
@overload(take, jit_options=INNER)
def _by_step(e, path, k, after):  # type: ignore[no-untyped-def]
    if not _is_robot(e, "step", Mechanics):
        return lambda e, path, k, after: _take(e, path, k, after)
    by_robot = njit(**INNER)(take_step)

    def by_either(e, path, k, after):  # type: ignore[no-untyped-def]
        if _has(e, k, STEP):
            return _take(e, path, k, after)
        return by_robot(record_at(e.step, e.step.kinds[e.plan.which[k]]), e.plan, path, k, after)
    return by_either


@overload(differentiate, jit_options=INNER)
def _by_expansion(e, k, H, hessian):  # type: ignore[no-untyped-def]
    if not _is_robot(e, "derivatives", Sensitivities):
        return lambda e, k, H, hessian: _differentiate(e, k, H, hessian)
    by_robot = njit(**INNER)(sensitivities.expand)

    def by_either(e, k, H, hessian):  # type: ignore[no-untyped-def]
        if _has(e, k, STEP):
            return _differentiate(e, k, H, hessian)
        return by_robot(record_at(e.derivatives, e.derivatives.kinds[e.plan.which[k]]), e.plan, e.path, k, e.model,
                        e.conset.T, H, hessian)
    return by_either


@overload(full_hessian, jit_options=INNER)
def _by_curve(e, k):  # type: ignore[no-untyped-def]
    if not _is_robot(e, "derivatives", Sensitivities):
        return lambda e, k: _full_hessian(e, k)
    by_robot = njit(**INNER)(lagrangian.curve)

    def by_either(e, k):  # type: ignore[no-untyped-def]
        if _has(e, k, HESSIAN):
            return _full_hessian(e, k)
        return by_robot(record_at(e.derivatives, e.derivatives.kinds[e.plan.which[k]]), e.plan, e.path, k,
                        e.policy.costate, e.model.H)
    return by_either


@overload(complete, jit_options=INNER)
def _by_whole(e, k):  # type: ignore[no-untyped-def]
    if not _is_robot(e, "derivatives", Sensitivities):
        return lambda e, k: _complete(e, k)
    by_robot = njit(**INNER)(lagrangian.complete)

    def by_either(e, k):  # type: ignore[no-untyped-def]
        if _has(e, k, WHOLE):
            return _complete(e, k)
        return by_robot(record_at(e.derivatives, e.derivatives.kinds[e.plan.which[k]]), e.plan, e.path, k, e.model,
                        e.conset.T, e.policy.costate)
    return by_either


@overload(in_one, jit_options=INNER)
def _in_one(e, k):  # type: ignore[no-untyped-def]
    if not _is_robot(e, "derivatives", Sensitivities):
        return lambda e, k: _has(e, k, WHOLE)
    return lambda e, k: _has(e, k, WHOLE) or not _has(e, k, STEP)  # a step without a kernel is one by loops


@linked(**INLINE)
def away(e: Engine, k: int, x0: Array, x1: Array, dx: Array) -> bool:
    """dx = x1 [-] x0 in the space of knot k."""
    kind, bank = e.plan.which[k], e.bank
    flat = e.plan.flat[kind]
    for c in range(flat):
        dx[c] = x1[c] - x0[c]
    if flat == 0:
        bank.arg[0] = address_of(x0)
        bank.arg[1] = address_of(x1)
        bank.res[0] = address_of(dx)
        return bool(evaluate(bank, SLOTS * kind + DIFFERENCE) == 0)
    return True


@linked(**INLINE)
def moved(e: Engine, k: int, x0: Array, dx: Array, x1: Array) -> bool:
    """x1 = x0 [+] dx in the space of knot k; x1 may be x0 where the space is flat."""
    kind, bank = e.plan.which[k], e.bank
    flat = e.plan.flat[kind]
    for c in range(flat):
        x1[c] = x0[c] + dx[c]
    if flat == 0:
        bank.arg[0] = address_of(x0)
        bank.arg[1] = address_of(dx)
        bank.res[0] = address_of(x1)
        return bool(evaluate(bank, SLOTS * kind + PLUS) == 0)
    return True
