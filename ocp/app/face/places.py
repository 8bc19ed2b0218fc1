"""Paths in the tree of a problem, seen from another folder."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ocp.app.files.load_model import COLLECTION


def moved(tree: dict[str, Any], old: Path, new: Path) -> dict[str, Any]:
    """The tree with its relative paths, which are right from the folder ``old``, made right from ``new``."""
    made = copy.deepcopy(tree)

    def seen(words: str) -> str:
        if words.startswith(COLLECTION) or os.path.isabs(words):
            return words
        return Path(os.path.relpath(old / words, new)).as_posix()

    for system in _systems(made):
        for key in ("robot", "srdf"):
            if isinstance(system.get(key), str) and system[key] != "auto":
                system[key] = seen(system[key])
        system.update({"packages": {name: seen(path) for name, path in system["packages"].items()}} if "packages" in system else {})
        linear = system.get("linear", {})
        linear.update({key: seen(linear[key]) for key in ("A", "B") if isinstance(linear.get(key), str)})
    for name, table in made.get("tables", {}).items():
        if isinstance(table, str):
            made["tables"][name] = seen(table)
        elif "file" in table:
            table["file"] = seen(table["file"])
    return made


def _systems(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    plant = tree.get("mpc", {}).get("plant", {}) if isinstance(tree.get("mpc"), dict) else {}
    for holder in (tree, plant if isinstance(plant, dict) else {}, *tree.get("phases", [])):
        if isinstance(holder.get("system"), dict):
            yield holder["system"]
