"""The scoreboard of a gallery: which files are solved, and what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ocp.app.files.schema_tasks import is_ik_tree
from ocp.app.files.schema_wbc import is_wbc_tree
from ocp.app.files.yaml_source import read_source
from ocp.errors import ProblemError

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"


@dataclass(frozen=True)
class Score:
    """One file by one method. verdict: PASS, FAIL or SKIPPED, and ``reason`` why.

    cost, reference, difference, tolerance: None where there is none; difference is relative to the reference; certificate: "holds",
    "fails" or "none", of other commands their own word; seconds: of the whole, reading included; failure: what of the certificate
    fails first
    """

    file: str
    method: str
    verdict: str
    reason: str = ""
    cost: float | None = None
    reference: float | None = None
    difference: float | None = None
    tolerance: float | None = None
    certificate: str = ""
    iterations: int | None = None
    seconds: float | None = None
    failure: str = ""


@dataclass(frozen=True)
class Scoreboard:
    """All scores so far; ``total`` is how many there are to be; complete: whether all were reached."""

    scores: tuple[Score, ...]
    total: int

    def count(self, verdict: str) -> int:
        return sum(score.verdict == verdict for score in self.scores)

    @property
    def complete(self) -> bool:
        return len(self.scores) >= self.total

    @property
    def ok(self) -> bool:
        """Whether everything was reached, nothing failed and something passed."""
        return self.complete and self.count(FAIL) == 0 and self.count(PASS) > 0

    @property
    def seconds(self) -> float:
        return sum(score.seconds or 0.0 for score in self.scores)

    @property
    def sentence(self) -> str:
        """Totals in words."""
        judged = self.count(PASS) + self.count(FAIL)
        words = f"{self.count(PASS)} of {judged} pass"
        words += f", {self.count(FAIL)} fail" if self.count(FAIL) else ""
        words += f", {self.count(SKIPPED)} skipped" if self.count(SKIPPED) else ""
        words += "" if self.complete else f"; interrupted, {self.total - len(self.scores)} not reached"
        return f"{words}; {self.seconds:.1f} s in all"


def gather(places: Sequence[Path]) -> tuple[Path, ...]:
    """All YAML files at these places, folders searched whole, in order and each once.

    Raises ProblemError for places that do not exist and for folders without any.
    """
    found: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            inside = sorted(p for p in place.rglob("*.yaml") if p.is_file())
            if not inside:
                raise ProblemError("holds no .yaml file", where=str(place))
            # those of the folder itself before those of folders in it
            found |= dict.fromkeys(sorted(inside, key=lambda p: (len(p.relative_to(place).parts), p)))
        elif place.is_file():
            found[place] = None
        else:
            raise ProblemError("there is no such file or folder; name problem files, or the folder of a gallery", where=str(place))
    return tuple(found)


NEEDS_ROBOTS = "needs the robots extra"


def not_a_problem(path: Path) -> str:
    """Why a file is not one for ``ocp verify``, in a few words; empty where it is."""
    try:
        tree: Any = read_source(path).tree
    except ProblemError:
        return ""  # what is wrong is told when it is loaded
    if is_ik_tree(tree):
        return "inverse kinematics: ocp ik"
    if is_wbc_tree(tree):
        return "whole-body control: ocp wbc"
    if isinstance(tree, dict) and "mpc" in tree:
        return "closed loop: ocp mpc"
    if "robots:" in str(tree) and not _has_robots():
        return NEEDS_ROBOTS
    return ""


def expects(path: Path) -> bool:
    """Whether a file says what must come of simulations."""
    try:
        tree: Any = read_source(path).tree
    except ProblemError:
        return False
    given = tree.get("simulate") if isinstance(tree, dict) else None
    return isinstance(given, dict) and bool(given.get("expect"))


def is_wbc(path: Path) -> bool:
    """Whether a file is one of whole-body control."""
    try:
        return is_wbc_tree(read_source(path).tree)
    except ProblemError:
        return False


def _has_robots() -> bool:
    try:
        metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        return False
    return True
