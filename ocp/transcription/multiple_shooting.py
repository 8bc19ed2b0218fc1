"""Direct multiple shooting: integrations of every interval, joined by a nonlinear program.

Sources: Bock and Plitt 1984, A multiple shooting algorithm for direct solution of optimal control problems, IFAC World Congress;
Betts 2010, Practical Methods for Optimal Control, Sec. 3.4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ocp.errors import ProblemError, UnsupportedError
from ocp.integrators import DISCRETE_TIME, MULTISTEP, STEPS
from ocp.problem import Phase, Problem
from ocp.transcription.carried import carries
from ocp.transcription.direct import unsupported
from ocp.transcription.mesh import Grid
from ocp.transcription.options import DirectOptions
from ocp.transcription.program import Transcription, build

__all__ = ["METHOD", "MultipleShootingOptions", "transcribe", "unsupported"]

METHOD = "multiple_shooting"
CONTROLS = ("held", "linear")


@dataclass(frozen=True)
class MultipleShootingOptions(DirectOptions):
    """Options of direct multiple shooting.

    integrator: any of ``ocp.integrators``, implicit ones and those that look back (bdf2, one step in an interval) included.
    steps: of the integrator in each interval.
    controls: "held" in an interval or "linear" between knots.
    """

    METHOD: ClassVar[str] = METHOD
    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {
        **DirectOptions.CHOICES, "integrator": STEPS, "controls": CONTROLS}
    MIN_COUNTS: ClassVar[Mapping[str, int]] = {**DirectOptions.MIN_COUNTS, "steps": 1}

    intervals: int = 50
    integrator: str = "rk4"
    steps: int = 1
    controls: str = "held"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.integrator in MULTISTEP and self.steps > 1:
            raise ProblemError(f"integrator {self.integrator} takes one step in an interval, because its defects span two; "
                               "use more intervals", where=f"{METHOD}.steps")

    @property
    def keeps_algebraic_unknowns(self) -> bool:
        """Whether the program has algebraic unknowns, at the points of explicit steps; implicit steps solve equations anyway, and
        eliminate the unknowns with them."""
        return carries(self.integrator)


def transcribe(problem: Problem, options: MultipleShootingOptions, grids: Sequence[Grid] | None = None,
               centres: Sequence[np.ndarray] | None = None) -> Transcription:
    """The problem, reduced, on these grids (uniform ones as the options say) as a nonlinear program, with the map back. Raises as
    ``solve`` does."""
    if reasons := unsupported(problem):
        raise UnsupportedError(METHOD, reasons, ())
    if grids is None:
        grids = tuple(_grid(phase, options) for phase in problem.phases)
    return build(problem, grids, options.how(), centres)


def _grid(phase: Phase, options: MultipleShootingOptions) -> Grid:
    if phase.steps is not None:
        return Grid(np.linspace(0.0, 1.0, phase.steps + 1), DISCRETE_TIME.name, 1, False)
    return Grid(np.linspace(0.0, 1.0, options.intervals + 1), options.integrator, options.steps, options.controls == "linear")
