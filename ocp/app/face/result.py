"""The result of a solve in Python: the certified solution, its motion by name, its pictures, and the run folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocp.app.face.document import Document, written_at
from ocp.app.face.expression import expr
from ocp.app.face.shown import Shown, column
from ocp.errors import ProblemError

if TYPE_CHECKING:
    from ocp.app.face.shown import Explanation
    from ocp.app.face.watched import Callback
    from ocp.app.files.load import LoadedProblem
    from ocp.app.pages.scene import Scene
    from ocp.problem import Certificate, Finding, Solution, Status


@dataclass(frozen=True, repr=False)
class Result(Shown):
    """A solve, certified. ``result["x"]`` is a state or control at the knots, ``result("x", t)`` anywhere.

    solution: the record of ``ocp.problem``, with everything; loaded: the compiled problem; seconds: of reading and of solving.
    """

    document: Document = field(repr=False)
    loaded: LoadedProblem = field(repr=False)
    solution: Solution = field(repr=False)
    seconds: dict[str, float] = field(repr=False)

    # ---- verdict ------------------------------------------------------------------------------------------------------
    @property
    def ok(self) -> bool:
        """Whether the certificate holds."""
        return self.solution.ok

    @property
    def status(self) -> Status:
        """How the solve ended, by name: ``result.status == "CONVERGED"``; of use beside :attr:`ok`, which asks the certificate."""
        return self.solution.status

    @property
    def ending(self) -> str:
        """How the solve ended, in words that say what to try next."""
        from ocp.app import sentences

        return sentences.ending(self.solution)

    @property
    def objective(self) -> float:
        """The objective."""
        return self.solution.objective

    @property
    def certificate(self) -> Certificate | None:
        """The evidence: every check beside its tolerance; None where none could be made."""
        return self.solution.certificate

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the solution and its search, as data: first what of the certificate fails, then the rest.

        Each has its ``kind`` (``ocp.problem.Kind``), phase, name, component, time [s], value beside its tolerance, and ``data``;
        ``ocp.app.sentences.sentence`` puts it in words.
        """
        failures = () if self.certificate is None else self.certificate.failures
        return (*failures, *self.solution.findings)

    @property
    def duration(self) -> float:
        """How long the motion takes [s]."""
        t = self.solution.trajectory.t
        return float(t[-1] - t[0])

    @property
    def chosen(self) -> dict[str, float]:
        """Parameters that the solver chose."""
        from ocp.app.pages.legs import chosen, legs

        return chosen(self.solution.problem, legs(self.solution))[1]

    # ---- motion -------------------------------------------------------------------------------------------------------
    @property
    def t(self) -> np.ndarray:
        """Times of the knots [N+1] in seconds."""
        return self.solution.trajectory.t

    @property
    def names(self) -> tuple[str, ...]:
        """States, then controls and algebraic unknowns."""
        from ocp.app.pages.legs import legs, union

        found = [leg.phase.system for leg in legs(self.solution)]
        return union([s.space.names for s in found] + [s.inputs for s in found])

    def _column(self, name: Any) -> tuple[str, int]:
        from ocp.app.pages.legs import alike, legs

        found = legs(self.solution)
        if not alike(found):
            raise ProblemError("the phases have different systems; use one of result.solution.parts", where=written_at())
        system = found[0].phase.system
        return column(name, system.space.names, system.inputs)

    def __getitem__(self, name: Any) -> np.ndarray:
        """A state at ``t``, or a control at ``solution.trajectory.t_u``."""
        which, column = self._column(name)
        return getattr(self.solution.trajectory, which)[:, column]

    def __call__(self, name: Any, times: Any) -> np.ndarray:
        """A state or control at any times, as the method itself interpolates."""
        which, column = self._column(name)
        path = self.solution.trajectory
        return np.asarray((path.state if which == "x" else path.control)(times))[..., column]

    def value(self, expression: Any, times: Any = None) -> np.ndarray:
        """Any expression of the problem along the motion (of its first phase): [k] of a scalar, [k, n] of a vector.

        times: default: the knots.
        """
        document, text = self.document.copy(), expression if isinstance(expression, str) else expr(expression).text
        at = ("phases", 0) if "phases" in document.tree else ("phase",)
        document.append((*at, "constraints"), {"name": "__value__", "expression": text, "lower": -1e300})
        phase = document.load().problem.phases[0]
        function = next(c.function for c in phase.constraints if c.name == "__value__")
        path = self.solution.parts[0] if self.solution.parts else self.solution.trajectory
        when = np.atleast_1d(path.t if times is None else np.asarray(times, dtype=float))
        given = self.solution.problem.phases[0].system.parameter_values
        rows = [np.asarray(function(s, path.state(s), path.control(s), given)).ravel() for s in when]
        found = np.array(rows)
        return found[:, 0] if found.shape[1] == 1 else found

    # ---- looks --------------------------------------------------------------------------------------------------------
    def _title(self) -> str:
        return self.solution.problem.name

    def _pictures(self) -> Mapping[str, bytes]:
        from ocp.app.pages.plots import plot_run

        return plot_run(self.solution)

    def _scene(self) -> tuple[Scene | None, str]:
        from ocp.app.pipeline import picture

        return picture(self.loaded, self.solution)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the run folder that ``ocp solve`` writes: problem, trajectory, summary, pictures, report."""
        from ocp.app.files.problem.portable import portable
        from ocp.app.pages.results import write_run
        from ocp.app.pipeline import provenance

        scene, note = self._scene()
        alone = portable(self.loaded, self.solution.method)
        record = provenance(self.loaded.model, ["ocp.Problem.solve"])
        return write_run(self.solution, folder, problem_yaml=alone.text, provenance=record, overwrite=overwrite, scene=scene,
                         scene_note=note, files=alone.files)

    # ---- what follows -------------------------------------------------------------------------------------------------
    @property
    def policy(self) -> Any:
        """The feedback policy of a solve by iLQR: ``policy(t, x) -> u``, gains ``policy.K`` [N, nu, ndx]."""
        from ocp.shooting.export import policy

        return policy(self.solution)

    @property
    def gains(self) -> np.ndarray:
        """Feedback gains K [N, nu, ndx] of a solve by iLQR."""
        return self.policy.K

    def sensitivities(self) -> Any:
        """How the optimum moves with its start state and parameters (``ocp.shooting.sensitivity.Sensitivities``); of iLQR."""
        from ocp.shooting.sensitivity import sensitivities

        return sensitivities(self.solution)

    def explain(self) -> Explanation:
        """Why it was not solved (what to relax and by how much, what is not finite and where), or what its constraints cost."""
        from ocp.app.face.shown import explained

        return explained(self.save, "run")

    def __repr__(self) -> str:
        from ocp.app.pages.results import with_bar
        from ocp.app.sentences import sentences

        verdict = "certified" if self.ok else "NOT certified"
        lines = [f"{self.solution.problem.name}: {verdict}, {self.solution.method}, objective {with_bar(self.solution)}, "
                 f"{self.duration:.6g} s, {len(self.solution.iterations)} iterations in {self.seconds['solve']:.2f} s"]
        if not self.ok:
            failures = () if self.certificate is None else sentences(self.certificate.failures)
            lines += [f"  {self.ending}", *(f"  fails: {words}" for words in failures)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ocp.app.face.shown import as_printed
        from ocp.app.pages.summary import print_outcome
        from ocp.app.pipeline import Outcome

        done = Outcome(self.loaded, self.solution, None, {**self.seconds, "write": 0.0})
        return as_printed(lambda console: print_outcome(done, console))


def solved(document: Document, *, guess: Result | str | Path | None, verbose: bool, callback: Callback | None = None) -> Result:
    """Compile, solve, certify."""
    from dataclasses import replace

    from ocp.app.face.watched import logged, watched
    from ocp.app.pages.iterations import iteration_table
    from ocp.app.prepare import tell, waiting
    from ocp.app.runs import from_run
    from ocp.certify import Tolerances
    from ocp.methods import solve

    begin = time.perf_counter()
    loaded = document.load()
    if guess is not None:
        with as_run(guess) as folder:
            loaded = replace(loaded, problem=from_run(loaded.problem, folder))
    read = time.perf_counter()
    tell(waiting(loaded, loaded.method))
    with iteration_table(loaded.method, quiet=not verbose) as progress:
        solution = solve(loaded.problem, loaded.method, loaded.options_for(loaded.method), tolerances=Tolerances(**loaded.accept),
                         progress=watched(loaded.problem, callback, progress if verbose else None), time_limit=loaded.time_limit,
                         without=loaded.without)
        progress.finish(solution)
    logged(solution)
    return Result(document, loaded, solution, {"read": read - begin, "solve": time.perf_counter() - read})


@contextmanager
def as_run(run: Result | str | Path) -> Iterator[Path]:
    """The folder of a run, which is what everything that goes on from earlier motions reads; of a result for as long as needed."""
    import tempfile

    from ocp.app.files.problem.portable import portable
    from ocp.app.pages.results import write_data

    if not isinstance(run, Result):
        yield Path(run)
        return
    alone = portable(run.loaded, run.solution.method)
    with tempfile.TemporaryDirectory() as folder:
        yield write_data(run.solution, Path(folder) / "run", problem_yaml=alone.text, provenance={}, files=alone.files)
