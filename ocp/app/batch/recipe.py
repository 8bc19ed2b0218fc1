"""Which values of a file are numbers of one program: found out by reading the file with other values, never by a list of keys.

A path is a *number* where other values leave the structure of the problem as it is (``ocp.problem.numbers``) and change its numbers
along a straight line. Where a value stands in functions, it is made a *parameter* of the problem: a constant becomes one, another
number gives its location to the name of one; where the file takes that, the path is a parameter. Everything else is *structure*:
each of its values has a program of its own.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ocp.app.files.load import LoadedProblem, load_tree
from ocp.app.files.syntax.overrides import _parse_path, changed
from ocp.app.files.syntax.yaml_source import Source, parse_source
from ocp.app.files.syntax.yaml_text import dump
from ocp.batch.compiled import Compiled, compiled, serves
from ocp.certify import Tolerances
from ocp.errors import ProblemError
from ocp.problem import Problem, with_parameters
from ocp.problem.numbers import numbers_of, structure_of

#: numbers that differ from a straight line by more, relative to their size, do not lie on it
STRAIGHT = 1e-9
#: values below these keys are not described by numbers and functions
UNSEEN = ("solve", "guess", "accept", "mpc", "simulate", "sweep", "system")


class Range(NamedTuple):
    """The least and the largest value of a path, and the one between for which a program is made."""

    lower: float
    upper: float
    base: float


@dataclass(frozen=True)
class Recipe:
    """A program as pure data: text of the file with the values of structure, folder of its paths; base: the value of each path of
    numbers in the text, with rates [k] of all numbers of the problem by it; parameters: names, by path, of those that are."""

    text: str
    folder: str
    name: str
    base: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, np.ndarray] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """A digest: recipes with the same one make the same program."""
        return hashlib.sha256(repr((self.text, self.folder, sorted(self.base.items()), sorted(self.parameters.items()))).encode()
                              ).hexdigest()

    def load(self) -> LoadedProblem:
        """The problem of the file, read."""
        source = parse_source(self.text, self.name)
        return load_tree(source, self.folder)

    def problem(self, loaded: LoadedProblem, values: Mapping[str, float]) -> Problem:
        """The problem with these values by path; those that are not given are as they are in the text."""
        values = {**self.base, **values}
        found, moved = loaded.problem, [path for path in self.rates if values[path] != self.base[path]]
        if moved:
            found = loaded.numbers.moved(sum(((values[path] - self.base[path]) * self.rates[path] for path in moved),
                                             loaded.numbers.values))
        given = {name: values[path] for path, name in self.parameters.items()}
        return with_parameters(found, given) if given else found

    def compile(self, loaded: LoadedProblem, progress: Any = None) -> Compiled:
        """The program, on the mesh of the solution for the values in the text."""
        return compiled(loaded.problem, loaded.method, loaded.options_for(loaded.method),
                        parameters=tuple(self.parameters.values()),
                        durations=_of_durations(loaded.problem, self.rates.values()),
                        tolerances=Tolerances(**loaded.accept), without=loaded.without, progress=progress)


def recipe_of(text: str, folder: str | Path, name: str, ranges: Mapping[str, Range],
              structure: Mapping[str, Any] | None = None) -> tuple[Recipe, tuple[str, ...]]:
    """(the recipe, paths that are structure after all). ranges: of every path that is to be a number; structure: values
    of other paths. Raises ProblemError, as reading does, for values that the file does not take."""
    source = parse_source(text, name)
    for path, value in (structure or {}).items():
        source = changed(source, path, value, _label(path, value))
    plain = source
    for path, own_range in ranges.items():
        plain = changed(plain, path, own_range.base, _label(path, own_range.base))
    load_tree(plain, folder)
    left = [path for path in ranges if not _straight(path)]
    rates: dict[str, np.ndarray] = {}
    parameters: dict[str, str] = {}
    rest = [path for path in ranges if path not in left]
    own = plain
    for path in rest:
        named = _parse_path(path, path)[0] == "parameters"
        slope = None if named else _rate(own, path, ranges[path], folder)
        if slope is not None and np.any(slope):
            rates[path] = slope
            continue
        lifted = _lifted(own, path, ranges[path].base)
        if lifted is not None and _takes(lifted[0], folder, lifted[1]):
            own, parameters[path] = lifted
        else:
            left.append(path)
    if parameters:  # the problem has other numbers now
        rates = {path: found for path in rates if (found := _rate(own, path, ranges[path], folder)) is not None}
        left += [path for path in rest if path not in rates and path not in parameters and path not in left]
    base = {path: ranges[path].base for path in (*rates, *parameters)}
    made = Recipe(dump(own.tree), str(folder), name, base, rates, parameters)
    if len(rates) > 1 and not _together(made, ranges, folder):
        return recipe_of(text, folder, name, {path: ranges[path] for path in parameters}, structure)[0], (*left, *rates)
    return made, tuple(dict.fromkeys(left))


def _label(path: str, value: Any) -> str:
    return f"{path}={value}"


def _straight(path: str) -> bool:
    """Whether problems tell all that a path says."""
    keys = _parse_path(path, path)
    return not any(key in UNSEEN and not (key == "system" and "define" in keys) for key in keys) or keys[0] == "system"


def _rate(source: Source, path: str, ends: Range, folder: str | Path) -> np.ndarray | None:
    """The derivative of all numbers by the value at a path; None where the structure changes, or they lie on no straight line."""
    at = [ends.lower, ends.upper, (ends.lower + ends.upper) / 2]  # an error at an end of the range names that end
    read = [load_tree(changed(source, path, value, _label(path, value)), folder) for value in at]
    problems = [one.problem for one in read]
    if ends.lower == ends.upper or len({structure_of(problem) for problem in problems}) > 1:
        return None
    if not serves(read[0].method, problems[0], problems[1]):
        return None
    first, last, middle = (numbers_of(problem) for problem in problems)
    with np.errstate(invalid="ignore"):
        rise = np.where(first == last, 0.0, last - first)
        bend = np.where(first == last, middle != first, abs(middle - (first + last) / 2) > STRAIGHT * (abs(first) + abs(last)))
    return None if bend.any() or not np.all(np.isfinite(rise)) else rise / (ends.upper - ends.lower)


def _lifted(source: Source, path: str, value: float) -> tuple[Source, str] | None:
    """The source with a parameter in the place of the number at a path, and the name of that."""
    keys, tree = _parse_path(path, path), copy.deepcopy(source.tree)
    known = tree.setdefault("parameters", {}) or {}
    if keys[0] == "parameters":
        return (source, str(keys[1])) if len(keys) in (2, 3) else None
    if keys[0] == "constants" and len(keys) == 2:
        name = str(keys[1])
        tree["constants"].pop(name)
        tree["parameters"] = {**known, name: value}
        if not tree["constants"]:
            del tree["constants"]
        return Source(source.name, source.text, tree, source.entries, source.origins), name
    name = next(n for i in range(len(known) + 1) if (n := f"swept_{i + 1}") not in known)
    tree["parameters"] = {**known, name: value}
    made = Source(source.name, source.text, tree, source.entries, source.origins)
    return changed(made, path, name, f"{path}={name}"), name


def _takes(source: Source, folder: str | Path, name: str) -> bool:
    """Whether the file takes it, and its problem is one in which only this parameter varies."""
    try:
        problem = load_tree(source, folder).problem
    except ProblemError:
        return False
    systems = [phase.system for phase in problem.phases if name in phase.system.parameters]
    free = any(phase.system.parameters[i] == name for phase in problem.phases for i, _, _ in phase.free_parameters)
    return bool(systems) and not free


def _together(made: Recipe, ranges: Mapping[str, Range], folder: str | Path) -> bool:
    """Whether paths of numbers act one beside the other: all at their second values at once."""
    ends = {path: ranges[path].upper for path in made.rates}
    source, loaded = parse_source(made.text, made.name), made.load()
    for path, value in ends.items():
        source = changed(source, path, value, _label(path, value))
    wanted = numbers_of(load_tree(source, folder).problem)
    found = numbers_of(made.problem(loaded, {**made.base, **ends}))
    with np.errstate(invalid="ignore"):
        same = (wanted == found) | (abs(wanted - found) <= STRAIGHT * (1 + abs(wanted)))
    return bool(np.all(same))


def _of_durations(problem: Problem, rates: Iterable[np.ndarray]) -> bool:
    """Whether numbers of durations that are fixed change."""
    if any(phase.steps is not None for phase in problem.phases):
        return False
    longer = replace(problem, phases=tuple(
        phase if phase.duration.free else replace(phase, duration=replace(phase.duration, guess=phase.duration.guess + 1.0))
        for phase in problem.phases))
    theirs = numbers_of(longer) != numbers_of(problem)
    return any(np.any(slope[theirs]) for slope in rates)


def grouped(paths: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Range]:
    """The range of every path whose values are numbers in all cases, where there are two; its base is the middle one."""
    found = {}
    for j, path in enumerate(paths):
        values = [row[j] for row in rows]
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values) and min(values) < max(values):
            found[path] = Range(float(min(values)), float(max(values)), float(sorted(values)[len(values) // 2]))
    return found
