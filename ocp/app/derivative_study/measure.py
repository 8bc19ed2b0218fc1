"""One quantity by one source: build it, evaluate it at random states, time it interpreted and compiled, within compiled loops."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from numba import njit, typeof, types
from numba.extending import intrinsic

import dynamics
from dynamics import algorithms as alg
from dynamics.derivatives.candidates import CONSTRAINED, KNOWN, Candidate, FixedMemory, constrained_mechanism, interpreted
from dynamics.errors import ModelError
from dynamics.kernels import Kernel, KernelError, compile_many, find_compiler, workspace
from dynamics.kernels.calls import call
from dynamics.kernels.insides import cgutils
from dynamics.kernels.size import operations
from dynamics.loops import first_order, forward, rnea, second_order, tensors
from dynamics.loops.tables import make_tables
from dynamics.model.model import Model
from ocp.interrupts import seconds_left

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
    memory = FixedMemory(function)
    for x, given in zip(memory.arguments, inputs, strict=True):
        x[:] = given

    def run(count: int) -> None:
        once = memory.run
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
def loop_run(candidate: Candidate, point: Mapping[str, Array]) -> Run:
    """Evaluations of a quantity's loop over the Model. point: its inputs by name."""
    function, n = candidate.quantity, candidate.model.nv
    tables = make_tables(constrained_mechanism(candidate.robot) if function in CONSTRAINED else candidate.model)
    start = tables.integers, tables.reals, tables.workspace()
    q, v, a, tau, lam, mu = (np.ascontiguousarray(point[name], float) for name in ("q", "v", "a", "tau", "lam", "mu"))
    none, zeros = np.zeros((0, 6)), np.zeros
    to = forward.Results(zeros(n), zeros((3, n, n)), zeros((4, n, n)), zeros(n), zeros((4, n, n)))
    known: dict[str, tuple[Any, ...]] = {
        "inverse_dynamics": (rnea.inverse_dynamics, q, v, a, none, zeros(n)),
        "forward_dynamics": (forward.forward_dynamics, q, v, tau, none, zeros(n)),
        "inverse_first": (first_order.inverse_dynamics_derivatives, q, v, a, none, zeros((3, n, n))),
        "forward_first": (forward.forward_dynamics_derivatives, q, v, tau, none, zeros(n), zeros((3, n, n))),
        "inverse_contracted": (second_order.contracted_second_order, q, v, a, lam, none, zeros((4, n, n)), True),
        "forward_contracted": (forward.forward_contracted_second_order, q, v, tau, mu, none, to),
        "inverse_second": (tensors.second_order, q, v, a, none, zeros(n), zeros((n, 4, n, n)), True),
        # there is no loop for the whole tensor: one contraction after the other
        "forward_second": (forward.forward_contracted_second_order, q, v, tau, mu, none, to),
    }
    known["forces"] = known["forward_dynamics"]  # they come with accelerations
    loop, *arguments = known[function.replace("constrained", "forward")]
    calls = n if function == "forward_second" else 1
    loop(*start, *arguments)  # compiled for these
    found = loop.entry.overloads[tuple(map(typeof, (*start, *arguments)))]
    address = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
    return lambda count: _repeat(count * calls, address, (*start, *arguments))


@intrinsic
def _at_address(typing: Any, address: Any, arguments: Any) -> Any:
    """Call the compiled function at an address: its code is not compiled once more into the caller."""
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = list(signature.args[1].types)
        kind = context.call_conv.get_function_type(types.none, kinds)
        callee = builder.inttoptr(arguments[0], kind.as_pointer())
        context.call_conv.call_function(builder, callee, types.none, kinds, cgutils.unpack_tuple(builder, arguments[1]))
        return context.get_dummy_value()

    return types.none(types.int64, arguments), build


@njit
def _repeat(count: int, address: int, arguments: Any) -> None:
    for _ in range(count):
        _at_address(address, arguments)


