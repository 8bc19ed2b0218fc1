"""Accuracy of the dynamics: segments and the whole motion integrated again, defects between knots, energy balance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ocp.certify import explicit, stiff
from ocp.certify.events import watch
from ocp.certify.motion import INSIDE, Motion
from ocp.certify.sizes import variation
from ocp.problem import Kind, Residual
from ocp.thresholds import REINTEGRATION, ROUNDING, SEARCH

Array = np.ndarray
#: segment, deviations [k, ndx] at its start over their sizes -> the same at its end
Step = Callable[[int, Array], Array]


@dataclass(frozen=True)
class Gaps:
    """The gaps of a re-integration. by_segment [N]; total: from start to end, over the mean growth of errors on the way; open_loop:
    the same as it is, growth: the largest; implicit: whether the implicit integrator was needed; span [s]: the segment with the
    largest gap; ends [N, nx]: where segments end; cause, time [s]: why there are none."""

    by_segment: Array
    total: float
    open_loop: float
    growth: float
    implicit: bool
    span: tuple[float, float] | None = None
    ends: Array | None = None
    cause: Kind | None = None
    time: float | None = None

    @property
    def segment(self) -> float:
        """The largest gap of one segment; NaN where there is none."""
        return float("nan") if self.span is None else float(np.max(self.by_segment))

    def segment_residual(self, tolerance: float, phase: str) -> Residual:
        """The largest gap of one segment as a check."""
        return Residual(Kind.GAP_SEGMENT, self.segment, tolerance, phase, self.span, self.time, self.cause)

    def total_residual(self, tolerance: float, phase: str) -> Residual:
        """The gap from start to end as a check."""
        grows = self.growth > REINTEGRATION.reported_growth
        return Residual(Kind.GAP_TOTAL, self.total, tolerance, phase, cause=Kind.ERROR_GROWTH if grows else None,
                        data={"open_loop": self.open_loop, "growth": self.growth})


def unknown(motion: Motion, cause: Kind | None = Kind.NOT_EXAMINED, time: float | None = None) -> Gaps:
    """Gaps that could not be computed."""
    nan = float("nan")
    return Gaps(np.full(len(motion.trajectory.t) - 1, nan), nan, nan, 1.0, False, cause=cause, time=time)


class _TooMany(Exception):
    """More calls of the field than allowed."""


def gaps(motion: Motion) -> Gaps:
    """Every segment re-integrated from its left knot, all of them as one stacked system in s in [0, 1], those in which functions
    break piece by piece; then the whole motion from its start in open loop, to first order in the gaps.

    Where small errors grow, the open-loop gap tells how unstable the motion is and not how wrong: so it is judged by the
    mean growth, from the knots before to the present one, of deviations that start with it.
    """
    t, x = motion.trajectory.t, motion.trajectory.x
    if not motion.finite:
        return unknown(motion, None)
    look, equations = motion.look, motion.phase.system.residual
    # equations are solved by a few steps of Newton's method, with a Jacobian
    work = 1 if motion.stepped else watch(motion.driven).operations + (0 if equations is None else 10 * watch(equations).operations)
    every = motion.stepped or watch(motion.field).sharp
    some = slice(None, None, 1 if every else max(1, len(motion.look.t) // SEARCH.smooth_samples))
    strange = ~np.all(np.isfinite(motion.call(motion.field, look.t[some], look.x[some], look.u[some])), axis=1)
    if strange.any():
        return unknown(motion, Kind.RATES_NOT_FINITE, float(look.t[some][int(np.argmax(strange))]))
    again, rows = (_Steps if motion.stepped else _Again)(motion), np.arange(len(t) - 1)
    few = len(rows) * (1 + motion.phase.system.space.ndx) * work < REINTEGRATION.max_stacked_work
    end, implicit = again.over(rows, x[:-1], REINTEGRATION.rtol, REINTEGRATION.atol, False)
    if end is None:
        return unknown(motion, Kind.REINTEGRATION_FAILED)
    by_segment = motion.distance(x[1:], end)
    worst = int(np.argmax(by_segment))
    beside = _ends_beside(motion, again, implicit) if few else None
    if beside is not None:
        spread, step = np.eye(len(motion.scale)), _linear(motion, beside)
    else:
        spread = np.random.default_rng(0).choice([-1.0, 1.0], (REINTEGRATION.deviations, len(motion.scale)))
        step = _deviation_step(motion, again, implicit)
    whole = _open_loop(_apart(motion, x[1:], end), spread, step)
    return Gaps(by_segment, *whole, implicit, (float(t[worst]), float(t[worst + 1])), end)


def _ends_beside(motion: Motion, again: _Again, implicit: bool) -> Array | None:
    """The rough ends [1 + ndx, N, nx] of all segments, begun where the motion is and beside; None where that cannot be computed."""
    rows, starts = np.arange(len(again.h)), _beside(motion, motion.trajectory.x[:-1])
    rough = REINTEGRATION.rough_rtol, REINTEGRATION.rough_atol
    if implicit:  # to first order: every deviation by itself would take as long as the motion
        grown = again.grown(starts[0], *rough)
        if grown is not None:
            end, Phi = grown
            return np.stack([end + np.einsum("kab,kb->ka", Phi, start - starts[0]) for start in starts])
    found, _ = again.over(np.tile(rows, len(starts)), np.concatenate(starts), *rough, implicit)
    return None if found is None else found.reshape(len(starts), len(rows), -1)


def _linear(motion: Motion, ends: Array) -> Step:
    """Deviations over one segment by its derivative ``Phi``, from rough ends [1 + ndx, N, nx] of the segments and of deviations by
    ``REINTEGRATION.deviation`` scales at their starts."""
    Phi = np.stack([_apart(motion, ends[0], other) for other in ends[1:]], axis=2) / REINTEGRATION.deviation
    return lambda k, moves: moves @ Phi[k].T


def _deviation_step(motion: Motion, again: _Again, implicit: bool) -> Step:
    """The same by integration beside the motion, of these deviations alone: for systems of many states."""
    x, space = motion.trajectory.x, motion.phase.system.space

    def step(k: int, moves: Array) -> Array:
        nonlocal implicit
        length = np.max(np.abs(moves), axis=1, keepdims=True) / REINTEGRATION.deviation
        length[length == 0] = 1.0
        y = np.concatenate([x[k:k + 1], space.moved(x[k:k + 1], moves / length * motion.scale)])
        found, implicit = again.over(np.full(len(y), k), y, REINTEGRATION.rough_rtol, REINTEGRATION.rough_atol, implicit)
        if found is None:
            return np.full(moves.shape, np.inf)
        return _apart(motion, np.repeat(found[:1], len(moves), axis=0), found[1:]) * length

    return step


class OpenLoop(NamedTuple):
    """What is judged, the open-loop gap and the largest growth."""

    judged: float
    gap: float
    growth: float


def _open_loop(gap: Array, spread: Array, step: Step) -> OpenLoop:
    """(judged, open-loop gap, largest growth) from the gaps [N, ndx] of segments over their sizes, ``e' = Phi e + gap``, beside
    deviations ``spread`` [k, ndx] from the start."""
    moves = np.vstack([np.zeros_like(spread[:1]), spread])
    grown, total, judged = [1.0], 0.0, 0.0
    for k in range(len(gap)):
        moves = step(k, moves)
        moves[0] += gap[k]
        if not np.all(np.isfinite(moves)):
            return OpenLoop(float("inf"), float("inf"), max(grown))
        here = float(np.max(np.abs(moves[0])))
        grown.append(max(float(np.max(np.abs(moves[1:]))), 1e-3))
        total = max(total, here)
        judged = max(judged, here / max(1.0, float(np.mean(grown[-1] / np.array(grown)))))
    return OpenLoop(judged, total, max(grown))


def _apart(motion: Motion, a: Array, b: Array) -> Array:
    """Tangent components [k, ndx] of ``b - a``, over their sizes."""
    return np.asarray(motion.minus(a.T, b.T)).T / motion.scale


def _beside(motion: Motion, x: Array) -> list[Array]:
    """States [k, nx], and the same moved by ``REINTEGRATION.deviation`` scales along each tangent component."""
    space = motion.phase.system.space
    return [x, *(space.moved(x, (REINTEGRATION.deviation * s * e)[None])
                 for e, s in zip(np.eye(len(motion.scale)), motion.scale, strict=True))]


class _Again:
    """Segments integrated again over s in [0, 1], explicitly unless that takes too many calls."""

    def __init__(self, motion: Motion):
        self.motion, self.t = motion, motion.trajectory.t
        self.h = np.diff(self.t)
        breaks = motion.look.rate_breaks
        which = np.clip(np.searchsorted(self.t, breaks, side="right") - 1, 0, len(self.h) - 1)
        cuts = (breaks - self.t[which]) / self.h[which]
        retained = (cuts > 1e-12) & (cuts < INSIDE)  # knots are ends of segments anyhow
        most = int(np.max(np.bincount(which[retained]), initial=0))
        self.cuts = np.ones((most + 2, len(self.h)))  # of every segment: 0, its breaks, 1, and 1 to the end of the column
        self.cuts[0] = 0.0
        for k in np.unique(which[retained]):
            own = cuts[retained & (which == k)]
            self.cuts[1:len(own) + 1, k] = own

    def field(self, rows: Array, s: Array, y: Array) -> Array:
        h = self.h[rows]
        times = self.t[rows] + np.clip(s, ROUNDING.beside, INSIDE) * h
        return self.motion.again(times, y) * h[:, None]

    def jacobian(self, rows: Array, s: Array, y: Array) -> Array:
        h = self.h[rows]
        times = self.t[rows] + np.clip(s, ROUNDING.beside, INSIDE) * h
        return self.motion.again_jacobian(times, y) * h[:, None, None]

    def grown(self, y: Array, rtol: float, atol: float) -> tuple[Array, Array] | None:
        """Ends [N, nx] of all segments from y, implicitly, and their derivatives [N, nx, nx] by y; None where one is not finite."""
        end, Phi = y.copy(), np.tile(np.eye(y.shape[1]), (len(y), 1, 1))
        for piece, own in self.pieces(np.arange(len(self.h))):
            found = stiff.grown(lambda i, *at, piece=piece, own=own: piece.field(own[i], *at),
                                lambda i, *at, piece=piece, own=own: piece.jacobian(own[i], *at), end[own], rtol,
                                atol * self.motion.scales.coordinates)
            if found is None or not all(np.all(np.isfinite(part)) for part in found):
                return None
            end[own], Phi[own] = found[0], found[1] @ Phi[own]
        return end, Phi

    def over(self, rows: Array, y: Array, rtol: float, atol: float, implicit: bool) -> tuple[Array | None, bool]:
        """States [k, nx] at the ends of these segments, None where that cannot be computed, and whether to go on implicitly."""
        end = y.copy()
        for piece, own in self.pieces(rows):
            found, implicit = piece.integrate(rows[own], end[own], rtol, atol, implicit)
            if found is None:
                return None, implicit
            end[own] = found
        return end, implicit

    def pieces(self, rows: Array) -> Iterator[tuple[_Again, Array]]:
        """The pieces of these segments between breaks and which segments have them: the first of all, the second of those that have
        one, and so on. Segments without breaks come by themselves: what is integrated together shares its steps."""
        whole = self.cuts[1, rows] == 1.0
        if whole.any():
            yield self, np.flatnonzero(whole)
        for a, b in pairwise(self.cuts):
            own = np.flatnonzero(~whole & (a[rows] < 1.0))
            if len(own):
                yield _Piece(self, a, b), own

    def integrate(self, rows: Array, y: Array, rtol: float, atol: float, implicit: bool) -> tuple[Array | None, bool]:
        """As ``over``, as though nothing broke."""
        if not implicit:
            try:
                return self._explicit(rows, y, rtol, atol, REINTEGRATION.explicit_calls), False
            except _TooMany:
                pass
        found = stiff.integrate(lambda i, *at: self.field(rows[i], *at), lambda i, *at: self.jacobian(rows[i], *at), y, rtol,
                                atol * self.motion.scales.coordinates)
        if found is not None and np.all(np.isfinite(found)):
            return found, True
        try:
            return self._explicit(rows, y, rtol, atol, REINTEGRATION.max_explicit_calls), False
        except _TooMany:
            return None, True

    def _explicit(self, rows: Array, y: Array, rtol: float, atol: float, most: int) -> Array | None:
        left = most

        def field(s: float, flat: Array) -> Array:
            nonlocal left
            left -= 1
            if left < 0:
                raise _TooMany
            return self.field(rows, np.full(len(rows), s), flat.reshape(y.shape)).ravel()

        with np.errstate(all="ignore"):
            end = explicit.integrate(field, y.ravel(), rtol, atol * np.tile(self.motion.scales.coordinates, len(y)))
        return None if end is None or not np.all(np.isfinite(end)) else end.reshape(y.shape)


class _Piece(_Again):
    """Parts of segments from a to b [N], over s in [0, 1]."""

    def __init__(self, whole: _Again, a: Array, b: Array):
        self.motion, self.whole, self.a, self.b = whole.motion, whole, a, b

    def field(self, rows: Array, s: Array, y: Array) -> Array:
        return (self.b - self.a)[rows, None] * self.whole.field(rows, self._inner(rows, s), y)

    def jacobian(self, rows: Array, s: Array, y: Array) -> Array:
        return (self.b - self.a)[rows, None, None] * self.whole.jacobian(rows, self._inner(rows, s), y)

    def _inner(self, rows: Array, s: Array) -> Array:
        """Never on the break itself, where the other side may hold."""
        return np.asarray(self.a[rows] + (self.b - self.a)[rows] * np.clip(s, ROUNDING.beside, INSIDE))


class _Steps(_Again):
    """The given steps of a system in discrete time, taken again."""

    def __init__(self, motion: Motion):
        super().__init__(motion)
        self._space, self._u = motion.phase.system.space, motion.control(self.t[:-1])

    def over(self, rows: Array, y: Array, rtol: float, atol: float, implicit: bool) -> tuple[Array | None, bool]:
        d = self.h[rows, None] * self.motion.call(self.motion.phase.system.rate, self.t[rows], y, self._u[rows])
        end = self._space.moved(y, d)
        return (end if np.all(np.isfinite(end)) else None), False


def defects(motion: Motion) -> Array:
    """Integral over each segment of |dx/dt - f| along the method's own interpolant, scaled: [N] (Kelly 2017, Eq. 6.2)."""
    h = np.diff(motion.trajectory.t)
    if motion.stepped:
        return np.zeros(len(h))
    if not motion.finite:
        return np.full(len(h), np.nan)
    times, weights = motion.nodes()
    step = np.repeat(1e-5 * h, len(times) // len(h)) / motion.panels
    gradient = (motion.state(times + step) - motion.state(times - step)) / (2 * step[:, None])
    x = motion.state(times)
    rate = motion.call(motion.field, times, x, motion.control(times))
    error = np.asarray(motion.tangent(x.T, (gradient - rate).T)).T / motion.scale
    return np.asarray((np.abs(error).max(axis=1) * weights).reshape(len(h), -1).sum(axis=1))


def energy_balance(motion: Motion) -> float | None:
    """|E(T) - E(0) - integral of power| over the energy exchanged; None where the system has no energy."""
    system, t = motion.phase.system, motion.trajectory.t
    if system.energy is None or system.power is None:
        return None
    if not motion.finite:
        return float("nan")
    given: Callable[..., Array] = motion.call
    powers = motion.integral(lambda *at: np.hstack([p := given(system.power, *at)[:, :1], np.abs(p)]))
    knots = t.copy()
    knots[-1] = t[-2] + INSIDE * (t[-1] - t[-2])
    energy = motion.call(system.energy, knots, motion.trajectory.x, motion.control(knots))[:, 0]
    # a motion that exchanges nothing must still balance to rounding: hence a millionth of how much energy varies with the states
    own, some = motion.scales, slice(None, None, max(1, len(motion.scales.t) // 32))
    varied = variation(motion, lambda *at: motion.call(system.energy, *at)[:, :1], own.t[some], own.x[some], own.u[some]).max()
    exchanged = float(powers[1]) + float(np.ptp(energy)) + ROUNDING.resolution * float(varied)
    missing = float(abs(energy[-1] - energy[0] - powers[0]))
    return missing / exchanged if exchanged > 0 else missing
