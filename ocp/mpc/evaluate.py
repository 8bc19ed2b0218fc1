"""What a closed loop is judged by: tracking errors and violations by name, from the substeps of the plant.

Functions are those of the problem, so of the model; a plant with other lengths is seen through the model's.
"""

from collections.abc import Iterator, Sequence

import casadi as ca
import numpy as np

from ocp.mpc.options import Tracked
from ocp.mpc.result import Tracking, Violation
from ocp.problem import At, Phase, Sense, System

TOLERANCE = 1e-6
"""Violations below this are rounding."""


def values(function: ca.Function, system: System, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """A function of (t, x, u, p) at times t [k], states x [k, nx] and controls u [k, nu]: [k, n]."""
    p = np.asarray(system.parameter_values, float).reshape(-1, 1)
    # columns side by side are evaluated in one call
    return np.asarray(function(t[None, :], x.T, u.T, p), float).T.reshape(len(t), -1)


def track(system: System, tracked: Sequence[Tracked], t: np.ndarray, x: np.ndarray, u: np.ndarray) -> tuple[Tracking, ...]:
    """Errors of the tracked quantities over the substeps; u [k, nu] as long as t [k]."""
    found = []
    for item in tracked:
        value, reference = (values(f, system, t, x, u) for f in (item.value, item.reference))
        distance = np.linalg.norm(value - reference, axis=1)
        worst = int(np.argmax(distance))
        found.append(Tracking(item.name, item.unit, value, reference, _root_mean_square(t, distance), float(distance[worst]),
                              float(t[worst]), item.state))
    return tuple(found)


def _root_mean_square(t: np.ndarray, distance: np.ndarray) -> float:
    if len(t) < 2:
        return float(distance[0])
    return float(np.sqrt(np.trapezoid(distance**2, t) / (t[-1] - t[0])))


def violations(phase: Phase, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> tuple[Violation, ...]:
    """Every bound and path constraint of a phase along the substeps, the worst first; what was never broken comes with 0."""
    found = [_violation(name, components, excess, t, soft) for name, components, excess, soft in _excesses(phase, t, x, u)]
    return tuple(sorted(found, key=lambda v: (v.soft, -v.largest)))


def _violation(name: str, components: Sequence[str], excess: np.ndarray, t: np.ndarray, soft: bool) -> Violation:
    k, i = divmod(int(np.argmax(excess)), excess.shape[1])
    largest = max(0.0, float(excess[k, i]))
    return Violation(name, largest, float(t[k]), components[i], float((excess.max(axis=1) > TOLERANCE).mean()), TOLERANCE, soft)


def _excesses(phase: Phase, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> Iterator[tuple[str, Sequence[str], np.ndarray, bool]]:
    """(name, components, how far above zero [k, n], soft?): positive where broken."""
    system = phase.system
    for what, names, data, bounds in (("state bounds", system.space.names, x, phase.state_bounds),
                                      ("control bounds", system.inputs, u, phase.control_bounds)):
        bounded = np.flatnonzero(bounds.bounded)
        if bounded.size:
            yield what, [names[i] for i in bounded], bounds[bounded].excess(data[:, bounded]), False
    for c in phase.constraints:
        if c.at is not At.PATH:
            continue
        raw, soft = values(c.function, system, t, x, u), c.soft is not None
        yield c.name, [c.name] if c.sense is Sense.CONE else c.components(), c.excess(raw), soft
