"""The folder of a sweep: what it is, a journal with a line for each case that is done, the points that neighbours start from, and
the table once all are.

    sweep.json      the file's text, axes and options: another sweep does not go on in this folder
    journal.jsonl   a line a case, appended by one write and flushed to the disk; a line that a killed process left is cut off
    points/         the point of each case whose line stands, while a case waits for it
    cases.csv       the table (cases.parquet where pyarrow is installed), without what differs from run to run
    seconds.csv     how long each case took
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.batch.work import Done
from ocp.batch.compiled import Point
from ocp.errors import ProblemError

FORMAT, VERSION = "lieocp sweep", 1
HEAD, JOURNAL, POINTS, TABLE = "sweep.json", "journal.jsonl", "points", "cases.csv"


class Store:
    """A folder that holds one sweep. done: rows by case of what is finished."""

    def __init__(self, folder: Path, head: Mapping[str, Any], overwrite: bool):
        """head: what the sweep is. Raises ProblemError for a folder of another one, and what is none."""
        self.folder, self.head = folder, {"format": FORMAT, "version": VERSION, **json.loads(json.dumps(head))}
        self.done: dict[int, dict[str, Any]] = {}
        self.seconds: dict[int, float] = {}
        known = read_head(folder) if folder.exists() and any(folder.iterdir()) else None
        if folder.exists() and any(folder.iterdir()) and known is None:
            raise ProblemError("is not empty and holds no sweep; nothing in it was touched. Name another folder", where=str(folder))
        if known is not None and known != self.head:
            if not overwrite:
                differs = ", ".join(sorted(key for key in {*known, *self.head} if known.get(key) != self.head.get(key)))
                raise ProblemError(f"holds another sweep ({differs} differ); allow overwriting or name another folder",
                                   where=str(folder))
            import shutil

            shutil.rmtree(folder)
            known = None
        (folder / POINTS).mkdir(parents=True, exist_ok=True)
        if known is None:
            _replaced(folder / HEAD, json.dumps(self.head, indent=1).encode())
        else:
            self._recover()
        self._journal = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _recover(self) -> None:
        """Read the journal, and cut off what a write that was killed left behind the last whole line."""
        place = self.folder / JOURNAL
        if not place.exists():
            return
        data = place.read_bytes()
        whole = data[:data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with place.open("r+b") as file:
                file.truncate(len(whole))
        for line in whole.splitlines():
            record = json.loads(line)
            self.done[record["case"]], self.seconds[record["case"]] = record["row"], record["seconds"]

    def add(self, done: Done) -> None:
        """Append a case: its point first, for a line says that it is there."""
        if done.number in self.done:
            return
        if done.point is not None:
            _replaced(self.folder / POINTS / f"{done.number}.npz", _packed(done.point))
        line = json.dumps({"case": done.number, "row": done.row, "seconds": done.seconds}).encode() + b"\n"
        before = os.fstat(self._journal).st_size
        try:
            if os.write(self._journal, line) < len(line):
                raise OSError(28, "no space left on the device")
            os.fsync(self._journal)
        except OSError:
            os.ftruncate(self._journal, before)
            raise
        self.done[done.number], self.seconds[done.number] = done.row, done.seconds

    def point(self, number: int) -> Point | None:
        place = self.folder / POINTS / f"{number}.npz"
        if number not in self.done or not place.exists():
            return None
        with np.load(place) as file:
            return {name: file[name] for name in file.files}

    def close(self, paths: Sequence[str], values: Sequence[Mapping[str, Any]]) -> None:
        """Write the table, and leave out the points, once all cases are done."""
        rows = table(paths, values, self.done)
        _replaced(self.folder / TABLE, _as_csv(rows))
        _replaced(self.folder / "seconds.csv", _as_csv([{"case": n, "seconds": self.seconds[n]} for n in sorted(self.seconds)]))
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            pass
        else:
            partial = self.folder / ".cases.parquet"
            parquet.write_table(pyarrow.Table.from_pylist([_uniform(row) for row in rows]), partial)
            os.replace(partial, self.folder / "cases.parquet")
        if len(self.done) == len(values):
            for place in (self.folder / POINTS).glob("*.npz"):
                place.unlink()

    def leave(self) -> None:
        os.close(self._journal)


def read_head(folder: Path) -> dict[str, Any] | None:
    """The description of the sweep in a folder; None where it holds no sweep."""
    try:
        found = json.loads((folder / HEAD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def read_rows(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what the sweep is, its rows so far). Raises ProblemError where the folder holds none."""
    head = read_head(folder)
    if head is None:
        raise ProblemError("is not the folder of a sweep (no sweep.json written by lieocp)", where=str(folder))
    rows = {}
    for line in (folder / JOURNAL).read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        rows[record["case"]] = record["row"]
    return head, table(head["paths"], [dict(zip(head["paths"], values, strict=True)) for values in head["cases"]], rows)


def table(paths: Sequence[str], values: Sequence[Mapping[str, Any]], rows: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows in the order of cases, each with its values; all with the same columns."""
    columns = dict.fromkeys(key for number in sorted(rows) for key in rows[number])
    return [{"case": number, **{path: values[number][path] for path in paths}, **{key: rows[number].get(key) for key in columns}}
            for number in sorted(rows)]


def _uniform(row: Mapping[str, Any]) -> dict[str, Any]:
    """With lists as text: a column has one type."""
    return {key: json.dumps(value) if isinstance(value, (list, dict)) else value for key, value in row.items()}


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import io

    out = io.StringIO(newline="")
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([{key: "" if value is None else repr(value) if isinstance(value, float) else value
                           for key, value in row.items()} for row in rows])
    return out.getvalue().encode()


def _packed(point: Point) -> bytes:
    import io

    out = io.BytesIO()
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in point.items()}
    np.savez(out, **arrays)
    return out.getvalue()


def _replaced(place: Path, data: bytes) -> None:
    """Write a file at once: whole, or as it was."""
    partial = place.with_name(f".{place.name}.partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, place)
