"""What ``ocp verify`` shows: a line for each file, the scoreboard, and the totals."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from ocp.app.screen import grid, plain
from ocp.app.verify.records import FAIL, PASS, SKIPPED, Score, Scoreboard

COLOURS = {PASS: "green", FAIL: "red", SKIPPED: "yellow"}


def brief(score: Score) -> str:
    """A score on one line."""
    name = f"{score.file} {score.method}".strip()
    cost = "" if score.cost is None else f", cost {score.cost:.9g}"
    time = "" if score.seconds is None else f", {score.seconds:.2f} s"
    return f"{name}: {score.verdict}{cost}{time}{f' ({score.reason})' if score.reason else ''}"


def print_scoreboard(board: Scoreboard, folder: Path, out: Console) -> None:
    """The table, what failed and why, and the totals."""
    wide = out.width >= 110
    table = grid("  file", "method", ">cost", *([">reference"] if wide else []), ">difference", *([">allowed"] if wide else []),
                 "certificate", ">seconds", "")
    marks = {"holds": "[green]holds[/]", "simulated": "simulated", "": ""}
    for s in board.scores:
        if s.verdict == SKIPPED:
            continue
        close = s.difference is None or s.tolerance is None or s.difference <= s.tolerance
        cells = [f"  {plain(s.file)}", s.method, "" if s.cost is None else f"{s.cost:.9g}",
                 *([] if not wide else ["" if s.reference is None else f"{s.reference:.9g}"]),
                 "" if s.difference is None else f"{s.difference:.1e}" if close else f"[red]{s.difference:.1e}[/]",
                 *([] if not wide else ["" if s.tolerance is None else f"{s.tolerance:.0e}"]),
                 marks.get(s.certificate, f"[red]{plain(s.certificate)}[/]"),
                 "" if s.seconds is None else f"{s.seconds:.2f}", f"[{COLOURS[s.verdict]}]{s.verdict}[/]"]
        table.add_row(*cells)
    out.print()
    out.print(table)
    for s in board.scores:
        if s.verdict == FAIL:
            out.print(f"  [red]{plain(s.file)} {s.method} fails[/]: {plain(s.reason)}", soft_wrap=True)
    skipped: dict[str, list[str]] = {}
    for s in board.scores:
        if s.verdict == SKIPPED:
            skipped.setdefault(s.reason.partition(" (")[0], []).append(s.file)
    for reason, files in skipped.items():
        out.print(f"  [yellow]skipped[/] ({plain(reason)}): {plain(', '.join(files))}", soft_wrap=True)
    out.print(f"  [bold {'green' if board.ok else 'red'}]{board.sentence}[/]", soft_wrap=True)
    out.print(f"  written to  {folder / 'scoreboard.md'}", markup=False, soft_wrap=True)
