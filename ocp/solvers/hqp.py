"""Quadratic programmes in strict order: every level is met as well as the levels above it allow, and never at their cost.

    level k:  minimise  |A x - b|² + |s|²   subject to   lower <= D x - s <= upper,   and to what the levels above have reached

The residuals A x - b and slacks s of a level are unique at its optimum. Those below keep them: A x stays, and rows of D stay
within their ends widened by their slacks. Levels may conflict, repeat each other or be infeasible. What no level decides is the
least |x|, so x is unique whichever way it is found.

Reduced: x = x0 + Z z, where Z spans what is left to decide. A level without inequalities in its way is one singular value
decomposition (Hutter et al., Robot Dynamics lecture notes, ETH Zurich, HS 2023, Algorithm 2). Otherwise it is a quadratic
programme in z and s (their Eq. 3.108 and Escande, Mansard, Wieber 2014): the rows held last time are tried first, then an engine
looks for the active set, and least squares on that set give the answer to rounding. Rows that push (a multiplier
that is not zero) are decided like equations, because every optimum of their level holds them. `ocp.solvers.cascade` solves the same
without any reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from ocp.errors import ProblemError
from ocp.solvers.active_set import Bounded, Found, Side, descend, exchange, optimal, pivoted
from ocp.solvers.engines import Dense, Engine, engine, known_engine

Array = NDArray[np.float64]

_ZERO = 1e-13  # relative; what rounding makes of a zero singular value
_REGULAR = 1e-4  # share of a level's norm from which the last pivot says that its rows are independent
_DECIDED = 1e-8  # share of a row's length below which what is left to decide does not move it
_PUSHES = 1e-9  # share of a level's gradient from which a multiplier counts as one


class HQPStatus(Enum):
    """How a solve ended; the value is the sentence for people."""

    SOLVED = "every level is optimal, given those above"
    FAILED = "no active set of a level closes; there is no answer"


@dataclass(frozen=True, eq=False)
class Level:
    """One priority: A x = b [rows] and lower <= D x <= f [limits], in the sense of least weighted squares.

    weights [rows + limits], positive, of each squared residual and slack. lower: -inf by default. limits: names of the rows of D.
    Raises ProblemError for wrong sizes, entries that are not finite (f: +inf and lower: -inf are allowed), lower > f, no rows.
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
            raise ProblemError("has no rows: neither A nor D", where=where)
        n = np.shape(self.A if self.A is not None else self.D)[-1]
        A, b = _rows(self.A, self.b, n, "A", "b", where)
        D, f = _rows(self.D, self.f, n, "D", "f", where)
        lower = np.full(f.size, -np.inf) if self.lower is None else np.array(self.lower, float).ravel()
        rows = b.size + f.size
        if not rows:
            raise ProblemError("has no rows", where=where)
        weights = np.ones(rows) if self.weights is None else np.broadcast_to(np.asarray(self.weights, float), (rows,)).copy()
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

    @cached_property
    def weighted(self) -> tuple[Array, Array, Array]:
        """(roots of the weights, weighted A, its norm as an array of one number)."""
        root = np.sqrt(self.weights)
        A = root[: self.b.size, None] * self.A
        return root, A, np.array(_norm(A.ravel()))

    @cached_property
    def sizes(self) -> Array:
        """Lengths of the rows of D [limits]."""
        return _lengths(self.D)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one level came to. residual [rows]: A x - b; slack [limits]: D x beyond its ends (negative: below), zero inside;
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
class HQPResult:
    """x [n] (numbers only when ok), outcomes by level, status, trouble (the level that failed), free: directions that no level
    decided, iterations of engines."""

    x: Array
    levels: tuple[Outcome, ...]
    status: HQPStatus
    trouble: str = ""
    free: int = 0
    iterations: int = 0

    @property
    def ok(self) -> bool:
        return self.status is HQPStatus.SOLVED

    def __getitem__(self, name: str) -> Outcome:
        """The outcome of a level by its name. Raises KeyError."""
        for outcome in self.levels:
            if outcome.name == name:
                return outcome
        raise KeyError(name)


