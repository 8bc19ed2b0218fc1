"""``ocp mpc FILE --compare``: what iterations, engines for constraints, rates and horizons are worth, each in a run of its own.

Everything differs from the file in one thing: real-time iterations beside more of them, the barrier beside multipliers, half and
twice the rate, half and twice the horizon. Cost, violation, tracking, time of a step and missed deadlines stand in one table and
one figure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.load import LoadedProblem
from ocp.app.mpc.run import BAD, GOOD, load_mpc_file, prepare_loaded
from ocp.app.pages import sheet
from ocp.app.pages.folders import csv_text, jsonable, new_folder, write_summary
from ocp.app.pipeline import provenance
from ocp.app.prepare import compile_ahead, tell, waiting
from ocp.app.screen import busy, grid, line, say_where, wide_console
from ocp.app.supervisor import report
from ocp.errors import ProblemError
from ocp.mpc import ClosedLoop, MPCOptions
from ocp.mpc.options import solver_options

FORMAT = "lieocp mpc comparison"
HEAD = ("variant", "ok", "cost", "largest violation", "tracking rms", "failed steps", "median us", "p999 us", "deadline us",
        "missed")
CONVERGED = 20
"""Iterations a step beside which real-time iterations stand."""


@dataclass(frozen=True)
class Variant:
    """Changes to the file; loop: the run, None where it could not, for the reason ``message``."""

    name: str
    options: MPCOptions
    ilqr: Mapping[str, Any]
    loop: ClosedLoop | None = None
    message: str = ""


def variants(options: MPCOptions, intervals: int, length: float, limited: bool, timed: bool) -> Iterator[Variant]:
    """The file as it stands, then each that differs in one thing. length: of the horizon [s]; limited: whether there are
    constraints that engines hold; timed: whether the rate is free."""
    def count(share: float) -> dict[str, int]:
        return {"intervals": max(1, round(intervals * share))}

    yield Variant("the file", options, {})
    for iterations in (1, 2, 5, CONVERGED):
        if iterations != options.iterations:
            words = f"{iterations} iteration{'s' if iterations > 1 else ''}" + (", converged" if iterations == CONVERGED else "")
            yield Variant(words, replace(options, iterations=iterations), {})
    if limited:
        for barrier, name in ((MPCOptions().barrier, "barrier"), (0.0, "multipliers")):
            if (barrier > 0) != (options.barrier > 0):
                yield Variant(name, replace(options, barrier=barrier), {})
        yield Variant("multipliers, converged", replace(options, barrier=0.0, iterations=CONVERGED), {})
    for share in (0.5, 2.0):
        if timed and 1.0 / (share * options.rate) <= length:
            yield Variant(f"{share * options.rate:g} Hz", replace(options, rate=share * options.rate), {})
    for share in (0.5, 2.0):
        if timed and share * length >= options.period:
            yield Variant(f"horizon {share * length:g} s", replace(options, horizon=share * length), count(share))


def run_compare(file: Path, *, overrides: Mapping[str, str] | None = None, out: Path | None = None, overwrite: bool = False,
                quiet: bool = False, command: Sequence[str] = ()) -> int:
    """Run all variants, write the folder, print the table. Returns 0 where the file as it stands does what it asks."""
    loaded, began = load_mpc_file(file, overrides), time.perf_counter()
    place, screen = out or Path("results") / f"{file.stem}-mpc-compare", wide_console()
    if not quiet:
        tell(waiting(loaded, "ilqr"))
    with new_folder(place, overwrite or out is None, FORMAT) as partial:
        with busy(screen, quiet=quiet) as say:
            say("compiling")
            compile_ahead(loaded, "ilqr")
            found = compared(loaded, say)
        report(holding=True)
        rows = [row(one) for one in found]
        (partial / "problem.yaml").write_text(loaded.expanded("ilqr"), encoding="utf-8")
        (partial / "compare.csv").write_text(csv_text([HEAD, *rows]), encoding="utf-8", newline="")
        (partial / "compare.png").write_bytes(picture(found))
        write_summary(partial, jsonable({
            "format": FORMAT, "problem": {"name": loaded.problem.name}, "ok": bool(rows[0][1]),
            "variants": [{**dict(zip(HEAD, one, strict=True)), "message": it.message} for one, it in zip(rows, found, strict=True)],
            "seconds": {"total": time.perf_counter() - began}, "provenance": provenance(loaded.model, command, None)}))
    line(screen, f"\n{loaded.problem.name}")
    screen.print(grid("  variant", "ok", ">cost", ">largest violation", ">tracking RMS", ">failed", ">median us", ">99.9 % us",
                      ">deadline", ">missed", rows=[_cells(one, entry) for one, entry in zip(rows, found, strict=True)]))
    say_where(screen, place, "compare.png")
    return GOOD if rows[0][1] else BAD


def compared(loaded: LoadedProblem, say: Any = None) -> list[Variant]:
    """Every variant with its run."""
    assert loaded.mpc is not None
    phase, given = (loaded.mpc.problem or loaded.problem).phase, loaded.mpc.options
    intervals = solver_options(loaded.problem, given, {**loaded.options_for("ilqr"), **loaded.mpc.ilqr}).intervals
    limited = bool(phase.state_bounds.bounded.any() or any(c.soft is None for c in phase.constraints))
    found = []
    for one in variants(given, intervals, given.horizon or phase.duration.guess, limited, phase.system.period is None):
        if say is not None:
            say(f"running: {one.name}")
        try:
            found.append(replace(one, loop=prepare_loaded(loaded, options=one.options, ilqr=one.ilqr).run()))
        except ProblemError as error:
            found.append(replace(one, message=error.message))
    return found


def row(one: Variant) -> list[Any]:
    """A variant, see ``HEAD``."""
    loop = one.loop
    if loop is None:
        return [one.name, 0, *[float("nan")] * 3, 0, float("nan"), float("nan"), one.options.period * 1e6, 0]
    worst = max((v.largest for v in loop.violations if not v.soft), default=0.0)
    tracking = loop.tracking[0].rms if loop.tracking else float("nan")
    times = loop.times
    return [one.name, int(loop.ok), loop.cost, worst, tracking, loop.failures, times.median * 1e6, times.p999 * 1e6,
            times.deadline * 1e6, times.missed]


def _cells(entry: Sequence[Any], one: Variant) -> tuple[str, ...]:
    if one.loop is None:
        return f"  {one.name}", "no", one.message, *[""] * 7
    name, ok, cost, worst, tracking, failed, median, late, deadline, missed = entry
    return (f"  {name}", "yes" if ok else "no", f"{cost:.6g}", f"{worst:.1e}", "" if np.isnan(tracking) else f"{tracking:.3e}",
            str(failed), f"{median:.0f}", f"{late:.0f}", f"{deadline:.0f}", str(missed))


def picture(found: Sequence[Variant]) -> bytes:
    """A line for each variant: its cost beside that of the file, its largest violation, and the time of a step from the median to
    99.9 % with the deadline; red: it did not do what the file asks."""
    rows = [(one.name, bool(one.loop and one.loop.ok), row(one)) for one in found]
    first, bar, left, wide, gap = rows[0][2][2], 0.3, 1.9, 2.35, 0.45
    height = 0.95 + bar * len(rows)
    fig = sheet.figure(height)
    floor = 1e-8
    with np.errstate(divide="ignore", invalid="ignore"):
        panels = (
            ("cost over that of the file", "log", [np.log10(np.array([1.0, max(values[2] / first, 1e-9)])) for *_, values in rows]),
            ("largest violation", "log", [np.log10([floor, max(values[3], floor)]) for *_, values in rows]),
            ("step [us]: median to 99.9 %, deadline", "log", [np.log10(values[6:8]) for *_, values in rows]))
    for i, (title, scale, spans) in enumerate(panels):
        ax = sheet.axes(fig, (left + i * (wide + gap), 0.45, wide, bar * len(rows)))
        known = np.array([span for span in spans if np.isfinite(span).all()] or [[0.0, 1.0]])
        marks = [float(np.log10(values[8])) for *_, values in rows] if i == 2 else []
        low, high = min(known.min(), *marks, np.inf), max(known.max(), *marks, -np.inf)
        room = 0.05 * (high - low) or 0.1
        ax.set_xlim(low - room, high + room)
        ax.set_ylim(-0.6, len(rows) - 0.4)
        for k, ((name, ok, _), span) in enumerate(zip(rows, spans, strict=True)):
            y, colour = len(rows) - 1 - k, sheet.PALETTE[0] if ok else sheet.FAIL
            if np.isfinite(span).all():
                ax.plot(span, [y, y], lw=4, color=colour, solid_capstyle="butt", zorder=3)
                ax.plot(span[-1:], [y], marker="o", ms=4, mew=0, color=colour, zorder=4)
            if marks:
                ax.plot([marks[k]] * 2, [y - 0.4, y + 0.4], color=sheet.FAIL, lw=1.4, zorder=4)
            if i == 0:
                ax.text(-0.03, y, name, transform=ax.get_yaxis_transform(), ha="right", va="center", fontsize=8.5, color=sheet.INK)
        sheet.ticks(ax, scale, "")
        sheet.caption(fig, left + i * (wide + gap), height - 0.2, title)
    return sheet.png(fig)
