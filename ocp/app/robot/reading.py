"""The robot that a command names: a URDF or MJCF file, or a robot of the robots extra."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamics.errors import ModelError, near
from dynamics.mechanism import Mechanism
from ocp.app.files.load_model import COLLECTION
from ocp.errors import ProblemError

SUFFIXES = (".urdf", ".xml")
ROOTS = ("fixed", "free_flyer", "planar")


@dataclass(frozen=True)
class NamedRobot:
    """mechanism: with its drives; file: as problem files name it; path: where it lies; stem: for names; what: in words."""

    mechanism: Mechanism
    file: str
    path: Path
    root: str

    @property
    def stem(self) -> str:
        return self.file.removeprefix(COLLECTION).replace("/", "-") if self.file.startswith(COLLECTION) else self.path.stem

    @property
    def what(self) -> str:
        return self.file + (f", root {self.root}" if self.path.suffix == ".urdf" else "")


def read_robot(words: str, *, root: str | None = None) -> NamedRobot:
    """The robot that ``words`` name. Raises ProblemError and ModelError, with near misses."""
    from ocp.app.face.robot import Robot
    from ocp.app.files.load_model import robot_path

    path = Path(words)
    if path.suffix not in SUFFIXES and not words.startswith(COLLECTION):
        if path.suffix in (".yaml", ".yml"):
            raise ProblemError("is a problem file; ocp show and ocp check tell about those", where=words)
        if path.exists():
            raise ProblemError(f"expected a robot file ({', '.join(SUFFIXES)})", where=words)
        words = COLLECTION + words
    if root is not None and root not in ROOTS:
        raise ProblemError(f"no such choice{near(root, ROOTS)}", where=f"--root {root}")
    try:
        place = robot_path(words, Path())
    except ProblemError as error:
        raise ProblemError(error.message, where=words) from None
    except ModelError as error:
        if not words.startswith(COLLECTION) or path.suffix:
            raise
        raise ProblemError(f"no such file, and {error}", where=str(path)) from None
    options: dict[str, Any] = {"_written": words, **({} if root is None else {"root": root})}
    return NamedRobot(Robot(words, **options).mechanism, words, place, root or "fixed")
