"""What a run in closed loop in Python hands back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocp.app.face.document import Document
from ocp.app.face.shown import Shown, as_printed, column

if TYPE_CHECKING:
    from ocp.app.files.load import LoadedProblem
    from ocp.app.pages.scene import Scene


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
        from ocp.app.runs import along

        return along(self.loop.problem, arrays(self.loop))

    @property
    def t(self) -> np.ndarray:
        """Times [n+1] of the samples in seconds."""
        return self.loop.t

    def __getitem__(self, name: Any) -> np.ndarray:
        """A state at ``t`` [n+1], or a control that acts from each of them [n]."""
        system = self.loop.problem.phase.system
        which, index = column(name, system.space.names, system.controls)
        return np.asarray(self.loop.x if which == "x" else self.loop.u)[:, index]

    def _title(self) -> str:
        return str(self.loop.problem.name)

    def _pictures(self) -> Mapping[str, bytes]:
        from ocp.app.mpc.figures import plot_loop

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
