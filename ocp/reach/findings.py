"""What a look at the problem alone tells: ends that bounds on rates put out of reach, constraints that they rule out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.problem import Finding, Kind, Phase, Problem, System
from ocp.reach.ends import ends_missed
from ocp.reach.tube import impossible, plain, prescribed, tube
from ocp.thresholds import REACH, ROUNDING


def first_findings(problem: Problem) -> tuple[Finding, ...]:
    """What bounds rule out: distances that speed limits cannot cover in the longest duration, states and constraints that no motion
    within bounds of states, controls and rates can meet. (Ends outside their bounds are refused by files.)

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
    """What no state was found to meet at the ends of phases (``ocp.reach.ends``)."""
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
    """Those of the pairs whose rate is x_j everywhere: it depends on nothing else, with a slope that is always 1."""
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
