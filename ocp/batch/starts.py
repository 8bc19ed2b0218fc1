"""Starts of a multi-start: the guess, and guesses that random waves and free ends take elsewhere; and when there were enough.

Waves are a point of a scrambled Sobol sequence (Owen 1995) made normal, so that starts of one seed spread evenly over what may be
tried, whose sizes are the ranges of states and controls. Of a random sample, the part of all starts that lead to optima which have
not been seen is about the share of those that were seen once (Good 1953). Good optima lie near others, so that a search goes on in
rounds around the best one that it knows (monotonic basin hopping: Leary 2000, Journal of Global Optimization 18(4)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ocp.guesses.perturbed import perturbed, with_moved_ends
from ocp.problem import Problem

#: how far starts are from the guess, relative to the ranges of states and controls
AWAY = 1.0
#: estimated share of starts that lead to unseen optima, at which a search ends, and how many starts it has at most
MISSING, MOST = 0.05, 400


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
    return replace(found, phases=tuple(with_moved_ends(phase, numbers.normal, AWAY) for phase in found.phases))


@dataclass(frozen=True)
class Optimum:
    """objective; starts: numbers of those that led here, the best first."""

    objective: float
    starts: tuple[int, ...]


def optima(objectives: Sequence[float | None], tolerance: float = 1e-4) -> list[Optimum]:
    """The different optima of starts, best first, None for one that failed: objectives that agree are one."""
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


def centres(objectives: Sequence[float | None], missing: float, most: int) -> list[int]:
    """The number of the start around whose solution each round of a search has its starts, -1: around the guess; the round that
    follows on these objectives included, where one does. A round has :func:`round_size` starts.

    They go on until a round around the best optimum leads to none that is better: of 1/missing starts none, so that the share of
    those that would is estimated to be less than ``missing``. Or until there were ``most`` starts."""
    size, found = round_size(missing), [-1]
    for end in range(size, len(objectives) + 1, size):
        known = optima(objectives[:end])
        best = min(known[0].starts) if known else -1
        if end + size > most or known and best in found:
            break
        found.append(best)
    return found


def round_size(missing: float) -> int:
    """Starts of which one alone is the share ``missing``."""
    return int(np.ceil(1.0 / missing - 1e-9))


def searched(solve: Callable[[int, int], float | None], missing: float, most: int) -> list[float | None]:
    """Objectives of starts 0, 1, ... in rounds by ``solve(number, centre)``, None for those that failed."""
    found: list[float | None] = []
    size = round_size(missing)
    while len(found) < size * len(around := centres(found, missing, most)):
        found.append(solve(len(found), around[len(found) // size]))
    return found
