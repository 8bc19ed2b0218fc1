"""Points at which derivatives are compared: on the guess, and around it within bounds."""

from __future__ import annotations

import casadi as ca
import numpy as np

from ocp.derivative_check.records import Point
from ocp.guess import on_manifold, sample_guess
from ocp.problem import Phase

_SPREAD = 0.3  # standard deviation of a perturbation where no bounds give a scale
_SHARE = 0.2  # the same as a share of the distance between bounds


def path_points(phase: Phase, begin: float, count: int, rng: np.random.Generator) -> tuple[Point, ...]:
    """``count`` points on the guess at even fractions and one random neighbour of each. begin: time at the phase's start."""
    return tuple(p for s in np.linspace(0, 1, count) for p in (_guess_point(phase, begin, float(s)),
                                                              _neighbour(phase, begin, float(s), rng)))


def end_points(phase: Phase, begin: float, fraction: float, count: int, rng: np.random.Generator) -> tuple[Point, ...]:
    """The guess at one end (fraction 0 or 1) and ``count`` random neighbours."""
    around = (_neighbour(phase, begin, fraction, rng, moved_time=False) for _ in range(count))
    return (_guess_point(phase, begin, fraction), *around)


def _guess_point(phase: Phase, begin: float, s: float) -> Point:
    x, u = (a[0] for a in sample_guess(phase.guess, phase.system.space, np.array([s])))
    x, u = _inside(phase, x, u)
    return _point(phase, f"guess at {s:g} of the phase", True, begin + s * phase.duration.guess, x, u,
                  np.array(phase.system.parameter_values, float))


def _neighbour(phase: Phase, begin: float, s: float, rng: np.random.Generator, *, moved_time: bool = True) -> Point:
    system, space = phase.system, phase.system.space
    at = _guess_point(phase, begin, s)
    spread = np.full(space.ndx, _SPREAD)
    for coordinate, tangent in enumerate(space.tangent_index):
        if tangent >= 0:
            spread[tangent] = _deviation(phase.x_lower[coordinate], phase.x_upper[coordinate], at.x[coordinate])
    moved = space.plus(ca.DM(at.x), ca.DM(spread * rng.standard_normal(space.ndx)))
    x = on_manifold(space, np.array(ca.DM(moved)).ravel())
    u = at.u + np.array([_deviation(*bounds) for bounds in zip(phase.u_lower, phase.u_upper, at.u, strict=True)]
                        ) * rng.standard_normal(system.nu)
    p = at.p * (1 + 0.1 * rng.uniform(-1, 1, system.np))
    t = begin + phase.duration.guess * rng.uniform() if moved_time else at.t
    return _point(phase, f"random neighbour of the guess at {s:g}", False, t, *_inside(phase, x, u), p)


def _deviation(lower: float, upper: float, value: float) -> float:
    """Size of a perturbation of one variable."""
    if np.isfinite(upper - lower):
        return _SHARE * (upper - lower)
    return _SPREAD * max(1.0, abs(value))


def _inside(phase: Phase, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point moved to the nearest one within the bounds; bounds on curved coordinates are left alone."""
    flat = np.array(phase.system.space.tangent_index, int) >= 0
    return (np.where(flat, np.clip(x, phase.x_lower, phase.x_upper), x), np.clip(u, phase.u_lower, phase.u_upper))


def _point(phase: Phase, label: str, guess: bool, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> Point:
    system = phase.system
    names = (*system.space.names, *system.inputs, *system.parameters, "t")
    return Point(label, guess, float(t), x, u, p, dict(zip(names, np.r_[x, u, p, t].tolist(), strict=True)))
