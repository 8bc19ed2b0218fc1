"""``ocp mpc FILE --trials N``: success by the file's own criteria over random starts, kicks, pushes and noise.

The folder holds ``trials.csv`` (a row for each), ``trials.png``, ``summary.json`` and, of each failure, the folder of its run under
``failures``; ``ocp mpc FILE --trial K --seed S`` runs trial K again to the last bit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ocp.app.files.load import LoadedProblem
from ocp.app.mpc.folder import write
from ocp.app.mpc.run import BAD, GOOD, load_mpc_file, prepare_loaded
from ocp.app.pages import sheet
from ocp.app.pages.folders import csv_text, jsonable, new_folder, write_summary
from ocp.app.pipeline import provenance
from ocp.app.prepare import compile_ahead, tell, waiting
from ocp.app.screen import busy, grid, line, say_where, wide_console
from ocp.app.sentences import sentences
from ocp.app.supervisor import report
from ocp.mpc.trials import Trial, trials

FORMAT = "lieocp trials"
HEAD = ("trial", "ok", "ending", "findings", "cost", "largest violation", "failed steps", "median us", "missed", "why")


def run_trials(file: Path, count: int, seed: int, *, overrides: Mapping[str, str] | None = None, out: Path | None = None,
               overwrite: bool = False, quiet: bool = False, command: Sequence[str] = ()) -> int:
    """Run trials, write the folder, print the table. Returns 0 where all succeed. Raises ProblemError before anything runs."""
    loaded, began = load_mpc_file(file, overrides), time.perf_counter()
    assert loaded.mpc is not None
    place, screen = out or Path("results") / f"{file.stem}-mpc-trials", wide_console()
    if not quiet:
        tell(waiting(loaded, "ilqr"))
    with new_folder(place, overwrite or out is None, FORMAT) as partial:
        with busy(screen, quiet=quiet) as say:
            say("compiling")
            compile_ahead(loaded, "ilqr")
            good: list[bool] = []

            def told(one: Trial) -> None:
                good.append(one.ok)
                say(f"{len(good)} of {count} trials, {sum(good)} succeed")

            found = trials(prepare_loaded(loaded), loaded.mpc.trials, range(count), seed, told)
        report(holding=True)
        write_trials(loaded, found, count, seed, partial, time.perf_counter() - began, command)
    _print(loaded, found, seed, file, place, screen)
    return GOOD if len(found) == count and all(one.ok for one in found) else BAD


def why(one: Trial) -> str:
    """Why a trial failed, in one sentence; empty where it did not."""
    if one.loop is None:
        return one.message
    told = [*sentences(one.loop.findings), *one.loop.notes]
    return "" if one.ok else (told[0] if told else f"{one.loop.ending.value} {one.loop.message}".strip())


def row(one: Trial) -> list[Any]:
    """A trial, see ``HEAD``."""
    loop = one.loop
    if loop is None:
        return [one.number, 0, "NOT_BEGUN", "", *[""] * 5, why(one)]
    worst = max((v.largest for v in loop.violations if not v.soft), default=0.0)
    kinds = " ".join(dict.fromkeys(str(finding.kind) for finding in loop.findings))
    return [one.number, int(one.ok), loop.ending.name, kinds, loop.cost, worst, loop.failures, f"{loop.times.median * 1e6:.1f}",
            loop.times.missed, why(one)]


def write_trials(loaded: LoadedProblem, found: Sequence[Trial], count: int, seed: int, folder: Path, seconds: float,
                 command: Sequence[str]) -> None:
    """Fill an empty folder."""
    assert loaded.mpc is not None
    names = loaded.problem.phases[0].system.space.names
    starts = [f"start.{name}" for name in names]
    (folder / "problem.yaml").write_text(loaded.expanded("ilqr"), encoding="utf-8")
    (folder / "trials.csv").write_text(csv_text([[*HEAD, *starts], *([*row(one), *one.start] for one in found)]), encoding="utf-8",
                                       newline="")
    (folder / "trials.png").write_bytes(picture(loaded, found))
    for one in found:
        if not one.ok and one.loop is not None:
            place = folder / "failures" / f"trial_{one.number}"
            place.mkdir(parents=True)
            write(loaded, one.loop, place, {"read": 0.0, "run": 0.0}, command)
    write_summary(folder, jsonable({
        "format": FORMAT, "problem": {"name": loaded.problem.name}, "trials": len(found), "asked": count, "seed": seed,
        "succeeded": sum(one.ok for one in found), "ok": len(found) == count and all(one.ok for one in found),
        "failures": [{"trial": one.number, "why": why(one)} for one in found if not one.ok],
        "seconds": {"total": seconds}, "provenance": provenance(loaded.model, command, seed)}))


def _print(loaded: LoadedProblem, found: Sequence[Trial], seed: int, file: Path, place: Path, console: Console) -> None:
    bad = [one for one in found if not one.ok]
    line(console, f"\n{loaded.problem.name}  {len(found) - len(bad)} of {len(found)} trials succeed (seed {seed})",
         "bold red" if bad else "bold green")
    if bad:
        console.print(grid("  trial", "why", folded="why", rows=[(f"  {one.number}", why(one)) for one in bad[:20]]))
        line(console, f"  again       ocp mpc {file} --trial {bad[0].number} --seed {seed}")
    loops = [one.loop for one in found if one.loop is not None]
    if loops:
        cost, median = np.array([loop.cost for loop in loops]), np.median([loop.times.median for loop in loops])
        missed, steps = sum(loop.times.missed for loop in loops), sum(loop.times.steps for loop in loops)
        line(console, f"  cost        median {np.median(cost):.6g}, from {cost.min():.6g} to {cost.max():.6g}")
        line(console, f"  step        median {median * 1e6:.0f} us, missed {missed} of {steps}")
    say_where(console, place, "trials.png")


def picture(loaded: LoadedProblem, found: Sequence[Trial]) -> bytes:
    """Every trial over time: the error of the first tracked quantity, or the first state; failures in red. Below: where they began,
    in the two states whose starts differ most."""
    loops = [one for one in found if one.loop is not None and len(one.loop.fine_t) > 1]
    if not loops:
        return sheet.sentence("No trial ran.")
    fig = sheet.figure(4.9)
    ax, other = sheet.axes(fig, (0.8, 2.75, sheet.WIDTH - 1.1, 1.7)), sheet.axes(fig, (0.8, 0.5, sheet.WIDTH - 1.1, 1.5))
    first = loops[0].loop
    assert first is not None
    curves = []
    for one in loops:
        loop = one.loop
        assert loop is not None
        values = loop.tracking[0].error if loop.tracking else loop.fine_x[:, 0]
        curves.append((one.ok, loop.fine_t[:len(values)][sheet.thinned(len(values))], values[sheet.thinned(len(values))]))
    most = float(np.nanmax([np.nanmax(sheet.drawable(values)) for _, _, values in curves]))
    least = min(0.0, float(np.nanmin([np.nanmin(sheet.drawable(values)) for _, _, values in curves])))
    ax.set_xlim(0.0, loaded.mpc.options.duration if loaded.mpc else float(first.fine_t[-1]))
    ax.set_ylim(least, max(most, least + 1e-12) * 1.05)
    for ok, t, values in curves:
        ax.plot(t, values, lw=0.7, color=sheet.PALETTE[0] if ok else sheet.FAIL, zorder=3 if ok else 4)
    sheet.ticks(ax)
    title = f"|error| of {first.tracking[0].name}" if first.tracking else loaded.problem.phases[0].system.space.names[0]
    sheet.caption(fig, 0.8, 4.65, f"{title} over time [s], a line for each trial; red: failed")
    starts = np.array([one.start for one in found])
    apart = np.argsort(-np.ptp(starts, axis=0), kind="stable")[:2]
    a, b = (apart[0], apart[-1])
    for column, scale in ((a, other.set_xlim), (b, other.set_ylim)):
        low, high = float(starts[:, column].min()), float(starts[:, column].max())
        room = 0.05 * (high - low) or 1.0
        scale(low - room, high + room)
    for one in found:
        other.plot([one.start[a]], [one.start[b]], marker="o", ms=3.5, mew=0, ls="", zorder=3,
                   color=sheet.PALETTE[0] if one.ok else sheet.FAIL)
    sheet.ticks(other)
    names = loaded.problem.phases[0].system.space.names
    sheet.caption(fig, 0.8, 2.2, f"where they began: {names[b]} over {names[a]}")
    return sheet.png(fig)
