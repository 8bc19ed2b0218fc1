"""The motion of an earlier run as the guess of a problem, whatever method found it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ocp.app.pages.results import Run, read_run
from ocp.errors import ProblemError
from ocp.guess import from_samples, with_values
from ocp.problem import Phase, Problem


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
    return with_values(replace(problem, phases=phases), values)


def _with_motion(run: Run, phase: Phase, prefix: str) -> Phase:
    for kind, known in (("state", phase.system.space.names), ("control", phase.system.inputs)):
        found = tuple(str(name) for name in run.arrays[f"{prefix}{kind}_names"])
        if found != tuple(known):
            raise ProblemError(f"has {kind}s {', '.join(found)}; phase {phase.name!r} has {', '.join(known)}",
                               where=str(run.folder))
    t, x, t_u, u = (run.arrays[f"{prefix}{name}"] for name in ("t", "x", "t_u", "u"))
    return from_samples(phase, t, x, t_u, u, where=str(run.folder))
