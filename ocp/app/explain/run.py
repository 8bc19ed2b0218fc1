"""From a run folder or a problem file to an explanation.

A problem file is solved first; a run is taken where it stands: from its checkpoint, else from its trajectory. Runs of other methods
are seen through direct collocation: its program has a name for every row and column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import ocp.explain as causes
from dynamics.errors import near
from ocp.app.explain import terminal
from ocp.app.explain.records import Explanation, Subject, locate
from ocp.app.files.load import load_problem, load_text
from ocp.app.pages.folders import CHECKPOINT, is_run, is_unfinished, read_arrays
from ocp.app.pages.results import read_run
from ocp.app.screen import Say, busy, counting, wide_console
from ocp.app.sentences import how_it_ended
from ocp.errors import ProblemError, UnsupportedError
from ocp.explain.remedies import uninterrupted
from ocp.guesses.motion import from_samples
from ocp.interrupts import Activity, asked, attempt, check, time_is_up
from ocp.methods import make_options, method
from ocp.nlp import NLPResult, SolverOptions, solve_nlp, worst_violations
from ocp.problem import SOLVED, Finding, Phase, Status
from ocp.reach import end_findings, first_findings

EXPLAINED, UNEXPLAINED = 0, 1
#: methods whose program is looked at; others are seen through the first
TRANSCRIBING = ("collocation", "multiple_shooting")
#: iterations after which a program that is still violated is asked whether it can hold at all, before it is solved any further
ITERATIONS_BEFORE_FEASIBILITY = 150
#: a point that violates more than this is asked whether its constraints contradict each other
VIOLATED = 1e-4


def explain(target: Path, *, overrides: Mapping[str, str] | None = None, quiet: bool = False,
            console: Console | None = None) -> int:
    """Explain a run folder or a problem file on the terminal; returns the exit code.

    0: a cause was named, or the problem is solved and its constraints are priced; 1: neither. Raises ProblemError and ModelError
    for what the user got wrong.
    """
    out = console or wide_console()
    subject = read_subject(target, overrides or {})
    if (known := subject.advice):
        terminal.print_advice(subject, known, out)
        return EXPLAINED
    nothing: tuple[Finding, ...] = ()
    first = attempt(lambda: first_findings(subject.loaded.problem), nothing, Activity.BOUNDS)
    proved = any(one.data["sure"] for one in first)
    if not proved:
        first += attempt(lambda: end_findings(subject.loaded.problem), nothing, Activity.BOUNDS)
    terminal.print_first(subject, first, out)
    with busy(out, quiet=quiet) as say:
        try:
            found = explanation(subject, say, out)
        except KeyboardInterrupt:  # before there was a point to speak of
            why = "interrupted" if asked() or not time_is_up() else "the time limit was reached"
            out.print(f"  {why}; the diagnosis above is incomplete", style="yellow")
            return EXPLAINED if first else UNEXPLAINED
    terminal.print_explanation(found, out)
    return EXPLAINED if found.explained or proved else UNEXPLAINED


# ---- what is to be explained --------------------------------------------------------------------------------------------
def read_subject(target: Path, overrides: Mapping[str, str]) -> Subject:
    """A run folder or a problem file. Raises ProblemError where it is neither."""
    if not target.is_dir():
        if not target.exists():
            beside = [p.name for p in target.parent.iterdir()] if target.parent.is_dir() else []
            raise ProblemError(f"there is no such file or run folder{near(target.name, beside)}", where=str(target))
        loaded = load_problem(target, overrides)
        return Subject(loaded, str(target), None, "", loaded.method, {})
    if not is_run(target) and not is_unfinished(target):
        raise ProblemError("is not the folder of a run (no summary.json written by lieocp); name one, or a problem file",
                           where=str(target))
    file = target / "problem.yaml"
    loaded = load_text(file.read_text(encoding="utf-8"), target, str(file), overrides)
    status, message, made_by, certificate, options = Status.INTERRUPTED, "", loaded.method, None, {}
    if is_run(target):
        summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
        status, message, made_by = Status[summary["status"]["name"]], summary["status"]["message"], summary["method"]
        certificate, options = read_run(target).certificate, summary["options"]
    arrays = {**_arrays(target / "trajectory.npz"), **_arrays(target / CHECKPOINT)}
    # with another problem the end of the run says nothing
    return Subject(loaded, str(file), None if overrides else status, message, made_by, arrays, certificate, options)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        return {}
    own = read_arrays(path)
    return {f"checkpoint.{name}": value for name, value in own.items()} if path.name == CHECKPOINT else own


# ---- the explanation ----------------------------------------------------------------------------------------------------
def explanation(subject: Subject, say: Say, out: Console | None = None) -> Explanation:
    """Find the cause; Ctrl-C returns what is known; out: prints progress. Raises UnsupportedError where no program
    can be made of the problem."""
    problem = subject.loaded.problem
    chosen = method(subject.method if subject.method in TRANSCRIBING else
                    next((name for name in TRANSCRIBING if not method(name).unsupported(problem)), TRANSCRIBING[0]))
    reasons = chosen.unsupported(problem)
    if reasons:
        raise UnsupportedError(chosen.name, reasons, ())
    # names of coordinates are the user's; IPOPT tells infeasible from unfinished
    options = make_options(chosen.name, {**subject.loaded.options_for(chosen.name), "states": "coordinates", "solver": "ipopt"})
    say("transcribing")
    continued = replace(problem, phases=_guessed(problem.phases, subject.arrays))
    transcribe = chosen.parts().transcribe
    assert transcribe is not None
    program = causes.program_of(chosen.reduce(continued, options), options, transcribe)
    x, exact = _point(program, subject.arrays)
    solving = SolverOptions(max_iterations=options.max_iterations, tolerance=options.tolerance, hessian="exact")
    inquiry = _Inquiry(subject, program, chosen.name.replace("_", " "), solving, say, out, x, exact,
                       subject.status or Status.INTERRUPTED, subject.message)
    try:
        return inquiry.not_finite(Status.NOT_A_NUMBER, "") or inquiry.solved() or inquiry.examined()
    except KeyboardInterrupt:
        if not time_is_up():
            inquiry.parts.setdefault("conditioning", causes.condition(program.nlp, inquiry.x))
        return inquiry.explanation(interrupted=True)


@dataclass
class _Inquiry:
    """The search for a cause: where it stands (x, status, message, parts of the explanation so far), and its steps."""

    subject: Subject
    program: causes.Program
    method: str
    solving: SolverOptions
    say: Say
    out: Console | None
    x: np.ndarray
    exact: bool
    status: Status
    message: str
    parts: dict[str, Any] = field(default_factory=dict)
    result: NLPResult | None = None
    short: bool = False  # whether the solve was given up early

    def explanation(self, **parts: Any) -> Explanation:
        """What is known."""
        nlp = self.program.nlp
        with np.errstate(all="ignore"):
            cost = float(nlp.f(self.x))
        return Explanation(self.subject, self.program, self.status, self.message, self.x, cost,
                           f"{self.method} with {nlp.n} variables and {nlp.m} equations and constraints", self.result is not None,
                           **self.parts, **parts)

    def not_finite(self, status: Status, message: str) -> Explanation | None:
        """What is not finite at the point, if anything."""
        check(Activity.EXPLANATION)
        self.say("locating values that are not finite")
        if not (origins := _origins(self.program, self.x)):
            return None
        self.status, self.message = status, message
        return self.explanation(origins=origins,
                                spots=tuple(locate(self.subject.loaded, self.subject.name, one) for one in origins))

    def solved(self) -> Explanation | None:
        """The prices of constraints where there is a solution. A file, a solution whose multipliers are wanted, and a run that left
        no iterate are solved from where they stand."""
        if self.exact and self.subject.status not in (None, *SOLVED, Status.NOT_A_NUMBER):
            return None
        few = min(ITERATIONS_BEFORE_FEASIBILITY, self.solving.max_iterations)
        result = _solved(self.program, self.x, replace(self.solving, max_iterations=few), self.say)
        self.short = result.status is Status.ITERATION_LIMIT and self.solving.max_iterations > ITERATIONS_BEFORE_FEASIBILITY
        if self.short and _worst(self.program, result.x) <= VIOLATED:
            result, self.short = _solved(self.program, result.x, self.solving, self.say), False
        self._take(result)
        uninterrupted(result)
        if result.status is Status.NOT_A_NUMBER:
            return self.not_finite(result.status, how_it_ended(result.ending))
        return self._priced() if result.status in SOLVED else None

    def examined(self) -> Explanation:
        """Scales, ranks and directions without end; which constraints cannot hold together."""
        check(Activity.EXPLANATION)
        self.say("checking scales and ranks")
        program, x, out = self.program, self.x, self.out
        self.parts["conditioning"] = causes.condition(program.nlp, x)
        terminal.print_worst(causes.worst_rows(program.nlp, x), out)
        self.parts |= {"dependences": causes.dependent_rows(program.nlp, x), "hints": causes.unbounded_hints(
            self.subject.loaded.problem, program.nlp, x, self.status is Status.UNBOUNDED)}
        if self.status is not Status.INFEASIBLE and _worst(program, x) <= VIOLATED:
            return self.explanation()

        def improved(found: causes.Infeasibility) -> None:
            terminal.print_improved(self.parts.get("infeasibility"), found, out)
            self.parts["infeasibility"] = found

        found = causes.explain_infeasibility(program, x, solving=self.solving, progress=self.say, improved=improved)
        self.parts["infeasibility"] = found
        if self.short and found.feasible:  # it can hold: what the rest of the solve makes of it
            result = uninterrupted(_solved(program, found.point, self.solving, self.say))
            if result.status in SOLVED:
                self._take(result)
                self.parts = {}
                return self._priced()
            self.result = result
        return self.explanation()

    def _take(self, result: NLPResult) -> None:
        self.result, self.x, self.status, self.message = result, result.x, result.status, how_it_ended(result.ending)

    def _priced(self) -> Explanation:
        assert self.result is not None
        self.say("pricing constraints")
        return self.explanation(prices=causes.prices(self.program, self.x, self.result.lam_g),
                         dependences=causes.dependent_rows(self.program.nlp, self.x))


def _solved(program: causes.Program, x: np.ndarray, solving: SolverOptions, say: Say) -> NLPResult:
    return solve_nlp(replace(program.nlp, x0=x), solving, counting(say, "solving"))


def _worst(program: causes.Program, x: np.ndarray) -> float:
    """The largest violation of a row."""
    return max((size for _, size in worst_violations(program.nlp, x, 1)), default=0.0)


def _origins(program: causes.Program, x: np.ndarray) -> tuple[causes.Origin, ...]:
    return () if causes.is_finite(program, x) else causes.find_not_finite(program.problem, causes.points_of(program, x))


def _guessed(phases: tuple[Phase, ...], arrays: Mapping[str, np.ndarray]) -> tuple[Phase, ...]:
    """Phases that start from the trajectory of the run, where there is one and it is finite."""
    found = []
    for phase in phases:
        before = f"{phase.name}." if len(phases) > 1 else ""
        names = [f"{before}{name}" for name in ("t", "x", "t_u", "u")]
        try:
            t, x, t_u, u = (arrays[name] for name in names)
            found.append(from_samples(phase, t, x, t_u, u))
        except (KeyError, ProblemError):
            found.append(phase)
    return tuple(found)


def _point(program: causes.Program, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, bool]:
    """(the variables to look at, whether they are those that the run ended with)."""
    names, values = arrays.get("checkpoint.variables"), arrays.get("checkpoint.x")
    if names is None or values is None or len(names) != len(values):
        return program.nlp.x0, False
    known = dict(zip((str(name) for name in names), (float(v) for v in values), strict=True))
    x = np.array([known.get(name, value) for name, value in zip(program.nlp.variables, program.nlp.x0, strict=True)])
    return x, sum(name in known for name in program.nlp.variables) == len(known) > 0
