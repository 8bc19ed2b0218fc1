"""Controls by inverse dynamics along the states of a guess, and what holds a robot on its contacts."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

import dynamics
from dynamics.constraints import Contact
from dynamics.mechanism.constrained import reduced, stacked
from ocp.guesses.sampling import SAMPLES, sample_guess
from ocp.problem import Guess, Phase, Problem


def inverse_dynamics_controls(phase: Phase, intervals: int) -> np.ndarray | None:
    """Controls [N, nu] at the middle of equal intervals that carry a robot along the states of the guess, from rest to rest in
    time; None where there is no motion in the guess, the system is not a robot, or thrusters act.

    The configurations of the guess are joined on the manifold by a quintic in time (zero velocity and acceleration at both ends of
    every stretch), and inverse dynamics gives the generalised forces; those that no motor can give are left out.
    """
    system, guess = phase.system, phase.guess
    mechanism = system.mechanism
    if mechanism is None or mechanism.thrusters or mechanism.constraints or len(guess.s) < 2 or not system.nu:
        return None
    model, nq = system.model, system.model.nq
    q = np.asarray(guess.x, dtype=float)[:, :nq]
    away = dynamics.make(model, "difference")
    steps = [np.array(away(a, b)).ravel() for a, b in zip(q[:-1], q[1:], strict=True)]
    if not any(np.any(np.abs(d) > 0) for d in steps):
        return None
    symbols = [ca.SX.sym(name, size) for name, size in (("q", nq), ("v", model.nv), ("a", model.nv))]
    move, inverse = dynamics.make(model, "integrate"), ca.Function("inverse", symbols, [mechanism.inverse_dynamics(*symbols)])
    duration = phase.duration.guess
    share = np.linalg.pinv(np.array(ca.DM(mechanism.selection)))
    u = np.zeros((intervals, system.nu))
    for k in range(intervals):
        s = (k + 0.5) / intervals
        i = min(int(np.searchsorted(guess.s, s, side="right")) - 1, len(steps) - 1)
        width = guess.s[i + 1] - guess.s[i]
        r, rate = (s - guess.s[i]) / width, 1.0 / (width * duration)
        at, speed = r**3 * (10 - 15 * r + 6 * r * r), 30 * r * r * (1 - r) ** 2 * rate
        bend = 60 * r * (1 - r) * (1 - 2 * r) * rate**2
        tau = np.array(inverse(move(q[i], at * steps[i]), speed * steps[i], bend * steps[i])).ravel()
        u[k] = share @ tau
    return u


def standing(phase: Phase) -> Phase:
    """The phase with inputs that hold a robot on its contacts in the postures of the guess, where the guess has none: of all ways
    to share its weight, that with the least squares of efforts and contact forces. Itself where other constraints act, or none."""
    system, guess = phase.system, phase.guess
    mechanism = system.robot
    contacts = () if mechanism is None else mechanism.constraints
    if not contacts or not all(isinstance(c, Contact) for c in contacts) or mechanism.thrusters or np.any(guess.u):
        return phase
    model, q = mechanism.model, ca.SX.sym("q", mechanism.model.nq)
    rest, touching = ca.DM.zeros(model.nv), stacked(model, reduced(contacts), "jacobian", q)
    weight = ca.Function("weight", [q], [mechanism.inverse_dynamics(q, rest, rest), touching])
    S, u = np.array(ca.DM(mechanism.selection)), []
    for x in np.asarray(guess.x, dtype=float):
        tau, J = (np.array(part) for part in weight(x[:model.nq]))
        efforts, forces = np.split(np.linalg.pinv(np.hstack([S, J.T])) @ tau.ravel(), [S.shape[1]])
        own = [efforts] if system.inverse is None else []
        u.append(np.concatenate(own if system.mechanism is not None else [*own, np.zeros(model.nv), forces]))
    return replace(phase, guess=replace(guess, u=phase.control_bounds.clip(u)))


def with_dynamic_controls(problem: Problem) -> Problem | None:
    """The problem with controls from inverse dynamics along the guess of the states; None where no phase has any to gain."""
    phases = list(problem.phases)
    for i, phase in enumerate(phases):
        if np.any(phase.guess.u):
            continue
        u = inverse_dynamics_controls(phase, SAMPLES)
        if u is None:
            continue
        s = (np.arange(SAMPLES) + 0.5) / SAMPLES
        fractions = np.union1d(s, phase.guess.s)
        x, _ = sample_guess(phase.guess, phase.system.space, fractions)
        own = np.column_stack([np.interp(fractions, s, column) for column in u.T])
        phases[i] = replace(phase, guess=Guess(fractions, x, phase.control_bounds.clip(own)))
    changed = any(a is not b for a, b in zip(phases, problem.phases, strict=True))
    return replace(problem, phases=tuple(phases)) if changed else None
