"""The report of a sweep: one HTML page that needs no network and no other file, made from its folder at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynamics.errors import near
from ocp.app.batch.pictures import CAPTIONS, Curve, over_time, pictures
from ocp.app.batch.run import Table, local_optima, rounds, told_search
from ocp.app.batch.store import POINTS, read_rows
from ocp.app.batch.work import START
from ocp.app.pages.report import environment, figures, number, script
from ocp.batch.starts import MISSING, round_size
from ocp.errors import ProblemError

#: what is random in trials: the beginnings of names of columns
RANDOM = ("start", "kick", "push", "friction")
#: columns that the table shows behind the values of a case
SHOWN = ("status", "objective", "duration", "iterations", "by")


def write_report(folder: Path, pareto: str = "duration,objective") -> Path:
    """Write ``report.html`` into the folder of a sweep, whether all of its cases are done or not. pareto: two columns, separated by
    a comma. Raises ProblemError for what is no sweep, and for unknown columns."""
    head, rows = read_rows(folder)
    curves = read_curves(folder, rows) if "trials" in head else []
    names = tuple(name.strip() for name in pareto.split(","))
    known = list(rows[0] if rows else {})
    if len(names) != 2:
        raise ProblemError(f"expected two columns, such as duration,objective; got {pareto!r}", where="--pareto")
    for name in names:
        if rows and name not in known:
            raise ProblemError(f"no column named {name!r}{near(name, known)}", where="--pareto")
    place = folder / "report.html"
    place.write_text(page(head, rows, (names[0], names[1]), curves), encoding="utf-8")
    return place


def page(head: Mapping[str, Any], rows: list[dict[str, Any]], pareto: tuple[str, str], curves: Sequence[Curve] = ()) -> str:
    """The page as text; curves: of trials, over time."""
    varied = head["paths"] or [key for key in (rows[0] if rows else {}) if key.split(".")[0] in RANDOM and "." in key]
    paths = [path for path in varied if path != START]
    best = Table(rows).best()
    columns = ["case", *varied, *SHOWN, *(key for key in (rows[0] if rows else {}) if key.startswith("chosen."))]
    shown = pictures(rows, paths, pareto, head.get("units", {}))
    if curves:
        shown = {"trials": over_time(curves), **shown}
    trials = "trials" in head
    return str(environment().get_template("sweep.html.j2").render(
        head={**head, "paths": varied}, trials=trials, columns=columns, total=known_cases(head, rows), done=len(rows),
        good=sum(bool(row["ok"]) for row in rows), kinds=_counts(rows, "succeeded" if trials else "certified"), best=best,
        optima=local_optima(rows) if START in head["paths"] else [], search=told_search(rows) if head.get("search") else "",
        rows=[{"ok": row["ok"], "message": row["message"], "cells": [_cell(row.get(name)) for name in columns]} for row in rows],
        figures=figures(shown, CAPTIONS), title=head["file"], **script("sort.js")))


def known_cases(head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> int:
    """How many cases there are, of a search as far as it is known."""
    return round_size(MISSING) * len(rounds(rows)) if head.get("search") else len(head["cases"])


def _cell(value: Any) -> dict[str, Any]:
    """Text of a cell, and its sort key."""
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {"text": number(value, 8) if numeric else "—" if value is None else str(value), "key": repr(value) if numeric else "",
            "numeric": numeric or value is None}


def _counts(rows: list[dict[str, Any]], word: str) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for row in rows:
        kind = word if row["ok"] else row["status"]
        found[kind] = found.get(kind, 0) + 1
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def read_curves(folder: Path, rows: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """(ok, t, value) of trials that have one."""
    found = []
    for row in rows:
        place = folder / POINTS / f"{row['case']}.npz"
        if place.exists():
            with np.load(place) as archive:
                found.append((bool(row["ok"]), archive["t"], archive["value"]))
    return found
