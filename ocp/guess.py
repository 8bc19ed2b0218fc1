"""Initial guesses: sampled on the manifold, controls by inverse dynamics, from a solution of any method, perturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

import dynamics
from dynamics.constraints import Contact
from dynamics.mechanism.constrained import reduced, stacked
from ocp.errors import ProblemError
from ocp.problem import Guess, Phase, Problem, Trajectory, with_parameters
from ocp.spaces import Space

#: points at which a solution is sampled for a guess, besides its own knots
SAMPLES = 201
#: equal intervals of a phase on which guesses are perturbed, fitted, simulated, and made consistent with algebraic equations
INTERVALS = 40
#: lowest and highest number of half waves of a perturbation over a phase
WAVES = (1, 4)


def sample_guess(guess: Guess, space: Space, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States [k, nx] and controls [k, nu] of a guess at these fractions; its ends are held where it does not reach.

    States lie on the manifold: ``x_i [+] r (x_{i+1} [-] x_i)``. Raises ProblemError for a malformed guess.
    """
    s, x, u = (np.asarray(a, dtype=float) for a in (guess.s, guess.x, guess.u))
    if s.ndim != 1 or len(s) == 0 or np.any(np.diff(s) <= 0) or s[0] < 0 or s[-1] > 1:
        raise ProblemError("fractions must increase within [0, 1]", where="guess.s")
    for name, value, width in (("x", x, space.nx), ("u", u, None)):
        if value.ndim != 2 or len(value) != len(s) or (width is not None and value.shape[1] != width):
            raise ProblemError(f"expected shape ({len(s)}, {'nu' if width is None else width}), got {value.shape}",
                               where=f"guess.{name}")
        if not np.all(np.isfinite(value)):
            raise ProblemError("holds NaN or infinity", where=f"guess.{name}")
    controls = np.column_stack([np.interp(fractions, s, c) for c in u.T]) if u.shape[1] else np.zeros((len(fractions), 0))
    if space.is_vector_space:
        return np.column_stack([np.interp(fractions, s, c) for c in x.T]), controls
    if len(s) == 1:
        return np.repeat(x, len(fractions), axis=0), controls
    a, b, r = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx), ca.SX.sym("r")
    between = ca.Function("between", [a, b, r], [space.plus(a, r * space.minus(a, b))])
    i = np.clip(np.searchsorted(s, fractions, side="right") - 1, 0, len(s) - 2)
    ratio = np.clip((fractions - s[i]) / (s[i + 1] - s[i]), 0.0, 1.0)
    return between(x[i].T, x[i + 1].T, ratio[None, :]).full().T, controls


def on_manifold(space: Space, x: np.ndarray) -> np.ndarray:
    """States [..., nx] with their quaternions brought back to unit length. Raises ProblemError for one of length zero."""
    x = np.array(x, dtype=float)
    for q in space.quaternions:
        length = np.linalg.norm(x[..., q:q + 4], axis=-1, keepdims=True)
        if np.any(length == 0.0):
            raise ProblemError(f"the quaternion {', '.join(space.names[q:q + 4])} has length zero: it stands for no rotation")
        x[..., q:q + 4] /= length
    return x


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


def from_motion(problem: Problem, parts: Sequence[Trajectory], parameters: dict[str, float] | None = None) -> Problem:
    """The problem with a motion as its guess: states, controls and durations of every phase, and values of parameters.

    parts: a trajectory for each phase, of any method. Durations and free parameters are moved into their bounds. Raises
    ProblemError where the motion has other phases, states or controls, or is not finite.
    """
    if len(parts) != len(problem.phases):
        raise ProblemError(f"has {len(parts)} phases, the problem has {len(problem.phases)}", where="the motion to start from")
    phases = []
    for phase, part in zip(problem.phases, parts, strict=True):
        begin, length = part.t[0], part.t[-1] - part.t[0]
        s = np.union1d(np.linspace(0.0, 1.0, SAMPLES), (part.t - begin) / length)
        t = begin + length * np.clip(s, 0.0, 1.0)
        phases.append(from_samples(phase, t, part.state(t), t, part.control(t)))
    return with_values(replace(problem, phases=tuple(phases)), parameters or {})


