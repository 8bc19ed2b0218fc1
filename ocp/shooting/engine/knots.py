"""What the loops do at one knot: by a generated kernel (``Call``) or by loops over the robot (``Mechanics``, ``Sensitivities``).

Numba chooses by the type of the record, so the loops over knots are written once: ``take``, ``differentiate`` and ``bend`` below
declare what a record can do, the overloads under them do it, and called from Python the declarations raise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from dynamics.kernels.calls import address_of, call, row_address
from ocp.shooting.engine.riccati import Expansion
from ocp.shooting.robot import lagrangian, sensitivities
from ocp.shooting.robot.mechanics import Mechanics, MechanicsType, take_step
from ocp.shooting.robot.sensitivities import Sensitivities, SensitivitiesType

Array = np.ndarray


class Call(NamedTuple):
    """A kernel ready to be called: its address and handle, pointers to arguments and results, work arrays."""

    address: int
    handle: int
    arg: Array
    res: Array
    iw: Array
    w: Array


Step = Call | Mechanics
Derivatives = Call | Sensitivities


@njit(cache=True)
def run(kernel: Call) -> int:
    """Run a kernel whose pointers have been set; 0 is success."""
    return call(kernel.address, kernel.handle, kernel.arg, kernel.res, kernel.iw, kernel.w)


def take(step: Step, t: Array, x: Array, u: Array, p: Array, h: Array, k: int, i: int, after: Array, to: int, cost: Array,
         j: int) -> int:
    """One step of length h[i] from row k of t, x, u: write after[to] and cost[j]. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def differentiate(kernel: Derivatives, t: Array, x: Array, u: Array, p: Array, h: Array, k: int, model: Expansion,
                  hessian: bool) -> int:
    """Write A, B, lx, lu and, if wanted, the Gauss-Newton Hessians of knot k. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def bend(kernel: Derivatives, t: Array, x: Array, u: Array, p: Array, h: Array, k: int, costate: Array, model: Expansion) -> int:
    """Write the full Hessians of knot k with costate[k + 1]. Returns 0 or a status."""
    raise NotImplementedError("for use inside compiled loops")


def _is_call(kind: Any) -> bool:
    return isinstance(kind, types.NamedTuple) and kind.instance_class is Call


@njit(cache=True)
def _at(kernel: Call, t: Array, x: Array, u: Array, p: Array, h: Array, k: int, i: int) -> None:
    kernel.arg[0] = row_address(t, k)
    kernel.arg[1] = row_address(x, k)
    kernel.arg[2] = row_address(u, k)
    kernel.arg[3] = address_of(p)
    kernel.arg[4] = row_address(h, i)


# Numba compares the signatures of these functions, annotations included. Those of the loops are given as they are: every
# level of calls would compile all below it once more
@overload(take)
def _take(record, t, x, u, p, h, k, i, after, to, cost, j):  # type: ignore[no-untyped-def]
    if _is_call(record):
        def by_kernel(record, t, x, u, p, h, k, i, after, to, cost, j):  # type: ignore[no-untyped-def]
            _at(record, t, x, u, p, h, k, i)
            record.res[0] = row_address(after, to)
            record.res[1] = row_address(cost, j)
            return run(record)
        return by_kernel
    if isinstance(record, MechanicsType):
        return take_step
    return None


@overload(differentiate)
def _differentiate(record, t, x, u, p, h, k, model, hessian):  # type: ignore[no-untyped-def]
    if _is_call(record):
        def by_kernel(record, t, x, u, p, h, k, model, hessian):  # type: ignore[no-untyped-def]
            _at(record, t, x, u, p, h, k, 0)
            record.res[0] = row_address(model.lx, k)
            record.res[1] = row_address(model.lu, k)
            record.res[2] = row_address(model.A, k)
            record.res[3] = row_address(model.B, k)
            if hessian:
                record.res[4] = row_address(model.lxx, k)
                record.res[5] = row_address(model.luu, k)
                record.res[6] = row_address(model.lux, k)
            return run(record)
        return by_kernel
    if isinstance(record, SensitivitiesType):
        return sensitivities.expand
    return None


@overload(bend)
def _bend(record, t, x, u, p, h, k, costate, model):  # type: ignore[no-untyped-def]
    if _is_call(record):
        def by_kernel(record, t, x, u, p, h, k, costate, model):  # type: ignore[no-untyped-def]
            _at(record, t, x, u, p, h, k, 0)
            record.arg[5] = row_address(costate, k + 1)
            record.res[0] = row_address(model.lxx, k)
            record.res[1] = row_address(model.luu, k)
            record.res[2] = row_address(model.lux, k)
            return run(record)
        return by_kernel
    if isinstance(record, SensitivitiesType):
        return lagrangian.curve
    return None
