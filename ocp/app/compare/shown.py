"""Terminal output of ``ocp compare``: a line while each method runs, one table at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ocp.app.compare.records import Comparison, Entry
from ocp.app.pages import sheet
from ocp.app.pages.legs import Leg, legs, union, widened
from ocp.app.pages.sheet import Axes, Cell, Group
from ocp.app.screen import brief_seconds, grid, line, plain, say_where
from ocp.app.sentences import message, sentences
from ocp.app.sentences.wording import status_word

MAX_PANELS, ABREAST = 24, 3
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
Line = tuple[np.ndarray, np.ndarray]  # t [k] and values [k], NaN between phases


def overlay(found: Comparison) -> bytes | None:
    """PNG bytes; None where no run left a finite motion."""
    runs = [(e.spec.label, legs(e.solution)) for e in found.solved if e.solution is not None
            and np.all(np.isfinite(e.solution.trajectory.x))]
    if not runs:
        return None
    labels, motions = [label for label, _ in runs], [motion for _, motion in runs]
    units = {name: unit for leg in motions[0] for name, unit in leg.phase.system.units.items()}
    names = {"x": union([leg.phase.system.space.names for leg in motions[0]]),
             "u": union([leg.phase.system.inputs for motion in motions for leg in motion])}
    groups = [Group("methods", (Cell("", partial(_legend, labels), time=False, bare=True),), 1)]
    for heading, which in (("states", "x"), ("controls", "u")):
        cells = tuple(Cell(name, partial(_draw, [_line(motion, name, which) for motion in motions]), units.get(name, ""))
                      for name in names[which][:MAX_PANELS])
        groups += [Group(heading, cells)] if cells else []
    return sheet.sheet(groups, (0.0, max(motion[-1].span[1] for motion in motions)))


def _style(i: int) -> dict[str, Any]:
    count = len(sheet.PALETTE)
    return {"color": sheet.PALETTE[i % count], "ls": DASHES[min(i // count if i >= count else int(i > 0), len(DASHES) - 1)]}


def _legend(labels: Sequence[str], ax: Axes) -> None:
    """A line and a name for each run, some abreast."""
    rows = -(-len(labels) // ABREAST)
    ax.set_xlim(0, ABREAST)
    ax.set_ylim(-0.5, rows - 0.5)
    for i, label in enumerate(labels):
        x, y = i % ABREAST, rows - 1 - i // ABREAST
        ax.plot([x, x + 0.1], [y, y], lw=2.0, **_style(i))
        ax.text(x + 0.13, y, sheet.plain(sheet.clip_text(label, 44)), fontsize=8.5, color=sheet.INK, va="center")


def _draw(lines: Sequence[Line], ax: Axes) -> None:
    drawn = [(t, sheet.drawable(values)) for t, values in lines]
    ax.set_ylim(*sheet.limits(np.concatenate([values for _, values in drawn]), np.zeros(0), np.zeros(0)))
    for i, (t, values) in enumerate(drawn):
        ax.plot(t, values, **_style(i), lw=1.2 if i else 1.5, zorder=3 + i / 100)


def _line(motion: Sequence[Leg], name: str, which: str) -> Line:
    """A component over all phases of a run; what a phase lacks is a gap."""
    t: list[np.ndarray] = []
    values: list[np.ndarray] = []
    gap = np.array([np.nan])
    for leg in motion:
        own = leg.phase.system.space.names if which == "x" else leg.phase.system.inputs
        t += [leg.samples.t, gap]
        values += [widened(leg.samples.x if which == "x" else leg.samples.u, own, [name])[:, 0], gap]
    return np.concatenate(t[:-1]), np.concatenate(values[:-1])


#: characters of a terminal that shows every column
WIDE = 118


def say_entry(entry: Entry, k: int, count: int, console: Console) -> None:
    """One line for a method that is done."""
    if entry.solution is None:
        line(console, f"  [{k}/{count}] {entry.spec.label}: refuses", "dim")
        return
    line(console, f"  [{k}/{count}] {entry.spec.label}: {status_word(entry.solution.status.name)}, cost "
                  f"{entry.cost:.10g}, {entry.seconds[2]:.2f} s", "dim")


def print_comparison(found: Comparison, folder: Path, out: Console) -> None:
    """Print the table, then the verdict."""
    out.print(f"\n[bold]{plain(found.name)}[/]", soft_wrap=True)
    out.print(table(found, out.width >= WIDE))
    for entry in found.entries:
        for reason in entry.reasons:
            out.print(f"  [yellow]{plain(entry.spec.label)} refuses[/]: {plain(reason)}", soft_wrap=True)
        certificate = None if entry.solution is None else entry.solution.certificate
        for failure in sentences(certificate.failures) if certificate is not None else ():
            out.print(f"  [red]{plain(entry.spec.label)} fails[/]: {plain(failure)}", soft_wrap=True)
        if entry.solution is not None and not entry.ok and (told := message(entry.solution)):
            out.print(f"  {plain(entry.spec.label)}: {plain(told)}", soft_wrap=True)
    if found.reference is not None:
        line(out, f"  reference   {found.reference.objective:.10g}: {found.reference.source}")
    good = found.certified and found.unanimous
    out.print(f"  [bold {'green' if good else 'red'}]{plain(verdict(found))}[/]", soft_wrap=True)
    say_where(out, folder, "trajectories.png")


def table(found: Comparison, wide: bool = True) -> Table:
    """A line for each method, the best cost in bold; wide: with violations and the parts of the time."""
    heads = ["  method", ">cost", ">to best", *([">to ref."] if found.reference is not None else []),
             *([">at knots", ">between"] if wide else []), "certificate", ">iter", *([">build", ">solve"] if wide else []),
             ">total", *([">again"] if found.repeat else []), "status"]
    shown = grid(*heads)
    for entry in found.entries:
        name = "\n".join([f"  [bold]{entry.spec.method}[/]", *(f"    [dim]{plain(f'{key}={value}')}[/]"
                                                               for key, value in entry.spec.options.items())])
        if entry.solution is None:
            shown.add_row(name, *("",) * (len(heads) - 2), "[yellow]refuses[/]")
            continue
        at, between = entry.worst()
        off = found.off_reference(entry)
        best = entry.ok and entry.cost == found.best
        shown.add_row(
            name, f"[bold green]{entry.cost:.9g}[/]" if best else f"{entry.cost:.9g}", _off(found.off_best(entry), found.tolerance),
            *([] if off is None else [_off(off, found.tolerance)]),
            *([_violation(at.at_knots, at.tolerance) if at is not None else "",
               _violation(between.between_knots, between.tolerance_between) if between is not None else ""] if wide else []),
            f"[{'green' if entry.word == 'holds' else 'red'}]{entry.word}[/]", str(entry.iterations),
            *(brief_seconds(s) for s in (entry.seconds if wide else entry.seconds[2:])),
            *([brief_seconds(entry.median_again)] if found.repeat else []), status_word(entry.solution.status.name))
    return shown


def verdict(found: Comparison) -> str:
    """The outcome in a sentence."""
    solved, good = found.solved, [e for e in found.solved if e.ok]
    refused = [e for e in found.entries if e.solution is None]
    tail = f"; {len(refused)} refused" if refused else ""
    if not found.complete:
        return f"Interrupted: {len(found.entries)} reached, {len(good)} certified{tail}."
    if not solved:
        return "No method can enforce all that the file asks for."
    if len(good) < len(solved):
        return f"{len(good)} of {len(solved)} certified{tail}."
    against = "the reference" if found.reference is not None else "the best"
    away = [e.spec.label for e in solved if not found.agrees(e)]
    many = "The one run is" if len(solved) == 1 else f"All {len(solved)} runs are"
    if away:
        return f"{many} certified, but {', '.join(away)} differ{'s' if len(away) == 1 else ''} from {against} by more than " \
               f"{found.tolerance:.1g}{tail}."
    spread = max((abs(found.off_best(e)) for e in solved), default=math.nan)
    return f"{many} certified and agree{'s' if len(solved) == 1 else ''} with {against} within {found.tolerance:.1g} " \
           f"(largest difference to the best {spread:.1e}){tail}."


def _off(value: float, tolerance: float) -> str:
    words = "0" if value == 0 else f"{value:+.1e}"
    return words if abs(value) <= tolerance else f"[yellow]{words}[/]"


def _violation(value: float, tolerance: float) -> str:
    return f"{value:.1e}" if value <= tolerance else f"[red]{value:.1e}[/]"
