"""Does the motion obey the dynamics: segments and the whole integrated again, defects between knots, energy balance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

from ocp.certify import stiff
from ocp.certify.motion import INSIDE, Motion

Array = np.ndarray

# the re-integration must be far more accurate than anything it judges
RTOL, ATOL = 1e-10, 1e-12
RTOL_TOTAL, ATOL_TOTAL = 1e-9, 1e-11
#: calls of the field by the explicit method until the implicit one is tried, and until it is given up
CALLS, MOST = 250, 60_000


@dataclass(frozen=True)
class Gaps:
    """What re-integration found. segment: the largest gap of one segment, ``at`` where; by_segment [N]; total: from start to end;
    implicit: whether the implicit integrator was needed."""

    segment: float
    at: str
    by_segment: Array
    total: float
    implicit: bool


class _TooMany(Exception):
    """More calls of the field than allowed."""


def gaps(motion: Motion) -> Gaps:
    """Every segment re-integrated from its left knot, all of them as one stacked system in s in [0, 1]; then the whole motion from
    its start in open loop, knot by knot, so that held controls stay smooth inside a step."""
    t, x = motion.trajectory.t, motion.trajectory.x
    unknown = np.full(len(t) - 1, np.nan)
    if not motion.finite:
        return Gaps(float("nan"), "", unknown, float("nan"), False)
    rows = np.arange(len(t) - 1)
    again = _Again(motion)
    end, implicit = again.integrate(rows, x[:-1], RTOL, ATOL, False)
    if end is None:
        segment, at, by_segment = float("nan"), "the re-integration failed", unknown
    else:
        by_segment = motion.distance(x[1:], end)
        worst = int(np.argmax(by_segment))
        segment, at = float(by_segment[worst]), f"on [{t[worst]:.6g}, {t[worst + 1]:.6g}] s"
    y: Array | None = x[:1]
    total = 0.0
    for k in rows:
        assert y is not None
        y, implicit = again.integrate(rows[k:k + 1], y, RTOL_TOTAL, ATOL_TOTAL, implicit)
        if y is None:
            total = float("inf")
            break
        total = max(total, float(motion.distance(x[k + 1:k + 2], y)[0]))
    return Gaps(segment, at, by_segment, total, implicit)


class _Again:
    """Segments integrated again over s in [0, 1], explicitly unless that takes too many calls."""

    def __init__(self, motion: Motion):
        self.motion, self.t = motion, motion.trajectory.t
        self.h = np.diff(self.t)
        self._slope: ca.Function | None = None

    def field(self, rows: Array, s: Array, y: Array) -> Array:
        h = self.h[rows]
        times = self.t[rows] + np.minimum(s, INSIDE) * h
        return self.motion.call(self.motion.field, times, y, self.motion.control(times)) * h[:, None]

    def jacobian(self, rows: Array, s: Array, y: Array) -> Array:
        if self._slope is None:
            arguments = [ca.SX.sym(name, self.motion.field.size1_in(i)) for i, name in enumerate("txup")]
            self._slope = ca.Function("slope", arguments,
                                      [ca.densify(ca.jacobian(self.motion.field(*arguments), arguments[1]))])
        h, (k, d) = self.h[rows], y.shape
        times = self.t[rows] + np.minimum(s, INSIDE) * h
        found = self._slope(times[None, :], y.T, self.motion.control(times).T, np.repeat(self.motion.p[:, None], k, axis=1))
        return np.asarray(found).reshape(d, k, d).transpose(1, 0, 2) * h[:, None, None]

    def integrate(self, rows: Array, y: Array, rtol: float, atol: float, implicit: bool) -> tuple[Array | None, bool]:
        """States [k, nx] at the ends of these segments, None where that cannot be computed, and whether to go on implicitly."""
        if not implicit:
            try:
                return self._explicit(rows, y, rtol, atol, CALLS), False
            except _TooMany:
                pass
        found = stiff.integrate(lambda i, *at: self.field(rows[i], *at), lambda i, *at: self.jacobian(rows[i], *at), y, rtol, atol)
        if found is not None and np.all(np.isfinite(found)):
            return found, True
        try:
            return self._explicit(rows, y, rtol, atol, MOST), False
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
            end = solve_ivp(field, (0.0, 1.0), y.ravel(), method="DOP853", rtol=rtol, atol=atol)
        if not end.success or not np.all(np.isfinite(end.y[:, -1])):
            return None
        return np.asarray(end.y[:, -1]).reshape(y.shape)


def defects(motion: Motion) -> Array:
    """Integral over each segment of |dx/dt - f| along the method's own interpolant, scaled: [N] (Kelly 2017, Eq. 6.2)."""
    h = np.diff(motion.trajectory.t)
    if not motion.finite:
        return np.full(len(h), np.nan)
    times, weights = motion.nodes()
    step = np.repeat(1e-5 * h, len(times) // len(h)) / motion.panels
    slope = (motion.state(times + step) - motion.state(times - step)) / (2 * step[:, None])
    x = motion.state(times)
    rate = motion.call(motion.field, times, x, motion.control(times))
    error = np.asarray(motion.tangent(x.T, (slope - rate).T)).T / motion.scale
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
    # a motion that exchanges nothing must still balance to rounding: hence the floor of a millionth of a joule
    exchanged = float(powers[1]) + float(np.ptp(energy)) + 1e-6 * (1 + float(np.abs(energy).max()))
    return float(abs(energy[-1] - energy[0] - powers[0])) / exchanged
