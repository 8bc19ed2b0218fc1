"""Conditioning of a program at a point: violated and active constraints, scales of its derivatives, unconstrained variables, and
dependent equations (the null space of the transposed Jacobian, by name)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ocp.explain.groups import base
from ocp.nlp import NLP, worst_violations
from ocp.problem import At, Problem
from ocp.thresholds import EXPLANATION, ROUNDING


@dataclass(frozen=True)
class Dependence:
    """A combination of equations that vanishes to first order, so that any one of them is redundant or contradicts the others.
    rows: names of the equations with their weights in the combination (largest 1), largest first; groups: their names without knots
    singular: the singular value, relative to the largest

    """

    rows: tuple[tuple[str, float], ...]
    groups: tuple[str, ...]
    singular: float


def dependent_rows(nlp: NLP, x: np.ndarray, *, active: bool = False, rank: float = ROUNDING.negligible) -> tuple[Dependence, ...]:
    """Combinations of equalities (with ``active``: and of active inequalities) that are linearly dependent at x [n].
    Fixed variables do not count. Equations without a derivative entry are dependent by themselves. Raises nothing: entries that are
    not finite count as zero.

    """
    g = nlp.g(x).full().ravel()
    jacobian = _sparse(nlp.jac(x)[1])
    equal = nlp.g_lower == nlp.g_upper
    if active:
        size = 1e-7 * np.maximum(1.0, np.abs(g))
        equal = equal | (np.abs(g - nlp.g_lower) <= size) | (np.abs(g - nlp.g_upper) <= size)
    chosen, free = np.flatnonzero(equal), np.flatnonzero(nlp.x_lower < nlp.x_upper)
    if not len(chosen):
        return ()
    J = jacobian[chosen][:, free]
    J.data[~np.isfinite(J.data)] = 0.0
    length = np.sqrt(np.asarray(J.multiply(J).sum(axis=1)).ravel())
    scaled = sp.csr_matrix(sp.diags(1.0 / np.where(length > 0, length, 1.0)) @ J)
    left, values, largest = _small(scaled, rank)
    if not left.shape[1]:
        return ()
    # weights in terms of the rows as they are, not as they were scaled; a zero row stands for itself
    weights = _localised(left) / np.where(length > 0, length, 1.0)[:, None]
    found = []
    for k in range(weights.shape[1]):
        own = weights[:, k] / np.abs(weights[:, k]).max()
        order = [int(i) for i in np.argsort(-np.abs(own), kind="stable") if abs(own[i]) > EXPLANATION.min_share]
        names = [nlp.constraints[chosen[i]] for i in order]
        found.append(Dependence(tuple((name, float(own[i])) for name, i in zip(names, order, strict=True)),
                                tuple(dict.fromkeys(base(name) for name in names)), float(values[k]) / largest))
    return tuple(sorted(found, key=lambda one: len(one.rows)))


def _sparse(matrix: ca.DM) -> sp.csr_matrix:
    row, column = (np.array(i, dtype=int) for i in matrix.sparsity().get_triplet())
    return sp.csr_matrix((np.array(matrix.nonzeros(), dtype=float), (row, column)), shape=matrix.shape)


def _small(J: sp.csr_matrix, rank: float) -> tuple[np.ndarray, np.ndarray, float]:
    """(left singular vectors [m, k] of singular values that count as zero, these [k], the largest singular value)."""
    m, n = J.shape
    if m * n <= EXPLANATION.max_dense_entries or m <= 2 * EXPLANATION.max_combinations:
        u, s, _ = scipy.linalg.svd(J.toarray(), full_matrices=True)
        values = np.concatenate([s, np.zeros(max(0, m - len(s)))])
        largest = float(values.max(initial=0.0)) or 1.0
        small = values <= rank * largest
        return u[:, small], values[small], largest
    return _small_sparse(J, rank)


def _small_sparse(J: sp.csr_matrix, rank: float, sweeps: int = 8) -> tuple[np.ndarray, np.ndarray, float]:
    """As :func:`_small` by inverse iteration on ``J J' + shift``, whose factors are sparse for collocation; squaring leaves
    singular values apart from zero only down to about 1e-7 of the largest, hence the coarser rank."""
    m = J.shape[0]
    K = sp.csc_matrix(J @ J.T)
    largest = float(np.sqrt(np.asarray(abs(K).sum(axis=1)).max()))  # an upper bound by Gershgorin
    factors = splu(K + sp.csc_matrix(sp.identity(m) * (1e-13 * largest**2)))
    Y = np.linalg.qr(np.random.default_rng(0).standard_normal((m, EXPLANATION.max_combinations)))[0]
    for _ in range(sweeps):
        Y = np.linalg.qr(factors.solve(Y))[0]
    _, s, right = np.linalg.svd(J.T @ Y, full_matrices=False)
    u = Y @ right.T
    small = s <= max(rank, 1e-7) * largest
    return u[:, small], s[small], largest


def _localised(left: np.ndarray) -> np.ndarray:
    """A sparse basis of the span of the columns, reduced so that ``k`` rows of the matrix form the identity."""
    _, _, pivots = scipy.linalg.qr(left.T, pivoting=True, mode="economic")
    k = left.shape[1]
    found = np.linalg.solve(left[pivots[:k]].T, left.T).T
    found[np.abs(found) < 1e-9] = 0.0
    return np.asarray(found)


@dataclass(frozen=True)
class Conditioning:
    """A program at a point.
    worst: (name, violation) of the largest violations; active: (name, knots) of active bounds and inequalities
    rows, columns: (name, norm) of the largest and the smallest of the Jacobian, without zero ones; spread: their quotients
    empty_rows: constraints that no variable affects to first order; idle: variables in neither cost nor constraints
    gradient: (name, entry) of the largest entry of the gradient of the cost

    """

    worst: tuple[tuple[str, float], ...]
    active: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, float], tuple[str, float]] | None
    columns: tuple[tuple[str, float], tuple[str, float]] | None
    empty_rows: tuple[str, ...]
    idle: tuple[str, ...]
    gradient: tuple[str, float] | None

    @property
    def spread(self) -> tuple[float, float]:
        """Largest over smallest norm of rows and of columns."""
        return tuple(pair[0][1] / pair[1][1] if pair else 1.0 for pair in (self.rows, self.columns))  # type: ignore[return-value]


def condition(nlp: NLP, x: np.ndarray, worst: int = 6) -> Conditioning:
    """The conditioning of a program at x [n]."""
    g, jacobian = nlp.jac(x)
    g, gradient = g.full().ravel(), nlp.grad(x)[1].full().ravel()
    row, column = (np.array(i, dtype=int) for i in jacobian.sparsity().get_triplet())
    entries = np.nan_to_num(np.array(jacobian.nonzeros(), dtype=float), nan=0.0, posinf=0.0, neginf=0.0)
    free = nlp.x_lower < nlp.x_upper
    live = free[column]  # a fixed variable moves nothing
    norms_r, norms_c = np.zeros(nlp.m), np.zeros(nlp.n)
    np.add.at(norms_r, row[live], entries[live] ** 2)
    np.add.at(norms_c, column[live], entries[live] ** 2)
    norms_r, norms_c = np.sqrt(norms_r), np.sqrt(norms_c)
    touched = np.flatnonzero(free & (np.minimum(x - nlp.x_lower, nlp.x_upper - x) <= 1e-6 * np.maximum(1.0, np.abs(x))))
    tight = np.flatnonzero((nlp.g_lower < nlp.g_upper)
                           & (np.minimum(g - nlp.g_lower, nlp.g_upper - g) <= 1e-6 * np.maximum(1.0, np.abs(g))))
    active: dict[str, int] = {}
    for name in (*(f"bound of {nlp.variables[i]}" for i in touched), *(nlp.constraints[i] for i in tight)):
        active[base(name)] = active.get(base(name), 0) + 1
    idle = np.flatnonzero(free & (norms_c == 0) & (np.nan_to_num(gradient) == 0))
    largest = int(np.argmax(np.abs(np.nan_to_num(gradient)))) if nlp.n else 0
    return Conditioning(
        worst=worst_violations(nlp, x, worst), active=tuple(sorted(active.items(), key=lambda item: -item[1])),
        rows=_extremes(norms_r, nlp.constraints), columns=_extremes(norms_c, nlp.variables),
        empty_rows=tuple(nlp.constraints[i] for i in np.flatnonzero(norms_r == 0)), idle=tuple(nlp.variables[i] for i in idle),
        gradient=(nlp.variables[largest], float(gradient[largest])) if nlp.n else None,
    )


def _extremes(norms: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, float], tuple[str, float]] | None:
    found = np.flatnonzero(norms > 0)
    if not len(found):
        return None
    high, low = int(found[np.argmax(norms[found])]), int(found[np.argmin(norms[found])])
    return (names[high], float(norms[high])), (names[low], float(norms[low]))


def unbounded_hints(problem: Problem, nlp: NLP, x: np.ndarray, falling: bool = False) -> tuple[str, ...]:
    """Sentences about possible unboundedness: variables of large magnitude without a bound on that side, and controls without a
    cost. falling: whether the objective is known to decrease without bound."""
    found = []
    far: dict[str, float] = {}
    large = EXPLANATION.runaway_falling if falling else EXPLANATION.runaway
    for name, value, lower, upper in zip(nlp.variables, x, nlp.x_lower, nlp.x_upper, strict=True):
        if abs(value) >= large and np.isinf(upper if value > 0 else lower):
            far[base(name)] = max(far.get(base(name), 0.0), abs(float(value)))
    for name, value in sorted(far.items(), key=lambda item: -item[1]):
        found.append(f"{name} has grown to {value:.2g} and is unbounded there; bound it")
    for phase in problem.phases:
        before = f"phase {phase.name}: " if len(problem.phases) > 1 else ""
        functions = [cost.function for cost in phase.costs if cost.at is At.PATH]
        functions += [c.function for c in phase.constraints if c.at is At.PATH]
        used = {i for function in functions for i in function.jac_sparsity(0, 2).get_col()}
        for i, name in enumerate(phase.system.inputs):
            if not phase.control_bounds.two_sided[i] and i not in used:
                found.append(f"{before}control {name} has no cost and no bounds on both sides: add a small cost or bounds")
        if phase.duration.free and np.isinf(phase.duration.upper) and not phase.costs:
            found.append(f"{before}the duration has no upper end and there is no cost")
    return tuple(found)
