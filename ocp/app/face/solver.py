"""Compile once, solve often, from Python: results of ``Problem.compile`` and ``Problem.vary``."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamics.errors import near
from ocp.app.batch.recipe import Range, Recipe, recipe_of
from ocp.app.batch.work import LoadedProgram
from ocp.app.face.document import Document, key_text, ordered, plain
from ocp.app.face.result import Result
from ocp.app.face.watched import LOG, Callback, logged, watched
from ocp.batch.compiled import Case, Point
from ocp.errors import ProblemError
from ocp.problem import Problem as Mathematics

if TYPE_CHECKING:
    from ocp.app.batch.run import Sweep, Table
    from ocp.app.files.load import LoadedProblem
    from ocp.problem import Solution

#: who solves many cases, by what they are
AUTO = "auto"


class CaseResult(Result):
    """The result of a case; its solution, and the document that has its values in it, are made where somebody asks for them.
    values: of the case, by path."""

    def __init__(self, base: Document, loaded: LoadedProblem, case: Case, values: Mapping[str, Any], seconds: dict[str, float]):
        vars(self).update(base=base, loaded=loaded, case=case, values=values, seconds=seconds)

    @cached_property
    def document(self) -> Document:
        """The file with the values set so far."""
        made: Document = vars(self)["base"].copy()
        for path, value in vars(self)["values"].items():
            _put(made, path, value)
        return made

    @cached_property
    def solution(self) -> Solution:
        """The solution of the last solve."""
        found: Solution = vars(self)["case"].solution
        return found

    @property
    def objective(self) -> float:
        return float(vars(self)["case"].objective)

    @property
    def point(self) -> Point | None:
        """That other cases may start from."""
        found: Point | None = vars(self)["case"].point
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _case_result, (vars(self)["base"], self.loaded, self.solution, self.point, vars(self)["values"], self.seconds)

    def alone(self) -> Result:
        """The same as the result of a problem of its own, which has the values of the case written in it."""
        return Result(self.document, self.document.load(), self.solution, self.seconds)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the run folder of this case."""
        return self.alone().save(folder, overwrite=overwrite)


def _case_result(base: Document, loaded: LoadedProblem, solution: Solution, point: Point | None, *rest: Any) -> CaseResult:
    return CaseResult(base, loaded, Case(solution.status, solution.objective, point, lambda: solution), *rest)


