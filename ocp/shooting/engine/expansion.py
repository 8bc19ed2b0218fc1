"""The quadratic model along a path, and what keeps it convex."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.loops.dense import clear, flat
from dynamics.loops.vectors import OPTIONS
from ocp.shooting.engine.augmented import add_gradient, stiffness
from ocp.shooting.engine.knot_constraints import jacobian, row_curvature
from ocp.shooting.engine.knots import ROW_HESSIAN, SLOTS, complete, differentiate, full_hessian, in_one
from ocp.shooting.engine.lq import adjoint, costates, projected_gradient
from ocp.shooting.engine.record import CONVEXIFY, FULL, GAP, GAUSS_NEWTON, GRADIENT, UNIT, VIOLATION, Engine

Array = np.ndarray


@linked(nogil=True)
def differentiate_range(e: Engine, first: int, last: int) -> tuple[int, float]:
    """Gradients, derivatives of the steps and, where nothing else is wanted, Gauss-Newton Hessians of the stages first ... last -
    1.
    Returns (failed knot or -1, largest violation). Each knot is a computation of its own: any split gives the same bits."""
    model, hessian, largest = e.model, e.settings[FULL] == 0.0, 0.0
    for k in range(first, last):
        if differentiate(e, k, model.H, hessian) != 0:
            return k, np.nan
        found = add_gradient(e, k, model.g[k])
        if np.isnan(found):
            return k, np.nan
        largest = max(largest, found)
    return -1, largest


@linked(nogil=True)
def hessian_range(e: Engine, first: int, last: int) -> int:
    """Full Hessians, which need the costates, then the curvature of the augmented terms. Returns the failed knot or -1."""
    full = e.settings[FULL] != 0.0
    for k in range(first, last):
        if (full and full_hessian(e, k) != 0) or not stiffness(e, k, full, e.model.H[k]):
            return k
    return -1


@linked
def _close(e: Engine, violation: float) -> bool:
    """Gaps and the size of the gradient of an expanded path. False where something is not finite."""
    model, policy, path, plan = e.model, e.policy, e.path, e.plan
    if e.state[GAP] > 0.0:
        for k in range(path.gap.shape[0]):
            for i in range(path.gap.shape[1]):
                model.gap[k, i] = path.gap[k, i]
    else:
        for k in range(path.gap.shape[0]):
            for i in range(path.gap.shape[1]):
                model.gap[k, i] = 0.0
    e.state[GRADIENT] = projected_gradient(model.m, path.u, policy.gradient, plan.lower, plan.upper, e.settings[UNIT])
    e.state[VIOLATION] = violation
    return bool(np.isfinite(e.state[GRADIENT]))


@linked
def finish(e: Engine, violation: float) -> bool:
    """Costates, gradient and its size after all stages are differentiated. False where something is not finite."""
    costates(e.model, e.policy.costate, e.policy.gradient)
    return _close(e, violation)


@linked(**OPTIONS)
def complete_all(e: Engine) -> bool:
    """Everything with full Hessians in one pass from the end to the start, the costates along with it: the same numbers as
    ``differentiate_range``, ``finish`` and ``hessian_range``. False where something cannot be evaluated or is not finite; Hessians
    are zero then."""
    model, policy = e.model, e.policy
    largest, good = 0.0, True
    exact = e.settings[FULL] != 0.0  # always; a literal would be compiled apart
    for k in range(model.F.shape[0], -1, -1):
        if in_one(e, k):
            good = complete(e, k) == 0
        else:
            good = differentiate(e, k, model.H, False) == 0 and full_hessian(e, k) == 0
        if good:
            found = add_gradient(e, k, model.g[k])
            largest = max(largest, found)
            good = not np.isnan(found) and stiffness(e, k, exact, model.H[k])
        if not good:
            break
        adjoint(model, k, policy.costate, policy.gradient)
    good = good and _close(e, largest)
    if not good:
        clear(flat(model.H), 0, model.H.size)
    return good


@linked
def expand(e: Engine) -> int:
    """Fill the quadratic model, costates and gradient. Returns the failed knot or -1."""
    if e.settings[FULL] != 0.0 and complete_all(e):
        return -1
    # Gauss-Newton; or something failed, and is found from the start
    stages = e.plan.which.shape[0]
    failed, violation = differentiate_range(e, 0, stages)
    if failed < 0:
        failed = hessian_range(e, 0, stages) if finish(e, violation) else 0
    return failed


@linked
def coarsen(e: Engine) -> int:
    """Gauss-Newton Hessians, augmented terms included, beside the full ones. Returns the failed knot or -1."""
    coarse = e.spare.coarse
    exact = e.settings[FULL] < 0.0  # never; a literal would be compiled apart
    for k in range(e.plan.which.shape[0]):
        # g and F come out as they were
        if differentiate(e, k, coarse, True) != 0 or np.isnan(add_gradient(e, k, e.model.g[k])):
            return k
        if not stiffness(e, k, exact, coarse[k]):
            return k
    return -1


@linked
def lagrangian(e: Engine) -> int:
    """Derivatives along the path without penalties: costs and steps into ``e.model``, constraints into ``e.conset``; the Hessians
    are those of the
    Lagrangian with the costates and gradients as they stand (Gauss-Newton's unless the settings say full). Failed knot or -1."""
    plan, bank, conset, model = e.plan, e.bank, e.conset, e.model
    full = e.settings[FULL] != 0.0
    for k in range(plan.which.shape[0]):
        kind = plan.which[k]
        size = model.n[k] + model.m[k]
        if differentiate(e, k, model.H, not full) != 0 or (full and full_hessian(e, k) != 0):
            return k
        if conset.number[kind] > 0:
            if jacobian(e, k) != 0:
                return k
            if full and bank.address[SLOTS * kind + ROW_HESSIAN] != 0:
                if row_curvature(e, k) != 0:
                    return k
                for i in range(size):
                    for j in range(i + 1):
                        model.H[k, i, j] += conset.hessian[0, i, j]
    return -1


@linked
def convexify(e: Engine, share: float) -> None:
    """Move the Hessians towards convex ones: by ``share`` of the way that is left to Gauss-Newton's, or to their projections
    onto the positive semidefinite matrices."""
    model = e.model
    if e.settings[CONVEXIFY] == GAUSS_NEWTON:
        coarse = e.spare.coarse
        for k in range(coarse.shape[0]):
            for i in range(model.n[k] + model.m[k]):
                for j in range(i + 1):
                    model.H[k, i, j] += share * (coarse[k, i, j] - model.H[k, i, j])
    else:
        for k in range(model.H.shape[0]):
            project(model.H[k], model.n[k] + model.m[k], e.spare.vectors)


@linked
def project(H: Array, size: int, V: Array) -> None:
    """The nearest positive semidefinite matrix, in place in the lower triangle, by Jacobi rotations (Golub, Van Loan, section 8.5).
    V [size, size]: scratch."""
    for i in range(size):
        for j in range(size):
            V[i, j] = 1.0 if i == j else 0.0
        for j in range(i + 1, size):
            H[i, j] = H[j, i]
    for _ in range(30):
        off, whole = 0.0, 0.0
        for i in range(size):
            for j in range(size):
                whole += H[i, j] * H[i, j]
                if j < i:
                    off += H[i, j] * H[i, j]
        if off <= 1e-30 * whole:
            break
        for p in range(size):
            for q in range(p + 1, size):
                if H[p, q] == 0.0:
                    continue
                tau = 0.5 * (H[q, q] - H[p, p]) / H[p, q]
                t = (1.0 if tau >= 0.0 else -1.0) / (abs(tau) + np.sqrt(1.0 + tau * tau))
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = t * c
                for i in range(size):
                    a, b = H[i, p], H[i, q]
                    H[i, p], H[i, q] = c * a - s * b, s * a + c * b
                for i in range(size):
                    a, b = H[p, i], H[q, i]
                    H[p, i], H[q, i] = c * a - s * b, s * a + c * b
                    a, b = V[i, p], V[i, q]
                    V[i, p], V[i, q] = c * a - s * b, s * a + c * b
    # V diag(max(0, eigenvalue)) V': eigenvalues stand on the diagonal and would be overwritten below
    for i in range(size):
        H[0, i] = H[i, i] if i else H[0, 0]
    for i in range(size):
        value = max(0.0, H[0, i])
        for j in range(size):
            V[j, i] *= np.sqrt(value)
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for k in range(size):
                total += V[i, k] * V[j, k]
            H[i, j] = total
