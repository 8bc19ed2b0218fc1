"""Direct multiple shooting in the search for an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ocp.certify import Tolerances
from ocp.guesses.table import guesses
from ocp.nlp.scaling_text import rule
from ocp.problem import Problem, Solution
from ocp.strategy.collocation import first_task
from ocp.strategy.direct import Direct
from ocp.strategy.loop import searched
from ocp.strategy.programs import Programs
from ocp.strategy.records import State, Task
from ocp.strategy.search import DEFAULTS, NOBODY, Judge, Outside, Search
from ocp.transcription.multiple_shooting import METHOD, MultipleShootingOptions, transcribe


class MultipleShooting(Direct):
    """Direct multiple shooting with the grid of these options."""

    def __init__(self, options: MultipleShootingOptions):
        super().__init__(METHOD, Programs(METHOD, options, transcribe))

    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        """A search within this one by the same method."""
        return searching(problem, replace(search.options, **changes), without=search.without, tolerances=search.tolerances)

    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        """The solution on twice as many intervals."""
        options = search.options
        changes = {"intervals": 2 * options.intervals, "guess": "given", "scaling": rule(options.scaling)}
        return searched(*self.restarted(search, problem, **changes))


def searching(problem: Problem, options: MultipleShootingOptions, outside: Outside = NOBODY, judge: Judge | None = None,
              without: frozenset[str] = frozenset(), tolerances: Tolerances = DEFAULTS) -> tuple[Search, State]:
    """The search for the solution of a problem by multiple shooting, and its first state."""
    resume = outside.resume
    names = guesses(options.guess, problem, options.intervals) if resume is None else ("given",)
    search = Search(problem, MultipleShooting(options), options, names, outside, without=without, tolerances=tolerances)
    return search, State(first_task(search, Task(problem, begun=0 if resume is None else None, resume=resume)))