class Solver:
    """A problem whose program stands ready.

    values of cases go by their paths in the file, ``{"phase.start.theta": 0.1}``, or by words: ``x0={"theta": 0.1}``,
    ``goal={"theta": 3.1}``, ``parameters={"mass": 2}``, ``bounds={"force": (-5, 5)}``. Values that leave the functions of the
    problem as they are need no new program; parameters and constants have to be named to ``compile``, unless the
    problem declares them as parameters.
    """

    def __init__(self, document: Document, paths: Sequence[str]):
        """paths: what is varied, beside the parameters that the problem declares."""
        self._document, self.folder = document, document.folder
        given = document.tree.get("parameters") or {}
        free = {name for name, own in given.items() if isinstance(own, Mapping) and own.get("optimise") is not None}
        self._paths = list(dict.fromkeys((*(f"parameters.{name}" for name in given if name not in free), *paths)))
        self._recipe, self._refused = self._made(self._paths)
        if named := [path for path in paths if path in self._refused]:
            raise ProblemError("changes the structure of the program; vary it in a sweep "
                               "(Problem.sweep, ocp sweep)", where=named[0])
        self._program: LoadedProgram | None = None

    def _made(self, paths: Sequence[str]) -> tuple[Recipe, tuple[str, ...]]:
        from ocp.app.files.syntax.yaml_text import dump

        ranges = {path: _around(self._value(path)) for path in paths}
        return recipe_of(dump(ordered(self._document.tree)), self.folder, self._document.name, ranges)

    def _value(self, path: str) -> Any:
        """The value at a path. Raises ProblemError, with near misses, where nothing does."""
        from ocp.app.files.syntax.overrides import _index, _parse_path

        node: Any = self._document.tree
        at: tuple[Any, ...] = ()
        for key in _parse_path(path, path):
            if isinstance(node, list):
                key = _index(node, key, at, path)
            elif not isinstance(node, Mapping) or key not in node:
                known = list(node) if isinstance(node, Mapping) else []
                raise ProblemError(f"there is no {key!r}{near(str(key), map(str, known))}", where=path)
            node, at = node[key], (*at, key)
        if isinstance(node, Mapping) and "value" in node and at[0] == "parameters":
            return node["value"]
        return node

    @property
    def compiled(self) -> LoadedProgram:
        """The program; made when it is first needed."""
        if self._program is None:
            loaded = self._recipe.load()
            self._program = LoadedProgram(loaded, self._recipe.compile(loaded))
        return self._program

    @property
    def base(self) -> Result:
        """The solution for the values that the problem has."""
        solution = self.compiled.program.base.solution
        return Result(self._document, self.compiled.loaded, solution, {"read": 0.0, "solve": solution.seconds.get("total", 0.0)})

    def __getstate__(self) -> dict[str, Any]:
        """Without the program: it is made anew where it is needed."""
        return {**vars(self), "_program": None}

    # ---- one case -----------------------------------------------------------------------------------------------------
    def solve(self, values: Mapping[str, Any] | None = None, /, *, x0: Any = None, goal: Any = None, parameters: Any = None,
              bounds: Any = None, guess: Result | str | Path | None = None, certify: bool = True,
              callback: Callback | None = None, time_limit: float | None = None) -> CaseResult:
        """Solve a case. guess: an earlier result, or the folder of a run, to start from; default: the solution for the values that
        the problem has. certify: whether the solution gets its certificate, without which it is not ``ok``. callback: called after
        each iteration (``ocp.app.face.watched.Iterate``); the solve stops where it returns something true.

        Raises ProblemError for a path that is not there, for a value outside its bounds, and for what is no number of the program.
        """
        begin = time.perf_counter()
        if guess is not None or callback is not None or time_limit is not None:
            _check_how(guess, callback, time_limit)
        given = self.by_path(values, x0=x0, goal=goal, parameters=parameters, bounds=bounds)
        problem = self._case(given)
        compiled, start = self.compiled, guess.point if isinstance(guess, CaseResult) else None
        if guess is not None and start is None:
            problem = _with_guess(problem, guess)
        case = compiled.program.solve(problem, start, guess=guess is not None and start is None, certified=certify,
                                  progress=watched(problem, callback), time_limit=time_limit)
        if certify or LOG.isEnabledFor(logging.INFO):
            logged(case.solution)
        return CaseResult(self._document, compiled.loaded, case, given, {"read": 0.0, "solve": time.perf_counter() - begin})

    def _case(self, values: Mapping[str, Any]) -> Mathematics:
        """The problem with the values of a case; paths that come up for the first time are looked at."""
        for path, value in values.items():
            if not (_is_number(value) and math.isfinite(value)):
                raise ProblemError(f"expected a finite number, got {value!r}", where=path)
        self._learn({path: [value] for path, value in values.items() if path not in self._recipe.base})
        return self._recipe.problem(self.compiled.loaded, values)

    def _learn(self, columns: Mapping[str, Sequence[float]]) -> None:
        """Paths of numbers that need no other program. columns: values that are wanted of each."""
        if not columns:
            return
        ranges = {path: _around(self._value(path), *values) for path, values in columns.items()}
        found, left = recipe_of(self._recipe.text, self.folder, self._document.name, ranges)
        if left or found.parameters:
            path = (*left, *found.parameters)[0]
            raise ProblemError("is a constant of the compiled program; name it in compile(), or vary it in a sweep",
                               where=path)
        base = {**found.base, **self._written(found)}
        self._recipe = replace(self._recipe, base={**self._recipe.base, **base}, rates={**self._recipe.rates, **found.rates})

    def _written(self, found: Recipe) -> dict[str, float]:
        """The values of a recipe's paths that the file writes as expressions or in degrees: the problem gives
        the numbers from which they follow."""
        paths = [path for path in found.base if not _is_number(self._value(path))]
        if not paths:
            return {}
        with np.errstate(invalid="ignore"):  # bounds that are none
            off = self.compiled.loaded.numbers.values - found.load().numbers.values
        at = np.flatnonzero(np.any([found.rates[path] for path in paths], axis=0) & np.isfinite(off))
        rates = np.array([found.rates[path][at] for path in paths])
        steps = np.linalg.lstsq(rates.T, off[at], rcond=None)[0]
        return {path: found.base[path] + float(step) for path, step in zip(paths, steps, strict=True)}

    def by_path(self, values: Mapping[str, Any] | None = None, /, *, x0: Any = None, goal: Any = None, parameters: Any = None,
                bounds: Any = None) -> dict[str, float]:
        """The values of a case by their paths in the file; x0 and goal may list all states in their order."""
        tree = self._document.tree
        first, last = ("phase", "phase") if "phase" in tree else ("phases[0]", f"phases[{len(tree.get('phases', [])) - 1}]")
        found: dict[str, Any] = {}
        given_at = (f"{first}.start", "x0", x0), (f"{last}.final", "goal", goal), (f"{first}.bounds", "bounds", bounds)
        for at, word, given in given_at:
            if given is None:
                continue
            if isinstance(own := plain(given), (list, tuple)) and word != "bounds":
                own = self._by_name(word, own)
            found.update(_leaves(at, _mapping(word, own)))
        for name, value in _mapping("parameters", parameters).items():
            known = "constants" if key_text(name) in (tree.get("constants") or {}) else "parameters"
            found[f"{known}.{key_text(name)}"] = plain(value)
        found.update((str(path), plain(value)) for path, value in _mapping("values", values).items())
        return found

    def _by_name(self, word: str, values: Sequence[Any]) -> dict[str, Any]:
        """All states by name, of the first phase, or of the last."""
        names = self.compiled.loaded.problem.phases[0 if word == "x0" else -1].system.space.names
        if len(values) != len(names):
            raise ProblemError(f"needs {len(names)} values ({', '.join(names)}), got {len(values)}", where=word)
        return dict(zip(names, values, strict=True))

    # ---- many ---------------------------------------------------------------------------------------------------------
    def solve_many(self, table: Any, *, workers: int | None = 0, by: str = AUTO, scheduler: str | None = None,
                   folder: str | Path | None = None, keep: str = "none", certify: bool = True, progress: bool = False,
                   overwrite: bool = False, processes: int | None = 0) -> Table:
        """Solve the cases of a table, each from the solution of its nearest neighbour: rows do not depend on how many work.

        table: a list of mappings of paths to values, or a mapping of paths to columns (a data frame is one). workers: how many, 0:
        this process alone, None: as many as there are processors. by: "threads", "processes" of this machine, or "auto": threads
        for cases without certificates, whose time is spent in loops that release the lock of the interpreter, else processes.
        scheduler: address of a Dask scheduler. folder: where rows are kept; the same call goes on with what a killed one left.
        progress: show a bar. processes: ``workers`` of that kind.
        """
        from ocp.app.batch.command import progress_bar
        from ocp.app.batch.run import swept
        from ocp.app.batch.workers import PROCESSES, THREADS, processors

        if by not in (known := (AUTO, THREADS, PROCESSES)):
            raise ProblemError(f"no workers named {by!r}{near(str(by), known)}", where="by")
        if processes != 0:
            workers, by = processes, PROCESSES
        count = processors() if workers is None else workers
        if not _is_number(count) or count != int(count) or count < 0:
            raise ProblemError(f"expected a number of workers, got {count!r}", where="workers")
        kind = by if by != AUTO else PROCESSES if certify else THREADS
        sweep = self._sweep(table, keep, certify)
        programs = {} if sweep.recipe is None else {sweep.recipe.key: self.compiled}
        with progress_bar(len(sweep.cases), not progress) as tell:
            return swept(sweep, None if folder is None else Path(folder), processes=count, scheduler=scheduler, overwrite=overwrite,
                         tell=tell, by=kind, programs=programs)

    def _sweep(self, table: Any, keep: str, certify: bool) -> Sweep:
        """The cases of a table, by the program of the solver where that takes all of their values."""
        from ocp.app.batch.run import KEEP, Sweep
        from ocp.app.files.syntax.yaml_text import dump

        if keep not in KEEP:
            raise ProblemError(f"keeps none, all, failed or best; got {keep!r}{near(str(keep), KEEP)}", where="keep")
        rows = [self.by_path(row) for row in rows_of(table)]
        for number, row in enumerate(rows):
            for path, value in row.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise ProblemError(f"row {number}: expected a finite number, got {value!r}", where=path)
        paths = tuple(dict.fromkeys(path for row in rows for path in row))
        known = {path: self._value(path) for path in paths}
        cases = tuple(tuple(row.get(path, known[path]) for path in paths) for row in rows)
        columns = dict(zip(paths, zip(*cases, strict=True), strict=True))
        recipe = None
        if all(_is_number(value) for case in cases for value in case):
            with suppress(ProblemError):  # what is structure has a program for each value
                self._learn({path: values for path, values in columns.items() if path not in self._recipe.base})
                recipe = self._recipe
        return Sweep(dump(ordered(self._document.tree)), str(Path(self.folder).resolve()), self._document.name, paths, cases, keep,
                     certify, recipe=recipe)

    def __repr__(self) -> str:
        return f"Solver of {self._document.tree['name']!r}: {', '.join(self._recipe.base) or 'nothing varied yet'}"


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a table as mappings."""
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        table = {name: list(table[name]) for name in table.columns}
    if isinstance(table, Mapping):
        columns = {name: list(column) for name, column in table.items()}
        if len({len(column) for column in columns.values()}) > 1:
            raise ProblemError(f"columns of different lengths: {', '.join(f'{n} {len(c)}' for n, c in columns.items())}",
                               where="solve_many")
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows = list(table) if isinstance(table, Iterable) else [table]
    if not all(isinstance(row, Mapping) for row in rows):
        raise ProblemError("expected a list of mappings of paths to values, or a mapping of paths to columns", where="solve_many")
    return [dict(row) for row in rows]


def _mapping(word: str, values: Any) -> Mapping[Any, Any]:
    if values is not None and not isinstance(values, Mapping):
        raise ProblemError(f"expected a mapping of names to values, got {values!r}", where=word)
    return values or {}


def _check_how(guess: Any, callback: Any, time_limit: Any) -> None:
    """Raise ProblemError for what says nothing about how to solve."""
    for word, given, right, wanted in (
            ("guess", guess, isinstance(guess, (Result, str, Path)), "a result or the folder of a run"),
            ("callback", callback, callable(callback), "a function"),
            ("time_limit", time_limit, isinstance(time_limit, (int, float)) and time_limit > 0, "seconds above zero")):
        if given is not None and not right:
            raise ProblemError(f"expected {wanted}, got {given!r}", where=word)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _around(*values: Any) -> Range:
    """A range with the first number among values as its base."""
    numbers = [float(value) for value in values if _is_number(value)]
    if not numbers:
        raise ProblemError(f"{values[0]!r} is not a number")
    low, high = min(numbers), max(numbers)
    if low == high:
        high = low + 0.1 * (abs(low) or 1.0)
    return Range(low, high, numbers[0])


def _leaves(path: str, values: Any) -> Iterable[tuple[str, Any]]:
    """Numbers below a path."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            word = str(name) if str(name).isidentifier() else f'"{name}"'
            yield from _leaves(f"{path}.{word}", value)
    elif isinstance(values, (list, tuple)):
        for i, value in enumerate(values):
            yield from _leaves(f"{path}[{i}]", value)
    else:
        yield path, values


def _put(document: Document, path: str, value: Any) -> None:
    from ocp.app.files.syntax.overrides import changed
    from ocp.app.files.syntax.yaml_source import Source

    if path.startswith("parameters.") and isinstance(document.tree["parameters"].get(path.split(".")[1]), Mapping):
        path += ".value"
    source = changed(Source(document.name, "", document.tree, document.entries, document.origins), path, value, path)
    document.tree, document.entries, document.origins = source.tree, source.entries, dict(source.origins)


def _with_guess(problem: Mathematics, guess: Result | str | Path) -> Mathematics:
    from ocp.app.runs import from_run
    from ocp.guesses.motion import from_solution

    if isinstance(guess, Result):
        return from_solution(problem, guess.solution)
    return from_run(problem, guess)
