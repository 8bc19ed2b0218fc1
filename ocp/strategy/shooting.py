"""Shooting methods in the search for an answer: iLQR/DDP from several starts, and single shooting by adjoint gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.certify import Tolerances
from ocp.guesses.table import FAILURES, MOTION, Start, starts
from ocp.problem import SOLVED, Guess, Problem, Solution, Status
from ocp.problem.checkpoint import Checkpoint, log_arrays
from ocp.shooting import adjoint, ilqr
from ocp.shooting.adjoint import AdjointOptions
from ocp.shooting.options import ILQROptions
from ocp.strategy.loop import searched
from ocp.strategy.records import Attempt, State, Task
from ocp.strategy.search import DEFAULTS, NOBODY, Judge, Method, Outside, Search


class ILQR(Method):
    """iLQR with the kernels of one problem, which all its searches share. guess: replaces that of its phases."""

    name = "ilqr"

    def __init__(self, program: ilqr.Program, guess: Guess | Sequence[Guess] | None = None):
        self.program, self.guess = program, guess
        phases = tuple(leg.stretch.phase for leg in program.horizon.legs)
        phases = phases if guess is None else ilqr.guessed(phases, guess)
        self.starts: dict[str, Start] = {start.name: start for start in starts(phases, program.options.shooting, program.retries)}
        self.ends: list[tuple[tuple[float, ...], Checkpoint]] = []  # of searches that failed: what they miss, where they ended
        self.seconds = {"load": 0.0, "solve": 0.0}  # of all searches

    def attempt(self, search: Search, state: State) -> Attempt:
        """Solve the task of the state from its guess."""
        task, outside, names = state.task, search.outside, list(self.starts)
        number, last = names.index(task.guess) + 1, list[Checkpoint]()

        def keep(arrays: Checkpoint) -> None:
            last[:] = [arrays]
            assert outside.checkpoint is not None
            outside.checkpoint(arrays)

        own = replace(outside, checkpoint=None if outside.checkpoint is None else keep, resume=task.resume)
        found, missed = ilqr.shot(self.program, own, self.guess, self.starts[task.guess], number, number == len(names), state.log)
        self.seconds = {name: spent + found.seconds[name] for name, spent in self.seconds.items()}
        if last and found.status not in SOLVED:
            self.ends.append((missed, last[0]))
        return Attempt(task, found, missed)

    def frozen(self, search: Search, found: Solution) -> Solution:
        """The solution with the seconds of all searches. The last checkpoint belongs to the returned search, with the log of
        all."""
        if len(self.ends) > 1 and found.status not in SOLVED and search.outside.checkpoint is not None:
            _, arrays = min(self.ends, key=lambda end: end[0])
            count = np.array([len(found.iterations) - 1])
            search.outside.checkpoint({**arrays, "iterations": count, **log_arrays(found.iterations)})
        seconds = {**found.seconds, **self.seconds}
        return replace(found, seconds={**seconds, "total": sum(spent for name, spent in seconds.items() if name != "total")})

    def final(self, search: Search, state: State) -> bool:
        """Whether no other start can help: it does where constraints are missed, and that along a motion where the rollout of its
        controls ran away."""
        status, missed = state.last.solution.status, state.last.missed[0]
        lost = status is Status.DIVERGED and MOTION in state.task.left
        return len(state.attempts) == 1 and not (lost or (status in FAILURES and missed > 0.0))

    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        """A search within this one by the same method."""
        return searching(problem, replace(search.options, **changes), without=search.without, tolerances=search.tolerances)

    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        """The solution on twice as many intervals."""
        program = ilqr.on_finer_grid(problem, search.options, found)
        again = searched(*searching_prepared(program, without=search.without, tolerances=search.tolerances))
        return replace(again, freeze={"intervals": program.options.intervals})

    def finer_answers(self, search: Search) -> bool:
        """Whether the answer may have more intervals: where none are asked for."""
        options = search.options
        return "intervals" not in options.named and bool(options.intervals == type(options).intervals)


class Adjoint(Method):
    """Single shooting by adjoint gradients."""

    name = "adjoint"

    def attempt(self, search: Search, state: State) -> Attempt:
        """Solve the task of the state from its guess."""
        task, outside = state.task, search.outside
        found = adjoint.solve(task.problem, search.options, outside.progress, outside.checkpoint, task.resume)
        return Attempt(state.task, found)

    def final(self, search: Search, state: State) -> bool:
        """Whether no other guess can change the outcome of the last attempt."""
        return True

    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        """A search within this one by the same method."""
        return searching_adjoint(problem, replace(search.options, **changes), without=search.without, tolerances=search.tolerances)

    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        """The solution on twice as many intervals."""
        return adjoint.finer(problem, search.options, found)


def searching(problem: Problem, options: ILQROptions, outside: Outside = NOBODY, judge: Judge | None = None,
              without: frozenset[str] = frozenset(), tolerances: Tolerances = DEFAULTS) -> tuple[Search, State]:
    """The search by iLQR, and its first state."""
    return searching_prepared(ilqr.prepare(problem, options), outside, None, without, tolerances)


def searching_prepared(program: ilqr.Program, outside: Outside = NOBODY, guess: Guess | Sequence[Guess] | None = None,
                       without: frozenset[str] = frozenset(), tolerances: Tolerances = DEFAULTS) -> tuple[Search, State]:
    """The search by iLQR for the solution of a prepared problem, and its first state. guess: replaces that of its phases."""
    method = ILQR(program, guess)
    names, resume = tuple(method.starts), outside.resume
    first = 0 if resume is None else min(int(resume.get("attempt", [1])[0]), len(names)) - 1
    search = Search(program.problem, method, program.options, names, outside, without=without, tolerances=tolerances)
    return search, State(Task(program.problem, guess=names[first], left=names[first + 1:], begun=0, resume=resume))


def searching_adjoint(problem: Problem, options: AdjointOptions, outside: Outside = NOBODY, judge: Judge | None = None,
                      without: frozenset[str] = frozenset(), tolerances: Tolerances = DEFAULTS) -> tuple[Search, State]:
    """The search by single shooting, and its first state."""
    search = Search(problem, Adjoint(), options, outside=outside, without=without, tolerances=tolerances)
    return search, State(Task(problem, begun=0, resume=outside.resume))

