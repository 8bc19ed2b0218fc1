"""Outcome of a comparison of derivatives: plain data, nothing computed here."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np


class Kind(enum.Enum):
    """What is the matter with an entry.

    DISAGREEMENT: two methods give different numbers for a smooth function: one of them is wrong
    NON_FINITE: the function has a value but a derivative is NaN or infinite
    UNDEFINED: the function itself is NaN or infinite at the point
    KINK: derivatives from the left and from the right differ, so neither is right
    JUMP: the differentiated function is discontinuous
    """

    DISAGREEMENT = "disagreement"
    NON_FINITE = "derivative not finite"
    UNDEFINED = "value not finite"
    KINK = "kink"
    JUMP = "jump"


@dataclass(frozen=True)
class Number:
    """The value that one method gives, and its error bar (None: exact up to rounding)."""

    method: str
    value: float
    error: float | None = None


@dataclass(frozen=True)
class Point:
    """A point of a phase: t [s], x [nx], u [nu], p [np]. ``label`` says how it was made; guess: on the initial guess."""

    label: str
    guess: bool
    t: float
    x: np.ndarray
    u: np.ndarray
    p: np.ndarray
    values: Mapping[str, float]  # by name, in the order x, u, p, t


@dataclass(frozen=True)
class Finding:
    """An entry of a derivative that is not as it should be.

    order: 1, or 2 for an entry of a Hessian; by: the one or two variables, tangent names of states
    numbers: what each method gives, for kinks the derivatives from both sides too
    size: by how much, relative to the scale of the derivative; points: at how many points; ``point`` is the worst of them
    """

    kind: Kind
    order: int
    phase: str
    term: str
    location: str | None
    component: str
    by: tuple[str, ...]
    point: Point
    numbers: tuple[Number, ...]
    size: float
    points: int = 1

    @property
    def fails(self) -> bool:
        """Kinks and jumps belong to the problem; undefined values count only where the solver starts."""
        if self.kind is Kind.UNDEFINED:
            return self.point.guess
        return self.kind in (Kind.DISAGREEMENT, Kind.NON_FINITE)


@dataclass(frozen=True)
class Method:
    """A way to the derivatives of a term; ``note`` says why it is not available."""

    name: str
    available: bool
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """A disagreement at row i and column j; size: by how much, relative to the scale of the matrix."""

    kind: Kind
    i: int
    j: int
    numbers: tuple[Number, ...]
    size: float


@dataclass(frozen=True)
class Order:
    """Comparison of the derivatives of one order of a term, at a point or at all of them.

    entries: how many were compared; difference: largest difference between exact methods, relative to the scale of the
    derivatives; error_bound: largest error bound of finite differences, relative likewise; unresolved: entries where finite
    differences are too uncertain (bound above a thousandth of the scale) to say anything; wrong: at a point; methods: of all.
    """

    entries: int = 0
    difference: float = 0.0
    error_bound: float = 0.0
    unresolved: int = 0
    wrong: tuple[Entry, ...] = ()
    methods: tuple[Method, ...] = ()

    def joined(self, other: Order) -> Order:
        """The two together, with the methods of the first."""
        return replace(self, entries=self.entries + other.entries, difference=max(self.difference, other.difference),
                       error_bound=max(self.error_bound, other.error_bound), unresolved=self.unresolved + other.unresolved)


@dataclass(frozen=True)
class TermCheck:
    """One term of the problem; kind: "rate", "energy", "power", "running cost", "final constraint", ...; size of its output."""

    phase: str
    kind: str
    name: str
    location: str | None
    size: int
    first: Order
    second: Order | None
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding fails."""
        return not any(f.fails for f in self.findings)


@dataclass(frozen=True)
class DerivativeCheck:
    """The comparison of all terms of a problem. seed, points: how the points were drawn (points per phase)."""

    problem: str
    seed: int
    points: int
    terms: tuple[TermCheck, ...]
    remarks: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every term agrees with its reference."""
        return all(term.ok for term in self.terms)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all terms."""
        return tuple(f for term in self.terms for f in term.findings)
