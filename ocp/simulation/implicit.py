"""Steps of BDF1, SDIRK2 and BDF2, whole stretches in compiled loops: those of optimal control (``ocp.integrators.motion``)."""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.kernels import compile_many
from dynamics.steps.march import March
from ocp.integrators import motion
from ocp.problem import System
from ocp.simulation.one_step import OneStep, StepError, Stretch


class ImplicitSteps(OneStep):
    """Steps of an implicit method; one that looks back begins anew where the state is set or its step grows much."""

    def __init__(self, system: System, method: str, integrands: Sequence[ca.Function] = (), mode: str = "auto"):
        kernels = compile_many(motion.equations(system, integrands), mode=mode)  # type: ignore[arg-type]
        self._system, self._march = system, March(kernels, method)
        self.notes = tuple(dict.fromkeys(note for kernel in self._march.kernels for note in kernel.notes))
        self._p, self.risen = np.array(system.parameter_values, float), np.zeros(len(integrands))
        self.reset(system.space.neutral)

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Start from state x at time t [s]."""
        super().reset(x, t)
        self._march.begin()

    def look_back(self, before: np.ndarray, h: float, rose: np.ndarray) -> None:
        self._march.begin(before, h, rose[:len(self.risen)])

    def run(self, u: np.ndarray, t: np.ndarray) -> Stretch:
        """One step for every row of controls u [k, nu] between times t [k + 1] s."""
        found = self._march.run(self._x, t, u, self._p)
        if done := len(found.rises):
            self._t, self._x, self.risen = float(t[done]), found.x[-1], found.rises[-1]
        if found.failure is None:
            return found.x[1:], found.rises, None
        row, residual, why = found.failure[-3:]
        return found.x[1:], found.rises, StepError(motion.row_name(self._system, row), residual, why)
