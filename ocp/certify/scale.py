"""Scales of states, controls, costs and constraints, so that a verdict does not depend on units.
A state is scaled by its range along the motion, a control by its largest magnitude, a cost by its variation when these vary by
their scales, a constraint by its range and by its variation likewise. Nearly constant states and controls have a scale, too: a
hundredth of the declared one, which is the width of the bounds or, if smaller, the deviation that would move the varying states
through their whole range.

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ocp.certify.along import TrajectoryEvaluator
from ocp.thresholds import ROUNDING, SCALES

Array = np.ndarray


@dataclass(frozen=True)
class Scales:
    """Scales: tangent [ndx] and coordinates [nx] of the state, control [nu], parameters [np]; wide_...: for constant ones the whole
    declared scale, for the variation of costs; t [k], x [k, nx], u [k, nu]: where they were taken."""

    tangent: Array
    coordinates: Array
    control: Array
    wide_tangent: Array
    wide_coordinates: Array
    wide_control: Array
    parameters: Array
    t: Array
    x: Array
    u: Array

    def at_least(self, other: Scales, controls: Sequence[int]) -> Scales:
        """The same, no smaller than another's; controls: the numbers there of the controls here, -1 for those it lacks."""
        own, there = np.arange(len(controls)), np.array(controls, dtype=int)

        def larger(name: str) -> Array:
            mine, its = getattr(self, name), getattr(other, name)
            if name.endswith("control"):
                found = mine.copy()
                found[own[there >= 0]] = np.maximum(mine[own[there >= 0]], its[there[there >= 0]])
                return np.asarray(found)
            return np.asarray(np.maximum(mine, its))

        return replace(self, **{name: larger(name) for name in (
            "tangent", "coordinates", "control", "wide_tangent", "wide_coordinates", "wide_control")})


def scales(motion: TrajectoryEvaluator) -> Scales:
    """Scales along the motion; ones for a motion that is not finite."""
    system, phase = motion.phase.system, motion.phase
    nx, ndx, nu = system.nx, system.space.ndx, system.nu
    parameters = np.maximum(np.abs(motion.p), 1e-300)
    for index, low, high in phase.free_parameters:
        parameters[index] = max(abs(motion.p[index]), high - low if np.isfinite(high - low) else 0.0, 1e-300)
    if not motion.finite:
        none = np.zeros(0)
        a, b, c = np.ones(ndx), np.ones(nx), np.ones(nu)
        return Scales(a, b, c, a, b, c, parameters, none, np.zeros((0, nx)), np.zeros((0, nu)))
    t = np.union1d(motion.trajectory.t, np.linspace(*motion.span, SCALES.samples))
    x, u = motion.state(t), motion.control(t)
    away = np.asarray(motion.minus(np.repeat(x[:1], len(t), axis=0).T, x.T)).T
    ranges, sizes = np.ptp(away, axis=0), np.max(np.abs(u), axis=0, initial=0.0)
    magnitudes = system.space.by_tangent(np.max(np.abs(x), axis=0))
    declared_x, declared_u = _declared(motion, t, x, u, ranges, sizes)
    found: list[Array] = []
    for part in (SCALES.constant, 1.0):
        tangent = np.maximum(np.maximum(ranges, part * declared_x), ROUNDING.resolution * magnitudes)
        coordinates = np.maximum(np.ptp(x, axis=0), SCALES.constant)
        for i, k in enumerate(system.space.tangent_index):
            coordinates[i] = tangent[k] if k >= 0 else coordinates[i]
        found += [tangent, coordinates, np.maximum(sizes, part * declared_u)]
    narrow, wide = found[:3], found[3:]
    return Scales(narrow[0], narrow[1], narrow[2], wide[0], wide[1], wide[2], parameters, t, x, u)


