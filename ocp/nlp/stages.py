"""The structure of optimal control inside a nonlinear program, and the order of unknowns and rows that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from ocp.errors import ProblemError


class StageSizes(NamedTuple):
    """Numbers of states, controls and path constraints of every stage."""

    states: list[int]
    controls: list[int]
    rows: list[int]


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
                raise ProblemError(f"stages: dynamics[{k}] has {rows} equations, but x_{k + 1} has {entries} entries", where="nlp")

    @property
    def intervals(self) -> int:
        """Number of intervals."""
        return len(self.states) - 1

    @cached_property
    def columns(self) -> np.ndarray:
        """[n] columns of the program in the order x_0, u_0, x_1, u_1, ..."""
        return np.concatenate([part for pair in zip(self.states, self.controls, strict=True) for part in pair])

    @cached_property
    def rows(self) -> np.ndarray:
        """[m] constraints of the program in the order dynamics_0, path_0, dynamics_1, path_1, ... path_N."""
        dynamics = (*self.dynamics, np.empty(0, dtype=int))
        return np.concatenate([part for pair in zip(dynamics, self.path, strict=True) for part in pair])

    @property
    def sizes(self) -> StageSizes:
        """Numbers of states, controls and path constraints of every stage."""
        nx, nu, ng = ([len(part) for part in parts] for parts in (self.states, self.controls, self.path))
        return StageSizes(nx, nu, ng)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Unknowns along the intervals of a program: columns of knots [N+1], of what lies inside each interval [N], and static ones.

    Constraints touch one interval and the knots at its ends, besides static columns. dynamics [N]: rows ``F_k - x_{k+1} = 0`` that
    give the knot to come in full, in its order, where the program has them; else empty.
    """

    knots: tuple[np.ndarray, ...]
    inner: tuple[np.ndarray, ...]
    static: np.ndarray
    dynamics: tuple[np.ndarray, ...] = ()

    @property
    def intervals(self) -> int:
        """Number of intervals."""
        return len(self.inner)


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
