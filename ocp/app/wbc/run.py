"""From a file of whole-body control to the folder of its run.

The folder holds ``problem.yaml`` (the input, every default written out), ``trajectory.npz`` and ``trajectory.csv`` (what the same
file gives again, bit by bit), ``summary.json``, plots and ``report.html``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from ocp.app.files.control.wbc import LoadedWbc, load_wbc
from ocp.app.mpc.run import step_table
from ocp.app.pages.folders import new_folder
from ocp.app.prepare import compile_in_time, tell, waiting_for
from ocp.app.screen import busy, grid, line, plain, say_robot, say_where, wide_console
from ocp.app.supervisor import report
from ocp.app.wbc.folder import FORMAT, Outcome, contact_rows, level_rows, task_rows, verdict, write
from ocp.app.wbc.follow import followed
from ocp.interrupts import Activity, check
from ocp.wbc import run
from ocp.wbc.closed_loop import Progress

MAX_NOTES = 12


def where(state: Mapping[str, float]) -> str:
    """How far a run is, in words."""
    failed = f", {state['failed']:.0f} without solution" if state["failed"] else ""
    return f"t = {state['time']:.2f} of {state['duration']:.5g} s, step {state['median'] * 1e6:.0f} us{failed}"


def print_outcome(outcome: Outcome, folder: Path | None, console: Console, *, quiet: bool = False) -> None:
    """How it ended and the figures by name."""
    run = outcome.run
    mark = "[bold green]finished[/]" if outcome.ok else "[bold red]not finished well[/]"
    name = plain(outcome.loaded.file.name)
    console.print(f"\n[bold]{name}[/]  whole-body control, {run.setup.rate:g} Hz: {mark}", soft_wrap=True)
    line(console, f"  {verdict(outcome)}")
    for note in outcome.notes:
        line(console, f"  note        {note}")
    if not quiet:
        _tables(outcome, console)
    spent = outcome.seconds
    console.print(f"  time        prepare {spent['prepare']:.2f} s, run {spent['run']:.2f} s for {run.t[-1]:g} s", soft_wrap=True)
    say_where(console, folder)


def print_check(loaded: LoadedWbc, console: Console | None = None) -> None:
    """The request of a valid file."""
    out, model = console or Console(highlight=False), loaded.mechanism.model
    line(out, f"{loaded.file.name}: valid, a file of whole-body control (run: ocp wbc)")
    say_robot(out, model, f", {len(loaded.mechanism.driven)} motors", loaded.notes)
    for rank in sorted({task.priority for task in loaded.setup.tasks}):
        tasks = ", ".join(task.name for task in loaded.setup.tasks if task.priority == rank)
        line(out, f"  priority {rank}: {tasks}")
    for plan in loaded.setup.contacts:
        out.print(f"  contact {plan.name}: {'taken' if plan.taken else 'open'} at the start, friction {plan.friction:g}",
                  markup=False)


def _tables(outcome: Outcome, console: Console) -> None:
    run = outcome.run
    if run.levels:
        console.print(grid("  level", ">median", ">largest residual", ">not met", "", rows=[
            (f"  {k['name']}", f"{k['median']:.1e}", f"{k['largest']:.1e}", f"{100 * k['share']:.3g} %", plain(k["tasks"]))
            for k in level_rows(outcome)]))
    if rows := task_rows(run):
        console.print(grid("  error of task", ">RMS", ">largest", ">at the end", rows=[
            (f"  {plain(row['name'])}", f"{row['rms']:.2e}", f"{row['largest']:.2e}", f"{row['last']:.2e}") for row in rows]))
    _rest(outcome, console)


def _rest(outcome: Outcome, console: Console) -> None:
    run = outcome.run
    if run.contacts:
        table = grid("  contact", ">taken", ">normal force (N)", ">of its friction", ">in the plant", ">moved (mm)")
        for row in contact_rows(run):
            taken, share, drift = (f"{100 * row['taken']:.0f} %", f"{row['share']:.3f}", f"{1e3 * row['drift']:.2g}") \
                if run.setup.tasks else ("", "", "")  # what the controller does with a contact
            table.add_row(f"  {plain(row['name'])}", taken, f"{row['least']:.1f} to {row['most']:.1f}", share,
                          f"{row['actual']:.3f}" if row["told"] else "", drift)
        console.print(table)
    if run.torque.size and run.setup.tasks:
        worst = int(abs(run.torque / run.efforts).max(axis=0).argmax()) if (run.efforts > 0).all() else 0
        line(console, f"  torques     at most {100 * run.effort_share:.1f} % of their limits ({run.driven[worst]})")
    if (plans := run.setup.planner) is not None:
        console.print(f"  plans       {len(plans.seconds)}, {1e6 * np.median(plans.seconds):.0f} us each, {plans.failed} failed")
    counted = Counter(event.kind for event in outcome.events)
    if counted:
        words = ", ".join(f"{count} {kind}" for kind, count in counted.items())
        line(console, f"  events      {words}")
    for note in run.notes[:MAX_NOTES]:
        line(console, f"  {note.time:8.3f} s  {note.what} {note.text}")
    if len(run.notes) > MAX_NOTES:
        console.print(f"  and {len(run.notes) - MAX_NOTES} more in the report", soft_wrap=True)
    if run.levels:
        console.print(step_table({"wall": run.times}))


GOOD, BAD = 0, 1


def wbc(file: Path, *, plant: str = "", overrides: Mapping[str, str] | None = None, out: Path | None = None,
        overwrite: bool = False, quiet: bool = False, command: Sequence[str] = (), drawn: tuple[int, int] | None = None) -> int:
    """Run a file, write the folder, print the tables; returns the exit code. drawn: seed and number of a trial, which runs instead.

    0: it reached its end, every step was solved, and equations, cones and torques were kept, deadlines aside; 1: otherwise.
    Raises ProblemError and ModelError for what the user got wrong, before anything runs.
    """
    begin = time.perf_counter()
    loaded = followed(load_wbc(file, overrides or {}))
    if drawn is not None:
        loaded = loaded.trial(*drawn)
    place, replace_it = out or Path("results") / f"{file.stem}-wbc", overwrite or out is None
    screen = wide_console()
    parts = ("whole-body control",) if loaded.setup.tasks else ()
    if not quiet:
        tell(waiting_for(parts))
    with new_folder(place, replace_it, FORMAT) as partial:  # first, so that nothing runs for a folder that cannot be written
        with busy(screen, quiet=quiet) as say:
            say("compiling")
            compile_in_time(parts)
            check(Activity.COMPILATION)
            outcome = run_loaded(loaded, plant, begin=begin, progress=None if quiet else lambda state: say(where(state)))
        report(holding=True)
        write(outcome, partial, command)
    print_outcome(outcome, place, screen, quiet=quiet)
    return GOOD if outcome.ok else BAD


def run_loaded(loaded: LoadedWbc, kind: str = "", *, begin: float | None = None, progress: Progress | None = None) -> Outcome:
    """Run a loaded file on its plant, or on one of another kind; ``begin``: when reading it began."""
    begin = time.perf_counter() if begin is None else begin
    plant = loaded.plant(kind)
    read = time.perf_counter()
    found = run(loaded.setup, plant, progress)
    events = tuple(getattr(plant, "events", ()))
    return Outcome(loaded, found, events, {"prepare": read - begin, "run": time.perf_counter() - read})
