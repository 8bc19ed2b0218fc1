"""What the command shows: a line of progress while it runs, then how it ended, energies, drift, costs and violations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ocp.app.screen import grid
from ocp.app.simulate.folder import Found
from ocp.simulation import Motion

MOST_STATES = 14


def where(row: Mapping[str, float]) -> str:
    """How far a run is, in words."""
    return f"t = {row['time']:.4g} of {row['until']:.5g} s"


def headline(motion: Motion) -> str:
    """What was simulated, and how."""
    last = motion.legs[-1]
    steps = f"{motion.steps} steps of {last.t[1] - last.t[0]:.4g} s" if len(last.u) else "no step"
    return f"{motion.integrator}, {steps}, controls: {motion.controls}"


def print_found(found: Found, folder: Path | None, console: Console) -> None:
    """How it ended and the figures by name."""
    motion = found.motion
    mark = "[bold green]finished[/]" if motion.ok else "[bold red]not finished[/]"
    console.print(f"\n[bold]{escape(motion.problem.name)}[/]  {escape(headline(motion))}: {mark}", soft_wrap=True)
    console.print(f"  {motion.ending.value} {motion.message}".rstrip(), markup=False, soft_wrap=True)
    for note in motion.notes:
        console.print(f"  note        {note}", markup=False, soft_wrap=True)
    if found.halved is not None:
        size, name, time = found.halved
        words = f"{name} by {size:.2e} (at {time:.4g} s), all other states by less" if size else "no state at all"
        console.print(f"  accuracy    steps half as long move {words}", markup=False, soft_wrap=True)
    elif found.why:
        console.print(f"  accuracy    not measured: {found.why}", markup=False, soft_wrap=True)
    if found.away is not None:
        console.print(f"  the run     the motion ends {found.away[0]:.2e} from the run's own end ({found.away[1]})", markup=False,
                      soft_wrap=True)
    _print_states(motion, console)
    _print_energy(found, console)
    if found.drift:
        table = grid("  constraint of the mechanism", ">largest gap", ">largest rate")
        for d in found.drift:
            gap, rate = (f"{x[x == x].max():.2e}" if (x == x).any() else "" for x in (d.gap, d.rate))
            table.add_row(f"  {escape(d.name)}", gap, rate)
        console.print(table)
    if found.costs:
        table = grid("  cost", ">value")
        for name, value in found.costs.items():
            table.add_row(f"  {escape(name)}", f"{value:.8g}")
        console.print(table)
    bad = [v for v in found.violations if v.largest > v.tolerance]
    if bad:
        table = grid("  the problem's limits, which nothing enforces here", ">largest violation", ">at", ">component")
        for v in bad:
            table.add_row(f"  {escape(v.name)}{' (soft)' if v.soft else ''}", f"{v.largest:.3e}", f"{v.time:.4g} s",
                          escape(v.component))
        console.print(table)
    seconds = motion.seconds or {}
    console.print(f"  time        prepare {seconds.get('prepare', 0.0):.2f} s, run {seconds.get('run', 0.0):.2f} s for "
                  f"{motion.t[-1]:.5g} s", soft_wrap=True)
    if folder is not None:
        console.print(f"  written to  {folder}  (open {folder / 'report.html'})", soft_wrap=True, markup=False)


def _print_states(motion: Motion, console: Console) -> None:
    first, last = motion.legs[0], motion.legs[-1]
    system = last.phase.system
    same = first.phase.system.space.names == system.space.names
    table = grid("  state", *([">start"] if same else []), ">end", "")
    for i, name in enumerate(system.space.names[:MOST_STATES]):
        begin = [f"{first.x[0, i]:.6g}"] if same else []
        table.add_row(f"  {escape(name)}", *begin, f"{last.x[-1, i]:.8g}", escape(system.units.get(name, "")))
    console.print(table)
    if system.nx > MOST_STATES:
        console.print(f"  ... and {system.nx - MOST_STATES} more states in trajectory.csv", markup=False)


def _print_energy(found: Found, console: Console) -> None:
    energy = found.energy
    if energy is None:
        console.print("  energy      the system has none; a file may give one with 'energy' and 'power'", markup=False,
                      soft_wrap=True)
        return
    table = grid("  energy [J]", ">value")
    rows = {"at the start": energy.total[0], "at the end": energy.total[-1], "supplied by drives, less losses": energy.supplied[-1]}
    rows |= {"added by resets": energy.jumps} if energy.jumps else {}
    for name, value in (rows | {"unexplained": energy.unexplained}).items():
        table.add_row(f"  {name}", f"{value:.8g}")
    if energy.potential is not None:
        table.add_row("  end less potential energy at the start", f"{energy.change:.12g}")
    console.print(table)
