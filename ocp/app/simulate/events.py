"""Instants at which the rates of a motion break inside its steps, and how far off the motion is where steps run across them.

Steps half as long say nothing there: both motions may step over the same narrow field. The event function (see
``ocp.certify.events``) is evaluated at the ends of steps; from the first step in which it changes sign the motion is integrated
anew by an explicit method of order eight with error control, which stops at every change of sign and begins again behind it
(Shampine and Thompson 2000, "Event location for ordinary differential equations").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import casadi as ca
import numpy as np
from scipy.integrate import solve_ivp

from ocp.app.simulate.findings import held_controls
from ocp.certify.events import watch
from ocp.mpc.evaluate import values
from ocp.problem import System
from ocp.simulation import Leg, Motion

MAX_STEPS, MAX_EVENTS = 2000, 200
RTOL, ATOL = 1e-9, 1e-12
BEHIND = 1e-9  # of a step: where integration begins again behind an event


@dataclass(frozen=True)
class Broken:
    """times: of the events found [s], the first step that runs across one among them where nothing was integrated; away: (largest
    difference, of which state, when [s]) of the motion from one that stops at each; None where that is too long or does not end."""

    times: tuple[float, ...]
    away: tuple[float, str, float] | None


def broken_steps(motion: Motion) -> Broken | None:
    """None where the rates break in no step, as far as the ends of steps show."""
    times, worst, known = list[float](), (0.0, "", 0.0), True
    for leg in motion.legs:
        switches = None if leg.phase.steps is not None else watch(leg.phase.system.rate).switches
        if switches is None or not len(leg.u):
            continue
        above = values(switches, leg.phase.system, leg.t, leg.x, held_controls(leg)) > 0
        crossed = np.flatnonzero((above[1:] != above[:-1]).any(axis=1))
        if not crossed.size:
            continue
        first = int(crossed[0])
        found = None if len(leg.u) - first > MAX_STEPS else _anew(leg, switches, first)
        if found is None:
            times, known = [*times, float(leg.t[first])], False
            continue
        times += found[0]
        worst = max(worst, found[1])
    return Broken(tuple(times), worst if known else None) if times else None


def _anew(leg: Leg, switches: ca.Function, first: int) -> tuple[list[float], tuple[float, str, float]] | None:
    system, x, times, states = leg.phase.system, leg.x[first], list[float](), [leg.x[first]]
    for k in range(first, len(leg.u)):
        for t, reached in _through(system, switches, (leg.t[k], leg.t[k + 1]), x, leg.u[k]):
            times, x = [*times, *([t] if t < leg.t[k + 1] else [])], reached
            if len(times) > MAX_EVENTS or not np.isfinite(x).all():
                return None
        states.append(x)
    away = np.abs(system.space.apart(leg.x[first:], np.array(states)))
    k, i = divmod(int(np.argmax(away)), away.shape[1])
    return times, (float(away[k, i]), system.space.tangent_names[i], float(leg.t[first + k]))


def _through(system: System, switches: ca.Function, span: tuple[float, float], x: np.ndarray, u: np.ndarray
             ) -> Iterator[tuple[float, np.ndarray]]:
    """(time, state) behind every event of a step, and at its end."""
    p, (t, end) = np.asarray(system.parameter_values, float), span
    symbols = [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np))]
    rate = ca.Function("rate", symbols, [ca.densify(system.space.rate(symbols[1]) @ system.rate(*symbols))])

    def rate_at(t: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(rate(t, x, u, p)).ravel()

    def event(j: int) -> object:
        def value(t: float, x: np.ndarray) -> float:
            return float(switches(t, x, u, p)[j])
        value.terminal = True  # type: ignore[attr-defined]
        return value

    events, behind = [event(j) for j in range(switches.numel_out(0))], BEHIND * (end - t)
    while t < end:
        found = solve_ivp(rate_at, (t, end), x, method="DOP853", rtol=RTOL, atol=ATOL, events=events)
        t, x = float(found.t[-1]), found.y[:, -1]
        if not found.success:
            x = np.full_like(x, np.nan)
            t = end
        elif t < end:
            step = min(behind, end - t)
            t, x = t + step, x + step * rate_at(t, x)
        yield t, x
