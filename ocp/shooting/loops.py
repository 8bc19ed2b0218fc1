"""Loops over knots in Numba: rollout, expansion, feedback line search. They call kernels by address.

One binary serves every robot: addresses are arguments and sizes come from the arrays. Nothing is allocated, no Python
object is touched. A ``Call`` owns the argument arrays of its kernel, so two threads must not share one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.kernels.calls import address_of, call, row_address
from ocp.shooting.riccati import Expansion, Policy, costates, projected_gradient


class Call(NamedTuple):
    """A kernel ready to be called: its address and handle, pointers to arguments and results, work arrays."""

    address: int
    handle: int
    arg: np.ndarray
    res: np.ndarray
    iw: np.ndarray
    w: np.ndarray


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


@njit(cache=True)
def _run(kernel: Call) -> int:
    return call(kernel.address, kernel.handle, kernel.arg, kernel.res, kernel.iw, kernel.w)


@njit(cache=True)
def _bind_stage(kernel: Call, horizon: Horizon) -> None:
    kernel.arg[3] = address_of(horizon.p)
    kernel.arg[4] = address_of(horizon.h)


@njit(cache=True)
def _at_stage(kernel: Call, horizon: Horizon, path: Path, k: int) -> None:
    kernel.arg[0] = row_address(horizon.t, k)
    kernel.arg[1] = row_address(path.x, k)
    kernel.arg[2] = row_address(path.u, k)


@njit(cache=True)
def _at_end(kernel: Call, horizon: Horizon, path: Path) -> None:
    N = path.u.shape[0]
    kernel.arg[0] = row_address(horizon.t, N)
    kernel.arg[1] = row_address(path.x, N)
    kernel.arg[2] = address_of(horizon.p)


@njit(cache=True)
def _advance(step: Call, horizon: Horizon, path: Path, k: int) -> bool:
    """Fill x[k + 1] and cost[k]; False when the state leaves the finite range."""
    _at_stage(step, horizon, path, k)
    step.res[0] = row_address(path.x, k + 1)
    step.res[1] = row_address(path.cost, k)
    failed = _run(step) != 0
    for i in range(path.x.shape[1]):
        failed = failed or not abs(path.x[k + 1, i]) <= horizon.limit
    return not (failed or not np.isfinite(path.cost[k]))


@njit(cache=True)
def _end(final: Call, horizon: Horizon, path: Path) -> bool:
    N = path.u.shape[0]
    _at_end(final, horizon, path)
    final.res[0] = row_address(path.cost, N)
    return _run(final) == 0 and np.isfinite(path.cost[N])


@njit(cache=True)
def rollout(step: Call, final: Call, horizon: Horizon, path: Path) -> tuple[float, int]:
    """Fill states and costs from x[0] and u. Returns (total cost, -1) or (inf, knot k whose step or cost failed)."""
    N = path.u.shape[0]
    _bind_stage(step, horizon)
    total = 0.0
    for k in range(N):
        if not _advance(step, horizon, path, k):
            return np.inf, k
        total += float(path.cost[k])
    if not _end(final, horizon, path):
        return np.inf, N
    return total + float(path.cost[N]), -1


@njit(cache=True)
def expand(kernel: Call, final: Call, horizon: Horizon, path: Path, model: Expansion, policy: Policy,
           hessian: bool) -> tuple[int, float]:
    """Fill the quadratic model along a path, the costates and the gradient.

    ``hessian``: whether the kernel hands back the Hessians too. Returns (failed knot or -1, projected gradient norm).
    """
    N = path.u.shape[0]
    _bind_stage(kernel, horizon)
    for k in range(N):
        _at_stage(kernel, horizon, path, k)
        kernel.res[0] = row_address(model.lx, k)
        kernel.res[1] = row_address(model.lu, k)
        kernel.res[2] = row_address(model.A, k)
        kernel.res[3] = row_address(model.B, k)
        if hessian:
            kernel.res[4] = row_address(model.lxx, k)
            kernel.res[5] = row_address(model.luu, k)
            kernel.res[6] = row_address(model.lux, k)
        if _run(kernel) != 0:
            return k, np.nan
    return _finish(final, horizon, path, model, policy)


@njit(cache=True)
def _finish(final: Call, horizon: Horizon, path: Path, model: Expansion, policy: Policy) -> tuple[int, float]:
    N = path.u.shape[0]
    _at_end(final, horizon, path)
    final.res[0] = row_address(model.lx, N)
    final.res[1] = row_address(model.lxx, N)
    if _run(final) != 0:
        return N, np.nan
    costates(model, policy.costate, policy.gradient)
    return -1, projected_gradient(path.u, policy.gradient, horizon.lower, horizon.upper)


@njit(cache=True)
def curve(kernel: Call, horizon: Horizon, path: Path, model: Expansion, policy: Policy) -> int:
    """Replace the Hessians by the full ones, which need the costates. Returns the failed knot or -1."""
    _bind_stage(kernel, horizon)
    for k in range(path.u.shape[0]):
        _at_stage(kernel, horizon, path, k)
        kernel.arg[5] = row_address(policy.costate, k + 1)
        kernel.res[0] = row_address(model.lxx, k)
        kernel.res[1] = row_address(model.luu, k)
        kernel.res[2] = row_address(model.lux, k)
        if _run(kernel) != 0:
            return k
    return -1


class Probe(NamedTuple):
    """Work arrays of finite differences: one state and control, the two ends of a difference and its results."""

    x: np.ndarray  # [nx]
    u: np.ndarray  # [m]
    dx: np.ndarray  # [n]
    ends: np.ndarray  # [2, nx]
    cost: np.ndarray  # [1]
    change: np.ndarray  # [2, n]
    lx: np.ndarray  # [2, n]
    lu: np.ndarray  # [2, m]


@njit(cache=True)
def expand_differences(gradient: Call, step: Call, plus: Call, difference: Call, final: Call, horizon: Horizon,
                       path: Path, model: Expansion, policy: Policy, probe: Probe,
                       epsilon: float) -> tuple[int, float]:
    """``expand`` by central differences on the manifold: A, B from the step, Hessians from the cost gradient.

    The gradient is taken in the tangent space of the displaced state; its derivative differs from the Hessian only by
    an antisymmetric part, which goes when lxx is symmetrised.
    """
    N, n, m = path.u.shape[0], model.A.shape[1], path.u.shape[1]
    for kernel in (gradient, step):
        _bind_stage(kernel, horizon)
    for k in range(N):
        _at_stage(gradient, horizon, path, k)
        gradient.res[0] = row_address(model.lx, k)
        gradient.res[1] = row_address(model.lu, k)
        if _run(gradient) != 0:
            return k, np.nan
        gradient.arg[1] = address_of(probe.x)
        gradient.arg[2] = address_of(probe.u)
        step.arg[0] = row_address(horizon.t, k)
        step.arg[1] = address_of(probe.x)
        step.arg[2] = address_of(probe.u)
        step.res[1] = address_of(probe.cost)
        for j in range(n + m):
            for side in range(2):
                move = epsilon if side == 1 else -epsilon
                probe.u[:] = path.u[k]
                probe.dx[:] = 0.0
                if j < n:
                    probe.dx[j] = move
                else:
                    probe.u[j - n] += move
                plus.arg[0] = row_address(path.x, k)
                plus.arg[1] = address_of(probe.dx)
                plus.res[0] = address_of(probe.x)
                gradient.res[0] = row_address(probe.lx, side)
                gradient.res[1] = row_address(probe.lu, side)
                step.res[0] = row_address(probe.ends, side)
                difference.arg[0] = row_address(path.x, k + 1)
                difference.arg[1] = row_address(probe.ends, side)
                difference.res[0] = row_address(probe.change, side)
                if _run(plus) != 0 or _run(step) != 0 or _run(gradient) != 0 or _run(difference) != 0:
                    return k, np.nan
            scale = 0.5 / epsilon
            if j < n:
                for i in range(n):
                    model.A[k, i, j] = (probe.change[1, i] - probe.change[0, i]) * scale
                    model.lxx[k, i, j] = (probe.lx[1, i] - probe.lx[0, i]) * scale
                for i in range(m):
                    model.lux[k, i, j] = (probe.lu[1, i] - probe.lu[0, i]) * scale
            else:
                for i in range(n):
                    model.B[k, i, j - n] = (probe.change[1, i] - probe.change[0, i]) * scale
                for i in range(m):
                    model.luu[k, i, j - n] = (probe.lu[1, i] - probe.lu[0, i]) * scale
        _symmetrise(model.lxx[k])
        _symmetrise(model.luu[k])
    return _finish(final, horizon, path, model, policy)


@njit(cache=True)
def _symmetrise(matrix: np.ndarray) -> None:
    for i in range(matrix.shape[0]):
        for j in range(i):
            mean = 0.5 * (matrix[i, j] + matrix[j, i])
            matrix[i, j] = mean
            matrix[j, i] = mean


@njit(cache=True)
def line_search(step: Call, final: Call, difference: Call, horizon: Horizon, path: Path, policy: Policy,
                trial: Path, dx: np.ndarray, cost: float, linear: float, quadratic: float, armijo: float,
                reduction: float, shortest: float, rounding: float) -> tuple[float, float, int, int]:
    """Roll out ``u + a k + K minus(x, x_new)`` within the bounds, a = 1, reduction, ..., until the cost falls enough.

    Accepts when ``cost - new >= armijo (expected decrease at a) - rounding``. Returns (a, new cost, trials, failed
    knot of the last trial or -1); a = 0 when no step was accepted. ``dx`` [n] is scratch, ``trial`` receives the path.
    """
    N, m, n = policy.K.shape
    _bind_stage(step, horizon)
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
            if _run(difference) != 0:
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
            total += float(trial.cost[k])
        if failed < 0 and not _end(final, horizon, trial):
            failed = N
        if failed < 0:
            total += float(trial.cost[N])
            if cost - total >= -armijo * (a * linear + a * a * quadratic) - rounding:
                return a, total, trials, failed
        a *= reduction
    return 0.0, cost, trials, failed


@njit(cache=True)
def sample(step: Call, t: np.ndarray, x: np.ndarray, u: np.ndarray, p: np.ndarray, h: np.ndarray,
           x_out: np.ndarray, cost: np.ndarray) -> int:
    """``x_out[i] = step(t[i], x[i], u[i], p, h[i])``: one step of its own length from each row."""
    step.arg[3] = address_of(p)
    step.res[1] = address_of(cost)
    for i in range(t.shape[0]):
        step.arg[0] = row_address(t, i)
        step.arg[1] = row_address(x, i)
        step.arg[2] = row_address(u, i)
        step.arg[4] = row_address(h, i)
        step.res[0] = row_address(x_out, i)
        if _run(step) != 0:
            return i
    return -1
