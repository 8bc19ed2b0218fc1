"""How the benchmarks read and write their tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "results" / "benchmarks"


def write_table(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = (), digits: str = "", **form: Any) -> None:
    """Columns: by default those of the first row. digits: how floats are written, as 4g; form: options of ``csv.DictWriter``."""
    rows = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(columns or rows[0]), **form)
        writer.writeheader()
        writer.writerows({k: format(v, digits) if digits and isinstance(v, float) else v for k, v in row.items()} for row in rows)


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of an earlier run; none without a file."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_page(path: Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
