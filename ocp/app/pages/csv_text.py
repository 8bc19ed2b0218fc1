"""Tables as CSV text that a spreadsheet shows and does not execute."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as lines; a cell of text that a spreadsheet would take for a formula (a joint called ``=1+1``) gets an apostrophe in
    front. Numbers, also written out (``-1.5``, ``-inf``), stay as they are."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_shown(cell) for cell in row] for row in rows)
    return out.getvalue()


def _shown(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
