"""Time per call, measured inside compiled loops: neither Python nor its argument conversion is in the figure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numba import njit, typeof, types
from numba.core import cgutils
from numba.extending import intrinsic

from dynamics.kernels import Kernel, workspace
from dynamics.kernels.calls import call
from dynamics.loops import first_order, forward, rnea, second_order, tensors
from dynamics.loops.tables import make_tables
from dynamics.model.model import Model

Array = np.ndarray
Run = Callable[[int], Any]  # evaluates so many times


@dataclass(frozen=True)
class Effort:
    """How long one figure may take: batches, and processor seconds of each. A call that is longer makes a batch of its own, and at
    least ``fewest`` of them are made."""

    batches: int = 7
    seconds: float = 0.006
    fewest: int = 3
    most_seconds: float = 1.0


QUICK = Effort(batches=5, seconds=0.001, fewest=1, most_seconds=0.1)


def microseconds(run: Run, effort: Effort) -> float:
    """Median processor time of one evaluation [us]."""
    run(1)  # whatever is loaded or compiled on first use
    count, begin = 1, time.thread_time()
    run(count)
    spent = time.thread_time() - begin
    while spent < effort.seconds / 2:
        count *= 2
        begin = time.thread_time()
        run(count)
        spent = time.thread_time() - begin
    record: list[float] = []
    total = spent
    while len(record) < effort.fewest or (len(record) < effort.batches and total < effort.most_seconds):
        begin = time.thread_time()
        run(count)
        spent = time.thread_time() - begin
        total += spent
        record.append(spent / count * 1e6)
    return statistics.median(record)


def buffer_run(function: ca.Function, inputs: Sequence[Array]) -> Run:
    """Evaluations by CasADi's interpreter on fixed memory, called from Python."""
    buffer, once = function.buffer()
    given = [np.ascontiguousarray(x, float) for x in inputs]
    results = [np.zeros(function.nnz_out(k)) for k in range(function.n_out())]
    for k, x in enumerate(given):
        buffer.set_arg(k, x.data)
    for k, y in enumerate(results):
        buffer.set_res(k, y.data)

    def run(count: int, keep: tuple[Any, ...] = (buffer, given, results)) -> None:  # what the buffer points to lives as long
        for _ in range(count):
            once()

    return run


# ------------------------------------------------------------------------------------------------ kernels
@njit(cache=True)
def _calls(count: int, address: int, handle: int, arg: Array, res: Array, iw: Array, w: Array) -> int:
    status = 0
    for _ in range(count):
        status |= call(address, handle, arg, res, iw, w)
    return status


def kernel_run(kernel: Kernel, inputs: Sequence[Array]) -> Run:
    """Calls of a kernel by address, its results written to arrays made once."""
    work = workspace(kernel)
    given = [np.ascontiguousarray(x, float) for x in inputs]
    results = [np.zeros(rows * columns) for rows, columns in kernel.output_shapes]
    work.arg[: len(given)] = [x.ctypes.data for x in given]
    work.res[: len(results)] = [x.ctypes.data for x in results]

    def run(count: int) -> None:
        # the arrays are named here so that they outlive the loop that knows their addresses only
        if _calls(count, work.address, work.handle, work.arg, work.res, work.iw, work.w) != 0 or not (given or results):
            raise RuntimeError(f"kernel {kernel.name} failed while it was timed")

    return run


# ------------------------------------------------------------------------------------------------ loops over the Model
def loop_run(model: Model, function: str, point: Mapping[str, Array]) -> Run:
    """Evaluations of a quantity's loop over the Model. point: its inputs by name."""
    tables, n = make_tables(model), model.nv
    start = tables.integers, tables.reals, tables.workspace()
    q, v, a, tau, lam, mu = (np.ascontiguousarray(point[name], float) for name in ("q", "v", "a", "tau", "lam", "mu"))
    none, zeros = np.zeros((0, 6)), np.zeros
    forward_room = zeros(n), zeros((3, n, n)), zeros(n), zeros((4, n, n)), zeros((4, n, n))
    known: dict[str, tuple[Any, ...]] = {
        "inverse_dynamics": (rnea.inverse_dynamics, q, v, a, none, zeros(n)),
        "forward_dynamics": (forward.forward_dynamics, q, v, tau, none, zeros(n)),
        "inverse_first": (first_order.inverse_dynamics_derivatives, q, v, a, none, zeros((3, n, n))),
        "forward_first": (forward.forward_dynamics_derivatives, q, v, tau, none, zeros(n), zeros((3, n, n))),
        "inverse_contracted": (second_order.contracted_second_order, q, v, a, lam, none, zeros((4, n, n)), True),
        "forward_contracted": (forward.forward_contracted_second_order, q, v, tau, mu, none, *forward_room),
        "inverse_second": (tensors.second_order, q, v, a, none, zeros(n), zeros((n, 4, n, n)), True),
        # there is no loop for the whole tensor: one contraction after the other
        "forward_second": (forward.forward_contracted_second_order, q, v, tau, mu, none, *forward_room),
    }
    loop, *arguments = known[function]
    calls = n if function == "forward_second" else 1
    loop(*start, *arguments)  # compiled for these
    found = loop.entry.overloads[tuple(map(typeof, (*start, *arguments)))]
    address = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
    return lambda count: _repeat(count * calls, address, (*start, *arguments))


@intrinsic
def _at_address(typing: Any, address: Any, arguments: Any) -> Any:
    """Call the compiled function at an address: its code is not compiled once more into the caller."""
    def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kinds = list(signature.args[1].types)
        kind = context.call_conv.get_function_type(types.none, kinds)
        callee = builder.inttoptr(given[0], kind.as_pointer())
        context.call_conv.call_function(builder, callee, types.none, kinds, cgutils.unpack_tuple(builder, given[1]))
        return context.get_dummy_value()

    return types.none(types.int64, arguments), build


@njit
def _repeat(count: int, address: int, arguments: Any) -> None:
    for _ in range(count):
        _at_address(address, arguments)
