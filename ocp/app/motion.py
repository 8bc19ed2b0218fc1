"""The motion of an earlier run as the guess of a problem, whatever method found it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ocp.app.pages.results import Run, read_run
from ocp.errors import ProblemError
from ocp.guess import sample_guess
from ocp.problem import Guess, Phase, Problem, with_parameters


def from_run(problem: Problem, folder: str | Path) -> Problem:
    """The problem with states, controls, durations and chosen parameters of a run as its guess.

    Durations and parameters are moved into their bounds. Raises ProblemError where the folder is not a run, or where names of its
    phases, states or controls differ from those of the problem.
    """
    run = read_run(folder)
    several = "phase_names" in run.arrays
    names = [str(name) for name in run.arrays["phase_names"]] if several else [problem.phases[0].name]
    wanted = [phase.name for phase in problem.phases]
    if several and names != wanted or len(names) != len(wanted):
        raise ProblemError(f"has phases {', '.join(names)}; the problem has {', '.join(wanted)}", where=str(folder))
    phases = tuple(_with_motion(run, phase, f"{phase.name}." if several else "") for phase in problem.phases)
    free = list(dict.fromkeys(phase.system.parameters[i] for phase in problem.phases for i, _, _ in phase.free_parameters))
    values = dict(zip(free, run.arrays.get("parameters", np.zeros(0)).tolist(), strict=False))
    for phase in problem.phases:
        for i, low, high in phase.free_parameters:
            name = phase.system.parameters[i]
            if name in values:
                values[name] = float(np.clip(values[name], low, high))
    return with_parameters(replace(problem, phases=phases), values)


def _with_motion(run: Run, phase: Phase, prefix: str) -> Phase:
    for kind, known in (("state", phase.system.space.names), ("control", phase.system.inputs)):
        found = tuple(str(name) for name in run.arrays[f"{prefix}{kind}_names"])
        if found != tuple(known):
            raise ProblemError(f"has {kind}s {', '.join(found)}; phase {phase.name!r} has {', '.join(known)}",
                               where=str(run.folder))
    t, x, u, t_u = (np.asarray(run.arrays[f"{prefix}{name}"], dtype=float) for name in ("t", "x", "u", "t_u"))
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(u))):
        raise ProblemError("holds NaN or infinity and cannot be started from", where=str(run.folder))
    length = t[-1] - t[0]
    knots, points = np.clip((t - t[0]) / length, 0.0, 1.0), np.clip((t_u - t[0]) / length, 0.0, 1.0)
    knots, keep = np.unique(knots, return_index=True)
    s = np.union1d(knots, points)
    states, _ = sample_guess(Guess(knots, x[keep], np.zeros((len(knots), 0))), phase.system.space, s)
    controls = np.column_stack([np.interp(s, points, column) for column in u.T]) if u.shape[1] else np.zeros((len(s), 0))
    duration = replace(phase.duration, guess=float(np.clip(length, phase.duration.lower, phase.duration.upper)))
    return replace(phase, guess=Guess(s, states, controls), duration=duration)
