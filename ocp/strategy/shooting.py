"""How the strategy runs shooting methods: iLQR/DDP from several starts, and single shooting by adjoint gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ocp.certify import Tolerances
from ocp.problem import Problem, Solution
from ocp.shooting import adjoint, ilqr
from ocp.shooting.adjoint import AdjointOptions
from ocp.shooting.options import ILQROptions
from ocp.shooting.starts import FAILURES, Start, starts
from ocp.strategy.records import Attempt, State, Task
from ocp.strategy.search import DEFAULTS, NOBODY, Judge, Method, Outside, Search


class ILQR(Method):
    """iLQR with the kernels of one problem; every search of it shares them."""

    name = "ilqr"

    def __init__(self, program: ilqr.Program):
        self.program = program
        phases = tuple(leg.stretch.phase for leg in program.horizon.legs)
        self.starts: dict[str, Start] = {start.name: start for start in starts(program.horizon, phases, program.options)}

    def attempt(self, search: Search, state: State) -> Attempt:
        task, outside, names = state.task, search.outside, list(self.starts)
        number = names.index(task.guess) + 1
        found, missed = ilqr.shot(self.program, outside.progress, outside.checkpoint, task.resume, None, self.starts[task.guess],
                                  number, number == len(names), state.log)
        return Attempt(task, found, missed)

    def final(self, search: Search, state: State) -> bool:
        first = len(state.attempts) == 1
        return first and not (state.last.solution.status in FAILURES and state.last.missed[0] > 0.0)

    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        return searching(problem, replace(search.options, **changes), without=search.without, tolerances=search.tolerances)

    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        return ilqr.finer(problem, search.options, found)


class Adjoint(Method):
    """Single shooting by adjoint gradients."""

    name = "adjoint"

    def attempt(self, search: Search, state: State) -> Attempt:
        task, outside = state.task, search.outside
        found = adjoint.solve(task.problem, search.options, outside.progress, outside.checkpoint, task.resume)
        return Attempt(state.task, found)

    def final(self, search: Search, state: State) -> bool:
        return True

    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        return searching_adjoint(problem, replace(search.options, **changes), without=search.without, tolerances=search.tolerances)

    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        return adjoint.finer(problem, search.options, found)


def searching(problem: Problem, options: ILQROptions, outside: Outside = NOBODY, judge: Judge | None = None,
              without: frozenset[str] = frozenset(), tolerances: Tolerances = DEFAULTS) -> tuple[Search, State]:
    """A search by iLQR, and where it begins."""
    method = ILQR(ilqr.prepare(problem, options))
    names, resume = tuple(method.starts), outside.resume
    first = 0 if resume is None else min(int(resume.get("attempt", [1])[0]), len(names)) - 1
    search = Search(problem, method, options, names, outside, without=without, tolerances=tolerances)
    return search, State(Task(problem, guess=names[first], left=names[first + 1:], begun=0, resume=resume))


def searching_adjoint(problem: Problem, options: AdjointOptions, outside: Outside = NOBODY, judge: Judge | None = None,
                      without: frozenset[str] = frozenset(), tolerances: Tolerances = DEFAULTS) -> tuple[Search, State]:
    """A search by single shooting, and where it begins."""
    search = Search(problem, Adjoint(), options, outside=outside, without=without, tolerances=tolerances)
    return search, State(Task(problem, begun=0, resume=outside.resume))

