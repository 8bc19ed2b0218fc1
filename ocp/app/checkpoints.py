"""Run folders before their solve has ended: what they hold from the start, checkpoints, and going on from one.

A run folder is made before the solve: ``problem.yaml``, the files that it names, and ``unfinished.json``, which says that the rest
is still to come. Checkpoints go to ``checkpoint.npz``. When the solve ends, the finished run takes the place of the folder as a
whole; it keeps a checkpoint unless the method converged. A folder that holds an earlier run is left alone until there is a
checkpoint to replace it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dynamics.errors import near
from ocp.app import supervisor
from ocp.app.files.load import LoadedProblem, load_text
from ocp.app.files.problem.portable import Portable
from ocp.app.pages import folders
from ocp.app.pages.results import REPORT, read_summary
from ocp.app.runs import from_run
from ocp.errors import ProblemError
from ocp.interrupts import Activity
from ocp.problem import SOLVED, Solution, Status
from ocp.problem.checkpoint import Checkpoint
from ocp.problem.finding import Finding, Kind

#: seconds after which something half-written belongs to no process that still writes
ABANDONED = 600.0


@dataclass
class Started:
    """A run folder while its solve goes on; ``last`` is the latest checkpoint, None before the first."""

    target: Path
    portable: Portable
    made: list[Path] = field(default_factory=list)  # folders made at the start, innermost first
    last: Checkpoint | None = None

    def begin(self, *, overwrite: bool) -> None:
        """Make the folder of a run whose solve is about to begin, unless an earlier run is there. Whoever calls abandons it where
        this, or what comes after it, ends early. Raises ProblemError for a folder that must not be touched."""
        target = self.target
        folders.check_target(target, overwrite, folders.FORMAT)
        try:
            _clean(target)
            if not target.exists() or not any(target.iterdir()):
                self.made = [folder for folder in (target, *target.parents) if not folder.exists()] or [target]
                target.mkdir(parents=True, exist_ok=True)
                self._write(target)
            elif not os.access(target.parent, os.W_OK):
                raise PermissionError(errno.EACCES, "the folder around it cannot be written")
        except OSError as error:
            raise ProblemError(f"cannot write a run there: {error.strerror or error}; name another folder (--out)",
                               where=str(target)) from error

    def keep(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, in place of the one before, never half."""
        if not self.made and self.last is None:
            with folders.new_folder(self.target, True, folders.FORMAT) as partial:
                self._write(partial)
                folders.write_arrays(partial / folders.CHECKPOINT, checkpoint)
        else:
            partial = self.target / f".{folders.CHECKPOINT}.{uuid.uuid4().hex[:8]}"
            folders.write_arrays(partial, checkpoint)
            os.replace(partial, self.target / folders.CHECKPOINT)
        self.last = checkpoint

    def replaces(self, folder: Path) -> None:
        """The finished run goes there, and the folder of its solve is not needed any more."""
        if folders.is_unfinished(self.target):
            shutil.rmtree(self.target, ignore_errors=True)
        self.target, self.made = folder, []

    def abandon(self) -> None:
        """After an error: leave no folder behind in which there is nothing to go on from."""
        if self.last is None and self.made:
            shutil.rmtree(self.made[0], ignore_errors=True)
            for folder in self.made[1:]:
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()

    def _write(self, folder: Path) -> None:
        (folder / "problem.yaml").write_text(self.portable.text, encoding="utf-8")
        for name, data in self.portable.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        record = {"format": folders.FORMAT, "process": os.getpid()}
        (folder / folders.UNFINISHED).write_text(json.dumps(record) + "\n", encoding="utf-8")


class SoFar:
    """The last answer so far of a solve that may be killed, as a run of its own beside the folder of the solve."""

    def __init__(self, started: Started, write: Callable[[Portable, Solution, Path], Path]):
        self.started, self.write = started, write
        self.last: Path | None = None

    def __call__(self, solution: Solution) -> None:
        target, before = self.started.target.absolute(), self.last
        self.last = target.with_name(f".{target.name}.so-far-{uuid.uuid4().hex[:8]}")
        self.write(self.started.portable, _as_left(solution), self.last)
        supervisor.report(so_far=(str(self.last), str(target)))
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)

    def remove(self) -> None:
        """Delete the last checkpoint."""
        if self.last is not None:
            shutil.rmtree(self.last, ignore_errors=True)