def _declared(motion: TrajectoryEvaluator, t: Array, x: Array, u: Array, ranges: Array, sizes: Array) -> tuple[Array, Array]:
    """Declared scales of states [ndx] and controls [nu]: the smaller of the width of the bounds and of the effect of deviations.
    Zero for varying ones, which need none."""
    phase, ndx, of_tangent = motion.phase, len(ranges), motion.phase.system.space.by_tangent
    own = np.r_[ranges, sizes]
    width = np.r_[of_tangent(phase.state_bounds.width), phase.control_bounds.width]
    declared = np.where(np.isfinite(width) & (width > 0) & ((width <= SCALES.widest_bounds * own) | (own == 0)), width, np.inf)
    narrow = np.where(np.isfinite(declared), declared, 0.0)
    magnitude = np.r_[of_tangent(np.max(np.abs(x), axis=0)), sizes]
    hint = np.r_[of_tangent(np.max(np.abs(phase.guess.x), axis=0)), np.max(np.abs(phase.guess.u), axis=0, initial=0.0)]
    among = np.r_[np.maximum(magnitude[:ndx], ranges.max(initial=0.0)), np.full(len(sizes), sizes.max(initial=0.0))]
    still = own <= SCALES.constant * np.maximum(narrow, among)
    largest = float(magnitude.max(initial=0.0))
    if largest <= ROUNDING.negligible * float(hint.max(initial=0.0)):  # nothing moves at all: the guess tells what would be much
        still, magnitude, largest = np.ones(len(own), dtype=bool), hint, float(hint.max())
    largest = largest or 1.0
    effects = _effects(motion, t, x, u, magnitude, largest, np.flatnonzero(still | (np.arange(len(own)) >= ndx)))
    moving, span = (ranges > ROUNDING.negligible * ranges.max(initial=0.0)) & ~still[:ndx], ranges.copy()
    for i in range(ndx, len(own)):  # a control whose effect is below rounding counts as constant, even if it is the largest
        pushed = float(np.max(effects[i][moving] / span[moving], initial=0.0)) * motion.duration * float(own[i])
        still[i] |= 0 < pushed <= ROUNDING.resolution
    for _ in range(SCALES.chain):  # controls that affect only constant states are scaled by their effects on these
        for i in np.flatnonzero(still).tolist():
            strongest = float(np.max(effects[i][moving] / span[moving], initial=0.0)) * motion.duration
            if strongest > 1e-12 / largest:
                declared[i] = min(declared[i], 1 / strongest)
        found = still[:ndx] & np.isfinite(declared[:ndx])
        span, moving = np.where(found & ~moving, declared[:ndx], span), moving | found
    noise = magnitude <= ROUNDING.negligible * largest
    declared = np.where(np.isfinite(declared), declared, np.where(noise, largest, magnitude))
    declared = np.where(still, declared, 0.0)
    return declared[:ndx], declared[ndx:]


def _effects(motion: TrajectoryEvaluator, t: Array, x: Array, u: Array, magnitude: Array, largest: float,
             which: Array) -> dict[int, Array]:
    """The largest effect of one unit of deviation of each of these states and controls on the rates, [ndx] each."""
    some = np.linspace(0, len(t) - 1, min(SCALES.trials, len(t))).astype(int)
    t, x, u, space, ndx = t[some], x[some], u[some], motion.phase.system.space, motion.phase.system.space.ndx

    def rate(x: Array, u: Array) -> Array:
        return np.asarray(motion.tangent(x.T, motion.rates(t, x, u).T)).T

    base, found = rate(x, u), {}
    for i in which.tolist():
        if i >= ndx + len(motion.phase.system.controls):  # rates come from unknowns that the equations determine, not from these
            found[i] = np.zeros(ndx)
            continue
        nudge = SCALES.deviation * (float(magnitude[i]) if magnitude[i] > SCALES.deviation * largest else largest)
        if i < ndx:
            changed = rate(space.moved(x, nudge * np.eye(ndx)[i:i + 1]), u)
        else:
            changed = rate(x, u + nudge * np.eye(u.shape[1])[i - ndx])
        change = np.nan_to_num(np.abs(changed - base)).max(axis=0)
        found[i] = np.where(change > ROUNDING.rounding * np.nan_to_num(np.abs(base)).max(axis=0), change, 0.0) / nudge
    return found
