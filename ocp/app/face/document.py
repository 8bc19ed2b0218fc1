"""The tree of a problem that Python writes, with the line of Python that wrote each part, and its paths seen from other folders."""

from __future__ import annotations

import copy
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.face.expression import Expr, Relation, expr
from ocp.errors import ProblemError

KeyPath = tuple[str | int, ...]
#: keys of a phase in the order of files
PHASE = ("name", "system", "contacts", "duration", "reset", "start", "final", "bounds", "costs", "constraints", "guess")


@dataclass
class Document:
    """tree: as a problem file gives it; origins: who wrote what is at a path, in words; entries: locations in the file it is from.

    folder: to which paths in it are relative; name: of the file in messages.
    """

    tree: dict[str, Any]
    folder: Path = Path()
    name: str = "problem"
    origins: dict[KeyPath, str] = field(default_factory=dict)
    entries: Mapping[KeyPath, Any] = field(default_factory=dict)

    def put(self, path: KeyPath, value: object) -> None:
        """Set what is at a path; mappings on the way are made."""
        node: Any = self.tree
        for key in path[:-1]:
            node = node[key] if isinstance(key, int) else node.setdefault(key, {})
        node[path[-1]] = plain(value)
        self.origins[path] = written_at()

    def append(self, path: KeyPath, value: object) -> None:
        """Add an entry to the list at a path."""
        node = self.get(path[:-1])
        listed = node.setdefault(path[-1], [])
        listed.append(plain(value))
        self.origins[(*path, len(listed) - 1)] = written_at()

    def get(self, path: KeyPath) -> Any:
        """What is at a path; mappings on the way are made."""
        node: Any = self.tree
        for key in path:
            node = node[key] if isinstance(key, int) else node.setdefault(key, {})
        return node

    def copy(self) -> Document:
        """A copy that can be changed independently."""
        return Document(copy.deepcopy(self.tree), self.folder, self.name, dict(self.origins), self.entries)

    def load(self) -> Any:
        """The problem, compiled (``ocp.app.files.load.LoadedProblem``). Raises ProblemFileError, each error with its location."""
        from ocp.app.files.load import load_tree
        from ocp.app.files.syntax.yaml_source import Source
        from ocp.app.files.syntax.yaml_text import dump

        tree = ordered(self.tree)
        return load_tree(Source(self.name, dump(tree), tree, self.entries, self.origins), self.folder)


def ordered(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with its keys in the order of files."""
    from ocp.app.files.problem.schema import FIRST

    found = _in_order(tree, FIRST)
    if isinstance(found.get("phase"), dict):
        found["phase"] = _in_order(found["phase"], PHASE)
    if isinstance(found.get("phases"), list):
        found["phases"] = [_in_order(phase, PHASE) if isinstance(phase, dict) else phase for phase in found["phases"]]
    return found


def _in_order(tree: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: tree[key] for key in sorted(tree, key=lambda k: keys.index(k) if k in keys else len(keys))}


def plain(value: object) -> Any:
    """A value as a tree holds it: expressions as text, arrays as lists, NumPy's numbers as Python's."""
    if isinstance(value, Expr):
        return value.text
    if isinstance(value, Mapping):
        return {key_text(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Relation):
        raise ProblemError(f"expected a value, got the comparison {value}", where=written_at())
    return expr(value).text  # CasADi's, or an error in words


def limit(value: object) -> Any:
    """A limit of a bound: infinity is none."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [limit(item) for item in value]
    if isinstance(value, (float, np.floating)) and math.isinf(value):
        return None
    return plain(value)


def key_text(key: object) -> str:
    """The name that a key means: ``q["elbow"]`` is elbow."""
    text = str(key)
    return text[text.index('["') + 2 : -2] if isinstance(key, Expr) and text.endswith('"]') else text


def written_at() -> str:
    """The line outside of this package that is running: ``reach.py:12``."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("ocp."):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return "Python"
    file = frame.f_code.co_filename
    return f"{'input' if file.startswith('<') or 'ipykernel' in file else Path(file).name}:{frame.f_lineno}"


def moved(tree: dict[str, Any], old: Path, new: Path) -> dict[str, Any]:
    """The tree with its relative paths, which are right from the folder ``old``, made right from ``new``."""
    from ocp.app.files.problem.schema import KINDS
    from ocp.app.files.robot.model import COLLECTION
    from ocp.app.files.syntax.findings import paths

    made = copy.deepcopy(tree)

    def seen(text: str) -> str:
        if text.startswith(COLLECTION) or os.path.isabs(text):
            return text
        return Path(os.path.relpath(old / text, new)).as_posix()

    for holder, key, declared in paths(made, KINDS):
        if (holder[key], declared) != ("auto", "srdf"):
            holder[key] = seen(holder[key])
    return made
