"""Differential inverse kinematics as a quadratic program: tasks in the cost; limits and clearances as constraints.

    minimise over v   sum over tasks of weight |J v - (rate - gain e)|² + damping² |v|²
    subject to        lower <= v <= upper                 (velocity limits, and position limits one step ahead)
                      h + G v dt >= (1 - gain) h          (every clearance loses at most a fraction of itself per step)

Only bounds: the exact active-set loop solves it. With clearances: OSQP and its exact finish. Outside a limit or a clearance the
constraints ask for a return; where they cannot all be met at once, the clearances get a slack that is as small as possible, and
the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.model.model import Model
from ocp.control.arrays import work_for
from ocp.control.clearance import Clearance, ClearanceKernel, compile_clearances
from ocp.control.descent import Descent
from ocp.control.engine import loops
from ocp.control.limits import limit_box, velocity_bounds
from ocp.control.task_kernel import compile_tasks
from ocp.control.tasks import Task
from ocp.errors import ProblemError, positive
from ocp.solvers.qp import QP, QPOptions, solve_qp

Array = NDArray[np.float64]

_SLACK = 1e6  # weight of a clearance's slack against unit task weights


@dataclass(frozen=True, eq=False)
class VelocityResult:
    """v [nv]; residuals: |J v - w| per task name, w = rate - gain e; active: names of coordinates at a bound; slack: clearances
    that give way (m/s by name, empty when all hold)."""

    v: Array
    residuals: dict[str, float]
    active: tuple[str, ...]
    slack: dict[str, float]


def differential_ik(
    model: Model,
    tasks: Sequence[Task],
    q: ArrayLike,
    *,
    dt: float = 0.01,
    damping: float = 1e-3,
    limits: bool = True,
    speed: ArrayLike | None = None,
    limit_gain: float = 1.0,
    clearances: Sequence[Clearance] = (),
    clearance_gain: float = 0.5,
) -> VelocityResult:
    """Velocity v [nv] of the tasks (one priority, weighted) from q [nq], to be applied for dt (s).

    speed [nv]: velocity limits (default: the model's). limit_gain, clearance_gain: fraction of the way to a limit or contact
    that one step may go. damping: λ > 0. Any q is allowed, outside the limits too. Raises ProblemError.
    """
    positive(damping, "differential_ik.damping")
    kernel = compile_tasks(model, tasks)
    q = np.array(q, float)
    e, J = kernel(q, kernel.targets(tasks))
    gain = kernel.spread(tasks, [task.gain for task in tasks], "gain")
    wanted = kernel.spread(tasks, [task.rate for task in tasks], "rate") - gain * e
    weight = kernel.spread(tasks, [task.weight for task in tasks], "weight")
    lower, upper = velocity_bounds(model, q, limit_box(model, limits), dt, gain=limit_gain, speed=speed)
    P, c = J.T @ (weight[:, None] * J) + damping**2 * np.eye(model.nv), -J.T @ (weight * wanted)
    slack: dict[str, float] = {}
    if clearances:
        guard = compile_clearances(model, clearances)
        h, G = guard(q)
        v, given = _with_rows(P, c, lower, upper, G, -clearance_gain * h / dt)
        slack = {name: float(s) for name, s in zip(guard.names, given, strict=True) if s > 1e-9}
    else:
        v = bounded_minimum(P, c, lower, upper)
    parts = zip(tasks, kernel.starts, kernel.starts[1:], strict=False)
    residuals = {task.name: float(np.linalg.norm(J[a:b] @ v - wanted[a:b])) for task, a, b in parts}
    tied = np.flatnonzero((v <= lower + 1e-12) | (v >= upper - 1e-12))
    return VelocityResult(v, residuals, tuple(model.velocity_names[i] for i in tied), slack)


def bounded_minimum(H: Array, g: Array, lower: Array, upper: Array) -> Array:
    """argmin 1/2 x'Hx + g'x with lower <= x <= upper [n], H positive definite, exactly. Raises ProblemError if it is not."""
    n = g.size
    if not (lower <= upper).all():
        raise ProblemError("a lower bound exceeds its upper bound", where="bounded_minimum")
    x = np.zeros(n)
    if loops.box_qp(np.ascontiguousarray(H).ravel(), 0, n, g, lower, upper, x, work_for(n)) == -1:
        raise ProblemError("the matrix is not positive definite", where="bounded_minimum")
    return x


def _with_rows(P: Array, c: Array, lower: Array, upper: Array, G: Array, least: Array) -> tuple[Array, Array]:
    """(x, slack [k]) with lower <= x <= upper and G x + slack >= least."""
    free = bounded_minimum(P, c, lower, upper)
    if (G @ free >= least - 1e-12).all():
        return free, np.zeros(least.size)
    n, k = c.size, least.size
    options = QPOptions(accuracy=1e-7)
    A, l, u = np.vstack([G, np.eye(n)]), np.r_[least, lower], np.r_[np.full(k, np.inf), upper]
    answer = solve_qp(QP(P, c, A, l, u), options)
    if answer.ok:
        return np.clip(answer.x, lower, upper), np.maximum(least - G @ answer.x, 0.0)
    big = _SLACK * max(1.0, float(np.abs(P).max()))
    P2 = np.block([[P, np.zeros((n, k))], [np.zeros((k, n)), big * np.eye(k)]])
    A2 = np.block([[G, np.eye(k)], [np.eye(n), np.zeros((n, k))], [np.zeros((k, n)), np.eye(k)]])
    answer = solve_qp(
        QP(P2, np.r_[c, np.zeros(k)], A2, np.r_[least, lower, np.zeros(k)], np.r_[np.full(k, np.inf), upper, np.full(k, np.inf)]),
        options,
    )
    x = np.clip(answer.x[:n], lower, upper)
    return x, np.maximum(least - G @ x, 0.0)


def descend_clear(
    descent: Descent, guard: ClearanceKernel, q: Array, iterations: int, largest: float
) -> tuple[Array, float, float, list[Array], int]:
    """Damped Newton on the tasks subject to the limits and h(q) >= 0: (q, cost, largest overlap (m), path, steps).

    Each step is the program above over the step itself; a step is kept when the cost plus a penalty on the overlap falls
    (the exact penalty function of sequential quadratic programming, Nocedal and Wright 2006, 18.3).
    """
    box, nv, root = descent.box, descent.model.nv, descent.weights.root
    q = q.copy()
    loops.enter(box, q)
    _, e, J = descent.evaluate(q)
    h, G = guard(q)
    factor, penalty = 1e-1, 10.0
    path = [q]
    lo, hi = np.empty(nv), np.empty(nv)
    for step in range(iterations):
        error, rate = root * e, root[:, None] * J
        cost, overlap = 0.5 * float(error @ error), float(np.maximum(-h, 0.0).sum())
        if loops.within_tolerance(e, descent.weights) and overlap <= 0.0:
            return q, cost, overlap, path, step
        H = rate.T @ rate
        H[np.diag_indices(nv)] += factor * cost + 1e-10 * max(float(np.trace(H)), 1e-12)
        loops.step_bounds(box, q, largest, lo, hi)
        # rounding a hair inside the boundary keeps accepted points on the clear side
        d, _ = _with_rows(H, rate.T @ error, lo, hi, G, -h + 1e-9)
        q_new, e_new, J_new = descent.evaluate(q, d)
        loops.enter(box, q_new)
        h_new, G_new = guard(q_new)
        weighted = root * e_new
        gain = cost + penalty * overlap - 0.5 * float(weighted @ weighted) - penalty * float(np.maximum(-h_new, 0.0).sum())
        if gain > 0.0:
            q, e, J, h, G = q_new, e_new, J_new, h_new, G_new
            path.append(q)
            factor = max(factor / 3.0, 1e-9)
            if gain <= 1e-12 * (cost + penalty * overlap):
                break
        else:
            factor *= 4.0
            if factor > 1e12:
                break
    error = root * e
    return q, 0.5 * float(error @ error), float(np.maximum(-h, 0.0).max(initial=0.0)), path, len(path)
