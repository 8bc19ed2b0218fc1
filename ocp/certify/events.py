"""Where to look along a motion: at many times that no mesh chooses, and where functions break or turn sharply.

Functions of a problem may hide what is narrower than any sampling: a force for microseconds, a wall of micrometres. Their graphs
tell. What is compared, or stands in ``abs``, ``min``, ``max`` or ``sign``, is a *switch*: the function breaks at its zeros.
The argument of an exponential, a hyperbolic tangent, a denominator, a root or a logarithm is a *ridge*: the function turns sharply
where it has an extremum. The argument of a hyperbolic tangent, an exponential and the like is a *gate*, too: where it changes fast,
the function steps from one level to another near its zeros, and two steps make a pulse. All are evaluated along the motion, their
extremes and zeros are hunted down: so events are found whose width no sampling resolves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np

from ocp.certify.along import TrajectoryEvaluator
from ocp.problem import At
from ocp.thresholds import ROUNDING, SEARCH

Array = np.ndarray

SWITCHES = (ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_FMIN, ca.OP_FMAX)
SIGNS = (ca.OP_FABS, ca.OP_SIGN)
RIDGES = (ca.OP_EXP, ca.OP_TANH, ca.OP_ERF, ca.OP_ATAN)
#: whose argument, or denominator, counts by its logarithm
POLES = (ca.OP_SQRT, ca.OP_LOG, ca.OP_INV, ca.OP_TAN)


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
    """The switches, ridges and gates of a function as functions of (t, x, u, p), None where there are none, and its operations."""

    switches: ca.Function | None
    ridges: ca.Function | None
    gates: ca.Function | None
    operations: int

    @property
    def sharp(self) -> bool:
        """Whether the function has switches or ridges."""
        return self.switches is not None or self.ridges is not None


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

    def hunted(those: Sequence[Watched], *more: Array) -> Array:
        found = [hunt(_on_motion(motion, function), t, motion.call(function, t, x, u)) for own in those for function, hunt in (
            (own.switches, switched), (own.ridges, ridged), (own.gates, gated)) if function is not None]
        times = np.unique(np.concatenate([np.zeros(0), *found, *more]))
        inside = times[(times > t[0]) & (times < t[-1])]
        return _apart(inside, ROUNDING.rounding * motion.duration)[:SEARCH.max_breaks]

    rate_breaks = hunted(watched[:1], _bound_times(motion, t, u))
    breaks = _apart(np.union1d(rate_breaks, hunted(watched[1:])), ROUNDING.rounding * motion.duration)
    beside = ROUNDING.beside * motion.duration
    more = np.concatenate([breaks, breaks - beside, breaks + beside, (breaks[1:] + breaks[:-1]) / 2])
    more = np.clip(more, *motion.span)
    if len(more):
        t = np.union1d(t, more)
        x, u = motion.state(t), motion.control(t)
    return Look(t, x, u, breaks, rate_breaks, motion.duration / (count - 1))


def _on_motion(motion: TrajectoryEvaluator, function: ca.Function) -> Callable[[Array], Array]:
    return lambda t: motion.call(function, t, motion.state(t), motion.control(t))


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


def gated(of: Callable[[Array], Array], t: Array, values: Array) -> Array:
    """Times at which values [k, n] at times t [k] that change fast pass through zero."""
    with np.errstate(invalid="ignore"):
        fast = np.flatnonzero(np.max(np.abs(np.diff(np.nan_to_num(values), axis=0)), axis=0, initial=0.0) > SEARCH.min_step)
    return switched(lambda s: of(s)[:, fast], t, values[:, fast]) if len(fast) else np.zeros(0)


def ridged(of: Callable[[Array], Array], t: Array, values: Array) -> Array:
    """Times at which values [k, n] at times t [k] have sharp extremes, and the feet of these on both sides: integrators that know
    the top of a pulse alone may step from its foot to its top."""
    found, reach = [], SEARCH.foot_reach * (t[-1] - t[0])
    with np.errstate(invalid="ignore"):
        for j, w in enumerate(values.T):
            bend = w[2:] - 2 * w[1:-1] + w[:-2]
            for sign in (1.0, -1.0):
                v = sign * w
                i = 1 + np.flatnonzero((v[1:-1] >= v[:-2]) & (v[1:-1] >= v[2:]) & (-sign * bend > SEARCH.min_second_difference))
                i = i[np.argsort(sign * bend[i - 1], kind="stable")[:SEARCH.max_windows // 2]]
                if len(i):
                    signed = _signed(of, j, np.full(len(i), sign))
                    at, top = zoom(signed, t[i - 1], t[i + 1])
                    found.append(at)
                    found.append(_feet(signed, at, top, np.clip([at - reach, at + reach], t[0], t[-1])))
    return np.concatenate([np.zeros(0), *found])


def _feet(of: Callable[[Array, Array], Array], at: Array, top: Array, far: Array) -> Array:
    """Times between extremes [k] and far [2, k] at which values have fallen by ``SEARCH.foot_depth``; none where they have not."""
    which, least = np.tile(np.arange(len(at)), 2), np.tile(top - SEARCH.foot_depth, 2)
    falls = np.flatnonzero(of(far.ravel(), which) < least)
    which, least = which[falls], least[falls]
    return _edges(lambda s, k: of(s, which[k]) >= least[k], at[which], far.ravel()[falls])[1]


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
    """The switches, ridges and gates in the graph of a function of (t, x, u, p).

    A function that cannot be written out in scalars (it calls compiled loops, say) has none that are known, and what
    depends on a function that is solved inside (algebraic unknowns) is none.
    """
    expanded = function
    if not function.is_a("SXFunction"):
        try:
            expanded = function.expand()
        except RuntimeError:
            return Watched(None, None, None, max(1, function.n_instructions()) if function.is_a("MXFunction") else 1000)
    codes = {expanded.instruction_id(k) for k in range(expanded.n_instructions())}
    sharp = {*SWITCHES, *SIGNS, *RIDGES, *POLES, ca.OP_ATAN2, ca.OP_DIV, ca.OP_POW, ca.OP_CONSTPOW}
    if not codes & sharp:
        return Watched(None, None, None, expanded.n_instructions())
    arguments = expanded.sx_in()
    found: dict[str, list[ca.SX]] = {"switch": [], "ridge": [], "gate": []}
    for kind, expression in _arguments(expanded, arguments):
        found[kind].append(expression)

    def made(expressions: list[ca.SX]) -> ca.Function | None:
        retained = [e for e in expressions if not e.is_constant()]
        return ca.Function("watched", arguments, [ca.vertcat(*retained)]) if retained else None

    return Watched(made(found["switch"]), made(found["ridge"]), made(found["gate"]), expanded.n_instructions())


def _arguments(function: ca.Function, arguments: list[ca.SX]) -> Iterator[tuple[str, ca.SX]]:
    """(kind, expression) of what decides where an SX function breaks or turns, found by going through its instructions."""
    work: dict[int, ca.SX] = {}
    for k in range(function.n_instructions()):
        code, into, given = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if code == ca.OP_INPUT:
            work[into[0]] = arguments[given[0]].nz[given[1]]
            continue
        if code == ca.OP_CONST:
            work[into[0]] = ca.SX(function.instruction_constant(k))
            continue
        if code == ca.OP_OUTPUT:
            continue
        operands = [work[i] for i in given if i in work]
        if code == ca.OP_CALL or len(operands) < len(given):  # what a function inside gives has no expression
            for i in into:
                work.pop(i, None)
            continue
        if code in SWITCHES:
            yield "switch", operands[0] - operands[1]
        elif code in (*SIGNS, ca.OP_ATAN2):  # the angle jumps where its first argument changes sign, or steps from side to side
            yield "switch", operands[0]
        elif code in RIDGES:
            yield "ridge", operands[0]
            yield "gate", operands[0]
        elif code in POLES:
            yield "ridge", ca.log(ca.fabs(ca.tan(operands[0]) if code == ca.OP_TAN else operands[0]))
        elif code == ca.OP_DIV:
            yield "ridge", ca.log(ca.fabs(operands[1]))
        elif code in (ca.OP_POW, ca.OP_CONSTPOW):  # a power is the exponential of this
            yield "ridge", operands[1] * ca.log(ca.fabs(operands[0]))
        work[into[0]] = (ca.SX.unary(code, operands[0]) if len(operands) == 1 else ca.SX.binary(code, *operands))
