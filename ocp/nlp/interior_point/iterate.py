"""The iteration: a primal-dual interior-point method with a filter line search (Waechter and Biegler 2006)."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.nlp.interior_point import state as st
from ocp.nlp.interior_point import watchdog
from ocp.nlp.interior_point.barrier import differentiate, errors, lagrangian_gradient, longest, merit, residuals, shift
from ocp.nlp.interior_point.elements import Program, second
from ocp.nlp.interior_point.fronts import Factors, Plan
from ocp.nlp.interior_point.kkt import direction
from ocp.nlp.interior_point.restoration import estimate, restore
from ocp.nlp.interior_point.search import expand, move, note_step, right_side, search
from ocp.nlp.interior_point.ticks import ticks
from ocp.nlp.interior_point.watchdog import PATIENCE

Array = np.ndarray

#: barrier parameter: fall while the barrier problem is solved to KAPPA mu; Waechter and Biegler 2006, Eq. 7 and Sec. 3.1
KAPPA, FALL, POWER, TAU_MIN = 10.0, 0.2, 1.5, 0.99
#: a start lies inside its bounds by this; Sec. 3.6
PUSH = 1e-2
#: constraints and objective are scaled to gradients of at most this at the start, and never by less than MIN_SCALE; Sec. 3.8
STEEPEST, MIN_SCALE = 100.0, 1e-8
#: steps relative to the iterate that change nothing
MIN_RELATIVE_STEP = 10.0 * 2.220446049250313e-16
#: such steps are taken as they are where violations are at most this
ALMOST = 1e-4
#: iterates this large have diverged
MAX_ITERATE = 1e20


@linked(error_model="numpy")
def _inside(value: float, lower: float, upper: float, push: float) -> float:
    """Off its bounds by ``push``, relative to their size or to their distance."""
    low, high = lower > -np.inf, upper < np.inf
    if low:
        gap = push * max(1.0, abs(lower))
        value = max(value, lower + (min(gap, push * (upper - lower)) if high else gap))
    if high:
        gap = push * max(1.0, abs(upper))
        value = min(value, upper - (min(gap, push * (upper - lower)) if low else gap))
    return value


@linked(error_model="numpy")
def _central(value: float, lower: float, upper: float, zl: float, zu: float, mu: float) -> float:
    """A value as far from its bounds as the point of the central path with these multipliers; where they vanish, too, by the root
    of mu, and never by more than a third of the interval."""
    most = (upper - lower) / 3.0
    if lower > -np.inf:
        value = max(value, lower + min(mu / max(zl, np.sqrt(mu)), most))
    if upper < np.inf:
        value = min(value, upper - min(mu / max(zu, np.sqrt(mu)), most))
    return value


@linked(error_model="numpy")
def _scales(p: Program, q: st.State) -> None:
    """Scaling by gradients at the start."""
    q.scale[:] = 0.0
    for e in range(len(q.J)):
        if q.free[p.jacobian_columns[e]]:
            q.scale[p.jacobian_rows[e]] = max(q.scale[p.jacobian_rows[e]], abs(q.J[e]))
    for i in range(len(q.scale)):
        q.scale[i] = max(MIN_SCALE, STEEPEST / q.scale[i]) if q.scale[i] > STEEPEST else 1.0
    steepest = 0.0
    for j in range(len(q.x)):
        if q.free[j]:
            steepest = max(steepest, abs(q.gradient[j]))
    q.scale_f = max(MIN_SCALE, STEEPEST / steepest) if steepest > STEEPEST else 1.0


@linked(error_model="numpy")
def begin(p: Program, q: st.State, plan: Plan, workspace: Factors, push: float) -> None:
    """From x, bounds (unscaled) and, where warm, multipliers (unscaled) to the first iterate. push: off bounds, and of a warm start
    the least barrier parameter and multipliers, which are taken as they are: raised to what mu asks for they would cost iterations
    at a solution."""
    n, m = len(q.x), len(q.y)
    _relax(q)
    for j in range(n):
        if q.free[j]:
            q.x[j] = min(max(q.x[j], q.lower[j]), q.upper[j]) if q.warm else _inside(q.x[j], q.lower[j], q.upper[j], push)
    if not _scaled(p, q):
        q.status = st.NOT_A_NUMBER
        return
    if q.warm:
        _raise_multipliers(q, 0.0)
        _near(p, q, push)
        if not differentiate(p, q):
            q.status = st.NOT_A_NUMBER
            return
        _raise_multipliers(q, push)
    for i in range(m):
        if q.free[n + i]:
            q.s[i] = q.g[i]
            if q.warm:
                q.s[i] = _central(q.g[i], q.lower[n + i], q.upper[n + i], q.zl[n + i], q.zu[n + i], q.mu)
            q.s[i] = _inside(q.s[i], q.lower[n + i], q.upper[n + i], push)
    if not q.warm:
        for j in range(n + m):
            q.zl[j] = 1.0 if q.free[j] and q.lower[j] > -np.inf else 0.0
            q.zu[j] = 1.0 if q.free[j] and q.upper[j] < np.inf else 0.0
        if not estimate(p, q, plan, workspace):
            return
    q.tau = max(TAU_MIN, 1.0 - q.mu)
    theta = residuals(q, q.s, q.g, q.c)
    q.theta, q.phi = theta, merit(q, q.w, q.f)
    q.theta_max, q.theta_min = 1e4 * max(1.0, theta), 1e-4 * max(1.0, theta)
    q.filtered = 0
    q.ready = 1


@linked(error_model="numpy")
def _relax(q: st.State) -> None:
    """Which variables are not fixed, and their bounds relaxed a little so that there is an interior (Sec. 3.5)."""
    least = min(1e-8, q.tolerance)
    for j in range(len(q.w)):
        q.free[j] = 1 if q.lower[j] < q.upper[j] else 0
        if q.free[j]:
            q.lower[j] -= min(q.tolerance, least * max(1.0, abs(q.lower[j])))
            q.upper[j] += min(q.tolerance, least * max(1.0, abs(q.upper[j])))
        elif j < len(q.x):
            q.x[j] = q.lower[j]


@linked(error_model="numpy")
def _scaled(p: Program, q: st.State) -> bool:
    """Functions at x, bounds of the constraints and multipliers, scaled; whether functions are finite."""
    n = len(q.x)
    q.scale[:] = 1.0
    q.scale_f = 1.0
    if not differentiate(p, q):
        return False
    _scales(p, q)
    scale = q.scale_f
    q.f *= scale
    for j in range(n):
        q.gradient[j] *= scale
        q.zl[j] *= scale
        q.zu[j] *= scale
    for e in range(len(q.J)):
        q.J[e] *= q.scale[p.jacobian_rows[e]]
    for i in range(len(q.y)):
        own, part = q.scale[i], scale / q.scale[i]
        q.g[i] *= own
        q.lower[n + i] *= own
        q.upper[n + i] *= own
        q.y[i] *= part
        q.zl[n + i] *= part
        q.zu[n + i] *= part
    return True


@linked(error_model="numpy")
def _near(p: Program, q: st.State, least: float) -> None:
    """The barrier parameter in proportion to the optimality error, as far as it is not smaller already, and x on its central path:
    a solution stays one, and what is as far from one as the solution of a neighbour may change its active bounds. The last barrier
    problem before a program is solved to an error is that of ``error / KAPPA``."""
    n = len(q.x)
    for i in range(len(q.y)):
        q.s[i] = min(max(q.g[i], q.lower[n + i]), q.upper[n + i])
    residuals(q, q.s, q.g, q.c)
    lagrangian_gradient(p, q)
    errors(q)
    q.mu = max(least, min(q.mu, q.error / KAPPA))
    for j in range(n):
        if q.free[j]:
            q.x[j] = _inside(_central(q.x[j], q.lower[j], q.upper[j], q.zl[j], q.zu[j], q.mu), q.lower[j], q.upper[j], least)


@linked(error_model="numpy")
def _raise_multipliers(q: st.State, least: float) -> None:
    """Multipliers of bounds are no less than so much; those where there is no bound are 0."""
    for j in range(len(q.w)):
        q.zl[j] = max(q.zl[j], least) if q.free[j] and q.lower[j] > -np.inf else 0.0
        q.zu[j] = max(q.zu[j], least) if q.free[j] and q.upper[j] < np.inf else 0.0


@linked(error_model="numpy")
def _lower_barrier(q: st.State) -> bool:
    """The next barrier parameter; whether it changed."""
    least = q.tolerance / 10.0
    mu = max(least, min(FALL * q.mu, q.mu ** POWER))
    if mu >= q.mu:
        return False
    q.mu, q.tau = mu, max(TAU_MIN, 1.0 - mu)
    q.filtered = 0
    watchdog.forget(q)
    return True


@linked(error_model="numpy")
def _write(q: st.State) -> None:
    row = q.log[q.rows]
    row[0], row[1], row[2], row[3] = q.f / q.scale_f, q.violation, q.dual, q.mu
    row[4], row[5], row[6], row[7], row[8] = q.step_size, q.alpha, q.alpha_z, q.delta, q.complementarity
    q.rows += 1


@linked(error_model="numpy", nogil=True)
def advance(p: Program, q: st.State, plan: Plan, workspace: Factors, corrected: Array, push: float, count: int) -> None:
    """At most ``count`` iterations; status stays RUNNING where more are wanted."""
    start = ticks()
    if not q.ready:
        begin(p, q, plan, workspace, push)
        if q.status == st.RUNNING:
            lagrangian_gradient(p, q)
            errors(q)
            _write(q)
    for _ in range(count):
        if q.status != st.RUNNING or _decided(q):
            break
        _iteration(p, q, plan, workspace, corrected)
    if q.status == st.RUNNING:
        _decided(q)
    q.cycles += ticks() - start


@linked(error_model="numpy")
def _decided(q: st.State) -> bool:
    if q.error <= q.tolerance and q.violation <= q.tolerance:
        q.status = st.CONVERGED
    elif q.iteration >= q.limit:
        q.status = st.LIMITED
    return q.status != st.RUNNING


@linked(error_model="numpy")
def _iteration(p: Program, q: st.State, plan: Plan, workspace: Factors, corrected: Array) -> None:
    while q.error_mu <= KAPPA * q.mu and _lower_barrier(q):
        errors(q)
    q.phi = merit(q, q.w, q.f)
    if not _curved(p, q, corrected):
        q.status = st.NOT_A_NUMBER
        return
    if direction(p, q, plan, workspace):
        expand(q)
        if _take_step(p, q, workspace, corrected):
            return
    elif q.status == st.NO_ROOM:
        return
    if q.violation <= q.tolerance and q.theta <= 1e-2 * q.tolerance:
        q.status = st.STALLED  # nothing to restore
        return
    watchdog.forget(q)
    if restore(p, q, plan, workspace):
        for j in range(len(q.w)):
            q.zl[j], q.zu[j] = min(q.zl[j], 1.0), min(q.zu[j], 1.0)
        _raise_multipliers(q, 0.0)
        if estimate(p, q, plan, workspace):
            q.alpha = q.alpha_z = 0.0
            _finish(p, q)
    if q.status == st.NO_ROOM:  # the iterate may have moved meanwhile
        q.theta = residuals(q, q.s, q.g, q.c)
        lagrangian_gradient(p, q)


@linked(error_model="numpy")
def _curved(p: Program, q: st.State, corrected: Array) -> bool:
    """The matrix and the right-hand side at the iterate; whether they are finite."""
    began, h = ticks(), len(q.H)
    for i in range(len(q.y)):
        corrected[i] = q.y[i] * q.scale[i]
    failed = second(p, q.x, q.scale_f, corrected, q.H)
    q.f_cycles += ticks() - began
    q.evaluations += 1
    for e in range(h):
        if not np.isfinite(q.H[e]):
            failed = 1
    if failed:
        return False
    st.assign(q.entries[:h], q.H)
    st.assign(q.entries[h:h + len(q.J)], q.J)
    right_side(q, q.c)
    return True


@linked(error_model="numpy")
def _take_step(p: Program, q: st.State, workspace: Factors, corrected: Array) -> bool:
    """Go along the direction; False where no step is taken and feasibility is to be restored."""
    still = False
    if note_step(q) < MIN_RELATIVE_STEP and q.violation <= ALMOST:
        still = _whole_step(q)
    else:
        q.tiny_steps = 0
        if q.shortened >= PATIENCE and not q.trusted:
            watchdog.begin(q)
        if q.trusted:
            if not watchdog.trusted(p, q):
                watchdog.back(q)
                _arrive(p, q)
                return True
        else:
            full, _ = longest(q, q.tau)
            found = search(p, q, workspace, corrected)
            q.shortened = q.shortened + 1 if found and q.alpha < full else 0
            if not found:
                return False
    _, q.alpha_z = longest(q, q.tau)
    move(q, q.alpha, q.alpha_z)
    if _arrive(p, q) and still and q.status == st.RUNNING and not _decided(q):
        q.status = st.STALLED
    return True


@linked(error_model="numpy")
def _whole_step(q: st.State) -> bool:
    """Try all of a step that rounding makes; True where several were and the barrier can go no lower."""
    q.tiny_steps += 1
    q.alpha, q.alpha_z = longest(q, q.tau)
    shift(q, q.alpha)
    return q.tiny_steps > 2 and not _lower_barrier(q)


@linked(error_model="numpy")
def _arrive(p: Program, q: st.State) -> bool:
    """Derivatives and all that is known at the new iterate; whether they are finite."""
    if not differentiate(p, q):
        q.status = st.NOT_A_NUMBER
        return False
    _finish(p, q)
    return True


@linked(error_model="numpy")
def _finish(p: Program, q: st.State) -> None:
    """What is known at a new iterate: residuals, merit, errors, a row of the log."""
    q.theta = residuals(q, q.s, q.g, q.c)
    q.phi = merit(q, q.w, q.f)
    lagrangian_gradient(p, q)
    errors(q)
    q.iteration += 1
    largest = 0.0
    for j in range(len(q.x)):
        largest = max(largest, abs(q.x[j]))
    if largest > MAX_ITERATE:
        q.status = st.DIVERGED
    _write(q)
