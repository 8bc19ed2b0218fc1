"""Levels of a hierarchy and what becomes of them: data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocp.errors import ProblemError

Array = NDArray[np.float64]
Side = NDArray[np.int8]
_BY = ("none", "last active set", "", "descent")  # as `ocp.solvers.lexicographic` counts; in between, the engine


class HQPStatus(Enum):
    """How a solve ended; the value is the sentence for people."""

    SOLVED = "every level is optimal, given those above"
    FAILED = "no active set of a level closes; there is no answer"


@dataclass(frozen=True, eq=False)
class Level:
    """One priority: A x = b [rows] and lower <= D x <= f [limits], in the sense of least weighted squares.

    weights [rows + limits], positive, of each squared residual and slack. lower: -inf by default. limits: names of the rows of D.
    Raises ProblemError for wrong sizes, entries that are not finite (f: +inf and lower: -inf are allowed), lower > f, no tasks.
    """

    name: str
    A: Any = None
    b: Any = None
    D: Any = None
    f: Any = None
    lower: Any = None
    weights: Any = None
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"level {self.name!r}"
        if self.A is None and self.D is None:
            raise ProblemError("is empty: neither A nor D is given", where=where)
        n = np.shape(self.A if self.A is not None else self.D)[-1]
        A, b = _rows(self.A, self.b, n, "A", "b", where)
        D, f = _rows(self.D, self.f, n, "D", "f", where)
        lower = np.full(f.size, -np.inf) if self.lower is None else np.array(self.lower, float).ravel()
        rows = b.size + f.size
        if not rows:
            raise ProblemError("is empty: A and D have no rows", where=where)
        weights = np.array(1.0 if self.weights is None else self.weights, float)
        if weights.shape not in ((), (1,), (rows,)):
            raise ProblemError(f"weights have shape {weights.shape}, expected a number or ({rows},)", where=where)
        weights = np.broadcast_to(weights, (rows,)).copy()
        if lower.shape != f.shape or not (lower <= f).all() or (lower == np.inf).any() or (f == -np.inf).any():
            raise ProblemError(f"expected {f.size} lower ends, none above f and none infinite on the wrong side", where=where)
        if not np.isfinite(b).all():
            raise ProblemError("b has entries that are not finite", where=where)
        if not ((weights > 0).all() and np.isfinite(weights).all()):
            raise ProblemError("weights must be positive and finite", where=where)
        if self.limits and len(self.limits) != f.size:
            raise ProblemError(f"{len(self.limits)} names for {f.size} rows of D", where=where)
        names = self.limits or tuple(f"row {i}" for i in range(f.size))
        for key, value in (("A", A), ("b", b), ("D", D), ("f", f), ("lower", lower), ("weights", weights), ("limits", names)):
            object.__setattr__(self, key, value)

    @property
    def n(self) -> int:
        """Number of unknowns."""
        return int(self.A.shape[1])


@dataclass(frozen=True, eq=False)
class Outcome:
    """Outcome of one level. residual [rows]: A x - b; slack [limits]: D x beyond its ends (negative: below), zero inside;
    side [limits]: -1, 0, 1 where x ends at, or beyond, the lower end, inside, the upper end; rank: directions that it decided;
    engine: how its active set was found ("none": nothing was in the way)."""

    name: str
    residual: Array
    slack: Array
    side: Side
    limits: tuple[str, ...]
    rank: int
    engine: str

    @property
    def active(self) -> dict[str, str]:
        """Names of the limits that x touches, and the end of each: "lower" or "upper"."""
        return {name: "lower" if s < 0 else "upper" for name, s in zip(self.limits, self.side, strict=True) if s}

    @property
    def violated(self) -> dict[str, float]:
        """Names of the limits that had to give way, and by how much."""
        return {name: float(s) for name, s in zip(self.limits, self.slack, strict=True) if s}

    @property
    def cost(self) -> float:
        """Norm of the residuals and slacks together, unweighted."""
        return float(np.sqrt(self.residual @ self.residual + self.slack @ self.slack))


@dataclass(frozen=True, eq=False)
class Form:
    """How a stack is written down: names, rows of A and of D, names of the limits of its levels, the engine's name, and where
    residuals and slacks begin among the numbers of its `Answers`, how sets were found, ranks and sides among their integers."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, int], ...]
    limits: tuple[tuple[str, ...], ...]
    engine: str
    starts: tuple[int, ...]


