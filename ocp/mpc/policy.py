"""A receding horizon as a policy: from a time and a state to a control, solved anew at its own sampling rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ocp.errors import ProblemError
from ocp.methods import method
from ocp.mpc.options import MPCOptions, horizon_problem
from ocp.options import record_of
from ocp.problem import Problem, Status
from ocp.reductions import with_dropped_conditions
from ocp.shooting.options import ILQROptions


class Receding:
    """The controls of the horizon of a problem, for ``ocp.simulation``: at every sampling instant the plan is moved on and improved
    from the state; between them it acts as it stands, or with feedback where ``options`` ask for it. Delays are left out."""

    words = "the receding horizon of the file"

    def __init__(self, problem: Problem, options: MPCOptions, solver: Mapping[str, Any]):
        from ocp.shooting.receding import Receding as Horizon

        self._options = options
        record = record_of(ILQROptions, solver, "solve.ilqr")
        made = method("ilqr").reduce(horizon_problem(problem, options), record)
        self._horizon = Horizon(made, record)
        self._bounds = with_dropped_conditions(made).phase.control_bounds
        self._next = 0

    def begin(self) -> None:
        self._next = 0

    def __call__(self, phase: int, t: float, h: float, x: np.ndarray) -> np.ndarray:
        period = self._options.period
        while t >= (self._next - 1e-9) * period:
            self._sample(x, t)
        since = max(0.0, t - (self._next - 1) * period)
        if self._options.feedback:
            return np.array(self._horizon.control(since, x))
        k = min(int(since / self._horizon.step + 1e-9), len(self._horizon.u) - 1)
        return self._bounds.clip(self._horizon.u[k])

    def _sample(self, x: np.ndarray, t: float) -> None:
        if self._next == 0:
            status, ending = self._horizon.reset(x, t, self._options.start_iterations)
            if status in (Status.NOT_A_NUMBER, Status.DIVERGED):
                raise ProblemError(f"the solver cannot begin from the guess: {ending}", where="mpc")
        else:
            self._horizon.shift(self._options.period)
        if self._horizon.iterate(x, self._options.iterations):
            self._horizon.reset(x, t)
        self._next += 1
