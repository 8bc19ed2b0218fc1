"""The augmented Lagrangian of hard constraints at the knots, in Numba.

For constraints c with multipliers lam and penalties mu (Rockafellar's form, which keeps the multiplier estimate in the terms):

    equality      lam c + mu c^2 / 2                              multiplier  lam + mu c
    c <= 0        (max(0, lam + mu c)^2 - lam^2) / (2 mu)         multiplier  max(0, lam + mu c)
    cone K        (|P(lam - mu c)|^2 - |lam|^2) / (2 mu)          multiplier  P(lam - mu c), P the projection onto K

The derivative by c is the multiplier (minus it for a cone); the second derivative is mu on the active rows, for a cone mu times
the derivative of the projection. Rockafellar 1976; Howell, Jackson, Manchester 2019 (ALTRO); Shapiro and Sun 2004 for cones.

A receding horizon, which has one iteration for each measurement, may hold inequalities by a barrier instead
(``ConstraintSet.barrier``): with the slack s = -c, of a cone s = c_0 - sqrt(|w|^2 + margin^2), the terms are -barrier log(s),
continued by a quadratic below the margin, so that a state which lies outside is led back (Feller, Ebenbauer 2017, "Relaxed
logarithmic barrier function based model predictive control of linear systems"; Grandia et al. 2019, "Feedback MPC for
torque-controlled legged robots").
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.bank import evaluate
from dynamics.kernels.calls import row_address
from dynamics.kernels.linked import linked
from dynamics.loops.dense import Block, add, clear, copy, flat, product
from dynamics.loops.vectors import INLINE, OPTIONS
from ocp.shooting.engine.knot_constraints import bind_rows, jacobian, row_curvature, row_violation, violation
from ocp.shooting.engine.knots import ROW_HESSIAN, SLOTS, VALUE
from ocp.shooting.engine.record import ConstraintSet, Engine, Path
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL, IN_CONE

Array = np.ndarray
MAX_MULTIPLIER = 1e10
"""Largest multiplier; larger estimates belong to constraints that cannot be met."""
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
def _barrier(conset: ConstraintSet, s: float) -> tuple[float, float, float]:
    """Value, minus the first and the second derivative of the barrier at a slack."""
    weight, margin = conset.barrier, conset.margin
    if s > margin:
        return -weight * np.log(s / margin), weight / s, weight / (s * s)
    away = (2.0 * margin - s) / margin
    return 0.5 * weight * (away * away - 1.0), weight * away / margin, weight / (margin * margin)


@linked(**INLINE)
def _cone_slack(conset: ConstraintSet, c: Array, r: int, end: int) -> tuple[float, float]:
    """(slack, smoothed length of the components) of the cone in the constraints r to end."""
    length = conset.margin * conset.margin
    for i in range(r + 1, end):
        length += c[i] * c[i]
    length = np.sqrt(length)
    return c[r] - length, length


@linked(**INLINE)
def terms(conset: ConstraintSet, kind: int, k: int, c: Array, gradient: Array) -> float:
    """Value of the augmented terms of the rows c [r] at knot k; fills gradient [r]. NaN where a row is not finite."""
    holds, lam, mu = conset.holds[k], conset.lam[k], conset.mu[k]
    kinds, sizes, rows = conset.kind[kind], conset.size[kind], conset.number[kind]
    total = 0.0
    for r in range(rows):
        if holds[r] and not np.isfinite(c[r]):
            return np.nan
    r = 0
    while r < rows:
        if not holds[r]:
            gradient[r] = 0.0
            r += 1
        elif kinds[r] == EQUAL:
            gradient[r] = lam[r] + mu[r] * c[r]
            total += c[r] * (lam[r] + 0.5 * mu[r] * c[r])
            r += 1
        elif conset.barrier > 0.0 and kinds[r] == BELOW:
            value, gradient[r], _ = _barrier(conset, -c[r])
            total += value
            r += 1
        elif conset.barrier > 0.0:
            end = r + sizes[r]
            slack, length = _cone_slack(conset, c, r, end)
            value, first, _ = _barrier(conset, slack)
            total += value
            gradient[r] = -first
            for i in range(r + 1, end):
                gradient[i] = first * c[i] / length
            r = end
        elif kinds[r] == BELOW:
            gradient[r] = max(0.0, lam[r] + mu[r] * c[r])
            total += (gradient[r] * gradient[r] - lam[r] * lam[r]) / (2.0 * mu[r])
            r += 1
        else:
            end = r + sizes[r]
            norm, size = 0.0, 0.0
            for s in range(r, end):
                size += lam[s] * lam[s]
                if s > r:
                    norm += (lam[s] - mu[r] * c[s]) ** 2
            axis, factor = _project(lam[r] - mu[r] * c[r], np.sqrt(norm))
            gradient[r] = -axis
            length = axis * axis
            for s in range(r + 1, end):
                gradient[s] = -factor * (lam[s] - mu[r] * c[s])
                length += gradient[s] * gradient[s]
            total += (length - size) / (2.0 * mu[r])
            r = end
    return total


@linked(**INLINE)
def penalty(e: Engine, path: Path, k: int) -> float:
    """Augmented terms of knot k of a path. NaN where the rows cannot be evaluated. Leaves what the expansion left."""
    bank, conset, kind = e.bank, e.conset, e.plan.which[k]
    if conset.number[kind] == 0:
        return 0.0
    first = bind_rows(bank, e.plan, path, k)
    bank.res[0] = row_address(conset.c_try, 0)
    if evaluate(bank, first + VALUE) != 0:
        return np.nan
    return float(terms(conset, kind, k, conset.c_try[0], conset.gradient_try[0]))


@linked(**INLINE)
def add_gradient(e: Engine, k: int, g: Array) -> float:
    """Add the gradient of the augmented terms of knot k to g [w]; leaves c, gradient and C for ``stiffness``. Returns the
    largest violation, NaN where the constraints cannot be evaluated."""
    conset, kind = e.conset, e.plan.which[k]
    rows = conset.number[kind]
    if rows == 0:
        return 0.0
    if jacobian(e, k) != 0 or np.isnan(terms(conset, kind, k, conset.c[k], conset.gradient[k])):
        return np.nan
    C, gradient = conset.C[k], conset.gradient[k]
    for r in range(rows):
        w = gradient[r]
        if w != 0.0:
            for s in range(g.shape[0]):
                g[s] += w * C[r, s]
    return float(violation(conset, kind, k))


@linked(**INLINE)
def _weights(conset: ConstraintSet, kind: int, k: int) -> None:
    """Second derivatives [r, r] of the terms by c, block diagonal, into ``cone``."""
    W, c, lam, holds = conset.cone, conset.c[k], conset.lam[k], conset.holds[k]
    kinds, sizes, rows = conset.kind[kind], conset.size[kind], conset.number[kind]
    for a in range(rows):
        for b in range(rows):
            W[a, b] = 0.0
    r = 0
    while r < rows:
        mu = conset.mu[k, r]
        if not holds[r]:
            r += 1
        elif kinds[r] == EQUAL:
            W[r, r] = mu
            r += 1
        elif conset.barrier > 0.0 and kinds[r] == BELOW:
            _, _, W[r, r] = _barrier(conset, -c[r])
            r += 1
        elif conset.barrier > 0.0:
            end = r + sizes[r]
            slack, length = _cone_slack(conset, c, r, end)
            _, first, second = _barrier(conset, slack)
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
def _add_weighted(conset: ConstraintSet, k: int, rows: int, size: int, H: Array) -> None:
    """``H += C' W C`` on and below the diagonal, by the rows of C that W counts alone."""
    C, W, acting, weighted, wide = conset.C, conset.cone, conset.acting, conset.weighted, conset.C.shape[2]
    count, first = 0 * k, k * C.shape[1]
    for a in range(rows):
        some = False
        for b in range(rows):
            if W[a, b] != 0.0:
                if not some:
                    clear(weighted, count * wide, wide)
                some = True
                add(W[a, b], C, (first + b) * wide, weighted, count * wide, wide)
        if some:
            copy(C, (first + a) * wide, acting, count * wide, wide)
            count += 1
    if count > 0:
        zero = 0 * count  # a literal would be compiled apart
        out, by = Block(flat(H), zero, wide), Block(flat(acting), zero, zero + 1)
        product(out, by, wide, Block(flat(weighted), zero, wide), out, size, count, wide, count > 0)