@dataclass(eq=False, slots=True)
class Answers:
    """Outcomes of all levels, one after the other, as they were found. Records are made when they are asked for."""

    form: Form
    numbers: Array
    integers: NDArray[np.int64]

    def slack(self, name: str) -> Array:
        """Of the limits of a level; empty where there is none of that name."""
        d, form = self.form.starts[1], self.form
        for own, (_, limits) in zip(form.names, form.counts, strict=True):
            if own == name:
                return self.numbers[d:d + limits]
            d += limits
        return self.numbers[:0]

    @property
    def free(self) -> int:
        """Directions that no level decided."""
        return int(self.integers[self.form.starts[3] + len(self.form.names)])

    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome of every level."""
        out, form = [], self.form
        a, d, how, rank, end = form.starts
        for k, (rows, limits) in enumerate(form.counts):
            side = self.integers[end:end + limits].astype(np.int8)
            out.append(Outcome(form.names[k], self.numbers[a:a + rows], self.numbers[d:d + limits], side, form.limits[k],
                               int(self.integers[rank + k]), _BY[int(self.integers[how + k])] or form.engine))
            a, d, end = a + rows, d + limits, end + limits
        return tuple(out)


@dataclass(eq=False)
class HQPResult:
    """x [n] (numbers only when ok), levels: outcomes, status, trouble (the level that failed), free: directions that no level
    decided, iterations of engines, gave_way: whether a limit had to."""

    x: Array
    status: HQPStatus
    answers: Answers | None = field(default=None, repr=False)
    trouble: str = ""
    iterations: int = 0
    gave_way: bool = False

    @cached_property
    def levels(self) -> tuple[Outcome, ...]:
        """The outcome of every level, none where the solve failed."""
        return () if self.answers is None else self.answers.outcomes()

    @property
    def free(self) -> int:
        """Dimension of the null space below the last level."""
        return 0 if self.answers is None else self.answers.free

    @property
    def ok(self) -> bool:
        """Whether all levels are solved."""
        return self.status is HQPStatus.SOLVED

    def __getitem__(self, name: str) -> Outcome:
        """The outcome of a level by its name. Raises KeyError."""
        for outcome in self.levels:
            if outcome.name == name:
                return outcome
        raise KeyError(name)


def merged(levels: Sequence[Level], weights: Sequence[float], name: str = "weighted") -> Level:
    """One level of several, traded against each other: ``weights`` [levels] multiply those of their rows."""
    levels = check_levels(levels)
    if len(weights) != len(levels) or not all(w > 0.0 for w in weights):
        raise ProblemError(f"expected {len(levels)} positive weights, got {list(weights)!r}", where="merged")
    splits = [level.b.size for level in levels]
    rows = [w * level.weights[:s] for w, level, s in zip(weights, levels, splits, strict=True)]
    limits = [w * level.weights[s:] for w, level, s in zip(weights, levels, splits, strict=True)]

    def stack(key: str) -> Array:
        return np.concatenate([getattr(level, key) for level in levels])

    return Level(name, stack("A"), stack("b"), stack("D"), stack("f"), stack("lower"), np.concatenate(rows + limits),
                 tuple(f"{level.name}: {limit}" for level in levels for limit in level.limits))


def check_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels, if they make a stack. Raises ProblemError."""
    levels = tuple(levels)
    if not levels:
        raise ProblemError("needs at least one level", where="hierarchy")
    for k, level in enumerate(levels):
        if not isinstance(level, Level):
            raise ProblemError(f"number {k} is not a Level but a {type(level).__name__}", where="hierarchy")
    names = [level.name for level in levels]
    for level in levels:
        if level.n != levels[0].n:
            raise ProblemError(f"has {level.n} unknowns, level {levels[0].name!r} has {levels[0].n}", where=f"level {level.name!r}")
        if names.count(level.name) > 1:
            raise ProblemError("the name is used twice", where=f"level {level.name!r}")
    return levels


def _rows(matrix: Any, vector: Any, n: int, name: str, right: str, where: str) -> tuple[Array, Array]:
    if matrix is None:
        if vector is not None:
            raise ProblemError(f"{right} without {name}", where=where)
        return np.zeros((0, n)), np.zeros(0)
    M = np.atleast_2d(np.array(matrix, float))
    if vector is None:
        raise ProblemError(f"{name} without {right}", where=where)
    v = np.array(vector, float).ravel()
    if M.ndim != 2 or M.shape != (v.size, n):
        raise ProblemError(f"{name} has shape {M.shape}, expected ({v.size}, {n}): a row for each entry of {right}", where=where)
    if not np.isfinite(M).all() or np.isnan(v).any():
        raise ProblemError(f"{name} or {right} has entries that are not numbers", where=where)
    return M, v
