"""Time per call, measured inside compiled loops: neither Python nor its argument conversion is in the figure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numba import njit

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

    batches: int = 15
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
    known: dict[str, Callable[[], tuple[Any, ...]]] = {
        "inverse_dynamics": lambda: (inverse_dynamics, q, v, a, none, zeros(n)),
        "forward_dynamics": lambda: (forward_dynamics, q, v, tau, none, zeros(n)),
        "inverse_first": lambda: (inverse_first, q, v, a, none, zeros((3, n, n))),
        "forward_first": lambda: (forward_first, q, v, tau, none, zeros(n), zeros((3, n, n))),
        "inverse_contracted": lambda: (inverse_contracted, q, v, a, lam, none, zeros((4, n, n))),
        "forward_contracted": lambda: (forward_contracted, q, v, tau, mu, none, zeros(n), zeros((3, n, n)), zeros(n),
                                       zeros((4, n, n)), zeros((4, n, n))),
        "inverse_second": lambda: (inverse_second, q, v, a, none, zeros(n), zeros((n, 4, n, n))),
        "forward_second": lambda: (forward_second, q, v, tau, np.eye(n), none, zeros(n), zeros((3, n, n)), zeros(n),
                                   zeros((4, n, n)), zeros((n, 4, n, n))),
    }
    loop, *arrays = known[function]()
    return lambda count: loop(count, *start, *arrays)


@njit(cache=True)
def inverse_dynamics(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, a: Array, f: Array, tau: Array) -> None:
    for _ in range(count):
        rnea.inverse_dynamics(t, r, w, q, v, a, f, tau)


@njit(cache=True)
def forward_dynamics(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, tau: Array, f: Array, a: Array) -> None:
    for _ in range(count):
        forward.forward_dynamics(t, r, w, q, v, tau, f, a)


@njit(cache=True)
def inverse_first(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, a: Array, f: Array, out: Array) -> None:
    for _ in range(count):
        first_order.inverse_dynamics_derivatives(t, r, w, q, v, a, f, out)


@njit(cache=True)
def forward_first(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, tau: Array, f: Array, a: Array,
                  out: Array) -> None:
    for _ in range(count):
        forward.forward_dynamics_derivatives(t, r, w, q, v, tau, f, a, out)


@njit(cache=True)
def inverse_contracted(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, a: Array, lam: Array, f: Array,
                       out: Array) -> None:
    for _ in range(count):
        second_order.contracted_second_order(t, r, w, q, v, a, lam, f, out, True)


@njit(cache=True)
def inverse_second(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, a: Array, f: Array, unit: Array,
                   out: Array) -> None:
    for _ in range(count):
        tensors.second_order(t, r, w, q, v, a, f, unit, out, True)


@njit(cache=True)
def forward_contracted(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, tau: Array, mu: Array, f: Array, a: Array,
                       first: Array, lam: Array, inverse: Array, out: Array) -> None:
    for _ in range(count):
        forward.forward_contracted_second_order(t, r, w, q, v, tau, mu, f, a, first, lam, inverse, out)


@njit(cache=True)
def forward_second(count: int, t: Array, r: Array, w: Array, q: Array, v: Array, tau: Array, unit: Array, f: Array, a: Array,
                   first: Array, lam: Array, inverse: Array, out: Array) -> None:
    for _ in range(count):
        for k in range(len(unit)):  # there is no loop for the whole tensor: one contraction after the other
            forward.forward_contracted_second_order(t, r, w, q, v, tau, unit[k], f, a, first, lam, inverse, out[k])
