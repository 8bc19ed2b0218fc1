"""Names that a file defines: constants, parameters, and tables in one or two dimensions, functions that expressions call."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from ocp.app.files.problem.sections_schema import Parameter, TablePart
from ocp.app.files.syntax.findings import Findings
from ocp.app.files.syntax.reader import FileParameter, Reader, Section, check_inside, read_bound, sound
from ocp.app.files.syntax.scope import RESERVED_NAMES, FollowOnError, Scope, lines, spline
from ocp.app.files.syntax.yaml_source import KeyPath, read_text
from ocp.errors import ProblemError

SX = Any
MAX_ENTRIES = 20_000


# ---- constants and parameters -------------------------------------------------------------------------------------------
def check_name(findings: Findings, name: str, path: KeyPath, taken: Mapping[str, str], reserved: Sequence[str] = ()) -> None:
    """A name that expressions use must be an identifier, free, and not reserved."""
    if not name.isidentifier():
        findings.add(path, f"{name!r} cannot be a name in expressions; use letters, digits and _, not starting with a digit",
                     at_key=True)
    elif keyword.iskeyword(name):
        findings.add(path, f"{name!r} is a Python keyword and cannot be a name in expressions", at_key=True)
    elif name in RESERVED_NAMES or name in reserved:
        meaning = {"t": "time", "pi": "the number pi"}.get(name, "a function")
        findings.add(path, f"{name!r} is reserved for {meaning}" if name not in reserved
                     else f"{name!r} is reserved for the robot", at_key=True)
    elif name in taken:
        findings.add(path, f"the name {name!r} is already used by {taken[name]}", at_key=True)


def read_constants(findings: Findings, constants: Mapping[str, Any], reserved: Sequence[str] = ()) -> Scope:
    """The scope of constants, each evaluated with those before it."""
    values: dict[str, SX] = {}
    broken: set[str] = set()
    for i, (name, value) in enumerate(constants.items()):
        path: KeyPath = ("constants", name)
        check_name(findings, name, path, {}, reserved)
        later = dict.fromkeys(list(constants)[i:], "it is defined later; a constant may only use those above it")
        scope = Scope(dict(values), unavailable=later, broken=frozenset(broken))
        number = Reader(findings, scope).number(value, path)
        if math.isnan(number):
            broken.add(name)
        else:
            values[name] = ca.SX(number)
    return Scope(values, broken=frozenset(broken))


def read_parameters(findings: Findings, constants: Scope, spec: Mapping[str, Any], reserved: Sequence[str] = ()
                    ) -> tuple[FileParameter, ...]:
    """The parameters; their values are numbers over the constants."""
    numbers, found = Reader(findings, constants), []
    for name, value in spec.items():
        path: KeyPath = ("parameters", name)
        check_name(findings, name, path, {constant: f"constants.{constant}" for constant in constants.names}, reserved)
        if not isinstance(value, Parameter):
            found.append(FileParameter(name, numbers.number(value, path)))
            continue
        number, bounds = numbers.number(value.value, (*path, "value")), None
        if value.optimise is not None:
            bounds = read_bound(numbers, value.optimise, (*path, "optimise"))
            check_inside(findings, number, *bounds, (*path, "value"), f"the guess of {name!r}")
        found.append(FileParameter(name, number, bounds))
    return tuple(found)


def free_parameters(reader: Reader) -> tuple[tuple[int, float, float], ...]:
    """Parameters that the solver chooses, as a field of a Phase; guesses outside their bounds have been recorded and are left
    out."""
    return tuple((i, *p.bounds) for i, p in enumerate(reader.parameters) if p.bounds and p.bounds[0] <= p.value <= p.bounds[1])


# ---- tables -------------------------------------------------------------------------------------------------------------


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
    constants = read_constants(findings, file.constants, reserved)
    spec: Mapping[str, TablePart | str] = file.tables
    if not spec:
        return constants
    numbers = Reader(findings, constants)
    found: dict[str, Curve] = {}
    broken = set(constants.broken)
    for name, table in spec.items():
        path: KeyPath = ("tables", name)
        check_name(findings, name, path, {constant: f"constants.{constant}" for constant in constants.names}, reserved)
        part = TablePart.model_validate({"file": table}) if isinstance(table, str) else table
        curve = _curve(Section(numbers, part, path), folder, isinstance(table, str))
        if curve is None:
            broken.add(name)
        else:
            found[name] = curve
    return replace(constants, curves=found, broken=frozenset(broken))


@sound
def _curve(section: Section, folder: Path, short: bool) -> Curve:
    """short: whether the table is the name of a file, and no mapping."""
    spec = section.spec
    if spec.file is not None:
        path = section.path if short else section.at("file")
        found, name = read_csv(section.findings, spec.file, folder, path, "a .csv file", table=True), Path(spec.file).name
        if found is None:
            raise FollowOnError("recorded")
        curve = Curve(found[:, 0], None, found[:, 1], spec.smooth) if found.shape[1] == 2 else \
            Curve(found[1:, 0], found[0, 1:], found[1:, 1:], spec.smooth)
        return _checked(section.findings, curve, path, (f"{name}: x", f"{name}: y"))
    x, y, rows = (section.value(key) for key in ("x", "y", "values"))
    width = None if y is None else len(y)
    for i, row in enumerate(rows):
        if (len(row) if isinstance(row, tuple) else None) != width:
            wanted = "a number" if width is None else f"a row of {width} numbers, one for each y"
            section.refuse(f"expected {wanted}", "values", i)
    if len(rows) != len(x):
        section.refuse(f"{len(rows)} entries for {len(x)} points x", "values")
    section.findings.settle()
    curve = Curve(np.array(x), None if y is None else np.array(y), np.array(rows), spec.smooth)
    return _checked(section.findings, curve, section.path, ("x", "y"))


def read_csv(findings: Findings, text: str, folder: Path, path: KeyPath, expected: str, *, table: bool = False
             ) -> np.ndarray | None:
    """Finite numbers [n, m], comma-separated, a row a line; None after an error was recorded.

    expected: what the file of another kind should have been. table: two columns, which may have headings, or a first row and a
    first column of abscissas, whose common corner counts nothing and is 0.
    """
    file = folder / text
    if file.suffix != ".csv" or not file.is_file():
        findings.add(path, f"no file {file}" if file.suffix == ".csv" else f"expected {expected}; got {text!r}")
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
        findings.add(path, f"{file.name} holds no numeric data")
    return np.array(rows, dtype=float) if rows else None


def _checked(findings: Findings, curve: Curve, path: KeyPath, labels: tuple[str, str]) -> Curve:
    for places, what in ((curve.x, labels[0]), (curve.y, labels[1])):
        if places is not None and len(places) < 2:
            findings.add(path, f"{what} has {len(places)} point; at least 2 are needed")
        elif places is not None and not (np.diff(places) > 0).all():
            i = int(np.flatnonzero(np.diff(places) <= 0)[0])
            findings.add(path, f"{what} must increase; {places[i + 1]:g} follows {places[i]:g}")
    if curve.values.size > MAX_ENTRIES:
        findings.add(path, f"{curve.values.size} entries; at most {MAX_ENTRIES} are read")
    return curve


def _number(cell: str) -> float | None:
    try:
        found = float(cell)
    except ValueError:
        return None
    return found if np.isfinite(found) else None
