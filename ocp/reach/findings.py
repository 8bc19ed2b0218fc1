"""Findings of the problem alone: ends that bounds on rates put out of reach, constraints that they rule out, and ends that
cannot be met at all, whatever the motion.

For these the constraints of one instant are met by themselves, from many starts. A hand that shall be where the arm does not reach
is reported from this in a fraction of a second; no proof, for a search can miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.problem import At, Boundary, Bounds, Constraint, Finding, Kind, Phase, Problem, Sense, System
from ocp.reach.tube import impossible, plain, prescribed, tube
from ocp.thresholds import REACH, ROUNDING

Array = np.ndarray


@dataclass(frozen=True)
class _End:
    """Constraints that one instant must meet: those of constraints with names and sizes [c] first; what lies outside at a state
    ([nx] -> [m], signed, over sizes)."""

    names: tuple[str, ...]
    sizes: Array
    outside: Callable[[Array], Array]


def ends_missed(phase: Phase) -> Iterator[Finding]:
    """End conditions of a phase that no state within bounds was found to meet; ``missed``: by how much, by component.
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
    """Conditions at the instant: constraints, prescribed components, and bounds of coordinates."""
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
    spread = np.minimum(REACH.spread, space.by_tangent(phase.state_bounds.width / 2, np.inf))
    best = end.outside(guess)
    for k in range(REACH.starts + 1):
        start = guess
        if k:
            start = space.moved(guess[None], spread * rng.uniform(-1, 1, (1, space.ndx)))[0]

        def missed(d: Array, start: Array = start) -> Array:
            return end.outside(space.moved(start[None], d[None])[0])

        if not np.all(np.isfinite(missed(np.zeros(space.ndx)))):
            continue
        found = missed(least_squares(missed, np.zeros(space.ndx), max_nfev=REACH.max_evaluations).x)
        if np.linalg.norm(found) < np.linalg.norm(best):
            best = found
        if np.max(np.abs(best)) <= REACH.missed:
            break
    return best


def first_findings(problem: Problem) -> tuple[Finding, ...]:
    """Conditions that bounds rule out: distances that speed limits cannot cover in the longest duration, states and constraints
    that no motion within bounds of states, controls and rates can meet. (Ends outside their bounds are refused by files.)

    ``data["sure"]``: whether it is proved; otherwise it holds along the guess, or of what a search found.
    """
    several = len(problem.phases) > 1
    found, begins = [], (0.0, 0.0)
    for phase in problem.phases:
        own = list(_too_far(phase))
        if phase.system.period is None and not any(one.data["sure"] for one in own):
            boxes = tube(phase, begins)
            own += [boxes.empty] if boxes.empty is not None else impossible(phase, boxes)
        found += [replace(one, phase=phase.name if several else "") for one in own]
        begins = begins[0] + phase.duration.lower, begins[1] + phase.duration.upper
    return tuple(found)


def end_findings(problem: Problem) -> tuple[Finding, ...]:
    """Conditions at the ends of phases that no state was found to meet (``ocp.reach.findings``)."""
    several = len(problem.phases) > 1
    return tuple(replace(one, phase=phase.name if several else "") for phase in problem.phases for one in ends_missed(phase))


def _too_far(phase: Phase) -> Iterator[Finding]:
    system, longest = phase.system, phase.duration.upper
    if not np.isfinite(longest):
        return
    names, start, final = system.space.names, prescribed(phase, phase.start), prescribed(phase, phase.final)
    for position, rate in _rates(phase).items():
        given = position in start and position in final
        begin, end = (start[position], final[position]) if given else (phase.guess.x[0, position], phase.guess.x[-1, position])
        lowest, highest = phase.state_bounds.pairs()[rate]
        way, fastest = float(end - begin), highest if end > begin else -lowest
        if fastest >= 0 and abs(way) > fastest * longest * (1 + ROUNDING.resolution) + ROUNDING.resolution:
            yield Finding(Kind.DISTANCE_TOO_LONG, name=names[position], value=abs(way), tolerance=float(fastest * longest),
                          data={"rate": names[rate], "fastest": float(fastest), "longest": longest, "sure": given})


def _rates(phase: Phase) -> dict[int, int]:
    """Which coordinate of the state is the rate of which, whatever the rest: x_i' = x_j."""
    system, rng = phase.system, np.random.default_rng(0)
    flat = plain(phase)
    bounded = [j for j in flat if phase.state_bounds.bounded[j]]
    found: dict[int, set[int]] = {}
    for _ in range(REACH.points):
        x, u = rng.uniform(0.1, 1.0, system.nx), rng.uniform(0.1, 1.0, system.nu)
        xi = np.asarray(system.rate(0.1, x, u, np.asarray(system.parameter_values, dtype=float))).ravel()
        for i, component in flat.items():
            equal = {j for j in bounded if abs(xi[component] - x[j]) <= 1e-12}
            found[i] = found.get(i, equal) & equal
    pairs = {i: js.pop() for i, js in found.items() if len(js) == 1}
    return _nothing_else(system, pairs, flat) if pairs else pairs


def _nothing_else(system: System, pairs: dict[int, int], flat: dict[int, int]) -> dict[int, int]:
    """Those of the pairs whose rate is x_j everywhere: it depends on nothing else, with a derivative that is always 1."""
    try:
        rate = system.rate if system.rate.is_a("SXFunction") else system.rate.expand()
    except RuntimeError:  # it calls compiled code
        return {}
    t, x, u, p = (ca.SX.sym(name, rate.size1_in(i)) for i, name in enumerate("txup"))
    rows = rate(t, x, u, p)

    def alone(row: ca.SX, j: int) -> bool:
        slope = ca.jacobian(row, x[j])
        others = ca.vertcat(t, x[[i for i in range(system.nx) if i != j]], u, p)
        return slope.is_constant() and float(slope) == 1.0 and not ca.depends_on(row, others)

    return {i: j for i, j in pairs.items() if alone(rows[flat[i]], j)}