@linked(**OPTIONS)
def stiffness(e: Engine, k: int, exact: bool, H: Array) -> bool:
    """Add the Hessian of the augmented terms of knot k, after ``add_gradient``, to the lower triangle of H: ``C' W C`` and the
    curvature of the constraints times their multipliers: always if exact, else where it is positive semidefinite. Rows that bound a
    convex set have such a curvature, and beyond their normal it is all that holds a step back. False where it cannot be
    evaluated."""
    bank, conset, kind = e.bank, e.conset, e.plan.which[k]
    rows, size = conset.number[kind], e.model.n[k] + e.model.m[k]
    if rows == 0:
        return True
    _weights(conset, kind, k)
    _add_weighted(conset, k, rows, size, H)
    some = 0.0
    for r in range(rows):
        some += abs(conset.gradient[k, r])
    if some == 0.0 or bank.address[SLOTS * kind + ROW_HESSIAN] == 0:  # no row acts, or all are linear
        return True
    if row_curvature(e, k) != 0:
        return False
    if not exact and not _semidefinite(conset.hessian[0], conset.hessian[1], size):
        return True
    for r in range(size):
        for s in range(r + 1):
            H[r, s] += conset.hessian[0, r, s]
    return True


@linked
def update(conset: ConstraintSet, which: Array, unit: float) -> None:
    """Take over the multipliers that the terms at hand estimate (gradient; minus it for cones), within ``MAX_MULTIPLIER`` units of
    the cost."""
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(conset.number[kind]):
            estimate = conset.gradient[k, r] if conset.kind[kind, r] <= BELOW else -conset.gradient[k, r]
            conset.lam[k, r] = min(max(estimate, -MAX_MULTIPLIER * unit), MAX_MULTIPLIER * unit)


