"""Runs beside each other: what two of them differ in, and whether one comes out the same again."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.files.load import load_problem, load_text
from ocp.app.pages.folders import is_run
from ocp.app.pages.results import read_run
from ocp.errors import ProblemError

#: what of a run's summary tells its outcome, by name
OUTCOME = (("method", ("method",)), ("status", ("status", "name")), ("certified", ("certificate", "holds")),
           ("objective", ("objective_text",)), ("optimum", ("certificate", "second_order", "kind")),
           ("version", ("provenance", "versions", "lieocp")))


def difference(first: Path, second: Path) -> list[str]:
    """Lines that say in what two problem files or runs differ, as expanded files and by outcome; none where they do not.

    Raises ProblemError where one is neither.
    """
    (one, before), (two, after) = _read(first), _read(second)
    lines = list(difflib.unified_diff(one.splitlines(), two.splitlines(), str(first), str(second), n=1, lineterm=""))
    for name, path in OUTCOME:
        a, b = _at(before, path), _at(after, path)
        if a != b and None not in (a, b):
            lines.append(f"{name}: {a} | {b}")
    return lines


def _read(place: Path) -> tuple[str, dict[str, Any]]:
    if place.is_dir():
        if not is_run(place):
            raise ProblemError("is not the folder of a run (no summary.json written by lieocp)", where=str(place))
        file = place / "problem.yaml"
        return load_text(file.read_text(encoding="utf-8"), place, str(file)).expanded(), json.loads(
            (place / "summary.json").read_text(encoding="utf-8"))
    return load_problem(place).expanded(), {}


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def replay(folder: Path) -> tuple[bool, list[str]]:
    """Solve a run's problem again by its method and options: (whether status, objective and motion come out the same, what was
    compared). Same: the bits of the motion, or where software or machine differ, the objective within its bar.

    Raises ProblemError where the folder is no run.
    """
    from ocp.app.pipeline import run

    before = read_run(folder)
    outcome = before.summary
    again = run(folder / "problem.yaml", method_name=outcome["method"], write=False).solution
    arrays, path = before.arrays, again.parts[0] if again.parts else again.trajectory
    prefix = f"{again.problem.phases[0].name}." if again.parts and len(again.parts) > 1 else ""
    x = arrays.get(f"{prefix}x")
    bits = x is not None and x.shape == path.x.shape and bool(np.array_equal(x, path.x))
    bar = _at(outcome, ("certificate", "bar"))
    far = abs(again.objective - float(outcome["objective"]))
    near = far <= (bar if isinstance(bar, float) and np.isfinite(bar) else 1e-6 * max(1.0, abs(again.objective)))
    status = again.status.name == outcome["status"]["name"] and again.ok == bool(outcome["ok"])
    return bool(status and (bits or near)), [
        f"status     {outcome['status']['name'].lower()}, now {again.status.name.lower()}",
        f"certified  {'yes' if outcome['ok'] else 'no'}, now {'yes' if again.ok else 'no'}",
        f"objective  {outcome['objective']!r}, now {again.objective!r}",
        f"motion     {'the same to the last bit' if bits else 'not the same bits'}",
    ]
