"""One quantity by one source: build it, evaluate it at random states, time it interpreted and compiled."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

import dynamics
from dynamics import algorithms as alg
from dynamics.derivatives.candidates import QUANTITIES, Candidate, interpreted
from dynamics.errors import ModelError
from dynamics.kernels import KernelError, compile_many, find_compiler
from dynamics.kernels.size import operations
from dynamics.model.model import Model
from ocp.app.derivative_study.stopwatch import Effort, buffer_run, kernel_run, loop_run, microseconds
from ocp.interrupts import seconds_left

Array = np.ndarray
Point = Mapping[str, Array]  # q [nq]; v, a, tau, lam, mu [nv]
Values = tuple[tuple[Array, ...], ...]  # by point, by output
FUNCTIONS: Mapping[str, str] = {name: quantity.title for name, quantity in QUANTITIES.items()}
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


def draw(model: Model, count: int, seed: int) -> tuple[Point, ...]:
    """``count`` states: configurations within the joint limits, the rest standard normal. tau is made from a, not drawn, because
    random torques on light fingers would mean accelerations of no use."""
    rng, points = np.random.default_rng(seed), []
    inverse = dynamics.make(model, "inverse_dynamics")
    for _ in range(count):
        q = alg.random_configuration(model, rng)
        v, a, lam, mu = rng.standard_normal((4, model.nv))
        points.append({"q": q, "v": v, "a": a, "tau": np.array(inverse(q, v, a)).ravel(), "lam": lam, "mu": mu})
    return tuple(points)


def measure(candidate: Candidate, points: Sequence[Point], most: int | None, effort: Effort) -> Measured:
    """most: operations up to which code is compiled (0: never, None: any). Never raises but for an interrupt: what goes wrong is in
    the entry."""
    blank = Entry(candidate.quantity, candidate.source)
    if candidate.reason:
        return Measured(replace(blank, status=SKIPPED, reason=candidate.reason))
    inputs = [[point[name] for name in QUANTITIES[candidate.quantity].inputs] for point in points]
    try:
        if candidate.symbolic:
            return _function(blank, candidate, inputs, most, effort)
        begin = time.perf_counter()
        evaluate = candidate.evaluator()
        seconds = time.perf_counter() - begin
        # copies: a result may live in memory that the next evaluation reuses
        values = tuple(_shaped(candidate, [np.array(y) for y in evaluate(*x)]) for x in inputs)
        took = microseconds(loop_run(candidate.model, candidate.quantity, points[0]), effort)
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
        entry = replace(entry, note="not compiled: there is no C compiler")
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
    gap = max(float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))
              for a, b in zip(found, expected, strict=True))
    if not gap < 1e-9:
        return replace(entry, status=FAILED, reason=f"compiled and interpreted code differ by {gap:.1e}")
    return replace(entry, compile_s=kernel.compile_seconds, compiled_us=microseconds(kernel_run(kernel, inputs), effort),
                   note="; ".join(kernel.notes))


def _shaped(candidate: Candidate, outputs: Sequence[Array]) -> tuple[Array, ...]:
    """Vectors [nv] at order 0, matrices otherwise, also where nv = 1 makes them look alike."""
    n, what = candidate.model.nv, QUANTITIES[candidate.quantity]
    shape = (n,) if what.order == 0 else (n, n * n) if what.tensor else (n, n)
    return tuple(np.reshape(y, shape) for y in outputs)


def thousands(value: int | None) -> str:
    return "" if value is None else f"{value:,}".replace(",", "\u202f")
