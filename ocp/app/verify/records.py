"""The scoreboard of a gallery: which files are solved, what came of each, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from ocp.app.files.syntax.kinds import kind_of
from ocp.app.files.syntax.yaml_source import read_source
from ocp.app.screen import grid, line, plain
from ocp.errors import ProblemError

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"


@dataclass(frozen=True)
class Score:
    """One file by one method. verdict: PASS, FAIL or SKIPPED, and ``reason`` why.

    cost, reference, difference, tolerance: None where there is none; difference is relative to the reference; certificate: "holds",
    "fails" or "none", of other commands their own word; seconds: of the whole, reading included; failure: what of the certificate
    fails first
    """

    file: str
    method: str
    verdict: str
    reason: str = ""
    cost: float | None = None
    reference: float | None = None
    difference: float | None = None
    tolerance: float | None = None
    certificate: str = ""
    iterations: int | None = None
    seconds: float | None = None
    failure: str = ""


@dataclass(frozen=True)
class Scoreboard:
    """All scores so far; ``total`` is how many there are to be; complete: whether all were reached."""

    scores: tuple[Score, ...]
    total: int

    def count(self, verdict: str) -> int:
        """Number of results with this verdict."""
        return sum(score.verdict == verdict for score in self.scores)

    @property
    def complete(self) -> bool:
        """Whether every file was reached."""
        return len(self.scores) >= self.total

    @property
    def ok(self) -> bool:
        """Whether everything was reached, nothing failed and something passed."""
        return self.complete and self.count(FAIL) == 0 and self.count(PASS) > 0

    @property
    def seconds(self) -> float:
        """Total time [s]."""
        return sum(score.seconds or 0.0 for score in self.scores)

    @property
    def sentence(self) -> str:
        """Totals in words."""
        judged = self.count(PASS) + self.count(FAIL)
        words = f"{self.count(PASS)} of {judged} pass"
        words += f", {self.count(FAIL)} fail" if self.count(FAIL) else ""
        words += f", {self.count(SKIPPED)} skipped" if self.count(SKIPPED) else ""
        words += "" if self.complete else f"; interrupted, {self.total - len(self.scores)} not reached"
        return f"{words}; {self.seconds:.1f} s in all"


def gather(paths: Sequence[Path]) -> tuple[Path, ...]:
    """All YAML files at these paths, folders searched whole, in order and each once.

    Raises ProblemError for paths that do not exist and for folders without any.
    """
    found: dict[Path, None] = {}
    for place in paths:
        if place.is_dir():
            inside = sorted(p for p in place.rglob("*.yaml") if p.is_file())
            if not inside:
                raise ProblemError("holds no .yaml file", where=str(place))
            # those of the folder itself before those of folders in it
            found |= dict.fromkeys(sorted(inside, key=lambda p: (len(p.relative_to(place).parts), p)))
        elif place.is_file():
            found[place] = None
        else:
            raise ProblemError("there is no such file or folder; name problem files, or the folder of a gallery", where=str(place))
    return tuple(found)


NEEDS_ROBOTS = "needs the robots extra"


def not_a_problem(path: Path) -> str:
    """Why a file is not one for ``ocp verify``, in a few words; empty where it is."""
    tree = _tree(path)
    if kind_of(tree) == "ik":
        return "inverse kinematics: ocp ik"
    if kind_of(tree) == "wbc":
        return "whole-body control: ocp wbc"
    if isinstance(tree, dict) and "mpc" in tree:
        return "closed loop: ocp mpc"
    if "robots:" in str(tree) and not _has_robots():
        return NEEDS_ROBOTS
    return ""


def expects(path: Path) -> bool:
    """Whether a file says what must come of simulations."""
    tree = _tree(path)
    given = tree.get("simulate") if isinstance(tree, dict) else None
    return isinstance(given, dict) and bool(given.get("expect"))


def is_wbc(path: Path) -> bool:
    """Whether a file is one of whole-body control."""
    return kind_of(_tree(path)) == "wbc"


def _tree(path: Path) -> Any:
    """The file's claims; nothing where it cannot be read: its errors are reported when it is loaded."""
    try:
        return read_source(path).tree
    except ProblemError:
        return {}


def _has_robots() -> bool:
    try:
        metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        return False
    return True


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
    line(out, f"  written to  {folder / 'scoreboard.md'}")
