"""Where a search may start.

Where it starts, and whether states are unknowns of their own, decides which stationary point of the violation it may fall into; no
start is best for all problems. The first is as the options say. Those after it: along the straight line on the manifold from the
start to the prescribed final state, with the controls of the guess; from the controls of the guess alone, or along the states of
the guess where these did not count at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ocp.problem import Phase, Status
from ocp.shooting.guess import straight
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon

FAILURES = (Status.INFEASIBLE, Status.STALLED, Status.ITERATION_LIMIT)
"""Endings after which another start may help."""
MIN_ITERATIONS = 150
"""Whoever allows fewer iterations than this wants no more of them."""


@dataclass(frozen=True)
class Start:
    """One way to start: its name, the way of shooting, whether states are a straight line."""

    name: str
    shooting: str
    line: bool = False


def starts(horizon: Horizon, phases: Sequence[Phase], options: ILQROptions) -> tuple[Start, ...]:
    """The starts in their order; only the first where the options want no others or nothing can be missed."""
    found, gapped = [Start("given", options.shooting)], options.shooting in ("feasible", "multiple")
    hard = gapped or any(kind.rows.count for kind in horizon.kinds)
    if options.tuning.retry == "never" or options.max_iterations < MIN_ITERATIONS or not hard:
        return tuple(found)
    if straight(phases):
        found.append(Start("straight line", "feasible", line=True))
    if gapped:
        found.append(Start("controls alone", "single"))
    elif all(np.ptp(phase.guess.x, axis=0).any() for phase in phases):
        found.append(Start("states of the guess", "feasible"))
    return tuple(found)
