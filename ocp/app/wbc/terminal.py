"""What the command shows: a line of progress while it runs, then levels, tasks, contacts, torques, events and step times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from ocp.app.files.wbc_file import LoadedWbc
from ocp.app.mpc.terminal import step_table
from ocp.app.screen import grid, plain
from ocp.app.wbc.folder import Outcome, contact_rows, level_rows, task_rows, verdict

MOST_NOTES = 12


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
    console.print(f"  {verdict(outcome)}", markup=False, soft_wrap=True)
    for note in outcome.notes:
        console.print(f"  note        {note}", markup=False, soft_wrap=True)
    if not quiet:
        _tables(outcome, console)
    spent = outcome.seconds
    console.print(f"  time        prepare {spent['prepare']:.2f} s, run {spent['run']:.2f} s for {run.t[-1]:g} s", soft_wrap=True)
    if folder is not None:
        console.print(f"  written to  {folder}  (open {folder / 'report.html'})", soft_wrap=True, markup=False)


def print_check(loaded: LoadedWbc, console: Console | None = None) -> None:
    """What a valid file asks for."""
    out, model = console or Console(highlight=False), loaded.mechanism.model
    out.print(f"{loaded.file.name}: valid, a file of whole-body control (run: ocp wbc)", markup=False, soft_wrap=True)
    motors = len(loaded.mechanism.driven)
    out.print(f"  robot {model.name}: nq = {model.nq}, nv = {model.nv}, {model.mass:.6g} kg, {motors} motors", markup=False)
    for note in (*model.notes, *loaded.notes):
        out.print(f"  note: {note}", markup=False, soft_wrap=True)
    for rank in sorted({task.priority for task in loaded.setup.tasks}):
        tasks = ", ".join(task.name for task in loaded.setup.tasks if task.priority == rank)
        out.print(f"  priority {rank}: {tasks}", markup=False, soft_wrap=True)
    for plan in loaded.setup.contacts:
        out.print(f"  contact {plan.name}: {'taken' if plan.taken else 'open'} at the start, friction {plan.record.friction:g}",
                  markup=False)


def _tables(outcome: Outcome, console: Console) -> None:
    run = outcome.run
    if run.levels:
        _levels(outcome, console)
    if rows := task_rows(run):
        table = grid("  error of task", ">RMS", ">largest", ">at the end")
        for row in rows:
            table.add_row(f"  {plain(row['name'])}", f"{row['rms']:.2e}", f"{row['largest']:.2e}", f"{row['last']:.2e}")
        console.print(table)
    _rest(outcome, console)


def _levels(outcome: Outcome, console: Console) -> None:
    table = grid("  level", ">median", ">largest residual", ">gave way", "")
    for row in level_rows(outcome):
        table.add_row(f"  {row['name']}", f"{row['median']:.1e}", f"{row['largest']:.1e}", f"{100 * row['share']:.3g} %",
                      plain(row["tasks"]))
    console.print(table)


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
        console.print(f"  torques     at most {100 * run.effort_share:.1f} % of their limits ({run.driven[worst]})", soft_wrap=True,
                      markup=False)
    counted = Counter(event.kind for event in outcome.events)
    if counted:
        words = ", ".join(f"{count} {kind}" for kind, count in counted.items())
        console.print(f"  events      {words}", soft_wrap=True, markup=False)
    for note in run.notes[:MOST_NOTES]:
        console.print(f"  {note.time:8.3f} s  {note.what} {note.words}", markup=False, soft_wrap=True)
    if len(run.notes) > MOST_NOTES:
        console.print(f"  and {len(run.notes) - MOST_NOTES} more in the report", soft_wrap=True)
    if run.levels:
        console.print(step_table({"wall": run.times}))
