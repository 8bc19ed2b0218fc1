"""A receding horizon as a policy: from a time and a state to a control, solved anew at its own sampling rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ocp.mpc.controller import controller
from ocp.mpc.options import MPCOptions, solver_options
from ocp.problem import Problem


class Receding:
    """The controls of the horizon of a problem, for ``ocp.simulation``: at every sampling instant the plan is moved on and improved
    from the state; between them it acts as it stands, or with feedback where ``options`` ask for it. Delays are left out."""

    label = "the receding horizon of the file"

    def __init__(self, problem: Problem, options: MPCOptions, solver: Mapping[str, Any]):
        self._period = options.period
        self._controller = controller(problem, options, solver_options(problem, options, solver))
        self._next = 0

    def begin(self) -> None:
        """Return to the first interval."""
        self._next = 0

    def __call__(self, phase: int, t: float, h: float, x: np.ndarray) -> np.ndarray:
        while t >= (self._next - 1e-9) * self._period:
            if self._next == 0:
                self._controller.reset(x, t)
            self._controller.update(x, max(t, self._next * self._period))
            self._next += 1
        return self._controller.control(max(t, self._controller.time), x).copy()