@dataclass(frozen=True)
class HQPOptions:
    """engine: "osqp" or "daqp". tolerance: singular values below this share of the level's norm are not inverted; only those that
    are zero to rounding are left to the levels below. accuracy: that engines are asked for."""

    engine: str = "osqp"
    tolerance: float = 1e-8
    accuracy: float = 1e-6

    def __post_init__(self) -> None:
        if not _ZERO < self.tolerance < 1.0:
            raise ProblemError(f"expected between {_ZERO} and 1, got {self.tolerance!r}", where="HQPOptions.tolerance")
        known_engine(self.engine)


@dataclass(eq=False)
class _Left:
    """What is decided: x; what is left: Z [n, r] orthonormal, and rows that still bound it, lower <= C x <= upper; which of all
    rows of D in the stack those are, and their lengths; count: of all rows of D so far."""

    x: Array
    Z: Array
    C: Array
    lower: Array
    upper: Array
    sizes: Array
    which: NDArray[np.intp]
    count: int = 0


@dataclass(eq=False)
class _Solved:
    z: Array
    rows: Array  # rows over z that are decided besides A
    rest: Array  # [r, .] basis of what A leaves
    rank: int
    engine: str
    iterations: int


_Held = dict[int, tuple[int, float]]  # rows that were held last time: side and multiplier


