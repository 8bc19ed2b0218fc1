"""Phases that may vanish: a duration bounded by zero has a small bound in its place, for functions of ``t / T`` end with T."""

from __future__ import annotations

import numpy as np

from ocp.nlp.local import DURATION
from ocp.problem import Finding, Kind, Solution


def vanished(solution: Solution) -> tuple[Finding, ...]:
    """A finding for each phase that is as short as the bound in the place of zero lets it be."""
    parts, phases = solution.parts or (solution.trajectory,), solution.problem.phases
    lengths = [float(part.t[-1] - part.t[0]) for part in parts]
    return tuple(Finding(Kind.PHASE_VANISHES, phase.name if solution.parts else "", value=length)
                 for phase, length in zip(phases, lengths, strict=True)
                 if phase.duration.vanishing and length < 2 * phase.duration.lower)


def shortfall(solution: Solution) -> float:
    """What the bounds in the place of zero cost, to first order: multipliers times bounds."""
    durations = [phase.duration for phase in solution.problem.phases]
    local = solution.optimality.local() if any(d.vanishing for d in durations) and solution.optimality is not None else None
    if local is None:
        return 0.0
    own = local.owners
    lower = np.array([d.lower if d.vanishing else 0.0 for d in durations])
    return float(sum(abs(local.lam_x[i]) * lower[own.phase[i]] for i in np.flatnonzero(own.kind == DURATION)))
