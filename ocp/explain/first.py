"""What a look at the problem alone tells, within milliseconds, before anything is transcribed or solved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ocp.explain.groups import base
from ocp.nlp import NLP, worst_violations
from ocp.problem import Boundary, Phase, Problem

#: rates are compared at so many random points
POINTS = 3
#: what rounding may do to a prescribed value
SLACK = 1e-9


@dataclass(frozen=True)
class Finding:
    """A sentence about constraints that cannot hold together. sure: it is so; otherwise it holds along the guess only."""

    text: str
    sure: bool


def first_findings(problem: Problem) -> tuple[Finding, ...]:
    """Distances that the speed limits cannot cover in the longest duration. (Ends outside their bounds are refused by files.)"""
    several = len(problem.phases) > 1
    return tuple(Finding(f"phase {phase.name}: {text}" if several else text, sure)
                 for phase in problem.phases for text, sure in _too_far(phase))


def worst_rows(nlp: NLP, x: np.ndarray, most: int = 3) -> tuple[tuple[str, float], ...]:
    """(constraint, violation) of the constraints that the point x [n] violates most, each once."""
    found: dict[str, float] = {}
    for name, size in worst_violations(nlp, x, 200):
        found.setdefault(base(name), size)
    return tuple(found.items())[:most]


def _values(phase: Phase, end: Boundary | None) -> Iterator[tuple[int, float]]:
    """(coordinate, value) of what an end prescribes, where coordinates and tangent components are the same."""
    if end is None:
        return
    for coordinate, component in _flat(phase).items():
        if end.fixed[component]:
            yield coordinate, end.value[coordinate]


def _flat(phase: Phase) -> dict[int, int]:
    """Coordinates that are plain numbers, and which component of the tangent each is."""
    return {i: component for i, component in enumerate(phase.system.space.tangent_index) if component >= 0}


def _too_far(phase: Phase) -> Iterator[tuple[str, bool]]:
    system, longest = phase.system, phase.duration.upper
    if not np.isfinite(longest):
        return
    names, start, final = system.space.names, dict(_values(phase, phase.start)), dict(_values(phase, phase.final))
    for position, rate in _rates(phase).items():
        given = position in start and position in final
        begin, end = (start[position], final[position]) if given else (phase.guess.x[0, position], phase.guess.x[-1, position])
        way, fastest = float(end - begin), phase.x_upper[rate] if end > begin else -phase.x_lower[rate]
        if fastest >= 0 and abs(way) > fastest * longest * (1 + SLACK) + SLACK:
            where = "from its start to its end" if given else "along the guess"
            yield (f"{names[position]} moves by {abs(way):.4g} {where}; at most {fastest:.4g} of {names[rate]} for {longest:.4g} s "
                   f"allow {fastest * longest:.4g}: {abs(way) / max(fastest, 1e-300):.4g} s are needed"), given


def _rates(phase: Phase) -> dict[int, int]:
    """Which coordinate of the state is the rate of which: x_i' = x_j."""
    system, rng = phase.system, np.random.default_rng(0)
    flat = _flat(phase)
    bounded = [j for j in flat if np.isfinite(phase.x_upper[j]) or np.isfinite(phase.x_lower[j])]
    found: dict[int, set[int]] = {}
    for _ in range(POINTS):
        x, u = rng.uniform(0.1, 1.0, system.nx), rng.uniform(0.1, 1.0, system.nu)
        xi = np.asarray(system.rate(0.1, x, u, np.asarray(system.parameter_values, dtype=float))).ravel()
        for i, component in flat.items():
            equal = {j for j in bounded if abs(xi[component] - x[j]) <= 1e-12}
            found[i] = found.get(i, equal) & equal
    return {i: js.pop() for i, js in found.items() if len(js) == 1}
