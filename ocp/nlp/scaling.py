"""Scaling of variables, rows and objective by constant diagonals.

    z = x / columns,   rows g(x),   objective f(x)

Factors are powers of two, so that scaling rounds nothing. Columns are measured by the distance of their bounds where both are
finite, else by the magnitude of the guess; rows by the largest entry of the first Jacobian and the objective by that of its first
gradient, in scaled columns (Betts 2010, Practical Methods for Optimal Control, Sec. 1.16; Waechter and Biegler 2006, Sec. 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.nlp.names import groups, measured
from ocp.nlp.options import SCALINGS
from ocp.nlp.program import NLP, Functions
from ocp.nlp.result import NLPResult, Progress, Warm, WatchPoint
from ocp.observed import translated
from ocp.problem import Finding, Kind

#: factors outside are cut: entries at the first point say little about others
LARGEST = 2.0 ** 30
#: the same for factors of a name, which are found along a whole motion
SQUARED = 2.0 ** 60
#: rows with smaller largest entries are scaled up no further
UP = 2.0 ** 7
#: unknowns and constraints between this and its inverse are ordinary
MIN_SCALE = 2.0 ** -10
#: rows whose entries are larger are not, unless a bound is smaller beside them than this is beside one: by so steep a row scaling
#: would make a narrow gate vanish
MAX_ENTRY = 2.0 ** 15
#: unknowns that are smaller, beside the largest, are rounding
NOISE = 2.0 ** -30
#: objectives that this factor leaves larger than one are huge
STEEP = 2.0 ** -15
#: an objective that vanishes is measured by this part of its unit
VANISHING = 1e-4
#: how far from the first point, in parts of 1 + its size, the objective's gradient is looked at where it vanishes
BESIDE = 1.0


@dataclass(frozen=True, eq=False)
class Scaling:
    """columns [n]: what one unit of a scaled variable is; rows [m], objective: factors. All positive. how: the rule; reasons: what
    is extraordinary of a program that was not asked to be scaled."""

    how: str
    columns: np.ndarray
    rows: np.ndarray
    objective: float
    reasons: tuple[str, ...] = ()

    @property
    def finding(self) -> Finding:
        """The rule and the spans of its factors."""
        def span(values: np.ndarray) -> tuple[float, ...]:
            return (float(np.min(values)), float(np.max(values))) if len(values) else ()

        return Finding(Kind.SCALED, name=self.how, data={
            "reasons": self.reasons, "columns": span(self.columns), "rows": span(self.rows), "objective": self.objective})


@dataclass(frozen=True, eq=False)
class Unscale:
    """Between points of the scaled program and of the program itself."""

    scaling: Scaling

    def down(self, warm: Warm) -> Warm:
        """A point of the program as one of the scaled program."""
        s = self.scaling
        return Warm(np.asarray(warm.x) / s.columns, np.asarray(warm.lam_x) * s.columns * s.objective,
                    np.asarray(warm.lam_g) / s.rows * s.objective, warm.mu * s.objective, warm.retry_mu * s.objective)

    def up(self, warm: Warm) -> Warm:
        """A point of the scaled program as one of the program."""
        s = self.scaling
        return Warm(warm.x * s.columns, warm.lam_x / (s.columns * s.objective), warm.lam_g * s.rows / s.objective,
                    warm.mu / s.objective)

    def limited(self, inner: NLP, nlp: NLP) -> NLP:
        """The scaled program with the limits and the guess of a program."""
        s = self.scaling
        return inner.limited(x0=nlp.x0 / s.columns, x_lower=nlp.x_lower / s.columns, x_upper=nlp.x_upper / s.columns,
                             g_lower=nlp.g_lower * s.rows, g_upper=nlp.g_upper * s.rows)

    def row(self, row: Any) -> dict[str, float]:
        """A row of the iteration log with the objective of the program; residuals stay those of the scaled program."""
        return {**row, **({"objective": row["objective"] / self.scaling.objective} if "objective" in row else {})}

    def seen_by(self, progress: Progress | None, watch_point: WatchPoint | None) -> tuple[Progress | None, WatchPoint | None]:
        """Listeners of the scaled program for those of the program."""
        told = translated(progress, self.up)
        shown = None if told is None else lambda row: told(self.row(row))
        if watch_point is None:
            return shown, None
        due, take = watch_point
        return shown, (due, lambda point, rows: take(self.up(point), tuple(self.row(row) for row in rows)))

    def result(self, found: NLPResult) -> NLPResult:
        """A result in scaled variables, unscaled."""
        point = self.up(Warm(found.x, found.lam_x, found.lam_g, found.mu))
        return replace(found, x=point.x, lam_x=point.lam_x, lam_g=point.lam_g, mu=point.mu, f=found.f / self.scaling.objective,
                       iterations=tuple(self.row(row) for row in found.iterations))


def choose_scaling(nlp: NLP, how: str, magnitudes: np.ndarray | None = None) -> Scaling:
    """Factors for the program.

    how: "none"; "bounds": columns alone; "jacobian": rows and objective alone; "auto": all; "guess": all, those of a name together:
    columns by the largest variable at the first point, else the largest bound; rows without a limit. magnitudes [n]: of the
    variables, where known (units, a trajectory); they go before the bounds.
    """
    if how not in SCALINGS:
        raise ProblemError(f"scaling must be one of {', '.join(SCALINGS)}, got {how!r}")
    columns, rows, objective = np.ones(nlp.n), np.ones(nlp.m), 1.0
    start = np.clip(nlp.x0, nlp.x_lower, nlp.x_upper)
    if how == "guess":
        largest, widths = _sizes(nlp)
        largest = np.where(largest > 0, largest, widths)
        own, to = _by_name(nlp.variables), _by_name(nlp.constraints)
        columns = _power(np.where(largest > 0, largest, 1.0), SQUARED)[own]
        rows = _inverse(_row_sizes(nlp, start, columns), SQUARED)
        idle = _entries(nlp, start, rows[to], columns)  # no scale: moves no constraint by one
        idle = np.where((largest == 0) & (idle < MIN_SCALE**2), idle, 0.0)
        if idle.any():
            columns = columns * _power(np.where(idle > 0, 1.0 / np.where(idle > 0, idle, 1.0), 1.0), SQUARED)[own]
            rows = _inverse(_row_sizes(nlp, start, columns), SQUARED)
        return Scaling(how, columns, rows[to], objective_factor(nlp, columns))
    if how in ("bounds", "auto"):
        width = nlp.x_upper - nlp.x_lower
        bounded = np.isfinite(width) & (width > 0)
        columns = np.where(bounded, width, np.maximum(np.abs(start), 1.0) if how == "auto" else 1.0)
        if magnitudes is not None:
            if np.shape(magnitudes) != (nlp.n,) or not np.all(np.asarray(magnitudes) > 0):
                raise ProblemError(f"magnitudes must be {nlp.n} positive numbers", where="scaling")
            columns = np.asarray(magnitudes, dtype=float)
        columns = _power(columns)
    if how in ("jacobian", "auto"):
        jacobian = nlp.jac(start)[1]
        i, j = (np.array(k, dtype=int) for k in jacobian.sparsity().get_triplet())
        entries, largest = np.abs(np.array(jacobian.nonzeros())) * columns[j], np.zeros(nlp.m)
        np.maximum.at(largest, i, np.where(np.isfinite(entries), entries, 0.0))
        rows = np.minimum(_inverse(largest), UP)
        objective = objective_factor(nlp, columns)
    return Scaling(how, columns, rows, objective)


def objective_factor(nlp: NLP, columns: np.ndarray | float = 1.0) -> float:
    """The factor that brings the largest entry of the objective's gradient at the first point, by variables in these units, to
    about 1; 1 where it vanishes. Costs may be in any unit: it is not cut."""
    return _to_one(np.max, nlp, np.clip(nlp.x0, nlp.x_lower, nlp.x_upper), columns) or 1.0


def lifted(nlp: NLP) -> float:
    """The factor that brings the sum of the sizes of the objective's gradient to about 1, which no mesh changes: at the first
    point, or beside it where it vanishes there; 1 where costs are not small."""
    start = np.clip(nlp.x0, nlp.x_lower, nlp.x_upper)
    aside = BESIDE * (1 + np.abs(start)) * np.cos(np.arange(nlp.n))
    factor = _to_one(np.sum, nlp, start) or _to_one(np.sum, nlp, np.clip(start + aside, nlp.x_lower, nlp.x_upper)) or 1.0
    return factor if factor > UP else 1.0


def beside_equations(nlp: NLP) -> float:
    """The factor for the objective of a program with algebraic unknowns, beside whose equations an integral over short intervals is
    flat: it brings the largest curvature by one variable at the first point to about 1, and is no less than ``lifted``."""
    if not nlp.algebraic.size:
        return lifted(nlp)
    start = np.clip(nlp.x0, nlp.x_lower, nlp.x_upper)
    return max(lifted(nlp), _power_to_one(np.max, ca.diag(nlp.hess(start, 1.0, np.zeros(nlp.m))).full().ravel()))


def objective_size(nlp: NLP, x: np.ndarray) -> float:
    """The size of the objective at a point: its value, or what its linear parts add up to without cancelling; of one that vanishes
    there a small part of its unit."""
    f, gradient = nlp.grad(x)
    own = float(np.abs(gradient.full().ravel()) @ np.abs(x))
    return max(abs(float(f)), own if np.isfinite(own) else 0.0, VANISHING / lifted(nlp))


def extraordinary(nlp: NLP) -> Scaling | None:
    """Factors by the guess where a program stands in numbers that solvers, whose tolerances and first steps are absolute, are not
    made for: huge or tiny unknowns (but for those that equations determine), tiny bounds (they are relaxed by absolute amounts),
    constraints whose Jacobian's entries are all tiny at the first point (``measured`` ones aside), or some of them huge, an
    objective whose gradient there is huge. None where there is nothing of that kind."""
    sizes, widths = _sizes(nlp)
    entries, steep = _row_sizes(nlp, np.clip(nlp.x0, nlp.x_lower, nlp.x_upper), np.ones(nlp.n)), objective_factor(nlp)
    own = np.array([measured(name) for name in groups(nlp.constraints)], dtype=bool)
    huge = (entries > MAX_ENTRY) & (_least_bounds(nlp) * MAX_ENTRY > entries)
    free = sizes[~_computed(nlp, len(sizes))]
    kinds = {"unknowns": ((free > 1 / MIN_SCALE) | ((free > 0) & (free < MIN_SCALE**2))).any(),
             "bounds": ((widths > 0) & (widths < MIN_SCALE)).any(),
             "rows": (((entries > 0) & (entries < MIN_SCALE) & ~own) | huge).any(), "costs": steep < STEEP}
    found = [kind for kind, there in kinds.items() if there]
    return replace(choose_scaling(nlp, "guess"), reasons=tuple(found)) if found else None


def _sizes(nlp: NLP) -> tuple[np.ndarray, np.ndarray]:
    """By name: the largest unknown at the first point, 0 where that is rounding; and the largest bound of what is free between
    two, 0 without."""
    group, start = _by_name(nlp.variables), np.clip(nlp.x0, nlp.x_lower, nlp.x_upper)
    ends = np.where(nlp.x_lower < nlp.x_upper, np.maximum(np.abs(nlp.x_lower), np.abs(nlp.x_upper)), 0.0)
    largest = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(largest, group, ends)
    sizes = _largest(group, start)
    sizes = np.where(_computed(nlp, len(sizes)) & (sizes < MIN_SCALE), 0.0, sizes)
    return np.where(sizes > NOISE * sizes.max(initial=0.0), sizes, 0.0), np.where(np.isfinite(largest), largest, 0.0)


def _computed(nlp: NLP, count: int) -> np.ndarray:
    """Whether each of so many names is of unknowns that equations determine: the guess solves these, its rounding is no unit."""
    return np.isin(np.arange(count), _by_name(nlp.variables)[nlp.algebraic])


def _least_bounds(nlp: NLP) -> np.ndarray:
    """The smallest bound but zero of every name of constraints, infinite without."""
    group, least = _by_name(nlp.constraints), np.minimum(*(np.where(np.isfinite(b) & (b != 0), np.abs(b), np.inf)
                                                          for b in (nlp.g_lower, nlp.g_upper)))
    found = np.full(int(group.max(initial=-1)) + 1, np.inf)
    np.minimum.at(found, group, least)
    return found


def _entries(nlp: NLP, point: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The largest entry of the scaled Jacobian for every name of variables."""
    jacobian = nlp.jac(point)[1]
    i, j = (np.array(k, dtype=int) for k in jacobian.sparsity().get_triplet())
    return _largest(_by_name(nlp.variables), np.array(jacobian.nonzeros()) * rows[i] * columns[j], j)


