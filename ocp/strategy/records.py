"""Immutable records of a search: tasks, attempts, fired rules, the state."""

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
    """The next problem to solve, with its guess, on meshes.
    plans: meshes as numbers, empty for methods with their own grid; margins: tightening of bounds by phase; number: of the pass;
    guess: name of the guess in the cascade, of which ``left`` are not tried yet and which started after ``begun`` attempts (None
    outside the cascade); beside: number of the attempt that ended at its own guess, so that only perturbed guesses follow; warm:
    whether multipliers of the last pass are used; scaling, max_iterations: replace those of the options; resume: a checkpoint to
    continue from.

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
        """The task on other meshes, with the tightening interpolated."""
        return replace(self, plans=plans, margins=tuple(
            margin.on(*pair) for margin, *pair in zip(self.margins, self.plans, plans, strict=True)))

    def next(self, problem: Problem, warm: bool) -> Task:
        """The task of the next pass, outside the cascade of guesses."""
        return replace(self, problem=problem, number=self.number + 1, guess="given", left=(), begun=None, beside=None, warm=warm,
                       max_iterations=None, resume=None)


@dataclass(frozen=True, eq=False)
class Judged:
    """Estimates for a solved pass.
    estimated errors, the verdict of the criterion, and its entry in the log of passes; singular: the outcome of smoothing singular
    controls; guide: smooth trajectories close to the solution; jumps: of controls, by phase; bounds: before tightening; ramps:
    times at which linear controls would jump [s].

    """

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
    """A task and the outcome of its solve; missed: a measure of violation by which unsolved attempts are compared, smaller is
    better; judged: for solved passes that are refined."""

    task: Task
    solution: Solution
    missed: tuple[float, ...] = (0.0,)
    judged: Judged | None = None

    def size(self) -> dict[str, int]:
        """Number of intervals and range of degrees of its meshes; empty without meshes."""
        degrees = [degree for plan in self.task.plans for degree in plan.degrees]
        return {"intervals": len(degrees), "lowest_degree": min(degrees), "highest_degree": max(degrees)} if degrees else {}

    @property
    def solved(self) -> bool:
        """Whether its program was solved."""
        return self.solution.status in SOLVED


@dataclass(frozen=True)
class Firing:
    """A rule that fired: its diagnosis, the pass, whether its remedy was accepted, and its cost until the next one."""

    rule: str
    diagnosis: Finding
    number: int
    taken: bool
    programs: int = 0
    iterations: int = 0
    seconds: float = 0.0

    @property
    def remedies(self) -> bool:
        """Whether it changed the task or the answer, and not only ended the search."""
        return self.programs > 0 or self.iterations > 0 or not self.taken

    def cost(self) -> str:
        """Programs, iterations and seconds, as text."""
        programs = f"{self.programs} program{'' if self.programs == 1 else 's'}, " if self.programs else ""
        return f"{programs}{self.iterations} iterations, {self.seconds:.2f} s"

    def plus(self, programs: int, iterations: int, seconds: float) -> Firing:
        """The firing with additional cost."""
        return replace(self, programs=self.programs + programs, iterations=self.iterations + iterations,
                       seconds=self.seconds + seconds)

    def record(self) -> dict[str, object]:
        """As data for JSON."""
        return {"rule": self.rule, "diagnosis": self.diagnosis.record(), "pass": self.number, "taken": self.taken,
                "programs": self.programs, "iterations": self.iterations, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, eq=False)
class State:
    """The state of a search.
    task: solved next; attempts: everything solved so far; firings: rules that fired; findings: to be reported; log: iterations;
    settled: whether edges at jumps have stopped moving; ending: reason for the end, None before; answer: the best certified
    solution; finer: the answer's problem solved on a finer mesh.

    """

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
        """The last attempt."""
        return self.attempts[-1]

    @property
    def passes(self) -> tuple[Attempt, ...]:
        """Attempts that were solved and have error estimates."""
        return tuple(attempt for attempt in self.attempts if attempt.judged is not None)

    @property
    def verdicts(self) -> tuple[Judged, ...]:
        """Estimates of the solved passes."""
        return tuple(attempt.judged for attempt in self.attempts if attempt.judged is not None)

    @property
    def failures(self) -> int:
        """Unsolved passes outside the cascade of guesses."""
        return sum(not attempt.solved and attempt.task.begun is None for attempt in self.attempts)

    def fired(self, rule: str) -> int:
        """How often a rule fired."""
        return sum(one.rule == rule for one in self.firings)

    def failed(self, rule: str) -> bool:
        """Whether the remedy of a rule has failed."""
        return any(one.rule == rule and not one.taken for one in self.firings)

    def said(self, *findings: Finding) -> State:
        """The state with these findings added."""
        return replace(self, findings=(*self.findings, *findings))

    def ended(self, ending: Finding) -> State:
        """The state with an ending."""
        return replace(self, ending=ending)