def from_samples(phase: Phase, t: Any, x: Any, t_u: Any, u: Any, where: str = "the motion to start from") -> Phase:
    """The phase with samples of a motion as its guess: states x [k, nx] at t [k], inputs u [m, nu] at t_u [m], all in seconds.

    Raises ProblemError for other states or controls, no length, and what is not finite.
    """
    t, x, t_u, u = (np.asarray(part, dtype=float) for part in (t, x, t_u, u))
    space = phase.system.space
    if (x.shape[1:], u.shape[1:]) != ((space.nx,), (phase.system.nu,)):
        raise ProblemError(f"has {x.shape[1]} states and {u.shape[1]} controls, phase {phase.name!r} {space.nx} and "
                           f"{phase.system.nu}", where=where)
    if not all(np.all(np.isfinite(part)) for part in (t, x, t_u, u)):
        raise ProblemError("holds NaN or infinity", where=where)
    length = float(t[-1] - t[0]) if len(t) else 0.0
    if length <= 0:
        raise ProblemError(f"lasts {length:g} s", where=where)
    knots, points = (np.clip((times - t[0]) / length, 0.0, 1.0) for times in (t, t_u))
    knots, keep = np.unique(knots, return_index=True)
    s = np.union1d(knots, points)
    states, _ = sample_guess(Guess(knots, x[keep], np.zeros((len(knots), 0))), space, s)
    controls = np.column_stack([np.interp(s, points, column) for column in u.T]) if u.shape[1] else np.zeros((len(s), 0))
    duration = replace(phase.duration, guess=float(np.clip(length, phase.duration.lower, phase.duration.upper)))
    return replace(phase, guess=Guess(s, states, controls), duration=duration)


def with_values(problem: Problem, values: Mapping[str, float]) -> Problem:
    """The problem with these values of its parameters by name, free ones moved into their bounds."""
    values = dict(values)
    for phase in problem.phases:
        for i, low, high in phase.free_parameters:
            name = phase.system.parameters[i]
            if name in values:
                values[name] = float(np.clip(values[name], low, high))
    return with_parameters(problem, values)


def polyline(t: np.ndarray, x: np.ndarray, u: np.ndarray) -> Trajectory:
    """A trajectory of states t [N+1], x [N+1, nx], straight between them, and held controls u [N, nu]."""
    def state(at: Any) -> np.ndarray:
        return np.stack([np.interp(at, t, column) for column in x.T], axis=-1)

    def control(at: Any) -> np.ndarray:
        return np.asarray(u[np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(u) - 1)])

    return Trajectory(t, x, u, t[:-1], state, control)


def perturbed(problem: Problem, seed: int, size: float) -> Problem:
    """The problem with smooth random waves added to its guess, which leave the ends of the states as they are.

    size: of the waves relative to the range of each component: the distance between finite bounds, else 1 + the largest magnitude
    in the guess. Controls stay inside their bounds, free durations are scaled by up to 1 + size.
    """
    rng = np.random.default_rng(seed)
    phases = []
    for phase in problem.phases:
        space = phase.system.space
        s = np.union1d(np.linspace(0.0, 1.0, INTERVALS + 1), phase.guess.s)
        x, u = sample_guess(phase.guess, space, s)
        step = _waves(rng, s, space.ndx, ends=False) * size * ranges(phase, x)
        a, d = ca.SX.sym("a", space.nx), ca.SX.sym("d", space.ndx)
        x = np.asarray(ca.Function("plus", [a, d], [space.plus(a, d)])(x.T, step.T)).T
        bounds = phase.control_bounds
        reach = bounds.width_or(1.0 + np.abs(u).max(axis=0, initial=0.0))
        u = bounds.clip(u + _waves(rng, s, phase.system.nu, ends=True) * size * reach)
        duration = phase.duration
        if duration.free:
            scaled = duration.guess * (1.0 + size) ** rng.uniform(-1.0, 1.0)
            duration = replace(duration, guess=float(np.clip(scaled, duration.lower, duration.upper)))
        phases.append(replace(phase, guess=Guess(s, x, u), duration=duration))
    return replace(problem, phases=tuple(phases))


def _waves(rng: np.random.Generator, s: np.ndarray, count: int, ends: bool) -> np.ndarray:
    """Sums of a few half waves [k, count] of magnitude about one half; zero at the ends unless ``ends``."""
    modes = np.arange(WAVES[0], WAVES[1] + 1)
    weights = rng.normal(size=(count, len(modes))) / (2 * np.sqrt(len(modes)))
    basis = np.sin(np.pi * modes[:, None] * s) if not ends else np.cos(np.pi * (modes[:, None] - 1) * s)
    return np.asarray((weights @ basis).T)


def ranges(phase: Phase, x: np.ndarray) -> np.ndarray:
    """Range of each tangent component [ndx]; 1 where the space is not flat."""
    return phase.system.space.by_tangent(phase.state_bounds.width_or(1.0 + np.abs(x).max(axis=0)))
