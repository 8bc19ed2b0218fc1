"""The linear systems of the interior-point method: assembled, made to have the right inertia, solved and refined.

Slacks and multipliers of bounds are eliminated:

    [ H + Sigma + delta 1    A'  ] [ dx ]     [ gradient of the barrier's Lagrangian ]
    [ A                      -D  ] [ dy ] = - [ residuals of the rows                ]

Sigma of the bounds of x, D = 1 / Sigma_s of inequalities, delta_c of equations (Waechter and Biegler 2006, Sec. 3.1); slacks are
linear and need no delta.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.nlp.interior_point.elements import Program
from ocp.nlp.interior_point.fronts import Factors, Plan, factorise, substitute
from ocp.nlp.interior_point.state import NO_ROOM, State, assign

Array = np.ndarray

#: regularisation: first, least, largest, growth at first and later, decrease; Waechter and Biegler 2006, Sec. 3.1
FIRST, MIN_DELTA, MAX_DELTA, GROWTH_FIRST, GROWTH, DECREASE = 1e-4, 1e-20, 1e40, 100.0, 8.0, 1.0 / 3.0
#: of constraints, where the system is singular: times mu to the fourth root
ROWS = 1e-8
REFINEMENTS = 6
#: Sigma of a slack without bounds
NO_BOUND = 1e-16
#: residuals relative to right-hand side and solution: good enough; asking for safer pivots; not good enough to be a direction
GOOD, FAIR, BAD = 1e-11, 1e-9, 1e-5
#: of pivots, where residuals are bad
CAREFUL = 1e-2
#: multipliers that change by so much, relative to the right-hand side, come from constraints that depend on each other
MAX_MULTIPLIER_RATIO = 1e9


@linked(error_model="numpy")
def sigma(q: State, j: int) -> float:
    """Multipliers over distances of both bounds of an unknown or slack."""
    total = 0.0
    if q.lower[j] > -np.inf:
        total += q.zl[j] / (q.w[j] - q.lower[j])
    if q.upper[j] < np.inf:
        total += q.zu[j] / (q.upper[j] - q.w[j])
    return total


@linked(error_model="numpy")
def sigma_slack(q: State, j: int) -> float:
    """The same of a slack, not 0 where it has no bounds."""
    return max(sigma(q, j), NO_BOUND)


@linked(error_model="numpy")
def diagonal(q: State, delta: float, delta_c: float) -> None:
    """The diagonal of the system for the iterate."""
    n, m = len(q.x), len(q.y)
    base = len(q.H) + len(q.J)
    for j in range(n):
        if q.free[j]:
            q.entries[base + j] = sigma(q, j) + delta
    for i in range(m):
        q.entries[base + n + i] = -delta_c
        if q.free[n + i]:
            q.entries[base + n + i] -= 1.0 / sigma_slack(q, n + i)


@linked(error_model="numpy")
def times(p: Program, q: State, w: Array, out: Array) -> None:
    """``out = rhs - K w`` without columns that are fixed."""
    n, m, h, a = len(q.x), len(q.y), len(q.H), len(q.J)
    for i in range(n + m):
        out[i] = q.rhs[i] - q.entries[h + a + i] * w[i]
    for e in range(h):
        i, j = p.hessian_rows[e], p.hessian_columns[e]
        value = q.entries[e]
        out[i] -= value * w[j]
        if i != j:
            out[j] -= value * w[i]
    for e in range(a):
        i, j = n + p.jacobian_rows[e], p.jacobian_columns[e]
        value = q.entries[h + e]
        out[i] -= value * w[j]
        out[j] -= value * w[i]
    for j in range(n):
        if not q.free[j]:
            out[j] = 0.0


@linked(error_model="numpy")
def solve(p: Program, q: State, workspace: Factors) -> float:
    """``step = K^-1 rhs`` with refinement; returns the residual relative to right-hand side and solution."""
    n = len(q.x)
    for j in range(n):
        if not q.free[j]:
            q.rhs[j] = 0.0
    assign(q.step, q.rhs)
    substitute(workspace, q.step)
    size, before = 0.0, np.inf
    for i in range(len(q.rhs)):
        size = max(size, abs(q.rhs[i]))
    ratio = np.inf
    for k in range(REFINEMENTS + 1):
        times(p, q, q.step, q.residual)
        worst, largest = 0.0, 0.0
        for i in range(len(q.rhs)):
            if not abs(q.residual[i]) <= 1e300:
                return np.inf
            worst, largest = max(worst, abs(q.residual[i])), max(largest, abs(q.step[i]))
        ratio = worst / (size + min(largest, 1e6 * size) + 1e-300)
        if ratio <= GOOD or k == REFINEMENTS or worst > 0.5 * before:
            break
        before = worst
        substitute(workspace, q.residual)
        for i in range(len(q.rhs)):
            q.step[i] += q.residual[i]
    return ratio


@linked(error_model="numpy")
def factorised(q: State, plan: Plan, workspace: Factors) -> tuple[bool, int, bool]:
    """Factors of the entries as they stand: (whether there was room for them, negative eigenvalues, whether regular)."""
    negative, missing = factorise(plan, q.entries, workspace, q.threshold)
    if negative < 0:
        q.status = NO_ROOM
        return False, 0, False
    return True, negative, missing == 0


@linked(error_model="numpy")
def _without_bounds(q: State) -> bool:
    """Whether the multipliers of constraints run away."""
    size, largest, n = 1.0, 0.0, len(q.x)
    for i in range(len(q.rhs)):
        size = max(size, abs(q.rhs[i]))
    for i in range(n, len(q.step)):
        largest = max(largest, abs(q.step[i]))
    return largest > MAX_MULTIPLIER_RATIO * size


@linked(error_model="numpy")
def direction(p: Program, q: State, plan: Plan, workspace: Factors) -> bool:
    """Factors with the right inertia and the step for ``rhs``; whether there is one. The entries hold H and A.

    More negative eigenvalues than rows: H is not positive definite where the rows leave freedom; delta grows. Fewer, or a singular
    system: rows depend on each other; they get delta_c, and keep it in later iterations.
    """
    m = len(q.y)
    delta = 0.0
    delta_c = ROWS * q.mu ** 0.25 if q.dependent else 0.0
    while True:
        diagonal(q, delta, delta_c)
        made, negative, regular = factorised(q, plan, workspace)
        if not made:
            return False
        if regular and negative == m:
            ratio = solve(p, q, workspace)
            if delta_c == 0.0 and _without_bounds(q):
                q.dependent = 1
                delta_c = ROWS * q.mu ** 0.25
                continue
            if ratio > FAIR and q.threshold < CAREFUL:
                q.threshold = min(CAREFUL, 100.0 * q.threshold)
                continue
            if ratio <= BAD:
                q.delta, q.delta_c = delta, delta_c
                if delta > 0.0:
                    q.delta_last = delta
                return True
        elif (not regular or negative < m) and delta_c == 0.0:
            q.dependent = 1
            delta_c = ROWS * q.mu ** 0.25
            continue
        if delta == 0.0:
            delta = FIRST if q.delta_last == 0.0 else max(MIN_DELTA, DECREASE * q.delta_last)
        else:
            delta *= GROWTH_FIRST if q.delta_last == 0.0 else GROWTH
        if delta > MAX_DELTA:
            return False
