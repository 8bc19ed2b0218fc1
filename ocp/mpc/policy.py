"""A receding horizon as a policy: from a time and a state to a control, solved anew at its own sampling rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ocp.algebraic import eliminated
from ocp.errors import ProblemError
from ocp.mpc.options import MPCOptions, horizon_problem
from ocp.problem import Problem, Status
from ocp.shooting.options import ILQROptions


class Receding:
    """The controls of the horizon of a problem, for ``ocp.simulation``: at every sampling instant the plan is moved on and improved
    from the state, between them it acts with its feedback. Delays of ``options`` are left out."""

    words = "the receding horizon of the file"

    def __init__(self, problem: Problem, options: MPCOptions, solver: Mapping[str, Any]):
        from ocp.shooting.receding import Receding as Horizon

        self._options = options
        self._horizon = Horizon(eliminated(horizon_problem(problem, options)), ILQROptions(**solver))
        self._next = 0

    def begin(self) -> None:
        self._next = 0

    def __call__(self, phase: int, t: float, h: float, x: np.ndarray) -> np.ndarray:
        period = self._options.period
        while t >= (self._next - 1e-9) * period:
            self._sample(x, t)
        since = t - (self._next - 1) * period
        u: np.ndarray = np.asarray(self._horizon.control(max(0.0, since), x))
        return u

    def _sample(self, x: np.ndarray, t: float) -> None:
        if self._next == 0:
            status, words = self._horizon.reset(x, t, self._options.start_iterations)
            if status in (Status.NOT_A_NUMBER, Status.DIVERGED):
                raise ProblemError(f"the solver cannot begin from the guess: {words}", where="mpc")
        else:
            self._horizon.shift(self._options.period)
        if self._horizon.iterate(x, self._options.iterations):
            self._horizon.reset(x, t)
        self._next += 1
