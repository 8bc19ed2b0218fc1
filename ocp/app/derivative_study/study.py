"""All functions by all sources, one after the other; an interrupt keeps what is there."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

import dynamics
from dynamics.derivatives.candidates import QUANTITIES, candidate
from dynamics.errors import near
from dynamics.kernels import find_compiler
from dynamics.model.model import Model
from ocp.app.derivative_study.judge import EXACT, Pick, Reference, judge, recommend
from ocp.app.derivative_study.measure import FUNCTIONS, MEASURED, QUICK, SOURCES, Effort, Entry, Measured, Point, draw, measure
from ocp.app.derivative_study.target import Target
from ocp.app.prepare import beside
from ocp.errors import ProblemError
from ocp.interrupts import Activity, Stopped, check, seconds_left

COMPILE = ("auto", "yes", "no")
AFFORDABLE, QUICKLY = 21_000, 10_000  # operations up to which code is compiled
LOOP = "loop"
#: seconds between two looks at the limit, and what a process may take to end its compiler
POLL_S, ENDING_S = 0.05, 0.3
Progress = Callable[[int, int, Entry], None]  # done, total, what was measured last


@dataclass(frozen=True)
class Settings:
    """Settings of a study. functions, sources: names, all of them if empty; compiling: ``auto``, ``yes``, ``no``; samples: random
    states at which errors are taken; quick: short timings, little compiled. Raises ProblemError, with what is near."""

    functions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    compiling: str = "auto"
    seed: int = 0
    samples: int = 3
    quick: bool = False

    def __post_init__(self) -> None:
        for option, given, known in (("--functions", self.functions, FUNCTIONS), ("--sources", self.sources, SOURCES)):
            for name in given:
                if name not in known:
                    raise ProblemError(f"no {option[2:-1]} named {name!r}{near(name, known)}", where=option)
        if self.compiling not in COMPILE:
            raise ProblemError(f"no such choice{near(self.compiling, COMPILE)}", where=f"--compile {self.compiling}")
        if self.compiling == "yes" and find_compiler() is None:
            raise ProblemError("no C compiler was found; see ocp doctor", where="--compile yes")
        if self.samples < 1:
            raise ProblemError(f"must be at least 1, got {self.samples}", where="--samples")
        if self.seed < 0:
            raise ProblemError(f"must be at least 0, got {self.seed}", where="--seed")

    @property
    def most(self) -> int | None:
        """Operations up to which code is compiled; None: any."""
        return {"yes": None, "no": 0}.get(self.compiling, QUICKLY if self.quick else AFFORDABLE)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of a function and a source to measure."""
        return [(f, s) for f in self.functions or FUNCTIONS for s in self.sources or SOURCES]


