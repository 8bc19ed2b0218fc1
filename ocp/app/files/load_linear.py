"""Linear systems of problem files: matrices written out or read from CSV files, and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.load_parts import Reader
from ocp.app.files.load_tables import read_csv
from ocp.app.files.schema import Linear
from ocp.app.files.yaml_source import KeyPath


@dataclass(frozen=True)
class LinearParts:
    """period [s] in discrete time, A [n, n], B [n, m], c [n], and names with units of states and controls."""

    period: float | None
    A: np.ndarray
    B: np.ndarray
    c: np.ndarray
    states: Mapping[str, str]
    controls: Mapping[str, str]


def read_linear(numbers: Reader, given: Linear, folder: Path) -> LinearParts | None:
    """The matrices, sizes checked; None after an error was recorded. CSV files are relative to ``folder``."""
    findings, path = numbers.findings, (*numbers.place, "linear")
    before = len(findings.found)
    A, B = _matrix(numbers, given.A, folder, (*path, "A")), _matrix(numbers, given.B, folder, (*path, "B"))
    if A is None or B is None:
        return None
    n, m = len(A), B.shape[1]
    if A.shape != (n, n):
        findings.add((*path, "A"), f"a state matrix is square; this one is {n} x {A.shape[1]}")
    if len(B) != n:
        findings.add((*path, "B"), f"needs {n} rows as A has, got {len(B)}")
    c = np.zeros(n) if given.drift is None else np.array(numbers.vector(given.drift, n, (*path, "drift"), "states"))
    period = None if given.period is None else numbers.number(given.period, (*path, "period"))
    names = []
    for key, size, letter in (("states", n, "x"), ("controls", m, "u")):
        named = getattr(given, key)
        if named is not None and len(named) != size:
            findings.add((*path, key), f"{len(named)} names for {size} {key}")
        names.append({f"{letter}{i}": "" for i in range(size)} if named is None else named)
    return LinearParts(period, A, B, c, *names) if len(findings.found) == before else None


def _matrix(numbers: Reader, given: Any, folder: Path, path: KeyPath) -> np.ndarray | None:
    findings = numbers.findings
    if isinstance(given, str):
        return read_csv(findings, given, folder, path, "a list of rows or a .csv file")
    widths = [len(row) for row in given]
    if len(set(widths)) > 1:
        other = next(i for i, width in enumerate(widths) if width != widths[0])
        findings.add((*path, other), f"{widths[other]} entries; the rows before have {widths[0]}")
        return None
    found = np.array([[numbers.number(value, (*path, i, j)) for j, value in enumerate(row)] for i, row in enumerate(given)])
    return found if np.all(np.isfinite(found)) else None
