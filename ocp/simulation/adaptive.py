"""Steps whose inner steps follow their own error: DOP853, an explicit method of order 8, as a method beside those of fixed steps.

Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.5; by SciPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.kernels import Kernel, compile_kernel
from ocp.integrators import project
from ocp.integrators.integrator import velocity
from ocp.problem import System
from ocp.simulation.one_step import OneStep, StepError, Stretch, by_steps

NAME = "dop853"
RELATIVE, ABSOLUTE = 1e-10, 1e-12  # tolerances of every inner step


class AdaptiveSteps(OneStep):
    """A stepper by DOP853 in ambient coordinates; integrals are states, too."""

    def __init__(self, system: System, integrands: Sequence[ca.Function] = (), mode: str = "auto"):
        t, x, u, p = (ca.MX.sym(name, size) for name, size in (("t", 1), ("x", system.nx), ("u", system.nu), ("p", system.np)))
        slope = ca.vertcat(velocity(system, t, x, u, p), *(f(t, x, u, p) for f in integrands))
        function = ca.Function("slope", [t, x, u, p], [ca.densify(slope)])
        self._slope: Kernel = compile_kernel(function, mode)  # type: ignore[arg-type]
        self._project = ca.Function("project", [x], [ca.densify(project(system.space, x))])
        self._names, self._p = system.space.names, np.array(system.parameter_values, float)
        self._t, self._x = 0.0, np.array(system.space.neutral)
        self.risen = np.zeros(len(integrands))
        self.notes = self._slope.notes

    def run(self, u: np.ndarray, t: np.ndarray) -> Stretch:
        """One step for every row of controls u [k, nu] between times t [k + 1] s."""
        return by_steps(self.step, lambda: self.risen, u, t)

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        """Advance by dt [s] under constant controls u [nu]."""
        from scipy.integrate import solve_ivp  # only here: it takes a third of a second

        n, held = len(self._x), np.asarray(u, float)
        with np.errstate(all="ignore"):
            found = solve_ivp(lambda t, y: np.ravel(self._slope(t, y[:n], held, self._p)), (self._t, self._t + dt),
                              np.concatenate([self._x, 0 * self.risen]), method="DOP853", rtol=RELATIVE, atol=ABSOLUTE)
        end = found.y[:, -1]
        if not (found.success and np.all(np.isfinite(end))):
            slopes = np.ravel(self._slope(found.t[-1], end[:n], held, self._p))[:n]
            worst = self._names[int(np.argmax(np.where(np.isfinite(slopes), np.abs(slopes), np.inf)))]
            raise StepError(worst, float("nan"), f"at t = {found.t[-1]:.6g} s no inner step is short enough for an error of "
                            f"{RELATIVE:g}")
        self._t, self._x, self.risen = self._t + dt, np.asarray(self._project(end[:n])).ravel(), end[n:]
        return self.measure()
