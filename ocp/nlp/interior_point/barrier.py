"""The barrier problem at a point: residuals, merit, optimality errors, and how far a step may go."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.nlp.interior_point.elements import Program, firsts, values
from ocp.nlp.interior_point.state import State, assign
from ocp.nlp.interior_point.ticks import ticks

Array = np.ndarray

#: s_max of the scaling of errors, and the damping of variables with one bound; Waechter and Biegler 2006, Eq. 5 and Sec. 3.7
S_MAX, DAMPING = 100.0, 1e-5


@linked(error_model="numpy")
def residuals(q: State, s: Array, g: Array, c: Array) -> float:
    """``c = g - s`` of inequalities, ``g - bound`` of equations; returns the sum of their sizes. g is scaled already."""
    n, total = len(q.x), 0.0
    for i in range(len(c)):
        c[i] = g[i] - (s[i] if q.free[n + i] else q.lower[n + i])
        total += abs(c[i])
    return total


@linked(error_model="numpy")
def shift(q: State, a: float) -> None:
    """The trial point is a times the step from the iterate."""
    for j in range(len(q.w)):
        q.w_trial[j] = q.w[j] + a * q.dw[j]


@linked(error_model="numpy")
def evaluate(p: Program, q: State, a: float) -> tuple[float, float]:
    """(f, sum of residuals), scaled, at a times the step, the trial point; NaN where a function fails."""
    shift(q, a)
    began = ticks()
    failed, f = values(p, q.x_trial, q.g_trial)
    q.f_cycles += ticks() - began
    q.evaluations += 2
    for i in range(len(q.g_trial)):
        q.g_trial[i] *= q.scale[i]
    total = residuals(q, q.s_trial, q.g_trial, q.c_trial)
    return (np.nan, np.nan) if failed else (f * q.scale_f, total)


@linked(error_model="numpy")
def differentiate(p: Program, q: State) -> bool:
    """Objective, gradient, rows and Jacobian at the iterate, scaled; whether all are finite."""
    began = ticks()
    failed, f = firsts(p, q.x, q.g, q.gradient, q.J)
    q.f_cycles += ticks() - began
    q.evaluations += 2
    scale = q.scale_f
    q.f = f * scale
    good = failed == 0 and np.isfinite(f)
    for j in range(len(q.x)):
        q.gradient[j] *= scale
        good = good and np.isfinite(q.gradient[j])
    for i in range(len(q.g)):
        q.g[i] *= q.scale[i]
        good = good and np.isfinite(q.g[i])
    for e in range(len(q.J)):
        q.J[e] *= q.scale[p.jacobian_rows[e]]
        good = good and np.isfinite(q.J[e])
    return good


@linked(error_model="numpy")
def merit(q: State, w: Array, f: float) -> float:
    """The objective with the barrier, damped where a variable has one bound; infinite outside."""
    inside, damped = 0.0, 0.0
    product, count = 1.0, 0  # one logarithm of a product of many
    for j in range(len(w)):
        if not q.free[j]:
            continue
        low, high = q.lower[j] > -np.inf, q.upper[j] < np.inf
        if low:
            gap = w[j] - q.lower[j]
            if not gap > 0.0:
                return np.inf
            product *= gap
            count += 1
            if not high:
                damped += gap
        if high:
            gap = q.upper[j] - w[j]
            if not gap > 0.0:
                return np.inf
            product *= gap
            count += 1
            if not low:
                damped += gap
        if not (1e-200 < product < 1e200) or count > 16:
            inside += np.log(product)
            product, count = 1.0, 0
            if not np.isfinite(inside):
                return np.inf
    inside += np.log(product)
    return f - q.mu * inside + DAMPING * q.mu * damped


@linked(error_model="numpy")
def lagrangian_gradient(p: Program, q: State) -> None:
    """``lagrangian_gradient = gradient + A' y``."""
    assign(q.lagrangian_gradient, q.gradient)
    for e in range(len(q.J)):
        q.lagrangian_gradient[p.jacobian_columns[e]] += q.J[e] * q.y[p.jacobian_rows[e]]


@linked(error_model="numpy")
def errors(q: State) -> None:
    """Optimality errors of the barrier problem and of the program itself at the iterate; Waechter and Biegler 2006, Eq. 5."""
    n, m, mu = len(q.x), len(q.y), q.mu
    dual, primal, products, products_mu = 0.0, 0.0, 0.0, 0.0
    sum_y, sum_z, bounds, violation = 0.0, 0.0, 0, 0.0
    for j in range(n + m):
        if q.free[j]:
            own = q.lagrangian_gradient[j] if j < n else -q.y[j - n]
            dual = max(dual, abs(own - q.zl[j] + q.zu[j]))
            sum_z += q.zl[j] + q.zu[j]
            if q.lower[j] > -np.inf:
                product = q.zl[j] * (q.w[j] - q.lower[j])
                products, products_mu, bounds = max(products, product), max(products_mu, abs(product - mu)), bounds + 1
            if q.upper[j] < np.inf:
                product = q.zu[j] * (q.upper[j] - q.w[j])
                products, products_mu, bounds = max(products, product), max(products_mu, abs(product - mu)), bounds + 1
    for i in range(m):
        primal = max(primal, abs(q.c[i]))
        violation = max(violation, abs(q.c[i]) / q.scale[i])
        sum_y += abs(q.y[i])
    s_d = max(S_MAX, (sum_y + sum_z) / max(1, m + bounds)) / S_MAX
    s_c = max(S_MAX, sum_z / max(1, bounds)) / S_MAX
    q.error = max(dual / s_d, primal, products / s_c)
    q.error_mu = max(dual / s_d, primal, products_mu / s_c)
    q.violation, q.dual, q.complementarity = violation, dual / s_d, products / s_c


@linked(error_model="numpy")
def _step_to_bound(value: float, change: float, tau: float, a: float) -> float:
    return -tau * value / change if change < 0.0 and -tau * value / change < a else a


@linked(error_model="numpy")
def longest(q: State, tau: float) -> tuple[float, float]:
    """How far the step may go for the primal and for the multipliers of bounds: fraction tau to the boundary."""
    a, b = 1.0, 1.0
    for j in range(len(q.w)):
        if q.free[j]:
            if q.lower[j] > -np.inf:
                a, b = _step_to_bound(q.w[j] - q.lower[j], q.dw[j], tau, a), _step_to_bound(q.zl[j], q.dzl[j], tau, b)
            if q.upper[j] < np.inf:
                a, b = _step_to_bound(q.upper[j] - q.w[j], -q.dw[j], tau, a), _step_to_bound(q.zu[j], q.dzu[j], tau, b)
    return a, b
