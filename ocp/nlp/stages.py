"""The structure of optimal control inside a nonlinear program, and the order of unknowns and rows that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from ocp.errors import ProblemError

if TYPE_CHECKING:
    from ocp.nlp.program import NLP

#: how far the second point of the check lies from the guess, relative to ``max(1, |x|)``
AWAY = 1e-2


@dataclass(frozen=True, eq=False)
class Stages:
    """Structure of optimal control: columns of states x_k and controls u_k and rows of every stage k = 0..N.

    states [N+1], controls [N+1] (the last may be empty): column numbers; dynamics [N]: equations, as many as x_{k+1} has entries,
    which depend on x_k and u_k, and on x_{k+1} as ``-x_{k+1}`` alone (``F_k(x_k, u_k) - x_{k+1} = 0``; any constant other than 0
    may stand for the -1 of a row); path [N+1]: rows that depend on x_k and u_k only. The objective is a sum over stages. Every
    column and every row of the program belongs to one stage.
    """

    states: tuple[np.ndarray, ...]
    controls: tuple[np.ndarray, ...]
    dynamics: tuple[np.ndarray, ...]
    path: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        N = self.intervals
        for name, count in (("states", N + 1), ("controls", N + 1), ("dynamics", N), ("path", N + 1)):
            value = getattr(self, name)
            if N < 1 or len(value) != count:
                raise ProblemError(f"stages: {name} has {len(value)} entries, expected {max(count, 1)} for {N} intervals",
                                   where="nlp")
            object.__setattr__(self, name, tuple(np.asarray(part, dtype=int).ravel() for part in value))
        for k in range(N):
            rows, entries = len(self.dynamics[k]), len(self.states[k + 1])
            if rows != entries:
                raise ProblemError(f"stages: dynamics[{k}] has {rows} rows, but x_{k + 1} has {entries} entries", where="nlp")

    @property
    def intervals(self) -> int:
        return len(self.states) - 1

    @cached_property
    def columns(self) -> np.ndarray:
        """[n] columns of the program in the order x_0, u_0, x_1, u_1, ..."""
        return np.concatenate([part for pair in zip(self.states, self.controls, strict=True) for part in pair])

    @cached_property
    def rows(self) -> np.ndarray:
        """[m] rows of the program in the order dynamics_0, path_0, dynamics_1, path_1, ... path_N."""
        dynamics = (*self.dynamics, np.empty(0, dtype=int))
        return np.concatenate([part for pair in zip(dynamics, self.path, strict=True) for part in pair])

    @property
    def sizes(self) -> tuple[list[int], list[int], list[int]]:
        """Numbers of states, controls and path rows of every stage."""
        nx, nu, ng = ([len(part) for part in parts] for parts in (self.states, self.controls, self.path))
        return nx, nu, ng


@dataclass(frozen=True, eq=False)
class Chain:
    """Unknowns along the intervals of a program: columns of knots [N+1], of what lies inside each interval [N], and shared ones.

    Rows touch one interval and the knots at its ends, besides shared columns. dynamics [N]: rows ``F_k - x_{k+1} = 0`` that give
    the knot to come in full, in its order, where the program has them; else empty.
    """

    knots: tuple[np.ndarray, ...]
    inner: tuple[np.ndarray, ...]
    shared: np.ndarray
    dynamics: tuple[np.ndarray, ...] = ()

    @property
    def intervals(self) -> int:
        return len(self.inner)


def check_stages(nlp: NLP) -> np.ndarray:
    """[m] the constant coefficients with which rows of the dynamics hold the next state (path rows: -1), once the statement
    ``nlp.stages`` is found to be true of the patterns of Jacobian and Hessian and of the Jacobian's values at two points.

    Raises ProblemError naming the first row and column where it is not.
    """
    stages = nlp.stages
    if stages is None:
        raise ProblemError("the program states no stages", where="nlp")
    for what, order, names in (("column", stages.columns, nlp.variables), ("row", stages.rows, nlp.constraints)):
        _check_partition(what, order, names)
    place, row_place = _stage_of(nlp.n, zip(stages.states, stages.controls, strict=True)), np.empty(nlp.m, dtype=int)
    coefficient, follows = -np.ones(nlp.m), np.full(nlp.m, -1)
    for k, path in enumerate(stages.path):
        row_place[path] = k
        if k < stages.intervals:
            row_place[stages.dynamics[k]] = k
            follows[stages.dynamics[k]] = stages.states[k + 1]
    for i in np.flatnonzero((follows >= 0) & (nlp.g_lower != nlp.g_upper)):
        raise ProblemError(f"is a row of the dynamics but no equation: {nlp.g_lower[i]:.6g} to {nlp.g_upper[i]:.6g}",
                           where=nlp.constraints[i])
    r, c = (np.array(i, dtype=int) for i in nlp.jac.sparsity_out(1).get_triplet())
    next_state = follows[r] == c
    for e in np.flatnonzero((place[c] != row_place[r]) & ~next_state):
        k = row_place[r[e]]
        own = f", the next state of which is {nlp.variables[follows[r[e]]]!r}" if follows[r[e]] >= 0 else ""
        raise ProblemError(f"depends on {nlp.variables[c[e]]!r} of stage {place[c[e]]}, but is a row of stage {k}{own}",
                           where=nlp.constraints[r[e]])
    for i in sorted(set(np.flatnonzero(follows >= 0)) - set(r[next_state])):
        raise ProblemError(f"does not depend on its next state {nlp.variables[follows[i]]!r}", where=nlp.constraints[i])
    start = np.clip(nlp.x0, nlp.x_lower, nlp.x_upper)
    shifts = np.random.default_rng(0).uniform(-AWAY, AWAY, nlp.n) * np.maximum(1.0, np.abs(start))
    values = [np.array(nlp.jac(x)[1].nonzeros())[next_state] for x in (start, start + shifts)]
    for i, j, one, other in zip(r[next_state], c[next_state], *values, strict=True):
        if not (np.isfinite(one) and one != 0 and abs(one - other) <= 1e-9 * abs(one)):
            raise ProblemError(f"must depend on its next state {nlp.variables[j]!r} by a constant factor other than 0, got "
                               f"{one:.6g} at one point and {other:.6g} at another", where=nlp.constraints[i])
        coefficient[i] = one
    r, c = (np.array(i, dtype=int) for i in nlp.hess.sparsity_out(0).get_triplet())
    for e in np.flatnonzero(place[r] != place[c]):
        raise ProblemError(f"the Hessian couples {nlp.variables[r[e]]!r} of stage {place[r[e]]} and {nlp.variables[c[e]]!r} of "
                           f"stage {place[c[e]]}", where="nlp")
    return coefficient


def _check_partition(what: str, order: np.ndarray, names: Sequence[str]) -> None:
    count = len(names)
    for i in order[(order < 0) | (order >= count)]:
        raise ProblemError(f"stages: {what} {i} does not exist; there are {count}", where="nlp")
    times = np.bincount(order, minlength=count).tolist()
    for i, found in enumerate(times):
        if found != 1:
            raise ProblemError(f"stages: this {what} belongs to {found or 'no'} stage{'s' if found else ''}", where=names[i])


def _stage_of(count: int, parts: Iterator[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    place = np.empty(count, dtype=int)
    for k, pair in enumerate(parts):
        for part in pair:
            place[part] = k
    return place


def permuted(pattern: ca.Sparsity, rows: np.ndarray, columns: np.ndarray,
             symmetric: bool = False) -> tuple[ca.Sparsity, np.ndarray]:
    """A pattern with its rows and columns in another order (new -> old), and which old nonzero every new one is.

    symmetric: the pattern is an upper triangle, the new one the full matrix.
    """
    r, c = (np.array(i, dtype=int) for i in pattern.get_triplet())
    entry = np.arange(len(r))
    if symmetric:
        below = np.flatnonzero(r != c)
        r, c, entry = np.r_[r, c[below]], np.r_[c, r[below]], np.r_[entry, entry[below]]
    row_at, column_at = np.argsort(rows), np.argsort(columns)  # old -> new
    order = np.lexsort((row_at[r], column_at[c]))
    new_r, new_c = row_at[r][order], column_at[c][order]
    return ca.Sparsity.triplet(len(rows), len(columns), new_r.tolist(), new_c.tolist()), entry[order]