Point = Mapping[str, Array]  # q [nq]; v, a, tau, lam, mu [nv]; nu [rows of constraints]
Values = tuple[tuple[Array, ...], ...]  # by point, by output
FUNCTIONS: Mapping[str, str] = {name: quantity.title for name, quantity in KNOWN.items()}
#: label in tables, and one sentence, of each source
SOURCES: Mapping[str, tuple[str, str]] = {
    "ad_sx": ("AD in SX", "CasADi differentiates the scalar graph of the recursive algorithm."),
    "ad_mx": ("AD in MX", "CasADi differentiates calls of the recursive algorithm in a matrix graph."),
    "ad_of_analytic": ("AD of analytic", "CasADi differentiates the closed form of the first derivatives."),
    "analytic": ("analytic", "The closed form, written out as code for this robot."),
    "loop": ("loop", "The closed form as loops over the model: one machine code for all robots."),
    "complex_step": ("complex step", "Imaginary steps of 1e-30 through separate code: exact and slow."),
    "fd": ("differences", "Central differences: an approximation."),
}
MEASURED, SKIPPED, FAILED = "measured", "skipped", "failed"


@dataclass(frozen=True)
class Entry:
    """One function by one source. None: not measured; ``reason`` says why for skipped and failed entries, ``note`` for what was not
    compiled.

    error: largest of ``|x - reference| / max(1, |reference|)`` in the maximum norm, over outputs and points, and ``limit``, up to
    which it is what the source promises; of the reference itself its distance to the way ``against`` that confirms it. operations,
    nonzeros: of one evaluation, and entries of all outputs. Times: build_s, compile_s, and *_us of one evaluation.
    """

    function: str
    source: str
    status: str = MEASURED
    reason: str = ""
    error: float | None = None
    against: str = ""
    limit: float = 0.0
    operations: int | None = None
    nonzeros: int | None = None
    build_s: float | None = None
    compile_s: float | None = None
    interpreted_us: float | None = None
    compiled_us: float | None = None
    note: str = ""

    @property
    def label(self) -> str:
        """Display name of the source."""
        return SOURCES[self.source][0]

    @property
    def wrong(self) -> bool:
        """Failed, or its error is larger than the source promises."""
        return self.status == FAILED or (self.error is not None and not self.error <= self.limit)

    @property
    def idle(self) -> bool:
        """Left out for any robot: there is nothing to differentiate."""
        return self.status == SKIPPED and "nothing to differentiate" in self.reason


@dataclass(frozen=True)
class Measured:
    """An entry without its error, the numbers that the error is made of, and the structure of the outputs where it is known."""

    entry: Entry
    values: Values = ()
    sparsity: tuple[ca.Sparsity, ...] = ()


def distance(a: Values, b: Values) -> float:
    """Largest ``|a - b| / max(1, |b|)`` in the maximum norm, over points and outputs; infinite where one is not finite."""
    worst = 0.0
    for xs, ys in zip(a, b, strict=True):
        for x, y in zip(xs, ys, strict=True):
            if np.shape(x) != np.shape(y) or not (np.isfinite(x).all() and np.isfinite(y).all()):
                return float("inf")
            worst = max(worst, float(np.abs(x - y).max(initial=0.0) / max(1.0, np.abs(y).max(initial=0.0))))
    return worst


def draw(model: Model, count: int, seed: int, rows: int = 0) -> tuple[Point, ...]:
    """``count`` states: configurations within the joint limits, the rest standard normal. tau is made from a, not drawn, because
    random torques on light fingers would mean accelerations of no use."""
    rng, points = np.random.default_rng(seed), []
    inverse = dynamics.make(model, "inverse_dynamics")
    for _ in range(count):
        q = alg.random_configuration(model, rng)
        v, a, lam, mu = rng.standard_normal((4, model.nv))
        points.append({"q": q, "v": v, "a": a, "tau": np.array(inverse(q, v, a)).ravel(), "lam": lam, "mu": mu,
                       "nu": rng.standard_normal(rows)})
    return tuple(points)


