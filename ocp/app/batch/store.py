"""The folder of a sweep: what it is, a journal with a line for each case that is done, the points that neighbours start from, and
the table once all are.

    sweep.json      the file's text, axes and options: another sweep does not go on in this folder
    journal.jsonl   a line a case, appended by one write and flushed to the disk; a line that a killed process left is cut off
    points/         the point of each case whose line stands, while a case waits for it
    cases.csv       the table (cases.parquet where pyarrow is installed), without what differs from run to run
    seconds.csv     how long each case took, which orders another run of the same cases, and what else differs from run to run
"""

from __future__ import annotations

import csv
import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.batch.schedule import Done, Ledger
from ocp.batch.compiled import Point
from ocp.errors import ProblemError

FORMAT, VERSION = "lieocp sweep", 1
HEAD, JOURNAL, POINTS, TABLE, SECONDS = "sweep.json", "journal.jsonl", "points", "cases.csv", "seconds.csv"


class Store(Ledger):
    """A folder that holds one sweep. done: rows by case of what is finished."""

    def __init__(self, folder: Path, head: Mapping[str, Any], overwrite: bool):
        """head: what the sweep is. Raises ProblemError for a folder of another one, and what is none."""
        self.folder, self.head = folder, _versioned(head)
        self.done: dict[int, dict[str, Any]] = {}
        self.measured: dict[int, dict[str, float]] = {}
        known = read_head(folder) if folder.exists() and any(folder.iterdir()) else None
        if folder.exists() and any(folder.iterdir()) and known is None:
            raise ProblemError("is not empty and holds no sweep; nothing in it was touched. Name another folder", where=str(folder))
        if known is not None and known != self.head:
            if not overwrite and (folder / JOURNAL).exists() and (folder / JOURNAL).stat().st_size:
                differs = ", ".join(sorted(key for key in {*known, *self.head} if known.get(key) != self.head.get(key)))
                raise ProblemError(f"holds another sweep (other {differs}); --overwrite replaces it, --out names another folder",
                                   where=str(folder))
            import shutil

            same = all(known.get(key) == self.head.get(key) for key in ("paths", "cases"))
            earlier = (folder / SECONDS).read_bytes() if same and (folder / SECONDS).exists() else b""
            shutil.rmtree(folder)
            folder.mkdir()
            if earlier:
                _replaced(folder / SECONDS, earlier)
            known = None
        (folder / POINTS).mkdir(parents=True, exist_ok=True)
        self.expected = _seconds(folder / SECONDS)
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
            self.done[record["case"]] = record["row"]
            self.measured[record["case"]] = {"seconds": record["seconds"], **record.get("measured", {})}

    def add(self, found: Sequence[Done]) -> None:
        """Append what is done, by one write: points first, for a line says that its point is there."""
        new = {one.number: one for one in found if one.number not in self.done}
        if not new:
            return
        for one in new.values():
            if one.point is not None:
                _replaced(self.folder / POINTS / f"{one.number}.npz", _packed(one.point))
        records = ({"case": one.number, "row": one.row, "seconds": one.seconds, "measured": dict(one.measured)}
                   for one in new.values())
        lines = "".join(json.dumps(record) + "\n" for record in records).encode()
        before = os.fstat(self._journal).st_size
        try:
            if os.write(self._journal, lines) < len(lines):
                raise OSError(errno.ENOSPC, "No space left on device", str(self.folder / JOURNAL))
            os.fsync(self._journal)
        except OSError:
            os.ftruncate(self._journal, before)
            raise
        self.done |= {number: one.row for number, one in new.items()}
        self.measured |= {number: {"seconds": one.seconds, **one.measured} for number, one in new.items()}

    def point(self, number: int) -> Point | None:
        place = self.folder / POINTS / f"{number}.npz"
        if number not in self.done or not place.exists():
            return None
        with np.load(place) as file:
            return {name: file[name] for name in file.files}

    def close(self, paths: Sequence[str], values: Sequence[Mapping[str, Any]], keep_points: bool) -> None:
        """Write the table, and leave out the points unless they are kept."""
        rows = table(paths, values, self.done)
        _replaced(self.folder / TABLE, _as_csv(rows))
        _replaced(self.folder / SECONDS, _as_csv([{"case": n, **self.measured[n]} for n in sorted(self.measured)]))
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            pass
        else:
            partial = self.folder / ".cases.parquet"
            parquet.write_table(pyarrow.Table.from_pylist(_uniform(rows)), partial)
            os.replace(partial, self.folder / "cases.parquet")
        if not keep_points:
            for place in (self.folder / POINTS).glob("*.npz"):
                place.unlink()

    def leave(self) -> None:
        """Release the lock on the folder."""
        os.close(self._journal)


def _versioned(head: Mapping[str, object]) -> dict[str, object]:
    return {"format": FORMAT, "version": VERSION, **json.loads(json.dumps(head))}


def holds(folder: Path, head: Mapping[str, object]) -> bool:
    """Whether a folder has this study, begun or done."""
    return read_head(folder) == _versioned(head)


def _seconds(path: Path) -> dict[int, float]:
    """How long cases took, by number, as an earlier run has it; empty without one."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        return {int(row["case"]): float(row["seconds"]) for row in csv.DictReader(lines)}


def read_head(folder: Path) -> dict[str, Any] | None:
    """The description of the sweep in a folder; None where it holds no sweep."""
    try:
        found = json.loads((folder / HEAD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def read_rows(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(description of the sweep, results so far). Raises ProblemError where the folder holds none."""
    head = read_head(folder)
    if head is None:
        raise ProblemError("is not the folder of a sweep (no sweep.json written by lieocp)", where=str(folder))
    rows = {}
    for line in (folder / JOURNAL).read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        rows[record["case"]] = record["row"]
    return head, table(head["paths"], [dict(zip(head["paths"], values, strict=True)) for values in head["cases"]], rows)


def table(paths: Sequence[str], values: Sequence[Mapping[str, Any]], rows: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the table in the order of cases, each with its values; all with the same columns."""
    columns = dict.fromkeys(key for number in sorted(rows) for key in rows[number])
    return [{"case": number, **{path: values[number][path] for path in paths}, **{key: rows[number].get(key) for key in columns}}
            for number in sorted(rows)]


def _uniform(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """A column has one type, text where its entries have several: lists are text, whole numbers beside others are numbers."""
    def texts(values: list[object]) -> bool:
        kinds = {float if isinstance(value, int) and not isinstance(value, bool) else type(value) for value in values}
        return len(kinds - {type(None)}) > 1 or bool(kinds & {list, dict})

    mixed = {name for name in (rows[0] if rows else ()) if texts([row[name] for row in rows])}
    return [{name: json.dumps(value) if name in mixed and value is not None and not isinstance(value, str) else value
             for name, value in row.items()} for row in rows]


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import io

    out = io.StringIO(newline="")
    if rows:
        writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
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


def _replaced(path: Path, data: bytes) -> None:
    """Write a file at once: whole, or as it was."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
