"""The guess of phases whose file says nothing of their states: from where the one before ends to where the next one begins.

A robot on contacts goes there in equal shares of time; one in flight falls on the way, so its base follows the parabola through
both ends, which gravity and the duration determine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynamics.model.model import Model
from ocp.guesses.inverse_dynamics import standing
from ocp.guesses.sampling import INTERVALS, sample_guess
from ocp.problem import Guess, Phase

Array = np.ndarray


def bridged(phases: Sequence[Phase], silent: Sequence[bool]) -> tuple[Phase, ...]:
    """The phases, where ``silent`` ones get a guess from those beside them; behind the last of these the robot stays where it is,
    and a row of them at the start stays as it is. All have the same states."""
    found, first = list(phases), 0
    while first < len(found):
        last = first
        while last < len(found) and silent[last]:
            last += 1
        if last > first > 0:
            between(found, first, last)
        first = last + 1
    return tuple(found)


def between(phases: list[Phase], first: int, last: int) -> None:
    """Give guesses to the phases from ``first`` up to ``last``."""
    begin = phases[first - 1].guess.x[-1]
    end = phases[last].guess.x[0] if last < len(phases) else begin
    lengths = np.array([phase.duration.guess for phase in phases[first:last]])
    edges = np.concatenate([[0.0], np.cumsum(lengths) / lengths.sum()])
    ends = Guess(np.array([0.0, 1.0]), np.array([begin, end]), np.zeros((2, 0)))
    for i, phase in enumerate(phases[first:last]):
        s = np.linspace(0.0, 1.0, INTERVALS + 1)
        x, _ = sample_guess(ends, phase.system.space, edges[i] + (edges[i + 1] - edges[i]) * s)
        _, u = sample_guess(phase.guess, phase.system.space, s)
        x = _moving(phase, x, lengths[i])
        phases[first + i] = standing(replace(phase, guess=Guess(s, x, u)))


def _moving(phase: Phase, x: Array, length: float) -> Array:
    """The states [k, nx] with the parabola of a flight, and with the velocities of their configurations."""
    system = phase.system.continuous
    mechanism = system.robot
    if mechanism is None:
        return x
    model, nq, x = mechanism.model, mechanism.model.nq, x.copy()
    t = np.linspace(0.0, length, len(x))
    base = _base(model)
    if base is not None and not mechanism.constraints:
        x[:, base] += np.outer(t * (t - length) / 2, model.gravity)
    rates = system.space.apart(x[:-1], x[1:])[:, :model.nv] / np.diff(t)[:, None]
    x[:, nq:] = (np.vstack([rates[:1], rates]) + np.vstack([rates, rates[-1:]])) / 2
    return x


def _base(model: Model) -> slice | None:
    """Where the position of a free base is among the coordinates; None for robots that are fixed, or guided."""
    first = model.q_slice(0).start
    return slice(first, first + 3) if model.bodies[0].joint.kind == "free_flyer" else None