def _as_left(solution: Solution) -> Solution:
    """A solution as it is handed back where the process is killed: nothing comes after it."""
    left = [Finding(Kind.LEFT_OUT, name=str(activity), data={"parts": (), "by": "limit"})
            for activity in (Activity.CERTIFICATE, Activity.ERROR_BOUND, Activity.PICTURES)]
    found = [one for one in solution.findings if one.kind is not Kind.STOPPED_IN]
    ending = Finding(Kind.CERTIFICATE_MISSING) if solution.status in SOLVED else solution.ending
    return replace(solution, status=Status.TIME_LIMIT, ending=ending, findings=(*found, *left))


def free_folder(target: Path) -> Path:
    """Where to write a run that goes on from that in a folder: beside it where that is certified, for it may come to less."""
    if not is_certified(target):
        return target
    names = (f"{target.name}-resumed{number}" for number in ("", *(f"-{k}" for k in range(2, 1000))))
    beside = (target.with_name(name) for name in names)
    return next(place for place in beside if not place.exists() or folders.is_unfinished(place)
                or (folders.is_run(place) and not is_certified(place)))


def is_certified(folder: Path) -> bool:
    """Whether a folder holds a run whose certificate holds."""
    return folders.is_run(folder) and bool(read_summary(folder).get("ok"))


def _clean(target: Path) -> None:
    """Remove what killed runs left: a folder in which a solve neither ended nor made a checkpoint, and half-written folders and
    files beside and in it that nobody has touched for a while."""
    if folders.is_abandoned(target):
        shutil.rmtree(target)
    for left in [*target.parent.glob(f".{target.name}.partial-*"), *target.glob(f".{folders.CHECKPOINT}.*")]:
        if time.time() - left.stat().st_mtime > ABANDONED:
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def load_resumable(folder: str | Path, overrides: Mapping[str, str] | None = None) -> tuple[LoadedProblem, Checkpoint | None]:
    """The problem of a run folder, with changes, and the checkpoint to go on from; None where the solve had ended and only its
    certificate or its report was cut short: then the motion that it found is the guess.

    Raises ProblemError where there is no run, or nothing in it to go on from.
    """
    place = Path(folder)
    if not place.is_dir():
        beside = [p.name for p in place.parent.iterdir() if p.is_dir()] if place.parent.is_dir() else []
        raise ProblemError(f"no such folder{near(place.name, beside)}", where=str(place))
    if not folders.is_run(place) and not folders.is_unfinished(place):
        raise ProblemError(f"is not the folder of a run (neither summary.json nor {folders.UNFINISHED} written by lieocp)",
                           where=str(place))
    if ended := not (place / folders.CHECKPOINT).is_file():
        if not folders.is_run(place):
            raise ProblemError("nothing to resume: the solve ended before its first checkpoint; solve its problem.yaml instead",
                               where=str(place))
        status = read_summary(place)["status"]["name"]  # cut short, it lacks its whole certificate or its report
        if status not in (Status.INTERRUPTED.name, Status.TIME_LIMIT.name) and (place / REPORT).is_file():
            raise ProblemError("nothing to resume: " + (
                f"the method converged; to solve again with other options: ocp solve {place / 'problem.yaml'}"
                if status == Status.CONVERGED.name else f"the run ({status}) left no iterate to continue from"), where=str(place))
    text = (place / "problem.yaml").read_text(encoding="utf-8")
    loaded = load_text(text, place, str(place / "problem.yaml"), overrides)
    if ended:
        return replace(loaded, problem=from_run(loaded.problem, place)), None
    return loaded, folders.read_arrays(place / folders.CHECKPOINT)
