"""The iteration table: which columns a method shows, and the live table on the terminal.

Rows say more than numbers: those of Newton's method are marked ``newton``, the first after an update of the multipliers
``outer 3`` with the number of the update, the first of another attempt ``attempt 2``. The last line is the certificate.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from ocp.problem.solution import Solution

HEADER_EVERY = 20
LIVE_ROWS = 16
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column: the key in the iteration log, its heading, a format, and what the number is.

    role: ``count``, ``objective``, ``residual`` (should go to zero; plotted on a logarithmic axis), ``step`` (a length
    or a fraction), ``weight`` (regularisation, barrier) or ``other``; scale: factor of the number; with_: a key
    whose presence shows this column even before it has a value.
    """

    key: str
    title: str
    format: str = ".3e"
    role: str = "other"
    scale: float = 1.0
    with_: str = ""


_COUNT = (Column("iteration", "iter", "d", "count"),)
_COLLOCATION = (
    Column("objective", "objective", ".8e", "objective"),
    Column("inf_pr", "inf_pr", ".2e", "residual"), Column("inf_du", "inf_du", ".2e", "residual"),
    Column("mu", "mu", ".1e", "weight"), Column("log10_mu", "lg(mu)", ".1f", "other"),
    Column("step", "step", ".2e", "step"), Column("d_norm", "||d||", ".2e", "step"),
    Column("regularisation", "reg", ".1e", "weight"), Column("regularization", "reg", ".1e", "weight"),
    Column("alpha_du", "alpha_du", ".2e", "step"), Column("alpha_pr", "alpha_pr", ".2e", "step"),
    Column("ls_trials", "ls", "d", "count"), Column("seconds", "t [s]", ".3f", "other"),
)
_ILQR = (
    Column("cost", "cost", ".8e", "objective"), Column("objective", "objective", ".8e", "objective"),
    Column("expected", "expected", ".2e", "residual", with_="trials"), Column("gradient", "gradient", ".2e", "residual"),
    Column("violation", "violation", ".2e", "residual"), Column("gap", "gap", ".2e", "residual"),
    Column("penalty", "penalty", ".1e", "weight"), Column("step", "step", ".3g", "step"),
    Column("regularisation", "reg", ".1e", "weight"), Column("trials", "trials", "d", "count"),
    Column("seconds", "time [ms]", ".1f", "other", scale=1e3),
)
MARK = Column("mark", "", "s")
_MARKING = ("newton", "outer", "attempt", MARK.key)  # shown as words, not as numbers
_MIN_TELLING = ("trials", "regularisation", "expected", "penalty", "seconds")
_WHERE_MEANT = ("violation", "gap")  # Newton's method measures them for every problem
COLUMNS: Mapping[str, tuple[Column, ...]] = {"collocation": _COUNT + _COLLOCATION, "multiple_shooting": _COUNT + _COLLOCATION,
                                                 "ilqr": _COUNT + _ILQR, "adjoint": _COUNT + _ILQR}


def columns(method: str, rows: Sequence[Row]) -> tuple[Column, ...]:
    """The columns for these rows: those the method names, in its order, then every other key, so that nothing is lost; last the
    marks, if there are any (see :func:`highlighted`)."""
    known_columns = COLUMNS.get(method, _COUNT)
    own = [row for row in rows if not row.get("newton")] or rows
    found = dict.fromkeys(key for row in own for key in row)
    found |= dict.fromkeys(key for row in rows for key in row if key not in _WHERE_MEANT)
    known = [c for c in known_columns if c.key in found or c.with_ in found]
    rest = [Column(key, key, ".3g") for key in found if key not in {c.key for c in known} and key not in _MARKING]
    return (*known, *rest, *((MARK,) if MARK.key in found else ()))


def mark(row: Row, before: Row | None) -> str:
    """The kind of a row, in a word, after the row ``before`` it; mostly nothing."""
    if row.get("newton"):
        return "newton"
    attempt = row.get("attempt", 1)
    if before is not None and attempt > before.get("attempt", 1):
        return f"attempt {int(attempt)}"
    outer, last = row.get("outer"), None if before is None else before.get("outer")
    return f"outer {int(outer)}" if outer is not None and last is not None and outer > last else ""


def highlighted(rows: Sequence[Row]) -> list[Row]:
    """The rows, those that have a mark with it."""
    found = [mark(row, before) for row, before in zip(rows, (None, *rows), strict=False)]
    return [{**row, MARK.key: word} if word else row for row, word in zip(rows, found, strict=True)]


def certificate_line(solution: Solution) -> str:
    """The certificate of a solution on one line: its largest values, and whether it holds."""
    certificate = solution.certificate
    if certificate is None:
        return "certificate: none"
    short = {"stationarity": "gradient", "complementarity": "compl.", "gap_segment": "gap", "error_estimate": "error",
             "energy": "energy"}
    checks = [(word, getattr(certificate, key)) for key, word in short.items()]
    parts = [f"{word} {check.value:.1e}" for word, check in checks if check is not None]
    worst = max((v.at_knots for v in certificate.violations if not v.soft), default=None)
    parts.insert(1, f"violation {worst:.1e}") if worst is not None else None
    return f"certificate {'holds' if certificate.holds else 'fails'}: {', '.join(parts)}"


