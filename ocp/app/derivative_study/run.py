"""``ocp derivatives``: measure, write the folder, print.

The folder holds ``derivatives.csv`` (all entries), ``times.png``, ``errors.png``, ``sparsity.png``, ``report.html`` and
``summary.json`` (verdict, references, recommendations, provenance).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dynamics.model.model import Model
from ocp.app.derivative_study.figures import plot_study, study_title
from ocp.app.derivative_study.judge import DIFFERENCES, duration, undecided
from ocp.app.derivative_study.measure import FAILED, FUNCTIONS, MEASURED, SKIPPED, SOURCES, Entry, thousands
from ocp.app.derivative_study.study import Settings, Study, run_study, settings_record
from ocp.app.derivative_study.target import find_target
from ocp.app.pages.folders import csv_text, jsonable, new_folder
from ocp.app.pages.report import write_report
from ocp.app.pipeline import provenance
from ocp.app.screen import brief_seconds, grid, line
from ocp.app.supervisor import is_supervised, report
from ocp.interrupts import LAST_PICTURE_S, Activity, closing, time_is_up

FORMAT, FORMAT_VERSION = "lieocp derivatives", 2
AGREE, DISAGREE = 0, 1
COLUMNS = tuple(f.name for f in dataclasses.fields(Entry))
HEADINGS = ("source", "error", "operations", "nonzeros", "build", "compile", "interpreted", "compiled")
CAPTIONS = {
    "times": ("Time per evaluation", "One evaluation, on a logarithmic axis. Filled: compiled. Ring: interpreted by CasADi. "
              "★: recommended."),
    "errors": ("Errors", "Largest difference from the reference (open diamond, at its distance from the method that confirms it), "
               "relative to max(1, largest entry), over outputs and samples. Shaded: no longer exact."),
    "sparsity": ("Sparsity", "Dark: not zero at the samples. Light: allowed by the structure of the closed form, yet zero at every "
                 "sample. White: always zero, because no path of the tree joins the two, or by symmetry."),
}


def derivatives(
    robot: str, settings: Settings, *, root: str | None = None, mimic: str | None = None, out: Path | None = None,
    overwrite: bool = False, quiet: bool = False, command: Sequence[str] = (), console: Console | None = None,
) -> int:
    """Measure every way to the derivatives of a robot's dynamics, write the folder, print the table; returns the exit code.

    robot: a .urdf or .xml file, a name of the ``robots`` extra, or a problem file; the other arguments as on the command line.
    0: everything was measured and agrees; 1: a way is wrong or failed, or the work was interrupted. Raises ProblemError and
    ModelError for what the user got wrong, before anything is measured; KeyboardInterrupt if nothing was measured.
    """
    target = find_target(robot, root=root, mimic=mimic).holding(settings.contacts)
    place, replace_it = out or Path("results") / "derivatives" / target.name, overwrite or out is None
    screen = console or Console(highlight=False)
    with new_folder(place, replace_it, FORMAT) as partial:  # first, so that nobody measures for a folder that cannot be written
        def report_entry(done: int, total: int, entry: Entry, so_far: Callable[[], Study]) -> None:
            if is_supervised():
                write(so_far(), partial, target.model, command, drawn=False)
                report(so_far=(str(partial), str(place)), what="what was measured so far")
            if not quiet:
                _progress(screen, done, total, entry)

        study = run_study(target, settings, report_entry)
        if not study.entries:
            raise KeyboardInterrupt
        write(study, partial, target.model, command)
    print_study(study, place, screen, quiet=quiet)
    return AGREE if study.ok else DISAGREE


# ------------------------------------------------------------------------------------------------ in words
def verdict(study: Study) -> str:
    """How it ended, in one or two sentences."""
    exact = [e for e in study.entries if e.error is not None and not e.wrong and e.limit < DIFFERENCES]
    words = []
    if study.wrong:
        named = ", ".join(f"{e.label} ({FUNCTIONS[e.function]})" for e in study.wrong)
        words.append(f"{len(study.wrong)} wrong or failed: {named}.")
    elif exact:
        worst = max(exact, key=lambda e: e.error or 0.0)
        words.append(f"All exact methods agree; the largest error is {worst.error:.1e} ({worst.label}, "
                     f"{FUNCTIONS[worst.function]}), where {worst.limit:.0e} is rounding.")
    lonely = [FUNCTIONS[f] for f in study.functions if f in study.references and not any(e.function == f for e in exact)]
    if lonely and not study.wrong:
        words.append(f"Not confirmed by a second exact method: {'; '.join(lonely)}.")
    if study.missing:
        words.append(f"Interrupted: {len(study.missing)} of {len(study.missing) + len(study.entries)} methods were not measured.")
    return " ".join(words) or "Nothing could be compared."


def left_out(entries: Sequence[Entry]) -> list[str]:
    """One sentence for each reason why something was not measured or not compiled, with the functions."""
    found: dict[str, list[Entry]] = {}
    for e in entries:
        for reason in (e.reason if e.status == SKIPPED else "", e.note):
            if reason and not e.idle:
                found.setdefault(reason, []).append(e)
    return [f"{', '.join(dict.fromkeys(e.label for e in those))}: {reason} "
            f"({'; '.join(dict.fromkeys(FUNCTIONS[e.function] for e in those))})" for reason, those in found.items()]


def cells(study: Study, e: Entry) -> tuple[str, ...]:
    """An entry as words under HEADINGS."""
    reference = study.references.get(e.function)
    own = reference is not None and reference.source == e.source and not e.wrong
    error = "reference" if own else "" if e.error is None else f"{e.error:.0e}"
    times = ("" if t is None else duration(t) for t in (e.interpreted_us, e.compiled_us))
    took = (brief_seconds(s) for s in (e.build_s, e.compile_s))
    return e.label, error, thousands(e.operations), thousands(e.nonzeros), *took, *times


# ------------------------------------------------------------------------------------------------ the terminal
def _progress(console: Console, done: int, total: int, e: Entry) -> None:
    if not e.idle:
        times = (("interpreted", e.interpreted_us), ("compiled", e.compiled_us))
        words = ", ".join(f"{how} {duration(t)}" for how, t in times if t is not None) or f"{e.status}, {e.reason}"
        line(console, f"[{done}/{total}] {FUNCTIONS[e.function]}, {e.label}: {words}")


def print_study(study: Study, folder: Path, console: Console, *, quiet: bool = False) -> None:
    """The table by function, the recommendations, what is wrong and what was left out."""
    robot = study.robot
    constraints = f", constraints: {', '.join(robot['constraints'])}" if robot["constraints"] else ""
    line(console, f"\n{robot['name']}  {robot['nv']} degrees of freedom, {robot['bodies']} bodies, depth {robot['depth']}, "
                  f"root {robot['root']}{constraints}", "bold")
    for title, found in () if quiet else _tables(study):
        console.print(f"\n{title}", style="bold", markup=False)
        console.print(found)
    for note in left_out(study.entries):
        line(console, f"  {note}", "dim")
    console.print("\nRecommended for this robot", style="bold")
    for function in study.functions:
        console.print(f"  {FUNCTIONS[function]}", markup=False)
        pick = next((p for p in study.picks if p.function == function), None)
        if pick is None:
            line(console, f"    nothing: {undecided(study.of(function))}.")
        else:
            how = "" if pick.execution == "loop" else f", {pick.execution}"
            console.print(f"    [bold green]{SOURCES[pick.source][0]}{how}[/]", end="  ")
            line(console, pick.why)
    for e in study.wrong:
        words = e.reason if e.status == FAILED else f"error {e.error:.1e} against {SOURCES[e.against][0]}"
        console.print(f"  [red]wrong[/]  {FUNCTIONS[e.function]}, {e.label}: {words}", soft_wrap=True)
    if study.missing:
        console.print(f"  [yellow]interrupted[/]: {len(study.missing)} of {len(study.missing) + len(study.entries)} methods not "
                      "measured; the written study is incomplete", soft_wrap=True)
    line(console, f"  {study.seconds:.0f} s in all; written to {folder}  (open {folder / 'report.html'})")


def _tables(study: Study) -> Iterator[tuple[str, Table]]:
    for function in study.functions:
        out = grid(HEADINGS[0], *(f">{title}" for title in HEADINGS[1:]))
        for e in study.of(function):
            if e.status != MEASURED and not e.idle:
                out.add_row(e.label, f"[{'red' if e.status == FAILED else 'yellow'}]{e.status}[/]")
            elif e.status == MEASURED:
                out.add_row(*cells(study, e), style="green" if study.execution(e) else "red" if e.wrong else None)
        yield FUNCTIONS[function], out


# ------------------------------------------------------------------------------------------------ the folder
def write(study: Study, folder: Path, model: Model, command: Sequence[str] = (), *, drawn: bool = True) -> None:
    """Fill a folder; drawn: with pictures."""
    (folder / "derivatives.csv").write_text(table_csv(study), encoding="utf-8", newline="")
    named = {p.function: p for p in study.picks}
    picks = [(study_title(f), SOURCES[named[f].source][0], named[f].execution, named[f].why) if f in named
             else (study_title(f), "nothing", "", undecided(study.of(f)) + ".") for f in study.functions]
    tables = [(study_title(f), study.references[f].sentence if f in study.references else "",
               [(e, cells(study, e), study.execution(e)) for e in study.of(f) if not e.idle]) for f in study.functions]
    with closing(LAST_PICTURE_S):
        pictures = plot_study(study) if drawn and not time_is_up(Activity.PICTURES) else {}
    write_report(folder, "derivatives.html.j2", summarise(study, model, command), pictures, CAPTIONS, picks=picks,
                 title=study.robot["name"], tables=tables, headings=HEADINGS, notes=left_out(study.entries),
                 sources=[SOURCES[name] for name in SOURCES if any(e.source == name for e in study.entries)])


def table_csv(study: Study) -> str:
    """All entries, one line each; first column: the robot. Empty: not measured."""
    reached = [*study.entries, *(Entry(f, s, "interrupted", "not reached") for f, s in study.missing)]
    return csv_text([["robot", *COLUMNS, "recommended"], *(
        [study.robot["name"], *("" if x is None else f"{x:.6g}" if isinstance(x, float) else x for x in dataclasses.astuple(e)),
         study.execution(e)] for e in reached)])


def summarise(study: Study, model: Model, command: Sequence[str]) -> dict[str, Any]:
    """The content of `summary.json`."""
    return jsonable({
        "format": FORMAT, "format_version": FORMAT_VERSION, "ok": study.ok, "complete": not study.missing,
        "verdict": verdict(study), "robot": study.robot, "settings": settings_record(study.settings), "seconds": study.seconds,
        "measured": sum(e.status == MEASURED for e in study.entries),
        "skipped": sum(e.status == SKIPPED and not e.idle for e in study.entries),
        "failed": sum(e.status == FAILED for e in study.entries),
        "references": {f: dataclasses.asdict(r) for f, r in study.references.items()},
        "recommended": [dataclasses.asdict(p) for p in study.picks], "notes": study.notes,
        "provenance": provenance(model, command or ["ocp.app.derivative_study.run.derivatives"], study.settings.seed),
    })
