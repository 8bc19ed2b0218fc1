"""What a solve in Python hands back: the certified solution, its motion by name, its pictures, and where it can be kept."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamics.errors import near
from ocp.app.face.document import Document, written_at
from ocp.app.face.expression import expr
from ocp.errors import ProblemError

if TYPE_CHECKING:
    from ocp.app.face.told import Told
    from ocp.app.files.load import LoadedProblem
    from ocp.problem import Certificate, Solution


@dataclass(frozen=True)
class Picture:
    """A picture that notebooks show; ``save(path)`` writes it."""

    name: str
    data: bytes = field(repr=False)

    def save(self, path: str | Path) -> Path:
        place = Path(path)
        place.write_bytes(self.data)
        return place

    def _repr_png_(self) -> bytes:
        return self.data


@dataclass(frozen=True)
class Pictures:
    """Pictures by name, shown one below the other in notebooks; ``save(folder)`` writes them as PNG files."""

    pictures: tuple[Picture, ...]

    def __getitem__(self, name: str) -> Picture:
        found = {picture.name: picture for picture in self.pictures}
        if name not in found:
            raise ProblemError(f"no picture named {name!r}{near(name, found)}")
        return found[name]

    def save(self, folder: str | Path) -> Path:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for picture in self.pictures:
            picture.save(place / f"{picture.name}.png")
        return place

    def __repr__(self) -> str:
        return f"Pictures: {', '.join(picture.name for picture in self.pictures)}; save(folder) writes them"

    def _repr_html_(self) -> str:
        images = {p.name: base64.b64encode(p.data).decode() for p in self.pictures}
        return "".join(f'<img alt="{name}" src="data:image/png;base64,{data}">' for name, data in images.items())


@dataclass(frozen=True)
class Page:
    """A web page without dependencies; notebooks show it, ``save(path)`` writes it."""

    html: str = field(repr=False)

    def save(self, path: str | Path) -> Path:
        place = Path(path)
        place.write_text(self.html, encoding="utf-8")
        return place

    def _repr_html_(self) -> str:
        text = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{text}" style="width:100%;height:560px;border:0" sandbox="allow-scripts"></iframe>'


@dataclass(frozen=True, repr=False)
class Result:
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
    def status(self) -> str:
        """How the solve ended, in a sentence that says what to try next."""
        return f"{self.solution.status.sentence} {self.solution.message}".strip()

    @property
    def objective(self) -> float:
        return self.solution.objective

    @property
    def certificate(self) -> Certificate | None:
        """The evidence: every check beside its tolerance; None where none could be made."""
        return self.solution.certificate

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
            raise ProblemError("the phases have different systems; take one of result.solution.parts", where=written_at())
        text, system = str(name), found[0].phase.system
        if text[:3] in ('q["', 'v["'):
            text = f"{text[0]}.{text[3:-2]}"
        if text.startswith('tau["'):
            return "u", system.inputs.index(text[5:-2])
        if text in system.space.names:
            return "x", system.space.names.index(text)
        if text in system.inputs:
            return "u", system.inputs.index(text)
        raise ProblemError(f"no state or control named {text!r}{near(text, self.names)}", where=written_at())

    def __getitem__(self, name: Any) -> np.ndarray:
        """A state at ``t``, or a control at ``solution.trajectory.t_u``."""
        which, column = self._column(name)
        found: np.ndarray = getattr(self.solution.trajectory, which)[:, column]
        return found

    def __call__(self, name: Any, times: Any) -> np.ndarray:
        """A state or control at any times, as the method itself interpolates."""
        which, column = self._column(name)
        path = self.solution.trajectory
        found: np.ndarray = np.asarray((path.state if which == "x" else path.control)(times))[..., column]
        return found

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

    # ---- pictures -----------------------------------------------------------------------------------------------------
    def plot(self) -> Pictures:
        """States, controls, constraints, certificate and convergence."""
        from ocp.app.pages.plots import plot_run

        return Pictures(tuple(Picture(name, data) for name, data in plot_run(self.solution).items()))

    def animate(self) -> Page:
        """The motion as a page that plays it. Raises ProblemError where there is nothing to draw."""
        from ocp.app.pages.report import environment, motion
        from ocp.app.pipeline import picture

        scene, note = picture(self.loaded, self.solution)
        if scene is None:
            raise ProblemError(note, where=written_at())
        template = environment().get_template("animation.html.j2")
        return Page(template.render(title=self.solution.problem.name, **motion(scene, note)))

    def report(self) -> Page:
        """The whole report: verdict, figures, tables, pictures and the motion."""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            return Page((self.save(Path(folder) / "run") / "report.html").read_text(encoding="utf-8"))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the run folder that ``ocp solve`` writes: problem, trajectory, summary, pictures, report."""
        from ocp.app.files.portable import portable
        from ocp.app.pages.results import write_run
        from ocp.app.pipeline import picture, provenance

        scene, note = picture(self.loaded, self.solution)
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
        found: np.ndarray = self.policy.K
        return found

    def sensitivities(self) -> Any:
        """How the optimum moves with its start state and parameters (``ocp.shooting.sensitivity.Sensitivities``); of iLQR."""
        from ocp.shooting.sensitivity import sensitivities

        return sensitivities(self.solution)

    def explain(self) -> Told:
        """Why it was not solved (what to relax and by how much, what is not finite and where), or what its constraints cost."""
        import tempfile

        from ocp.app.face.told import explained

        with tempfile.TemporaryDirectory() as folder:
            return explained(self.save(Path(folder) / "run"))

    # ---- looks --------------------------------------------------------------------------------------------------------
    def __repr__(self) -> str:
        from ocp.app.pages.results import with_bar

        verdict = "certified" if self.ok else "NOT certified"
        lines = [f"{self.solution.problem.name}: {verdict}, {self.solution.method}, objective {with_bar(self.solution)}, "
                 f"{self.duration:.6g} s, {len(self.solution.iterations)} iterations in {self.seconds['solve']:.2f} s"]
        if not self.ok:
            failures = () if self.certificate is None else self.certificate.failures
            lines += [f"  {self.status}", *(f"  fails: {words}" for words in failures)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ocp.app.face.tables import result_table

        return result_table(self)


@dataclass(frozen=True, repr=False)
class ClosedLoopResult:
    """A run in closed loop. loop: the record of ``ocp.mpc``, with everything."""

    loaded: LoadedProblem
    loop: Any
    seconds: dict[str, float]

    @property
    def ok(self) -> bool:
        """Whether the run reached its end and the solver never failed."""
        return bool(self.loop.ok)

    @property
    def policy(self) -> Any:
        """The feedback policy along the closed loop: ``policy(t, x) -> u``, gains ``policy.K`` [n, nu, ndx] at the samples."""
        from ocp.app.mpc.folder import arrays
        from ocp.app.policy import along

        return along(self.loop.problem, arrays(self.loop))

    def __getitem__(self, name: Any) -> np.ndarray:
        """A state at the samples ``loop.t`` [n+1], or a control that acts from each of them [n]."""
        text, system = str(name), self.loop.problem.phase.system
        if text[:3] in ('q["', 'v["'):
            text = f"{text[0]}.{text[3:-2]}"
        text = text[5:-2] if text.startswith('tau["') else text
        for values, names in ((self.loop.x, system.space.names), (self.loop.u, system.controls)):
            if text in names:
                return np.asarray(values)[:, names.index(text)]
        names = (*system.space.names, *system.controls)
        raise ProblemError(f"no state or control named {text!r}{near(text, names)}", where=written_at())

    def plot(self) -> Pictures:
        """Tracking, states, controls and step times."""
        from ocp.app.mpc.figures import plot_loop

        return Pictures(tuple(Picture(name, data) for name, data in plot_loop(self.loop).items()))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder that ``ocp mpc`` writes."""
        from ocp.app.mpc.folder import FORMAT, write
        from ocp.app.pages.folders import new_folder

        with new_folder(Path(folder), overwrite, FORMAT) as partial:
            write(self.loaded, self.loop, partial, self.seconds, ["ocp.Problem.mpc"])
        return Path(folder)

    def __repr__(self) -> str:
        times = self.loop.times
        return (f"{self.loop.problem.name}: {self.loop.ending.value} {times.steps} steps, cost {self.loop.cost:.6g}, median step "
                f"{times.median * 1e6:.0f} us, {times.missed} late of {times.deadline * 1e3:.3g} ms, {self.loop.failures} failures")


def solved(document: Document, *, guess: Result | str | Path | None, verbose: bool) -> Result:
    """Compile, solve, certify."""
    from dataclasses import replace

    from ocp.app.pages.iterations import iteration_table
    from ocp.certify import Tolerances
    from ocp.methods import solve

    begin = time.perf_counter()
    loaded = document.load()
    if guess is not None:
        loaded = replace(loaded, problem=_started_from(loaded.problem, guess))
    read = time.perf_counter()
    with iteration_table(loaded.method, quiet=not verbose) as progress:
        solution = solve(loaded.problem, loaded.method, loaded.options_for(loaded.method), tolerances=Tolerances(**loaded.accept),
                         progress=progress if verbose else None, time_limit=loaded.time_limit)
        progress.finish(solution)
    return Result(document, loaded, solution, {"read": read - begin, "solve": time.perf_counter() - read})


def _started_from(problem: Any, guess: Result | str | Path) -> Any:
    import tempfile

    from ocp.app.motion import from_run

    if not isinstance(guess, Result):
        return from_run(problem, guess)
    from ocp.app.pages.results import write_data

    with tempfile.TemporaryDirectory() as folder:  # a run folder is what starts from earlier motions are defined by
        return from_run(problem, write_data(guess.solution, Path(folder) / "run", problem_yaml="", provenance={}))


def closed_loop(document: Document) -> ClosedLoopResult:
    """Compile and run in closed loop."""
    from ocp.app.mpc.run import run_loaded

    found = run_loaded(document.load())
    return ClosedLoopResult(found.loaded, found.loop, dict(found.seconds))
