"""The robots of the ``robots`` extra (package example-robot-data): real URDF files, offline."""

from __future__ import annotations

from collections import Counter
from importlib import metadata
from pathlib import Path

from dynamics.errors import ModelError, UnknownNameError

_DISTRIBUTION = "example-robot-data"
_FOLDER = "robots"


def robot_paths() -> dict[str, Path]:
    """URDF files by short name: the file's stem, or ``folder/stem`` where stems repeat. Nothing is imported or read.

    Raises ModelError naming the extra when it is not installed.
    """
    try:
        files = metadata.distribution(_DISTRIBUTION).files or ()
    except metadata.PackageNotFoundError:
        raise ModelError("the collection of robots is not installed; get it with: pip install lieocp[robots]") from None
    urdfs = sorted((f for f in files if f.suffix == ".urdf" and _FOLDER in f.parts), key=str)
    stems = Counter(f.stem for f in urdfs)
    out: dict[str, Path] = {}
    for f in urdfs:
        folder = f.parts[f.parts.index(_FOLDER) + 1].removesuffix("_description")
        out[f.stem if stems[f.stem] == 1 else f"{folder}/{f.stem}"] = Path(str(f.locate())).resolve()
    return out


def find_robot(name: str) -> Path:
    """The URDF file of one robot of the collection. Raises UnknownNameError with near misses."""
    paths = robot_paths()
    if name not in paths:
        raise UnknownNameError("robot", name, paths)
    return paths[name]
