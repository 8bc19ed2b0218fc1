"""Scales of costs and constraints along motions, from those of states and controls (``ocp.certify.scale``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np

from ocp.certify.motion import Motion
from ocp.problem import At, Constraint, Cost
from ocp.thresholds import ROUNDING, SCALES

Array = np.ndarray


def variation(motion: Motion, values: Callable[[Array, Array, Array], Array], t: Array, x: Array, u: Array,
              part: float = 1.0, wide: bool = False) -> Array:
    """The largest variation of values [k, n] when one state or control varies by its scale, or this part of it: [k, n]."""
    own, space = motion.scales, motion.phase.system.space
    tangent, control = (own.wide_tangent, own.wide_control) if wide else (own.tangent, own.control)
    base = values(t, x, u)
    moves = [(space.moved(x, (s * e)[None]), u) for e, scale in zip(np.eye(space.ndx), part * tangent, strict=True)
             for s in (scale, -scale)]
    moves += [(x, u + s * e) for e, scale in zip(np.eye(u.shape[1]), part * control, strict=True) for s in (scale, -scale)]
    if not moves:
        return np.zeros_like(base)
    states, controls = (np.concatenate(stacked) for stacked in zip(*moves, strict=True))
    change = np.abs(values(np.tile(t, len(moves)), states, controls).reshape(len(moves), *base.shape) - base)
    return np.asarray(np.where(np.isfinite(change), change, 0.0).max(axis=0))


def cost_size(motions: Sequence[Motion], size: Callable[[Motion, Cost | Constraint, Array, Array, Array], Array],
              items: Callable[[Motion, At], Sequence[Cost | Constraint]]) -> tuple[float, float]:
    """(scale of the objective, its variation): the sum of its terms without cancellation, at most their variation, at least a small
    part of it; and their variation when one state or control varies by its scale. size: values [k] of one term at times; items: the
    terms of a phase at that point."""
    total, varied = 0.0, 0.0
    for motion in motions:
        if not motion.finite:
            return 1.0, 1.0
        own, free = motion.scales, motion.phase.duration.free or bool(motion.phase.free_parameters)
        some = np.linspace(0, len(own.t) - 1, min(SCALES.trials, len(own.t))).astype(int)
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
    return max(min(total, varied), SCALES.vanishing_cost * varied), varied


def constraint_sizes(motion: Motion, function: ca.Function, t: Array, values: Array) -> Array:
    """Sizes [n] of the components of a constraint: range along the motion, and variation with states and controls by their sizes.

    t [k], values [k, n]: where it holds, and its values there. Ones for what neither moves nor varies.
    """
    if not motion.finite:
        return np.ones(values.shape[1])
    own = motion.scales
    some = np.linspace(0, len(own.t) - 1, min(SCALES.trials, len(own.t))).astype(int) if len(t) > 1 else np.array(
        [int(np.argmin(np.abs(own.t - t[0])))])
    here = own.t[some], own.x[some], own.u[some]
    varied = variation(motion, lambda *at: motion.call(function, *at), *here).max(axis=0)
    ranges = np.ptp(np.where(np.isfinite(values), values, 0.0), axis=0)
    found = np.maximum(ranges, varied)
    return np.where(found > 0, np.maximum(found, ROUNDING.negligible * np.max(np.abs(np.nan_to_num(values)), axis=0)), 1.0)
