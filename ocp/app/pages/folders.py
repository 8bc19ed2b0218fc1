"""Folders of results, of runs and of every other kind: written so that an interrupted write is never mistaken for a result.

JSON knows no NaN and no infinity. They are written as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, which
``float()`` of Python and ``Number()`` of JavaScript turn back into numbers. Spreadsheets show CSV text and do not execute it.
"""

from __future__ import annotations

import csv
import enum
import io
import json
import math
import os
import shutil
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ocp.errors import ProblemError

#: the kind of a folder that holds a run
FORMAT = "lieocp run"
UNFINISHED, CHECKPOINT = "unfinished.json", "checkpoint.npz"


def is_run(folder: Path, kind: str = FORMAT) -> bool:
    """Whether a folder holds a run (or another result, by the ``format`` of its summary) that was written whole."""
    try:
        record = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("format") == kind


def check_run(folder: Path) -> None:
    """Raises ProblemError where a folder holds no run."""
    if not is_run(folder):
        raise ProblemError("is not the folder of a run (no summary.json written by lieocp)", where=str(folder))


def is_unfinished(folder: Path) -> bool:
    """Whether a folder was made for a run whose solve has not ended."""
    try:
        record = json.loads((folder / UNFINISHED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("format") == FORMAT


def is_abandoned(folder: Path) -> bool:
    """Whether a folder was made for a run whose process died before there was anything to go on from."""
    if not is_unfinished(folder) or (folder / CHECKPOINT).is_file():
        return False
    process = json.loads((folder / UNFINISHED).read_text(encoding="utf-8")).get("process")
    if os.name != "posix" or not isinstance(process, int):
        return process is None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # somebody else's
    return False


@contextmanager
def new_folder(target: Path, overwrite: bool, kind: str) -> Iterator[Path]:
    """A folder to fill, which takes the name ``target`` when the block ends without an error and vanishes otherwise.

    A target that is absent or empty is made; an earlier result of the same ``kind`` (see :func:`is_run`) is replaced only with
    ``overwrite``. Raises ProblemError for any other target.
    """
    check_target(target, overwrite, kind)
    target.parent.mkdir(parents=True, exist_ok=True)
    # the name says that it is not a result, and a rename within one folder is atomic
    partial = target.parent / f".{target.name}.partial-{uuid.uuid4().hex[:8]}"
    partial.mkdir()
    try:
        yield partial
        _put_in_place(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """``summary.json``, to be written last: without it no folder is a result, not even one left behind by a killed process."""
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")


def check_target(target: Path, overwrite: bool, kind: str) -> None:
    """Raises ProblemError unless a result of this kind may be written to ``target``."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise ProblemError("is not a folder; name another folder for the run", where=str(target))
    if not target.is_dir() or not any(target.iterdir()):
        return
    if kind == FORMAT and is_unfinished(target):
        if overwrite or is_abandoned(target):
            return
        raise ProblemError("holds an interrupted run; continue it (ocp resume), allow overwriting or name another folder",
                           where=str(target))
    if not is_run(target, kind):
        raise ProblemError("is not empty and holds no earlier run; nothing in it was touched. Name another folder",
                           where=str(target))
    if not overwrite:
        raise ProblemError("already holds a run; allow overwriting or name another folder", where=str(target))


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename the finished folder to its name; an earlier run steps aside first and comes back should that fail."""
    if not target.exists():
        os.rename(partial, target)
        return
    aside = target.parent / f".{target.name}.replaced-{uuid.uuid4().hex[:8]}"
    os.rename(target, aside)
    try:
        os.rename(partial, target)
    except BaseException:
        os.rename(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ data
def jsonable(value: object) -> Any:
    """Plain JSON data: arrays become lists, enumerations their names, paths text, non-finite numbers strings."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return jsonable(value.item())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if value != value:
            return "NaN"
        return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, (Sequence, set, frozenset)):
        return [jsonable(v) for v in (sorted(value, key=str) if isinstance(value, (set, frozenset)) else value)]
    return str(value)


def restore(value: object) -> Any:
    """The number behind one of the three strings that stand for non-finite numbers; anything else unchanged."""
    return float(value) if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity") else value


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` archive by name. Raises ProblemError for what cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ProblemError(f"cannot be read: {error}", where=str(path)) from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An ``.npz`` archive, as numpy reads it; with a fixed date, so that equal arrays give equal files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(member, buffer.getvalue(), compress_type=zipfile.ZIP_DEFLATED)


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as lines of Markdown; columns whose heading begins with ``>`` stand at the right."""
    titles, rules = [head.removeprefix(">") for head in heads], ["---:" if head.startswith(">") else "---" for head in heads]
    lines = [titles, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    first, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return [first, f"|{'|'.join(rules)}|", *rest]


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def held_csv(header: Iterable[str], t: np.ndarray, x: np.ndarray, u: np.ndarray) -> str:
    """Times [n+1], states [n+1, nx] at them, and constant inputs [n, nu] from each to the next, so that the last has none; header:
    names of states, then of inputs."""
    rows = np.column_stack([t, x, np.vstack([u, np.full((1, u.shape[1]), np.nan)])]).tolist()
    return csv_text([["t", *header], *([cell if math.isfinite(cell) else None for cell in row] for row in rows)])


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as lines, None as nothing; a cell of text that a spreadsheet would take for a formula (a joint called ``=1+1``) gets an
    apostrophe in front. Numbers, also written out (``-1.5``, ``-inf``), stay as they are."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_shown(cell) for cell in row] for row in rows)
    return out.getvalue()


def _shown(cell: object) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
