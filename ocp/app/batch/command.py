"""Options of a sweep on the command line, beside the section of the file; how it tells its progress and its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Printed

from dynamics.errors import near
from ocp.app.batch.plan import axis_of, cases, read_axis, table_of
from ocp.app.batch.run import AUTO, KEEP, Sweep, Table, axes_of_starts, local_optima, told_search
from ocp.app.batch.schedule import Tell
from ocp.app.batch.work import START
from ocp.app.files.problem.sections_schema import Sweep as Section
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.overrides import apply_overrides
from ocp.app.files.syntax.yaml_source import read_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.errors import ProblemError

#: lines of the table that the terminal shows
SHOWN = 12


@dataclass(frozen=True)
class Asked:
    """Settings that override the section ``sweep`` of the file."""

    over: tuple[str, ...] = ()
    table: Path | None = None
    design: str | None = None
    samples: int | None = None
    seed: int | None = None
    starts: int | str | None = None
    keep: str | None = None


def prepared(file: Path, overrides: Mapping[str, str], asked: Asked) -> Sweep:
    """The sweep of a file. Raises ProblemError for what cannot be varied, with near misses."""
    source = apply_overrides(read_source(file), overrides)
    tree = dict(source.tree) if isinstance(source.tree, dict) else {}
    section, findings = tree.pop("sweep", None) or {}, Findings(source)
    try:
        Section.model_validate(section)
    except ValidationError as error:
        for one in error.errors():
            at = ("sweep", *(key for key in one["loc"] if isinstance(key, (str, int))))
            keys = near(str(at[-1]), Section.model_fields) if one["type"] == "extra_forbidden" else ""
            findings.add(at, f"{one['msg']}{keys}")
        findings.raise_any()

    def option(name: str, otherwise: Any) -> Any:
        given = getattr(asked, name)
        return section.get(name, otherwise) if given is None else given

    table = asked.table or (None if asked.over or "table" not in section else file.parent / section["table"])
    axes = [read_axis(words) for words in asked.over]
    for path, own in () if axes else section.get("over", {}).items():
        with findings.collecting(("sweep", "over", path)):
            axes.append(axis_of(path, own))
    findings.raise_any()
    starts = option("starts", 1)
    if table is not None:
        if starts == AUTO:
            raise ProblemError(f"{AUTO} applies to a single problem; with a table give a number of starts", where="--starts")
        if axes:
            raise ProblemError("give either --table or --over", where="--table")
        paths, rows = table_of(table)
        rows = [(*row, k) for row in rows for k in range(starts)] if starts > 1 else rows
        paths = (*paths, START) if starts > 1 else paths
    else:
        axes = list(axes_of_starts(axes, starts))
        if not axes:
            raise ProblemError("nothing is varied: --over path=a:b:n, --table FILE, --starts N, or a section sweep in the file",
                               where=str(file))
        paths = tuple(axis.path for axis in axes)
        rows = cases(axes, option("design", "grid"), int(option("samples", 0)), int(option("seed", 0)))
    keep = option("keep", "none")
    if keep not in KEEP:
        raise ProblemError(f"keeps none, all, failed or best; got {keep!r}{near(str(keep), KEEP)}", where="--keep")
    return Sweep(dump(tree), str(file.parent.resolve()), file.name, paths, tuple(rows), keep, search=starts == AUTO)


@contextmanager
def progress_bar(count: int, quiet: bool, word: str = "certified") -> Iterator[Tell | None]:
    """One progress bar for all cases, on standard error; word: the label of successful cases."""
    if quiet:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("cases", total=count)
        yield lambda done, certified, total: bar.update(task, completed=done, total=total, description=f"{certified} {word}")


def print_table(found: Table, sweep: Sweep) -> None:
    """The first rows, how many are certified, the best, and local optima of a multi-start."""
    console = Console(highlight=False)
    shown = [*sweep.paths, "status", "objective", "by"]
    printed = Printed(*shown, box=None)
    for row in found.rows[:SHOWN]:
        printed.add_row(*(_text(row[name]) for name in shown))
    console.print(printed)
    if len(found) > SHOWN:
        console.print(f"... {len(found) - SHOWN} more")
    good = sum(bool(row["ok"]) for row in found.rows)
    console.print(f"{good} of {len(found)} cases certified")
    for row in [row for row in found.rows if not row["ok"]][:3]:
        console.print(f"  case {row['case']}: {shorten(row['message'], 200, placeholder=' ...')}", markup=False)
    best = found.best()
    if best is not None:
        console.print(f"best: case {best['case']}, objective {best['objective']:.8g}")
    if START in sweep.paths:
        for one in local_optima(found.rows):
            console.print(f"  optimum {one['objective']:.8g}: {one['starts']} starts, the first in case {one['case']}")
    if sweep.search:
        console.print("  " + told_search(found.rows))
    if found.folder is not None:
        kept = ", runs" if (found.folder / "runs").exists() else ""
        console.print(f"written to {found.folder}: cases.csv{kept}; ocp report {found.folder}", markup=False)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
