"""A search, and further attempts where it fails: other ways to start into the same problem.

Where a search starts, and whether states are unknowns of their own, decides which stationary point of the violation it may fall
into; no way is best for all problems. The first attempt is as asked. Those after it: along the straight line on the manifold from
the start to the prescribed final state, with the controls of the guess; from the controls of the guess alone, or along the states
of the guess where these did not count at first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ocp.problem import Phase, Status
from ocp.problem.checkpoint import Checkpoint, Keep
from ocp.shooting.engine import records
from ocp.shooting.guess import straight, write_guess
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon

if TYPE_CHECKING:
    from ocp.shooting.engine.record import Engine, Store
    from ocp.shooting.engine.search import Ending, Progress, Search

FAILURES = (Status.INFEASIBLE, Status.STALLED, Status.ITERATION_LIMIT)
"""Endings after which another attempt may help."""
LEAST = 150
"""Whoever allows fewer iterations than this wants no more of them."""


@dataclass(frozen=True)
class Attempt:
    """One way to start: in words, the way of shooting, whether states are a straight line."""

    words: str
    shooting: str
    line: bool = False


@dataclass(frozen=True)
class Found:
    """What came of all attempts: the search whose result the store holds, how it ended, the log of all, notes."""

    search: Search
    ending: Ending
    log: tuple[Mapping[str, float], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Kept:
    """How an attempt ended, with copies of what its result is made of."""

    number: int
    search: Search
    ending: Ending
    arrays: tuple[np.ndarray, ...]

    def rank(self) -> tuple[float, float]:
        """What is missed, then the cost: smaller is better."""
        missed = self.search.left_over(self.arrays[-1])
        return missed, float(self.arrays[2].sum()) if np.isfinite(missed) else np.inf


def ways(horizon: Horizon, phases: Sequence[Phase], options: ILQROptions) -> list[Attempt]:
    """The attempts in their order; only the first where the options want no others or nothing can be missed."""
    found, gapped = [Attempt("as asked", options.shooting)], options.shooting in ("feasible", "multiple")
    hard = gapped or any(kind.rows.count for kind in horizon.kinds)
    if options.retry == "never" or options.max_iterations < LEAST or not hard:
        return found
    if straight(phases):
        found.append(Attempt("a straight line of states from the start to the final state", "feasible", line=True))
    if gapped:
        found.append(Attempt("the controls of the guess alone", "single"))
    elif all(np.ptp(phase.guess.x, axis=0).any() for phase in phases):
        found.append(Attempt("the states of the guess", "feasible"))
    return found


def search(horizon: Horizon, phases: Sequence[Phase], options: ILQROptions, store: Store, helpers: tuple[Engine, ...] = (),
           progress: Progress | None = None, checkpoint: Keep | None = None, resume: Checkpoint | None = None) -> Found:
    """Search from the guesses of the phases, or from a checkpoint; where that fails in the other ways; the best, by what it misses
    and then by its cost, is the result."""
    from ocp.shooting.engine import checkpoint as saved
    from ocp.shooting.engine.search import Search

    attempts = ways(horizon, phases, options)
    number = 1 if resume is None else min(int(resume.get("attempt", [1])[0]), len(attempts))
    kept: list[_Kept] = []
    notes: list[str] = []
    log: tuple[Mapping[str, float], ...] = ()
    while True:
        attempt = attempts[number - 1]
        own = options if attempt.shooting == options.shooting else replace(options, shooting=attempt.shooting)
        records.reset(store, own)
        if resume is None:
            given, told = write_guess(horizon, own, store.path, phases, attempt.line)
        else:
            given = saved.restore(resume, horizon, own, store)
            told = [f"resumed after {int(resume['iterations'][0])} iterations, from cost {float(resume['cost'][0]):.9g}"]
        notes += [note for note in told if note not in notes]
        one = Search(horizon, own, store, helpers, given, progress, checkpoint, resume, number, log,
                     patient=number == len(attempts))
        ending, resume = one.run(), None
        log = one.whole_log
        again = bool(kept) or (ending[0] in FAILURES and one.left_over() > 0.0)
        if len(attempts) == 1 or not again:
            return Found(one, ending, log, tuple(notes))
        notes.append(f"attempt {number} ({attempt.words}): {ending[0].name.lower().replace('_', ' ')}, {ending[1]}")
        if ending[0] is Status.CONVERGED:
            return Found(one, ending, log, tuple(notes))
        kept.append(_Kept(number, one, ending, tuple(array.copy() for array in _result(store))))
        number += 1
        if number > len(attempts) or ending[0] is Status.INTERRUPTED:
            break
    best = min(kept, key=_Kept.rank)
    for array, old in zip(_result(store), best.arrays, strict=True):
        array[:] = old
    best.search.expand_again()
    notes.append(f"no attempt succeeded; this is the result of attempt {best.number}, which misses least")
    return Found(best.search, best.ending, log, tuple(notes))


def _result(store: Store) -> tuple[np.ndarray, ...]:
    return (*store.path, store.held.lam, store.held.mu, store.settings, store.state)
