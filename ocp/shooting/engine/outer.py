"""The outer iterations of the augmented Lagrangian in compiled loops: minimise, judge, take over multipliers, raise penalties.

Howell, Jackson, Manchester 2019 (ALTRO) for the loop; Birgin, Martinez 2014, section 4.1 for the measure of feasibility and
complementarity together, ``max(c, -lam / mu)`` for ``c <= 0``.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from dynamics.kernels.record import Record
from ocp.shooting.engine import record as rec
from ocp.shooting.engine.augmented import measure, renew, reprice, residuals
from ocp.shooting.engine.expansion import expand
from ocp.shooting.engine.iterate import BROKEN, COLUMNS, CONVERGED, LEVEL, RUNNING, SOFTEN, TASKS, begin, iterate, soften
from ocp.shooting.engine.iterate import perform as inner
from ocp.shooting.engine.scale import scale

Array = np.ndarray
EXHAUSTED, UPDATED, POLISH = 10, 11, 12
"""Further endings: some penalty should grow beyond its limit; no more updates of the multipliers allowed; near enough for Newton's
method."""
# where the outer iterations stand
TOLERANCE, LOOSE, NEWTON_VIOLATION, UPDATES, STALLS, WORST, PENALTY = range(7)
SCHEDULE = 7
# what they are held to
FINAL, MAX_VIOLATION, MAX_PENALTY, REGULARISATION, NEWTON = range(5)
LIMITS = 5
PENALTY_GROWTH = 10.0
"""Of penalties whose constraints an update of the multipliers did not bring nearer."""
MAX_UPDATES = 60
"""Of the multipliers."""
MIN_DECREASE = 0.25
"""A row whose residual fell to this share since the last update keeps its penalty."""
CONSTRAINED, JUDGE, ADVANCE = range(TASKS, TASKS + 3)
"""Further tasks of ``perform``."""
WIDTH = len(COLUMNS) + 2
"""Columns of the log: those of the iterations, then penalty and updates so far."""


class Outer(Record):
    """Where the outer iterations stand, schedule [SCHEDULE], and what they are held to, limits [LIMITS]; numbers of the
    constraints, found and those at the last update of the multipliers, before [kinds, r]."""

    schedule: Array
    limits: Array
    found: Array
    before: Array


@linked
def judge(e: rec.Engine, o: Outer, ending: int) -> int:
    """The consequence of the ending of a minimisation: RUNNING if the multipliers are to be updated, POLISH if Newton's
    method is to be tried first, else an ending. Leaves numbers of the constraints in ``o.found``."""
    if ending == BROKEN:
        return BROKEN
    s, plan, limits, found = e.state, o.schedule, o.limits, o.found
    measure(e.conset, e.plan.which, found)
    worst = 0.0
    for kind in range(found.shape[0]):
        for r in range(found.shape[1]):
            worst = max(worst, found[kind, r])
    plan[WORST] = worst
    feasible = worst <= limits[MAX_VIOLATION]
    if ending == CONVERGED:
        plan[STALLS] = 0.0
        most = limits[FINAL] * scale(e.settings[rec.UNIT], s[rec.COST])
        if feasible and s[rec.GRADIENT] <= most and -(s[rec.LINEAR] + s[rec.QUADRATIC]) <= most and residuals(
                e.conset, e.plan.which, most, found) <= limits[MAX_VIOLATION]:
            return CONVERGED
    else:
        plan[STALLS] += 1.0
        # where neither the minimisation nor the multipliers move any more, nothing else will
        if plan[STALLS] >= 2.0 and (feasible or s[rec.STEPS] == 0.0):
            return ending
    return POLISH if limits[NEWTON] != 0.0 and worst <= plan[NEWTON_VIOLATION] else RUNNING


@linked
def advance(e: rec.Engine, o: Outer, ending: int) -> int:
    """Update multipliers and penalties after a minimisation with this ending that ``judge`` sent on; price the path anew. Returns
    RUNNING (the path must be expanded again) or an ending."""
    s, conset, which, plan, limits = e.state, e.conset, e.plan.which, o.schedule, o.limits
    minimised = ending in (CONVERGED, LEVEL)
    # a search that is stuck where it started learns nothing from a higher penalty
    growth = PENALTY_GROWTH if minimised or s[rec.STEPS] > 0.0 else 1.0
    residuals(conset, which, limits[FINAL] * scale(e.settings[rec.UNIT], s[rec.COST]), o.found)
    stuck, plan[PENALTY] = renew(conset, which, o.found, o.before, limits[MAX_VIOLATION], MIN_DECREASE, growth, limits[MAX_PENALTY],
                                 max(1.0, e.settings[rec.UNIT]))
    s[rec.COST] = reprice(conset, which, e.path.cost)
    if stuck:
        return EXHAUSTED if minimised else ending
    plan[UPDATES] += 1.0
    if plan[UPDATES] >= MAX_UPDATES:
        return UPDATED
    plan[LOOSE] *= 0.1
    plan[TOLERANCE] = max(limits[FINAL], 0.1 * plan[TOLERANCE] if plan[WORST] > limits[MAX_VIOLATION] else 0.0)
    s[rec.MU], s[rec.MU_FACTOR] = limits[REGULARISATION] * e.settings[rec.UNIT], 1.0
    return RUNNING


@linked
def constrained(e: rec.Engine, o: Outer, log: Array, most: int) -> tuple[int, int]:
    """At most ``most`` iterations with as many updates of the multipliers as come between them, from an expanded path; ``begin``
    came before the first call. Returns (rows written to the log [.., WIDTH], ending; RUNNING: to be called again)."""
    plan, row = o.schedule, 0
    while True:
        rows, ending = iterate(e, log[row:], plan[TOLERANCE], _share_of_promise(o), most - row)
        for i in range(row, row + rows):
            log[i, WIDTH - 2], log[i, WIDTH - 1] = plan[PENALTY], plan[UPDATES]
        row += rows
        if ending == SOFTEN:
            if soften(e) >= 0:
                return row, BROKEN
            continue
        if ending == RUNNING:
            return row, RUNNING
        meant = judge(e, o, ending)
        if meant == RUNNING:
            meant = advance(e, o, ending)
        if meant != RUNNING:
            return row, meant
        if expand(e) >= 0 or not np.isfinite(e.state[rec.GRADIENT]):
            return row, BROKEN
        begin(e)


@linked(nogil=True)
def perform(e: rec.Engine, o: Outer, task: int, log: Array, most: int) -> tuple[int, int]:
    """As ``ocp.shooting.engine.iterate.perform``, tolerances by the schedule, with the tasks of the outer iterations. most: for
    JUDGE and ADVANCE the ending."""
    if task == CONSTRAINED:
        return constrained(e, o, log, most)
    if task == JUDGE:
        return 0, judge(e, o, most)
    if task == ADVANCE:
        return 0, advance(e, o, most)
    return inner(e, task, log, o.schedule[TOLERANCE], _share_of_promise(o), most)


@linked
def _share_of_promise(o: Outer) -> float:
    """Share of the cost that a minimisation may still promise at its end, 0 for the last ones."""
    return float(o.schedule[LOOSE]) if o.schedule[TOLERANCE] > o.limits[FINAL] else 0.0
