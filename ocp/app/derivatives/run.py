"""``ocp derivatives``: measure, write the folder, print.

The folder holds ``derivatives.csv`` and ``derivatives.json`` (all entries), ``times.png``, ``errors.png``, ``sparsity.png``,
``report.html`` and ``summary.json`` (verdict, recommendations, provenance).
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from dynamics.model.model import Model
from ocp.app.derivatives import terminal
from ocp.app.derivatives.builder import thousands
from ocp.app.derivatives.figures import plot_study, study_title, trivial
from ocp.app.derivatives.recommend import duration, undecided
from ocp.app.derivatives.records import DIFFERENCES, FAILED, FUNCTIONS, MEASURED, SKIPPED, SOURCES, Entry, Study
from ocp.app.derivatives.study import Settings, chosen, run_study
from ocp.app.derivatives.target import find_target
from ocp.app.pages.csv_text import csv_text
from ocp.app.pages.folders import jsonable, new_folder, write_summary
from ocp.app.pages.report import environment
from ocp.app.pipeline import provenance

FORMAT, FORMAT_VERSION = "lieocp derivatives", 1
AGREE, DISAGREE = 0, 1
CAPTIONS = {
    "times": ("Time per evaluation", "One evaluation, on a logarithmic axis. Filled: compiled. Ring: interpreted by CasADi. "
              "★: recommended."),
    "errors": ("Errors", "Largest difference from the reference (open diamond, at its distance from the way that confirms it), "
               "relative to max(1, largest entry), over outputs and samples. Shaded: no longer exact."),
    "sparsity": ("Sparsity", "Dark: not zero at the samples. Light: allowed by the structure of the closed form, yet zero at every "
                 "sample. White: always zero, because no way in the tree joins the two, or by symmetry."),
}


def derivatives(
    robot: str, *, root: str | None = None, mimic: str | None = None, functions: Sequence[str] | None = None,
    sources: Sequence[str] | None = None, compiling: str = "auto", seed: int = 0, samples: int = 3, out: Path | None = None,
    overwrite: bool = False, quick: bool = False, quiet: bool = False, command: Sequence[str] = (), console: Console | None = None,
) -> int:
    """Measure every way to the derivatives of a robot's dynamics, write the folder, print the table; returns the exit code.

    robot: a .urdf or .xml file, a name of the ``robots`` extra, or a problem file; the other arguments as on the command line.
    0: everything was measured and agrees; 1: a way is wrong or failed, or the work was interrupted. Raises ProblemError and
    ModelError for what the user got wrong, before anything is measured; KeyboardInterrupt if nothing was measured.
    """
    settings = Settings(chosen(functions), chosen(sources), compiling, seed, samples, quick)
    target = find_target(robot, root=root, mimic=mimic)
    place, replace_it = out or Path("results") / "derivatives" / target.name, overwrite or out is None
    screen = console or Console(highlight=False)
    with new_folder(place, replace_it, FORMAT) as partial:  # first, so that nobody measures for a folder that cannot be written
        with terminal.progress_line(screen, quiet=quiet) as progress:
            study = run_study(target, settings, progress)
        if not study.entries:
            raise KeyboardInterrupt
        write(study, partial, target.model, command)
    terminal.print_study(study, place, screen, quiet=quiet)
    return AGREE if study.ok else DISAGREE


# ------------------------------------------------------------------------------------------------ the folder
def write(study: Study, folder: Path, model: Model, command: Sequence[str] = ()) -> None:
    """Fill an empty folder."""
    images, summary = plot_study(study), summarise(study, model, command)
    for name, data in images.items():
        (folder / f"{name}.png").write_bytes(data)
    (folder / "derivatives.csv").write_text(table_csv(study), encoding="utf-8", newline="")
    text = json.dumps(jsonable(records(study)), indent=1, allow_nan=False, ensure_ascii=False)
    (folder / "derivatives.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.html").write_text(render(study, summary, images), encoding="utf-8")
    write_summary(folder, summary)


COLUMNS = tuple(f.name for f in dataclasses.fields(Entry))


def table_csv(study: Study) -> str:
    """All entries, one line each; first column: the robot. Notes are joined by semicolons; empty: not measured."""
    rows: list[list[Any]] = [["robot", *COLUMNS, "recommended"]]
    picked = {(p.function, p.source): p.execution for p in study.picks}
    for e in study.entries:
        row = [getattr(e, name) for name in COLUMNS[:-1]]
        cells = ["" if x is None else f"{x:.6g}" if isinstance(x, float) else x for x in row]
        rows.append([study.robot["name"], *cells, "; ".join(e.notes), picked.get((e.function, e.source), "")])
    for function, source in study.missing:
        blank = ["interrupted" if name == "status" else "not reached" if name == "reason" else "" for name in COLUMNS[2:]]
        rows.append([study.robot["name"], function, source, *blank, ""])
    return csv_text(rows)


def records(study: Study) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    return {
        "robot": study.robot, "settings": study.settings, "complete": study.complete,
        "entries": [dataclasses.asdict(e) for e in study.entries],
        "missing": [{"function": f, "source": s} for f, s in study.missing],
        "references": {f: dataclasses.asdict(r) for f, r in study.references.items()},
        "recommended": [dataclasses.asdict(p) for p in study.picks],
        "patterns": [{"title": p.title, "names": p.rows, "marks": p.marks, "note": p.note} for p in study.patterns],
    }


def verdict(study: Study) -> str:
    """How it ended, in one or two sentences."""
    exact = [e for e in study.entries if e.error is not None and e.right and e.limit < DIFFERENCES]
    words = []
    if study.wrong:
        named = ", ".join(f"{SOURCES[e.source].label} ({FUNCTIONS[e.function]})" for e in study.wrong[:4])
        words.append(f"{len(study.wrong)} wrong or failed: {named}{', …' if len(study.wrong) > 4 else ''}.")
    elif exact:
        worst = max(exact, key=lambda e: e.error or 0.0)
        words.append(_true_minus(f"Every exact way agrees; the largest error is {worst.error:.1e} ({worst.label}, "
                                 f"{FUNCTIONS[worst.function]}), where {worst.limit:.0e} is rounding."))
    lonely = [FUNCTIONS[f] for f in study.functions if f in study.references and not any(e.function == f for e in exact)]
    if lonely and not study.wrong:
        words.append(f"Not confirmed by a second exact way: {'; '.join(lonely)}.")
    if not study.complete:
        words.append(f"Interrupted: {len(study.missing)} of {len(study.missing) + len(study.entries)} ways were not reached.")
    return " ".join(words) or "Nothing could be compared."


def summarise(study: Study, model: Model, command: Sequence[str]) -> dict[str, Any]:
    measured = [e for e in study.entries if e.status == MEASURED]
    plain = jsonable({
        "format": FORMAT, "format_version": FORMAT_VERSION, "ok": study.ok, "complete": study.complete, "verdict": verdict(study),
        "robot": study.robot, "settings": study.settings, "seconds": study.seconds, "measured": len(measured),
        "skipped": sum(e.status == SKIPPED and not trivial(e) for e in study.entries),
        "failed": sum(e.status == FAILED for e in study.entries),
        "recommended": [dataclasses.asdict(p) for p in study.picks], "notes": study.notes,
        "provenance": provenance(model, command or ["ocp.app.derivatives.run.derivatives"], study.settings["seed"]),
    })
    assert isinstance(plain, dict)
    return plain


# ------------------------------------------------------------------------------------------------ the page
def render(study: Study, summary: Mapping[str, Any], images: Mapping[str, bytes]) -> str:
    """The report as one page that needs no network and no other file."""
    picks = [{"function": study_title(p.function), "take": SOURCES[p.source].label,
              "execution": "" if p.execution == "loop" else p.execution, "time": duration(p.microseconds), "why": p.why,
              "in_graph": p.in_graph} for p in study.picks]
    named = {p.function for p in study.picks}
    nothing = [(study_title(f), undecided(f, study.of(f))) for f in study.functions if f not in named]
    tables = [{
        "name": f, "title": study_title(f), "rows": [_cells(study, e) for e in study.of(f) if not trivial(e)],
        "reference": _true_minus(study.references[f].sentence) if f in study.references else "",
        "absent": terminal.left_out([e for e in study.of(f) if trivial(e)], named=False)} for f in study.functions]
    figures = [(name, *CAPTIONS[name], base64.b64encode(data).decode("ascii")) for name, data in images.items()]
    return str(environment().get_template("derivatives.html.j2").render(
        s=summary, picks=picks, nothing=nothing, tables=tables, figures={f[0]: f for f in figures},
        notes=terminal.left_out([e for e in study.entries if not trivial(e)]),
        sources=[(s.label, s.meaning) for name, s in SOURCES.items() if any(e.source == name for e in study.entries)],
        facts=list(summary["provenance"].items())))


def _true_minus(text: str) -> str:
    return text.replace("e-", "e\u2212")


def _cells(study: Study, e: Entry) -> dict[str, Any]:
    reference = study.references.get(e.function)
    own = reference is not None and reference.source == e.source
    picked = {(p.function, p.source): p.execution for p in study.picks}.get((e.function, e.source), "")
    return {
        "source": e.label, "measured": e.status == MEASURED, "status": e.status, "reason": e.reason, "right": e.right is not False,
        "error": "reference" if own and e.right else "" if e.error is None else f"{e.error:.0e}".replace("-", "−"),
        "instructions": "" if e.instructions is None else thousands(e.instructions),
        "nonzeros": "" if e.nonzeros is None else thousands(e.nonzeros),
        "build": terminal.seconds(e.build_s), "compile": terminal.seconds(e.compile_s),
        "interpreted": "" if e.interpreted_us is None else duration(e.interpreted_us),
        "compiled": "not compiled" if e.compiled_us is None else duration(e.compiled_us), "by": e.compiled_by,
        "work": terminal.size(e.work_bytes), "library": terminal.size(e.library_bytes), "result": terminal.size(e.result_bytes),
        "pick": picked, "notes": e.notes,
    }
