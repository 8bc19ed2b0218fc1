"""From a problem file with a section ``mpc`` to the folder of a closed-loop run.

The folder holds ``problem.yaml`` (the input, fully expanded), ``trajectory.npz`` and ``trajectory.csv`` (what the same file gives
again, bit by bit), ``steps.csv`` (wall time, answer and cost of every step), ``summary.json``, plots and ``report.html``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.mpc import terminal
from ocp.app.mpc.folder import FORMAT, write
from ocp.app.pages.folders import new_folder
from ocp.app.prepare import compile_ahead, tell, waiting
from ocp.app.screen import busy, wide_console
from ocp.app.supervisor import report
from ocp.errors import ProblemError
from ocp.interrupts import Activity, check
from ocp.methods import make_options
from ocp.mpc import ClosedLoop, run
from ocp.mpc.closed_loop import Progress

GOOD, BAD = 0, 1


@dataclass(frozen=True)
class Outcome:
    """A finished run: what was loaded, what came of it, and seconds of reading and running."""

    loaded: LoadedProblem
    loop: ClosedLoop
    seconds: Mapping[str, float]


def mpc(file: Path, *, overrides: Mapping[str, str] | None = None, out: Path | None = None, overwrite: bool = False,
        quiet: bool = False, command: Sequence[str] = (), console: Console | None = None) -> int:
    """Run a file in closed loop, write the folder, print the table; returns the exit code.

    0: the run reached its end and the solver never failed, whatever became of the deadlines; 1: it did not, or was interrupted.
    Raises ProblemError and ModelError for what the user got wrong, before anything runs.
    """
    begin = time.perf_counter()
    loaded = load_problem(file, overrides or {})
    if loaded.mpc is None:
        raise ProblemError("has no section 'mpc', which says how the horizon recedes; 'mpc: {}' takes every default",
                           where=str(file))
    place, replace_it = out or Path("results") / f"{file.stem}-mpc", overwrite or out is None
    screen = console or wide_console()
    if not quiet:
        tell(waiting(loaded, "ilqr"))
    with new_folder(place, replace_it, FORMAT) as partial:  # first, so that nothing runs for a folder that cannot be written
        with busy(screen, quiet=quiet) as say:
            say("compiling and converging")
            compile_ahead(loaded, "ilqr")
            check(Activity.COMPILATION)
            outcome = run_loaded(loaded, begin=begin, progress=None if quiet else lambda state: say(terminal.where(state)))
        report(holding=True)
        write(outcome.loaded, outcome.loop, partial, outcome.seconds, command)
    terminal.print_outcome(outcome.loop, outcome.seconds, place, screen)
    return GOOD if outcome.loop.ok else BAD


def run_loaded(loaded: LoadedProblem, *, begin: float | None = None, progress: Progress | None = None) -> Outcome:
    """Run a loaded file; ``begin``: when reading it began."""
    begin = time.perf_counter() if begin is None else begin
    given = loaded.mpc
    if given is None:
        raise ProblemError("has no section 'mpc'", where=f"problem {loaded.problem.name!r}")
    solver = make_options("ilqr", {**loaded.options_for("ilqr"), **given.ilqr})
    read = time.perf_counter()
    loop = run(loaded.problem, given.options, solver=solver, plant=given.plant, tracked=given.tracked, progress=progress)
    return Outcome(loaded, loop, {"read": read - begin, "run": time.perf_counter() - read})
