"""Starts of a multi-start: the guess, and guesses that random waves and free ends take elsewhere; and when there were enough.

Waves are a point of a scrambled Sobol sequence (Owen 1995) made normal, so that starts of one seed spread evenly over what may be
tried, whose sizes are the ranges of states and controls. Of a random sample, the part of all starts that lead to optima which have
not been seen is about the share of those that were seen once (Good 1953).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.guesses.perturbed import perturbed
from ocp.guesses.sampling import ranges
from ocp.problem import Boundary, Phase, Problem

#: how far starts are from the guess, relative to the ranges of states and controls
AWAY = 1.0


class Spread:
    """Random numbers as ``np.random.Generator`` gives them, which are the components of one point of a sequence; without a point
    it counts them."""

    def __init__(self, point: np.ndarray | None = None):
        self.point, self.count = point, 0

    def _next(self, size: int) -> np.ndarray:
        begin, self.count = self.count, self.count + size
        return np.full(size, 0.5) if self.point is None else self.point[begin:self.count]

    def normal(self, size: int | tuple[int, ...] = 1) -> np.ndarray:
        """Standard normal numbers of a low-discrepancy sequence."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self._next(int(np.prod(size))))).reshape(size)

    def uniform(self, low: float, high: float) -> float:
        """One number between low and high of a low-discrepancy sequence."""
        return low + (high - low) * float(self._next(1)[0])


def started(problem: Problem, number: int, seed: int = 0) -> Problem:
    """The problem with another guess: its own for number 0, else with waves, its ends moved where they are free, all in random
    directions. seed: of the sequence of starts."""
    from scipy.stats.qmc import Sobol

    if not number:
        return problem
    size = Spread()
    _elsewhere(problem, size)
    sequence = Sobol(size.count, scramble=True, rng=np.random.default_rng([seed, 1]))
    if number > 1:
        sequence.fast_forward(number - 1)
    return _elsewhere(problem, Spread(sequence.random(1)[0]))


def _elsewhere(problem: Problem, numbers: Spread) -> Problem:
    found = perturbed(problem, numbers, AWAY)
    return replace(found, phases=tuple(_moved(phase, numbers) for phase in found.phases))


@dataclass(frozen=True)
class Optimum:
    """objective; starts: numbers of those that led here, the best first."""

    objective: float
    starts: tuple[int, ...]


def optima(objectives: Sequence[float | None], tolerance: float = 1e-4) -> list[Optimum]:
    """The different optima of starts, best first, None for one that came to nothing: objectives that agree are one."""
    found: list[Optimum] = []
    pairs = sorted((value, k) for k, value in enumerate(objectives) if value is not None)
    for value, k in pairs:
        last = found[-1] if found else None
        if last is not None and value - last.objective <= tolerance * max(1e-12, abs(last.objective)):
            found[-1] = replace(last, starts=(*last.starts, k))
        else:
            found.append(Optimum(value, (k,)))
    return found


def unseen(objectives: Sequence[float | None], tolerance: float = 1e-4) -> float:
    """The estimated share of starts that lead to optima which none of these has led to (Good 1953)."""
    solved = sum(value is not None for value in objectives)
    return sum(len(one.starts) == 1 for one in optima(objectives, tolerance)) / solved if solved else 1.0


def searched(solve: Callable[[int], float | None], missing: float, most: int) -> list[float | None]:
    """Objectives of starts 0, 1, ... by ``solve``, None for what came to nothing, until the share of those that lead elsewhere is
    estimated to be at most ``missing``, which takes its inverse in starts at least, or there were ``most``."""
    found: list[float | None] = []
    while len(found) < most and (len(found) * missing < 1.0 or unseen(found) > missing):
        found.append(solve(len(found)))
    return found


def _moved(phase: Phase, rng: Spread) -> Phase:
    """The phase with a guess whose free ends are elsewhere, what lies between by as much as its time says."""
    guess, space = phase.guess, phase.system.space
    size = AWAY * ranges(phase, guess.x)
    begin, end = (rng.normal(size=space.ndx) * size * _free(boundary, space.ndx) for boundary in (phase.start, phase.final))
    step = np.outer(1.0 - guess.s, begin) + np.outer(guess.s, end)
    x, dx = ca.SX.sym("x", space.nx), ca.SX.sym("dx", space.ndx)
    moved = np.asarray(ca.Function("plus", [x, dx], [space.plus(x, dx)])(guess.x.T, step.T)).T
    return replace(phase, guess=replace(guess, x=phase.state_bounds.clip(moved)))


def _free(boundary: Boundary | None, size: int) -> np.ndarray:
    return np.ones(size) if boundary is None else ~np.array(boundary.fixed)
