"""From a problem file to the folder of a comparison.

The folder holds ``compare.csv``, ``trajectories.png`` (all motions laid over each other), ``summary.json`` and
under ``runs/`` the folder of each run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ocp.app.compare import shown
from ocp.app.compare.records import TOLERANCE, Comparison, Entry, Spec, parse_specs
from ocp.app.files.load import load_problem
from ocp.app.pages.folders import csv_text, jsonable, new_folder, write_summary
from ocp.app.pipeline import provenance, run_loaded
from ocp.app.screen import busy, counting, wide_console
from ocp.app.supervisor import is_supervised, report
from ocp.errors import ProblemError, UnsupportedError, positive
from ocp.interrupts import Activity, time_is_up
from ocp.methods import METHODS, make_options, uncertified
from ocp.problem import Status

FORMAT, FORMAT_VERSION = "lieocp comparison", 1
AGREED, NOT_CERTIFIED, DISAGREED = 0, 1, 4
HEADINGS = ("method", "options", "status", "certificate", "cost", "relative to best", "relative to reference", "agrees",
            "violation at knots", "of", "violation between knots", "of", "iterations", "transcription [s]", "solve [s]",
            "total [s]", "again [s]", "refused", "run")


def compare(file: Path, *, methods: Sequence[str] = (), overrides: Mapping[str, str] | None = None, repeat: int = 0,
            tolerance: float | None = None, out: Path | None = None, overwrite: bool = False, quiet: bool = False,
            command: Sequence[str] = ()) -> int:
    """Solve a file by several methods, write the folder, print the table; returns the exit code.

    0: all are certified and agree; 1: something was not solved, not certified, or refused though it was asked for, or the
    comparison was interrupted; 4: all are certified, but their costs differ by more than the tolerance. Raises ProblemError and
    ModelError for what the user got wrong, before anything runs.
    """
    if repeat < 0:
        raise ProblemError(f"must not be negative, got {repeat}", where="--repeat")
    positive(tolerance, "--tolerance")
    specs = parse_specs(methods)
    given = dict(overrides or {})
    problem = load_problem(file, given).problem
    for spec in specs:  # a mistake in the options of the last one shall not cost the time of the others
        _loaded(file, given, spec)
    place = out if out is not None else Path("results") / f"{file.stem}-compare"
    screen = wide_console()
    accepted = tolerance or max(TOLERANCE, problem.reference.tolerance if problem.reference is not None else 0.0)
    with new_folder(place, overwrite or out is None, FORMAT) as partial:
        def compared(entries: Sequence[Entry], complete: bool) -> Comparison:
            return Comparison(problem.name, tuple(entries), problem.reference, accepted, complete, repeat)

        def keep(entries: Sequence[Entry]) -> None:
            _write(compared(entries, False), partial, command, picture=None)
            report(so_far=(str(partial), str(place)), what="what was compared so far")

        found = compared(*_run_all(file, given, specs, partial, repeat, command, screen, quiet, keep if is_supervised() else None))
        _write(found, partial, command, picture=shown.overlay(found))
    shown.print_comparison(found, place, screen)
    return NOT_CERTIFIED if not found.certified else AGREED if found.unanimous else DISAGREED


def _loaded(file: Path, overrides: Mapping[str, str], spec: Spec) -> Any:
    """The file with the options of one method."""
    own = {f"solve.{spec.method}.{key}": value for key, value in spec.options.items()}
    loaded = load_problem(file, {**overrides, **own})
    make_options(spec.method, loaded.options_for(spec.method))
    return loaded


def _run_all(file: Path, overrides: Mapping[str, str], specs: Sequence[Spec], folder: Path, repeat: int, command: Sequence[str],
             console: Console, quiet: bool, keep: Callable[[Sequence[Entry]], None] | None) -> tuple[list[Entry], bool]:
    """(entries, whether all were reached). keep: called with the entries so far after each."""
    entries: list[Entry] = []
    for k, spec in enumerate(specs):
        if time_is_up(Activity.SOLVING):
            return entries, False
        with busy(console, quiet=quiet or not console.is_terminal) as say:
            progress = counting(say, f"[{k + 1}/{len(specs)}] {spec.label}")
            entry = _run_one(file, overrides, spec, folder, repeat, command, progress)
        entries.append(entry)
        if keep is not None:
            keep(entries)
        if not quiet:
            shown.say_entry(entry, k + 1, len(specs), console)
        if entry.solution is not None and entry.solution.status is Status.INTERRUPTED:
            return entries, False
    return entries, True


def _run_one(file: Path, overrides: Mapping[str, str], spec: Spec, folder: Path, repeat: int, command: Sequence[str],
             progress: Any) -> Entry:
    loaded = _loaded(file, overrides, spec)
    reasons = METHODS[spec.method].unsupported(loaded.problem)
    if reasons:
        return Entry(spec, reasons=tuple(reasons))
    try:
        outcome = run_loaded(loaded, file.stem, method_name=spec.method, out=folder / "runs" / spec.slug, overwrite=True,
                             progress=progress, command=command)
    except UnsupportedError as error:
        return Entry(spec, reasons=error.reasons)
    again = []
    options = make_options(spec.method, loaded.options_for(spec.method))
    interrupted = outcome.solution.status is Status.INTERRUPTED or time_is_up()
    for _ in range(0 if interrupted else repeat):
        begin = time.perf_counter()
        uncertified(loaded.problem, spec.method, options)
        again.append(time.perf_counter() - begin)
    return Entry(spec, outcome.solution, folder=f"runs/{spec.slug}", again=tuple(again))


# ---- the folder ---------------------------------------------------------------------------------------------------------
def _write(found: Comparison, folder: Path, command: Sequence[str], picture: bytes | None) -> None:
    rows = [row(found, entry) for entry in found.entries]
    (folder / "compare.csv").write_text(csv_text([HEADINGS, *rows]), encoding="utf-8", newline="")
    if picture is not None:
        (folder / "trajectories.png").write_bytes(picture)
    models = [e.solution.problem.phases[0].system.model for e in found.solved if e.solution is not None]
    write_summary(folder, jsonable({
        "format": FORMAT, "format_version": FORMAT_VERSION, "problem": found.name, "tolerance": found.tolerance,
        "complete": found.complete, "certified": found.certified, "unanimous": found.unanimous, "best": found.best,
        "rows": [dict(zip(_KEYS, cells, strict=True)) for cells in rows],
        "provenance": provenance(models[0] if models else None, command)}))


_KEYS = ("method", "options", "status", "certificate", "cost", "off_best", "off_reference", "agrees", "violation", "violation_of",
         "between", "between_of", "iterations", "transcription", "solve", "total", "again", "refused", "run")


def row(found: Comparison, entry: Entry) -> list[Any]:
    """One line of the table, in the order of HEADINGS; None where there is nothing."""
    if entry.solution is None:
        return [entry.spec.method, entry.spec.detail, "REFUSED", *(None,) * 14, "; ".join(entry.reasons), None]
    at, between = entry.worst()
    return [entry.spec.method, entry.spec.detail, entry.solution.status.name, entry.verdict, entry.cost, found.off_best(entry),
            found.off_reference(entry), found.agrees(entry), at and at.at_knots, at and at.label, between and between.between_knots,
            between and between.label, entry.iterations, *entry.seconds, entry.median_again, None, entry.folder]
