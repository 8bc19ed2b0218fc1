"""Where to look along a motion: at many times that no mesh chooses, and where functions break or turn sharply.

Functions of a problem may hide what is narrower than any sampling: a force for microseconds, a wall of micrometres. Their graphs
tell. What is compared, or stands in ``abs``, ``min``, ``max`` or ``sign``, is a *switch*: the function breaks at its zeros, which
are hunted down along the motion. Pulses, steps, poles and edges of domains are cornered by enclosures of all operations between
the samples (``ocp.certify.enclosures``): so events are found whose width no sampling resolves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np

from dynamics.kernels.tape import codes, operation, replay
from ocp.certify.along import TrajectoryEvaluator
from ocp.certify.enclosures import sharp_times
from ocp.problem import At
from ocp.thresholds import ROUNDING, SEARCH

Array = np.ndarray

SWITCHES = (ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_FMIN, ca.OP_FMAX)
SIGNS = (ca.OP_FABS, ca.OP_SIGN)
#: operations that are smooth and finite everywhere
ENTIRE = {ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST, ca.OP_ASSIGN, ca.OP_ADD, ca.OP_SUB, ca.OP_MUL, ca.OP_NEG, ca.OP_SQ, ca.OP_TWICE,
          ca.OP_SIN, ca.OP_COS}


@dataclass(frozen=True)
class Look:
    """t [k]: times to look at, increasing; x [k, nx], u [k, nu] there; breaks [b]: inside the phase, where functions break or turn
    sharply; rate_breaks: those of the dynamics and the controls alone; width: the largest distance of two times [s]."""

    t: Array
    x: Array
    u: Array
    breaks: Array
    rate_breaks: Array
    width: float


@dataclass(frozen=True)
class Watched:
    """The switches of a function as a function of (t, x, u, p), None where there are none; the function in scalars, None where
    there is no such; its operations; sharp: whether it has other operations than those that are smooth everywhere."""

    switches: ca.Function | None
    scalar: ca.Function | None
    operations: int
    sharp: bool


def look(motion: TrajectoryEvaluator) -> Look:
    """Where to look along a motion; of a system in discrete time, where its steps begin."""
    if motion.stepped:
        t = motion.trajectory.t[:-1]
        return Look(t, motion.state(t), motion.control(t), np.zeros(0), np.zeros(0), 0.0)
    phase, system = motion.phase, motion.phase.system
    functions = [c.function for c in phase.constraints if c.at in (At.PATH, At.INTEGRAL)]
    functions += [c.function for c in phase.costs if c.at is At.PATH]
    watched = [watch(function) for function in (system.rate, *functions)]
    work = sum(own.operations for own in (watched if watched[0].sharp else watched[1:])) + 10 * (system.nx + system.nu) + 1
    count = int(np.clip(SEARCH.max_operations / work, SEARCH.min_samples, SEARCH.max_samples))
    t = np.linspace(*motion.span, count)
    x, u = motion.state(t), motion.control(t)
    beside = ROUNDING.beside * motion.duration

    def apart(times: Array) -> Array:
        inside = times[(times > t[0] + beside) & (times < t[-1] - beside)]  # at its ends a phase has one side
        return _apart(inside, ROUNDING.rounding * motion.duration)[:SEARCH.max_breaks]

    def hunted(those: Sequence[Watched], *more: Array) -> Array:
        switches = [switched(_on_motion(motion, own.switches), t, motion.call(own.switches, t, x, u)) for own in those
                    if own.switches is not None]
        first = apart(np.unique(np.concatenate([np.zeros(0), *switches, *more])))
        return apart(np.unique(np.concatenate([first, *(_cornered(motion, own, first) for own in those)])))

    rate_breaks = hunted(watched[:1], _bound_times(motion, t, u))
    breaks = _apart(np.union1d(rate_breaks, hunted(watched[1:])), ROUNDING.rounding * motion.duration)
    more = np.concatenate([breaks, breaks - beside, breaks + beside, (breaks[1:] + breaks[:-1]) / 2])
    more = np.clip(more, *motion.span)
    if len(more):
        t = np.union1d(t, more)
        x, u = motion.state(t), motion.control(t)
    return Look(t, x, u, breaks, rate_breaks, motion.duration / (count - 1))


def _on_motion(motion: TrajectoryEvaluator, function: ca.Function) -> Callable[[Array], Array]:
    return lambda t: motion.call(function, t, motion.state(t), motion.control(t))


def _cornered(motion: TrajectoryEvaluator, own: Watched, breaks: Array) -> Array:
    """Times about which a function turns sharply, from quarters of the segments of the motion, and these breaks."""
    knots = motion.trajectory.t
    most = int(SEARCH.max_operations / (SEARCH.interval_cost * own.operations))
    if own.scalar is None or most < SEARCH.max_windows:
        return np.zeros(0)
    count = min(4 * (len(knots) - 1), most)
    edges = np.interp(np.linspace(0, len(knots) - 1, count + 1), np.arange(len(knots)), knots)
    return sharp_times(own.scalar, lambda t: (motion.state(t), motion.control(t)), motion.p, np.union1d(edges, breaks))


def _bound_times(motion: TrajectoryEvaluator, t: Array, u: Array) -> Array:
    """Times at which controls meet their bounds, or leave them: polynomials that are cut off there have kinks."""
    width = motion.phase.control_bounds.width_or(0.0)

    def at_bound(u: Array) -> Array:
        return np.where(motion.phase.control_bounds.active(u, ROUNDING.beside * width), 1.0, -1.0)

    samples, found = at_bound(u), [np.zeros(0)]
    for j in np.flatnonzero(width > 0):
        i = np.flatnonzero(samples[1:, j] != samples[:-1, j])
        if len(i) <= SEARCH.max_kinks:
            found.append(_roots(lambda s: at_bound(motion.control(s)), int(j), np.column_stack([t[i], t[i + 1]])))
    return np.concatenate(found)


def switched(of: Callable[[Array], Array], t: Array, values: Array) -> Array:
    """Times at which values [k, n] at times t [k] change sign; ``of`` gives them at any times."""
    found = []
    with np.errstate(invalid="ignore"):
        for j, w in enumerate(values.T):
            positive = w > 0
            i = np.flatnonzero(positive[1:] != positive[:-1])[:SEARCH.max_breaks]
            brackets = [np.column_stack([t[i], t[i + 1]])]
            size = np.abs(w)
            near = 1 + np.flatnonzero((size[1:-1] <= size[:-2]) & (size[1:-1] <= size[2:]) & (positive[1:-1] == positive[:-2])
                                      & (positive[1:-1] == positive[2:]))
            steep = np.maximum(size[near - 1], size[near + 1]) - size[near]
            near = near[size[near] <= 2 * steep][:SEARCH.max_windows]
            if len(near):  # a switch that turns back before it changes sign, at the samples
                at, top = zoom(_signed(of, j, np.where(positive[near], -1.0, 1.0)), t[near - 1], t[near + 1])
                through = top > 0
                brackets += [np.column_stack([t[near - 1], at])[through], np.column_stack([at, t[near + 1]])[through]]
                found.append(at[through | (top == 0)])
            found.append(_roots(of, j, np.concatenate(brackets)))
    return np.concatenate([np.zeros(0), *found])


def _edges(stays: Callable[[Array, Array], Array], near: Array, far: Array) -> tuple[Array, Array]:
    """(the last times, the first ones) between near [k], where something stays, and far, where it does not, at which it does and
    does no longer; ``stays(times, which)``. All are cut into eight at once: it is calls that take time."""
    every, share = np.arange(len(near)), np.arange(1, 8) / 8
    for _ in range(16 if len(near) else 0):
        times = near[:, None] + (far - near)[:, None] * share
        retained = np.asarray(stays(times.ravel(), np.repeat(every, len(share)))).reshape(times.shape)
        ends = np.column_stack([near, times, far])
        first = np.argmin(np.column_stack([retained, np.zeros(len(near), dtype=bool)]), axis=1)
        near, far = ends[every, first], ends[every, first + 1]
    return near, far


def _signed(of: Callable[[Array], Array], j: int, sign: Array) -> Callable[[Array, Array], Array]:
    """Component j, with the sign of each window."""
    return lambda t, k: np.asarray(sign[k] * of(t)[:, j])


def zoom(of: Callable[[Array, Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """(times [k], values [k]) of the largest values in windows from low to high [k]; ``of(times, which window)`` gives values."""
    low, high, every = np.array(low), np.array(high), np.arange(len(low))
    share = np.linspace(0, 1, SEARCH.zoom_points)
    best, at = np.full(len(low), -np.inf), (low + high) / 2
    for _ in range(SEARCH.zoom_rounds):
        times = low[:, None] + (high - low)[:, None] * share
        values = np.asarray(of(times.ravel(), np.repeat(every, SEARCH.zoom_points))).reshape(times.shape)
        values = np.where(np.isnan(values), -np.inf, values)
        i = np.argmax(values, axis=1)
        better = values[every, i] > best
        best, at = np.where(better, values[every, i], best), np.where(better, times[every, i], at)
        low, high = times[every, np.maximum(i - 1, 0)], times[every, np.minimum(i + 1, SEARCH.zoom_points - 1)]
    return at, best


def _roots(of: Callable[[Array], Array], j: int, brackets: Array) -> Array:
    """Times at which component j changes its sign, one in each bracket [k, 2]."""
    low, high = brackets.T
    side = of(low)[:, j] > 0 if len(low) else np.zeros(0)
    return np.asarray(sum(_edges(lambda s, k: (of(s)[:, j] > 0) == side[k], low, high))) / 2


def _apart(times: Array, least: float) -> Array:
    return times[np.r_[True, np.diff(times) > least]] if len(times) else times


@lru_cache(maxsize=256)
def watch(function: ca.Function) -> Watched:
    """What is known of the graph of a function of (t, x, u, p).

    A function that cannot be written out in scalars (it calls compiled loops, say) has no switches that are known, and what
    depends on a function that is solved inside (algebraic unknowns) is none.
    """
    expanded = function
    if not function.is_a("SXFunction"):
        try:
            expanded = function.expand()
        except RuntimeError:
            return Watched(None, None, max(1, function.n_instructions()) if function.is_a("MXFunction") else 1000, False)
    used = codes(expanded)
    switches = None
    if used & {*SWITCHES, *SIGNS, ca.OP_ATAN2}:
        arguments = expanded.sx_in()
        retained = [e for e in _switches(expanded, arguments) if not e.is_constant()]
        switches = ca.Function("watched", arguments, [ca.vertcat(*retained)]) if retained else None
    return Watched(switches, expanded, expanded.n_instructions(), not used <= ENTIRE)


def _switches(function: ca.Function, arguments: list[ca.SX]) -> list[ca.SX]:
    """The switching expressions of an SX function; what a function inside gives has no expression."""
    found: list[ca.SX] = []

    def apply(code: int, operands: list[ca.SX | None]) -> ca.SX | None:
        if None in operands:
            return None
        if code in SWITCHES:
            left, right = operands
            found.append(left - right)  # type: ignore[operator]  # neither is None
        elif code in (*SIGNS, ca.OP_ATAN2):  # the angle jumps where its first argument changes sign, or steps from side to side
            found.append(operands[0])
        return operation(code, operands)

    replay(function, lambda i, j: arguments[i].nz[j], ca.SX, apply, lambda k, _: [None] * len(function.instruction_output(k)))
    return found