@dataclass(frozen=True)
class Pattern:
    """Entries of one matrix [rows, columns]: 0 never, 1 allowed by the tree but zero at every sample, 2 not zero."""

    title: str
    marks: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """Everything measured. robot: facts by name; complete: False after an interrupt; missing: (function, source) not reached."""

    robot: Mapping[str, Any]
    settings: Settings
    entries: tuple[Entry, ...] = ()
    references: Mapping[str, Reference] = field(default_factory=dict)
    picks: tuple[Pick, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def of(self, function: str) -> tuple[Entry, ...]:
        """Entries of a function."""
        return tuple(e for e in self.entries if e.function == function)

    @property
    def functions(self) -> tuple[str, ...]:
        """Functions that were measured."""
        return tuple(dict.fromkeys(e.function for e in self.entries))

    @property
    def wrong(self) -> tuple[Entry, ...]:
        """Entries that disagree with the reference."""
        return tuple(e for e in self.entries if e.wrong)

    @property
    def ok(self) -> bool:
        """Whether every entry was measured and agrees with its reference."""
        return not self.missing and not self.wrong and any(e.status == MEASURED for e in self.entries)

    def execution(self, e: Entry) -> str:
        """How the way of this entry is to be run where it is recommended, else nothing."""
        return next((p.execution for p in self.picks if (p.function, p.source) == (e.function, e.source)), "")


def run_study(target: Target, settings: Settings, progress: Progress | None = None) -> Study:
    """Measure everything that ``settings`` ask for. An interrupt (KeyboardInterrupt) ends the work, not the study: what is
    measured is judged and returned, with the rest in ``missing``."""
    begin, model, pairs = time.perf_counter(), target.model, settings.pairs
    measured: dict[tuple[str, str], Measured] = {}
    points: tuple[Point, ...] = ()
    # loops last, the largest first: another process compiles them meanwhile, the smallest first
    loops = [pair for pair in pairs if pair[1] == LOOP]
    turn = [*(pair for pair in pairs if pair[1] != LOOP), *loops[::-1]]
    try:
        points = draw(model, settings.samples, settings.seed)
        ways = (measure(candidate(model, function, source), points, settings.most, QUICK if settings.quick else Effort())
                for function, source in turn)
        with beside("derivatives in loops") if loops else nullcontext(), closing(_within_limit(ways)) as results:
            check(Activity.MEASUREMENT)
            for found in results:
                measured[found.entry.function, found.entry.source] = found
                if progress is not None:
                    progress(len(measured), len(pairs), found.entry)
                if len(measured) < len(pairs):
                    check(Activity.MEASUREMENT)
    except KeyboardInterrupt:
        pass
    measured = {pair: measured[pair] for pair in pairs if pair in measured}
    # M amplifies rounding: accelerations of light fingers have fewer digits than the numbers they are made of
    condition = conditioning(model, points)
    rounding = 10.0 * float(np.finfo(float).eps) * condition
    entries: list[Entry] = []
    references, picks, drawn = {}, [], []
    for function in dict.fromkeys(f for f, _ in measured):
        own = {s: m for (f, s), m in measured.items() if f == function}
        rough = not QUANTITIES[function].inverse and np.isfinite(rounding)
        judged, reference = judge(list(own.values()), max(EXACT, rounding) if rough else EXACT)
        entries += judged
        if reference is not None:
            references[function] = reference
        if (pick := recommend(function, judged)) is not None:
            picks.append(pick)
        drawn += patterns(model, function, own)
    return Study(describe(target) | {"condition": condition}, settings, tuple(entries), references, tuple(picks), tuple(drawn),
                 tuple(p for p in pairs if p not in measured), model.notes, time.perf_counter() - begin)


def _within_limit(measurements: Iterator[Measured]) -> Generator[Measured, None, None]:
    """The measurements; under a limit of time in a child process, which is killed when the time is up: CasADi takes seconds for
    large graphs, and its calls cannot be left before they return. Raises Stopped."""
    if seconds_left() == float("inf") or not hasattr(os, "fork"):
        yield from measurements
        return
    receiving, sending = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        with suppress(KeyboardInterrupt):
            for found in measurements:
                sending.send(found)

    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    sending.close()
    try:
        while True:
            while not receiving.poll(POLL_S):
                if seconds_left() <= 0.0:
                    raise Stopped(Activity.MEASUREMENT)
            yield receiving.recv()
    except EOFError:  # all was sent, or the child was interrupted
        process.join()
        if process.exitcode:
            raise RuntimeError(f"the process that measures ended with code {process.exitcode}") from None
    finally:
        process.join(ENDING_S)
        process.kill()
        process.join()


def conditioning(model: Model, points: Sequence[Point]) -> float:
    """Largest condition number of the mass matrix at the points; 1 for a robot that cannot move."""
    mass = dynamics.make(model, "mass_matrix")
    return max((float(np.linalg.cond(np.array(mass(p["q"])))) for p in points), default=1.0) if model.nv else 1.0


def describe(target: Target) -> dict[str, Any]:
    """The robot in numbers. depth: degrees of freedom on the longest way to the root."""
    model = target.model
    ways: list[int] = []
    for i, body in enumerate(model.bodies):
        own = 0 if body.joint.mimic is not None else model.kind(i).nv
        ways.append((ways[body.parent] if body.parent >= 0 else 0) + own)
    return {"name": target.name, "model": model.name, "from": target.what, "root": target.root, "nq": model.nq, "nv": model.nv,
            "bodies": len(model.bodies), "depth": max(ways, default=0), "mass": model.mass}


def settings_record(settings: Settings) -> dict[str, Any]:
    """Settings with defaults filled in."""
    return asdict(replace(settings, functions=settings.functions or tuple(FUNCTIONS), sources=settings.sources or tuple(SOURCES)))


def chosen(options: Sequence[str] | None) -> tuple[str, ...]:
    """Names as the command line takes them: an option given several times, or one list with commas; each once."""
    return tuple(dict.fromkeys(name.strip() for word in options or () for name in word.split(",") if name.strip()))


# ------------------------------------------------------------------------------------------------ structure
ZERO = 1e-14  # of the largest entry: rounding, not motion
FIRST = {"inverse_first": ("∂τ/∂q", "∂τ/∂v", "∂τ/∂a = M"), "forward_first": ("∂a/∂q", "∂a/∂v", "∂a/∂τ = M⁻¹")}
HESSIANS = {"inverse_contracted": ("Hessian of λᵀτ by (q, v, a)", "a"), "forward_contracted": ("Hessian of μᵀa by (q, v, τ)", "τ")}


def patterns(model: Model, function: str, measured: Mapping[str, Measured]) -> list[Pattern]:
    """Which entries of one function can be other than zero: from the closed form, where it was built, else from any numbers."""
    m = measured.get("analytic")
    if m is None or not m.sparsity:
        m = next((x for x in measured.values() if x.values and x.entry.source != "fd"), None)
    if m is None or function not in (*FIRST, *HESSIANS) or not model.nv:
        return []
    marks, names = [_marks(m, k) for k in range(len(m.values[0]))], model.velocity_names
    if function in FIRST:
        return [Pattern(title, marks[k], names) for k, title in enumerate(FIRST[function])]
    title, last = HESSIANS[function]
    qq, qv, vv, qw = marks
    none = np.zeros_like(qq)
    return [Pattern(title, np.block([[qq, qv, qw], [qv.T, vv, none], [qw.T, none, none]]),
                    tuple(f"{letter}: {name}" for letter in ("q", "v", last) for name in names))]


def _marks(m: Measured, output: int) -> np.ndarray:
    """0, 1 or 2 by entry, as in ``Pattern``."""
    values = np.array([sample[output] for sample in m.values])
    live = (np.abs(values) > ZERO * max(1.0, float(np.abs(values).max(initial=0.0)))).any(axis=0)
    allowed = np.zeros(values.shape[1:], bool)
    if m.sparsity:
        rows, columns = m.sparsity[output].get_triplet()
        allowed[np.array(rows, int), np.array(columns, int)] = True
    return np.where(live, 2, np.where(allowed, 1, 0))
