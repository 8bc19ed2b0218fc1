"""Loops over knots that follow the dynamics: the rollout of given controls, the trials of a line search, points between knots."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.bank import Bank
from dynamics.kernels.linked import linked
from ocp.shooting.engine.augmented import penalty
from ocp.shooting.engine.knots import Step, away, moved, take
from ocp.shooting.engine.record import COST, GAP, LIMIT, MULTIPLE, OPEN, SHOOTING, Engine

Array = np.ndarray


@linked
def _within(x: Array, row: int, size: int, limit: float) -> bool:
    """Whether a state is finite and within limits."""
    inside = True
    for i in range(size):
        inside = inside and abs(x[row, i]) <= limit
    return inside


@linked
def rollout(e: Engine, given: bool) -> tuple[float, int]:
    """Evaluate the controls of the path from its first state. Returns (cost with augmented terms, failed knot or -1).

    given: the states are a guess that is kept; ``path.gap`` receives what the steps miss of them. Otherwise states are filled.
    """
    plan, path, bank, held, step, spare = e.plan, e.path, e.bank, e.held, e.step, e.spare
    S, limit = path.u.shape[0], e.settings[LIMIT]
    total, gaps = 0.0, 0.0
    for k in range(S + 1):
        kind = plan.which[k]
        if given and k < S:
            failed = take(step, bank, kind, plan.t, plan.h, plan.p, path.x, path.u, k, spare.after, 0, path.cost, k) != 0
            next_kind = plan.which[k + 1]
            failed = failed or not _within(spare.after, 0, plan.nx[next_kind], limit) or not np.isfinite(path.cost[k])
            failed = failed or not away(bank, next_kind, plan.flat[next_kind], path.x, k + 1, spare.after, 0, path.gap, k)
            for i in range(e.model.n[k + 1]):
                gaps += abs(path.gap[k, i])
        else:
            after, to = (path.x, k + 1) if k < S else (spare.after, 0)
            failed = take(step, bank, kind, plan.t, plan.h, plan.p, path.x, path.u, k, after, to, path.cost, k) != 0
            failed = failed or not np.isfinite(path.cost[k])
            if k < S:
                failed = failed or not _within(path.x, k + 1, plan.nx[plan.which[k + 1]], limit)
                for i in range(path.gap.shape[1]):
                    path.gap[k, i] = 0.0
        if failed:
            return np.inf, k
        total += path.cost[k]
        if held.number[kind] > 0:
            total += penalty(bank, held, plan, path, k)
        if not np.isfinite(total):
            return np.inf, k
    e.state[COST] = total
    e.state[GAP] = gaps
    return total, -1


@linked
def trial(e: Engine, a: float, start: Array) -> tuple[float, float, int]:
    """Step of length a along the direction at hand, into ``e.trial``, from the state in the first row of ``start``. Returns (cost
    with
    augmented terms, sum of gaps, failed knot or -1).

    The rollouts follow ``u + a k + K dx`` within the bounds, dx the distance to the path (closed loop) or, with open rollouts,
    that of
    the linear model. Where there are gaps, a share 1 - a of each stays. Multiple shooting moves states and controls along the
    linear model and leaves what the steps then miss as new gaps.
    """
    plan, path, new, bank, held, step = e.plan, e.path, e.trial, e.bank, e.held, e.step
    policy, spare, model = e.policy, e.spare, e.model
    mode, limit = e.settings[SHOOTING], e.settings[LIMIT]
    S = path.u.shape[0]
    total, gaps, any_gap = 0.0, 0.0, e.state[GAP] > 0.0
    if mode == MULTIPLE:
        for k in range(S + 1):
            kind = plan.which[k]
            for i in range(model.n[k]):
                spare.dx_one[0, i] = a * spare.dx[k, i]
            if not moved(bank, kind, plan.flat[kind], path.x, k, spare.dx_one, 0, new.x, k):
                return np.inf, np.inf, k
    else:
        for i in range(path.x.shape[1]):
            new.x[0, i] = start[0, i]
    for k in range(S + 1):
        kind = plan.which[k]
        if k < S:
            n, m = model.n[k], model.m[k]
            lower, upper = plan.lower[k], plan.upper[k]
            if mode in (OPEN, MULTIPLE):
                for i in range(m):
                    new.u[k, i] = min(max(path.u[k, i] + a * spare.du[k, i], lower[i]), upper[i])
            else:
                if not away(bank, kind, plan.flat[kind], path.x, k, new.x, k, spare.dx_one, 0):
                    return np.inf, np.inf, k
                dx = spare.dx_one[0]
                for i in range(m):
                    value = path.u[k, i] + a * policy.k[k, i]
                    K = policy.K[k, i]
                    for j in range(n):
                        value += K[j] * dx[j]
                    new.u[k, i] = min(max(value, lower[i]), upper[i])
        if k == S or mode == MULTIPLE:
            failed = take(step, bank, kind, plan.t, plan.h, plan.p, new.x, new.u, k, spare.after, 0, new.cost, k) != 0
            if k < S:
                after_kind = plan.which[k + 1]
                failed = failed or not _within(spare.after, 0, plan.nx[after_kind], limit)
                failed = failed or not away(bank, after_kind, plan.flat[after_kind], new.x, k + 1, spare.after, 0, new.gap, k)
            failed = failed or not np.isfinite(new.cost[k])
        else:
            failed = take(step, bank, kind, plan.t, plan.h, plan.p, new.x, new.u, k, new.x, k + 1, new.cost, k) != 0
            failed = failed or not np.isfinite(new.cost[k]) or not _within(new.x, k + 1, plan.nx[plan.which[k + 1]], limit)
            if any_gap and not failed:
                # x' = step [+] -(1 - a) gap
                after_kind = plan.which[k + 1]
                for i in range(model.n[k + 1]):
                    new.gap[k, i] = (1.0 - a) * path.gap[k, i]
                    spare.dx_one[0, i] = -new.gap[k, i]
                for i in range(new.x.shape[1]):
                    spare.after[0, i] = new.x[k + 1, i]
                failed = not moved(bank, after_kind, plan.flat[after_kind], spare.after, 0, spare.dx_one, 0, new.x, k + 1)
        if failed:
            return np.inf, np.inf, k
        if k < S and (any_gap or mode == MULTIPLE):
            for i in range(model.n[k + 1]):
                gaps += abs(new.gap[k, i])
        total += new.cost[k]
        if held.number[kind] > 0:
            total += penalty(bank, held, plan, new, k)
        if not np.isfinite(total):
            return np.inf, np.inf, k
    return total, gaps, -1


@linked
def accept(e: Engine) -> None:
    """The trial becomes the path."""
    path, new = e.path, e.trial
    for k in range(path.x.shape[0]):
        path.cost[k] = new.cost[k]
        for i in range(path.x.shape[1]):
            path.x[k, i] = new.x[k, i]
    for k in range(path.u.shape[0]):
        for i in range(path.u.shape[1]):
            path.u[k, i] = new.u[k, i]
        for i in range(path.gap.shape[1]):
            path.gap[k, i] = new.gap[k, i]


@linked
def sample(step: Step, bank: Bank, kind: int, t: Array, h: Array, p: Array, x: Array, u: Array, out: Array, cost: Array) -> int:
    """``out[i] = step(t[i], x[i], u[i], p, h[i])``: one step of its own length from each row. Returns the failed row or -1."""
    for i in range(t.shape[0]):
        if take(step, bank, kind, t, h, p, x, u, i, out, i, cost, 0) != 0:
            return i
    return -1
