"""Names of functions and sources, and what is known of each pair: plain frozen data that every later step reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynamics.derivatives.candidates import QUANTITIES

EXACT = 1e-9  # largest error of a way that counts as exact
DIFFERENCES = 1e-3  # and of one that is an approximation by nature
APPROXIMATE = ("fd",)

FUNCTIONS: Mapping[str, str] = {name: quantity.title for name, quantity in QUANTITIES.items()}


@dataclass(frozen=True)
class Source:
    """label: for tables; meaning: one sentence; symbolic: it is a CasADi function, so that it can stand in a larger graph;
    ours: part of this package, so that it can be recommended."""

    label: str
    meaning: str
    symbolic: bool = True
    ours: bool = True


SOURCES: Mapping[str, Source] = {
    "ad_sx": Source("AD in SX", "CasADi differentiates the scalar graph of the recursive algorithm."),
    "ad_mx": Source("AD in MX", "CasADi differentiates calls of the recursive algorithm in a matrix graph."),
    "ad_of_analytic": Source("AD of analytic", "CasADi differentiates the closed form of the first derivatives."),
    "analytic": Source("analytic", "The closed form, written out as code for this robot."),
    "loop": Source("loop", "The closed form as loops over the model: one machine code for all robots.", symbolic=False),
    "complex_step": Source("complex step", "Imaginary steps of 1e-30 through separate code: exact and slow.", symbolic=False),
    "fd": Source("differences", "Central differences: an approximation.", symbolic=False),
    "pinocchio": Source("Pinocchio", "The C++ library, called from Python, reading the same URDF.", symbolic=False, ours=False),
}

MEASURED, SKIPPED, FAILED = "measured", "skipped", "failed"


@dataclass(frozen=True)
class Entry:
    """One function by one source. None: not measured; ``reason`` says why for skipped and failed entries, ``notes`` the rest.

    error: largest of ``|x - reference| / max(1, |reference|)`` in the maximum norm, over outputs and samples; for the reference
    itself its distance to the way that confirms it. limit: up to which the error is what the source promises. instructions: of
    the expression graph, inner functions included. nonzeros, size: structural entries of all outputs, and of the dense outputs.
    Times: build_s to the symbolic function or the tables, compile_s of the C compiler, *_us one evaluation, by what is in *_by.
    Bytes: work arrays, compiled library, result.
    """

    function: str
    source: str
    status: str = MEASURED
    reason: str = ""
    error: float | None = None
    against: str = ""
    limit: float = EXACT
    instructions: int | None = None
    nonzeros: int | None = None
    size: int | None = None
    build_s: float | None = None
    compile_s: float | None = None
    interpreted_us: float | None = None
    interpreted_by: str = ""
    compiled_us: float | None = None
    compiled_by: str = ""
    work_bytes: int | None = None
    library_bytes: int | None = None
    result_bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return SOURCES[self.source].label

    @property
    def right(self) -> bool | None:
        """Whether the error is what the source promises; None where there is no error to judge."""
        if self.error is None:
            return None
        return bool(self.error <= self.limit)


@dataclass(frozen=True)
class Reference:
    """What the errors of a function are measured against. distance: to the nearest other way, ``confirmed_by``; None when there
    is no other."""

    source: str
    confirmed_by: str = ""
    distance: float | None = None

    @property
    def sentence(self) -> str:
        label = SOURCES[self.source].label
        if self.distance is None:
            return f"{label}, confirmed by nothing else"
        return f"{label}, confirmed by {SOURCES[self.confirmed_by].label} to {self.distance:.1e}"


@dataclass(frozen=True)
class Pick:
    """A recommendation. execution: ``loop``, ``compiled`` or ``interpreted``; break_even: evaluations after which compiling has
    paid, None when nothing is compiled; in_graph: the best way inside a larger expression graph, in words."""

    function: str
    source: str
    execution: str
    microseconds: float
    why: str
    break_even: float | None = None
    in_graph: str = ""


@dataclass(frozen=True)
class Pattern:
    """Entries of one matrix [rows, columns]: 0 never, 1 allowed by the tree but zero at every sample, 2 not zero."""

    title: str
    marks: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Study:
    """Everything measured. robot: name, file, root, nq, nv, bodies, depth, mass; settings: what was asked for; complete: False
    after an interrupt; missing: (function, source) pairs that were not reached."""

    robot: Mapping[str, Any]
    settings: Mapping[str, Any]
    entries: tuple[Entry, ...]
    references: Mapping[str, Reference] = field(default_factory=dict)
    picks: tuple[Pick, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    complete: bool = True
    missing: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def of(self, function: str) -> tuple[Entry, ...]:
        return tuple(e for e in self.entries if e.function == function)

    @property
    def functions(self) -> tuple[str, ...]:
        """Those with at least one entry, in the order of FUNCTIONS."""
        found = {e.function for e in self.entries}
        return tuple(f for f in FUNCTIONS if f in found)

    @property
    def wrong(self) -> tuple[Entry, ...]:
        """Entries whose error is larger than their source promises, and those that failed."""
        return tuple(e for e in self.entries if e.status == FAILED or e.right is False)

    @property
    def ok(self) -> bool:
        return self.complete and not self.wrong and any(e.status == MEASURED for e in self.entries)
