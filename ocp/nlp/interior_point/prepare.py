"""The interior-point method made ready for a program: a run from one start after another."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from ocp.interrupts import seconds_left
from ocp.nlp.interior_point.elements import Loaded, load
from ocp.nlp.interior_point.fronts import THRESHOLD, Factors, Plan
from ocp.nlp.interior_point.iterate import PUSH, advance
from ocp.nlp.interior_point.order import plan, workspace
from ocp.nlp.interior_point.state import LOG, NO_ROOM, RUNNING, State, make_state
from ocp.nlp.options import SolverOptions
from ocp.nlp.program import NLP
from ocp.nlp.result import NLPResult, Progress, Run, Warm, WatchPoint, ended
from ocp.nlp.separable import Element, Gather, Matrix, Separable
from ocp.nlp.watch import Watch, interrupts
from ocp.problem import Finding, Kind, Status

Array = np.ndarray

#: barrier parameter at a cold start, and the least of a warm one, which is also its distance from bounds
MU_FIRST, MU_LEAST = 0.1, 1e-11
#: iterations between two looks at the keyboard, and after which a warm start begins again farther from its bounds
CHUNK = 20
#: room for fronts is doubled so often
DOUBLINGS = 8

#: status and ending by the codes of ``state``; kinds of those that say nothing beside their status are not used
_ENDINGS = ((Status.FAILED, Kind.SOLVER_STATUS), (Status.CONVERGED, Kind.SOLVER_STATUS), (Status.STALLED, Kind.NO_STEP),
            (Status.INFEASIBLE, Kind.SOLVER_STATUS), (Status.ITERATION_LIMIT, Kind.ITERATION_LIMIT),
            (Status.NOT_A_NUMBER, Kind.SOLVER_STATUS), (Status.FAILED, Kind.NO_DESCENT_DIRECTION),
            (Status.FAILED, Kind.OUT_OF_MEMORY), (Status.DIVERGED, Kind.ITERATES_DIVERGED))


class Workspace(NamedTuple):
    """Data shared by programs with the same functions and fixed unknowns; factors: one entry, replaced where it is too small."""

    loaded: Loaded
    order: Plan
    state: State
    factors: list[Factors]
    corrected: Array


def prepare(nlp: NLP, options: SolverOptions, made: dict[Any, Any] | None = None) -> Run:
    """A function that solves the program by the interior-point method of this package, from one start after another. made: what was
    made for a program with the same functions and other limits, which serves this one, too.

    A warm start gives x, multipliers and the barrier parameter. An interrupt ends a solve with the last iterate.
    """
    made = {} if made is None else made
    fixed = nlp.x_lower == nlp.x_upper
    if (key := fixed.tobytes()) not in made:
        if "loaded" not in made:
            made["loaded"] = load(nlp.separable or whole(nlp), options.hessian == "gauss_newton", "jit")
        made[key] = _workspace(nlp, options, made["loaded"], fixed)
    loaded, order, state, factors, corrected = made[key]

    def run(x0: Array, warm: Warm | None, progress: Progress | None, watch_point: WatchPoint | None) -> NLPResult:
        started = time.perf_counter()
        watch = Watch(progress, watch_point)
        push = PUSH if warm is None else MU_LEAST
        _start(nlp, options, state, x0, warm)
        chunk = CHUNK if progress is None and watch_point is None and seconds_left() == float("inf") else 1
        spare = 2.0
        with interrupts(watch.interrupt):
            while state.status == RUNNING and not watch.stop:
                advance(loaded.program, state, order, factors[0], corrected, push, chunk)
                if state.status == NO_ROOM and spare < 2.0 ** DOUBLINGS:
                    factors[0], spare = workspace(order, nlp.n + nlp.m, 2.0 * spare), 2.0 * spare
                    if not state.ready:
                        _start(nlp, options, state, x0, warm)  # ``begin`` had scaled bounds already
                    state.status = RUNNING
                if watch.heard(lambda first: _log(state, first), lambda rows: _point(nlp, state)):
                    break
                if warm is not None and warm.retry_mu and state.status == RUNNING and state.iteration >= CHUNK:
                    done = state.iteration, state.rows, state.evaluations
                    warm = replace(warm, mu=warm.retry_mu, retry_mu=0.0)
                    _start(nlp, options, state, x0, warm)
                    state.iteration, state.rows, state.evaluations = done
        if watch.error is not None:
            raise watch.error
        seconds = time.perf_counter() - started
        return _result(nlp, state, watch, seconds)

    return run


def _workspace(nlp: NLP, options: SolverOptions, loaded: Loaded, fixed: Array) -> Workspace:
    p = loaded.program
    order = plan(nlp.n, nlp.m, fixed, (p.hessian_rows, p.hessian_columns), (p.jacobian_rows, p.jacobian_columns), nlp.timeline)
    state = make_state(nlp.n, nlp.m, (len(p.jacobian_rows), len(p.hessian_rows)), options.max_iterations)
    return Workspace(loaded, order, state, [workspace(order, nlp.n + nlp.m)], np.zeros(nlp.m + 1)[:nlp.m])


def _start(nlp: NLP, options: SolverOptions, q: State, x0: Array, warm: Warm | None) -> None:
    q.clear()
    q.lower[:nlp.n], q.lower[nlp.n:], q.upper[:nlp.n], q.upper[nlp.n:] = nlp.x_lower, nlp.g_lower, nlp.x_upper, nlp.g_upper
    q.x[:] = x0 if warm is None else warm.x
    q.mu = MU_FIRST if warm is None or not np.isfinite(warm.mu) else max(warm.mu, MU_LEAST)
    q.tolerance, q.threshold = options.tolerance, THRESHOLD
    q.limit = options.max_iterations
    if warm is not None:
        q.warm = 1
        q.y[:] = warm.lam_g
        pushed = np.append(warm.lam_x, warm.lam_g)
        q.zl[:], q.zu[:] = np.maximum(-pushed, 0.0), np.maximum(pushed, 0.0)


def _point(nlp: NLP, q: State) -> Warm:
    scale, free = q.scale_f or 1.0, q.free[:nlp.n] == 1
    lam_x = np.where(free, (q.zu - q.zl)[:nlp.n], -q.lagrangian_gradient) / scale
    return Warm(q.x.copy(), lam_x, q.y * q.scale / scale, q.mu)


def _log(q: State, first: int) -> tuple[Mapping[str, float], ...]:
    return tuple({"iteration": k, **dict(zip(LOG, q.log[k].tolist(), strict=True))} for k in range(first, q.rows))


def _result(nlp: NLP, q: State, watch: Watch, seconds: float) -> NLPResult:
    point = _point(nlp, q)
    code = q.status
    status, kind = (Status.INTERRUPTED, Kind.SOLVER_STATUS) if code == RUNNING else _ENDINGS[code]
    status, ending = ended(nlp, point.x, status, Finding(kind, data={"solver": "interior_point"}))
    share = float(q.f_cycles / q.cycles) if q.cycles > 0 else 0.0
    return NLPResult(
        x=point.x, lam_x=point.lam_x, lam_g=point.lam_g, f=float(q.f / (q.scale_f or 1.0)), status=status,
        ending=ending, iterations=_log(q, 0), seconds={"solver": seconds, "functions": share * seconds},
        n_evaluations=q.evaluations, mu=point.mu)


def whole(nlp: NLP) -> Separable:
    """A program that states no elements, as one element; where some of its functions are loops in Python, it is called by it."""
    n, m = nlp.n, nlp.m
    inner = nlp
    while inner.separable is None and isinstance(inner.keep, tuple) and isinstance(inner.keep[-1], NLP):
        inner = inner.keep[-1]  # the program that was scaled
    by_python = inner.separable is not None and any(e.batched for e in inner.separable.elements)
    x, d = ca.MX.sym("x", n), ca.MX.sym("d", 0)
    s, mu = ca.MX.sym("s"), ca.MX.sym("mu", m)

    def of(name: str, more: list[Any], outputs: list[Any]) -> ca.Function:
        return ca.Function(name, [x, d, *more], [ca.densify(value) for value in outputs])

    def nonzeros(matrix: ca.MX) -> ca.MX:
        return ca.vec(matrix.nz[:]) if matrix.nnz() else ca.MX(0, 1)

    (f, gradient), (g, J) = nlp.grad(x), nlp.jac(x)
    gauss = None if nlp.gauss_newton is None else of("gauss_newton", [s], [nonzeros(nlp.gauss_newton(x, s))])
    element = Element("program", np.arange(n)[None, :], np.zeros((1, 0)), np.ones(1), m, of("f", [], [nlp.f(x)]),
                      of("g", [], [nlp.g(x)]), of("gradient", [], [f, gradient]), of("jacobian", [], [g, nonzeros(J)]),
                      of("hessian", [s, mu], [nonzeros(nlp.hess(x, s, mu))]), gauss, batched=by_python)
    return Separable(n, m, (element,), (np.zeros(m + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)), _all(m),
                     _matrix(nlp.jac.sparsity_out(1)), _matrix(nlp.hess.sparsity_out(0)),
                     None if nlp.gauss_newton is None else _matrix(nlp.gauss_newton.sparsity_out(0)))


def _all(count: int) -> Gather:
    return Gather(np.arange(count + 1), np.arange(count), np.ones(count), np.zeros(count))


def _matrix(pattern: ca.Sparsity) -> Matrix:
    return Matrix(np.array(pattern.colind(), dtype=np.int64), np.array(pattern.row(), dtype=np.int64), _all(pattern.nnz()))
