"""One function by one source: build it, evaluate it at the samples, time it interpreted and compiled."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynamics.derivatives.candidates import QUANTITIES, Candidate
from dynamics.errors import ModelError
from dynamics.kernels import KernelError, compile_kernel, find_compiler
from ocp.app.derivatives.builder import Builder, TooLarge, thousands
from ocp.app.derivatives.counting import count
from ocp.app.derivatives.peer import Peer, obstacle
from ocp.app.derivatives.points import Point
from ocp.app.derivatives.records import FAILED, SKIPPED, Entry
from ocp.app.derivatives.stopwatch import Effort, Run, from_python, kernel_run, microseconds

Array = np.ndarray
Values = tuple[tuple[Array, ...], ...]  # by sample, by output
POINTER = ctypes.sizeof(ctypes.c_void_p)


@dataclass(frozen=True)
class Measured:
    """An entry without its error, the numbers that the error is made of, and the structural patterns of the outputs."""

    entry: Entry
    values: Values = ()
    sparsity: tuple[ca.Sparsity, ...] = ()


def measure(candidate: Candidate, points: Sequence[Point], builder: Builder, compiling: str, effort: Effort) -> Measured:
    """compiling: ``auto`` (up to the builder's limit), ``yes`` or ``no``. Never raises but for an interrupt: what goes wrong is in
    the entry."""
    blank = Entry(candidate.quantity, candidate.source)
    if candidate.reason:
        return Measured(replace(blank, status=SKIPPED, reason=candidate.reason))
    try:
        if candidate.symbolic:
            return _function(blank, candidate, points, builder, compiling, effort)
        return _loop(blank, candidate, points, effort)
    except TooLarge as given_up:
        return Measured(replace(blank, status=SKIPPED, reason=str(given_up)))
    except (ModelError, KernelError, RuntimeError, ValueError, MemoryError) as error:
        return Measured(replace(blank, status=FAILED, reason=_first_line(error)))


def measure_peer(peer: Peer | None, why_not: str, function: str, points: Sequence[Point], effort: Effort) -> Measured:
    """The same for Pinocchio."""
    blank = Entry(function, "pinocchio")
    reason = why_not if peer is None else obstacle(peer, function)
    if peer is None or reason:
        return Measured(replace(blank, status=SKIPPED, reason=reason))
    try:
        values = tuple(peer.values(function, p) for p in points)
        took = peer.time(function, points[0], effort)
    except (RuntimeError, ValueError) as error:
        return Measured(replace(blank, status=FAILED, reason=_first_line(error)))
    size = sum(x.size for x in values[0])
    return Measured(replace(blank, size=size, nonzeros=size, result_bytes=8 * size, compiled_us=took,
                            compiled_by="C++ from Python"), values)


# ------------------------------------------------------------------------------------------------ symbolic ways
def _function(blank: Entry, candidate: Candidate, points: Sequence[Point], builder: Builder, compiling: str,
              effort: Effort) -> Measured:
    function, seconds = builder.build(candidate)
    names, size = QUANTITIES[candidate.quantity].inputs, count(function)
    sparsity = tuple(function.sparsity_out(k) for k in range(function.n_out()))
    run, results = _interpreter(function, points[0].values(names))
    entry = replace(
        blank, build_s=seconds, instructions=size.executed, nonzeros=sum(s.nnz() for s in sparsity),
        size=sum(s.numel() for s in sparsity), work_bytes=_work(function), result_bytes=8 * sum(s.nnz() for s in sparsity),
        interpreted_us=microseconds(run, effort), interpreted_by="CasADi")
    # after the timing, for the loop writes to the arrays
    values = tuple(_shaped(candidate, _evaluate(function, p.values(names))) for p in points)
    limit = None if compiling == "yes" else builder.limits.compile_instructions
    if compiling == "no":
        note = "not compiled: --compile no"
    elif limit is not None and size.distinct > limit:
        note = f"not compiled: more than {thousands(limit)} instructions, the limit"
    elif find_compiler() is None:
        note = "not compiled: there is no C compiler"
    else:
        return Measured(_compiled(entry, function, points[0].values(names), values[0], effort), values, sparsity)
    return Measured(replace(entry, notes=(note,)), values, sparsity)


def _compiled(entry: Entry, function: ca.Function, inputs: Sequence[Array], expected: Sequence[Array], effort: Effort) -> Entry:
    packed = _packed(function)
    try:
        kernel = compile_kernel(packed, mode="compiled")
    except KernelError as error:
        return replace(entry, notes=(f"not compiled: {_first_line(error)}",))
    result = kernel(*inputs)
    outputs = [np.ravel(y, order="F") for y in (result if isinstance(result, tuple) else (result,))]
    stored = [x[_places(function.sparsity_out(k))] if x.ndim == 2 else x for k, x in enumerate(expected)]
    # the two run the same operations, so anything but rounding is a miscompilation
    gap = max((float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))
               for a, b in zip(outputs, stored, strict=True)), default=0.0)
    notes = kernel.notes if gap < 1e-9 else (*kernel.notes, f"compiled and interpreted code differ by {gap:.1e}")
    if not gap < 1e-9:
        return replace(entry, status=FAILED, reason=notes[-1], notes=notes)
    library = kernel.library.stat().st_size if kernel.library is not None else None
    return replace(entry, compile_s=kernel.compile_seconds, compiled_us=microseconds(kernel_run(kernel, inputs), effort),
                   compiled_by="C", library_bytes=library, notes=notes)


def _packed(function: ca.Function) -> ca.Function:
    """The function with each output as the column of its stored entries: kernels would fill in the zeros, here they cost time."""
    if all(function.sparsity_out(k).is_dense() for k in range(function.n_out())):
        return function
    kind = ca.SX if function.is_a("SXFunction") else ca.MX
    inputs = [kind.sym(function.name_in(k), *function.size_in(k)) for k in range(function.n_in())]
    outputs = [y.nz[:] for y in function.call(inputs, True, False)]
    return ca.Function(function.name(), inputs, outputs, function.name_in(), function.name_out())


def _interpreter(function: ca.Function, inputs: Sequence[Array]) -> tuple[Run, list[Array]]:
    """Evaluations by CasADi's interpreter on fixed memory, and the stored entries of the outputs."""
    buffer, trigger = function.buffer()
    given: list[Any] = [np.array(x, float) for x in inputs]
    results: list[Any] = [np.zeros(max(1, function.nnz_out(k))) for k in range(function.n_out())]
    for k, x in enumerate(given):
        buffer.set_arg(k, memoryview(x))
    for k, y in enumerate(results):
        buffer.set_res(k, memoryview(y))
    repeat = from_python(trigger)

    def run(times: int) -> None:
        # names keep the memory alive that the buffer points to
        assert buffer is not None
        assert len(given) == function.n_in()
        repeat(times)

    return run, results


def _evaluate(function: ca.Function, inputs: Sequence[Array]) -> tuple[Array, ...]:
    outputs = function.call([ca.DM(x) for x in inputs])
    return tuple(np.array(ca.DM(y).full()) for y in outputs)


def _shaped(candidate: Candidate, outputs: Sequence[Array]) -> tuple[Array, ...]:
    """Vectors [nv] at order 0, matrices otherwise, also where nv = 1 makes them look alike."""
    n, what = candidate.model.nv, QUANTITIES[candidate.quantity]
    shape = (n,) if what.order == 0 else (n, n * n) if what.tensor else (n, n)
    return tuple(np.reshape(y, shape) for y in outputs)


def _places(sparsity: ca.Sparsity) -> tuple[Array, Array]:
    rows, columns = sparsity.get_triplet()
    return np.array(rows, int), np.array(columns, int)


def _work(function: ca.Function) -> int:
    return int(8 * (function.sz_w() + function.sz_iw()) + POINTER * (function.sz_arg() + function.sz_res()))


# ------------------------------------------------------------------------------------------------ loops over the Model
def _loop(blank: Entry, candidate: Candidate, points: Sequence[Point], effort: Effort) -> Measured:
    from ocp.app.derivatives.loops import loop_run

    names = QUANTITIES[candidate.quantity].inputs
    begin = time.perf_counter()
    evaluate = candidate.evaluator()
    seconds = time.perf_counter() - begin
    # copies: a result may live in memory that the next evaluation reuses
    values = tuple(_shaped(candidate, [np.array(y) for y in evaluate(*p.values(names))]) for p in points)
    run, work, result = loop_run(candidate.model, candidate.quantity, points[0])
    size = sum(x.size for x in values[0])
    return Measured(replace(blank, build_s=seconds, size=size, nonzeros=size, work_bytes=work, result_bytes=result,
                            compiled_us=microseconds(run, effort), compiled_by="Numba", compile_s=0.0), values)


def _first_line(error: Exception) -> Any:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
