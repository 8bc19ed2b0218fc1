"""How the benchmarks measure: batches that take turns, and our executions as things that can be repeated without Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit

import dynamics
from dynamics.kernels import Kernel, operations, workspace
from dynamics.kernels.calls import call
from dynamics.loops import LoopDynamics, first_order, forward, rnea, second_order, tensors
from dynamics.model.model import Model
from ocp.derivatives import LOOPS_FROM

BATCHES, SECONDS = 31, 0.01
Run = Callable[[int], Any]


def measure(*runs: Run) -> np.ndarray:
    """[runs, batches]: processor microseconds of one call of each run(count). Batches take turns, so that whatever else the
    machine does falls on all alike, and so that ratios may be taken batch by batch."""
    counts = []
    for run in runs:
        run(10)
        count, spent = 10, 0.0
        while spent < SECONDS / 2:
            count *= 2
            begin = time.thread_time()
            run(count)
            spent = time.thread_time() - begin
        counts.append(count)
    times = np.empty((len(runs), BATCHES))
    for batch in range(BATCHES):
        for i, (run, count) in enumerate(zip(runs, counts, strict=True)):
            begin = time.thread_time()
            run(count)
            times[i, batch] = (time.thread_time() - begin) / count * 1e6
    return times


def spread(times: np.ndarray) -> float:
    """Distance of the quartiles over the median."""
    low, middle, high = np.percentile(times, [25, 50, 75])
    return float((high - low) / middle)


def default_execution(model: Model) -> str:
    """What ``execution: auto`` takes for derivatives of a robot's forward dynamics inside solvers: "loops" or "kernel"."""
    return "loops" if operations(dynamics.make(model, "forward_dynamics")) >= LOOPS_FROM else "kernel"


def from_python(function: Callable[[], Any]) -> Run:
    def run(count: int) -> None:
        for _ in range(count):
            function()
    return run


def _repeated(function, inputs: str, flag: str = ""):
    """A compiled loop that calls ``function(integers, reals, work, <inputs><flag>)`` so many times."""
    space = {"f": function}
    exec(f"def loop(count, integers, reals, work, {inputs}):\n    for _ in range(count):\n"
         f"        f(integers, reals, work, {inputs}{flag})\n", space)
    return njit(space["loop"])


_LOOPS = {
    "RNEA": _repeated(rnea.inverse_dynamics, "q, v, a, none, tau"),
    "CRBA": _repeated(first_order.mass_matrix, "q, M"),
    "forward dynamics": _repeated(forward.forward_dynamics, "q, v, tau_in, none, acc"),
    "ID first order": _repeated(first_order.inverse_dynamics_derivatives, "q, v, a, none, first"),
    "FD first order": _repeated(forward.forward_dynamics_derivatives, "q, v, tau_in, none, acc, first"),
    "ID contracted second order": _repeated(second_order.contracted_second_order, "q, v, a, lam, none, second", ", True"),
    "ID second-order tensors": _repeated(tensors.second_order, "q, v, a, none, unit, tensor", ", True"),
    "FD contracted second order": _repeated(forward.forward_contracted_second_order,
                                            "q, v, tau_in, lam, none, to"),
}


def loop_runs(face: LoopDynamics, q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray, lam: np.ndarray) -> dict[str, Run]:
    """Title -> run(count) for our loops over the Model, called from a compiled loop as solvers call them."""
    n = face.tables.nv
    start = face.tables.integers, face.tables.reals, face.tables.workspace()
    none = np.zeros((0, 6))
    arguments = {
        "RNEA": (q, v, a, none, np.zeros(n)), "CRBA": (q, np.zeros((n, n))),
        "forward dynamics": (q, v, tau, none, np.zeros(n)), "ID first order": (q, v, a, none, np.zeros((3, n, n))),
        "FD first order": (q, v, tau, none, np.zeros(n), np.zeros((3, n, n))),
        "ID contracted second order": (q, v, a, lam, none, np.zeros((4, n, n))),
        "ID second-order tensors": (q, v, a, none, np.zeros(n), np.zeros((n, 4, n, n))),
        "FD contracted second order": (q, v, tau, lam, none, forward.Results(
            np.zeros(n), np.zeros((3, n, n)), np.zeros((4, n, n)), np.zeros(n), np.zeros((4, n, n))))}
    return {title: (lambda count, f=loop, x=arguments[title]: f(count, *start, *x)) for title, loop in _LOOPS.items()}


@njit
def _by_address(address, handle, arg, res, iw, w, count):
    for _ in range(count):
        call(address, handle, arg, res, iw, w)


def kernel_run(kernel: Kernel, inputs: Sequence[np.ndarray]) -> Run:
    """run(count) for a kernel called by its address from a compiled loop, as the solvers call it."""
    space = workspace(kernel)
    arrays = [np.ascontiguousarray(x, float) for x in inputs]
    outputs = [np.zeros(max(1, rows * columns)) for rows, columns in kernel.output_shapes]
    space.arg[: len(arrays)] = [a.ctypes.data for a in arrays]
    space.res[: len(outputs)] = [o.ctypes.data for o in outputs]

    def run(count: int, _alive=(arrays, outputs)) -> None:
        _by_address(space.address, space.handle, space.arg, space.res, space.iw, space.w, count)
    return run
