"""Quadratic programs in strict order: every level is met as well as the levels above it allow, and never at their cost.

    level k:  minimise  |A x - b|² + |s|²   subject to   lower <= D x - s <= upper,   and to what the levels above have reached

The residuals A x - b and slacks s of a level are unique at its optimum. Those below keep them: A x stays, and rows of D stay
within their ends widened by their slacks. Levels may conflict, repeat each other or be infeasible. Directions that no level decides
take the least |x|, so x is unique whichever way it is found.

Reduced: x = x0 + Z z, where Z spans what is left to decide. The equations at the head are solved for as many unknowns
(`ocp.solvers.elimination`). Below them, a level without inequalities in its way is one orthogonal factor (Hutter et al., Robot
Dynamics lecture notes, ETH Zurich, HS 2023, Algorithm 2). Otherwise it is a quadratic program in z and s (their Eq. 3.108 and
Escande, Mansard, Wieber 2014): the last active set is tried first, then an engine looks for the active set, and least
squares on that set give the answer to rounding. Rows that push (a multiplier that is not zero) are decided like equations,
because every optimum of their level holds them. All of that runs in compiled loops (`ocp.solvers.lexicographic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocp.errors import ProblemError
from ocp.solvers.engines import ENGINES, Dense, Engine, engine, known_engine
from ocp.solvers.equilibration import equilibrate
from ocp.solvers.level_program import ASK, CAREFUL, DONE, FAILED
from ocp.solvers.levels import Answers, Form, HQPResult, HQPStatus, Level, Outcome, check_levels, merged
from ocp.solvers.lexicographic import advance
from ocp.solvers.stack import measure, space, stack
from ocp.solvers.working_set import TOLERANCE

__all__ = ["HQPOptions", "HQPResult", "HQPStatus", "Hierarchy", "Level", "Outcome", "Space", "check_levels", "merged", "solve_hqp"]

Array = NDArray[np.float64]

_ROUNDING = 1e-13
_METHODS = 15  # all that lead to an active set


@dataclass(frozen=True)
class HQPOptions:
    """engine: what finds the active set of a level where the last one is not optimal: "active_set" (compiled, of our
    own; OSQP only where it does not close), "osqp" or "daqp". tolerance: a row adds a direction to those of its level and
    of the levels above where more than this share of its own length is left of it. What is less, down to rounding, no level uses:
    its own does not, and to those below it is decided. accuracy: that engines are asked for."""

    engine: str = "active_set"
    tolerance: float = TOLERANCE
    accuracy: float = 1e-6

    def __post_init__(self) -> None:
        if not _ROUNDING < self.tolerance < 1.0:
            raise ProblemError(f"expected between {_ROUNDING} and 1, got {self.tolerance!r}", where="HQPOptions.tolerance")
        if not 0.0 < self.accuracy < 1.0:
            raise ProblemError(f"expected between 0 and 1, got {self.accuracy!r}", where="HQPOptions.accuracy")
        known_engine(self.engine)


class Space:
    """Stacks of one shape, and the way to the last answer. Fill ``arrays``: A, b, a_root (roots of the weights), D, low, high,
    d_root of all levels, one after the other; then `solve`."""

    def __init__(self, n: int, names: Sequence[str], counts: Sequence[tuple[int, int]], limits: Sequence[tuple[str, ...]],
                 options: HQPOptions) -> None:
        self.n, self.options, self.arrays = n, options, space(n, list(counts))
        self._numbers, (_, *told) = self.arrays.run(("x", "residual", "slack"))
        self._integers, counted = self.arrays.run(("how", "rank", "end"))
        own = ENGINES[0]
        self._form = Form(tuple(names), tuple(counts), tuple(limits), options.engine if options.engine != own else "osqp",
                          (*told, *counted))
        self._sizes, self._careful, self._roads = np.zeros(5, np.int64), False, 15 if options.engine == own else 7
        self._engine: Engine | None = None

    def load(self, levels: Sequence[Level]) -> None:
        """Fill the arrays with levels of this shape."""
        s, a, d = self.arrays, 0, 0
        for level in levels:
            rows, limits = slice(a, a + level.b.size), slice(d, d + level.f.size)
            root = np.sqrt(level.weights)
            s.A[rows], s.b[rows], s.a_root[rows] = level.A, level.b, root[:level.b.size]
            s.D[limits], s.low[limits], s.high[limits], s.d_root[limits] = level.D, level.lower, level.f, root[level.b.size:]
            a, d = rows.stop, limits.stop
        self._form = replace(self._form, limits=tuple(level.limits for level in levels))
        s.state[6] = 0  # to be measured

    def measure(self) -> None:
        """Where the rows of A and D are not zero: for rows that stay as they are."""
        measure(stack(self.arrays.numbers, self.arrays.integers))

    def solve(self, x0: Array | None = None) -> HQPResult:
        """The lexicographic optimum of what the arrays hold. x0 [n]: where to start looking (default: zero)."""
        s = self.arrays
        s.x[:] = 0.0 if x0 is None else x0 / s.unit
        iterations, code = 0, self._advance(False)
        if code != DONE:
            iterations, code = self._insist(code)
        if code != DONE:
            s.x[:] = 0.0
            level = int(self._sizes[3])
            return HQPResult(np.full(self.n, np.nan), HQPStatus.FAILED, None, (*self._form.names, "least norm")[level])
        self._careful = s.state.item(5) != 0
        numbers = self._numbers.copy()
        return HQPResult(numbers[:self.n], HQPStatus.SOLVED, Answers(self._form, numbers, self._integers.copy()), "", iterations,
                         self._careful)

    def _advance(self, guessed: bool) -> int:
        return int(advance(self.arrays.numbers, self.arrays.integers, self._sizes, self.options.tolerance, self._careful, guessed,
                           self._roads & _METHODS))

    def _insist(self, code: int) -> tuple[int, int]:
        """(iterations of engines, code) where the first attempt, that came to ``code``, did not do."""
        s, iterations, patient = self.arrays, 0, self.options.engine == ENGINES[0]
        while True:
            if code == FAILED and not (self._careful and patient):  # once more, from nothing
                s.sides[:], s.x[:], code, patient = 0, 0.0, CAREFUL, True
            if code not in (ASK, CAREFUL):
                return iterations, code
            self._careful = self._careful or code == CAREFUL
            if code == ASK:
                iterations += self._guess(patient)
            code = self._advance(code == ASK)

    def _guess(self, patient: bool) -> int:
        """Ask the engine for the active set of the level that the loops stopped at; returns its iterations. patient: it may search
        for long, because a descent has failed."""
        s, (kb, mc, nz, level, soft) = self.arrays, self._sizes.tolist()
        lower, upper = s.lower[:mc], s.upper[:mc]
        B = np.block([[s.B[:kb, :nz], np.zeros((kb, soft))], [np.zeros((soft, nz)), np.eye(soft)]])  # slacks are unknowns here
        C, e = np.hstack([s.C[:mc, :nz], -np.eye(mc)[:, mc - soft:]]), np.r_[s.e[:kb], np.zeros(soft)]
        start = np.r_[s.z[:nz], np.maximum(-upper[mc - soft:], 0.0) + np.minimum(-lower[mc - soft:], 0.0)]
        self._engine = self._engine or engine(self.options.engine)
        y = s.memory[level, s.which[:mc]]
        guess = self._engine.guess(Dense(B.T @ B, -B.T @ e, C, lower.copy(), upper.copy(), start, y),
                                   self.options.accuracy, not patient)
        if guess is None:
            s.side[:mc] = 0
            return 0
        at = C @ guess.x
        s.z[:nz], s.side[:mc] = guess.x[:nz], np.where(at - lower < -guess.y, -1, upper - at < guess.y)
        return guess.iterations


@dataclass(eq=False)
class Hierarchy:
    """Solves stacks of levels one after the other, each with a warm start from the last stack of the same shape.

    The answer does not depend on what was solved before, only the way to it does.
    """

    options: HQPOptions = field(default_factory=HQPOptions)
    _shape: tuple[Any, ...] = ()
    _space: Space | None = None

    def solve(self, levels: Sequence[Level], *, x0: ArrayLike | None = None) -> HQPResult:
        """The lexicographic optimum, highest priority first. x0 [n]: where to start looking.

        Raises ProblemError for no level, levels of different numbers of unknowns, or a name that is used twice.
        """
        levels = check_levels(levels)
        n = levels[0].n
        shape = tuple((level.name, level.A.shape, level.D.shape) for level in levels)
        start = np.zeros(n) if x0 is None else np.array(x0, float).ravel()
        if start.shape != (n,) or not np.isfinite(start).all():
            raise ProblemError(f"expected {n} finite numbers, got an array of shape {start.shape}", where="hierarchy.x0")
        if self._space is None or shape != self._shape:
            counts = [(level.b.size, level.f.size) for level in levels]
            self._space, self._shape = Space(n, [level.name for level in levels], counts, (), self.options), shape
        self._space.load(levels)
        equilibrate(self._space.arrays.numbers, self._space.arrays.integers)
        return self._space.solve(start)


def solve_hqp(levels: Sequence[Level], options: HQPOptions | None = None) -> HQPResult:
    """One stack of levels, highest priority first. Raises ProblemError."""
    return Hierarchy(options or HQPOptions()).solve(levels)
