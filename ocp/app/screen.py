"""Terminal output that commands share: consoles, tables, and a progress line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from dynamics.model.model import Model

#: characters a line may have where the output is no terminal, so that nothing is cut off in files and pipes
WIDE = 140
#: seconds between two lines of progress where there is no terminal
EVERY = 3.0
Say = Callable[[str], Any]


def wide_console() -> Console:
    """A console as wide as the terminal, and wide where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)


def grid(*headings: str, rows: Iterable[Sequence[str]] = (), pad: int = 1, folded: str | None = None) -> Table:
    """A table without lines. Columns whose heading begins with ``>`` stand at the right; all but ``folded`` keep to one line."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, pad))
    for heading in headings:
        title = heading.removeprefix(">")
        table.add_column(title, justify="right" if heading.startswith(">") else "left", no_wrap=title != folded)
    for row in rows:
        table.add_row(*row)
    return table


def say_robot(out: Console, model: Model, more: str = "", notes: Sequence[str] = ()) -> None:
    """The summary of a robot in ``ocp check``."""
    out.print(f"  robot {model.name}: nq = {model.nq}, nv = {model.nv}, {model.mass:.6g} kg{more}", markup=False)
    for note in (*model.notes, *notes):
        out.print(f"  note: {note}", markup=False, soft_wrap=True)


def say_where(out: Console, folder: Path | None, page: str = "report.html") -> None:
    """Where the results are, if they are written."""
    if folder is not None:
        out.print(f"  written to  {folder}  (open {folder / page})", soft_wrap=True, markup=False)


def line(out: Console, text: str, style: str | None = None) -> None:
    """Words as they stand, on one line however long."""
    out.print(text, style=style, markup=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text that rich must not take for markup."""
    return text.replace("[", r"\[")


@contextmanager
def busy(console: Console, *, quiet: bool = False, every: float = EVERY) -> Iterator[Say]:
    """A line on a terminal that says what is being done and for how long; elsewhere a line of its own every few seconds, on
    stderr."""
    begin = time.perf_counter()
    if quiet:
        yield lambda words: None
    elif console.is_terminal:
        columns = (SpinnerColumn(), TextColumn("{task.description}", "dim", markup=False), TimeElapsedColumn(),
                   TextColumn("Ctrl-C ends it", "dim"))
        with RichProgress(*columns, console=console, transient=True) as line:
            task = line.add_task("")
            yield lambda words: line.update(task, description=words)
    else:
        last = [begin]

        def plainly(text: str) -> None:
            now = time.perf_counter()
            if now - last[0] > every:
                last[0] = now
                print(f"  {now - begin:.0f} s: {text}", file=sys.stderr, flush=True)

        yield plainly


def counting(say: Say, text: str) -> Callable[[Mapping[str, Any]], None]:
    """Progress of a solve as a count of its iterations."""
    return lambda row: say(f"{text}: iteration {int(row.get('iteration', 0))}")


def brief_seconds(value: float | None) -> str:
    """A time [s] for a table: milliseconds below a second; nothing for None."""
    if value is None:
        return ""
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.2f} s" if value < 100 else f"{value:.0f} s"
