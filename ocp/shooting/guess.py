"""A guess of the controls from a guess of the motion."""

from __future__ import annotations

import casadi as ca
import numpy as np

import dynamics
from ocp.problem import Phase


def inverse_dynamics_controls(phase: Phase, intervals: int) -> np.ndarray | None:
    """Controls [N, nu] that carry a robot along the states of the guess, from rest to rest in time; None where there is no motion
    in the guess, the system is not a robot, or thrusters act.

    The configurations of the guess are joined on the manifold by a quintic in time (zero velocity and acceleration at both ends of
    every stretch), and inverse dynamics gives the generalised forces; those that no motor can give are left out.
    """
    system, guess = phase.system, phase.guess
    actuation = system.actuation
    if actuation is None or actuation.thrusters or len(guess.s) < 2 or not system.nu:
        return None
    model, nq = system.model, system.model.nq
    q = np.asarray(guess.x, dtype=float)[:, :nq]
    away = dynamics.make(model, "difference")
    steps = [np.array(away(a, b)).ravel() for a, b in zip(q[:-1], q[1:], strict=True)]
    if not any(np.any(np.abs(d) > 0) for d in steps):
        return None
    move, inverse = dynamics.make(model, "integrate"), dynamics.make(model, "inverse_dynamics")
    duration = phase.duration.guess
    selection = np.array(ca.DM(actuation.selection))
    u = np.zeros((intervals, system.nu))
    for k in range(intervals):
        s = (k + 0.5) / intervals
        i = min(int(np.searchsorted(guess.s, s, side="right")) - 1, len(steps) - 1)
        width = guess.s[i + 1] - guess.s[i]
        r, rate = (s - guess.s[i]) / width, 1.0 / (width * duration)
        at, speed = r**3 * (10 - 15 * r + 6 * r * r), 30 * r * r * (1 - r) ** 2 * rate
        bend = 60 * r * (1 - r) * (1 - 2 * r) * rate**2
        tau = np.array(inverse(move(q[i], at * steps[i]), speed * steps[i], bend * steps[i])).ravel()
        u[k] = selection.T @ tau
    return u
