"""The model of an estimator: how the state moves between samples, what sensors measure, and both uncertainties.

Between samples the model takes one step of its integrator under a held control, and then noise [+] of its tangent space:

    x' = F(t, x, u) [+] w,  w ~ N(0, Q)          y = h(t, x, u) + v,  v ~ N(0, R)

Parameters that are estimated are components of the state that rest but for a random walk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics.errors import near
from dynamics.kernels import Kernel, compile_kernel
from ocp.errors import ProblemError, check_positive
from ocp.problem import INF, System
from ocp.simulation import step_function
from ocp.spaces import Space, euclidean, product

Array = np.ndarray


@dataclass(frozen=True)
class Sensor:
    """A measured quantity: function(t, x, u, p) -> [n] of the system, deviation [n]: standard deviation of its noise."""

    name: str
    function: ca.Function
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class EstimatedParameter:
    """A parameter of the system that is estimated. deviation: of its first value, that of the system; walk: what its random walk
    gathers in one second (unit / sqrt(s)); lower, upper: where it lies."""

    name: str
    deviation: float
    walk: float = 0.0
    lower: float = -INF
    upper: float = INF


class Linearised(NamedTuple):
    """F [nx], A [ndx, ndx], h [m], H [m, ndx] at a point."""

    F: Array
    A: Array
    h: Array
    H: Array


@dataclass(frozen=True)
class EstimationModel:
    """A system with sensors, sampled every ``period`` [s].

    process [ndx]: standard deviation that noise on the state gathers in one second (unit / sqrt(s)), as a plant's; initial [ndx]:
    standard deviation of the first state. integrator: of the step between samples. Raises ProblemError for what does not fit.
    """

    system: System
    sensors: tuple[Sensor, ...]
    period: float
    process: tuple[float, ...]
    initial: tuple[float, ...]
    parameters: tuple[EstimatedParameter, ...] = ()
    integrator: str = "rk4"
    where: str = field(default="estimate", repr=False)

    def __post_init__(self) -> None:
        check_positive(self, ("period",), self.where)
        if not self.sensors:
            raise ProblemError("nothing is measured", where=self.where)
        for name, values in (("process", self.process), ("initial", self.initial)):
            if len(values) != self.system.space.ndx or any(not 0 <= value < INF for value in values):
                raise ProblemError(f"{name} needs {self.system.space.ndx} standard deviations, not negative", where=self.where)
        for one in self.parameters:
            if one.name not in self.system.parameters:
                raise ProblemError(f"no parameter named {one.name!r}{near(one.name, self.system.parameters)}", where=self.where)
        for sensor in self.sensors:
            if len(sensor.deviation) != sensor.function.numel_out(0) or any(not 0 < value < INF for value in sensor.deviation):
                raise ProblemError(f"sensor {sensor.name!r} needs {sensor.function.numel_out(0)} positive standard deviations",
                                   where=self.where)

    @cached_property
    def space(self) -> Space:
        """Of the state and the parameters that are estimated."""
        extra = tuple(one.name for one in self.parameters)
        return product(self.system.space, euclidean(extra)) if extra else self.system.space

    @property
    def outputs(self) -> int:
        """Number of measured components."""
        return sum(len(sensor.deviation) for sensor in self.sensors)

    @cached_property
    def values(self) -> Array:
        """First values of the parameters that are estimated."""
        system = self.system
        return np.array([system.parameter_values[system.parameters.index(one.name)] for one in self.parameters])

    @cached_property
    def first_deviation(self) -> Array:
        """Standard deviations of the first estimate."""
        return np.array([*self.initial, *(one.deviation for one in self.parameters)])

    @cached_property
    def noise(self) -> Array:
        """Standard deviations [ndx] of the noise that a period gathers."""
        return math.sqrt(self.period) * np.array([*self.process, *(one.walk for one in self.parameters)])

    @cached_property
    def blur(self) -> Array:
        """Standard deviations of the measurement."""
        return np.array([value for sensor in self.sensors for value in sensor.deviation])

    def start(self, x: Sequence[float] | Array) -> Array:
        """The first state with the first values of the parameters."""
        found = np.asarray(x, float)
        if found.shape != (self.system.nx,):
            raise ProblemError(f"the state has shape {found.shape}, expected {(self.system.nx,)}", where=self.where)
        return np.concatenate([found, self.values])

    def _parameters(self, x: ca.SX) -> ca.SX:
        p = ca.SX(ca.DM(self.system.parameter_values))
        for i, one in enumerate(self.parameters):
            p[self.system.parameters.index(one.name)] = x[self.system.nx + i]
        return p

    def moved(self, t: ca.SX, x: ca.SX, u: ca.SX) -> ca.SX:
        """F(t, x, u), parameters resting."""
        step = step_function(replace(self.system, period=None) if self.system.period is None else self.system, self.integrator)
        return ca.vertcat(step(t, x[:self.system.nx, 0], u, self._parameters(x), self.period)[0], x[self.system.nx:, 0])

    def seen(self, t: ca.SX, x: ca.SX, u: ca.SX) -> ca.SX:
        """h(t, x, u)."""
        p = self._parameters(x)
        return ca.vertcat(*(sensor.function(t, x[:self.system.nx, 0], u, p) for sensor in self.sensors))

    @cached_property
    def linearised(self) -> Kernel:
        """(t, x, u) -> F, A [ndx, ndx], h, H [m, ndx]: derivatives by a step in the tangent space of x."""
        t, x, u = (ca.SX.sym(name, size) for name, size in (("t", 1), ("x", self.space.nx), ("u", self.system.nu)))
        d = ca.SX.sym("d", self.space.ndx)
        there, beside = self.moved(t, x, u), self.space.plus(x, d)
        A = ca.jacobian(self.space.minus(there, self.moved(t, beside, u)), d)
        H = ca.jacobian(self.seen(t, beside, u), d)
        still = ca.DM.zeros(self.space.ndx)
        parts = (there, ca.substitute(A, d, still), self.seen(t, x, u), ca.substitute(H, d, still))
        return compile_kernel(ca.Function("linearised", [t, x, u], [ca.densify(part) for part in parts]), "quick")

    def at(self, t: float, x: Array, u: Array) -> Linearised:
        """F [nx], A [ndx, ndx], h [m], H [m, ndx] at a point."""
        there, A, seen, H = self.linearised(t, x, u)
        ndx = self.space.ndx
        return Linearised(np.reshape(there, -1), np.reshape(A, (ndx, ndx)), np.reshape(seen, -1),
                          np.reshape(H, (self.outputs, ndx)))

    def plus(self, x: Array, d: Array) -> Array:
        """x [+] d [nx]."""
        return np.reshape(self._between[0](x, d), -1)

    def minus(self, x0: Array, x1: Array) -> Array:
        """The d [ndx] with x0 [+] d = x1."""
        return np.reshape(self._between[1](x0, x1), -1)

    @cached_property
    def _between(self) -> tuple[Kernel, Kernel]:
        x, y, d = (ca.SX.sym(name, size) for name, size in (("x", self.space.nx), ("y", self.space.nx), ("d", self.space.ndx)))
        return (compile_kernel(ca.Function("plus", [x, d], [ca.densify(ca.SX(self.space.plus(x, d)))]), "quick"),
                compile_kernel(ca.Function("minus", [x, y], [ca.densify(ca.SX(self.space.minus(x, y)))]), "quick"))


@dataclass(frozen=True)
class EstimateSpec:
    """An estimator as a file describes it. method: "moving_horizon" or "kalman"; window: periods; iterations: a sample;
    state_bounds: (lower, upper) [nx]."""

    model: EstimationModel
    method: str = "moving_horizon"
    window: int = 10
    iterations: int = 2
    state_bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = None
