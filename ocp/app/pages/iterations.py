"""The iteration table: which columns a method shows, and the live table on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

HEADER_EVERY = 20
LIVE_ROWS = 16
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column: the key in the iteration log, its heading, a format, and what the number is.

    role: ``count``, ``objective``, ``residual`` (should go to zero; plotted on a logarithmic axis), ``step`` (a length
    or a fraction), ``weight`` (regularisation, barrier) or ``other``.
    """

    key: str
    title: str
    format: str = ".3e"
    role: str = "other"


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
    Column("expected", "expected", ".2e", "residual"), Column("gradient", "gradient", ".2e", "residual"),
    Column("violation", "violation", ".2e", "residual"), Column("gap", "gap", ".2e", "residual"),
    Column("step", "step", ".3g", "step"), Column("regularisation", "reg", ".1e", "weight"),
    Column("penalty", "penalty", ".1e", "weight"), Column("trials", "trials", "d", "count"),
    Column("seconds", "t [s]", ".3f", "other"),
)
COLUMNS: Mapping[str, tuple[Column, ...]] = {"collocation": _COUNT + _COLLOCATION, "ilqr": _COUNT + _ILQR}


def columns(method: str, rows: Sequence[Row]) -> tuple[Column, ...]:
    """The columns for these rows: those the method names, in its order, then every other key, so that nothing is lost."""
    found = dict.fromkeys(key for row in rows for key in row)
    known = [c for c in COLUMNS.get(method, _COUNT) if c.key in found]
    rest = [Column(key, key, ".3g") for key in found if key not in {c.key for c in known}]
    return tuple(known + rest)


def cell(column: Column, row: Row) -> str:
    """One number as text; empty where the row lacks it."""
    value = row.get(column.key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    number = float(value)
    if column.format.endswith("d"):
        return str(int(number)) if number == number and abs(number) != float("inf") else str(number)
    return format(number, column.format)


def width(column: Column) -> int:
    """Characters that the column needs, for the longest number its format writes."""
    samples = (-123,) if column.format.endswith("d") else (-1.2345678e-10, -1234.5)
    return max(len(column.title), min(max(len(format(v, column.format)) for v in samples), 16), 5)


@contextmanager
def iteration_table(method: str, *, quiet: bool = False, stream: TextIO | None = None,
                    live: bool | None = None) -> Iterator[Callable[[Row], None]]:
    """A callable that shows one iteration each time it is called; hand it to a method as ``progress``.

    On a terminal the last rows are shown in place; elsewhere one plain line per iteration is written, with the header
    repeated every 20 lines. ``live`` forces either; ``quiet`` shows nothing.

    >>> with iteration_table("ilqr", quiet=True) as show:
    ...     show({"iteration": 0, "cost": 1.0})
    """
    out = sys.stdout if stream is None else stream
    if quiet:
        yield lambda row: None
    elif live if live is not None else bool(getattr(out, "isatty", lambda: False)()):
        with _live(method, out) as show:
            yield show
    else:
        yield _plain(method, out)


def _plain(method: str, out: TextIO) -> Callable[[Row], None]:
    shown: list[tuple[Column, ...]] = [()]
    count = [0]

    def show(row: Row) -> None:
        new = columns(method, [dict.fromkeys(c.key for c in shown[0]), row])
        if new != shown[0] or count[0] % HEADER_EVERY == 0:
            shown[0] = new
            count[0] = 0
            out.write("  ".join(c.title.rjust(width(c)) for c in new) + "\n")
        out.write("  ".join(cell(c, row).rjust(width(c)) for c in new) + "\n")
        out.flush()
        count[0] += 1

    return show


@contextmanager
def _live(method: str, out: TextIO) -> Iterator[Callable[[Row], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    # the display runs in a thread of its own: it reads a tuple that is replaced whole, never one that grows
    latest: list[tuple[Row, ...]] = [()]
    total, began = [0], time.perf_counter()

    def render() -> Table:
        rows = latest[0]
        chosen = columns(method, rows)
        table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left",
                      caption=Text(f"{method}: {total[0]} iterations, {time.perf_counter() - began:.1f} s", "dim"))
        for c in chosen:
            table.add_column(Text(c.title), justify="right", no_wrap=True,
                             style={"objective": "bold", "residual": "cyan"}.get(c.role, ""))
        for row in rows:
            table.add_row(*(Text(cell(c, row)) for c in chosen))
        return table

    with Live(console=Console(file=out, highlight=False), get_renderable=render, refresh_per_second=8) as live:
        def show(row: Row) -> None:
            latest[0] = (*latest[0], dict(row))[-LIVE_ROWS:]
            total[0] += 1

        try:
            yield show
        finally:
            live.refresh()
