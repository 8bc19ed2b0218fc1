"""Solve a gallery and keep the score.

``scoreboard.csv`` and ``scoreboard.md`` are written anew after every file, so that whatever ends the run leaves what there is.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from dynamics.errors import ModelError
from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.files.problem.gallery import gallery
from ocp.app.pages.folders import csv_text, markdown_table
from ocp.app.pipeline import provenance
from ocp.app.prepare import missing, needed, prepare
from ocp.app.screen import busy, counting, line, wide_console
from ocp.app.sentences import message, sentences
from ocp.app.sentences.wording import status_word
from ocp.app.simulate.controls import choose
from ocp.app.simulate.findings import energies
from ocp.app.verify import records
from ocp.app.verify.records import FAIL, PASS, SKIPPED, Score, Scoreboard
from ocp.certify import Tolerances
from ocp.errors import ProblemError, positive
from ocp.interrupts import Activity, time_is_up
from ocp.methods import make_options, solve
from ocp.problem import SOLVED, Solution, Status
from ocp.simulation import Ending, simulate

GOOD, BAD = 0, 1
#: with --quick: seconds that one file may take, and the largest program, in steps times squared size of a step
QUICK_SECONDS, QUICK_SIZE = 20.0, 8000.0


@dataclass(frozen=True)
class Task:
    """A file and a method (None: the file's own), or its simulation by an integrator of that name."""

    path: Path
    method: str | None = None
    simulated: bool = False


def verify(paths: Sequence[Path] = (), *, quick: bool = False, every: bool = False, seconds: float | None = None,
           overrides: Mapping[str, str] | None = None, out: Path | None = None, quiet: bool = False, command: Sequence[str] = ()
           ) -> int:
    """Solve the files and those in the folders ``paths`` (default: the gallery), print and write the scoreboard.

    quick: only small problems; every: by every method that a file gives options for; seconds: limit for one file. Exit code
    0: all pass; 1: something failed, was out of time or not reached. Raises ProblemError for locations that do not exist.
    """
    screen = wide_console()
    positive(seconds, "--seconds")
    limit = seconds if seconds is not None else QUICK_SECONDS if quick else None
    folder = out or Path("results") / "verify"
    paths = records.gather(list(paths) or [gallery()])
    tasks = [task for path in paths for task in _tasks(path, every)]
    scores: list[Score] = []
    name = _names(paths)
    with busy(screen, quiet=quiet or not screen.is_terminal) as say:
        for k, task in enumerate(tasks):
            if time_is_up(Activity.SOLVING):
                break
            words = f"[{k + 1}/{len(tasks)}] {name[task.path]} {task.method or ''}".rstrip()
            say(words)
            score = _score(task, name[task.path], quick, limit, overrides or {}, counting(say, words))
            if score is None:
                break
            scores.append(score)
            if not quiet:
                line(screen, f"[{k + 1}/{len(tasks)}] {records.brief(score)}")
            _write(Scoreboard(tuple(scores), len(tasks)), folder, command)
    board = Scoreboard(tuple(scores), len(tasks))
    _write(board, folder, command)
    records.print_scoreboard(board, folder, screen)
    return GOOD if board.ok else BAD


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """Names of the files as short as they can be: relative to what they have in common."""
    parents = [str(path.parent) for path in paths]
    common = os.path.commonpath(parents) if len({Path(p).is_absolute() for p in parents}) == 1 else ""
    return {path: os.path.relpath(path, common) if common else str(path) for path in paths}


def _tasks(path: Path, every: bool) -> list[Task]:
    """A file by its own method and, with ``every``, by the others that it gives options for; one without costs and reference that
    expects something of simulations by those."""
    simulated = records.expects(path)
    if not every and not simulated or records.not_a_problem(path):
        return [Task(path)]
    try:
        loaded = load_problem(path)
    except (ProblemError, ModelError):
        return [Task(path)]  # reported when it is solved
    expected = [Task(path, item.integrator, True) for item in loaded.simulate.expect]
    if expected and loaded.problem.reference is None and not any(phase.costs for phase in loaded.problem.phases):
        return expected
    if not every:
        return [Task(path), *expected]
    return [*expected, Task(path, loaded.method), *(Task(path, name) for name in loaded.options if name != loaded.method)]


# ---- one file -----------------------------------------------------------------------------------------------------------
def _score(task: Task, name: str, quick: bool, limit: float | None, overrides: Mapping[str, str],
           show: Callable[[Mapping[str, Any]], None]) -> Score | None:
    """The score of a file; None after Ctrl-C."""
    begin = time.perf_counter()
    if records.is_wbc(task.path):
        return _whole_body(task.path, name, quick, overrides, begin)
    if (why := records.not_a_problem(task.path)):
        return Score(name, "", SKIPPED, why)
    method = task.method or ""
    try:
        loaded = load_problem(task.path, overrides)
        if task.simulated:
            return _simulated(name, loaded, method, begin)
        method = task.method or loaded.method
        options = make_options(method, loaded.options_for(method))
        if quick and (size := program_size(loaded, options)) > QUICK_SIZE:
            return Score(name, method, SKIPPED, f"too large for --quick ({size:.0f} > {QUICK_SIZE:.0f})")
        begin += _prepared(loaded, method, options)
        watch = _Watch(begin, limit, show)
        solution = solve(loaded.problem, method, options, tolerances=Tolerances(**loaded.accept), progress=watch,
                         time_limit=loaded.time_limit, without=loaded.without)
    except (ProblemError, ModelError) as error:
        return Score(name, method, FAIL, _first_line(str(error)), seconds=time.perf_counter() - begin)
    except KeyboardInterrupt:
        return None
    except Exception as error:  # one fault shall not cost the score of the other files
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Score(name, method, FAIL, f"bug in lieocp: {type(error).__name__}: {_first_line(str(error))} "
                     f"({Path(place.filename).name}:{place.lineno})", seconds=time.perf_counter() - begin)
    if solution.status is Status.INTERRUPTED and not watch.overdue:
        return None
    return judge(name, solution, time.perf_counter() - begin, limit if watch.overdue else None)


def _simulated(name: str, loaded: LoadedProblem, integrator: str, begin: float) -> Score | None:
    """The score of a simulation: the energy at its end against what is known; None after Ctrl-C."""
    _, controls = choose(loaded, None, None, None)
    motion = simulate(loaded.problem, integrator, controls, dt=loaded.simulate.dt, until=loaded.simulate.until,
                      charts_by=loaded.simulate.charts)
    if motion.ending is Ending.INTERRUPTED:
        return None
    expected, = (item for item in loaded.simulate.expect if item.integrator == integrator)
    energy, seconds = energies(motion), time.perf_counter() - begin
    if not motion.ok or energy is None:
        return Score(name, integrator, FAIL, motion.message, seconds=seconds)
    difference = abs(energy.change - expected.energy) / (abs(expected.energy) or 1.0)
    reason = "" if difference <= expected.tolerance else (
        f"energy differs from the reference by {difference:.2g} > {expected.tolerance:.2g}")
    return Score(name, integrator, FAIL if reason else PASS, reason, cost=energy.change, reference=expected.energy,
                 difference=difference, tolerance=expected.tolerance, certificate="simulated", seconds=seconds)


def _whole_body(path: Path, name: str, quick: bool, overrides: Mapping[str, str], begin: float) -> Score | None:
    """The score of a file of whole-body control: it finished, kept equations, cones and limits, and ended as it expects."""
    from ocp.app.files.control.wbc import load_wbc
    from ocp.app.wbc.run import run_loaded

    try:
        loaded = load_wbc(path, overrides)
        if quick and loaded.setup.tasks:
            return Score(name, "wbc", SKIPPED, "a controller in closed loop is too long for --quick")
        outcome = run_loaded(loaded)
    except (ProblemError, ModelError) as error:
        return Score(name, "wbc", FAIL, _first_line(str(error)), seconds=time.perf_counter() - begin)
    except KeyboardInterrupt:
        return None
    run = outcome.run
    reasons = [*outcome.missed, *([] if run.ok else [f"{run.ending.name.lower()}, {run.failures} steps without solution, "
                                                     f"{'kept' if run.within_limits else 'limits not kept'}"])]
    return Score(name, "wbc", FAIL if reasons else PASS, "; ".join(reasons),
                 certificate="kept" if run.within_limits else "not kept", seconds=time.perf_counter() - begin)


def _prepared(loaded: LoadedProblem, method: str, options: Any) -> float:
    """Compile the loops that a solve needs, once on a machine; the seconds that it took, which are none of the solve's."""
    begin = time.perf_counter()
    wanted = needed(method, options, loaded.problem)
    if wanted and (absent := missing(wanted)):
        print(f"compiling {', '.join(absent)}, once on this machine; its time is not counted", file=sys.stderr, flush=True)
        prepare(absent)
    return time.perf_counter() - begin


class _Watch:
    """Gets the rows of the iteration log; stops a solve that is out of time as Ctrl-C would."""

    def __init__(self, begin: float, limit: float | None, show: Callable[[Mapping[str, Any]], None]):
        self.begin, self.limit, self.show, self.overdue = begin, limit, show, False

    def __call__(self, row: Mapping[str, Any]) -> None:
        self.show(row)
        if self.limit is not None and time.perf_counter() - self.begin > self.limit:
            self.overdue = True
            raise KeyboardInterrupt


def judge(name: str, solution: Solution, seconds: float, overdue: float | None = None) -> Score:
    """The score of a solution: it must be certified, and at its reference where there is one.

    overdue: the seconds it had, where they were too few.
    """
    reference, certificate = solution.problem.reference, solution.certificate
    difference = None if reference is None else abs(reference.off(solution.objective))
    broken = () if certificate is None else sentences(certificate.failures)
    reasons = [] if overdue is None else [f"out of time after {overdue:g} s"]
    if overdue is None and solution.status not in SOLVED:
        told = _first_line(message(solution, violations=False))
        reasons.append(status_word(solution.status.name) + (f": {told}" if told else ""))
    reasons += [] if solution.ok or reasons else [broken[0] if broken else "no certificate"]
    if reference is not None and difference is not None and not difference <= reference.tolerance and overdue is None:
        reasons.append(f"cost differs from the reference by {difference:.2g} > {reference.tolerance:.2g}")
    word = "none" if certificate is None else "holds" if certificate.holds else "fails"
    return Score(
        name, solution.method, FAIL if reasons else PASS, "; ".join(reasons) or ("" if reference else "no reference"),
        cost=solution.objective, reference=None if reference is None else reference.objective, difference=difference,
        tolerance=None if reference is None else reference.tolerance, certificate=word,
        iterations=max(0, len(solution.iterations) - 1), seconds=seconds, failure=broken[0] if broken else "")


def program_size(loaded: LoadedProblem, options: Any) -> float:
    """Steps times squared number of states and controls: a rough cost of a solver step; robots count twice."""
    steps = getattr(options, "intervals", 50)
    return float(sum((2 if phase.system.model is not None else 1) * steps * (phase.system.nx + phase.system.nu) ** 2
                     for phase in loaded.problem.phases))


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


# ---- the files ----------------------------------------------------------------------------------------------------------
def _write(board: Scoreboard, folder: Path, command: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = csv_text([[field.name for field in fields(Score)], *map(astuple, board.scores)])
    for name, text in (("scoreboard.csv", table), ("scoreboard.md", markdown(board, command))):
        partial = folder / f".{name}.partial"
        partial.write_text(text, encoding="utf-8", newline="")
        os.replace(partial, folder / name)


def markdown(board: Scoreboard, command: Sequence[str]) -> str:
    """The scoreboard as a page."""
    made = provenance(None, command)
    heads = ("file", "method", ">cost", ">reference", ">difference", ">tolerance", "certificate", ">iterations", ">seconds",
             "verdict")
    rows = [[s.file, s.method, _number(s.cost, ".10g"), _number(s.reference, ".10g"), _number(s.difference, ".1e"),
             _number(s.tolerance, ".1e"), s.certificate + (f": {s.failure}" if s.failure else ""), _number(s.iterations, "d"),
             _number(s.seconds, ".2f"), f"{s.verdict}{': ' if s.reason else ''}{s.reason}"] for s in board.scores]
    return "\n".join(["# Scoreboard of the gallery", "", f"{board.sentence}.", "",
                      f"`{made['command']}`, lieocp {made['versions']['lieocp']}, {made['machine']}", "",
                      *markdown_table(heads, rows), ""])


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
