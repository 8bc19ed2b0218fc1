"""What things are measured by, so that a verdict does not depend on units: sizes of states, controls, costs and constraints.

A state is measured by its range along the motion, a control by its largest magnitude, a cost by how much it varies when these vary
by their sizes, a constraint by its range and by how much it varies likewise. What hardly moves has a size, too: a hundredth of what
is declared for it, which is the width of its bounds or, where that is less, the deviation that would move what does move through
its whole range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from ocp.problem import At, Constraint, Cost

if TYPE_CHECKING:
    from ocp.certify.motion import Motion

Array = np.ndarray

#: times at which sizes are taken, besides the knots; and of these, those where deviations are tried
SAMPLES, TRIED = 256, 32
#: what stands still counts as this part of what is declared for it
STILL = 1e-2
#: rounding: states cannot be measured more finely than this part of their magnitude
ROUNDING = 1e-6
#: a cost that vanishes at its optimum is measured by this part of its variation
VANISHING = 1e-4
#: states with less than this part of the largest range are noise, whatever their units
NOISE = 1e-9
#: bounds so many times wider than the motion declare nothing
WIDEST = 1e6
#: deviations from states and controls that stand still, to see what they do, relative to their magnitude
NUDGE = 1e-6


@dataclass(frozen=True)
class Scales:
    """Sizes: tangent [ndx] and coordinates [nx] of the state, control [nu], parameters [np]; wide_...: of what stands still the
    whole of what is declared for it, for how much costs vary; t [k], x [k, nx], u [k, nu]: where they were taken."""

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


def scales(motion: Motion) -> Scales:
    """Sizes along the motion; ones for a motion that is not finite."""
    system, phase = motion.phase.system, motion.phase
    nx, ndx, nu = system.nx, system.space.ndx, system.nu
    parameters = np.maximum(np.abs(motion.p), 1e-300)
    for index, low, high in phase.free_parameters:
        parameters[index] = max(abs(motion.p[index]), high - low if np.isfinite(high - low) else 0.0, 1e-300)
    if not motion.finite:
        none = np.zeros(0)
        a, b, c = np.ones(ndx), np.ones(nx), np.ones(nu)
        return Scales(a, b, c, a, b, c, parameters, none, np.zeros((0, nx)), np.zeros((0, nu)))
    t = np.union1d(motion.trajectory.t, np.linspace(*motion.span, SAMPLES))
    x, u = motion.state(t), motion.control(t)
    away = np.asarray(motion.minus(np.repeat(x[:1], len(t), axis=0).T, x.T)).T
    ranges, sizes = np.ptp(away, axis=0), np.max(np.abs(u), axis=0, initial=0.0)
    magnitudes = _tangent_of(motion, np.max(np.abs(x), axis=0))
    declared_x, declared_u = _declared(motion, t, x, u, ranges, sizes)
    found: list[Array] = []
    for part in (STILL, 1.0):
        tangent = np.maximum(np.maximum(ranges, part * declared_x), ROUNDING * magnitudes)
        coordinates = np.maximum(np.ptp(x, axis=0), STILL)
        for i, k in enumerate(system.space.tangent_index):
            coordinates[i] = tangent[k] if k >= 0 else coordinates[i]
        found += [tangent, coordinates, np.maximum(sizes, part * declared_u)]
    narrow, wide = found[:3], found[3:]
    return Scales(narrow[0], narrow[1], narrow[2], wide[0], wide[1], wide[2], parameters, t, x, u)


def _tangent_of(motion: Motion, values: Array) -> Array:
    """Values of coordinates [nx] for tangent components [ndx]; ones where the space is curved."""
    space = motion.phase.system.space
    found = np.ones(space.ndx)
    for i, k in enumerate(space.tangent_index):
        if k >= 0:
            found[k] = values[i]
    return found


def _declared(motion: Motion, t: Array, x: Array, u: Array, ranges: Array, sizes: Array) -> tuple[Array, Array]:
    """Declared sizes of states [ndx] and controls [nu]: the smaller of the width of the bounds and of what deviations do. Zero for
    what moves, where nothing need be declared."""
    phase, space = motion.phase, motion.phase.system.space
    width = _tangent_of(motion, np.subtract(phase.x_upper, phase.x_lower))
    declared_x, declared_u = (np.where(np.isfinite(w) & (w > 0) & ((w <= WIDEST * own) | (own == 0)), w, np.inf) for w, own in (
        (width, ranges), (np.subtract(phase.u_upper, phase.u_lower), sizes)))
    narrow_x, narrow_u = (np.where(np.isfinite(w), w, 0.0) for w in (declared_x, declared_u))
    magnitude = _tangent_of(motion, np.max(np.abs(x), axis=0))
    still_x = np.flatnonzero(ranges <= STILL * np.maximum(narrow_x, np.maximum(magnitude, ranges.max(initial=0.0))))
    still_u = np.flatnonzero(sizes <= STILL * np.maximum(narrow_u, float(sizes.max(initial=0.0))))
    some = np.linspace(0, len(t) - 1, min(TRIED, len(t))).astype(int)
    t, x, u, moving = t[some], x[some], u[some], ranges > NOISE * ranges.max(initial=0.0)
    plus, largest = plus_of(motion), max(float(magnitude.max(initial=0.0)), float(sizes.max(initial=0.0))) or 1.0

    def reach(change: Callable[[float], tuple[Array, Array]], at: float) -> float:
        """The deviation whose effect on the rates moves some state that moves through its range within the phase."""
        size = NUDGE * (at if at > NUDGE * largest else largest)
        effect = np.abs(rate(*change(size)) - rate(x, u))[:, moving].max(axis=0, initial=0.0) * motion.duration / ranges[moving]
        strongest = float(np.max(np.nan_to_num(effect), initial=0.0))
        return size / strongest if strongest > 1e-12 else np.inf

    def rate(x: Array, u: Array) -> Array:
        return np.asarray(motion.tangent(x.T, motion.call(motion.field, t, x, u).T)).T

    for i in still_x:
        def shifted(size: float, i: int = int(i)) -> tuple[Array, Array]:
            return np.asarray(plus(x.T, (size * np.eye(space.ndx)[i])[:, None])).T, u

        declared_x[i] = min(declared_x[i], reach(shifted, float(magnitude[i])))
    for i in still_u:
        def pushed(size: float, i: int = int(i)) -> tuple[Array, Array]:
            return x, u + size * np.eye(u.shape[1])[i]

        declared_u[i] = min(declared_u[i], reach(pushed, float(sizes[i])))
    for declared, still, own in ((declared_x, still_x, magnitude), (declared_u, still_u, sizes)):
        for i in np.setdiff1d(np.arange(len(declared)), still):
            declared[i] = 0.0
        for i in still:
            if not np.isfinite(declared[i]):
                declared[i] = own[i] if own[i] > 0 else 1.0
    return declared_x, declared_u


def plus_of(motion: Motion) -> ca.Function:
    space = motion.phase.system.space
    a, d = ca.SX.sym("a", space.nx), ca.SX.sym("d", space.ndx)
    return ca.Function("plus", [a, d], [space.plus(a, d)])


def variation(motion: Motion, values: Callable[[Array, Array, Array], Array], t: Array, x: Array, u: Array,
              part: float = 1.0, wide: bool = False) -> Array:
    """How much values [k, n] vary at most when one state or control varies by its size, or this part of it: [k, n]."""
    own, space = motion.scales, motion.phase.system.space
    tangent, control = (own.wide_tangent, own.wide_control) if wide else (own.tangent, own.control)
    base = values(t, x, u)
    found = np.zeros_like(base)
    plus = plus_of(motion)
    moves = [(np.asarray(plus(x.T, (s * e)[:, None])).T, u) for e, scale in zip(np.eye(space.ndx), part * tangent, strict=True)
             for s in (scale, -scale)]
    moves += [(x, u + s * e) for e, scale in zip(np.eye(u.shape[1]), part * control, strict=True)
              for s in (scale, -scale)]
    for states, controls in moves:
        change = np.abs(values(t, states, controls) - base)
        found = np.maximum(found, np.where(np.isfinite(change), change, 0.0))
    return found


def cost_size(motions: Sequence[Motion], size: Callable[[Motion, Cost | Constraint, Array, Array, Array], Array],
              items: Callable[[Motion, At], Sequence[Cost | Constraint]]) -> tuple[float, float]:
    """(size of the objective, its variation): what its terms add up to without cancelling, at most their variation, at least a
    small part of it; and how much they vary when one state or control varies by its size.

    size: values [k] of one term at times; items: the terms of a phase that hold there.
    """
    total, varied = 0.0, 0.0
    for motion in motions:
        if not motion.finite:
            return 1.0, 1.0
        own, free = motion.scales, motion.phase.duration.free or bool(motion.phase.free_parameters)
        some = np.linspace(0, len(own.t) - 1, min(TRIED, len(own.t))).astype(int)
        t, x, u = own.t[some], own.x[some], own.u[some]
        weights = np.gradient(t) if len(t) > 1 else np.zeros(len(t))
        for item in items(motion, At.PATH):
            def values(t: Array, x: Array, u: Array, item: Cost | Constraint = item, motion: Motion = motion) -> Array:
                return size(motion, item, t, x, u)[:, None]

            here = float(weights @ np.nan_to_num(np.abs(values(t, x, u)[:, 0])))
            total += here
            varied += float(weights @ variation(motion, values, t, x, u, wide=True)[:, 0]) + (here if free else 0.0)
        for at, k in ((At.START, 0), (At.FINAL, -1)):
            where = own.t[[k]], own.x[[k]], np.zeros((1, u.shape[1]))
            for item in items(motion, at):
                def end(t: Array, x: Array, u: Array, item: Cost | Constraint = item, motion: Motion = motion) -> Array:
                    return size(motion, item, t, x, u)[:, None]

                total += float(np.nan_to_num(np.abs(end(*where))[0, 0]))
                varied += float(variation(motion, end, *where, wide=True)[0, 0])
                if free:
                    varied += float(np.nan_to_num(np.abs(end(where[0] + motion.duration, *where[1:]) - end(*where)))[0, 0])
    if not varied > 0:
        return (total, total) if total > 0 else (1.0, 1.0)
    return max(min(total, varied), VANISHING * varied), varied


def constraint_sizes(motion: Motion, function: ca.Function, t: Array, values: Array) -> Array:
    """Sizes [n] of the components of a constraint: range along the motion, and variation with states and controls by their sizes.

    t [k], values [k, n]: where it holds, and its values there. Ones for what neither moves nor varies.
    """
    if not motion.finite:
        return np.ones(values.shape[1])
    own = motion.scales
    some = np.linspace(0, len(own.t) - 1, min(TRIED, len(own.t))).astype(int) if len(t) > 1 else np.array(
        [int(np.argmin(np.abs(own.t - t[0])))])
    here = own.t[some], own.x[some], own.u[some]
    varied = variation(motion, lambda *at: motion.call(function, *at), *here).max(axis=0)
    ranges = np.ptp(np.where(np.isfinite(values), values, 0.0), axis=0)
    found = np.maximum(ranges, varied)
    return np.where(found > 0, np.maximum(found, 1e-9 * np.max(np.abs(np.nan_to_num(values)), axis=0)), 1.0)
