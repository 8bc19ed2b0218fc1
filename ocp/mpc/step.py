"""Result of a step of a controller: its plan, and its report as data."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dynamics.errors import near
from ocp.errors import ProblemError
from ocp.mpc import evaluate
from ocp.mpc.result import Violation
from ocp.problem import Phase

Array = np.ndarray


class StepStatus(enum.Enum):
    """How a step ended; each value is a sentence."""

    NOT_BEGUN = "The controller was not reset to a state."
    SOLVED = "The plan was improved."
    STATE_OUTSIDE_BOUNDS = "The measured state lies outside its bounds; the plan leads back."
    RESTARTED = "The plan was restarted from the guess."
    SOLVER_FAILED = "The solver failed."
    STATE_NOT_FINITE = "The measured state is not finite."
    REFERENCE_NOT_FINITE = "A reference is not finite."
    TIME_REVERSED = "Time ran backwards, or is not finite."
    NOT_PREPARED = "No step was prepared for the measurement."

    @property
    def safe(self) -> bool:
        """Whether the safe control acts."""
        return self in _SAFE


_SAFE = frozenset({StepStatus.SOLVER_FAILED, StepStatus.STATE_NOT_FINITE, StepStatus.REFERENCE_NOT_FINITE,
                   StepStatus.TIME_REVERSED, StepStatus.NOT_PREPARED})


@dataclass(frozen=True)
class Plan:
    """States x [N+1, nx] at the absolute times t [N+1] and the controls u [N, nu] constant between them; parameters [np] at knot 0.
    ``plan["name"]``: the column of a state or control."""

    phase: Phase = field(repr=False)
    t: Array
    x: Array
    u: Array
    parameters: Array

    def __getitem__(self, name: str) -> Array:
        system = self.phase.system
        for values, names in ((self.x, system.space.names), (self.u, system.controls)):
            if name in names:
                return np.asarray(values[:, names.index(name)])
        raise ProblemError(f"no state or control named {name!r}{near(name, (*system.space.names, *system.controls))}")

    def violations(self) -> tuple[Violation, ...]:
        """Every bound and path constraint along the plan, soft ones too, from the second knot on (the first is as measured); the
        worst first."""
        system = replace(self.phase.system, parameter_values=tuple(self.parameters.tolist()))
        u = np.vstack([self.u[1:], self.u[-1:]])
        return evaluate.violations(replace(self.phase, system=system), self.t[1:], self.x[1:], u)


@dataclass(frozen=True)
class StepReport:
    """One step. time [s] of its measurement; seconds that it took; iterations of the solver; code: 0, that of a solver which
    failed, or -1 where it was not asked; cost, violation: of the plan, with the terms of constraints, and the largest of a hard one
    in the unit of its row; outside: by how much the measured state lies outside its bounds, by name; beyond: references outside the
    bounds of the state that they are for, by name."""

    status: StepStatus
    time: float
    seconds: float
    iterations: int
    code: int
    cost: float
    violation: float
    message: str
    outside: Mapping[str, float]
    beyond: Mapping[str, float]
    _plan: Callable[[], Plan] = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the control is that of an improved plan."""
        return not self.status.safe

    def violations(self) -> tuple[Violation, ...]:
        """Violations of the present plan, by name: see :meth:`Plan.violations`."""
        return self._plan().violations()
