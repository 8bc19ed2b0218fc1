"""What a simulation in Python hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynamics.errors import near
from ocp.app.face.document import Document, written_at
from ocp.app.face.expression import Expr
from ocp.errors import ProblemError


@dataclass(frozen=True, repr=False)
class Simulated:
    """A motion under given controls. ``motion["x"]`` is a state at ``t``; motion: the record of ``ocp.simulation``, with all."""

    motion: Any = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether the motion reached its end."""
        return bool(self.motion.ok)

    @property
    def t(self) -> np.ndarray:
        """Times [k] in seconds, both sides of a jump among them."""
        found: np.ndarray = self.motion.t
        return found

    def __getitem__(self, name: Any) -> np.ndarray:
        """A state at ``t`` [k]."""
        text = name.text if isinstance(name, Expr) else str(name)
        if text[:3] in ('q["', 'v["'):
            text = f"{text[0]}.{text[3:-2]}"
        columns = []
        for leg in self.motion.legs:
            names = leg.phase.system.space.names
            if text not in names:
                raise ProblemError(f"no state named {text!r}{near(text, names)}", where=written_at())
            columns.append(np.asarray(leg.x)[:, names.index(text)])
        return np.concatenate(columns)

    def __repr__(self) -> str:
        return (f"{self.motion.problem.name}: {self.motion.steps} steps of {self.motion.integrator}, {self.t[-1]:.6g} s, "
                f"{self.motion.ending.value} {self.motion.message}").rstrip()


def simulated(document: Document, integrator: str | None, dt: float | None, until: float | None, controls: dict[str, float]
              ) -> Simulated:
    """Compile and move on."""
    from ocp.app.simulate.controls import choose
    from ocp.simulation import simulate

    loaded = document.load()
    problem, driven = choose(loaded, [f"{name}={value!r}" for name, value in controls.items()], None, None)
    said = loaded.simulate
    return Simulated(simulate(problem, integrator or said.integrator, driven, dt=dt or said.dt, until=until or said.until))