def measure(candidate: Candidate, points: Sequence[Point], most: int | None, effort: Effort) -> Measured:
    """most: operations up to which code is compiled (0: never, None: any). Never raises but for an interrupt: what goes wrong is in
    the entry."""
    blank = Entry(candidate.quantity, candidate.source)
    if candidate.reason:
        return Measured(replace(blank, status=SKIPPED, reason=candidate.reason))
    inputs = [[point[name] for name in candidate.what.inputs] for point in points]
    try:
        if candidate.symbolic:
            return _function(blank, candidate, inputs, most, effort)
        begin = time.perf_counter()
        evaluate = candidate.evaluator()
        seconds = time.perf_counter() - begin
        # copies: a result may live in memory that the next evaluation reuses
        values = tuple(_shaped(candidate, [np.array(y) for y in evaluate(*x)]) for x in inputs)
        took = microseconds(loop_run(candidate, points[0]), effort)
        return Measured(replace(blank, build_s=seconds, nonzeros=sum(x.size for x in values[0]), compiled_us=took, compile_s=0.0),
                        values)
    except (ModelError, KernelError, RuntimeError, ValueError, MemoryError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Measured(replace(blank, status=FAILED, reason=lines[0] if lines else type(error).__name__))


def _function(blank: Entry, candidate: Candidate, inputs: Sequence[Sequence[Array]], most: int | None, effort: Effort) -> Measured:
    begin = time.perf_counter()
    function = candidate.build()
    seconds = time.perf_counter() - begin
    assert function is not None
    evaluate = interpreted(function)
    values = tuple(_shaped(candidate, evaluate(*x)) for x in inputs)
    sparsity = tuple(function.sparsity_out(k) for k in range(function.n_out()))
    entry = replace(blank, build_s=seconds, operations=operations(function), nonzeros=sum(s.nnz() for s in sparsity),
                    interpreted_us=microseconds(buffer_run(function, inputs[0]), effort))
    if most == 0:
        entry = replace(entry, note="not compiled: --compile no")
    elif most is not None and (entry.operations or 0) > most:
        entry = replace(entry, note=f"not compiled: more than {thousands(most)} operations, the limit")
    elif find_compiler() is None:
        entry = replace(entry, note="not compiled: no C compiler was found")
    else:
        entry = _compiled(entry, candidate, function, inputs[0], values[0], effort)
    return Measured(entry, values, sparsity)


def _compiled(entry: Entry, candidate: Candidate, function: ca.Function, inputs: Sequence[Array], expected: Sequence[Array],
              effort: Effort) -> Entry:
    kernel, = compile_many([function], mode="compiled", seconds_left=seconds_left)
    if kernel.mode != "compiled":  # the time was up
        return replace(entry, note="; ".join(kernel.notes))
    result = kernel(*inputs)
    found = _shaped(candidate, result if isinstance(result, tuple) else (result,))
    # the two run the same operations, so anything but rounding is a miscompilation
    gap = distance((found,), (tuple(expected),))
    if not gap < 1e-9:
        return replace(entry, status=FAILED, reason=f"compiled and interpreted code differ by {gap:.1e}")
    return replace(entry, compile_s=kernel.compile_seconds, compiled_us=microseconds(kernel_run(kernel, inputs), effort),
                   note="; ".join(kernel.notes))


def _shaped(candidate: Candidate, outputs: Sequence[Array]) -> tuple[Array, ...]:
    """Vectors at order 0, matrices otherwise, also where nv = 1 makes them look alike."""
    return tuple(np.reshape(y, candidate.what.shape(candidate.robot)) for y in outputs)


def thousands(value: int | None) -> str:
    """An integer with thin spaces between thousands."""
    return "" if value is None else f"{value:,}".replace(",", "\u202f")
