"""A sweep: which cases, by which programs, from which neighbours; rows to the journal as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ocp.app.batch.plan import Axis
from ocp.app.batch.recipe import Range, Recipe, grouped, recipe_of
from ocp.app.batch.store import Store, table
from ocp.app.batch.work import START, Done, Work, done, read
from ocp.app.batch.workers import workers
from ocp.batch.compiled import Point
from ocp.batch.order import parents
from ocp.batch.starts import optima
from ocp.errors import ProblemError

KEEP = ("none", "all", "failed", "best")
#: told after every case: cases that are done, of which certified, and all
Tell = Callable[[int, int, int], Any]


@dataclass(frozen=True)
class Sweep:
    """What is to be solved, as pure data. text, folder, name: of the file; paths, cases: values of every case; keep: which runs
    become folders; certified: whether certificates are made."""

    text: str
    folder: str
    name: str
    paths: tuple[str, ...]
    cases: tuple[tuple[Any, ...], ...]
    keep: str = "none"
    certified: bool = True

    def values(self) -> list[dict[str, Any]]:
        return [dict(zip(self.paths, row, strict=True)) for row in self.cases]

    def head(self) -> dict[str, Any]:
        """What tells a sweep from others."""
        return {"file": self.name, "text": self.text, "paths": list(self.paths), "cases": [list(row) for row in self.cases],
                "keep": self.keep, "certified": self.certified, "lieocp": metadata.version("lieocp")}


@dataclass(frozen=True)
class Table:
    """The results of a sweep, one row a case, and their folder."""

    rows: list[dict[str, Any]] = field(repr=False)
    folder: Path | None = None
    points: Mapping[int, Point] = field(default_factory=dict, repr=False)

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
        certified = [row for row in self.rows if row["ok"]]
        return min(certified, key=lambda row: (row["objective"], row["case"])) if certified else None


def swept(sweep: Sweep, out: Path | None = None, *, processes: int = 1, scheduler: str | None = None, overwrite: bool = False,
          tell: Tell | None = None) -> Table:
    """Solve the cases of a sweep that its folder has not yet; without a folder all of them, in memory.

    Raises ProblemError for an unknown path or value, for a folder of another sweep, and where a scheduler is gone.
    """
    values = sweep.values()
    store = None if out is None else Store(out, sweep.head(), overwrite)
    try:
        rows: dict[int, dict[str, Any]] = {} if store is None else store.done
        if len(rows) < len(values):
            _run(sweep, values, store, rows, processes, scheduler, tell)
        if store is not None:
            store.close(sweep.paths, values)
            _keep_best(sweep, store)
    finally:
        if store is not None:
            store.leave()
    return Table(table(sweep.paths, values, rows), out)


@dataclass
class _Course:
    """Of every case the recipe, None where it shares that with no other, and the one that it starts from; points in memory."""

    recipes: list[Recipe | None]
    parent: np.ndarray
    points: dict[int, Point] = field(default_factory=dict)


def _run(sweep: Sweep, values: Sequence[Mapping[str, Any]], store: Store | None, rows: dict[int, dict[str, Any]], processes: int,
         scheduler: str | None, tell: Tell | None) -> None:
    course = _course(sweep, values)
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(course.parent.tolist()):
        children.setdefault(parent, []).append(number)

    def point_of(number: int) -> Point | None:
        """Of the nearest ancestor that is solved."""
        at = int(course.parent[number])
        while at >= 0:
            found = course.points.get(at) or (None if store is None else store.point(at))
            if found is not None:
                return found
            at = int(course.parent[at])
        return None

    with workers(processes, scheduler) as (who, count):
        ready, running = list(children.get(-1, [])), 0

        def over(one: Done) -> None:
            if store is not None:
                store.add(one)
            else:
                rows[one.number] = one.row
                if one.point is not None:
                    course.points[one.number] = one.point
            ready.extend(children.get(one.number, []))
            if tell is not None:
                tell(len(rows), sum(bool(row["ok"]) for row in rows.values()), len(values))

        while ready or running:
            while ready and running < 2 * count:
                number = ready.pop(0)
                if number in rows:
                    ready.extend(children.get(number, []))
                else:
                    keep = "all" if sweep.keep == "all" else "failed" if sweep.keep == "failed" else ""
                    who.submit(Work(number, values[number], sweep.text, sweep.folder, sweep.name, course.recipes[number],
                                    point_of(number), keep, "" if store is None else str((store.folder / "runs").resolve()),
                                    sweep.certified))
                    running += 1
            for one in who.finished(1.0) if running else ():
                running -= 1
                over(one)


def _course(sweep: Sweep, values: Sequence[Mapping[str, Any]]) -> _Course:
    """The recipe and the neighbour of every case. Raises ProblemError where the file takes none of them."""
    paths = [path for path in sweep.paths if path != START]
    ranges = grouped(paths, [[own[path] for path in paths] for own in values])
    recipes: list[Recipe | None] = [None] * len(values)
    known: set[str] = set()  # paths that were structure in one group most likely are in others

    def assign(group: list[int], inner: Mapping[str, Range]) -> None:
        if len(group) == 1 or not (inner or START in sweep.paths):
            return
        recipe, left = _recipe(sweep, values[group[0]], inner, paths)
        if not left:
            for number in group:
                recipes[number] = recipe
            return
        known.update(left)
        for own in _alike(values, left, group):
            assign(own, {path: pair for path, pair in inner.items() if path not in left})

    for group in _alike(values, [path for path in paths if path not in ranges]):
        for own in _alike(values, [path for path in ranges if path in known], group):
            assign(own, {path: pair for path, pair in ranges.items() if path not in known})
    at = np.array([[float(own[path]) for path in ranges] for own in values]).reshape(len(values), len(ranges))
    groups = np.array([f"alone {n}" if recipe is None else recipe.key for n, recipe in enumerate(recipes)])
    if all(recipe is None for recipe in recipes):
        _check_readable(sweep, values)
    return _Course(recipes, parents(at, groups))


def _recipe(sweep: Sweep, own: Mapping[str, Any], ranges: Mapping[str, Range], paths: Sequence[str]
            ) -> tuple[Recipe | None, tuple[str, ...]]:
    """The recipe of cases that differ from one in these paths alone, and which of them are structure; None where the file does not
    take all of the ranges, so that every case has to be read by itself."""
    structure = {path: own[path] for path in paths if path not in ranges}
    try:
        recipe, left = recipe_of(sweep.text, sweep.folder, sweep.name, ranges, structure)
    except ProblemError:
        return None, tuple(ranges)
    return (recipe, left) if recipe.base or START in sweep.paths else (None, left)


def _alike(values: Sequence[Mapping[str, Any]], paths: Sequence[str], among: Sequence[int] | None = None) -> list[list[int]]:
    """Cases with the same values of some paths, in order."""
    found: dict[str, list[int]] = {}
    for number in range(len(values)) if among is None else among:
        found.setdefault(repr([values[number][path] for path in paths]), []).append(number)
    return list(found.values())


def _check_readable(sweep: Sweep, values: Sequence[Mapping[str, Any]]) -> None:
    """Raise the ProblemError of the first case where the file takes neither that, nor the one in the middle, nor the last."""
    first: ProblemError | None = None
    for own in (values[0], values[len(values) // 2], values[-1]):
        try:
            read(sweep.text, sweep.folder, sweep.name, own)
        except ProblemError as error:
            first = first or error
        else:
            return
    assert first is not None
    raise first


def _keep_best(sweep: Sweep, store: Store) -> None:
    """The run of the best case as a folder."""
    best = Table(table(sweep.paths, sweep.values(), store.done)).best() if sweep.keep == "best" else None
    if best is None or (store.folder / "runs" / f"{best['case']:06d}").exists():
        return
    number = best["case"]
    done(Work(number, sweep.values()[number], sweep.text, sweep.folder, sweep.name, None, None, "all",
              str(store.folder / "runs"), True))


def local_optima(rows: Sequence[Mapping[str, Any]], tolerance: float = 1e-4) -> list[dict[str, Any]]:
    """The different certified optima of a multi-start, best first: objectives that agree are one. objective, how many starts came
    there, the first of these."""
    found = optima([row["objective"] if row["ok"] else None for row in rows], tolerance)
    return [{"objective": one.objective, "starts": len(one.starts), "case": rows[one.starts[0]]["case"]} for one in found]


def axes_of_starts(axes: Sequence[Axis], starts: int) -> tuple[Axis, ...]:
    """With the axis of a multi-start."""
    return (*axes, Axis(START, tuple(range(starts)))) if starts > 1 else tuple(axes)


__all__ = ["KEEP", "Sweep", "Table", "axes_of_starts", "local_optima", "swept"]
