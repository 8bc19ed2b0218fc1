"""From a problem file with a section ``mpc`` to the folder of a closed-loop run.

The folder holds ``problem.yaml`` (the input, fully expanded), ``trajectory.npz`` and ``trajectory.csv`` (what the same file gives
again, bit by bit), ``steps.csv`` (wall time, answer and cost of every step), ``summary.json``, plots and ``report.html``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ocp.app.files.load import LoadedProblem, load_problem
from ocp.app.files.syntax.yaml_source import read_source
from ocp.app.mpc.folder import FORMAT, recovered, write
from ocp.app.pages.folders import new_folder
from ocp.app.prepare import compile_in_time, missing, tell, waiting_for
from ocp.app.screen import busy, grid, line, say_where, wide_console
from ocp.app.sentences import sentences
from ocp.app.supervisor import report
from ocp.errors import ProblemError
from ocp.interrupts import Activity, check, limited
from ocp.mpc import ClosedLoop, MPCOptions
from ocp.mpc.closed_loop import Loop, Progress, prepare
from ocp.mpc.options import solver_options
from ocp.mpc.result import StepTimes
from ocp.mpc.schedule import on_contacts
from ocp.mpc.trials import draw
from ocp.thresholds import CLOSED_LOOPS


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
    line(console, f"  {loop.ending.value} {loop.message}".rstrip())
    for told in sentences(loop.findings):
        line(console, f"  not kept    {told}")
    for change in loop.changed:
        line(console, f"  plant       {change}")
    for note in loop.notes:
        line(console, f"  note        {note}")
    if loop.tracking:
        console.print(grid("  tracking error", ">RMS", ">largest", ">at", "", rows=[
            (f"  {escape(item.name)}", f"{item.rms:.3e}", f"{item.largest:.3e}", f"{item.time:.3f} s", escape(item.unit))
            for item in loop.tracking]))
    if loop.recoveries:
        line(console, f"  pushes      {recovered(loop)}")
    console.print(grid("  cost of the closed loop", ">integral", rows=[
        (f"  {escape(name)}", f"{value:.6g}") for name, value in (*loop.costs.items(), ("all", loop.cost))]))
    if loop.estimation is not None:
        estimate = loop.estimation.record()
        rows = [(f"  {escape(name)}", f"{value:.3e}") for name, value in estimate["errors"].items()]
        console.print(grid("  estimate", ">RMS error", rows=rows))
        for name, value in estimate["parameters"].items():
            line(console, f"  estimated   {name} = {value:.6g} at the end")
        line(console, f"  estimation  median {estimate['median'] * 1e6:.0f} us a sample")
    if loop.violations:
        console.print(grid("  violation", ">largest", ">at", ">component", ">share of time", rows=[
            (f"  {escape(v.name)}{' (soft)' if v.soft else ''}", f"{v.largest:.3e}", f"{v.time:.3f} s" if v.largest else "",
             escape(v.component) if v.largest else "", f"{100 * v.share:.3g} %") for v in loop.violations]))
    console.print(step_table({"wall": loop.times, "processor": loop.processor_times}))
    console.print(f"  time        read {seconds['read']:.2f} s, prepare {sum(loop.prepared.values()):.2f} s, run "
                  f"{seconds['run'] - sum(loop.prepared.values()):.2f} s for {loop.t[-1]:g} s", soft_wrap=True)
    say_where(console, folder)


def step_table(found: Mapping[str, StepTimes]) -> Table:
    """Step times in microseconds against the deadline, a row for each clock."""
    table = grid("  time of a step (us)", ">median", ">99 %", ">99.9 %", ">largest", ">missed")
    for clock, times in found.items():
        cells = [f"{value * 1e6:.1f}" for value in (times.median, times.p99, times.p999, times.largest)]
        table.add_row(f"  {clock}", *cells, f"{times.missed} of {times.steps}")
    if found:
        table.add_row("  deadline", f"{next(iter(found.values())).deadline * 1e6:.1f}")
    return table


GOOD, BAD = 0, 1


@dataclass(frozen=True)
class Outcome:
    """A finished run: what was loaded, what came of it, and seconds of reading and running."""

    loaded: LoadedProblem
    loop: ClosedLoop
    seconds: Mapping[str, float]


def mpc(file: Path, *, overrides: Mapping[str, str] | None = None, out: Path | None = None, overwrite: bool = False,
        quiet: bool = False, command: Sequence[str] = (), drawn: tuple[int, int] | None = None) -> int:
    """Run a file in closed loop, write the folder, print the table; returns the exit code. drawn: seed and number of a trial, which
    runs instead.

    0: the run reached its end, the solver never failed, and the plant kept what the file asks, whatever became of the deadlines; 1:
    it did not, or was interrupted.
    Raises ProblemError and ModelError for what the user got wrong, before anything runs.
    """
    begin = time.perf_counter()
    loaded = load_mpc_file(file, overrides)
    place, replace_it = out or Path("results") / f"{file.stem}-mpc", overwrite or out is None
    screen = wide_console()
    if not quiet:
        tell(waiting_for(loops_of(loaded)))
    # the folder first, so that nothing runs for one that cannot be written
    with new_folder(place, replace_it, FORMAT) as partial, limited() as told:
        with busy(screen, quiet=quiet) as say:
            told.say = say
            compile_in_time(loops_of(loaded))
            check(Activity.COMPILATION)
            outcome = run_loaded(loaded, begin=begin, progress=None if quiet else lambda state: say(where(state)), drawn=drawn)
        report(holding=True)
        write(outcome.loaded, outcome.loop, partial, outcome.seconds, command)
    print_outcome(outcome.loop, outcome.seconds, place, screen)
    return GOOD if outcome.loop.ok else BAD


def load_mpc_file(file: Path, overrides: Mapping[str, str] | None) -> LoadedProblem:
    """A file with its section ``mpc``; where it has none, every default, with a message."""
    given = dict(overrides or {})
    if "mpc" not in read_source(file).tree and not any(key.split(".")[0] == "mpc" for key in given):
        tell(f"{file} has no section 'mpc', which says how the horizon recedes: every default is taken")
        given["mpc"] = "{}"
    return load_problem(file, given)


def loops_of(loaded: LoadedProblem) -> tuple[str, ...]:
    """The compiled loops of its horizon that are not compiled yet, as a part of ``ocp.app.prepare``."""
    names = "receding horizons", "receding horizons in loops over robots"
    absent, given = missing(names), loaded.mpc
    if not absent or given is None:
        return ()
    from ocp.shooting.ilqr import execution

    solver = solver_options(loaded.problem, given.options, {**loaded.options_for("ilqr"), **given.ilqr})
    own = names[on_contacts(loaded.problem) or execution(given.problem or loaded.problem, solver)[0]]
    return (own,) if own in absent else ()


def prepare_loaded(loaded: LoadedProblem, progress: Progress | None = None, options: MPCOptions | None = None,
                   ilqr: Mapping[str, Any] | None = None) -> Loop:
    """The closed loop of a loaded file with everything compiled. options, ilqr: instead of those of the file."""
    given = loaded.mpc
    if given is None:
        raise ProblemError("has no section 'mpc'", where=f"problem {loaded.problem.name!r}")
    options = options or given.options
    solver = solver_options(loaded.problem, options, {**loaded.options_for("ilqr"), **given.ilqr, **(ilqr or {})})
    return prepare(given.problem or loaded.problem, options, solver=solver, plant=given.plant,
                   tracked=given.tracked, progress=progress, estimate=given.estimate,
                   broken=loaded.accept.get("violation_between", CLOSED_LOOPS.broken))


def run_loaded(loaded: LoadedProblem, *, begin: float | None = None, progress: Progress | None = None,
               drawn: tuple[int, int] | None = None) -> Outcome:
    """Run a loaded file; ``begin``: when reading it began; drawn: seed and number of a trial."""
    begin = time.perf_counter() if begin is None else begin
    read = time.perf_counter()
    loop = prepare_loaded(loaded, progress)
    assert loaded.mpc is not None
    happens = (None, None) if drawn is None else draw(loop, loaded.mpc.trials, loaded.mpc.plant.disturbances, *drawn)
    found = loop.run(*happens)
    return Outcome(loaded, found, {"read": read - begin, "run": time.perf_counter() - read})
