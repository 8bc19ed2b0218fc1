"""Programs whose unknowns form a timeline, unfolded into stages for solvers that want them.

In collocation an interval depends on the knots at both of its ends, and durations and parameters belong to no interval. Copies make
stages of such a program: stage k has the unknowns of knot k and a copy of the static ones as its state, those inside the interval
and a copy of the knot to come as its control. The copies follow by ``copy of x_{k+1} - x_{k+1} = 0`` and ``static_k - static_{k+1}
= 0``. No function
is evaluated twice: entries of gradient, Jacobian and Hessian move to the copy that their stage has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.nlp.program import NLP, Functions
from ocp.nlp.result import NLPResult, Progress, Run, Warm, WatchPoint
from ocp.nlp.stages import Stages, Timeline

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Unfolded:
    """A program with copies, which has stages, and the way to it and back.

    unfold(x, lam_x, lam_g) -> the same of the program with copies; fold: from there back, multipliers of copies added up.
    """

    nlp: NLP
    unfold: Callable[[Array], Array]
    fold: Callable[[Array, Array, Array], tuple[Array, Array, Array]]


class _Copies:
    """Where the unknowns of each stage stand in the new program."""

    def __init__(self, timeline: Timeline, n: int):
        self.timeline, N = timeline, timeline.intervals
        self.place: list[dict[int, int]] = []  # of every stage: old column -> new column
        source: list[int] = []
        primary = np.full(n, -1)
        states, controls = [], []
        for k in range(N + 1):
            own: dict[int, int] = {}
            state = [*timeline.knots[k].tolist(), *timeline.static.tolist()]
            for c in state:
                own[c] = len(source)
                if primary[c] < 0:
                    primary[c] = len(source)
                source.append(c)
            states.append(np.arange(len(source) - len(state), len(source)))
            inner = timeline.inner[k].tolist() if k < N else []
            copies = timeline.knots[k + 1].tolist() if k < N and not len(timeline.dynamics) else []
            for c in (*inner, *copies):
                own[c] = len(source)
                if c in inner:
                    primary[c] = len(source)
                source.append(c)
            controls.append(np.arange(len(source) - len(inner) - len(copies), len(source)))
            self.place.append(own)
        if np.any(primary < 0):
            raise ProblemError(f"column {int(np.argmin(primary))} belongs to no stage of the timeline", where="nlp")
        self.source, self.primary = np.array(source), primary
        self.states, self.controls = tuple(states), tuple(controls)


class _Rows:
    """The constraints of the program with copies: those of the program in the columns that their stages have, then those that hold
    copies together, ``links`` times the unknowns.

    columns: where the nonzeros of the Jacobian go; rows, entries: where those of the links go, numbered from 0 and from nlp.m on.
    """

    def __init__(self, nlp: NLP, copies: _Copies):
        timeline = copies.timeline
        r, c = (np.array(i, dtype=int) for i in nlp.jac.sparsity_out(1).get_triplet())
        stage = _stages_of_rows(nlp, copies, r, c)
        after = np.full(nlp.m, -1)  # of constraints of dynamics: the knot to come
        for k, own in enumerate(timeline.dynamics):
            stage[own] = k
            after[own] = timeline.knots[k + 1]
        self.of_program = r
        self.columns = np.array([copies.primary[j] if after[i] == j else copies.place[stage[i]][j]
                                 for i, j in zip(r, c, strict=True)], dtype=int)
        self.names: list[str] = []
        rows: list[int] = []
        entries: list[int] = []
        values: list[float] = []
        dynamics: list[Array] = []
        self.count = nlp.m
        for k in range(timeline.intervals):
            here = timeline.dynamics[k].tolist() if len(timeline.dynamics) else []
            pairs = [] if len(timeline.dynamics) else [
                (copies.place[k][j], copies.primary[j], j) for j in timeline.knots[k + 1].tolist()]
            pairs += [(copies.place[k][j], copies.place[k + 1][j], j) for j in timeline.static.tolist()]
            for one, other, j in pairs:
                rows += [self.count, self.count]
                entries += [one, other]
                values += [1.0, -1.0]
                self.names.append(f"copy of {nlp.variables[j]} in interval {k}")
                here.append(self.count)
                self.count += 1
            dynamics.append(np.array(here, dtype=int))
        path: list[list[int]] = [[] for _ in range(timeline.intervals + 1)]
        for i in range(nlp.m):
            if after[i] < 0:
                path[stage[i]].append(i)
        self.rows, self.entries, self.values = np.array(rows, dtype=int), np.array(entries, dtype=int), ca.DM(values)
        self.links = ca.DM.triplet([i - nlp.m for i in rows], entries, values, self.count - nlp.m, len(copies.source))
        self.stages = Stages(copies.states, copies.controls, tuple(dynamics), tuple(np.array(p, dtype=int) for p in path))


class Folded(NamedTuple):
    """x [n] and its multipliers lam_x [n] and lam_g [m] of the program before it was unfolded."""

    x: Array
    lam_x: Array
    lam_g: Array


def unfolded(nlp: NLP, timeline: Timeline) -> Unfolded:
    """The program with copies. Raises ProblemError naming a row or a pair of unknowns that is not of one stage and the knot to
    come."""
    copies = _Copies(timeline, nlp.n)
    rows = _Rows(nlp, copies)
    lower, upper = _bounds(nlp, copies)
    zeros = np.zeros(rows.count - nlp.m)
    new = replace(
        nlp, functions=_functions(nlp, copies, rows), x0=nlp.x0[copies.source], x_lower=lower, x_upper=upper,
        g_lower=np.r_[nlp.g_lower, zeros], g_upper=np.r_[nlp.g_upper, zeros],
        variables=_names(nlp, copies), constraints=(*nlp.constraints, *rows.names),
        diagnose=None if nlp.diagnose is None else (lambda values: nlp.diagnose(values[copies.primary]) if nlp.diagnose else ()),
        stages=rows.stages, timeline=None)

    def fold(x: Array, lam_x: Array, lam_g: Array) -> Folded:
        return Folded(x[copies.primary], np.bincount(copies.source, lam_x, nlp.n), lam_g[:nlp.m])

    return Unfolded(new, lambda values: np.asarray(values)[copies.source], fold)


def _bounds(nlp: NLP, copies: _Copies) -> tuple[Array, Array]:
    """Bounds of the unknowns, and of the copies of what all stages share: without these FATROP wanders where a duration is free (a
    swing-up in least time took 118 iterations instead of 29). With bounds on the copies of knots, too, it fails on most
    problems."""
    upper = np.full(len(copies.source), np.inf)
    lower = -upper
    lower[copies.primary], upper[copies.primary] = nlp.x_lower, nlp.x_upper
    static = np.isin(copies.source, copies.timeline.static)
    lower[static], upper[static] = nlp.x_lower[copies.source[static]], nlp.x_upper[copies.source[static]]
    return lower, upper


def _functions(nlp: NLP, copies: _Copies, rows: _Rows) -> Functions:
    """The functions of the program at its own unknowns, their entries moved to where copies are."""
    n, primary = len(copies.source), copies.primary.tolist()
    x, sigma, lam = ca.MX.sym("x", n), ca.MX.sym("sigma"), ca.MX.sym("lam", rows.count)
    old = x[primary]
    copied = ca.mtimes(rows.links, x)
    g_old, J_old = nlp.jac(old)
    f_old, gradient = nlp.grad(old)
    scattered = ca.MX(n, 1)
    scattered[primary] = gradient
    pattern, order = _pattern(rows.count, n, np.r_[rows.of_program, rows.rows], np.r_[rows.columns, rows.entries])
    jac = ca.MX(pattern, ca.vertcat(J_old.nz[:], rows.values)[order.tolist()])
    hess = _moved(nlp, copies, nlp.hess(old, sigma, lam[:nlp.m]), nlp.hess.sparsity_out(0), n)
    gauss = None
    if nlp.gauss_newton is not None:
        moved = _moved(nlp, copies, nlp.gauss_newton(old, sigma), nlp.gauss_newton.sparsity_out(0), n)
        gauss = ca.Function("gauss_newton", [x, sigma], [moved], ["x", "sigma"], ["hessian"])
    return Functions(
        f=ca.Function("f", [x], [nlp.f(old)], ["x"], ["f"]),
        g=ca.Function("g", [x], [ca.vertcat(nlp.g(old), copied)], ["x"], ["g"]),
        grad=ca.Function("gradient", [x], [f_old, ca.densify(scattered)], ["x"], ["f", "gradient"]),
        jac=ca.Function("jacobian", [x], [ca.vertcat(g_old, copied), jac], ["x"], ["g", "jacobian"]),
        hess=ca.Function("hessian", [x, sigma, lam], [hess], ["x", "sigma", "lam_g"], ["hessian"]), gauss_newton=gauss)


def through_copies(nlp: NLP, timeline: Timeline, prepare: Callable[[NLP], Run]) -> Run:
    """A solver of programs with stages as one of this program: what goes in is copied, what comes out folded."""
    own = unfolded(nlp, timeline)
    inner = prepare(own.nlp)

    def run(x0: Array, warm: Warm | None, progress: Progress | None, watch_point: WatchPoint | None) -> NLPResult:
        start = None if warm is None else Warm(own.unfold(warm.x), np.zeros(own.nlp.n), np.zeros(own.nlp.m), warm.mu)
        watch = None
        if watch_point is not None:
            due, take = watch_point
            watch = (due, lambda point, rows: take(Warm(*own.fold(point.x, point.lam_x, point.lam_g), point.mu), rows))
        found = inner(own.unfold(x0), start, progress, watch)
        x, lam_x, lam_g = own.fold(found.x, found.lam_x, found.lam_g)
        return replace(found, x=x, lam_x=lam_x, lam_g=lam_g)

    return run


def _stages_of_rows(nlp: NLP, copies: _Copies, r: Array, c: Array) -> Array:
    """The first stage that has all unknowns of a row; rows without unknowns stand in the first."""
    timeline, N = copies.timeline, copies.timeline.intervals
    at = np.full((nlp.n, 2), -1)  # first and last stage that an unknown is part of
    at[timeline.static] = (0, N)
    with_copies = not len(timeline.dynamics)
    for k in range(N + 1):
        at[timeline.knots[k]] = (max(0, k - 1) if with_copies else k, k)
        if k < N:
            at[timeline.inner[k]] = (k, k)
    low, high = np.zeros(nlp.m, dtype=int), np.full(nlp.m, N)
    mine = np.concatenate([np.zeros(0, dtype=int), *timeline.dynamics]) if len(timeline.dynamics) else np.zeros(0, dtype=int)
    np.maximum.at(low, r, at[c, 0])
    np.minimum.at(high, r, at[c, 1])
    wrong = np.setdiff1d(np.flatnonzero(low > high), mine)
    if len(wrong):
        touched = ", ".join(nlp.variables[j] for j in c[r == wrong[0]][:4])
        raise ProblemError(f"couples unknowns of several stages ({touched}, ...)", where=nlp.constraints[wrong[0]])
    return np.where(low > high, 0, high)  # a knot's own rows need no copy


def _pattern(m: int, n: int, rows: Array, columns: Array) -> tuple[ca.Sparsity, Array]:
    """A pattern of entries in any order, and which of them every nonzero is."""
    order = np.lexsort((rows, columns))
    return ca.Sparsity.triplet(m, n, rows[order].tolist(), columns[order].tolist()), order


def _moved(nlp: NLP, copies: _Copies, matrix: ca.MX, pattern: ca.Sparsity, n: int) -> ca.MX:
    """The upper triangle of a Hessian with its entries at the copies that one stage has of both unknowns."""
    r, c = (np.array(i, dtype=int) for i in pattern.get_triplet())
    timeline = copies.timeline
    home = np.full(nlp.n, -1)  # the stage of an unknown; static ones have none
    for k in range(timeline.intervals + 1):
        home[timeline.knots[k]] = k
        if k < timeline.intervals:
            home[timeline.inner[k]] = k
    first, second = np.empty(len(r), dtype=int), np.empty(len(r), dtype=int)
    for e, (i, j) in enumerate(zip(r, c, strict=True)):
        stages = {int(home[i]), int(home[j])} - {-1} or {0}
        own = next((copies.place[k] for k in sorted(stages, reverse=True) if i in copies.place[k] and j in copies.place[k]), None)
        if own is None:
            raise ProblemError(f"the Hessian couples {nlp.variables[i]!r} and {nlp.variables[j]!r}, which have no stage in common",
                               where="nlp")
        first[e], second[e] = own[i], own[j]
    full, order = _pattern(n, n, np.minimum(first, second), np.maximum(first, second))
    return ca.MX(full, matrix.nz[:][order.tolist()])


def _names(nlp: NLP, copies: _Copies) -> tuple[str, ...]:
    stage = np.concatenate([np.full(len(s) + len(u), k) for k, (s, u) in enumerate(zip(copies.states, copies.controls,
                                                                                       strict=True))])
    return tuple(nlp.variables[j] if copies.primary[j] == i else f"copy of {nlp.variables[j]} in stage {stage[i]}"
                 for i, j in enumerate(copies.source))