@dataclass(eq=False)
class Hierarchy:
    """Solves stacks of levels one after the other, each with a warm start from the last stack of the same shape.

    The answer does not depend on what was solved before, only the way to it does.
    """

    options: HQPOptions = field(default_factory=HQPOptions)
    _held: dict[int, _Held] = field(default_factory=dict)
    _shape: tuple[Any, ...] = ()
    _engine: Engine | None = None

    def solve(self, levels: Sequence[Level], *, x0: ArrayLike | None = None) -> HQPResult:
        """The lexicographic optimum, highest priority first. x0 [n]: where to start looking.

        Raises ProblemError for no level, levels of different numbers of unknowns, or a name that is used twice.
        """
        levels = check_levels(levels)
        n = levels[0].n
        shape = tuple((level.name, level.A.shape, level.D.shape) for level in levels)
        if shape != self._shape:
            self._held, self._shape = {}, shape
        start = np.zeros(n) if x0 is None else np.array(x0, float)
        if start.shape != (n,) or not np.isfinite(start).all():
            raise ProblemError(f"expected {n} finite numbers, got an array of shape {start.shape}", where="hierarchy.x0")
        left = _Left(start, np.eye(n), np.zeros((0, n)), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.intp))
        done: list[_Solved] = []
        least = Level("least norm", A=np.eye(n), b=np.zeros(n))
        for k, level in enumerate((*levels, least)):
            if not left.Z.shape[1]:
                break
            solved = self._level(k, level, left)
            if solved is None:
                return HQPResult(np.full(n, np.nan), (), HQPStatus.FAILED, level.name)
            done.append(solved)
            left = _reduced(level, left, solved)
        outcomes = tuple(_outcome(level, left.x, done[k] if k < len(done) else None) for k, level in enumerate(levels))
        free = done[-1].rank if len(done) > len(levels) else 0
        return HQPResult(left.x, outcomes, HQPStatus.SOLVED, free=free, iterations=sum(d.iterations for d in done))

    def _level(self, k: int, level: Level, left: _Left) -> _Solved | None:
        root, weighted, size = level.weighted
        split = level.b.size
        e = root[:split] * level.b - weighted @ left.x
        A, e, point, rest = _compressed(weighted @ left.Z, e, float(size), self.options.tolerance)
        soft, w = root[split:, None] * (level.D @ left.Z), level.D @ left.x
        low, high = root[split:] * (level.lower - w), root[split:] * (level.f - w)
        hard, w = left.C @ left.Z, left.C @ left.x
        if not _within(w, left.lower, left.upper, 1e-9 * (1.0 + float(np.abs(w).max(initial=0.0)))):
            return None
        # the point at hand holds them, by construction; what rounding took from it is given back
        hard_low, hard_high = np.minimum(left.lower - w, 0.0), np.maximum(left.upper - w, 0.0)
        if w.size:
            size = 1.0 / _lengths(hard)
            hard, hard_low, hard_high = size[:, None] * hard, size * hard_low, size * hard_high
        tiny = 1e-12 * (1.0 + float(np.abs(point).max(initial=0.0)))
        if _within(soft @ point, low, high, tiny) and _within(hard @ point, hard_low, hard_high, 0.0):
            return _Solved(point, np.zeros((0, point.size)), rest, A.shape[0], "none", 0)
        r, s = point.size, low.size
        problem, start, first, which = Bounded(A, e, hard, hard_low, hard_high), np.zeros(r), point, left.which
        if s:  # unknowns (z, slacks)
            C = np.zeros((hard.shape[0] + s, r + s))
            C[: hard.shape[0], :r], C[hard.shape[0]:, :r], C[hard.shape[0]:, r:] = hard, soft, -np.eye(s)
            problem = Bounded(scipy.linalg.block_diag(A, np.eye(s)), np.concatenate([e, np.zeros(s)]), C,
                              np.concatenate([hard_low, low]), np.concatenate([hard_high, high]))
            start = np.concatenate([start, np.minimum(-low, 0.0) + np.maximum(-high, 0.0)])
            first = np.concatenate([point, np.zeros(s)])
            which = np.concatenate([which, np.arange(left.count, left.count + s)])
        last = self._held.setdefault(k, {})
        found, name, iterations = self._active_set(last, which, problem, first, start)
        if found is None:
            return None
        gradient = max(float(np.abs(A.T @ e).max(initial=0.0)), float(np.abs(start[r:]).max(initial=0.0)), 1e-30)
        sizes = _lengths(problem.C[:, :r])
        pushing = np.abs(found.y) * np.maximum(sizes, 1e-300) > _PUSHES * gradient
        return _Solved(found.x[:r], problem.C[pushing, :r], rest, A.shape[0], name, iterations)

    def _active_set(self, last: _Held, which: NDArray[np.intp], problem: Bounded, point: Array,
                    feasible: Array) -> tuple[Found | None, str, int]:
        """(optimum, how its active set was found, iterations of the engine)."""
        before = np.array([last.get(row, (0, 0.0)) for row in which.tolist()]).reshape(-1, 2)
        held = before[:, 0].astype(np.int8)
        held[np.isinf(np.where(held < 0, problem.lower, problem.upper))] = 0
        found, name, iterations = exchange(problem, point, held), "held rows", 0
        if found is None or not optimal(problem, found):
            found = None
            self._engine = self._engine or engine(self.options.engine)
            programme = Dense(problem.A.T @ problem.A, -problem.A.T @ problem.e, problem.C, problem.lower, problem.upper,
                              feasible, before[:, 1].copy())
            guess, name = self._engine.guess(programme, self.options.accuracy), self.options.engine
            if guess is not None:
                iterations, z = guess.iterations, problem.C @ guess.x
                side = np.where(z - problem.lower < -guess.y, -1, problem.upper - z < guess.y).astype(np.int8)
                found = exchange(problem, guess.x, side)
        if found is None or not optimal(problem, found):
            found, name = descend(problem, feasible), "descent"
            found = found if found is not None and optimal(problem, found) else None
        if found is not None:
            last.clear()
            rows = zip(which.tolist(), found.side.tolist(), found.y.tolist(), strict=True)
            last.update((row, (side, y)) for row, side, y in rows if side)
        return found, name, iterations


