"""The numbers that decide in solves and certificates, as a table."""

from __future__ import annotations

from rich.console import Console

from ocp.app.screen import grid, plain, wide_console
from ocp.thresholds import thresholds


def print_thresholds(console: Console | None = None) -> None:
    """Record, name, value, unit and reason of every threshold."""
    out = console or wide_console()
    table = grid("record", "name", ">value", "unit", "bounds", pad=2, folded="bounds")
    before = ""
    for one in thresholds():
        table.add_row(one.record if one.record != before else "", one.name, f"{one.value:g}", one.unit, plain(one.why))
        before = one.record
    out.print(table)
