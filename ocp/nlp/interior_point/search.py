"""Steps, and the filter line search that accepts them (Waechter and Biegler 2006, Sec. 2.3, 2.4, 3.2-3.4)."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.nlp.interior_point.barrier import DAMPING, evaluate, longest, merit
from ocp.nlp.interior_point.elements import Program
from ocp.nlp.interior_point.fronts import Factors
from ocp.nlp.interior_point.kkt import sigma_slack, solve
from ocp.nlp.interior_point.state import State, assign

Array = np.ndarray

GAMMA_THETA, GAMMA_PHI, GAMMA_ALPHA, S_THETA, S_PHI, DELTA_SWITCH, ETA = 1e-5, 1e-8, 0.05, 1.1, 2.3, 1.0, 1e-8
CORRECTIONS, CORRECTED = 4, 0.99
#: multipliers of bounds stay within this factor of mu over the distance
KAPPA_SIGMA = 1e10
ROUNDING = 10.0 * 2.220446049250313e-16


@linked(error_model="numpy")
def barrier_gradient(q: State, j: int) -> float:
    """Gradient of the damped barrier of one unknown or slack."""
    total, mu = 0.0, q.mu
    low, high = q.lower[j] > -np.inf, q.upper[j] < np.inf
    if low:
        total -= mu / (q.w[j] - q.lower[j]) - (0.0 if high else DAMPING * mu)
    if high:
        total += mu / (q.upper[j] - q.w[j]) - (0.0 if low else DAMPING * mu)
    return total


@linked(error_model="numpy")
def right_side(q: State, c: Array) -> None:
    """``rhs`` of the system of the Newton step, with c in place of the constraints' residuals. ``lagrangian_gradient`` must be
    set."""
    n = len(q.x)
    for j in range(n):
        total = q.lagrangian_gradient[j]
        if q.free[j]:
            total += barrier_gradient(q, j)
        q.rhs[j] = -total
    for i in range(len(q.y)):
        q.rhs[n + i] = -c[i]
        if q.free[n + i]:
            q.rhs[n + i] -= (barrier_gradient(q, n + i) - q.y[i]) / sigma_slack(q, n + i)


@linked(error_model="numpy")
def _primal(q: State) -> None:
    """Steps of unknowns and slacks from the solution of the linear system."""
    n = len(q.x)
    for j in range(n):
        q.dw[j] = q.step[j] if q.free[j] else 0.0
    for i in range(len(q.y)):
        if q.free[n + i]:
            q.dw[n + i] = (q.step[n + i] - (barrier_gradient(q, n + i) - q.y[i])) / sigma_slack(q, n + i)


@linked(error_model="numpy")
def expand(q: State) -> None:
    """All steps from the solution of the linear system."""
    _primal(q)
    assign(q.dy, q.step[len(q.x):])
    for j in range(len(q.w)):
        if q.free[j]:
            if q.lower[j] > -np.inf:
                gap = q.w[j] - q.lower[j]
                q.dzl[j] = q.mu / gap - q.zl[j] - q.zl[j] / gap * q.dw[j]
            if q.upper[j] < np.inf:
                gap = q.upper[j] - q.w[j]
                q.dzu[j] = q.mu / gap - q.zu[j] + q.zu[j] / gap * q.dw[j]


@linked(error_model="numpy")
def descent(q: State) -> float:
    """Directional derivative of the merit along the step."""
    n, total = len(q.x), 0.0
    for j in range(len(q.w)):
        if q.free[j]:
            own = barrier_gradient(q, j)
            total += (q.gradient[j] + own if j < n else own) * q.dw[j]
    return total


@linked(error_model="numpy")
def trial(p: Program, q: State, a: float) -> tuple[float, float]:
    """(theta, phi) at the iterate plus a times the step."""
    f, theta = evaluate(p, q, a)
    return theta, merit(q, q.w_trial, f)


@linked(error_model="numpy")
def in_filter(q: State, theta: float, phi: float) -> bool:
    """Whether the filter forbids the pair, or it is not finite."""
    if not (np.isfinite(theta) and np.isfinite(phi)) or theta > q.theta_max:
        return True
    for k in range(q.filtered):  # noqa: SIM110  # compiled loops know no generators
        if theta >= q.filter[k, 0] and phi - ROUNDING * abs(phi) >= q.filter[k, 1]:
            return True
    return False


@linked(error_model="numpy")
def add_to_filter(q: State, theta: float, phi: float) -> None:
    """Forbid what is no better than this pair; pairs that it covers go."""
    bound_theta, bound_phi = (1.0 - GAMMA_THETA) * theta, phi - GAMMA_PHI * theta
    kept = 0
    for k in range(q.filtered):
        if not (q.filter[k, 0] >= bound_theta and q.filter[k, 1] >= bound_phi):
            q.filter[kept, 0], q.filter[kept, 1] = q.filter[k, 0], q.filter[k, 1]
            kept += 1
    q.filter[kept, 0], q.filter[kept, 1] = bound_theta, bound_phi
    q.filtered = kept + 1


@linked(error_model="numpy")
def acceptable(q: State, theta: float, phi: float, a: float) -> tuple[bool, bool]:
    """(whether the line search takes the trial point, whether as a step for the objective)."""
    if in_filter(q, theta, phi):
        return False, False
    descent = q.descent
    switching = descent < 0.0 and a * (-descent) ** S_PHI > DELTA_SWITCH * q.theta ** S_THETA
    noise = ROUNDING * abs(q.phi)
    if q.theta <= q.theta_min and switching:
        return phi - q.phi <= ETA * a * descent + noise, True
    return theta <= (1.0 - GAMMA_THETA) * q.theta or phi - q.phi <= -GAMMA_PHI * q.theta + noise, False


@linked(error_model="numpy")
def shortest(q: State) -> float:
    """The step length below which restoration takes over; Waechter and Biegler 2006, Eq. 23."""
    theta, descent = q.theta, q.descent
    least = GAMMA_THETA
    if descent < 0.0:
        least = min(least, GAMMA_PHI * theta / -descent)
        if theta <= q.theta_min:
            least = min(least, DELTA_SWITCH * theta ** S_THETA / (-descent) ** S_PHI)
    return GAMMA_ALPHA * least


@linked(error_model="numpy")
def search(p: Program, q: State, workspace: Factors, corrected: Array) -> bool:
    """Backtracking with second-order corrections; on success ``*_trial`` hold the new point and alpha the length.

    The step (dx, ds) may be replaced by a corrected one. corrected [m]: scratch.
    """
    full, _ = longest(q, q.tau)
    q.descent = descent(q)
    a, least, first = full, shortest(q), True
    while a >= least:
        theta, phi = trial(p, q, a)
        good, objective = acceptable(q, theta, phi, a)
        if good:
            _note(q, objective)
            q.alpha = a
            return True
        if first and theta >= q.theta and np.isfinite(theta) and _correct(p, q, workspace, corrected, a, theta):
            return True
        first = False
        a *= 0.5
    return False


@linked(error_model="numpy")
def _note(q: State, objective: bool) -> None:
    if not objective:
        add_to_filter(q, q.theta, q.phi)


@linked(error_model="numpy")
def _correct(p: Program, q: State, workspace: Factors, corrected: Array, a: float, theta: float) -> bool:
    """Second-order corrections of a full step that increased the violation."""
    assign(q.first_step, q.step)
    length, before = a, theta
    assign(corrected, q.c)
    for _ in range(CORRECTIONS):
        for i in range(len(corrected)):
            corrected[i] = length * corrected[i] + q.c_trial[i]
        right_side(q, corrected)
        if not solve(p, q, workspace) < 1e-5:
            break
        _primal(q)
        length, _ = longest(q, q.tau)
        now, phi = trial(p, q, length)
        good, objective = acceptable(q, now, phi, a)
        if good:
            _note(q, objective)
            q.alpha = length
            return True
        if not now <= CORRECTED * before:
            break
        before = now
    assign(q.step, q.first_step)
    expand(q)
    return False


@linked(error_model="numpy")
def _banded(z: float, centre: float) -> float:
    return max(min(z, KAPPA_SIGMA * centre), centre / KAPPA_SIGMA)


@linked(error_model="numpy")
def move(q: State, a: float, b: float) -> None:
    """Take the trial point; multipliers of rows go a, those of bounds b of their step, and back into a band about mu over the
    distance (Waechter and Biegler 2006, Eq. 16)."""
    assign(q.w, q.w_trial)
    for i in range(len(q.y)):
        q.y[i] += a * q.dy[i]
    for j in range(len(q.w)):
        if q.free[j]:
            if q.lower[j] > -np.inf:
                q.zl[j] = _banded(q.zl[j] + b * q.dzl[j], q.mu / (q.w[j] - q.lower[j]))
            if q.upper[j] < np.inf:
                q.zu[j] = _banded(q.zu[j] + b * q.dzu[j], q.mu / (q.upper[j] - q.w[j]))


@linked(error_model="numpy")
def note_step(q: State) -> float:
    """The largest entry of the step relative to the iterate; ``step_size`` becomes the largest of x."""
    largest, relative = 0.0, 0.0
    for j in range(len(q.w)):
        relative = max(relative, abs(q.dw[j]) / (1.0 + abs(q.w[j])))
        largest = max(largest, abs(q.dw[j])) if j < len(q.x) else largest
    q.step_size = largest
    return relative
