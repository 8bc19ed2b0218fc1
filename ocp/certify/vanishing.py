"""Phases of zero duration: a duration bounded by zero gets a small bound instead, because functions of ``t / T`` are undefined at T
= 0."""

from __future__ import annotations

import numpy as np

from ocp.nlp.local import DURATION
from ocp.problem import Finding, Kind, Solution


def vanished(solution: Solution) -> tuple[Finding, ...]:
    """A finding for each phase whose duration is at the bound used instead of zero."""
    parts, phases = solution.parts or (solution.trajectory,), solution.problem.phases
    lengths = [float(part.t[-1] - part.t[0]) for part in parts]
    return tuple(Finding(Kind.PHASE_VANISHES, phase.name if solution.parts else "", value=length)
                 for phase, length in zip(phases, lengths, strict=True)
                 if phase.duration.vanishing and length < 2 * phase.duration.lower)


def shortfall(solution: Solution) -> float:
    """The cost of the bounds used instead of zero, to first order: multipliers times bounds."""
    durations = [phase.duration for phase in solution.problem.phases]
    local = solution.optimality.local() if any(d.vanishing for d in durations) and solution.optimality is not None else None
    if local is None:
        return 0.0
    own = local.owners
    lower = np.array([d.lower if d.vanishing else 0.0 for d in durations])
    return float(sum(abs(local.lam_x[i]) * lower[own.phase[i]] for i in np.flatnonzero(own.kind == DURATION)))
