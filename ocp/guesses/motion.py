"""A motion as a guess: a solution of any method, or samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.errors import ProblemError
from ocp.guesses.sampling import SAMPLES, sample_guess
from ocp.problem import Guess, Phase, Problem, Solution, Trajectory, with_parameters


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


def from_solution(problem: Problem, found: Solution) -> Problem:
    """The problem with the motion of a solution and the values that it chose as its guess."""
    return from_motion(problem, found.parts or (found.trajectory,), free_values(problem, found))


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


def free_names(problem: Problem) -> list[str]:
    """Names of free parameters, in the order of a solution's."""
    return list(dict.fromkeys(phase.system.parameters[i] for phase in problem.phases for i, _, _ in phase.free_parameters))


def free_values(problem: Problem, found: Solution) -> dict[str, Any]:
    """Values of free parameters in a solution, by name."""
    return dict(zip(free_names(problem), found.extra.get("parameters", ()), strict=False))
