"""From a file of whole-body control to the folder of its run.

The folder holds ``problem.yaml`` (the input, every default written out), ``trajectory.npz`` and ``trajectory.csv`` (what the same
file gives again, bit by bit), ``summary.json``, plots and ``report.html``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ocp.app.files.wbc_file import LoadedWbc, load_wbc
from ocp.app.pages.folders import new_folder
from ocp.app.prepare import compile_in_time, tell, waiting_for
from ocp.app.screen import busy, wide_console
from ocp.app.supervisor import report
from ocp.app.wbc import terminal
from ocp.app.wbc.folder import FORMAT, Outcome, write
from ocp.interrupts import Activity, check
from ocp.wbc import run
from ocp.wbc.closed_loop import Progress

GOOD, BAD = 0, 1


def wbc(file: Path, *, plant: str = "", overrides: Mapping[str, str] | None = None, out: Path | None = None,
        overwrite: bool = False, quiet: bool = False, command: Sequence[str] = (), console: Console | None = None) -> int:
    """Run a file, write the folder, print the tables; returns the exit code.

    0: it reached its end, every step was solved, and equations, cones and torques were kept, deadlines aside; 1: otherwise.
    Raises ProblemError and ModelError for what the user got wrong, before anything runs.
    """
    begin = time.perf_counter()
    loaded = load_wbc(file, overrides or {})
    place, replace_it = out or Path("results") / f"{file.stem}-wbc", overwrite or out is None
    screen = console or wide_console()
    parts = ("whole-body control",) if loaded.setup.tasks else ()
    if not quiet:
        tell(waiting_for(parts))
    with new_folder(place, replace_it, FORMAT) as partial:  # first, so that nothing runs for a folder that cannot be written
        with busy(screen, quiet=quiet) as say:
            say("compiling")
            compile_in_time(parts)
            check(Activity.COMPILATION)
            outcome = run_loaded(loaded, plant, begin=begin, progress=None if quiet else lambda state: say(terminal.where(state)))
        report(holding=True)
        write(outcome, partial, command)
    terminal.print_outcome(outcome, place, screen, quiet=quiet)
    return GOOD if outcome.ok else BAD


def run_loaded(loaded: LoadedWbc, kind: str = "", *, begin: float | None = None, progress: Progress | None = None) -> Outcome:
    """Run a loaded file on its plant, or on one of another kind; ``begin``: when reading it began."""
    begin = time.perf_counter() if begin is None else begin
    plant = loaded.plant(kind)
    read = time.perf_counter()
    found = run(loaded.setup, plant, progress)
    events = tuple(getattr(plant, "events", ()))
    return Outcome(loaded, found, events, {"prepare": read - begin, "run": time.perf_counter() - read})
