"""Points at which derivatives are compared: on the guess, and around it within bounds."""

from __future__ import annotations

import casadi as ca
import numpy as np

from ocp.derivative_check.records import Point
from ocp.guess import on_manifold, sample_guess
from ocp.problem import Bounds, Phase

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
    spread = space.by_tangent(_deviation(phase.state_bounds, at.x), _SPREAD)
    moved = space.plus(ca.DM(at.x), ca.DM(spread * rng.standard_normal(space.ndx)))
    x = on_manifold(space, np.array(ca.DM(moved)).ravel())
    u = at.u + _deviation(phase.control_bounds, at.u) * rng.standard_normal(system.nu)
    p = at.p * (1 + 0.1 * rng.uniform(-1, 1, system.np))
    t = begin + phase.duration.guess * rng.uniform() if moved_time else at.t
    return _point(phase, f"random neighbour of the guess at {s:g}", False, t, *_inside(phase, x, u), p)


def _deviation(bounds: Bounds, values: np.ndarray) -> np.ndarray:
    """Sizes of perturbations [n]."""
    return np.where(np.isfinite(bounds.width), _SHARE * bounds.width, _SPREAD * np.maximum(1.0, np.abs(values)))


def _inside(phase: Phase, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point moved to the nearest one within the bounds; bounds on curved coordinates are left alone."""
    flat = np.array(phase.system.space.tangent_index, int) >= 0
    return np.where(flat, phase.state_bounds.clip(x), x), phase.control_bounds.clip(u)


def _point(phase: Phase, label: str, guess: bool, t: float, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> Point:
    system = phase.system
    names = (*system.space.names, *system.inputs, *system.parameters, "t")
    return Point(label, guess, float(t), x, u, p, dict(zip(names, np.r_[x, u, p, t].tolist(), strict=True)))
