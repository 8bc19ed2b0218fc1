"""One case as pure data, and what a worker makes of it: a row of the table, and the point that neighbours start from.

A case is solved by the program of its recipe, from the point of a neighbour; where that comes to no certified answer, it is solved
like a file of its own. Programs are kept by each worker, and made from the recipe alone, so that results depend on no other case.

Of threads, each has its own programs; what builds or reads, and solvers with a state of the process, go one at a time.
"""

from __future__ import annotations

import copy
import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ocp.app.batch.recipe import Recipe
from ocp.app.batch.schedule import Done
from ocp.app.files.load import LoadedProblem, load_text
from ocp.app.sentences import ending, sentences
from ocp.batch.compiled import ALONE, Compiled, Point
from ocp.batch.starts import started
from ocp.certify import Tolerances
from ocp.errors import ProblemError, UnsupportedError
from ocp.guesses.motion import from_solution
from ocp.methods import solve
from ocp.problem import Solution, Status
from ocp.problem.numbers import numbers_of, structure_of

T = TypeVar("T")
#: programs that a worker keeps
PROGRAMS = 8
#: the axis of a multi-start; its value is the seed of ``ocp.batch.starts``, 0 for the guess
START = "start"
#: how a row came about
BY_PROGRAM, BY_SEARCH, REFUSED, LOST = "program", "search", "refused", "lost"


@dataclass(frozen=True)
class Work:
    """number: of the case; values: of all paths, as the file reads them; text, folder, name: of the file; recipe: of its program,
    None where it shares that with no other; point: of the neighbour, None where there is none; keep: which runs are kept as folders
    in ``runs``, "all", "failed" or "" (none); certified: whether certificates are made."""

    number: int
    values: Mapping[str, Any]
    text: str
    folder: str
    name: str
    recipe: Recipe | None = None
    point: Point | None = None
    keep: str = ""
    runs: str = ""
    certified: bool = True

    def solved(self) -> Done:
        """The row of the case; errors of the file become rows."""
        begin = time.perf_counter()
        try:
            solution, by, point, loaded = _solved(self)
            if solution.status is Status.INTERRUPTED:  # which is not what became of the case
                raise KeyboardInterrupt
            row = row_of(solution, by)
        except (ProblemError, ArithmeticError) as error:  # of the user's values; anything else is ours, and ends the sweep
            row, point, solution = refused_row(error), None, None
        if solution is not None and (self.keep == "all" or self.keep == "failed" and not solution.ok):
            _write(self, loaded, solution)
        return Done(self.number, row, time.perf_counter() - begin, point)

    def prepare(self) -> None:
        """Make the program of the case, or what says why there is none."""
        with suppress(ProblemError):
            if self.recipe is not None:
                program_of(self.recipe)


@dataclass(frozen=True)
class LoadedProgram:
    loaded: LoadedProblem
    program: Compiled


Made = LoadedProgram | ProblemError
#: programs of this process, or why there are none, each for the thread that made it
_MADE: OrderedDict[str, tuple[int, Made]] = OrderedDict()
#: those of a thread; other threads than the one that made a program have a copy
_OWN = threading.local()


def _solved(work: Work) -> tuple[Solution, str, Point | None, LoadedProblem]:
    start = int(work.values.get(START, 0))
    if work.recipe is not None:
        kept = program_of(work.recipe)
        problem = work.recipe.problem(kept.loaded, work.values)
        if start and work.point is not None:  # a search goes on around another solution
            problem = from_solution(problem, kept.program.solve(problem, work.point, certified=False).solution)
        case = kept.program.solve(started(problem, start), work.point, guess=bool(start), certified=work.certified,
                                  time_limit=kept.loaded.time_limit)
        if case.solution.ok or not work.certified:
            return case.solution, BY_PROGRAM, case.point, kept.loaded
    with ALONE:
        loaded = read(work.text, work.folder, work.name, work.values)
        found = solve(started(loaded.problem, start), loaded.method, loaded.options_for(loaded.method),
                      tolerances=Tolerances(**loaded.accept), time_limit=loaded.time_limit, without=loaded.without)
    return found, BY_SEARCH, None, loaded


