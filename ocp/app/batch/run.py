"""A sweep: which cases, by which programs, from which neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from typing import Any

import numpy as np

from ocp.app.batch.plan import Axis
from ocp.app.batch.recipe import Range, Recipe, grouped, recipe_of
from ocp.app.batch.schedule import Task
from ocp.app.batch.store import Store, table
from ocp.app.batch.study import Table, swept
from ocp.app.batch.work import START, Work, read, solved_from
from ocp.app.files.syntax.overrides import _parse_path
from ocp.batch.compiled import Point
from ocp.batch.order import parents
from ocp.batch.starts import MISSING, MOST, centres, optima, round_size, unseen
from ocp.errors import ProblemError

#: a multi-start of so many starts as it takes
AUTO = "auto"
KEEP = ("none", "all", "failed", "best")


@dataclass(frozen=True)
class Sweep:
    """What is to be solved, as pure data. text, folder, name: of the file; paths, cases: values of every case; keep: which runs
    become folders; certified: whether certificates are made; search: whether cases are the starts of a search in rounds
    (``ocp.batch.starts``), as many as there can be; recipe: of the program that solves all cases, where that is known."""

    text: str
    folder: str
    name: str
    paths: tuple[str, ...]
    cases: tuple[tuple[Any, ...], ...]
    keep: str = "none"
    certified: bool = True
    search: bool = False
    recipe: Recipe | None = None

    @property
    def keeps_points(self) -> bool:
        """Of a search, whose best case is solved again from its point."""
        return self.search

    def values(self) -> list[dict[str, Any]]:
        """The varied values of every case by path."""
        return [dict(zip(self.paths, row, strict=True)) for row in self.cases]

    def head(self) -> dict[str, Any]:
        """Identity of the sweep."""
        more: dict[str, Any] = {"search": True} if self.search else {}
        more |= {} if self.recipe is None else {"program": self.recipe.text}
        return {"file": self.name, "text": self.text, "paths": list(self.paths), "cases": [list(row) for row in self.cases],
                "units": self.units, "keep": self.keep, "certified": self.certified, **more, "lieocp": metadata.version("lieocp")}

    @cached_property
    def units(self) -> dict[str, str]:
        """Units of the varied values by path, where the file says them: those of the state or control that a path names."""
        try:
            systems = [phase.system for phase in read(self.text, self.folder, self.name, {}).problem.phases]
        except ProblemError:
            return {}
        known = {"duration": "s"} | {name: unit for own in reversed(systems) for name, unit in own.units.items()}

        def unit(keys: Sequence[Any]) -> str:  # of a joint that has a motor: of its angle, its rate, or its torque
            kinds = ("v.",) if "velocities" in keys else ("",) if "controls" in keys else ("q.", "")
            return next((known[name] for key in reversed(keys) for kind in kinds if (name := f"{kind}{key}") in known), "")

        return {path: found for path in self.paths if (found := unit(_parse_path(path, path)))}

    def plan(self, runs: str) -> tuple[np.ndarray, Callable[[int, Point | None], Task]]:
        """Raises ProblemError where the file takes no case."""
        values = self.values()
        course, keep = _course(self, values), self.keep if self.keep in ("all", "failed") else ""
        first = course.parent[:round_size(MISSING)] if self.search else course.parent
        return first, lambda number, point: Work(number, values[number], self.text, self.folder, self.name,
                                                 course.recipes[number], point, keep, runs, self.certified)

    def further(self, parent: np.ndarray, done: Mapping[int, Mapping[str, Any]]) -> np.ndarray | None:
        """The next round of a search."""
        if not self.search:
            return None
        found = np.repeat(rounds([done[k] for k in range(len(parent))]), round_size(MISSING))
        return found if len(found) > len(parent) else None

    def finish(self, store: Store) -> None:
        """Keep the run of the best case, where that is asked for."""
        best = Table(table(self.paths, self.values(), store.done)).best() if self.keep == "best" else None
        runs = store.folder / "runs"
        if best is not None and not (runs / f"{best['case']:06d}").exists():
            number = best["case"]
            values, recipe, point = self.values()[number], None, store.point(number) if self.search else None
            if point is not None:
                values, recipe = {START: 0}, _course(self, [values, values]).recipes[0]
            Work(number, values, self.text, self.folder, self.name, recipe, point, "all", str(runs), True).solved()


@dataclass
class _Course:
    """Of every case the recipe, None where it shares that with no other, and the one that it starts from."""

    recipes: list[Recipe | None]
    parent: np.ndarray


def _course(sweep: Sweep, values: Sequence[Mapping[str, Any]]) -> _Course:
    """The recipe and the neighbour of every case. Raises ProblemError where the file takes none of them."""
    paths = [path for path in sweep.paths if path != START]
    ranges = grouped(paths, [[own[path] for path in paths] for own in values])
    if sweep.recipe is not None:
        at = np.array([[float(own[path]) for path in paths] for own in values]).reshape(len(values), len(paths))
        return _Course([sweep.recipe] * len(values), parents(at, np.zeros(len(values))))
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
    groups = np.array([f"alone {n}" if recipe is None or own.get(START) else recipe.key
                       for n, (recipe, own) in enumerate(zip(recipes, values, strict=True))])
    if all(recipe is None for recipe in recipes):
        _check_readable(sweep, values)
    used = {path for recipe in recipes if recipe is not None for path in recipe.base}
    for path in paths:
        if path not in used:
            _check_read(sweep, values, path)
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


def _check_read(sweep: Sweep, values: Sequence[Mapping[str, Any]], path: str) -> None:
    """Raise ProblemError where no solve reads a path: with all values of the others, its own give the same problem and options."""
    ways = list({repr(own[path]): own[path] for own in values}.values())
    if len(ways) == 1:
        return
    for group in _alike(values, [other for other in sweep.paths if other != path]):
        try:
            found = (solved_from(read(sweep.text, sweep.folder, sweep.name, {**values[group[0]], path: way})) for way in ways)
            if (first := next(found)) and any(one != first for one in found):
                return
        except ProblemError:
            return
    raise ProblemError("has no effect: the problem, the method and its options are the same for all of its values", where=path)


def rounds(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The case around whose solution each round of a search has its starts, those of a further one included; -1: the guess."""
    return centres([row["objective"] if row["ok"] else None for row in rows], MISSING, MOST)


