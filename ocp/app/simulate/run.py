"""From a problem file, or a bare robot file, to the folder of a simulation, and what the command shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ocp.app.files.load import LoadedProblem, load_problem, load_text
from ocp.app.files.syntax.yaml_text import dump
from ocp.app.pages.folders import new_folder
from ocp.app.screen import busy, grid, line, say_where, wide_console
from ocp.app.simulate.controls import MPC, choose
from ocp.app.simulate.events import Broken, broken_steps
from ocp.app.simulate.folder import FORMAT, Found, find, write
from ocp.app.supervisor import report
from ocp.interrupts import time_is_up
from ocp.simulation import Controls, Ending, Motion, simulate, with_steps_halved

MAX_STATES = 14


def where(row: Mapping[str, float]) -> str:
    """How far a run is, in words."""
    return f"t = {row['time']:.4g} of {row['until']:.5g} s"


def print_found(found: Found, folder: Path | None, console: Console) -> None:
    """How it ended and the figures by name."""
    motion, last = found.motion, found.motion.legs[-1]
    steps = f"{motion.steps} steps of {last.t[1] - last.t[0]:.4g} s" if len(last.u) else "no step"
    how = escape(f"{motion.integrator}, {steps}, controls: {motion.controls}")
    mark = "[bold green]finished[/]" if motion.ok else "[bold red]not finished[/]"
    console.print(f"\n[bold]{escape(motion.problem.name)}[/]  {how}: {mark}", soft_wrap=True)
    line(console, f"  {motion.ending.value} {motion.message}".rstrip())
    for note in motion.notes:
        line(console, f"  note        {note}")
    if found.crossed is not None:
        line(console, f"  events      {told_events(found.crossed)}")
    if found.halved is not None:
        size, name, time = found.halved
        words = f"{name} by {size:.2e} (at {time:.4g} s), all other states by less" if size else "no state at all"
        line(console, f"  accuracy    steps half as long move {words}")
    elif found.why:
        line(console, f"  accuracy    not measured: {found.why}")
    if found.away is not None:
        line(console, f"  the run     the motion ends {found.away[0]:.2e} from the run's own end ({found.away[1]})")
    _print_states(motion, console)
    _print_energy(found, console)
    if found.drift:
        table = grid("  constraint of the mechanism", ">largest gap", ">largest rate")
        for d in found.drift:
            gap, rate = (f"{x[x == x].max():.2e}" if (x == x).any() else "" for x in (d.gap, d.rate))
            table.add_row(f"  {escape(d.name)}", gap, rate)
        console.print(table)
    if found.costs:
        console.print(grid("  cost", ">value", rows=[(f"  {escape(name)}", f"{value:.8g}") for name, value in found.costs.items()]))
    bad = [v for v in found.violations if v.largest > v.tolerance]
    if bad:
        console.print(grid("  the problem's limits, which nothing enforces here", ">largest violation", ">at", ">component", rows=[
            (f"  {escape(v.name)}{' (soft)' if v.soft else ''}", f"{v.largest:.3e}", f"{v.time:.4g} s", escape(v.component))
            for v in bad]))
    seconds = motion.seconds or {}
    console.print(f"  time        prepare {seconds.get('prepare', 0.0):.2f} s, run {seconds.get('run', 0.0):.2f} s for "
                  f"{motion.t[-1]:.5g} s", soft_wrap=True)
    say_where(console, folder)


def _print_states(motion: Motion, console: Console) -> None:
    first, last = motion.legs[0], motion.legs[-1]
    system = last.phase.system
    same = first.phase.system.space.names == system.space.names
    table = grid("  state", *([">start"] if same else []), ">end", "")
    for i, name in enumerate(system.space.names[:MAX_STATES]):
        begin = [f"{first.x[0, i]:.6g}"] if same else []
        table.add_row(f"  {escape(name)}", *begin, f"{last.x[-1, i]:.8g}", escape(system.units.get(name, "")))
    console.print(table)
    if system.nx > MAX_STATES:
        console.print(f"  ... and {system.nx - MAX_STATES} more states in trajectory.csv", markup=False)


def _print_energy(found: Found, console: Console) -> None:
    energy = found.energy
    if energy is None:
        line(console, "  energy      the system has none; a file may give one with 'energy' and 'power'")
        return
    table = grid("  energy [J]", ">value")
    rows = {"at the start": energy.total[0], "at the end": energy.total[-1], "supplied by drives, less losses": energy.supplied[-1]}
    rows |= {"added by resets": energy.jumps} if energy.jumps else {}
    for name, value in (rows | {"unexplained": energy.unexplained}).items():
        table.add_row(f"  {name}", f"{value:.8g}")
    if energy.potential is not None:
        table.add_row("  end less potential energy at the start", f"{energy.change:.12g}")
    console.print(table)


def told_events(broken: Broken) -> str:
    """Where rates break inside steps, and what that costs, in words."""
    count = len(broken.times)
    where = f"rates break at {count} instant{'s' if count > 1 else ''} inside steps, the first at {broken.times[0]:.6g} s"
    if broken.away is None:
        return f"{where}, and steps run across them: what that costs is not known"
    size, name, time = broken.away
    return f"{where}; a motion that stops at each differs by {name} {size:.2e} (at {time:.4g} s)" if size else f"{where}"


GOOD, BAD = 0, 1
ROBOTS = (".urdf", ".xml")


def run(file: Path, *, integrator: str | None = None, dt: float | None = None, until: float | None = None,
        charts: str | None = None, controls: Sequence[str] | None = None, from_: Path | None = None, policy: str | None = None,
        quick: bool = False, overrides: Mapping[str, str] | None = None, out: Path | None = None, overwrite: bool = False,
        quiet: bool = False, command: Sequence[str] = (), console: Console | None = None) -> int:
    """Simulate, write the folder, print the tables; returns the exit code: 0 where the motion reached its end.

    Raises ProblemError and ModelError for what the user got wrong, before anything runs.
    """
    loaded = load(file, overrides or {})
    said = loaded.simulate
    problem, driven = choose(loaded, controls, from_, policy)
    if policy == MPC and loaded.mpc is not None:
        until = until or said.until or loaded.mpc.options.duration
        dt = dt or said.dt or loaded.mpc.options.period / 4
    screen, place = console or wide_console(), out or Path("results") / f"{file.stem}-simulate"
    with new_folder(place, overwrite or out is None, FORMAT) as partial:
        with busy(screen, quiet=quiet) as say:
            say("compiling")
            motion = simulate(problem, integrator or said.integrator, driven, dt=dt or said.dt, until=until or said.until,
                              charts_by=charts or said.charts,
                              progress=None if quiet else lambda row: say(where(row)))
            report(holding=True)
            halved, why = _halved(motion, driven, quick or policy == MPC)
            crossed = None if quick else broken_steps(motion)
        found = find(motion, halved, why, of_run=from_ is not None, crossed=crossed)
        write(loaded, found, partial, command)
    print_found(found, place, screen)
    return GOOD if motion.ok else BAD


def _halved(motion: Motion, driven: Controls, skip: bool) -> tuple[tuple[float, str, float] | None, str]:
    """The difference to the motion with steps half as long, or why there is none."""
    if motion.ending is not Ending.FINISHED:
        return None, "the motion did not reach its end"
    if any(leg.phase.steps is not None for leg in motion.legs):
        return None, "steps in discrete time are given"
    if skip:
        return None, "steps half as long were not tried"
    try:
        found = with_steps_halved(motion, driven)
    except KeyboardInterrupt:
        return None, "interrupted"
    if found is None and time_is_up():
        return None, "there was no time for steps half as long"
    return found, "" if found is not None else "with steps half as long the motion does not reach its end"


def load(file: Path, overrides: Mapping[str, str]) -> LoadedProblem:
    """A problem file; or a robot file as a problem of its own: at home or neutral, at rest, for a second."""
    if file.suffix not in ROBOTS:
        return load_problem(file, overrides)
    tree = {"name": file.stem, "system": {"robot": file.name}, "phase": {
        "duration": 1.0, "start": {"rest": True, "others": "neutral"}, "costs": []}}
    return load_text(dump(tree), file.parent, str(file), overrides)
