"""What a search works on and with, fixed while it goes on, and what it asks of a method."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ocp.certify import Tolerances
from ocp.problem import Problem, Solution
from ocp.problem.checkpoint import NOBODY, Outside
from ocp.strategy.records import Attempt, State, Task
from ocp.thresholds import BUDGETS
from ocp.transcription.mesh import Mesh
from ocp.transcription.refine.criteria import Criterion
from ocp.transcription.refine.error import Estimator
from ocp.transcription.refine.plan import Family, Plans
from ocp.transcription.refine.policy import Rules

#: from a solution to the same solution with its certificate
Judge = Callable[[Solution], Solution]


DEFAULTS = Tolerances()


@dataclass(frozen=True, eq=False)
class Refinement:
    """How meshes are refined. rules: of the policy; criterion, estimator: of errors; max_passes; switches: whether edges move to
    where controls jump; linear: by phase, which controls [nu] enter at most linearly, where the certificate decides; carry: whether
    passes take over multipliers of the one before."""

    family: Family
    rules: Rules
    criterion: Criterion
    estimator: Estimator
    max_passes: int
    switches: bool
    linear: tuple[np.ndarray, ...] = ()
    carry: bool = True

    @property
    def certified(self) -> bool:
        """Whether the certificate decides."""
        return self.rules.policy.by_certificate

    @property
    def smooths(self) -> bool:
        """Whether singular controls are smoothed and edges move to where controls jump."""
        return not self.certified or 0 < max((own.sum() for own in self.linear), default=0) <= BUDGETS.max_switching_controls


class Method:
    """What a strategy asks of a method of solution; what stands here fits one without meshes to refine or other guesses to try."""

    name: str

    def attempt(self, search: Search, state: State) -> Attempt:
        """Solve the task of a state."""
        raise NotImplementedError

    def final(self, search: Search, state: State) -> bool:
        """Whether neither another guess nor another mesh mends how the last attempt ended."""
        return False

    def probe(self, search: Search, task: Task, problem: Problem, intervals: int) -> Solution | None:
        """A coarse solve; None by methods that have none."""
        return None

    def on_arcs(self, search: Search, task: Task, problem: Problem, plans: Plans, meshes: Sequence[Mesh]) -> Solution:
        """A problem whose phases are cut into arcs, solved on meshes of its own."""
        raise NotImplementedError

    def zero_order_hold(self, search: Search, problem: Problem, outside: Outside, *, early: bool, cascade: bool
                        ) -> tuple[Search, State]:
        """A search with controls that are constant in every interval."""
        raise NotImplementedError

    def gauss_nodes(self, search: Search, problem: Problem, outside: Outside) -> tuple[Search, State]:
        """A search with nodes that lie inside the intervals."""
        raise NotImplementedError

    def started(self, search: Search, task: Task, guess: str) -> Problem | None:
        """The problem that begins at the guess of this name; None where that has nothing to offer."""
        return search.problem

    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        """A search within this one: of the problem, from its own guess, with changed options."""
        raise NotImplementedError

    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        """The problem, whose guess is the solution, solved on a finer mesh."""
        raise NotImplementedError

    def frozen(self, search: Search, found: Solution) -> Solution:
        """The solution with what was chosen in the place of every "auto"."""
        return found


@dataclass(frozen=True, eq=False)
class Search:
    """What stays while a search goes on.

    problem: as the method sees it; options: the method's record; guesses: names of those that may be tried, in order; refinement:
    None where meshes are given; brief: whether the first program that is not solved ends it; alternative: whether controls of
    zero-order hold may take the place of others; judge: certifies; without: names of rules that may not fire; begun: by the clock
    [s].
    """

    problem: Problem
    method: Method
    options: Any
    guesses: tuple[str, ...] = ("given",)
    outside: Outside = NOBODY
    refinement: Refinement | None = None
    brief: bool = False
    alternative: bool = False
    judge: Judge | None = None
    without: frozenset[str] = frozenset()
    tolerances: Tolerances = field(default_factory=Tolerances)
    begun: float = field(default_factory=time.perf_counter)

    @property
    def auto(self) -> bool:
        """Whether the guess was left to us: all guesses of the cascade, from the given one on."""
        return len(self.guesses) > 1 and self.guesses[0] == "given"
