"""Loops over knots that follow the dynamics: the rollout of given controls, the trials of a line search, points between knots."""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.shooting.engine.augmented import penalty
from ocp.shooting.engine.knots import away, moved, take
from ocp.shooting.engine.record import COST, GAP, MAX_STATE, MULTIPLE, OPEN, SHOOTING, Engine, Path, Sampler

Array = np.ndarray


@linked
def _stepped(e: Engine, path: Path, k: int, after: Array) -> bool:
    """Take step k of a path. Whether its cost is finite and the state after it within limits."""
    inside = take(e, path, k, after) == 0 and np.isfinite(path.cost[k])
    if inside and k < path.u.shape[0]:
        for i in range(e.plan.nx[e.plan.which[k + 1]]):
            inside = inside and abs(after[i]) <= MAX_STATE
    return inside


@linked
def rollout(e: Engine, from_guess: bool) -> tuple[float, int]:
    """Evaluate the controls of the path from its first state. Returns (cost with augmented terms, failed knot or -1).

    from_guess: the states are a guess that is kept; ``path.gap`` receives what the steps miss of them. Otherwise states are filled.
    """
    path, after = e.path, e.spare.after[0]
    S = path.u.shape[0]
    total, gaps = 0.0, 0.0
    for k in range(S + 1):
        if k == S:
            failed = not _stepped(e, path, k, after)
        elif from_guess:
            failed = not _stepped(e, path, k, after) or not away(e, k + 1, path.x[k + 1], after, path.gap[k])
            for i in range(e.model.n[k + 1]):
                gaps += abs(path.gap[k, i])
        else:
            failed = not _stepped(e, path, k, path.x[k + 1])
            for i in range(path.gap.shape[1]):
                path.gap[k, i] = 0.0
        if failed:
            return np.inf, k
        total += path.cost[k] + penalty(e, path, k)
        if not np.isfinite(total):
            return np.inf, k
    e.state[COST] = total
    e.state[GAP] = gaps
    return total, -1


@linked
def trial(e: Engine, a: float, start: Array) -> tuple[float, float, int]:
    """Step of length a along the direction at hand, into ``e.trial``, from the state in the first row of ``start``. Returns (cost
    with augmented terms, sum of gaps, failed knot or -1).

    The rollouts follow ``u + a k + K dx`` within the bounds, dx the distance to the path (closed loop) or, with open rollouts,
    that of the linear model. Where there are gaps, a share 1 - a of each stays. Multiple shooting moves states and controls along
    the linear model and leaves what the steps then miss as new gaps.
    """
    plan, path, new, policy, spare, n = e.plan, e.path, e.trial, e.policy, e.spare, e.model.n
    mode, dx, after = e.settings[SHOOTING], spare.dx_one[0], spare.after[0]
    multiple, follow = mode == MULTIPLE, mode != MULTIPLE and mode != OPEN
    S = path.u.shape[0]
    total, gaps, any_gap = 0.0, 0.0, e.state[GAP] > 0.0
    if multiple:
        for k in range(S + 1):
            for i in range(n[k]):
                dx[i] = a * spare.dx[k, i]
            if not moved(e, k, path.x[k], dx, new.x[k]):
                return np.inf, np.inf, k
    else:
        for i in range(path.x.shape[1]):
            new.x[0, i] = start[0, i]
    for k in range(S + 1):
        if k < S:
            if follow and not away(e, k, path.x[k], new.x[k], dx):
                return np.inf, np.inf, k
            for i in range(e.model.m[k]):
                value = path.u[k, i]
                if follow:
                    value += a * policy.k[k, i]
                    K = policy.K[k, i]
                    for j in range(n[k]):
                        value += K[j] * dx[j]
                else:
                    value += a * spare.du[k, i]
                new.u[k, i] = min(max(value, plan.lower[k, i]), plan.upper[k, i])
        if k == S:
            failed = not _stepped(e, new, k, after)
        elif multiple:
            failed = not _stepped(e, new, k, after) or not away(e, k + 1, new.x[k + 1], after, new.gap[k])
        else:
            failed = not _stepped(e, new, k, new.x[k + 1])
            if any_gap and not failed:
                # x' = step [+] -(1 - a) gap
                for i in range(n[k + 1]):
                    new.gap[k, i] = (1.0 - a) * path.gap[k, i]
                    dx[i] = -new.gap[k, i]
                for i in range(new.x.shape[1]):
                    after[i] = new.x[k + 1, i]
                failed = not moved(e, k + 1, after, dx, new.x[k + 1])
        if failed:
            return np.inf, np.inf, k
        if k < S and (any_gap or multiple):
            for i in range(n[k + 1]):
                gaps += abs(new.gap[k, i])
        total += new.cost[k] + penalty(e, new, k)
        if not np.isfinite(total):
            return np.inf, np.inf, k
    return total, gaps, -1


@linked
def accept(e: Engine) -> None:
    """The trial becomes the path."""
    path, new = e.path, e.trial
    for k in range(path.x.shape[0]):
        path.cost[k] = new.cost[k]
        for i in range(path.inner.shape[1]):
            path.inner[k, i] = new.inner[k, i]
        for i in range(path.x.shape[1]):
            path.x[k, i] = new.x[k, i]
    for k in range(path.u.shape[0]):
        for i in range(path.u.shape[1]):
            path.u[k, i] = new.u[k, i]
        for i in range(path.gap.shape[1]):
            path.gap[k, i] = new.gap[k, i]


@linked
def sample(e: Sampler, path: Path, out: Array) -> int:
    """One step of its own length from each row of a path, into the rows of out. Returns the failed row or -1."""
    for i in range(path.x.shape[0]):
        if take(e, path, i, out[i]) != 0:
            return i
    return -1