@linked(**INLINE)
def moved(conset: ConstraintSet, which: Array) -> float:
    """Effect of an update of the multipliers: ``sum (new - old)^2 / (2 mu)``, in units of the cost for constraints of any unit."""
    total = 0.0
    for k in range(which.shape[0]):
        kind, mu = which[k], 1.0
        for r in range(conset.number[kind]):
            if conset.kind[kind, r] != IN_CONE:
                mu = conset.mu[k, r]
            sign = 1.0 if conset.kind[kind, r] <= BELOW else -1.0
            change = sign * conset.gradient[k, r] - conset.lam[k, r]
            total += change * change / (2.0 * mu)
    return total


@linked
def measure(conset: ConstraintSet, which: Array, found: Array) -> None:
    """Largest violation of each row [kinds, r] over its knots, as the last expansion left them."""
    found[:] = 0.0
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(conset.number[kind]):
            if conset.holds[k, r]:
                found[kind, r] = max(found[kind, r], row_violation(conset, kind, r, conset.c[k]))


@linked(**INLINE)
def _residual(conset: ConstraintSet, kind: int, k: int, r: int, scale: float) -> float:
    """How far a row is from feasible and complementary together: what its multiplier moves at the next update, by the penalty
    (``max(c, -lam / mu)`` for ``c <= 0``; Birgin, Martinez 2014, section 4.1). Zero where the product of a feasible row and its
    multiplier is below scale."""
    c, gradient, lam, mu = conset.c[k], conset.gradient[k], conset.lam[k], conset.mu[k, r]
    if conset.kind[kind, r] == EQUAL:
        return float(abs(c[r]))
    if conset.kind[kind, r] == BELOW:
        return float(abs(gradient[r] - lam[r]) / mu) if c[r] > 0.0 or abs(gradient[r] * c[r]) > scale else 0.0
    if conset.kind[kind, r] == CONE:
        product, change = 0.0, 0.0
        for s in range(r, r + conset.size[kind, r]):
            product += gradient[s] * c[s]
            change = max(change, abs(gradient[s] + lam[s]))
        missed = row_violation(conset, kind, r, c)
        return max(missed, change / mu) if abs(product) > scale else missed
    return 0.0


@linked
def residuals(conset: ConstraintSet, which: Array, scale: float, found: Array) -> float:
    """As ``measure``, of violation and complementarity together; products below scale do not count. Returns the largest."""
    found[:] = 0.0
    largest = 0.0
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(conset.number[kind]):
            if conset.holds[k, r]:
                found[kind, r] = max(found[kind, r], _residual(conset, kind, k, r, scale))
                largest = max(largest, found[kind, r])
    return largest


@linked
def renew(conset: ConstraintSet, which: Array, found: Array, before: Array, tolerance: float, enough: float, growth: float,
          most: float, unit: float) -> tuple[bool, float]:
    """Take over the multipliers; raise the penalties of constraints whose residual found [kinds, r] is above the tolerance and did
    not fall to the share ``enough`` of that before. Returns (some penalty that should grow is at its limit, largest penalty)."""
    update(conset, which, unit)
    stuck, largest = False, 0.0
    for k in range(which.shape[0]):
        kind = which[k]
        for r in range(conset.number[kind]):
            if found[kind, r] > tolerance and found[kind, r] > enough * before[kind, r]:
                stuck = stuck or conset.mu[k, r] >= most * unit
                conset.mu[k, r] = min(conset.mu[k, r] * growth, most * unit)
            largest = max(largest, conset.mu[k, r])
    for kind in range(found.shape[0]):
        for r in range(found.shape[1]):
            before[kind, r] = found[kind, r]
    return stuck, largest


@linked
def reprice(conset: ConstraintSet, which: Array, cost: Array) -> float:
    """Cost of the path, costs [S+1] of its knots given, with the terms of the constraints as the last expansion left them;
    refreshes gradient."""
    total = 0.0
    for k in range(which.shape[0]):
        total += cost[k]
        if conset.number[which[k]] > 0:
            total += terms(conset, which[k], k, conset.c[k], conset.gradient[k])
    return total