def _row_sizes(nlp: NLP, point: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The largest entry of the Jacobian, by variables in these units, for every name of constraints."""
    jacobian = nlp.jac(point)[1]
    i, j = (np.array(k, dtype=int) for k in jacobian.sparsity().get_triplet())
    return _largest(_by_name(nlp.constraints), np.array(jacobian.nonzeros()) * columns[j], i)


def _by_name(names: Sequence[str]) -> np.ndarray:
    """Numbers of the names, wherever they stand."""
    found = np.zeros(len(names), dtype=int)
    for number, own in enumerate(groups(names).values()):
        found[own] = number
    return found


def _largest(group: np.ndarray, values: np.ndarray, which: np.ndarray | slice = slice(None)) -> np.ndarray:
    """The largest magnitude of finite values in each group, of the members ``which`` that they belong to."""
    largest = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(largest, group[which], np.where(np.isfinite(values), np.abs(values), 0.0))
    return largest


def _to_one(norm: Callable[..., Any], nlp: NLP, point: np.ndarray, columns: np.ndarray | float = 1.0) -> float:
    """The power of two that brings a norm of the objective's gradient to about 1; 0 where that is 0."""
    return _power_to_one(norm, nlp.grad(point)[1].full().ravel() * columns)


def _power_to_one(norm: Callable[..., Any], values: np.ndarray) -> float:
    """The power of two that brings a norm of the sizes of finite values to about 1; 0 where that is 0."""
    size = float(norm(np.abs(values[np.isfinite(values)]), initial=0.0))
    return float(2.0 ** -np.round(np.log2(size))) if size > 0 else 0.0


def scaled(nlp: NLP, how: str | Scaling, magnitudes: np.ndarray | None = None) -> tuple[NLP, Unscale]:
    """The program in scaled variables, constraints and objective, with the same names and stages, and the way back."""
    s = how if isinstance(how, Scaling) else choose_scaling(nlp, how, magnitudes)
    back, diagnose = Unscale(s), nlp.diagnose
    z, sigma, lam = ca.MX.sym("x", nlp.n), ca.MX.sym("sigma"), ca.MX.sym("lam_g", nlp.m)
    x = s.columns * z
    (f, gradient), (g, jacobian) = nlp.grad(x), nlp.jac(x)

    def weighted(matrix: ca.MX, left: np.ndarray) -> ca.MX:
        i, j = (np.array(k, dtype=int) for k in matrix.sparsity().get_triplet())
        return ca.MX(matrix.sparsity(), ca.vec(matrix.nz[:]) * (left[i] * s.columns[j])) if matrix.nnz() else matrix

    def seen(point: np.ndarray) -> tuple[Finding, ...]:
        assert diagnose is not None
        return diagnose(np.asarray(point) * s.columns)

    second = weighted(nlp.hess(x, sigma * s.objective, lam * s.rows), s.columns)
    approximate: Callable[..., Any] | None = nlp.gauss_newton
    gauss_newton = None if approximate is None else ca.Function(
        "gauss_newton", [z, sigma], [weighted(approximate(x, sigma * s.objective), s.columns)], ["x", "sigma"], ["hessian"])
    functions = Functions(
        f=ca.Function("f", [z], [s.objective * nlp.f(x)], ["x"], ["f"]),
        g=ca.Function("g", [z], [s.rows * nlp.g(x)], ["x"], ["g"]),
        grad=ca.Function("gradient", [z], [s.objective * f, s.objective * s.columns * gradient], ["x"], ["f", "gradient"]),
        jac=ca.Function("jacobian", [z], [s.rows * g, weighted(jacobian, s.rows)], ["x"], ["g", "jacobian"]),
        hess=ca.Function("hessian", [z, sigma, lam], [second], ["x", "sigma", "lam_g"], ["hessian"]),
        gauss_newton=gauss_newton)
    inner = replace(nlp, functions=functions, diagnose=None if diagnose is None else seen, keep=(nlp.keep, nlp))
    return back.limited(inner, nlp), back


def _power(values: np.ndarray, largest: float = LARGEST) -> np.ndarray:
    return np.asarray(2.0 ** np.round(np.log2(np.clip(values, 1 / largest, largest))))


def _inverse(largest: np.ndarray, most: float = LARGEST) -> np.ndarray:
    """Factors that bring the largest entries to about 1; 1 where there are none."""
    return _power(1.0 / np.where(largest > 0, largest, 1.0), most)
