"""Inner loops of inverse kinematics in Numba: damped Newton within joint limits, from many starts, kernels called by address.

One binary serves every robot and task list: addresses are arguments and sizes come from the arrays. No Python object is
touched. ``ocp.control.engine`` runs this source as plain Python until compiling it pays.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dynamics.kernels.calls import address_of, call
from ocp.control.arrays import CONVERGED, EXHAUSTED, FAILED, STATIONARY, Box, Evaluator, Scratch, Trace, Weights
from ocp.control.box_qp import box_qp


@njit(cache=True)
def evaluate(f: Evaluator, q: np.ndarray, d: np.ndarray, q_next: np.ndarray, e: np.ndarray, Jt: np.ndarray) -> bool:
    """Fill q_next = q [+] d, e and Jt [nv, m] (J transposed: kernels are column-major). False when something is not finite."""
    f.arg[0] = address_of(q)
    f.arg[1] = address_of(d)
    f.arg[2] = address_of(f.p)
    f.res[0] = address_of(q_next)
    f.res[1] = address_of(e)
    f.res[2] = address_of(Jt)
    failed = call(f.address, f.handle, f.arg, f.res, f.iw, f.w) != 0
    total = 0.0
    for i in range(e.size):
        total += e[i] * e[i]
    return not failed and np.isfinite(total)


@njit(cache=True)
def cost_of(e: np.ndarray, weights: Weights) -> float:
    """1/2 sum of weight e²."""
    total = 0.0
    for i in range(e.size):
        r = weights.root[i] * e[i]
        total += r * r
    return 0.5 * total


@njit(cache=True)
def within_tolerance(e: np.ndarray, weights: Weights) -> bool:
    """Whether the error e [m] of every task is within its tolerance."""
    for k in range(weights.tolerance.size):
        total = 0.0
        for i in range(weights.starts[k], weights.starts[k + 1]):
            total += e[i] * e[i]
        if not total <= weights.tolerance[k] * weights.tolerance[k]:
            return False
    return True


@njit(cache=True)
def _normal_equations(e: np.ndarray, Jt: np.ndarray, weights: Weights, H: np.ndarray, g: np.ndarray) -> float:
    """H = J'WJ, g = J'We; returns the largest diagonal entry of H."""
    nv, m = Jt.shape
    top = 0.0
    for i in range(nv):
        slope = 0.0
        for r in range(m):
            slope += Jt[i, r] * weights.root[r] * weights.root[r] * e[r]
        g[i] = slope
        for j in range(i + 1):
            total = 0.0
            for r in range(m):
                total += Jt[i, r] * weights.root[r] * weights.root[r] * Jt[j, r]
            H[i, j] = total
            H[j, i] = total
        top = max(top, H[i, i])
    return top


@njit(cache=True)
def step_bounds(box: Box, q: np.ndarray, largest: float, lo: np.ndarray, hi: np.ndarray) -> None:
    """Bounds on the next step: the limits, and no component beyond ``largest``."""
    for i in range(lo.size):
        lo[i], hi[i] = -largest, largest
        if box.at[i] >= 0:
            # never away from zero: rounding must not turn the bounds round
            lo[i] = min(max(lo[i], box.lower[i] - q[box.at[i]]), 0.0)
            hi[i] = max(min(hi[i], box.upper[i] - q[box.at[i]]), 0.0)


@njit(cache=True)
def enter(box: Box, q: np.ndarray) -> None:
    """Move flat coordinates to the nearest point within the limits."""
    for i in range(box.at.size):
        if box.at[i] >= 0:
            q[box.at[i]] = min(max(q[box.at[i]], box.lower[i]), box.upper[i])


@njit(cache=True)
def _free_gradient(s: Scratch) -> float:
    """The largest gradient component that no limit blocks."""
    pull = 0.0
    for i in range(s.g.size):
        blocked = (s.g[i] > 0.0 and s.lo[i] >= 0.0) or (s.g[i] < 0.0 and s.hi[i] <= 0.0)
        pull = max(pull, 0.0 if blocked else abs(s.g[i]))
    return pull


@njit(cache=True)
def _damped_step(s: Scratch, damping: float) -> bool:
    """The step s.d of the damped model within s.lo, s.hi; whether there is one."""
    nv = s.g.size
    for i in range(nv):
        s.d[i] = 0.0
        for j in range(nv):
            s.damped[i * nv + j] = s.H[i, j]
        s.damped[i * nv + i] += damping
    return bool(box_qp(s.damped, 0, nv, s.g, s.lo, s.hi, s.d, s.qp) != -1)


@njit(cache=True)
def _predicted(s: Scratch) -> float:
    """The decrease of the undamped model by s.d."""
    gain = 0.0
    for i in range(s.g.size):
        gain -= s.d[i] * s.g[i]
        for j in range(s.g.size):
            gain -= 0.5 * s.d[i] * s.H[i, j] * s.d[j]
    return gain


@njit(cache=True)
def descend(
    f: Evaluator, weights: Weights, box: Box, s: Scratch, largest: float, iterations: int, path: np.ndarray, costs: np.ndarray
) -> tuple[int, int]:
    """Damped Newton (Levenberg-Marquardt) from s.q, within the limits. Leaves the answer in s.q, s.e, s.Jt.

    The damping is a factor times the cost (Sugihara 2011, which keeps quadratic convergence where the target can be reached),
    the factor following the ratio of actual to predicted decrease (Nielsen 1999). path [>= iterations + 1, nq] and costs [same]
    receive the accepted configurations. Returns (code, steps tried); the number of accepted points is steps + 1 at most, unused
    costs are -1.
    """
    nv = s.g.size
    for k in range(costs.size):
        costs[k] = -1.0
    for i in range(nv):
        s.d[i] = 0.0
    enter(box, s.q)
    if not evaluate(f, s.q, s.d, s.q_next, s.e, s.Jt):
        return FAILED, 0
    cost = cost_of(s.e, weights)
    path[0, :] = s.q
    costs[0] = cost
    kept, factor_, growth, slow = 0, 1e-1, 2.0, 0
    for step in range(iterations):
        if within_tolerance(s.e, weights):
            return CONVERGED, step
        top = _normal_equations(s.e, s.Jt, weights, s.H, s.g)
        step_bounds(box, s.q, largest, s.lo, s.hi)
        pull = _free_gradient(s)
        if pull <= 1e-14 * (1.0 + top) or pull * pull <= 1e-20 * top * cost:
            return STATIONARY, step
        accepted = False
        damping = factor_ * cost + 1e-12 * top
        if _damped_step(s, damping) and evaluate(f, s.q, s.d, s.q_next, s.e_next, s.Jt_next):
            after = cost_of(s.e_next, weights)
            if after < cost:
                accepted = True
                ratio = (cost - after) / max(_predicted(s), 1e-300)
                slow = slow + 1 if after > 0.999 * cost else 0
                enter(box, s.q_next)
                s.q[:] = s.q_next
                s.e[:] = s.e_next
                s.Jt[:, :] = s.Jt_next
                cost = after
                kept += 1
                path[kept, :] = s.q
                costs[kept] = cost
                factor_ = max(factor_ * max(1.0 / 3.0, 1.0 - (2.0 * min(ratio, 1.0) - 1.0) ** 3), 1e-9)
                growth = 2.0
                if slow >= 5 and not within_tolerance(s.e, weights):
                    return STATIONARY, step + 1
        if not accepted:
            factor_ *= growth
            growth *= 2.0
            if growth > 1e12:
                return STATIONARY, step + 1
    return (CONVERGED if within_tolerance(s.e, weights) else EXHAUSTED), iterations


@njit(cache=True)
def search(
    f: Evaluator,
    weights: Weights,
    box: Box,
    s: Scratch,
    largest: float,
    iterations: int,
    starts: np.ndarray,
    lowest: float,
    best: Trace,
    own: Trace,
) -> tuple[int, int, int, float]:
    """`descend` from each row of starts until one converges. lowest, best: cost and descent so far; own: of the one that runs.

    Returns (code of the best, steps in all, starts used, lowest cost).
    """
    steps, code = 0, EXHAUSTED
    for k in range(starts.shape[0]):
        s.q[:] = starts[k]
        ended, used = descend(f, weights, box, s, largest, iterations, own.path, own.costs)
        steps += used
        if ended == FAILED:
            continue
        cost = cost_of(s.e, weights)
        if ended == CONVERGED or cost < lowest:
            lowest, code = cost, ended
            best.path[:, :], best.costs[:] = own.path, own.costs
            best.q[:] = s.q
        if ended == CONVERGED:
            return code, steps, k + 1, lowest
    return code, steps, starts.shape[0], lowest
