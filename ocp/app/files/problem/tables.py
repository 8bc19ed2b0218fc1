"""Tables of a problem file, in one or two dimensions, from CSV files or written out: functions that expressions call by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from ocp.app.files.syntax import reader as lp
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.parts import TablePart
from ocp.app.files.syntax.scope import Scope, lines, spline
from ocp.app.files.syntax.yaml_source import KeyPath, read_text
from ocp.errors import ProblemError

SX = Any
MAX_ENTRIES = 20_000


@dataclass(frozen=True)
class Curve:
    """x [n], y [m] (None in one dimension), values [n] or [n, m]; smooth: by splines, else by straight lines."""

    x: np.ndarray
    y: np.ndarray | None
    values: np.ndarray
    smooth: bool

    @property
    def count(self) -> int:
        """How many arguments it takes."""
        return 1 if self.y is None else 2

    def __call__(self, x: SX, y: SX | None = None) -> SX:
        between = spline if self.smooth else lines
        found = between(x, self.x, ca.SX(ca.DM(self.values)))
        return found if self.y is None else between(y, self.y, found)


def read_names(findings: Findings, file: Any, folder: Path, reserved: Sequence[str] = ()) -> Scope:
    """The constants of a file, with its tables. Errors go to ``findings``."""
    constants = lp.read_constants(findings, file.constants, reserved)
    given: Mapping[str, TablePart | str] = file.tables
    if not given:
        return constants
    numbers = lp.Reader(findings, constants)
    found: dict[str, Curve] = {}
    broken = set(constants.broken)
    for name, table in given.items():
        path: KeyPath = ("tables", name)
        lp.check_name(findings, name, path, {constant: f"constants.{constant}" for constant in constants.names}, reserved)
        part = TablePart.model_validate({"file": table}) if isinstance(table, str) else table
        curve = _curve(numbers, part, folder, path, short=isinstance(table, str))
        if curve is None:
            broken.add(name)
        else:
            found[name] = curve
    return replace(constants, curves=found, broken=frozenset(broken))


def _curve(numbers: lp.Reader, given: TablePart, folder: Path, path: KeyPath, *, short: bool) -> Curve | None:
    if given.file is not None:
        return _from_csv(numbers.findings, given, folder, path if short else (*path, "file"))
    before, section = len(numbers.findings.found), lp.Section(numbers, given, path)
    x, y, rows = (numbers.values(getattr(given, key), section.at(key)) for key in ("x", "y", "values"))
    width = None if y is None else len(y)
    for i, row in enumerate(rows):
        if (len(row) if isinstance(row, tuple) else None) != width:
            wanted = "a number" if width is None else f"a row of {width} numbers, one for each y"
            section.refuse(f"expected {wanted}", "values", i)
    if len(rows) != len(x):
        section.refuse(f"{len(rows)} entries for {len(x)} places x", "values")
    if len(numbers.findings.found) > before:
        return None
    curve = Curve(np.array(x), None if y is None else np.array(y), np.array(rows), given.smooth)
    return _checked(numbers.findings, curve, path, ("x", "y"))


def _from_csv(findings: Findings, given: TablePart, folder: Path, path: KeyPath) -> Curve | None:
    found = read_csv(findings, str(given.file), folder, path, "a .csv file", table=True)
    if found is None:
        return None
    if found.shape[1] == 2:
        curve = Curve(found[:, 0], None, found[:, 1], given.smooth)
    else:
        curve = Curve(found[1:, 0], found[0, 1:], found[1:, 1:], given.smooth)
    name = (folder / str(given.file)).name
    return _checked(findings, curve, path, (f"{name}: x", f"{name}: y"))


def read_csv(findings: Findings, words: str, folder: Path, path: KeyPath, expected: str, *, table: bool = False
             ) -> np.ndarray | None:
    """Finite numbers [n, m], comma-separated, a row a line; None after an error was recorded.

    expected: what the file of another kind should have been. table: two columns, which may have headings, or a first row and a
    first column of places, whose common corner counts nothing and is 0.
    """
    file = folder / words
    if file.suffix != ".csv" or not file.is_file():
        findings.add(path, f"no file {file}" if file.suffix == ".csv" else f"expected {expected}; got {words!r}")
        return None
    try:
        texts = enumerate(read_text(file).splitlines(), start=1)
    except ProblemError as error:
        findings.add(path, str(error))
        return None
    written = [(i, [cell.strip() for cell in text.split(",")]) for i, text in texts if text.strip() and text.lstrip()[0] != "#"]
    if table and written and len(written[0][1]) == 2 and _number(written[0][1][0]) is None:
        written = written[1:]  # headings
    if table and (len(written) < 2 or len(written[0][1]) < 2):
        findings.add(path, f"{file.name}: expected two columns, x and value; or x in the first column and y in the first row")
        return None
    rows: list[list[float | None]] = []
    for line, cells in written:
        row = [_number(cell) for cell in cells]
        if table and not rows and len(cells) > 2:
            row[0] = row[0] or 0.0
        if rows and len(row) != len(rows[0]):
            findings.add(path, f"{file.name}:{line}: {len(row)} entries; the rows before have {len(rows[0])}")
            return None
        if None in row:
            j = row.index(None)
            findings.add(path, f"{file.name}:{line}: entry {j + 1} is {cells[j]!r}, not a finite number")
            return None
        rows.append(row)
    if not rows:
        findings.add(path, f"{file.name} holds no numbers")
    return np.array(rows, dtype=float) if rows else None


def _checked(findings: Findings, curve: Curve, path: KeyPath, words: tuple[str, str]) -> Curve | None:
    for places, what in ((curve.x, words[0]), (curve.y, words[1])):
        if places is None:
            continue
        if len(places) < 2:
            findings.add(path, f"{what} has {len(places)} place; at least 2 are needed")
            return None
        if not (np.diff(places) > 0).all():
            i = int(np.flatnonzero(np.diff(places) <= 0)[0])
            findings.add(path, f"{what} must increase; {places[i + 1]:g} follows {places[i]:g}")
            return None
    if curve.values.size > MAX_ENTRIES:
        findings.add(path, f"{curve.values.size} entries; at most {MAX_ENTRIES} are read")
        return None
    return curve


def _number(cell: str) -> float | None:
    try:
        found = float(cell)
    except ValueError:
        return None
    return found if np.isfinite(found) else None
