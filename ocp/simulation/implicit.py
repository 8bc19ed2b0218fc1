"""Steps of BDF1, SDIRK2 and BDF2 as kernels that remember: the state before, and accelerations as a first guess of the next ones.

The steps are those of optimal control (``ocp.integrators``): of robots by their equations of motion, of other systems by the rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.kernels import Kernel, compile_kernel
from ocp.integrators import INTEGRATORS, MULTISTEP, motion
from ocp.problem import System
from ocp.simulation.one_step import OneStep, StepError

#: a step longer than the one before by more than this factor begins anew: BDF2 is stable below 1 + sqrt 2
GROWS = 2.0


class ImplicitSteps(OneStep):
    """Steps of an implicit method; one that looks back begins anew where the state is set or its step grows much."""

    def __init__(self, system: System, method: str, integrands: Sequence[ca.Function] = (), mode: str = "auto"):
        first = MULTISTEP[method].first if method in MULTISTEP else method
        self._system, self._methods = system, (first, method)
        self._kernels: list[Kernel] = [compile_kernel(step(system, name, integrands), mode)  # type: ignore[arg-type]
                                       for name in dict.fromkeys(self._methods)]
        self.notes, self._p = self._kernels[0].notes, np.array(system.parameter_values, float)
        self.risen = np.zeros(len(integrands))
        self.reset(system.space.neutral)

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        super().reset(x, t)
        self._before, self._h = self._x, 0.0
        self._start = np.zeros(self._kernels[0].input_shapes[7][0])

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        looks = bool(dt <= GROWS * self._h)
        ratio = dt / self._h if looks else 1.0
        given = (self._t, self._before, self._x, u, self._p, dt, ratio, self._start, self.risen)
        x, risen, start = (np.atleast_1d(part) for part in self._kernels[-1 if looks else 0](*given))
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(start))):
            self._fail(self._methods[looks], np.asarray(u, float), dt, ratio, x)
        self._before, self._x, self._h, self._t = self._x, x, dt, self._t + dt
        self.risen, self._start = risen, start
        return self.measure()

    def _fail(self, method: str, u: np.ndarray, dt: float, ratio: float, x: np.ndarray) -> None:
        """Raises StepError."""
        if motion.moves(self._system):
            before = (self._before, ratio) if method in MULTISTEP else None
            found = motion.failure(self._system, method, self._t, self._x, u, self._p, dt, before)
            if found is not None:
                raise StepError(found.joint, found.residual, found.why)
        raise StepError(self._system.space.names[int(np.argmin(np.isfinite(x)))], float("nan"),
                        "the equations of the step have no solution that Newton finds, or the state leaves the finite range")


def step(system: System, method: str, integrands: Sequence[ca.Function]) -> ca.Function:
    """(t, state before, x, u, p, h, h over that before, accelerations and multipliers to begin from, rises of integrals over the
    step before) -> x [nx] after, rises of the integrals, accelerations and multipliers there (none of systems without equations of
    motion). Integrals are states of the method, too."""
    count = system.motion().size1_in(2) if motion.moves(system) else 0
    names = ("t", "before", "x", "u", "p", "h", "w", "start", "rose")
    sizes = (1, system.nx, system.nx, system.nu, system.np, 1, 1, count, len(integrands))
    inputs = [ca.MX.sym(name, size) for name, size in zip(names, sizes, strict=True)]
    t, before, x, u, p, h, w, start, rose = inputs
    found = ca.MX(0, 1)
    if count:
        after, nodes, found = motion.moved(system, t, x, u, p, h, method, start, (before, w) if method in MULTISTEP else None)
    elif method in MULTISTEP:
        after, nodes = MULTISTEP[method].advance(system, t, before, x, u, p, h, w)
    else:
        after, nodes = INTEGRATORS[method].advance(system, t, x, u, p, h)
    rises = ca.vertcat(ca.MX(0, 1), *(h * sum((c * f(ti, xi, u, p) for c, ti, xi in nodes), start=ca.MX(0)) for f in integrands))
    if method in MULTISTEP:
        rises = w**2 / (1 + 2 * w) * rose + (1 + w) / (1 + 2 * w) * rises
    return ca.Function("implicit_step", inputs, [ca.densify(after), ca.densify(rises), ca.densify(found)], list(names),
                       ["after", "rises", "found"])
