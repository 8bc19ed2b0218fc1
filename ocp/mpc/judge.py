"""A closed loop judged by its own file: bounds and path constraints at every substep, and what the loop is for at its end.

What is tracked with ``within`` keeps it over the last horizon of the run. Everything else that the file aims at (tracked
quantities, the final state and final constraints of a horizon; where there are none, the running costs) must not be lost. It is
lost if at the end of the run its error stays above that at the start, above what its reference moves by, and either has grown over
the last horizon beyond anything before, or is no smaller than a share of what it is without control: feedback is there to make
errors smaller than that, a sensitivity below one (Skogestad and Postlethwaite 2005, "Multivariable Feedback Control", section 2.2).
Without control an angle is off by half a turn at most: more turns are as bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.mpc import evaluate
from ocp.mpc.evaluate import track, values
from ocp.mpc.options import Tracked
from ocp.mpc.result import Tracking, Violation
from ocp.problem import At, Finding, Kind, Phase
from ocp.thresholds import CLOSED_LOOPS

Array = np.ndarray
HALF_TURNS = {"rad": np.pi, "deg": 180.0}
Points = tuple[Array, Array, Array]
"""Times [k], states [k, nx] and controls [k, nu]."""


@dataclass(frozen=True)
class _Aim:
    """The purpose of a loop: error [k] along the run, and by how much its reference moves meanwhile."""

    name: str
    unit: str
    error: Array
    moves: float = 0.0


def judged(phase: Phase, violations: Sequence[Violation], tracking: Sequence[Tracking], tracked: Sequence[Tracked], points: Points,
           alone: Callable[[], Points | None]) -> tuple[Finding, ...]:
    """Comparison of a run with its file, along its points. alone: the same plant without control, None where it is unknown."""
    found = [Finding(Kind.CONSTRAINT_BROKEN, name=v.name, component=v.component if v.component != v.name else "", time=v.time,
                     value=v.largest, tolerance=v.tolerance,
                     data={"first": v.first, "share": v.share, "unit": phase.system.units.get(v.component, "")})
             for v in violations if not v.holds]
    return (*found, *_missed(phase, tracking, points[0]), *_lost(phase, tracking, tracked, points, alone))


def _last(phase: Phase, t: Array, share: float = 1.0) -> Array:
    """Which times [k] lie in the last horizon, or a share of it."""
    return np.asarray(t >= t[-1] - share * min(phase.duration.guess, t[-1]))


def _missed(phase: Phase, tracking: Sequence[Tracking], t: Array) -> Iterator[Finding]:
    last = _last(phase, t)
    for item in tracking:
        error = np.where(last, item.error, 0.0)
        worst = int(np.argmax(error))
        if item.within is not None and error[worst] > item.within:
            yield Finding(Kind.TRACKING_MISSED, name=item.name, time=float(t[worst]), value=float(error[worst]),
                          tolerance=item.within, data={"unit": item.unit, "from": float(t[last][0])})


def _lost(phase: Phase, tracking: Sequence[Tracking], tracked: Sequence[Tracked], points: Points,
          alone: Callable[[], Points | None]) -> Iterator[Finding]:
    last, judged_already = _last(phase, points[0], CLOSED_LOOPS.end), {item.name for item in tracking if item.within is not None}
    aims = {aim.name: aim for aim in _aims(phase, tracking, points) if aim.name not in judged_already}
    far = {name: aim for name, aim in aims.items() if aim.error[last].min() > max(float(aim.error[0]), aim.moves)}
    if not far or (other := alone()) is None:
        return
    others = {aim.name: aim for aim in _aims(phase, track(phase.system, tracked, *other), other)}
    count = len(other[0])  # the plant may diverge without control
    here = last[:count]
    for name, aim in far.items():
        without = min(_size(others[name].error[here]) if count == len(last) else np.inf, HALF_TURNS.get(aim.unit, np.inf))
        before = aim.error[~_last(phase, points[0])].max(initial=0.0) or np.inf
        if _size(aim.error[last]) >= CLOSED_LOOPS.lost * without or aim.error[last].min() > CLOSED_LOOPS.growth * before:
            yield Finding(Kind.TRACKING_LOST, name=name, time=float(points[0][-1]), value=float(aim.error[last].min()),
                          tolerance=max(float(aim.error[0]), aim.moves),
                          data={"unit": aim.unit, "from": float(points[0][last][0]), "end": float(aim.error[-1]),
                                "share": _size(aim.error[last]) / without})


def _size(error: Array) -> float:
    return float(np.sqrt(np.mean(error**2)))


def _aims(phase: Phase, tracking: Sequence[Tracking], points: Points) -> Iterator[_Aim]:
    t, x, u = points
    system, known = phase.system, False
    for item in tracking:
        known = True
        unit = item.unit or ("" if item.state is None else system.units.get(system.space.names[item.state], ""))
        yield _Aim(item.name, unit, item.error, float(np.linalg.norm(np.ptp(item.reference, axis=0))))
    if phase.final is not None and any(phase.final.fixed):
        known, symbols = True, evaluate.symbols(system)
        away = ca.densify(system.space.minus(ca.DM(phase.final.value), symbols[1]))[np.flatnonzero(phase.final.fixed).tolist()]
        yield _Aim("final state", "", np.linalg.norm(values(ca.Function("away", symbols, [away]), system, t, x, u), axis=1))
    for c in phase.constraints:
        if c.at is At.FINAL:
            known = True
            yield _Aim(c.name, "", np.linalg.norm(np.maximum(0.0, c.excess(values(c.function, system, t, x, u))), axis=1))
    if not known:  # of states alone: what controls cost is no aim
        costs = [evaluate.running(cost, system) for cost in phase.costs if cost.at is At.PATH]
        total = sum((values(one, system, t, x, np.zeros_like(u))[:, 0] for one in costs), np.zeros(len(t)))
        if np.isfinite(total).all() and (total >= 0.0).all():
            yield _Aim("running costs", "", np.sqrt(total))
