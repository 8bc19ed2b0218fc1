"""Where the gallery lies, in a source tree and after an installation."""

from __future__ import annotations

from pathlib import Path

from ocp.errors import ProblemError

GALLERY = Path("problems")


def gallery() -> Path:
    """The gallery: the folder problems here, else the one that came with the installation, else that of the source tree."""
    package = Path(__file__).resolve().parents[3]
    for folder in (GALLERY, package / "gallery", package.parent / GALLERY):
        if folder.is_dir():
            return folder
    raise ProblemError("no such folder, here or in the installation; name problem files or a folder",
                       where=str(GALLERY))


def in_gallery(path: Path) -> Path:
    """The path; where it begins with ``problems`` and there is no such folder here, that of the gallery, so that what the
    documentation calls ``problems/ur5_reach.yaml`` is found from anywhere."""
    if path.parts[:1] == GALLERY.parts and not GALLERY.is_dir() and (found := gallery().joinpath(*path.parts[1:])).exists():
        return found
    return path
