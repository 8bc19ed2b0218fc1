"""Whether an end can be met at all, whatever the motion: the constraints of one instant by themselves, from many starts.

A hand that shall be where the arm does not reach is told from this in a fraction of a second; no proof, for a search can miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import casadi as ca
import numpy as np

from ocp.problem import At, Boundary, Bounds, Constraint, Finding, Kind, Phase, Sense
from ocp.thresholds import REACH

Array = np.ndarray


@dataclass(frozen=True)
class _End:
    """Rows that one instant must meet: those of constraints with names and sizes [c] first; what lies outside at a state
    ([nx] -> [m], signed, over sizes)."""

    names: tuple[str, ...]
    sizes: Array
    outside: Callable[[Array], Array]


def ends_missed(phase: Phase) -> Iterator[Finding]:
    """What no state within bounds was found to meet at the start and at the end of a phase; ``missed``: by how much, by component.
    Looks at constraints that do not depend on controls; ends with none of those are left alone."""
    for at, name, boundary, s in ((At.START, "start", phase.start, 0), (At.FINAL, "end", phase.final, -1)):
        rows = [c for c in phase.constraints if c.at is at and c.soft is None and c.sense is not Sense.CONE]
        if not rows:
            continue
        end = _end(phase, rows, boundary, at)
        x = np.asarray(phase.guess.x[s], dtype=float)
        if not np.all(np.isfinite(end.outside(x))):
            continue
        over = np.abs(_nearest(phase, end, x)[:len(end.names)])
        if (bad := np.flatnonzero(over > REACH.missed)).size:
            missed = {end.names[i]: float(over[i] * end.sizes[i]) for i in bad[np.argsort(-over[bad])]}
            yield Finding(Kind.END_OUT_OF_REACH, name=name, data={"missed": missed, "searches": REACH.starts + 1, "sure": False})


def _end(phase: Phase, rows: list[Constraint], boundary: Boundary | None, at: At) -> _End:
    """What the instant must meet: constraints, prescribed components, and bounds of coordinates."""
    system, space = phase.system, phase.system.space
    x = ca.MX.sym("x", space.nx)
    t = 0.0 if at is At.START else phase.duration.guess
    values = [c.function(t, x, ca.DM.zeros(system.nu), ca.DM(system.parameter_values)) for c in rows]
    names = tuple(name for c in rows for name in c.components())
    lower = np.array([value for c in rows for value in c.lower], dtype=float)
    upper = np.array([value for c in rows for value in c.bounds.upper], dtype=float)
    sizes = 1.0 + np.where(np.isfinite(lower), np.abs(lower), np.where(np.isfinite(upper), np.abs(upper), 0.0))
    fixed = [i for i, held in enumerate(boundary.fixed) if held] if boundary is not None else []
    if boundary is not None and fixed:
        away = space.minus(ca.DM(boundary.value), x)
        values.append(ca.vertcat(*(away[i] for i in fixed)))
    value, nothing = ca.vertcat(*values, x), np.zeros(len(fixed))
    within = Bounds(tuple(np.r_[lower, nothing]), tuple(np.r_[upper, nothing])).joined(phase.state_bounds)
    weight = np.r_[1.0 / sizes, np.full(len(within) - len(sizes), REACH.bound_weight)]
    value_of = ca.Function("end", [x], [value])

    def outside(at: Array) -> Array:
        here = value_of(at).full().ravel()
        return np.asarray((here - within.clip(here)) * weight)

    return _End(names, sizes, outside)


def _nearest(phase: Phase, end: _End, guess: Array) -> Array:
    """What is left outside [m] at the best of all starts."""
    from scipy.optimize import least_squares  # a tenth of a second that other problems need not wait for

    space, rng = phase.system.space, np.random.default_rng(0)
    base, step = ca.MX.sym("x", space.nx), ca.MX.sym("d", space.ndx)
    plus = ca.Function("plus", [base, step], [space.plus(base, step)])
    spread = np.minimum(REACH.spread, space.by_tangent(phase.state_bounds.width / 2, np.inf))
    best = end.outside(guess)
    for k in range(REACH.starts + 1):
        start = guess
        if k:
            start = plus(guess, spread * rng.uniform(-1, 1, space.ndx)).full().ravel()

        def missed(d: Array, start: Array = start) -> Array:
            return end.outside(plus(start, d).full().ravel())

        if not np.all(np.isfinite(missed(np.zeros(space.ndx)))):
            continue
        found = missed(least_squares(missed, np.zeros(space.ndx), max_nfev=REACH.max_evaluations).x)
        if np.linalg.norm(found) < np.linalg.norm(best):
            best = found
        if np.max(np.abs(best)) <= REACH.missed:
            break
    return best

