"""Steps of a one-step method as one kernel, and how a step fails."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.errors import Picklable
from dynamics.kernels import Kernel, compile_kernel, workspace
from dynamics.steps.march import repeated
from ocp.integrators import serving
from ocp.problem import Cost, System
from ocp.simulation.linearly_implicit import NAME, step_of

#: instructions of rate and integrands up to which a step becomes one scalar graph; above, they stay calls
INLINE = 2000


class StepError(Picklable, RuntimeError):
    """A step failed. Attributes: component (name of the state that is worst), residual (in its unit; NaN: not known),
    why."""

    def __init__(self, component: str, residual: float, why: str):
        self.component, self.residual, self.why = component, residual, why
        super().__init__(f"{why}; the residual is {residual:.3g} at {component!r}" if np.isfinite(residual)
                         else f"{why}, first in {component!r}")


def integrand(cost: Cost) -> ca.Function:
    """A running cost as a scalar Function of (t, x, u, p)."""
    f = cost.function
    if cost.weights is None:
        return f
    arguments = [(ca.SX if f.is_a("SXFunction") else ca.MX).sym(name, f.numel_in(i)) for i, name in enumerate("txup")]
    return ca.Function("cost", arguments, [ca.densify(cost.expression(*arguments))])


def step_function(system: System, integrator: str, integrands: Sequence[ca.Function] = (), nu: int | None = None) -> ca.Function:
    """(t, x, u, p, h) -> next state [nx], integral of each scalar Function of (t, x, u, p) over the step.

    nu: controls that the integrands see, the first of the system's; default: all.
    """
    seen = system.nu if nu is None else nu
    method = serving(system, integrator)
    method.check(system)
    t, h, x, u, p = ca.MX.sym("t"), ca.MX.sym("h"), ca.MX.sym("x", system.nx), ca.MX.sym("u", system.nu), ca.MX.sym("p", system.np)
    after, nodes = method.advance(system, t, x, u, p, h)
    running = [h * sum((w * f(ti, xi, u[:seen], p) for w, ti, xi in nodes), start=ca.MX(0)) for f in integrands]
    function = ca.Function("plant_step", [t, x, u, p, h], [ca.densify(after), ca.densify(ca.vertcat(ca.MX(0, 1), *running))])
    parts = [system.rate, *integrands]
    if all(part.is_a("SXFunction") for part in parts) and sum(part.n_instructions() for part in parts) <= INLINE:
        return function.expand()
    return function


Stretch = tuple[np.ndarray, np.ndarray, "StepError | None"]
"""States [k, nx] after k steps, rises of the integrals [k, l] over each, and why the next one failed."""


def by_steps(step: Callable[[np.ndarray, float], np.ndarray], risen: Callable[[], np.ndarray], u: np.ndarray, t: np.ndarray
             ) -> Stretch:
    """A stretch step by step."""
    states, rises = list[np.ndarray](), list[np.ndarray]()
    error = None
    for held, h in zip(u, np.diff(t), strict=True):
        try:
            states.append(step(held, float(h)))
        except StepError as failed:
            error = failed
            break
        rises.append(risen())
    return np.array(states), np.array(rises), error


class OneStep:
    """Steps of a one-step map as one kernel."""

    def __init__(self, system: System, integrator: str, integrands: Sequence[ca.Function] = (), mode: str = "auto"):
        made = step_of if integrator == NAME else functools.partial(step_function, integrator=integrator)
        self._kernel: Kernel = compile_kernel(made(system, integrands=integrands), mode)  # type: ignore[arg-type]
        self._work = workspace(self._kernel)
        self._names, self._p = system.space.names, np.array(system.parameter_values, float)
        self._t, self._x = 0.0, np.array(system.space.neutral)
        self.risen = np.zeros(len(integrands))
        self._implicit = integrator != NAME and serving(system, integrator).implicit
        self.notes = self._kernel.notes

    def reset(self, x: ArrayLike, t: float = 0.0) -> None:
        """Start from state x at time t [s]."""
        self._t, self._x = t, np.array(x, float)

    def measure(self) -> np.ndarray:
        """The state [nx]."""
        return self._x.copy()

    def step(self, u: ArrayLike, dt: float) -> np.ndarray:
        """Advance by dt [s] under constant controls u [nu]."""
        error = self.run(np.reshape(np.asarray(u, float), (1, -1)), np.array([self._t, self._t + dt]))[2]
        if error is not None:
            raise error
        return self.measure()

    def look_back(self, before: np.ndarray, h: float, rose: np.ndarray) -> None:
        """Nothing: one step sees one state."""

    def run(self, u: np.ndarray, t: np.ndarray) -> Stretch:
        """One step for every row of controls u [k, nu] between times t [k + 1] s."""
        x, rises = repeated(self._kernel, self._work, self._x, t, u, self._p)
        if done := len(rises):
            self._t, self._x, self.risen = float(t[done]), x[done], rises[-1]
        if done == len(u):
            return x[1:], rises, None
        lost = "the state is no longer finite"
        why = f"the equations of the step were not solved by Newton's method, or {lost}" if self._implicit else lost
        return x[1:done + 1], rises, StepError(self._names[int(np.argmin(np.isfinite(x[done + 1])))], float("nan"), why)
