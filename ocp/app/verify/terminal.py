"""What ``ocp verify`` shows: the scoreboard as it grows, and the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ocp.app.verify.records import FAIL, PASS, SKIPPED, Score, Scoreboard

COLOURS = {PASS: "green", FAIL: "red", SKIPPED: "yellow"}


class Shown:
    """What ``running`` yields: told when a file begins and ends, and of its iterations."""

    def begin(self, k: int, file: str, method: str | None) -> None:
        """A file is taken up."""

    def say(self, words: str) -> None:
        """Something that takes a while before it."""

    def iteration(self, row: Mapping[str, Any]) -> None:
        """A row of its iteration log."""

    def end(self, score: Score) -> None:
        """Its score."""


@contextmanager
def running(console: Console, total: int, *, quiet: bool = False) -> Iterator[Shown]:
    """A bar on a terminal; elsewhere a line for each file."""
    if quiet:
        yield Shown()
        return
    if not console.is_terminal:
        class Lines(Shown):
            done = 0

            def say(self, words: str) -> None:
                console.print(words, markup=False, soft_wrap=True)

            def end(self, score: Score) -> None:
                self.done += 1
                console.print(f"[{self.done}/{total}] {brief(score)}", markup=False, soft_wrap=True)

        yield Lines()
        return
    with Progress(TextColumn("  {task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
                  console=console, transient=True) as bar:
        task = bar.add_task("starting", total=total)

        class Bar(Shown):
            file = ""

            def begin(self, k: int, file: str, method: str | None) -> None:
                self.file = f"{file} {method}" if method else file
                bar.update(task, completed=k, description=_plain(self.file))

            def say(self, words: str) -> None:
                bar.update(task, description=_plain(words))

            def iteration(self, row: Mapping[str, Any]) -> None:
                bar.update(task, description=_plain(f"{self.file}: iteration {int(row.get('iteration', 0))}"))

            def end(self, score: Score) -> None:
                if score.verdict == FAIL:  # what fails is told at once
                    bar.console.print(Text.assemble("  ", (score.verdict, "red"), f"  {brief(score)}"), soft_wrap=True)

        yield Bar()


def brief(score: Score) -> str:
    """A score on one line."""
    name = f"{score.file} {score.method}".strip()
    cost = "" if score.cost is None else f", cost {score.cost:.9g}"
    time = "" if score.seconds is None else f", {score.seconds:.2f} s"
    return f"{name}: {score.verdict}{cost}{time}{f' ({score.reason})' if score.reason else ''}"


def print_scoreboard(board: Scoreboard, folder: Path, out: Console) -> None:
    """The table, what failed and why, and the totals."""
    wide = out.width >= 110
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    heads = [("  file", "left"), ("method", "left"), ("cost", "right"), ("reference", "right"), ("difference", "right"),
             ("allowed", "right"), ("certificate", "left"), ("seconds", "right"), ("", "left")]
    for title, how in heads:
        if wide or title not in ("reference", "allowed"):
            table.add_column(title, justify=how, no_wrap=True)  # type: ignore[arg-type]
    for s in board.scores:
        if s.verdict == SKIPPED:
            continue
        close = s.difference is None or s.tolerance is None or s.difference <= s.tolerance
        cells = [f"  {_plain(s.file)}", s.method, "" if s.cost is None else f"{s.cost:.9g}",
                 *([] if not wide else ["" if s.reference is None else f"{s.reference:.9g}"]),
                 "" if s.difference is None else f"{s.difference:.1e}" if close else f"[red]{s.difference:.1e}[/]",
                 *([] if not wide else ["" if s.tolerance is None else f"{s.tolerance:.0e}"]),
                 "[green]holds[/]" if s.certificate == "holds" else f"[red]{_plain(s.certificate.partition(':')[0])}[/]",
                 "" if s.seconds is None else f"{s.seconds:.2f}", f"[{COLOURS[s.verdict]}]{s.verdict}[/]"]
        table.add_row(*cells)
    out.print()
    out.print(table)
    for s in board.scores:
        if s.verdict == FAIL:
            out.print(f"  [red]{_plain(s.file)} {s.method} fails[/]: {_plain(s.reason)}", soft_wrap=True)
    skipped: dict[str, list[str]] = {}
    for s in board.scores:
        if s.verdict == SKIPPED:
            skipped.setdefault(s.reason.partition(" (")[0], []).append(s.file)
    for reason, files in skipped.items():
        out.print(f"  [yellow]skipped[/] ({_plain(reason)}): {_plain(', '.join(files))}", soft_wrap=True)
    out.print(f"  [bold {'green' if board.ok else 'red'}]{board.sentence}[/]", soft_wrap=True)
    out.print(f"  written to  {folder / 'scoreboard.md'}", markup=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Text that rich must not take for markup."""
    return text.replace("[", r"\[")