def program_of(recipe: Recipe) -> LoadedProgram:
    """The program of a recipe, made once in each process; every thread has its own."""
    own: OrderedDict[str, Made] = vars(_OWN).setdefault("programs", OrderedDict())
    if recipe.key not in own:
        with ALONE:
            if recipe.key not in _MADE:
                adopt(recipe.key, _made(recipe))
            thread, found = _MADE[recipe.key]
            own[recipe.key] = found if thread == threading.get_ident() else copy.deepcopy(found)
    found = _touch(own, recipe.key)
    if isinstance(found, ProblemError):
        raise found
    return found


def _made(recipe: Recipe) -> Made:
    try:
        loaded = recipe.load()
        return LoadedProgram(loaded, recipe.compile(loaded))
    except ProblemError as error:
        return error


def adopt(key: str, made: Made) -> None:
    """Let the cases of a recipe be solved by a program of this thread, by its key."""
    _MADE[key] = threading.get_ident(), made
    _touch(_MADE, key)


def _touch(programs: OrderedDict[str, T], key: str) -> T:
    programs.move_to_end(key)
    while len(programs) > PROGRAMS:
        programs.popitem(last=False)
    return programs[key]


def row_of(solution: Solution, by: str) -> dict[str, Any]:
    """Entries of a solution in the table."""
    failures = solution.findings if solution.certificate is None else solution.certificate.failures
    failures = () if solution.ok else failures
    ended = () if solution.ending is None or solution.ok else (solution.ending,)
    t = solution.trajectory.t
    chosen = {solution.problem.phases[k].system.parameters[i]: solution.problem.phases[k].system.parameter_values[i]
              for k in range(len(solution.problem.phases)) for i, _, _ in solution.problem.phases[k].free_parameters}
    worst = "" if solution.ok else "; ".join((ending(solution), *sentences(failures)))
    return {"status": solution.status.name, "ok": solution.ok, "objective": finite(solution.objective),
            "duration": finite(float(t[-1] - t[0])), "iterations": len(solution.iterations), "by": by,
            "findings": json.dumps([str(one.kind) for one in (*ended, *failures)]), "message": worst,
            **{f"chosen.{name}": finite(value) for name, value in chosen.items()}}


def refused_row(error: Exception) -> dict[str, Any]:
    """Of a case that could not be begun."""
    return empty_row("UNSUPPORTED" if isinstance(error, UnsupportedError) else "REFUSED", REFUSED, str(error))


def empty_row(status: str, by: str, message: str) -> dict[str, Any]:
    """Of a case that has no solution."""
    return {"status": status, "ok": False, "objective": None, "duration": None, "iterations": 0, "by": by, "findings": "[]",
            "message": message}


def finite(value: float) -> float | None:
    """The number; None for what is not finite."""
    return float(value) if math.isfinite(value) else None


def read(text: str, folder: str, name: str, values: Mapping[str, Any]) -> LoadedProblem:
    """The file with the values of a case."""
    texts = {path: value if isinstance(value, str) else json.dumps(value) for path, value in values.items() if path != START}
    return load_text(text, folder, name, texts, "case")


def solved_from(loaded: LoadedProblem) -> tuple[Any, ...]:
    """The inputs of a solution: files that agree in them have the same solution."""
    problem, options = loaded.problem, loaded.options_for(loaded.method)
    guesses = [array.tobytes() for phase in problem.phases for array in (phase.guess.s, phase.guess.x, phase.guess.u)]
    return (structure_of(problem), numbers_of(problem).tobytes(), *guesses, loaded.method, repr((options, loaded.accept)),
            loaded.time_limit, loaded.without)


def _write(work: Work, loaded: LoadedProblem, solution: Solution) -> None:
    """The run as ``ocp solve`` writes it, without pictures."""
    from ocp.app.files.problem.portable import portable
    from ocp.app.pipeline import write_run_data

    own = read(work.text, work.folder, work.name, work.values)
    place = Path(work.runs) / f"{work.number:06d}"
    place.parent.mkdir(parents=True, exist_ok=True)
    write_run_data(own, ["ocp", "sweep"], portable(own, own.method), replace(solution, freeze=solution.freeze), place)