def solve_hqp(levels: Sequence[Level], options: HQPOptions | None = None) -> HQPResult:
    """One stack of levels, highest priority first. Raises ProblemError."""
    return Hierarchy(options or HQPOptions()).solve(levels)


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
    names = [level.name for level in levels]
    for level in levels:
        if level.n != levels[0].n:
            raise ProblemError(f"has {level.n} unknowns, level {levels[0].name!r} has {levels[0].n}", where=f"level {level.name!r}")
        if names.count(level.name) > 1:
            raise ProblemError("the name is used twice", where=f"level {level.name!r}")
    return levels


def _reduced(level: Level, left: _Left, solved: _Solved) -> _Left:
    """What is left after a level: its equations and the rows that push are decided, its other inequalities join the open ones."""
    x, Z = left.x + left.Z @ solved.z, left.Z
    rest = solved.rest
    if solved.rows.size and rest.shape[1]:
        pushed = solved.rows @ rest
        _, s, Vt = np.linalg.svd(pushed / _lengths(solved.rows)[:, None], full_matrices=True)
        rest = rest @ Vt[int(np.count_nonzero(s > _DECIDED)):].T
    Z = Z @ rest
    C, lower, upper, sizes, which, count = left.C, left.lower, left.upper, left.sizes, left.which, left.count + level.f.size
    if level.f.size:
        w = level.D @ x
        C, sizes = np.concatenate([C, level.D]), np.concatenate([sizes, level.sizes])
        lower = np.concatenate([lower, np.minimum(level.lower, w)])
        upper = np.concatenate([upper, np.maximum(level.f, w)])
        which = np.concatenate([which, np.arange(left.count, count)])
    still = _lengths(C @ Z) > _DECIDED * sizes
    if not still.all():
        C, lower, upper, sizes, which = C[still], lower[still], upper[still], sizes[still], which[still]
    return _Left(x, Z, C, lower, upper, sizes, which, count)


def _compressed(A: Array, e: Array, size: float, tolerance: float) -> tuple[Array, Array, Array, Array]:
    """(A', e', x, Z): A' x = e' [rank] has the least squares of A x = e; x is its shortest solution, Z what A does not see."""
    if not A.size:
        return np.zeros((0, A.shape[1])), np.zeros(0), np.zeros(A.shape[1]), np.eye(A.shape[1])
    m = A.shape[0]
    if m <= A.shape[1]:
        Q, R, order = pivoted(A)
        if abs(R[m - 1, m - 1]) > _REGULAR * size:  # rows that are clearly independent need no singular values
            return A, e, Q[:, :m] @ lapack.dtrtrs(R, e[order], trans=1)[0], Q[:, m:]
    U, s, Vt = np.linalg.svd(A, full_matrices=True)
    used, seen = int(np.count_nonzero(s > tolerance * size)), int(np.count_nonzero(s > _ZERO * max(A.shape) * size))
    e = U[:, :used].T @ e
    return s[:used, None] * Vt[:used], e, Vt[:used].T @ (e / s[:used]), Vt[seen:].T


def _within(w: Array, lower: Array, upper: Array, slack: float) -> bool:
    return bool((w >= lower - slack).all() and (w <= upper + slack).all())


def _outcome(level: Level, x: Array, solved: _Solved | None) -> Outcome:
    residual = level.A @ x - level.b
    rank, how = (solved.rank, solved.engine) if solved else (0, "none")
    if not level.f.size:
        return Outcome(level.name, residual, level.f, np.zeros(0, np.int8), (), rank, how)
    w = level.D @ x
    near = _DECIDED * (1.0 + np.abs(w))
    slack = np.where(w > level.f + near, w - level.f, np.where(w < level.lower - near, w - level.lower, 0.0))
    side = np.where(w >= level.f - near, 1, np.where(w <= level.lower + near, -1, 0)).astype(np.int8)
    return Outcome(level.name, residual, slack, side, level.limits, rank, how)


def _norm(values: Array) -> float:
    return float(np.sqrt(values @ values))


def _lengths(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


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
