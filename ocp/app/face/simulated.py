"""What a simulation in Python hands back."""

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

    def __getitem__(self, name: Any) -> np.ndarray:
        """A state at ``t`` [k], or a control as it is held over each step [k less the number of phases]."""
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
        raise ProblemError("run and policy are given together; take one of them", where=written_at())
    if policy == MPC:
        document.tree.setdefault("mpc", {})
    loaded, words = document.load(), [f"{name}={value!r}" for name, value in controls.items()]
    if policy == MPC or (policy is None and run is None):
        problem, driven = choose(loaded, words, None, None if policy is None else MPC)
    else:
        with as_run(policy or run or "") as folder:
            problem, driven = choose(loaded, words, folder if policy is None else None, None if policy is None else str(folder))
    said = loaded.simulate
    return Simulated(loaded, simulate(problem, integrator or said.integrator, driven, dt=dt or said.dt, until=until or said.until))
