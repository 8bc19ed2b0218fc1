"""Lower priorities of an inverse-kinematics problem: descend within what the higher ones leave free.

For each level in turn: a damped Newton step in the null space of all higher levels (with joints at their limits active), then
Newton back onto the errors the higher levels had, then the test: the level must have gained and no higher task lost. So the
answer is lexicographic, whether the higher levels are met or only as close as they can be.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocp.control.arrays import FAILED
from ocp.control.descent import Descent
from ocp.control.engine import loops
from ocp.control.pseudo_inverse import null_space_basis, pseudo_inverse

Array = NDArray[np.float64]
Outcome = Literal["met", "best possible", "unfinished"]

#: how far (m, rad) a higher task may be moved by rounding
HOLD = 1e-10


class Refined(NamedTuple):
    """q [nq], the outcome of each lower level, configurations passed, steps tried."""

    q: Array
    outcomes: list[Outcome]
    passed: list[Array]
    steps: int


def refine(descent: Descent, q: Array, iterations: int, largest: float) -> Refined:
    """(q [nq], outcome of each lower level, configurations passed, steps tried)."""
    outcomes: list[Outcome] = []
    passed: list[Array] = []
    steps = 0
    for level in range(1, len(descent.levels)):
        q, outcome, used = _level(descent, q, level, iterations, largest, passed)
        outcomes.append(outcome)
        steps += used
    return Refined(q, outcomes, passed, steps)


class LevelEnd(NamedTuple):
    """q [nq], the outcome of a level, steps."""

    q: Array
    outcome: Outcome
    steps: int


def _level(
    descent: Descent, q: Array, level: int, iterations: int, largest: float, passed: list[Array]
) -> LevelEnd:
    rows, above = descent.levels[level], slice(0, descent.levels[level].start)
    root = descent.weights.root
    tasks = np.flatnonzero((descent.weights.starts[:-1] >= rows.start) & (descent.weights.starts[:-1] < rows.stop))
    _, e, J = descent.evaluate(q)
    held = e[above].copy()
    limit = np.maximum(descent.task_norms(e), 0.0) + HOLD
    damping, growth = 1e-3, 4.0
    for step in range(iterations):
        if (descent.task_norms(e)[tasks] <= descent.weights.tolerance[tasks]).all():
            return LevelEnd(q, "met", step)
        error, rate = root[rows] * e[rows], root[rows, None] * J[rows]
        cost = 0.5 * float(error @ error)
        motion, pull = _free_step(descent, q, error, rate, root[above, None] * J[above], damping * cost)
        if pull * pull <= 1e-18 * (1e-30 + cost) * float(np.sum(rate * rate)):
            return LevelEnd(q, "best possible", step)
        trial = _to_first_limit(descent, q, motion, largest)
        landed = _restore(descent, trial, held, above, level)
        after = np.inf
        if landed is not None:
            _, e_new, J_new = descent.evaluate(landed)
            weighted = root[rows] * e_new[rows]
            kept = (descent.task_norms(e_new)[: tasks[0]] <= limit[: tasks[0]]).all()
            after = 0.5 * float(weighted @ weighted) if kept else np.inf
        if after < cost:
            q, e, J = landed, e_new, J_new  # type: ignore[assignment]
            passed.append(q)
            damping, growth = max(damping / 4.0, 1e-12), 4.0
            if after > cost * (1.0 - 1e-12):
                return LevelEnd(q, "best possible", step + 1)
        else:
            damping, growth = damping * growth, growth * 2.0
            if damping > 1e12:
                return LevelEnd(q, "best possible", step + 1)
    met = (descent.task_norms(e)[tasks] <= descent.weights.tolerance[tasks]).all()
    return LevelEnd(q, ("met" if met else "unfinished"), iterations)


def _free_step(descent: Descent, q: Array, error: Array, rate: Array, upper: Array, damping: float) -> tuple[Array, float]:
    """(damped step d [nv] in the null space of ``upper`` that moves no joint out of its limits, norm of the projected
    gradient)."""
    box, nv = descent.box, descent.model.nv
    at_low, at_high = np.zeros(nv, bool), np.zeros(nv, bool)
    flat = box.at >= 0
    here = q[box.at[flat]]
    at_low[flat], at_high[flat] = here <= box.lower[flat], here >= box.upper[flat]
    free = np.ones(nv, bool)
    while True:
        Z = np.zeros((nv, 0))
        if free.any():
            Z_free = null_space_basis(upper[:, free], 1e-9)
            Z = np.zeros((nv, Z_free.shape[1]))
            Z[free] = Z_free
        A = rate @ Z
        pull = A.T @ error
        z = -np.linalg.solve(A.T @ A + (damping + 1e-14 * (1.0 + np.trace(A.T @ A))) * np.eye(Z.shape[1]), pull)
        d = Z @ z
        outward = free & ((at_low & (d < 0.0)) | (at_high & (d > 0.0)))
        if not outward.any():
            return d, float(np.linalg.norm(pull))
        free &= ~outward


def _to_first_limit(descent: Descent, q: Array, d: Array, largest: float) -> Array:
    """q [+] t d with the largest t <= 1 that stays within the limits and moves no component by more than ``largest``."""
    t = min(1.0, largest / max(float(np.abs(d).max(initial=0.0)), 1e-300))
    box = descent.box
    for i in np.flatnonzero(box.at >= 0):
        room = (box.upper[i] if d[i] > 0.0 else box.lower[i]) - q[box.at[i]]
        if d[i] != 0.0 and t * abs(d[i]) > abs(room):
            t = abs(room / d[i])
    landed = descent.evaluate(q, t * d)[0]
    loops.enter(box, landed)
    return landed


def _restore(descent: Descent, q: Array, errors: Array, above: slice, level: int) -> Array | None:
    """The nearest configuration with the same errors of the higher levels, or (at a singularity) no larger ones; None if none."""
    start = q.copy()
    box = descent.box
    for _ in range(8):
        _, e, J = descent.evaluate(q)
        drift = e[above] - errors
        if float(np.abs(drift).max(initial=0.0)) <= 0.1 * HOLD:
            return q
        d = -pseudo_inverse(J[above], 1e-9) @ drift
        if not np.abs(d).max(initial=0.0) < 1.0:
            break
        q = descent.evaluate(q, d)[0]
        loops.enter(box, q)
    s, size = descent.scratch, 40
    s.q[:] = start
    path, costs = np.empty((size + 1, descent.model.nq)), np.empty(size + 1)
    code, _ = loops.descend(descent.evaluator, descent.upto(level - 1), box, s, np.pi, size, path, costs)
    return None if code == FAILED else s.q.copy()
