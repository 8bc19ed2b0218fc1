"""What the command shows: a line of progress while it runs, then tracking, costs, violations and step times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ocp.app.screen import grid
from ocp.mpc import ClosedLoop
from ocp.mpc.result import StepTimes


def where(state: Mapping[str, float]) -> str:
    """How far a run is, in words."""
    failed = f", {state['failed']:.0f} failed" if state["failed"] else ""
    return (f"t = {state['time']:.2f} of {state['duration']:.5g} s, step {state['median'] * 1e6:.0f} us (largest "
            f"{state['largest'] * 1e6:.0f}, deadline {state['deadline'] * 1e6:.0f}), {state['missed']:.0f} missed{failed}")


def print_outcome(loop: ClosedLoop, seconds: Mapping[str, float], folder: Path | None, console: Console) -> None:
    """How it ended and the figures by name."""
    mark = "[bold green]finished[/]" if loop.ok else "[bold red]not finished well[/]"
    console.print(f"\n[bold]{escape(loop.problem.name)}[/]  {loop.options.rate:g} Hz, {loop.options.iterations} iteration"
                  f"{'s' if loop.options.iterations > 1 else ''} a step: {mark}", soft_wrap=True)
    console.print(f"  {loop.ending.value} {loop.message}".rstrip(), markup=False, soft_wrap=True)
    for change in loop.changed:
        console.print(f"  plant       {change}", markup=False, soft_wrap=True)
    for note in loop.notes:
        console.print(f"  note        {note}", markup=False, soft_wrap=True)
    if loop.tracking:
        table = grid("  tracking error", ">RMS", ">largest", ">at", "")
        for item in loop.tracking:
            table.add_row(f"  {escape(item.name)}", f"{item.rms:.3e}", f"{item.largest:.3e}", f"{item.time:.3f} s",
                          escape(item.unit))
        console.print(table)
    table = grid("  cost of the closed loop", ">integral")
    for name, value in loop.costs.items():
        table.add_row(f"  {escape(name)}", f"{value:.6g}")
    table.add_row("  all", f"{loop.cost:.6g}")
    console.print(table)
    if loop.violations:
        table = grid("  violation", ">largest", ">at", ">component", ">share of time")
        for v in loop.violations:
            table.add_row(f"  {escape(v.name)}{' (soft)' if v.soft else ''}", f"{v.largest:.3e}",
                          f"{v.time:.3f} s" if v.largest else "", escape(v.component) if v.largest else "",
                          f"{100 * v.share:.3g} %")
        console.print(table)
    console.print(step_table({"wall": loop.times, "processor": loop.processor_times}))
    console.print(f"  time        read {seconds['read']:.2f} s, prepare {sum(loop.prepared.values()):.2f} s, run "
                  f"{seconds['run'] - sum(loop.prepared.values()):.2f} s for {loop.t[-1]:g} s", soft_wrap=True)
    if folder is not None:
        console.print(f"  written to  {folder}  (open {folder / 'report.html'})", soft_wrap=True, markup=False)


def step_table(found: Mapping[str, StepTimes]) -> Table:
    """Step times in microseconds against the deadline, a row for each clock."""
    table = grid("  time of a step (us)", ">median", ">99 %", ">99.9 %", ">largest", ">missed")
    for clock, times in found.items():
        cells = [f"{value * 1e6:.1f}" for value in (times.median, times.p99, times.p999, times.largest)]
        table.add_row(f"  {clock}", *cells, f"{times.missed} of {times.steps}")
    if found:
        table.add_row("  deadline", f"{next(iter(found.values())).deadline * 1e6:.1f}")
    return table
