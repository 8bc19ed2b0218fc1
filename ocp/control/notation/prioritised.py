"""Tasks with strict priorities at velocity level: lexicographic least squares by recursion through null spaces.

Level i asks for J_i v = w_i. The answer satisfies level 1 as well as possible, level 2 as well as possible among those, and so
on:

    v = sum_i N_{i-1} v_i,   v_i = (J_i N_{i-1})^+ (w_i - J_i sum_{k<i} N_{k-1} v_k),   N_0 = I,  N_i = null([J_1; ...; J_i])

(Siciliano and Slotine 1991; Baerlocher and Boulic 1998). Note the index: N_i annihilates the levels up to and including i. The
projectors appear here as orthonormal bases, N_i = Z_i Z_i', which stay exact over many levels where products of projectors do
not.

Rank is decided twice. Singular values of J_i Z_{i-1} below ``tolerance`` are not inverted, so noise never becomes motion. But
only those that are zero to rounding are handed to lower levels: a direction too weak to be used is still not given away, so a
lower level never moves a higher one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocp.errors import ProblemError

Array = NDArray[np.float64]

TOLERANCE = 1e-6  # relative; products with null-space bases carry rounding, and 1e-6 is the usual choice
_ZERO = 1e-14  # relative, times the larger size; what rounding makes of a zero singular value


@dataclass(frozen=True, eq=False)
class Level:
    """One priority: J [m, n] v = w [m], by least squares with row weights [m] (of |residual|²); damping: λ of (J Z)'s
    inverse."""

    J: Array
    w: Array
    weights: Array | None = None
    damping: float = 0.0

    def __post_init__(self) -> None:
        J, w = np.atleast_2d(np.asarray(self.J, float)), np.atleast_1d(np.asarray(self.w, float))
        if w.shape != (J.shape[0],):
            raise ProblemError(f"w has shape {w.shape}, expected ({J.shape[0]},), one per row of J", where="Level.w")
        weights = None if self.weights is None else np.asarray(self.weights, float)
        if weights is not None and (weights.shape != w.shape or not (weights > 0).all()):
            raise ProblemError(f"expected {w.size} positive weights, got {self.weights!r}", where="Level.weights")
        if not self.damping >= 0.0:
            raise ProblemError(f"must not be negative, got {self.damping!r}", where="Level.damping")
        if not (np.isfinite(J).all() and np.isfinite(w).all()):
            raise ProblemError("J or w has entries that are not finite", where="Level")
        for name, value in (("J", J), ("w", w), ("weights", weights)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Prioritised:
    """v [n]; residuals: w_i - J_i v per level; contributions [levels, n]: N_{i-1} v_i; ranks: of J_i N_{i-1}, directions used;
    projectors: N_0 ... N_levels, each [n, n]; free [n, k]: orthonormal motions that no level sees."""

    v: Array
    residuals: tuple[Array, ...]
    contributions: Array
    ranks: tuple[int, ...]
    projectors: tuple[Array, ...]
    free: Array


def solve_levels(
    levels: Sequence[Level | tuple[ArrayLike, ArrayLike]], *, null_motion: ArrayLike | None = None, tolerance: float = TOLERANCE
) -> Prioritised:
    """Velocity of the task hierarchy, highest priority first. null_motion [n]: wish for what no level determines.

    Raises ProblemError for no level, Jacobians of different widths, or a tolerance outside (0, 1).
    """
    stack = [
        level if isinstance(level, Level) else Level(np.asarray(level[0], float), np.asarray(level[1], float)) for level in levels
    ]
    if not stack:
        raise ProblemError("needs at least one level", where="solve_levels.levels")
    widths = {level.J.shape[1] for level in stack}
    if len(widths) > 1:
        raise ProblemError(f"the Jacobians have different numbers of columns: {sorted(widths)}", where="solve_levels.levels")
    if not _ZERO < tolerance < 1.0:
        raise ProblemError(f"expected between {_ZERO} and 1, got {tolerance!r}", where="solve_levels.tolerance")
    n = widths.pop()
    v, Z = np.zeros(n), np.eye(n)
    contributions, ranks, projectors = np.zeros((len(stack), n)), [], [np.eye(n)]
    for i, level in enumerate(stack):
        step, used, Z = _descend(level, v, Z, tolerance)
        contributions[i] = step
        v = v + step
        ranks.append(used)
        projectors.append(Z @ Z.T)
    if null_motion is not None:
        wish = np.asarray(null_motion, float)
        if wish.shape != (n,):
            raise ProblemError(f"has shape {wish.shape}, expected ({n},)", where="solve_levels.null_motion")
        v = v + Z @ (Z.T @ (wish - v))
    return Prioritised(v, tuple(level.w - level.J @ v for level in stack), contributions, tuple(ranks), tuple(projectors), Z)


class Served(NamedTuple):
    """The motion Z z that serves a level, directions used, a basis of what is left."""

    motion: Array
    used: int
    left: Array


def _descend(level: Level, v: Array, Z: Array, tolerance: float) -> Served:
    """(motion Z z that serves this level, directions used, basis of what is left)."""
    if Z.shape[1] == 0 or level.w.size == 0:
        return Served(np.zeros(v.size), 0, Z)
    error, A = level.w - level.J @ v, level.J @ Z
    scale = float(np.linalg.norm(level.J, 2))
    if level.weights is not None:
        root = np.sqrt(level.weights)
        error, A = root * error, root[:, None] * A
        scale = float(np.linalg.norm(root[:, None] * level.J, 2))
    U, s, Vt = np.linalg.svd(A, full_matrices=True)
    # relative to J itself, not to J Z: when higher levels use all of J, what is left of it is rounding
    used = int(np.count_nonzero(s > tolerance * scale))
    seen = int(np.count_nonzero(s > _ZERO * max(level.J.shape) * scale))
    gains = s[:used] / (s[:used] ** 2 + level.damping**2)
    z = Vt[:used].T @ (gains * (U[:, :used].T @ error))
    left = Z @ Vt[seen:].T
    if left.shape[1]:
        left = np.linalg.qr(left)[0]  # orthonormal to rounding, however many levels follow
    return Served(Z @ z, used, left)


def stacked(levels: Sequence[Level | tuple[ArrayLike, ArrayLike]], tolerance: float = TOLERANCE) -> Prioritised:
    """All levels with equal priority: v = [J_1; ...]^+ (w_1; ...), weighted by the levels' weights."""
    stack = [
        level if isinstance(level, Level) else Level(np.asarray(level[0], float), np.asarray(level[1], float)) for level in levels
    ]
    if not stack:
        raise ProblemError("needs at least one level", where="stacked.levels")
    weights = np.concatenate([np.ones(level.w.size) if level.weights is None else level.weights for level in stack])
    whole = Level(
        np.vstack([level.J for level in stack]),
        np.concatenate([level.w for level in stack]),
        weights,
        max(level.damping for level in stack),
    )
    one = solve_levels([whole], tolerance=tolerance)
    parts = tuple(level.w - level.J @ one.v for level in stack)
    return Prioritised(one.v, parts, one.contributions, one.ranks, one.projectors, one.free)


def two_levels(J1: ArrayLike, w1: ArrayLike, J2: ArrayLike, w2: ArrayLike, tolerance: float = TOLERANCE) -> Array:
    """v = J1+ w1 + N1 (J2 N1)+ (w2 - J2 J1+ w1) [n], with N1 = I - J1+ J1."""
    return solve_levels([(J1, w1), (J2, w2)], tolerance=tolerance).v
