"""Loops over knots in Numba: rollout, expansion, feedback line search; costs include the terms of hard constraints.

Steps and their derivatives are kernels called by address, or loops over the robot (``ocp.shooting.engine.knots``). One binary serves
every robot: addresses are arguments and sizes come from the arrays. Nothing is allocated, no Python object is touched. The
records own their memory, so two threads must not share one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.kernels.calls import address_of, row_address
from ocp.shooting.engine.augmented import Held, penalty, slopes, stiffness
from ocp.shooting.engine.knots import Call, Derivatives, Step, bend, differentiate, run, take
from ocp.shooting.engine.riccati import Expansion, Policy, costates, projected_gradient


class Horizon(NamedTuple):
    """What stays fixed: t [N+1] s, h [1] s, parameters p [np], control bounds lower, upper [m], largest coordinate."""

    t: np.ndarray
    h: np.ndarray
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    limit: float


class Path(NamedTuple):
    """States x [N+1, nx], controls u [N, m] and costs [N+1] (the last is the final cost)."""

    x: np.ndarray
    u: np.ndarray
    cost: np.ndarray


class Rows(NamedTuple):
    """The rows of hard constraints at the knots before the last, and at the last."""

    path: Held
    final: Held


@njit(cache=True)
def _held(rows: Rows, horizon: Horizon, path: Path, k: int) -> float:
    """Augmented terms of knot k."""
    N = path.u.shape[0]
    if k < N:
        return penalty(rows.path, horizon.t, path.x, path.u, horizon.p, k, k, k)
    return penalty(rows.final, horizon.t, path.x, path.u, horizon.p, N, 0, N - 1)


@njit(cache=True)
def _at_end(kernel: Call, horizon: Horizon, path: Path) -> None:
    N = path.u.shape[0]
    kernel.arg[0] = row_address(horizon.t, N)
    kernel.arg[1] = row_address(path.x, N)
    kernel.arg[2] = address_of(horizon.p)


@njit(cache=True)
def _advance(step: Step, horizon: Horizon, path: Path, k: int) -> bool:
    """Fill x[k + 1] and cost[k]; False when the state leaves the finite range."""
    failed = take(step, horizon.t, path.x, path.u, horizon.p, horizon.h, k, 0, path.x, k + 1, path.cost, k) != 0
    for i in range(path.x.shape[1]):
        failed = failed or not abs(path.x[k + 1, i]) <= horizon.limit
    return not (failed or not np.isfinite(path.cost[k]))


@njit(cache=True)
def _end(final: Call, horizon: Horizon, path: Path) -> bool:
    N = path.u.shape[0]
    _at_end(final, horizon, path)
    final.res[0] = row_address(path.cost, N)
    return run(final) == 0 and np.isfinite(path.cost[N])


@njit(cache=True)
def rollout(step: Step, final: Call, rows: Rows, horizon: Horizon, path: Path) -> tuple[float, int]:
    """Fill states and costs from x[0] and u. Returns (total of costs and augmented terms, -1), or (inf, knot k whose step, cost
    or constraint failed)."""
    N = path.u.shape[0]
    total = 0.0
    for k in range(N):
        if not _advance(step, horizon, path, k):
            return np.inf, k
        total += float(path.cost[k]) + _held(rows, horizon, path, k)
        if not np.isfinite(total):
            return np.inf, k
    if not _end(final, horizon, path):
        return np.inf, N
    total += float(path.cost[N]) + _held(rows, horizon, path, N)
    return (total, -1) if np.isfinite(total) else (np.inf, N)


@njit(cache=True)
def expand(kernel: Derivatives, final: Call, rows: Rows, horizon: Horizon, path: Path, model: Expansion, policy: Policy,
           hessian: bool) -> tuple[int, float]:
    """Fill the quadratic model along a path, the costates and the gradient.

    ``hessian``: whether the kernel hands back the Hessians too; those of the augmented terms are added by ``stiffen``. Returns
    (failed knot or -1, projected gradient norm).
    """
    for k in range(path.u.shape[0]):
        if differentiate(kernel, horizon.t, path.x, path.u, horizon.p, horizon.h, k, model, hessian) != 0:
            return k, np.nan
        if slopes(rows.path, horizon.t, path.x, path.u, horizon.p, k, k, k, model.lx[k], model.lu[k]) != 0:
            return k, np.nan
    return _finish(final, rows, horizon, path, model, policy)


@njit(cache=True)
def _finish(final: Call, rows: Rows, horizon: Horizon, path: Path, model: Expansion, policy: Policy) -> tuple[int, float]:
    N = path.u.shape[0]
    _at_end(final, horizon, path)
    final.res[0] = row_address(model.lx, N)
    final.res[1] = row_address(model.lxx, N)
    # no final row depends on the control: its derivative by it has no place to go
    if run(final) != 0 or slopes(rows.final, horizon.t, path.x, path.u, horizon.p, N, 0, N - 1, model.lx[N],
                                 model.lu[N - 1, :0]) != 0:
        return N, np.nan
    costates(model, policy.costate, policy.gradient)
    return -1, projected_gradient(path.u, policy.gradient, horizon.lower, horizon.upper)


@njit(cache=True)
def curve(kernel: Derivatives, horizon: Horizon, path: Path, model: Expansion, policy: Policy) -> int:
    """Replace the Hessians by the full ones, which need the costates. Returns the failed knot or -1."""
    for k in range(path.u.shape[0]):
        if bend(kernel, horizon.t, path.x, path.u, horizon.p, horizon.h, k, policy.costate, model) != 0:
            return k
    return -1


@njit(cache=True)
def stiffen(rows: Rows, horizon: Horizon, path: Path, model: Expansion, exact: bool) -> int:
    """Add the Hessians of the augmented terms to the quadratic model. Returns the failed knot or -1."""
    N = path.u.shape[0]
    for k in range(N):
        if stiffness(rows.path, horizon.t, path.x, path.u, horizon.p, k, k, k, exact, model.lxx[k], model.luu[k],
                     model.lux[k]) != 0:
            return k
    failed = stiffness(rows.final, horizon.t, path.x, path.u, horizon.p, N, 0, N - 1, exact, model.lxx[N], model.luu[N - 1, :0, :0],
                       model.lux[N - 1, :0])
    return N if failed != 0 else -1


@njit(cache=True)
def line_search(step: Step, final: Call, rows: Rows, difference: Call, horizon: Horizon, path: Path, policy: Policy,
                trial: Path, dx: np.ndarray, cost: float, linear: float, quadratic: float, armijo: float,
                reduction: float, shortest: float, rounding: float) -> tuple[float, float, int, int]:
    """Roll out ``u + a k + K minus(x, x_new)`` within the bounds, a = 1, reduction, ..., until the cost falls enough.

    Accepts when ``cost - new >= armijo (expected decrease at a) - rounding``. Returns (a, new cost, trials, failed
    knot of the last trial or -1); a = 0 when no step was accepted. ``dx`` [n] is scratch, ``trial`` receives the path.
    """
    N, m, n = policy.K.shape
    a = 1.0
    trials = 0
    failed = -1
    while a >= shortest:
        trials += 1
        failed = -1
        total = 0.0
        trial.x[0] = path.x[0]
        for k in range(N):
            difference.arg[0] = row_address(path.x, k)
            difference.arg[1] = row_address(trial.x, k)
            difference.res[0] = address_of(dx)
            if run(difference) != 0:
                failed = k
                break
            for i in range(m):
                value = path.u[k, i] + a * policy.k[k, i]
                for j in range(n):
                    value += policy.K[k, i, j] * dx[j]
                trial.u[k, i] = min(max(value, horizon.lower[i]), horizon.upper[i])
            if not _advance(step, horizon, trial, k):
                failed = k
                break
            total += float(trial.cost[k]) + _held(rows, horizon, trial, k)
            if not np.isfinite(total):
                failed = k
                break
        if failed < 0 and not _end(final, horizon, trial):
            failed = N
        if failed < 0:
            total += float(trial.cost[N]) + _held(rows, horizon, trial, N)
            if cost - total >= -armijo * (a * linear + a * a * quadratic) - rounding:
                return a, total, trials, failed
        a *= reduction
    return 0.0, cost, trials, failed


@njit(cache=True)
def sample(step: Step, t: np.ndarray, x: np.ndarray, u: np.ndarray, p: np.ndarray, h: np.ndarray,
           x_out: np.ndarray, cost: np.ndarray) -> int:
    """``x_out[i] = step(t[i], x[i], u[i], p, h[i])``: one step of its own length from each row."""
    for i in range(t.shape[0]):
        if take(step, t, x, u, p, h, i, i, x_out, i, cost, 0) != 0:
            return i
    return -1
