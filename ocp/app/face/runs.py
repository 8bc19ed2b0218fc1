"""Results of closed loops, simulations and whole-body control in Python, and the whole-body runs of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocp.app.face.document import Document, written_at
from ocp.app.face.shown import Shown, as_printed, column
from ocp.errors import ProblemError

if TYPE_CHECKING:
    from ocp.app.face.result import Result
    from ocp.app.files.load import LoadedProblem
    from ocp.app.pages.scene import Scene
    from ocp.app.simulate.folder import Found
    from ocp.app.wbc.folder import Outcome
    from ocp.mpc.controller import Controller


@dataclass(frozen=True, repr=False)
class ClosedLoopResult(Shown):
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
        from ocp.app.runs import loop_policy

        return loop_policy(self.loop.problem, arrays(self.loop))

    @property
    def t(self) -> np.ndarray:
        """Times [n+1] of the samples in seconds."""
        return self.loop.t

    def __getitem__(self, name: object) -> np.ndarray:
        """A state at ``t`` [n+1], or a control that acts from each of them [n]."""
        system = self.loop.problem.phase.system
        which, index = column(name, system.space.names, system.controls)
        return np.asarray(self.loop.x if which == "x" else self.loop.u)[:, index]

    def _title(self) -> str:
        return str(self.loop.problem.name)

    def _pictures(self) -> Mapping[str, bytes]:
        from ocp.app.mpc.folder import plot_loop

        return plot_loop(self.loop)

    def _scene(self) -> tuple[Scene | None, str]:
        from ocp.app.mpc.folder import loop_scene

        return loop_scene(self.loaded, self.loop)

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

    def _repr_html_(self) -> str:
        from ocp.app.mpc.run import print_outcome

        return as_printed(lambda console: print_outcome(self.loop, self.seconds, None, console))


def closed_loop(document: Document) -> ClosedLoopResult:
    """Compile and run in closed loop."""
    from ocp.app.mpc.run import run_loaded
    from ocp.app.prepare import tell, waiting

    loaded = document.load()
    tell(waiting(loaded, "ilqr"))
    found = run_loaded(loaded)
    return ClosedLoopResult(found.loaded, found.loop, dict(found.seconds))


def controller_of(document: Document, safe: Any) -> Controller:
    """Compile the controller of the section ``mpc``; names of states as files say them."""
    from ocp.app.files.robot.states import aliases
    from ocp.app.prepare import tell, waiting
    from ocp.mpc.controller import controller
    from ocp.mpc.options import solver_options

    loaded = document.load()
    tell(waiting(loaded, "ilqr"))
    system = loaded.problem.phases[0].system
    names: dict[str, str] = {}
    for prefix in () if system.model is None else ("q.", "v."):
        names |= aliases(system.model, system.space.names, prefix)
    names |= {f'{name[0]}["{name[2:]}"]': names.get(name, name) for name in (*system.space.names, *names) if name[1:2] == "."}
    solver = solver_options(loaded.problem, loaded.mpc.options, {**loaded.options_for("ilqr"), **loaded.mpc.ilqr})
    return controller(loaded.problem, loaded.mpc.options, solver, safe=safe, names=names)


@dataclass(frozen=True, repr=False)
class Simulated(Shown):
    """A motion under given controls. ``motion["x"]`` is a state at ``t``; motion: the record of ``ocp.simulation``, with all."""

    loaded: LoadedProblem = field(repr=False)
    motion: Any = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether the motion reached its end."""
        return bool(self.motion.ok)

    @property
    def t(self) -> np.ndarray:
        """Times [k] in seconds, both sides of a jump among them."""
        return self.motion.t

    def __getitem__(self, name: object) -> np.ndarray:
        """A state at ``t`` [k], or a control, constant over each step [k less the number of phases]."""
        columns = []
        for leg in self.motion.legs:
            system = leg.phase.system
            which, index = column(name, system.space.names, system.controls)
            columns.append(np.asarray(leg.x if which == "x" else leg.u)[:, index])
        return np.concatenate(columns)

    @cached_property
    def found(self) -> Found:
        """Energies, drift of constraints, costs and violations along the motion (``ocp.app.simulate.folder.Found``)."""
        from ocp.app.simulate.folder import find

        return find(self.motion, why="steps half as long were not tried")

    def _title(self) -> str:
        return str(self.motion.problem.name)

    def _pictures(self) -> Mapping[str, bytes]:
        from ocp.app.simulate.findings import as_solution
        from ocp.app.simulate.folder import plot_motion

        return plot_motion(as_solution(self.motion), self.found.energy, self.found.drift)

    def _scene(self) -> tuple[Scene | None, str]:
        from ocp.app.pipeline import picture
        from ocp.app.simulate.findings import as_solution

        return picture(self.loaded, as_solution(self.motion))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder that ``ocp simulate`` writes."""
        from ocp.app.pages.folders import new_folder
        from ocp.app.simulate.folder import FORMAT, write

        with new_folder(Path(folder), overwrite, FORMAT) as partial:
            write(self.loaded, self.found, partial, ["ocp.Problem.simulate"])
        return Path(folder)

    def __repr__(self) -> str:
        return (f"{self.motion.problem.name}: {self.motion.steps} steps of {self.motion.integrator}, {self.t[-1]:.6g} s, "
                f"{self.motion.ending.value} {self.motion.message}").rstrip()

    def _repr_html_(self) -> str:
        from ocp.app.simulate.run import print_found

        return as_printed(lambda console: print_found(self.found, None, console))


def simulated(document: Document, integrator: str | None, dt: float | None, until: float | None, controls: Mapping[str, float],
              run: Result | str | Path | None, policy: Result | str | Path | None) -> Simulated:
    """Compile and move on."""
    from ocp.app.face.result import as_run
    from ocp.app.simulate.controls import MPC, choose
    from ocp.simulation import simulate

    if run is not None and policy is not None:
        raise ProblemError("give either run or policy, not both", where=written_at())
    if policy == MPC:
        document.tree.setdefault("mpc", {})
    loaded, words = document.load(), [f"{name}={value!r}" for name, value in controls.items()]
    if policy == MPC or (policy is None and run is None):
        problem, driven = choose(loaded, words, None, None if policy is None else MPC)
    else:
        with as_run(policy or run or "") as folder:
            problem, driven = choose(loaded, words, folder if policy is None else None, None if policy is None else str(folder))
    said = loaded.simulate
    return Simulated(loaded, simulate(problem, integrator or said.integrator, driven, dt=dt or said.dt, until=until or said.until,
                                      charts_by=said.charts))


class WholeBody:
    """A file of whole-body control (``ocp init ROBOT --wbc`` writes one). changes: keys by path, ``**{"wbc.duration": 1}``.

    Raises ProblemFileError with all errors of the file, each with its location.
    """

    def __init__(self, file: str | Path, /, **changes: Any):
        import json

        from ocp.app.files.control.wbc import load_wbc

        written = {path: value if isinstance(value, str) else json.dumps(value) for path, value in changes.items()}
        self.loaded = load_wbc(file, written)

    def run(self, plant: str | None = None, /) -> WholeBodyResult:
        """Run it in closed loop against ``"hybrid"``, our simulator of events, ``"mujoco"``, or a registered plant; default: that
        of the file."""
        from ocp.app.prepare import tell, waiting_for
        from ocp.app.wbc.run import run_loaded

        tell(waiting_for(("whole-body control",) if self.loaded.setup.tasks else ()))
        return WholeBodyResult(run_loaded(self.loaded, plant or ""))

    def __repr__(self) -> str:
        file = self.loaded.file
        return f"WholeBody {file.name!r}: {len(file.contacts)} contacts, {len(file.tasks)} tasks, {len(file.schedule)} events"


@dataclass(frozen=True, repr=False)
class WholeBodyResult(Shown):
    """A run. ``result["q.knee"]`` is a state at ``t``; outcome: the record with everything, ``outcome.run`` that of ``ocp.wbc``."""

    outcome: Outcome = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether every step was solved, and equations, cones and torque limits were kept."""
        return bool(self.outcome.ok)

    @property
    def t(self) -> np.ndarray:
        """Times [n+1] of the control steps in seconds."""
        return self.outcome.run.t

    def __getitem__(self, name: object) -> np.ndarray:
        """A state at ``t`` [n+1] (``q.base.px`` of a floating base), or the torque of a motor ``tau["joint"]`` [n]."""
        from ocp.app.files.robot.states import alias
        from ocp.bridge import model_space

        run, model, text = self.outcome.run, self.outcome.loaded.mechanism.model, str(name)
        if text[:2] in ("q.", "v."):
            text = text[:2] + alias(model, text[2:])
        which, index = column(text, model_space(model).names, run.driven)
        return np.asarray(run.x if which == "x" else run.torque)[:, index]

    @property
    def errors(self) -> Mapping[str, np.ndarray]:
        """Size of the error of each task at the control steps [n]; NaN where it is off."""
        return self.outcome.run.errors

    def _title(self) -> str:
        return self.outcome.loaded.file.name

    def _pictures(self) -> Mapping[str, bytes]:
        from ocp.app.wbc.figures import plot_run

        return plot_run(self.outcome.run)

    def _scene(self) -> tuple[Scene | None, str]:
        from ocp.app.wbc.folder import scene

        return scene(self.outcome)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder that ``ocp wbc`` writes."""
        from ocp.app.pages.folders import new_folder
        from ocp.app.wbc.folder import FORMAT, write

        with new_folder(Path(folder), overwrite, FORMAT) as partial:
            write(self.outcome, partial, ["ocp.WholeBody.run"])
        return Path(folder)

    def __repr__(self) -> str:
        from ocp.app.wbc.folder import verdict

        return f"{self.outcome.loaded.file.name}: {verdict(self.outcome)}"

    def _repr_html_(self) -> str:
        from ocp.app.wbc.run import print_outcome

        return as_printed(lambda console: print_outcome(self.outcome, None, console))
