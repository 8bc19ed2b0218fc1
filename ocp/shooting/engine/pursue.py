"""Steps of a receding horizon between two measurements, compiled: follow, iterate, shift, feed back."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.bank import evaluate
from dynamics.kernels.calls import row_address
from dynamics.kernels.linked import linked
from ocp.shooting.engine.augmented import terms, update
from ocp.shooting.engine.expansion import expand
from ocp.shooting.engine.iterate import BROKEN, MAX_BLENDS, RUNNING, chase, direct, step
from ocp.shooting.engine.knot_constraints import bind_rows, violation
from ocp.shooting.engine.knots import VALUE, away, moved
from ocp.shooting.engine.record import BLEND, COST, FAILED, GAP, UNIT, VIOLATION, Engine
from ocp.shooting.engine.rollout import accept, trial

Array = np.ndarray


@linked
def pursue(e: Engine, start: Array, log: Array, most: int) -> int:
    """Take over a measured state start [1, nx]: follow the plan from there by its gains, then ``most`` iterations and, where
    constraints are active, one update of their multipliers. Returns RUNNING or what stopped it; then the plan stays as it could be
    followed."""
    if not _follow(e, start):
        return BROKEN
    ending = chase(e, log, most)
    if ending == RUNNING:
        _multiply(e)
    return ending


@linked
def prepare(e: Engine, start: Array, log: Array, pending: bool, whole: int, part: float, seconds: float) -> int:
    """The part of an iteration that needs no measurement: take the step from the last one, start [1, nx], where it is ``pending``;
    move the plan on (``shift``); expand and sweep about the motion that it predicts. Returns RUNNING or what stopped it."""
    ending = RUNNING
    if pending:
        # the direction was that of the path before: u + a k + K dx is the same from the path that follows it by K
        if not _follow(e, start):
            return BROKEN
        ending = step(e, log, 0)
        if ending == RUNNING:
            _multiply(e)
    if not shift(e, whole, part, seconds) or not _follow(e, e.path.x):
        return BROKEN
    failed = expand(e)
    if failed >= 0:
        e.state[FAILED] = failed
        return BROKEN
    e.state[BLEND] = MAX_BLENDS
    return int(direct(e, -1.0, -1.0))


@linked
def react(e: Engine, measured: Array, u: Array) -> bool:
    """u [M]: control of the direction at hand for a measured state [1, nx], ``u + k + K dx`` within bounds. False where its
    distance to the plan cannot be evaluated."""
    plan, path, policy, dx = e.plan, e.path, e.policy, e.spare.dx_one[0]
    if not away(e, 0, path.x[0], measured[0], dx):
        return False
    for i in range(u.shape[0]):
        value = path.u[0, i] + policy.k[0, i]
        for c in range(e.model.n[0]):
            value += policy.K[0, i, c] * dx[c]
        u[i] = min(max(value, plan.lower[0, i]), plan.upper[0, i])
    return True


@linked
def _follow(e: Engine, start: Array) -> bool:
    """The plan from the state start [1, nx] by its gains. False where it cannot be followed."""
    total, gaps, failed = trial(e, 0.0, start)
    if failed >= 0:
        e.state[FAILED] = failed
        return False
    accept(e)
    e.state[COST], e.state[GAP] = total, gaps
    return True


@linked
def _multiply(e: Engine) -> None:
    """One update of multipliers, where there are constraints."""
    count = 0
    for kind in range(e.conset.number.shape[0]):
        count += e.conset.number[kind]
    if count > 0 and _estimate(e):
        update(e.conset, e.plan.which, max(1.0, e.settings[UNIT]))


@linked
def _estimate(e: Engine) -> bool:
    """Constraints, their largest violation and multiplier estimates at the path as it is: those at hand are of the path before the
    last step, and multipliers taken from there count a violation twice. False where a row cannot be evaluated."""
    conset, plan, path = e.conset, e.plan, e.path
    largest = 0.0
    for k in range(plan.which.shape[0]):
        kind = plan.which[k]
        if conset.number[kind] > 0:
            first = bind_rows(e.bank, plan, path, k)
            e.bank.res[0] = row_address(conset.c, k)
            if evaluate(e.bank, first + VALUE) != 0 or np.isnan(terms(conset, kind, k, conset.c[k], conset.gradient[k])):
                return False
            largest = max(largest, violation(conset, kind, k))
    e.state[VIOLATION] = largest
    return True


@linked
def _between(e: Engine, k: int, part: float) -> bool:
    """The state at the fraction ``part`` of step k of the plan, into ``e.spare.after``. False where it cannot be evaluated."""
    x, dx = e.path.x, e.spare.dx_one[0]
    if not away(e, k, x[k], x[k + 1], dx):
        return False
    for c in range(dx.shape[0]):
        dx[c] *= part
    return bool(moved(e, k, x[k], dx, e.spare.after[0]))


@linked
def shift(e: Engine, whole: int, part: float, seconds: float) -> bool:
    """Move the plan on by ``whole`` steps and the fraction ``part`` of one: states and controls are interpolated, gains and
    multipliers are those that hold there, the last ones repeated; the clock advances. False where a state could not be
    interpolated."""
    plan, path, policy, conset, spare = e.plan, e.path, e.policy, e.conset, e.spare
    S = path.u.shape[0]
    for k in range(S + 1):
        plan.t[k] += seconds
        i = min(k + whole, S)
        if part > 0.0 and i < S:
            if not _between(e, i, part):
                return False
            for c in range(path.x.shape[1]):
                path.x[k, c] = spare.after[0, c]
        else:
            for c in range(path.x.shape[1]):
                path.x[k, c] = path.x[i, c]
        j = i if k == S or i < S else S - 1
        if k < S:
            for c in range(conset.lam.shape[1]):
                conset.lam[k, c] = conset.lam[j, c]
            for c in range(path.u.shape[1]):
                path.u[k, c] = (1.0 - part) * path.u[j, c] + part * path.u[min(j + 1, S - 1), c]
                for d in range(policy.K.shape[2]):
                    policy.K[k, c, d] = policy.K[j, c, d] if i < S else 0.0
    return True


@linked
def feedback(e: Engine, k: int, part: float, measured: Array, u: Array) -> bool:
    """u [M] at the fraction ``part`` of step k: the constant control and the gains times the distance of the measured state [1, nx]
    to the plan, within bounds."""
    plan, path, spare, n = e.plan, e.path, e.spare, e.model.n[0]
    if not _between(e, k, part) or not away(e, k, spare.after[0], measured[0], spare.dx_one[0]):
        return False
    for c in range(n, e.model.n[k]):  # states before, of steps that look back, miss the plan by as much
        spare.dx_one[0, c] = spare.dx_one[0, c - n]
    for i in range(u.shape[0]):
        value = path.u[k, i]
        for c in range(e.model.n[k]):
            value += e.policy.K[k, i, c] * spare.dx_one[0, c]
        u[i] = min(max(value, plan.lower[k, i]), plan.upper[k, i])
    return True
