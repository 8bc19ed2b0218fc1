"""What a search for an answer is made of, all of it immutable: the task at hand, attempts, rules that fired, the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ocp.problem import SOLVED, Finding, Problem, Solution, Trajectory
from ocp.problem.checkpoint import Checkpoint
from ocp.transcription.refine.arcs import Jump
from ocp.transcription.refine.criteria import Verdict
from ocp.transcription.refine.error import Estimate
from ocp.transcription.refine.margins import Bounds, Margins
from ocp.transcription.refine.plan import Plans
from ocp.transcription.refine.smooth import Smoothed


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be solved next: a problem, whose guess is the start, on meshes.

    plans: meshes as numbers, empty where the method has a grid of its own; margins: by which bounds are tightened, by phase;
    number: of the pass; guess: name of the guess in the cascade, of which ``left`` are still to be tried and which began after
    ``begun`` attempts (None outside the cascade); beside: number of the attempt that ended at its own guess, so that
    only perturbed ones are tried; warm: whether multipliers of the last pass are taken over; scaling,
    max_iterations: in the place of those of the options; resume: a checkpoint to go on from.
    """

    problem: Problem
    plans: Plans = ()
    margins: tuple[Margins, ...] = ()
    number: int = 1
    guess: str = "given"
    left: tuple[str, ...] = ()
    begun: int | None = None
    beside: int | None = None
    warm: bool = False
    scaling: str | None = None
    max_iterations: int | None = None
    resume: Checkpoint | None = None

    def on(self, plans: Plans) -> Task:
        """The task on other meshes, tightened margins carried over."""
        return replace(self, plans=plans, margins=tuple(
            margin.on(*pair) for margin, *pair in zip(self.margins, self.plans, plans, strict=True)))

    def next(self, problem: Problem, warm: bool) -> Task:
        """The same on the next pass, outside the cascade of guesses."""
        return replace(self, problem=problem, number=self.number + 1, guess="given", left=(), begun=None, beside=None, warm=warm,
                       max_iterations=None, resume=None)


@dataclass(frozen=True, eq=False)
class Judged:
    """What is known of a solved pass: estimated errors, the verdict of the criterion, its row in the log of passes; singular: what
    smoothing of singular controls came to; guide: smooth trajectories close to the solution; jumps: of controls, by phase; bounds:
    without margins; ramps: when linear controls would jump [s]."""

    estimate: Estimate
    verdict: Verdict
    row: tuple[float, ...]
    singular: Smoothed | None
    guide: tuple[Trajectory, ...]
    jumps: tuple[tuple[Jump, ...], ...]
    bounds: Bounds
    ramps: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Attempt:
    """A task and what solving it came to; missed: by how much constraints are violated, and what else tells unsolved attempts
    apart, the smaller the better; judged: of passes that are solved and refined."""

    task: Task
    solution: Solution
    missed: tuple[float, ...] = (0.0,)
    judged: Judged | None = None

    def size(self) -> dict[str, int]:
        """Of its meshes."""
        degrees = [degree for plan in self.task.plans for degree in plan.degrees]
        return {"intervals": len(degrees), "lowest_degree": min(degrees), "highest_degree": max(degrees)} if degrees else {}

    @property
    def solved(self) -> bool:
        return self.solution.status in SOLVED


@dataclass(frozen=True)
class Firing:
    """That a rule fired: on what diagnosis, in which pass, whether its remedy was taken, and what that cost until the next one."""

    rule: str
    diagnosis: Finding
    number: int
    taken: bool
    programs: int = 0
    iterations: int = 0
    seconds: float = 0.0

    @property
    def remedies(self) -> bool:
        """Whether it did more than to end a search."""
        return self.programs > 0 or self.iterations > 0 or not self.taken

    def cost(self) -> str:
        """In words."""
        programs = f"{self.programs} program{'' if self.programs == 1 else 's'}, " if self.programs else ""
        return f"{programs}{self.iterations} iterations, {self.seconds:.2f} s"

    def plus(self, programs: int, iterations: int, seconds: float) -> Firing:
        """With what else it cost."""
        return replace(self, programs=self.programs + programs, iterations=self.iterations + iterations,
                       seconds=self.seconds + seconds)

    def record(self) -> dict[str, object]:
        """For JSON."""
        return {"rule": self.rule, "diagnosis": self.diagnosis.record(), "pass": self.number, "taken": self.taken,
                "programs": self.programs, "iterations": self.iterations, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, eq=False)
class State:
    """Where a search is. task: what is solved next; attempts: everything solved so far; firings: rules that fired; findings: what
    is to be said; log: iterations; settled: whether edges at jumps have come to rest; ending: why the search is over, None while it
    goes on; answer: the solution that stands, once there is one; finer: the answer's problem solved on a finer mesh."""

    task: Task
    attempts: tuple[Attempt, ...] = ()
    firings: tuple[Firing, ...] = ()
    findings: tuple[Finding, ...] = ()
    log: tuple[Mapping[str, float], ...] = ()
    settled: bool = False
    ending: Finding | None = None
    answer: Solution | None = None
    finer: Solution | None = None

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def passes(self) -> tuple[Attempt, ...]:
        """Attempts that were solved and judged."""
        return tuple(attempt for attempt in self.attempts if attempt.judged is not None)

    @property
    def verdicts(self) -> tuple[Judged, ...]:
        """What is known of the passes that were solved."""
        return tuple(attempt.judged for attempt in self.attempts if attempt.judged is not None)

    @property
    def failures(self) -> int:
        """Passes that were not solved, the cascade of guesses aside."""
        return sum(not attempt.solved and attempt.task.begun is None for attempt in self.attempts)

    def fired(self, rule: str) -> int:
        """How often a rule fired."""
        return sum(one.rule == rule for one in self.firings)

    def failed(self, rule: str) -> bool:
        """Whether the remedy of a rule came to nothing."""
        return any(one.rule == rule and not one.taken for one in self.firings)

    def said(self, *findings: Finding) -> State:
        return replace(self, findings=(*self.findings, *findings))

    def ended(self, ending: Finding) -> State:
        return replace(self, ending=ending)

