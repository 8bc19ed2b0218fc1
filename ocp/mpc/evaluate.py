"""Measures of a closed loop: tracking errors and violations by name, from the substeps of the plant.

Functions are those of the problem, so of the model; a plant with other lengths is seen through the model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import casadi as ca
import numpy as np

from ocp.mpc.options import Tracked
from ocp.mpc.result import Tracking, Violation
from ocp.problem import At, Cost, Phase, Sense, System

TOLERANCE = 1e-6
"""Violations below this are rounding."""


def values(function: ca.Function, system: System, t: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """A function of (t, x, u, p) at times t [k], states x [k, nx] and controls u [k, nu]: [k, n]."""
    p = np.asarray(system.parameter_values, float).reshape(-1, 1)
    # columns side by side are evaluated in one call
    return np.asarray(function(t[None, :], x.T, u.T, p), float).T.reshape(len(t), -1)


def symbols(system: System) -> list[ca.MX]:
    """Of (t, x, u, p)."""
    return [ca.MX.sym(name, size) for name, size in (("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np))]


def running(cost: Cost, system: System) -> ca.Function:
    """A cost as a scalar function of (t, x, u, p)."""
    return ca.Function("running", given := symbols(system), [cost.expression(*given)])


def track(system: System, tracked: Sequence[Tracked], t: np.ndarray, x: np.ndarray, u: np.ndarray) -> tuple[Tracking, ...]:
    """Errors of the tracked quantities over the substeps; u [k, nu] as long as t [k]."""
    found = []
    for item in tracked:
        value, reference = (values(f, system, t, x, u) for f in (item.value, item.reference))
        distance = np.linalg.norm(value - reference, axis=1)
        worst = int(np.argmax(distance))
        found.append(Tracking(item.name, item.unit, value, reference, _root_mean_square(t, distance), float(distance[worst]),
                              float(t[worst]), item.state, item.within))
    return tuple(found)


def _root_mean_square(t: np.ndarray, distance: np.ndarray) -> float:
    if len(t) < 2:
        return float(distance[0])
    return float(np.sqrt(np.trapezoid(distance**2, t) / (t[-1] - t[0])))


def violations(phase: Phase, t: np.ndarray, x: np.ndarray, u: np.ndarray, share: float = 0.0) -> tuple[Violation, ...]:
    """Every bound and path constraint of a phase along the substeps, the worst first; what was never broken comes with 0. share: of
    the range that a row moves through, which it may lie outside."""
    found = [_violation(name, components, excess, t, soft, share) for name, components, excess, soft in _excesses(phase, t, x, u)]
    return tuple(sorted(found, key=lambda v: (v.soft, -v.largest)))


def _violation(name: str, components: Sequence[str], excess: np.ndarray, t: np.ndarray, soft: bool, share: float) -> Violation:
    finite = np.where(np.isfinite(excess), excess, 0.0)
    tolerance = np.maximum(TOLERANCE, share * np.ptp(finite, axis=0))
    over = excess / tolerance
    k, i = divmod(int(np.argmax(over)), over.shape[1])
    broken = over.max(axis=1) > 1.0
    return Violation(name, max(0.0, float(excess[k, i])), float(t[k]), components[i], float(broken.mean()), float(tolerance[i]),
                     soft, float(t[int(np.argmax(broken))]) if broken.any() else None, np.maximum(0.0, finite).max(axis=1))


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
