"""The table of methods, and the one road from a problem to a certified solution."""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynamics.errors import near
from ocp.certify import Tolerances, certify
from ocp.conclusion import conclude
from ocp.errors import ProblemError, UnsupportedError
from ocp.problem import Problem, Solution
from ocp.problem.checkpoint import Checkpoint, Keep

Progress = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Method:
    """A method by the places of its three parts; they are imported on use, so that one method never pays for another.

    ``solve(problem, options, progress, checkpoint, resume)`` in ``solver``; the options dataclass and
    ``unsupported(problem)`` and ``finer(options, solution)`` in ``options``. judged: whether the solver takes ``judge=``, which
    certifies a solution on the way.
    """

    name: str
    summary: str
    solver: str
    options_module: str
    options_name: str
    judged: bool = False

    def options_type(self) -> Any:
        return getattr(importlib.import_module(self.options_module), self.options_name)

    def unsupported(self, problem: Problem) -> list[str]:
        """One sentence for each thing that this method cannot enforce."""
        found: list[str] = importlib.import_module(self.options_module).unsupported(problem)
        return found

    def finer(self, options: Any, solution: Solution) -> Any:
        """Options that solve the same problem on a finer mesh than that of the solution."""
        return importlib.import_module(self.options_module).finer(options, solution)

    def run(self, problem: Problem, options: Any, progress: Progress | None, checkpoint: Keep | None = None,
            resume: Checkpoint | None = None, judged: Tolerances | None = None) -> Solution:
        given: dict[str, Any] = {}
        if self.judged:
            own = judged or Tolerances()
            given = {"judge": lambda found: certify(found, own), "allowed": (own.gap_segment, own.error_estimate)}
        solution: Solution = importlib.import_module(self.solver).solve(problem, options, progress, checkpoint, resume, **given)
        return solution


METHODS: Mapping[str, Method] = {m.name: m for m in (
    Method("collocation", "direct collocation by schemes of any degree, solved as a nonlinear program",
           "ocp.transcription.collocation", "ocp.transcription.collocation", "CollocationOptions", True),
    Method("multiple_shooting", "direct multiple shooting with any integrator, solved as a nonlinear program",
           "ocp.transcription.multiple_shooting", "ocp.transcription.multiple_shooting", "MultipleShootingOptions"),
    Method("ilqr", "iterative LQR / DDP with control bounds, compiled loops",
           "ocp.shooting.ilqr", "ocp.shooting.options", "ILQROptions"),
)}


def method(name: str) -> Method:
    """A method by name. Raises ProblemError with near misses."""
    if name not in METHODS:
        raise ProblemError(f"no method named {name!r}{near(name, METHODS)}", where="method")
    return METHODS[name]


def make_options(name: str, values: Mapping[str, Any]) -> Any:
    """The options record of a method. Raises ProblemError for an unknown key (with near misses) or a bad value."""
    kind = method(name).options_type()
    known = {field.name for field in dataclasses.fields(kind)}
    for key in values:
        if key not in known:
            raise ProblemError(f"unknown option {key!r}{near(key, known)}", where=f"solve.{name}")
    return kind(**values)


def solve(
    problem: Problem, name: str = "collocation", options: Mapping[str, Any] | Any = None, *,
    tolerances: Tolerances | None = None, progress: Progress | None = None, checkpoint: Keep | None = None,
    resume: Checkpoint | None = None,
) -> Solution:
    """Solve and certify. options: a mapping of option names, or the method's options record.

    checkpoint: called with a mapping of arrays (``ocp.problem.checkpoint``) every ten seconds, when the solve is interrupted,
    and at its end unless it converged. resume: such a mapping, of the same problem and method; the solve goes on from there.
    Iterations are numbered on, and the log of the solution has those before, too; limits of iterations count anew.

    Raises UnsupportedError, naming every constraint that the method cannot enforce and the methods that can;
    ProblemError for unknown methods and options, and for a checkpoint of another problem.
    ``solution.ok`` tells whether the answer can be trusted.
    """
    chosen = method(name)
    reasons = chosen.unsupported(problem)
    if reasons:
        able = [m.name for m in METHODS.values() if m.name != name and not m.unsupported(problem)]
        raise UnsupportedError(name, reasons, able)
    record = make_options(name, options or {}) if options is None or isinstance(options, Mapping) else options
    begin = time.perf_counter()
    solution = chosen.run(problem, record, progress, checkpoint, resume, tolerances)
    middle = time.perf_counter()
    certified = conclude(solution, record, lambda given, chosen_options: chosen.run(given, chosen_options, None), chosen.finer,
                         tolerances)
    seconds = dict(certified.seconds) | {"method": middle - begin, "certificate": time.perf_counter() - middle}
    return dataclasses.replace(certified, seconds=seconds)
