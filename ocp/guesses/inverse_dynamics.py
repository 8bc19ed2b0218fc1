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


def carried(phase: Phase) -> bool:
    """Whether a phase is of a robot whose guess names configurations and no controls, which inverse dynamics can carry from one to
    the next."""
    mechanism, guess = phase.system.mechanism, phase.guess
    return mechanism is not None and not mechanism.thrusters and not mechanism.constraints and phase.system.nu > 0 and \
        not np.any(guess.u) and len(guess.s) > 1 and bool(np.ptp(np.asarray(guess.x)[:, :phase.system.model.nq], axis=0).any())


def inverse_dynamics_motion(phase: Phase, intervals: int) -> tuple[np.ndarray, np.ndarray] | None:
    """States [N+1, nx] at the ends of equal intervals and controls [N, nu] at their middles, which carry a robot along the
    configurations of the guess, from rest to rest in time; None where there is no motion in the guess, the system is not a robot,
    or thrusters act.

    The configurations of the guess are joined on the manifold by a quintic in time (zero velocity and acceleration at both ends of
    every stretch), and inverse dynamics gives the generalised forces; those that no motor can give are left out.
    """
    system, guess, mechanism = phase.system, phase.guess, phase.system.mechanism
    if mechanism is None or not carried(phase):
        return None
    model, nq = system.model, system.model.nq
    q = np.asarray(guess.x, dtype=float)[:, :nq]
    away = dynamics.make(model, "difference")
    steps = np.array([np.array(away(a, b)).ravel() for a, b in zip(q[:-1], q[1:], strict=True)])
    symbols = [ca.SX.sym(name, size) for name, size in (("q", nq), ("v", model.nv), ("a", model.nv))]
    move, inverse = dynamics.make(model, "integrate"), ca.Function("inverse", symbols, [mechanism.inverse_dynamics(*symbols)])
    s = np.arange(2 * intervals + 1) / (2 * intervals)
    i = np.clip(np.searchsorted(guess.s, s, side="right") - 1, 0, len(steps) - 1)
    width = np.diff(guess.s)[i]
    r, rate = np.clip((s - np.asarray(guess.s)[i]) / width, 0.0, 1.0), 1.0 / (width * phase.duration.guess)
    at, speed = r**3 * (10 - 15 * r + 6 * r * r), 30 * r * r * (1 - r) ** 2 * rate
    bend = 60 * r * (1 - r) * (1 - 2 * r) * rate**2
    configurations, velocities, accelerations = (
        np.atleast_2d(move(q[i].T, (at[:, None] * steps[i]).T).full().T), speed[:, None] * steps[i], bend[:, None] * steps[i])
    efforts = inverse(configurations.T, velocities.T, accelerations.T).full().T
    share = np.linalg.pinv(np.array(ca.DM(mechanism.selection)))
    return np.hstack([configurations, velocities])[::2], (efforts @ share.T)[1::2]


def standing(phase: Phase) -> Phase:
    """The phase with inputs that hold a robot on its contacts in the motion of the guess, where the guess has none: of all ways
    to share its weight and inertia, that with the least squares of efforts and contact forces. Itself where other constraints act,
    or none."""
    system, guess = phase.system.continuous, phase.guess
    mechanism = system.robot
    contacts = () if mechanism is None else mechanism.constraints
    if not contacts or not all(isinstance(c, Contact) for c in contacts) or mechanism.thrusters or np.any(guess.u):
        return phase
    model, x = mechanism.model, np.asarray(guess.x, dtype=float)
    q, v, a = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv)
    carried = ca.Function("carried", [q, v, a], [
        mechanism.inverse_dynamics(q, v, a), stacked(model, reduced(contacts), "jacobian", q)])
    speeds = x[:, model.nq:]
    faster = np.gradient(speeds, np.asarray(guess.s) * phase.duration.guess, axis=0) if len(x) > 1 else np.zeros_like(speeds)
    S, u = np.array(ca.DM(mechanism.selection)), []
    for state, change in zip(x, faster, strict=True):
        tau, J = (np.array(part) for part in carried(state[:model.nq], state[model.nq:], change))
        efforts, forces = np.split(np.linalg.pinv(np.hstack([S, J.T])) @ tau.ravel(), [S.shape[1]])
        own = [efforts] if system.inverse is None else []
        u.append(np.concatenate(own if system.mechanism is not None else [*own, change, forces]))
    return replace(phase, guess=replace(guess, u=phase.control_bounds.clip(u)))


def with_dynamic_controls(problem: Problem) -> Problem | None:
    """The problem with controls from inverse dynamics along the guess of the states; None where no phase has any to gain."""
    phases = list(problem.phases)
    for i, phase in enumerate(phases):
        if np.any(phase.guess.u):
            continue
        motion = inverse_dynamics_motion(phase, SAMPLES)
        if motion is None:
            continue
        _, u = motion
        s = (np.arange(SAMPLES) + 0.5) / SAMPLES
        fractions = np.union1d(s, phase.guess.s)
        x, _ = sample_guess(phase.guess, phase.system.space, fractions)
        own = np.column_stack([np.interp(fractions, s, column) for column in u.T])
        phases[i] = replace(phase, guess=Guess(fractions, x, phase.control_bounds.clip(own)))
    changed = any(a is not b for a, b in zip(phases, problem.phases, strict=True))
    return replace(problem, phases=tuple(phases)) if changed else None
