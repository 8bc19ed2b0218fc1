"""Where the meshes of a robot file are: ``package://``, ``model://``, ``file://`` and relative paths, without ROS."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse


def resolve(uri: str, base: Path | None, packages: Mapping[str, str | os.PathLike[str]] | None = None) -> str | None:
    """The path that ``uri`` names, or None when nothing tells where its package is. The file need not exist.

    uri: ``package://name/rest``, ``model://name/rest``, ``file:///path``, or a path (relative to ``base``).
    base: folder of the robot file. packages: folder of each package by name; without an entry, a folder called ``name``
    is looked for among the parents of ``base`` and next to them.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark:
        path = Path(uri)
        return str(path) if path.is_absolute() else None if base is None else os.path.normpath(base / path)
    if scheme == "file":
        return unquote(urlparse(uri).path)
    if scheme not in ("package", "model"):
        return None
    name, _, inside = rest.partition("/")
    if packages is not None and name in packages:
        return os.path.normpath(Path(packages[name]) / inside)
    if base is None:
        return None
    folders = [base.absolute(), *base.absolute().parents]
    candidates = [f for f in folders if f.name == name] + [f / name for f in folders if (f / name).is_dir()]
    existing = [c for c in candidates if (c / inside).exists()]
    chosen = (existing or candidates)[:1]
    return str(chosen[0] / inside) if chosen else None


def packages_in(folders: str | Iterable[str | os.PathLike[str]]) -> dict[str, Path]:
    """Package folders by name for a ROS-style search path: a list of folders, or one string joined by ``os.pathsep``.

    A folder that holds a ``package.xml`` is a package itself; otherwise each of its sub-folders is one. As in ROS, the
    first of two packages of the same name wins.
    """
    found: dict[str, Path] = {}
    for folder in folders.split(os.pathsep) if isinstance(folders, str) else folders:
        path = Path(folder)
        inside = [path] if (path / "package.xml").is_file() else sorted(path.iterdir()) if path.is_dir() else []
        for package in inside:
            if package.is_dir():
                found.setdefault(package.name, package)
    return found
