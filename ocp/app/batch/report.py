"""The report of a sweep: one HTML page that needs no network and no other file, made from its folder at any time."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynamics.errors import near
from ocp.app.batch.pictures import CAPTIONS, pictures
from ocp.app.batch.run import Table, local_optima
from ocp.app.batch.store import read_rows
from ocp.app.batch.work import START
from ocp.app.pages.report import TEMPLATES, environment, figures, number
from ocp.errors import ProblemError

#: columns that the table shows behind the values of a case
SHOWN = ("status", "objective", "duration", "iterations", "by")


def write_report(folder: Path, pareto: str = "duration,objective") -> Path:
    """Write ``report.html`` into the folder of a sweep, whether all of its cases are done or not. pareto: two columns, separated by
    a comma. Raises ProblemError for what is no sweep, and for unknown columns."""
    head, rows = read_rows(folder)
    names = tuple(name.strip() for name in pareto.split(","))
    known = list(rows[0] if rows else {})
    if len(names) != 2:
        raise ProblemError(f"expected two columns, such as duration,objective; got {pareto!r}", where="--pareto")
    for name in names:
        if rows and name not in known:
            raise ProblemError(f"no column named {name!r}{near(name, known)}", where="--pareto")
    place = folder / "report.html"
    place.write_text(page(head, rows, (names[0], names[1])), encoding="utf-8")
    return place


def page(head: Mapping[str, Any], rows: list[dict[str, Any]], pareto: tuple[str, str]) -> str:
    """The page as text."""
    paths = [path for path in head["paths"] if path != START]
    script = (TEMPLATES / "sort.js").read_text(encoding="utf-8")
    best = Table(rows).best()
    columns = ["case", *head["paths"], *SHOWN, *(key for key in (rows[0] if rows else {}) if key.startswith("chosen."))]
    from markupsafe import Markup

    return str(environment().get_template("sweep.html.j2").render(
        head=head, columns=columns, total=len(head["cases"]), done=len(rows), good=sum(bool(row["ok"]) for row in rows),
        kinds=_counts(rows), best=best, optima=local_optima(rows) if START in head["paths"] else [],
        rows=[{"ok": row["ok"], "message": row["message"], "cells": [_cell(row[name]) for name in columns]} for row in rows],
        figures=figures(pictures(rows, paths, pareto), CAPTIONS), script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")))


def _cell(value: Any) -> dict[str, Any]:
    """What a cell shows, and what it is sorted by."""
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {"text": number(value, 8) if numeric else "—" if value is None else str(value), "key": repr(value) if numeric else "",
            "numeric": numeric or value is None}


def _counts(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for row in rows:
        kind = "certified" if row["ok"] else row["status"]
        found[kind] = found.get(kind, 0) + 1
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))
