"""Back towards feasible points: regularised Gauss-Newton steps on the violation inside the bounds, until the filter takes a point.

    minimise 1/2 |c(x, s)|^2 + 1/2 |W (x - reference)|^2 - nu sum of logarithms of distances to bounds

The same fronts serve: ``[W^2 + lambda 1 + Sigma, A'; A, -1 - 1 / Sigma_s]`` has the right inertia whatever A is.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.nlp.interior_point.barrier import differentiate, evaluate, longest, merit, residuals
from ocp.nlp.interior_point.elements import Program
from ocp.nlp.interior_point.fronts import Factors, Plan
from ocp.nlp.interior_point.kkt import factorised, solve
from ocp.nlp.interior_point.search import add_to_filter, in_filter
from ocp.nlp.interior_point.state import INFEASIBLE, NOT_A_NUMBER, STALLED, State, assign

Array = np.ndarray

STEPS = 200
#: the violation has to fall to this share before the filter is asked
SHARE = 0.9
#: lambda: first, least and largest; the step is tried anew with ten times as much
FIRST, MIN_REGULARISATION, MAX_REGULARISATION = 1e-4, 1e-12, 1e12
#: multipliers are estimated anew; larger ones are no use. Waechter and Biegler 2006, Sec. 3.6
LARGEST_ESTIMATE = 1e3


@linked(error_model="numpy")
def _barrier(q: State, w: Array, nu: float) -> float:
    kept = q.mu
    q.mu = nu
    value = merit(q, w, 0.0)
    q.mu = kept
    return value


@linked(error_model="numpy")
def _away(q: State, x: Array) -> float:
    total = 0.0
    for j in range(len(x)):
        total += 0.5 * q.weights[j] * (x[j] - q.reference[j]) ** 2
    return total


@linked(error_model="numpy")
def _fill(q: State, lam: float, nu: float) -> None:
    """Diagonal and right-hand side; entries of A must be there."""
    n, base = len(q.x), len(q.H) + len(q.J)
    q.entries[:len(q.H)] = 0.0
    for j in range(n):
        d, r = 0.0, 0.0
        if q.free[j]:
            d, r = _of_bounds(q, j, nu)
        q.entries[base + j] = d + q.weights[j] + lam
        q.rhs[j] = -r - q.weights[j] * (q.x[j] - q.reference[j])
    for i in range(len(q.y)):
        q.entries[base + n + i], q.rhs[n + i] = -1.0, -q.c[i]
        if q.free[n + i]:
            d, r = _of_bounds(q, n + i, nu)
            d += lam
            q.entries[base + n + i] -= 1.0 / d
            q.rhs[n + i] -= r / d


@linked(error_model="numpy")
def _of_bounds(q: State, j: int, nu: float) -> tuple[float, float]:
    """Second and first derivative of the barrier of one unknown or slack."""
    d, r = 0.0, 0.0
    if q.lower[j] > -np.inf:
        gap = q.w[j] - q.lower[j]
        d, r = d + nu / gap ** 2, r - nu / gap
    if q.upper[j] < np.inf:
        gap = q.upper[j] - q.w[j]
        d, r = d + nu / gap ** 2, r + nu / gap
    return d, r


@linked(error_model="numpy")
def _taken_apart(q: State, lam: float, nu: float) -> float:
    """dx and ds of the step; returns the gain it promises, half the directional derivative."""
    n, gain = len(q.x), 0.0
    for j in range(n):
        q.dw[j] = q.step[j] if q.free[j] else 0.0
        gain += 0.5 * q.rhs[j] * q.dw[j]
    for i in range(len(q.y)):
        gain += 0.5 * q.c[i] * (q.c[i] - q.step[n + i])
        if q.free[n + i]:
            d, b = _of_bounds(q, n + i, nu)
            q.dw[n + i] = (q.step[n + i] - b) / (d + lam)
            gain -= 0.5 * b * q.dw[n + i]
    return gain


@linked(error_model="numpy")
def _tried(p: Program, q: State, t: float, nu: float) -> float:
    """What is minimised, at the share t of the step; infinite where a function is not finite."""
    f, theta = evaluate(p, q, t)
    if not (np.isfinite(theta) and np.isfinite(f)):
        return np.inf
    square = 0.0
    for i in range(len(q.c_trial)):
        square += q.c_trial[i] ** 2
    return 0.5 * square + _barrier(q, q.w_trial, nu) + _away(q, q.x_trial)


@linked(error_model="numpy")
def restore(p: Program, q: State, plan: Plan, workspace: Factors) -> bool:
    """From the iterate to one that the filter takes; on failure status says why."""
    n, m = len(q.x), len(q.y)
    add_to_filter(q, q.theta, q.phi)
    began, lam, softer = q.theta, FIRST, 1.0
    assign(q.reference, q.x)
    for j in range(n):
        q.weights[j] = 1e-8 * min(1.0, 1.0 / abs(q.x[j])) ** 2 if q.x[j] != 0.0 else 1e-8
    h, a = len(q.H), len(q.J)
    for _ in range(STEPS):
        square = 0.0
        for i in range(m):
            square += q.c[i] ** 2
        nu = softer * min(q.mu, 0.01 * square) + 1e-16
        here = 0.5 * square + _barrier(q, q.w, nu) + _away(q, q.x)
        assign(q.entries[h:h + a], q.J)
        moved = False
        while lam <= MAX_REGULARISATION:
            _fill(q, lam, nu)
            if not factorised(q, plan, workspace)[0]:
                return False
            if not solve(p, q, workspace) < 1e-6:
                lam *= 10.0
                continue
            gain = _taken_apart(q, lam, nu)
            t, _b = longest(q, 0.995)
            there = _tried(p, q, t, nu)
            if there < here - 1e-4 * t * abs(gain):
                moved = True
                lam = max(MIN_REGULARISATION, lam * (0.1 if t > 0.5 else 1.0))
                break
            lam *= 10.0
        if not moved:
            if nu > 1e-12 * square:
                softer, lam = 0.1 * softer, FIRST
                continue
            break
        assign(q.w, q.w_trial)
        if not differentiate(p, q):
            q.status = NOT_A_NUMBER
            return False
        theta = residuals(q, q.s, q.g, q.c)
        phi = merit(q, q.w, q.f)
        if theta <= SHARE * began and not in_filter(q, theta, phi):
            return True
        if here - there <= 1e-3 * abs(here):
            if nu > 1e-12 * square:
                softer *= 0.1
            elif here - there <= 1e-14 * here:
                break
    worst = 0.0
    for i in range(m):
        worst = max(worst, abs(q.c[i]) / q.scale[i])
    q.status = INFEASIBLE if worst > np.sqrt(q.tolerance) else STALLED
    return False


@linked(error_model="numpy")
def estimate(p: Program, q: State, plan: Plan, workspace: Factors) -> bool:
    """Multipliers of the constraints that make the gradient of the Lagrangian least in the mean square; 0 where they are too
    large."""
    n, h, a = len(q.x), len(q.H), len(q.J)
    q.entries[:h] = 0.0
    assign(q.entries[h:h + a], q.J)
    for j in range(n):
        q.entries[h + a + j] = 1.0
        q.rhs[j] = -(q.gradient[j] - q.zl[j] + q.zu[j])
    for i in range(len(q.y)):
        q.entries[h + a + n + i], q.rhs[n + i] = 0.0, 0.0
        if q.free[n + i]:
            q.entries[h + a + n + i] = -1.0
            q.rhs[n + i] = q.zl[n + i] - q.zu[n + i]
    made, _, regular = factorised(q, plan, workspace)
    if not made:
        return False
    largest = np.inf
    if regular and solve(p, q, workspace) < 1e-6:
        largest = 0.0
        for i in range(len(q.y)):
            largest = max(largest, abs(q.step[n + i]))
    for i in range(len(q.y)):
        q.y[i] = q.step[n + i] if largest <= LARGEST_ESTIMATE else 0.0
    return True
