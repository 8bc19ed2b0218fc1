"""A study of many cases, carried out: rows to the journal as they come, the table, and what an interruption leaves."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ocp.app.batch.schedule import Memory, Task, Tell, scheduled
from ocp.app.batch.store import Store, holds, table
from ocp.app.batch.work import LoadedProgram
from ocp.app.batch.workers import PROCESSES, workers
from ocp.batch.compiled import Point
from ocp.errors import ProblemError


class Study(Protocol):
    """What is to be done, as pure data. paths: of what is varied; keeps_points: whether points stay in the folder."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the varied values."""

    @property
    def keeps_points(self) -> bool:
        """Whether optimal points are saved."""

    def values(self) -> Sequence[Mapping[str, Any]]:
        """By path, of every case."""
        ...

    def head(self) -> dict[str, Any]:
        """Identity of the study."""
        ...

    def plan(self, runs: str) -> tuple[np.ndarray, Callable[[int, Point | None], Task]]:
        """(the parent of every case, its task from number and point); runs: the folder of runs that are kept, "" for none."""
        ...

    def further(self, parent: np.ndarray, done: Mapping[int, Mapping[str, Any]]) -> np.ndarray | None:
        """Once all of these cases are done, with these rows: the parents of them and of more, or None."""
        ...

    def finish(self, store: Store) -> None:
        """Finish the folder after the last case."""


@dataclass(frozen=True)
class Table:
    """The results, one row a case, and their folder; measured: what differs from run to run, by case."""

    rows: list[dict[str, Any]] = field(repr=False)
    folder: Path | None = None
    points: Mapping[int, Point] = field(default_factory=dict, repr=False)
    measured: Mapping[int, Mapping[str, float]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> list[Any]:
        """A column."""
        if self.rows and name not in self.rows[0]:
            from dynamics.errors import near

            raise ProblemError(f"no column named {name!r}{near(name, self.rows[0])}")
        return [row[name] for row in self.rows]

    @property
    def ok(self) -> bool:
        """Whether every case is certified."""
        return all(row["ok"] for row in self.rows)

    def best(self) -> dict[str, Any] | None:
        """The certified row of the smallest objective; None without any."""
        certified = [row for row in self.rows if row["ok"] and row["objective"] is not None]
        return min(certified, key=lambda row: (row["objective"], row["case"])) if certified else None


def swept(study: Study, out: Path | None = None, *, processes: int = 1, scheduler: str | None = None, overwrite: bool = False,
          tell: Tell | None = None, by: str = PROCESSES, programs: Mapping[str, LoadedProgram] | None = None) -> Table:
    """Do the cases of a study that its folder has not yet; without a folder all of them, in memory. processes: how many, 0: this
    one works alone; by: threads in their place; programs: that stand ready, by the keys of their recipes.

    Raises ProblemError for an unknown path or value, for a folder of another study, and where a scheduler is gone;
    KeyboardInterrupt, after writing the table of what is done, and OSError of a full disk, both with what to do.
    """
    values = study.values()
    runs = "" if out is None else str((out / "runs").resolve())
    # what cannot be planned leaves a folder as it is
    plan = None if out is not None and holds(out, study.head()) else study.plan(runs)
    store = None if out is None else Store(out, study.head(), overwrite)
    ledger: Store | Memory = Memory() if store is None else store
    try:
        if len(ledger.done) < len(values):
            parent, task = plan or study.plan(runs)
            with workers(processes, scheduler, by, programs) as who:
                scheduled(parent, task, ledger, who, tell)
                while (more := study.further(parent, ledger.done)) is not None:
                    scheduled(parent := more, task, ledger, who, tell)
        if store is not None:
            store.close(study.paths, values, study.keeps_points)
            study.finish(store)
    except KeyboardInterrupt:
        if store is not None and store.done:
            store.close(study.paths, values, True)
        raise KeyboardInterrupt(f"interrupted: {_left(ledger.done, values, out)}") from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(error.errno, f"{error.strerror}: {_left(ledger.done, values, out)}", error.filename) from None
    finally:
        if store is not None:
            store.leave()
    points = ledger.points if isinstance(ledger, Memory) else {}
    return Table(table(study.paths, values, ledger.done), out, points, ledger.measured)


def _left(done: Mapping[int, Any], values: Sequence[Any], out: Path | None) -> str:
    kept = "" if out is None else f" and kept in {out}; the same command goes on with the others"
    return f"{len(done)} of {len(values)} cases are done{kept}"
