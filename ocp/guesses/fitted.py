"""Guesses that fit the dynamics better: controls that carry the guessed states, and states to which the guessed controls lead.

A straight line between the ends without any control is a point from which Newton's method may end far off: where a control is an
angle, in branches that have nothing to do with each other; where rates are products of states that vanish, where nothing grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.guesses.inverse_dynamics import with_dynamic_controls
from ocp.guesses.sampling import INTERVALS, ranges, sample_guess
from ocp.problem import At, Guess, Phase, Problem
from ocp.thresholds import GUESSES, ROUNDING, SMOOTHING

Array = np.ndarray
#: (t, x, u) -> the rates of the states, or their derivatives with respect to the controls
Field = Callable[[float, Array, Array], Array]


def with_fitted_controls(problem: Problem) -> Problem | None:
    """The problem with controls that carry it along the guess of its states: of robots by inverse dynamics, of other systems by
    least squares. None where no phase has any to gain; guesses of controls that are given stay."""
    robots = with_dynamic_controls(problem)
    phases = [_fitted(phase, begin) for phase, begin in _timed(problem if robots is None else robots)]
    changed = robots is not None or any(new is not old for new, old in zip(phases, problem.phases, strict=True))
    return replace(problem, phases=tuple(phases)) if changed else None


def _fitted(phase: Phase, begin: float) -> Phase:
    """The phase with controls, and a free duration, whose rates at the middle of intervals are those of the guess, in least
    squares, within the bounds; the same phase where no control moves. Rates count by the sizes of their states."""
    system, guess, space, duration = phase.system, phase.guess, phase.system.space, phase.duration
    if not system.nu or len(guess.s) < 2 or np.any(guess.u):
        return phase
    edges = np.linspace(0.0, 1.0, INTERVALS + 1)
    s = (edges[1:] + edges[:-1]) / 2
    knots, _ = sample_guess(guess, space, edges)
    x, u = sample_guess(guess, space, s)
    weight = 1.0 / ranges(phase, x)
    wanted = weight * INTERVALS * space.apart(knots[:-1], knots[1:])
    length = duration.guess
    try:
        found = _carrying(phase, begin + length * s, length, x, wanted, weight)
        for _ in range(GUESSES.refits if duration.free else 0):
            moved = weight * np.array([_rates(phase)[0](begin + length * s[k], x[k], found[k]) for k in range(INTERVALS)])
            best = np.sum(moved * wanted) / max(np.sum(moved * moved), 1e-300)
            length = float(np.clip(best, duration.lower, duration.upper)) if best > 0 else length
            found = _carrying(phase, begin + length * s, length, x, wanted, weight)
    except ValueError:  # rates that are not finite
        return phase
    if np.max(np.abs(found - u) / _spans(phase)) <= SMOOTHING.min_control_change:
        return phase
    fractions = np.union1d(s, guess.s)
    states, _ = sample_guess(guess, space, fractions)
    controls = np.column_stack([np.interp(fractions, s, own) for own in found.T])
    return replace(phase, guess=Guess(fractions, states, controls), duration=replace(duration, guess=length))


def _carrying(phase: Phase, times: Array, length: float, x: Array, wanted: Array, weight: Array) -> Array:
    """Controls [N, nu] at states x [N, nx] whose rates come nearest to those wanted [N, ndx]; each search begins where the last one
    ended. Raises ValueError where rates are not finite."""
    from scipy.optimize import least_squares  # a tenth of a second that only those who fit shall pay for

    rate, slope = _rates(phase)
    bounds, size = phase.control_bounds, _spans(phase)
    (low, high), guess = bounds.arrays, bounds.clip(np.zeros(phase.system.nu))
    wide = low - ROUNDING.coincident, high + ROUNDING.coincident
    found = [guess]
    for t, here, there in zip(times, x, wanted, strict=True):
        def missed(v: Array, t: float = float(t), x: Array = here, wanted: Array = there) -> Array:
            return np.r_[length * rate(t, x, v) * weight - wanted, GUESSES.control_weight * (v - guess) / size]

        def derivative(v: Array, t: float = float(t), x: Array = here) -> Array:
            return np.vstack([length * slope(t, x, v) * weight[:, None], GUESSES.control_weight * np.diag(1.0 / size)])

        found.append(bounds.clip(least_squares(missed, found[-1], derivative, wide, x_scale=size).x))
    return np.array(found[1:])


def _spans(phase: Phase) -> Array:
    """The distance between the bounds of each control; 1 where one of them is open, and where they meet."""
    span = phase.control_bounds.width_or(1.0)
    return np.where(span > 0, span, 1.0)


def simulated(problem: Problem) -> Problem | None:
    """The problem with states to which the controls of the guess lead from its start; None where something is asked of an end,
    which such a motion would miss, and where it runs away."""
    phases = []
    for phase, begin in _timed(problem):
        asked = (phase.final is not None and any(phase.final.fixed)) or any(c.at is At.FINAL for c in phase.constraints)
        if asked or problem.linkages or not phase.system.space.is_vector_space:
            return None
        if (new := _simulated(phase, begin)) is None:
            return None
        phases.append(new)
    return replace(problem, phases=tuple(phases))


def _simulated(phase: Phase, begin: float) -> Phase | None:
    """The phase with the states of a simulation, moved into their bounds; None where it fails."""
    from scipy.integrate import solve_ivp  # likewise

    system, length, s = phase.system, phase.duration.guess, np.linspace(0.0, 1.0, INTERVALS + 1)
    x, u = sample_guess(phase.guess, system.space, s)
    size, (rate, _), spent = ranges(phase, x), _rates(phase), 0

    def field(t: float, at: Array) -> Array:
        nonlocal spent
        spent += 1
        found = rate(begin + t, at, np.array([np.interp(t / length, s, column) for column in u.T]))
        far = np.abs(at - x[0]) > GUESSES.max_distance * size
        if spent > GUESSES.max_evaluations or not np.all(np.isfinite(found)) or np.any(far):
            raise ArithmeticError("the motion diverges")
        return found

    try:
        ran = solve_ivp(field, (0.0, length), x[0], "LSODA", length * s, rtol=ROUNDING.resolution, atol=ROUNDING.resolution * size)
    except ArithmeticError:
        return None
    return replace(phase, guess=Guess(s, phase.state_bounds.clip(ran.y.T), u)) if ran.success else None


def _timed(problem: Problem) -> list[tuple[Phase, float]]:
    """Phases with the times at which they are guessed to begin."""
    ends = np.cumsum([phase.duration.guess for phase in problem.phases])
    return list(zip(problem.phases, [0.0, *map(float, ends[:-1])], strict=True))


def _rates(phase: Phase) -> tuple[Field, Field]:
    """Rates [ndx] of the states of a phase and their derivatives [ndx, nu]."""
    system = phase.system
    symbols = [ca.MX.sym(name, size) for name, size in (("t", 1), ("x", system.nx), ("u", system.nu))]
    value = system.rate(*symbols, ca.DM(system.parameter_values))
    both = ca.Function("rates", symbols, [value, ca.jacobian(value, symbols[2])])
    return lambda t, x, u: both(t, x, u)[0].full().ravel(), lambda t, x, u: both(t, x, u)[1].full()
