"""The straight line on the manifold from the start to a prescribed final state."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from ocp.problem import Guess, Phase


def has_line(phases: Sequence[Phase]) -> bool:
    """Whether there is one: one phase, some of its final state prescribed."""
    return len(phases) == 1 and phases[0].final is not None and any(phases[0].final.fixed)


def line(phase: Phase, start: np.ndarray) -> Guess:
    """The start and the final state; what is not prescribed there ends where the guess ends."""
    space, final = phase.system.space, phase.final
    assert final is not None
    x0 = start[:space.nx]
    to_final, to_guess = (np.asarray(ca.DM(space.minus(ca.DM(x0), ca.DM(np.asarray(x, dtype=float))))).ravel()
                          for x in (final.value, phase.guess.x[-1]))
    x1 = ca.DM(space.plus(ca.DM(x0), ca.DM(np.where(final.fixed, to_final, to_guess))))
    return Guess(np.array([0.0, 1.0]), np.vstack([x0, np.asarray(x1).ravel()]), phase.guess.u[:1])
