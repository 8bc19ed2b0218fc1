"""The augmented Lagrangian of hard constraints at the knots, in Numba.

For rows c with multipliers lam and penalties mu (Rockafellar's form, which keeps the multiplier estimate in the terms):

    equality      lam c + mu c^2 / 2                              multiplier  lam + mu c
    c <= 0        (max(0, lam + mu c)^2 - lam^2) / (2 mu)         multiplier  max(0, lam + mu c)
    cone K        (|P(lam - mu c)|^2 - |lam|^2) / (2 mu)          multiplier  P(lam - mu c), P the projection onto K

The derivative by c is the multiplier (minus it for a cone); the second derivative is mu on the active rows, for a cone mu times
the derivative of the projection. Rockafellar 1976; Howell, Jackson, Manchester 2019 (ALTRO); Shapiro and Sun 2004 for cones.

A receding horizon, which has one iteration for each measurement, may hold inequalities by a barrier instead (``Held.barrier``):
with the slack s = -c, of a cone s = c_0 - sqrt(|w|^2 + margin^2), the terms are -barrier log(s), continued by a quadratic below the
margin, so that a state which lies outside is led back (Feller, Ebenbauer 2017, "Relaxed logarithmic barrier function based model
predictive control of linear systems"; Grandia et al. 2019, "Feedback MPC for torque-controlled legged robots").
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.bank import evaluate
from dynamics.kernels.calls import row_address
from dynamics.kernels.linked import linked
from dynamics.loops.vectors import INLINE, OPTIONS
from ocp.shooting.engine.knots import JACOBIAN, ROW_BEND, SLOTS, VALUE, bind
from ocp.shooting.engine.record import Engine, Held, Path
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL, IN_CONE

Array = np.ndarray
MAX_MULTIPLIER = 1e10
"""Largest multiplier; larger estimates belong to rows that cannot be met."""
ROUNDING = 1e-6
"""Share of its largest diagonal entry by which a matrix may miss being positive semidefinite."""


@linked(**INLINE)
def _project(z0: float, norm: float) -> tuple[float, float]:
    """(new axis, factor of the other components) of the projection of (z0, w), |w| = norm, onto the cone."""
    if norm <= z0:
        return z0, 1.0
    if norm <= -z0:
        return 0.0, 0.0
    axis = 0.5 * (z0 + norm)
    return axis, axis / norm


@linked(**INLINE)
def _barrier(held: Held, s: float) -> tuple[float, float, float]:
    """Value, minus the first and the second derivative of the barrier at a slack."""
    weight, margin = held.barrier, held.margin
    if s > margin:
        return -weight * np.log(s / margin), weight / s, weight / (s * s)
    away = (2.0 * margin - s) / margin
    return 0.5 * weight * (away * away - 1.0), weight * away / margin, weight / (margin * margin)


@linked(**INLINE)
def _cone_slack(held: Held, c: Array, r: int, end: int) -> tuple[float, float]:
    """(slack, smoothed length of the components) of the cone in the rows r to end."""
    length = held.margin * held.margin
    for i in range(r + 1, end):
        length += c[i] * c[i]
    length = np.sqrt(length)
    return c[r] - length, length


@linked(**INLINE)
def terms(held: Held, kind: int, k: int, c: Array, slope: Array) -> float:
    """Value of the augmented terms of the rows c [r] at knot k; fills slope [r]. NaN where a row is not finite."""
    holds, lam, mu = held.holds[k], held.lam[k], held.mu[k]
    kinds, sizes, rows = held.kind[kind], held.size[kind], held.number[kind]
    total = 0.0
    for r in range(rows):
        if holds[r] and not np.isfinite(c[r]):
            return np.nan
    r = 0
    while r < rows:
        if not holds[r]:
            slope[r] = 0.0
            r += 1
        elif kinds[r] == EQUAL:
            slope[r] = lam[r] + mu[r] * c[r]
            total += c[r] * (lam[r] + 0.5 * mu[r] * c[r])
            r += 1
        elif held.barrier > 0.0 and kinds[r] == BELOW:
            value, slope[r], _ = _barrier(held, -c[r])
            total += value
            r += 1
        elif held.barrier > 0.0:
            end = r + sizes[r]
            slack, length = _cone_slack(held, c, r, end)
            value, first, _ = _barrier(held, slack)
            total += value
            slope[r] = -first
            for i in range(r + 1, end):
                slope[i] = first * c[i] / length
            r = end
        elif kinds[r] == BELOW:
            slope[r] = max(0.0, lam[r] + mu[r] * c[r])
            total += (slope[r] * slope[r] - lam[r] * lam[r]) / (2.0 * mu[r])
            r += 1
        else:
            end = r + sizes[r]
            norm, size = 0.0, 0.0
            for s in range(r, end):
                size += lam[s] * lam[s]
                if s > r:
                    norm += (lam[s] - mu[r] * c[s]) ** 2
            axis, factor = _project(lam[r] - mu[r] * c[r], np.sqrt(norm))
            slope[r] = -axis
            length = axis * axis
            for s in range(r + 1, end):
                slope[s] = -factor * (lam[s] - mu[r] * c[s])
                length += slope[s] * slope[s]
            total += (length - size) / (2.0 * mu[r])
            r = end
    return total


@linked(**INLINE)
def penalty(e: Engine, path: Path, k: int) -> float:
    """Augmented terms of knot k of a path. NaN where the rows cannot be evaluated. Leaves what the expansion left."""
    bank, held, kind = e.bank, e.held, e.plan.which[k]
    if held.number[kind] == 0:
        return 0.0
    first = bind(bank, e.plan, path, k)
    bank.res[0] = row_address(held.c_try, 0)
    if evaluate(bank, first + VALUE) != 0:
        return np.nan
    return float(terms(held, kind, k, held.c_try[0], held.slope_try[0]))


@linked(**INLINE)
def slopes(e: Engine, k: int, g: Array) -> float:
    """Add the gradient of the augmented terms of knot k to g [w]; leaves c, slope and C for ``stiffness``. Returns the
    largest violation, NaN where the rows cannot be evaluated."""
    bank, held, kind = e.bank, e.held, e.plan.which[k]
    rows = held.number[kind]
    if rows == 0:
        return 0.0
    first = bind(bank, e.plan, e.path, k)
    bank.res[0] = row_address(held.c, k)
    bank.res[1] = row_address(held.C, k)
    if evaluate(bank, first + JACOBIAN) != 0 or np.isnan(terms(held, kind, k, held.c[k], held.slope[k])):
        return np.nan
    C, slope = held.C[k], held.slope[k]
    for r in range(rows):
        w = slope[r]
        if w != 0.0:
            for s in range(g.shape[0]):
                g[s] += w * C[r, s]
    return float(violation(held, kind, k))


@linked(**INLINE)
def violation(held: Held, kind: int, k: int) -> float:
    """Largest violation of the rows of knot k."""
    largest, c = 0.0, held.c[k]
    for r in range(held.number[kind]):
        if held.holds[k, r]:
            largest = max(largest, row_violation(held, kind, r, c))
    return largest


@linked(**INLINE)
def row_violation(held: Held, kind: int, r: int, c: Array) -> float:
    """Violation of one row; a cone counts in its first row."""
    if held.kind[kind, r] == EQUAL:
        return float(abs(c[r]))
    if held.kind[kind, r] == BELOW:
        return max(0.0, float(c[r]))
    if held.kind[kind, r] == CONE:
        norm = 0.0
        for s in range(r + 1, r + held.size[kind, r]):
            norm += c[s] ** 2
        return max(0.0, float(np.sqrt(norm) - c[r]))
    return 0.0


@linked(**INLINE)
def _weights(held: Held, kind: int, k: int) -> None:
    """Second derivatives [r, r] of the terms by c, block diagonal, into ``cone``."""
    W, c, lam, holds = held.cone, held.c[k], held.lam[k], held.holds[k]
    kinds, sizes, rows = held.kind[kind], held.size[kind], held.number[kind]
    for a in range(rows):
        for b in range(rows):
            W[a, b] = 0.0
    r = 0
    while r < rows:
        mu = held.mu[k, r]
        if not holds[r]:
            r += 1
        elif kinds[r] == EQUAL:
            W[r, r] = mu
            r += 1
        elif held.barrier > 0.0 and kinds[r] == BELOW:
            _, _, W[r, r] = _barrier(held, -c[r])
            r += 1
        elif held.barrier > 0.0:
            end = r + sizes[r]
            slack, length = _cone_slack(held, c, r, end)
            _, first, second = _barrier(held, slack)
            W[r, r] = second
            for a in range(r + 1, end):
                W[r, a] = W[a, r] = -second * c[a] / length
                for b in range(r + 1, end):
                    W[a, b] = (second - first / length) * c[a] * c[b] / (length * length)
                W[a, a] += first / length
            r = end
        elif kinds[r] == BELOW:
            W[r, r] = mu if lam[r] + mu * c[r] > 0.0 else 0.0
            r += 1
        else:
            end = r + sizes[r]
            z0, norm = lam[r] - mu * c[r], 0.0
            for s in range(r + 1, end):
                norm += (lam[s] - mu * c[s]) ** 2
            norm = np.sqrt(norm)
            if norm <= z0:
                for s in range(r, end):
                    W[s, s] = mu
            elif norm > -z0:
                # derivative of 1/2 (1 + z0 / |w|) (|w|, w)
                W[r, r] = 0.5 * mu
                for a in range(r + 1, end):
                    unit = (lam[a] - mu * c[a]) / norm
                    W[r, a] = W[a, r] = 0.5 * mu * unit
                    for b in range(r + 1, end):
                        other = (lam[b] - mu * c[b]) / norm
                        W[a, b] = -0.5 * mu * z0 / norm * unit * other
                    W[a, a] += 0.5 * mu * (1.0 + z0 / norm)
            r = end


@linked(**INLINE)
def _semidefinite(B: Array, L: Array, size: int) -> bool:
    """Whether the symmetric matrix whose lower triangle B [size] holds is positive semidefinite but for rounding, by its Cholesky
    factor after a small shift. L [size, size]: scratch."""
    most = 0.0
    for i in range(size):
        most = max(most, B[i, i])
    shift = ROUNDING * most
    for j in range(size):
        pivot = B[j, j] + shift
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        if not pivot > 0.0:
            return False
        root = np.sqrt(pivot)
        L[j, j] = root
        for i in range(j + 1, size):
            entry = B[i, j]
            for k in range(j):
                entry -= L[i, k] * L[j, k]
            L[i, j] = entry / root
    return True


@linked(**OPTIONS)
def stiffness(e: Engine, k: int, exact: bool, H: Array) -> bool:
    """Add the Hessian of the augmented terms of knot k, after ``slopes``, to the lower triangle of H: ``C' W C`` and the
    curvature of the rows times their multipliers: always if exact, else where it is positive semidefinite. Rows that bound a
    convex set have such a curvature, and beyond their normal it is all that holds a step back. False where it cannot be
    evaluated."""
    bank, held, kind = e.bank, e.held, e.plan.which[k]
    rows, size = held.number[kind], e.model.n[k] + e.model.m[k]
    if rows == 0:
        return True
    _weights(held, kind, k)
    C = held.C[k]
    for a in range(rows):
        for b in range(rows):
            w = held.cone[a, b]
            if w != 0.0:
                for r in range(size):
                    factor = w * C[a, r]
                    if factor != 0.0:
                        for s in range(r + 1):
                            H[r, s] += factor * C[b, s]
    some = 0.0
    for r in range(rows):
        some += abs(held.slope[k, r])
    if some == 0.0 or bank.address[SLOTS * kind + ROW_BEND] == 0:  # no row acts, or all are linear
        return True
    first = bind(bank, e.plan, e.path, k)
    bank.arg[4] = row_address(held.slope, k)
    bank.res[0] = row_address(held.bend, 0)
    if evaluate(bank, first + ROW_BEND) != 0:
        return False
    if not exact and not _semidefinite(held.bend[0], held.bend[1], size):
        return True
    for r in range(size):
        for s in range(r + 1):
            H[r, s] += held.bend[0, r, s]
    return True


@linked
def update(held: Held, which: Array, unit: float) -> None:
    """Take over the multipliers that the terms at hand estimate (slope; minus it for cones), within ``MAX_MULTIPLIER`` units of the
    cost."""
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(held.number[kind]):
            estimate = held.slope[k, r] if held.kind[kind, r] <= BELOW else -held.slope[k, r]
            held.lam[k, r] = min(max(estimate, -MAX_MULTIPLIER * unit), MAX_MULTIPLIER * unit)


@linked(**INLINE)
def moved(held: Held, which: Array) -> float:
    """Effect of an update of the multipliers: ``sum (new - old)^2 / (2 mu)``, in units of the cost for constraints of any unit."""
    total = 0.0
    for k in range(which.shape[0]):
        kind, mu = which[k], 1.0
        for r in range(held.number[kind]):
            if held.kind[kind, r] != IN_CONE:
                mu = held.mu[k, r]
            sign = 1.0 if held.kind[kind, r] <= BELOW else -1.0
            change = sign * held.slope[k, r] - held.lam[k, r]
            total += change * change / (2.0 * mu)
    return total


@linked
def measure(held: Held, which: Array, found: Array) -> None:
    """Largest violation of each row [kinds, r] over its knots, as the last expansion left them."""
    found[:] = 0.0
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(held.number[kind]):
            if held.holds[k, r]:
                found[kind, r] = max(found[kind, r], row_violation(held, kind, r, held.c[k]))


@linked(**INLINE)
def _residual(held: Held, kind: int, k: int, r: int, scale: float) -> float:
    """How far a row is from feasible and complementary together: what its multiplier moves at the next update, by the penalty
    (``max(c, -lam / mu)`` for ``c <= 0``; Birgin, Martinez 2014, section 4.1). Zero where the product of a feasible row and its
    multiplier is below scale."""
    c, slope, lam, mu = held.c[k], held.slope[k], held.lam[k], held.mu[k, r]
    if held.kind[kind, r] == EQUAL:
        return float(abs(c[r]))
    if held.kind[kind, r] == BELOW:
        return float(abs(slope[r] - lam[r]) / mu) if c[r] > 0.0 or abs(slope[r] * c[r]) > scale else 0.0
    if held.kind[kind, r] == CONE:
        product, change = 0.0, 0.0
        for s in range(r, r + held.size[kind, r]):
            product += slope[s] * c[s]
            change = max(change, abs(slope[s] + lam[s]))
        missed = row_violation(held, kind, r, c)
        return max(missed, change / mu) if abs(product) > scale else missed
    return 0.0


@linked
def residuals(held: Held, which: Array, scale: float, found: Array) -> float:
    """As ``measure``, of violation and complementarity together; products below scale do not count. Returns the largest."""
    found[:] = 0.0
    largest = 0.0
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(held.number[kind]):
            if held.holds[k, r]:
                found[kind, r] = max(found[kind, r], _residual(held, kind, k, r, scale))
                largest = max(largest, found[kind, r])
    return largest


@linked
def renew(held: Held, which: Array, found: Array, before: Array, tolerance: float, enough: float, growth: float, most: float,
          unit: float) -> tuple[bool, float]:
    """Take over the multipliers; raise the penalties of rows whose residual found [kinds, r] is above the tolerance and did not
    fall to the share ``enough`` of that before. Returns (some penalty that should grow is at its limit, largest penalty)."""
    update(held, which, unit)
    stuck, largest = False, 0.0
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(held.number[kind]):
            if found[kind, r] > tolerance and found[kind, r] > enough * before[kind, r]:
                stuck = stuck or held.mu[k, r] >= most * unit
                held.mu[k, r] = min(held.mu[k, r] * growth, most * unit)
            largest = max(largest, held.mu[k, r])
    for kind in range(found.shape[0]):
        for r in range(found.shape[1]):
            before[kind, r] = found[kind, r]
    return stuck, largest


@linked
def reprice(held: Held, which: Array, cost: Array) -> float:
    """Cost of the path, costs [S+1] of its knots given, with the terms of the rows as the last expansion left them; refreshes
    slope."""
    total = 0.0
    for k in range(which.shape[0]):
        total += cost[k]
        if held.number[which[k]] > 0:
            total += terms(held, which[k], k, held.c[k], held.slope[k])
    return total
