"""Whole-body control in Python: a file is run, and what came of it is handed back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamics.errors import near
from ocp.app.face.document import written_at
from ocp.app.face.shown import Shown, as_printed, column
from ocp.errors import ProblemError

if TYPE_CHECKING:
    from ocp.app.pages.scene import Scene
    from ocp.app.wbc.folder import Outcome


class WholeBody:
    """A file of whole-body control (``ocp init ROBOT --wbc`` writes one). changes: keys by path, ``**{"wbc.duration": 1}``.

    Raises ProblemFileError with all that is wrong in the file, each with its place.
    """

    def __init__(self, file: str | Path, /, **changes: Any):
        import json

        from ocp.app.files.wbc_file import load_wbc

        written = {path: value if isinstance(value, str) else json.dumps(value) for path, value in changes.items()}
        self.loaded = load_wbc(file, written)

    def run(self, plant: str | None = None, /) -> WholeBodyResult:
        """Run it in closed loop against ``"hybrid"``, our simulator of events, or ``"mujoco"``; default: what the file says."""
        from ocp.app.prepare import tell, waiting_for
        from ocp.app.wbc.run import run_loaded

        if plant not in (None, "hybrid", "mujoco"):
            raise ProblemError(f"no plant named {plant!r}{near(str(plant), ('hybrid', 'mujoco'))}", where=written_at())
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

    def __getitem__(self, name: Any) -> np.ndarray:
        """A state at ``t`` [n+1] (``q.base.px`` of a floating base), or the torque of a motor ``tau["joint"]`` [n]."""
        from ocp.app.files.robot_state import alias
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