def told_search(rows: Sequence[Mapping[str, Any]]) -> str:
    """The record of a search and how it ended."""
    size, done = round_size(MISSING), rounds(rows)
    told = f"{len(rows)} starts in rounds of {size}, the first around the guess, each other around the best optimum before it."
    if len(rows) < size * len(done):
        return f"{told} The search is not over."
    if len(rows) + size > MOST:
        return f"{told} It ended at its most, {MOST} starts."
    last = [row["objective"] if row["ok"] else None for row in rows[-size:]]
    return (f"{told} None of the last {size} was better: less than {MISSING:.0%} of starts there are estimated to lead to a better "
            f"optimum, and {unseen(last):.0%} to any that they have not led to (Good 1953).")


def local_optima(rows: Sequence[Mapping[str, Any]], tolerance: float = 1e-4) -> list[dict[str, Any]]:
    """The different certified optima of a multi-start, best first: objectives that agree are one. objective, how many starts came
    there, the first of these."""
    found = optima([row["objective"] if row["ok"] else None for row in rows], tolerance)
    return [{"objective": one.objective, "starts": len(one.starts), "case": rows[one.starts[0]]["case"]} for one in found]


def axes_of_starts(axes: Sequence[Axis], starts: int | str) -> tuple[Axis, ...]:
    """With the axis of a multi-start; "auto": of a search. Raises ProblemError for a search over axes."""
    if starts == AUTO:
        if axes:
            raise ProblemError(f"{AUTO} applies to a single problem; with {axes[0].path} give a number of starts", where="--starts")
        return (Axis(START, tuple(range(MOST))),)
    assert isinstance(starts, int)
    return (*axes, Axis(START, tuple(range(starts)))) if starts > 1 else tuple(axes)


__all__ = ["KEEP", "Sweep", "Table", "axes_of_starts", "local_optima", "swept"]
