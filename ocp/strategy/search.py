"""The constant data of a search, and the interface of a method."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
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
    """Mesh refinement. rules: of the policy; criterion, estimator: of errors; max_passes; switches: whether edges move to jumps of
    controls; linear: by phase, the controls [nu] that enter at most linearly, if the certificate decides; carry: whether passes use
    multipliers of the pass before."""

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


class Method(ABC):
    """The interface of a method of solution, with defaults for methods without other guesses."""

    name: str

    @abstractmethod
    def attempt(self, search: Search, state: State) -> Attempt:
        """Solve the task of a state."""

    @abstractmethod
    def restarted(self, search: Search, problem: Problem, **changes: Any) -> tuple[Search, State]:
        """A search within this one: of the problem, from its own guess, with changed options."""

    @abstractmethod
    def on_finer_mesh(self, search: Search, problem: Problem, found: Solution) -> Solution:
        """The problem, with the solution as guess, solved on a finer mesh."""

    def final(self, search: Search, state: State) -> bool:
        """Whether neither another guess nor another mesh can change the outcome of the last attempt."""
        return False

    def probe(self, search: Search, task: Task, problem: Problem, intervals: int) -> Solution | None:
        """A coarse solution; None for methods that have none."""
        return None

    def error(self, found: Solution, intervals: int) -> float:
        """The relative error of a coarse solution."""
        return 0.0

    def started(self, search: Search, task: Task, guess: str) -> Problem | None:
        """The problem that starts at the guess of this name; None if it does not exist for this problem."""
        return search.problem

    def finer_answers(self, search: Search) -> bool:
        """Whether the answer may be the solution on a finer mesh."""
        return search.refinement is not None and search.refinement.certified

    def frozen(self, search: Search, found: Solution) -> Solution:
        """The solution with the chosen value of every automatic option."""
        return found


class Refining(Method):
    """The interface of a method whose meshes are refined."""

    @abstractmethod
    def on_arcs(self, search: Search, task: Task, problem: Problem, plans: Plans, meshes: Sequence[Mesh]) -> Solution:
        """A problem whose phases are cut into arcs, solved on meshes of its own."""

    @abstractmethod
    def zero_order_hold(self, search: Search, problem: Problem, outside: Outside, *, early: bool, cascade: bool
                        ) -> tuple[Search, State]:
        """A search with piecewise-constant controls."""

    @abstractmethod
    def gauss_nodes(self, search: Search, problem: Problem, outside: Outside) -> tuple[Search, State]:
        """A search with nodes that lie inside the intervals."""


@dataclass(frozen=True, eq=False)
class Search:
    """The constant data of a search.
    problem: in the form that the method solves; options: the method's record; guesses: names of those that may be tried, in order;
    refinement: None for given meshes; brief: whether the first unsolved program ends it; alternative: whether zero-order hold may
    replace other controls; judge: makes certificates; without: names of rules that are switched off; begun: start time [s].

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
        """Whether the problem gives no initial guess, so that the whole cascade is tried."""
        return len(self.guesses) > 1 and self.guesses[0] == "given"
