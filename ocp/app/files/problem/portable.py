"""A problem file that stands alone: the files that it names beside it, in a folder of their own.

A run folder keeps what its problem was made from, so that the problem can be read again from there and from nowhere else:
robot files (URDF, MJCF without assets), their named configurations, meshes of its own bodies, matrices in CSV files.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ocp.app.files.load import LoadedProblem
from ocp.app.files.problem.gallery import in_gallery
from ocp.app.files.problem.schema import KINDS
from ocp.app.files.robot.model import robot_path
from ocp.app.files.syntax.findings import paths
from ocp.app.files.syntax.yaml_text import dump

FOLDER = "models"


@dataclass(frozen=True)
class Portable:
    """text: of the problem file, every default written out; files: contents by the names that it uses, relative to it."""

    text: str
    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path) -> str:
        """``problem.yaml`` and its files; returns its text."""
        for name, data in {"problem.yaml": self.text.encode(), **self.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return self.text


def portable(loaded: LoadedProblem, method: str | None = None) -> Portable:
    """A problem with the default method ``method`` (default: the file's) and the files it needs."""
    return standing_alone(loaded.tree(method), KINDS, loaded.folder)


def standing_alone(tree: dict[str, Any], kinds: Sequence[type[BaseModel]], folder: Path) -> Portable:
    """A tree of one of these records, which is changed, whose paths are relative to a folder."""
    files: dict[str, bytes] = {}
    for holder, key, declared in list(paths(tree, kinds)):
        if declared == "robot":
            _keep_robot(holder, folder, files)
        elif declared not in ("srdf", "packages"):
            path = in_gallery(folder / holder[key])
            holder[key] = str(path.resolve()) if path.is_dir() else _keep(path, files)
    return Portable(dump(tree), files)


def _keep_robot(part: dict[str, Any], folder: Path, files: dict[str, bytes]) -> None:
    """Store the files of a robot, and name them in its part of the tree."""
    path = robot_path(part["robot"], folder)
    if path.suffix != ".urdf" and not _stands_alone(path):
        part["robot"] = str(path.resolve())  # assets may be large; the file stays where it is
        return
    part["robot"] = _keep(path, files)
    part["packages"] = {}  # they only locate meshes, which nothing reads
    if path.suffix == ".urdf":
        found = _srdf(path) if part["srdf"] == "auto" else folder / part["srdf"]
        if found is not None:
            # where "auto" looks for it
            name = _keep(found, files, Path(part["robot"]).with_suffix(".srdf").name)
            part["srdf"] = "auto" if part["srdf"] == "auto" else name


def _srdf(urdf: Path) -> Path | None:
    from dynamics.model.srdf import find_srdf

    return find_srdf(urdf, ElementTree.parse(urdf).getroot().get("name", urdf.stem))


def _stands_alone(mjcf: Path) -> bool:
    """Whether an MJCF file includes no other file and has no meshes, height fields or textures in files."""
    return not any(element.tag == "include" or element.get("file") for element in ElementTree.parse(mjcf).iter())


def _keep(path: Path, files: dict[str, bytes], name: str = "") -> str:
    """Store a file, under a name of its own unless the same is there already. Returns the name."""
    data = path.read_bytes()
    wish = Path(name or path.name)
    for number in range(1, 1000):
        found = f"{FOLDER}/{wish.stem}{'' if number == 1 else f'-{number}'}{wish.suffix}"
        if files.setdefault(found, data) == data:
            return found
    raise AssertionError("more than a thousand files share a name")