def cell(column: Column, row: Row) -> str:
    """One number as text; empty where the record lacks it."""
    value = row.get(column.key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    number = float(value) * column.scale
    if column.format.endswith("d"):
        return str(int(number)) if number == number and abs(number) != float("inf") else str(number)
    return format(number, column.format)


def width(column: Column) -> int:
    """Characters that the column needs, for the longest number its format writes."""
    if column is MARK:
        return 0
    samples = (-123,) if column.format.endswith("d") else (-1.2345678e-10, -1234.5)
    return max(len(column.title), min(max(len(format(v, column.format)) for v in samples), 16), 5)


class Shown:
    """The object that ``iteration_table`` yields: called with each row, and with the solution at the end (``finish``)."""

    def __call__(self, row: Row) -> None:
        """Show a row."""

    def finish(self, solution: Solution) -> None:
        """Show the certificate."""


@contextmanager
def iteration_table(method: str, *, quiet: bool = False, stream: TextIO | None = None, live: bool | None = None) -> Iterator[Shown]:
    """A callable that shows one iteration each time it is called; hand it to a method as ``progress``.

    On a terminal the last rows are shown in place; elsewhere one plain line per iteration is written, with the header
    repeated every 20 lines. ``live`` forces either; ``quiet`` shows nothing.

    >>> with iteration_table("ilqr", quiet=True) as show:
    ...     show({"iteration": 0, "cost": 1.0})
    """
    out = sys.stdout if stream is None else stream
    if quiet:
        yield Shown()
    elif live if live is not None else bool(getattr(out, "isatty", lambda: False)()):
        with _live(method, out) as show:
            yield show
    else:
        yield _Plain(method, out)


class _Plain(Shown):
    """Lines of text."""

    def __init__(self, method: str, out: TextIO):
        self.method, self.out = method, out
        self.shown: tuple[Column, ...] = ()
        self.before: Row | None = None
        self.count = 0

    def __call__(self, row: Row) -> None:
        new = columns(self.method, [*((dict.fromkeys(c.key for c in self.shown),) if self.shown else ()), row])
        if new != self.shown or self.count % HEADER_EVERY == 0:
            self.shown, self.count = new, 0
            self.out.write("  ".join(c.title.rjust(width(c)) for c in new) + "\n")
        word = mark(row, self.before)
        line = "  ".join(cell(c, row).rjust(width(c)) for c in new)
        self.out.write(f"{line}  {word}\n" if word else f"{line}\n")
        self.out.flush()
        self.count, self.before = self.count + 1, row

    def finish(self, solution: Solution) -> None:
        self.out.write(certificate_line(solution) + "\n")
        self.out.flush()


def fitting(chosen: Sequence[Column], columns_left: int) -> tuple[Column, ...]:
    """The columns that fit into ``columns_left`` characters; where that is too little, the least telling go first."""
    left = list(chosen)
    for key in _MIN_TELLING:
        if sum(width(c) if c is not MARK else len("outer 10") for c in left) + 2 * (len(left) - 1) <= columns_left:
            break
        left = [c for c in left if c.key != key]
    return tuple(left)


@contextmanager
def _live(method: str, out: TextIO) -> Iterator[Shown]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    began = time.perf_counter()

    class Display(Shown):
        """The last rows. The display runs in a thread of its own: it reads a tuple that is replaced whole, never one that grows."""

        def __init__(self) -> None:
            self.rows: tuple[Row, ...] = ()
            self.known: dict[str, Any] = {}  # keys of all rows: a column stays when its last value has scrolled away
            self.before: Row | None = None
            self.total, self.last = 0, ""

        def __call__(self, row: Row) -> None:
            word = mark(row, self.before)
            if not row.get("newton"):
                self.known = {**self.known, **dict.fromkeys(row)}
            self.rows = (*self.rows, {**row, MARK.key: word} if word else dict(row))[-LIVE_ROWS:]
            self.total, self.before = self.total + 1, row

        def finish(self, solution: Solution) -> None:
            self.last = certificate_line(solution)

        def render(self) -> Group:
            rows = self.rows
            chosen = fitting(columns(method, [*((self.known,) if self.known else ()), *rows]), console.width)
            words = self.last or f"{method}: {self.total} iterations, {time.perf_counter() - began:.1f} s"
            table = Table(box=None, pad_edge=False, header_style="bold")
            for c in chosen:
                table.add_column(Text(c.title), justify="left" if c is MARK else "right", no_wrap=True,
                                 style={"objective": "bold", "residual": "cyan"}.get(c.role, ""))
            for row in rows:
                table.add_row(*(Text(cell(c, row)) for c in chosen), style="magenta" if row.get(MARK.key) else "")
            return Group(table, Text(words, "" if self.last else "dim"))

    show = Display()
    console = Console(file=out, highlight=False)
    with Live(console=console, get_renderable=show.render, refresh_per_second=8) as live:
        try:
            yield show
        finally:
            live.refresh()
