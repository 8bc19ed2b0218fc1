"""Between plant and controller: sensors with noise, an estimator, and parameters that the controller takes over from it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ocp.estimation import EstimateSpec, estimator
from ocp.mpc.controller import Controller
from ocp.mpc.result import Estimation

Array = np.ndarray


class Observer:
    """The estimator of a closed loop; ``begin`` starts a run of n samples anew."""

    def __init__(self, spec: EstimateSpec):
        self.model, self._estimator = spec.model, estimator(spec)

    def begin(self, controller: Controller, n: int, start: Sequence[float], seed: int) -> None:
        """From what is known of the start [nx]; seed: of the noise of the sensors, a stream beside those of the plant."""
        self._controller, self._noise = controller, np.random.default_rng([seed, 2])
        self.values, self.seconds = np.full((n, self.model.space.nx), np.nan), np.zeros(n)
        self._estimator.reset(np.asarray(start, float))
        self._known = set(controller.phase.system.parameters)

    def estimate(self, i: int, state: Array, u: Array | None) -> Array:
        """The estimate [nx] of sample i, from what sensors tell of the state [nx]; u [nu]: the control since the sample before."""
        model = self.model
        acting = np.zeros(model.system.nu) if u is None else u
        seen = [sensor.function(self._estimator.t, state, acting, model.system.parameter_values) for sensor in model.sensors]
        y = np.concatenate([np.asarray(one, float).ravel() for one in seen])
        y += model.blur * self._noise.standard_normal(len(y))
        began = time.perf_counter()
        self.values[i] = self._estimator.step(y, u)
        self.seconds[i] = time.perf_counter() - began
        nx = model.system.nx
        self._controller.set(**{one.name: float(value) for one, value in zip(model.parameters, self.values[i, nx:], strict=True)
                                if one.name in self._known and np.isfinite(value)})
        return self.values[i, :nx].copy()

    def result(self, n: int, x: Array) -> Estimation:
        """Of n samples, x [n+1, nx] the true states."""
        model, nx = self.model, self.model.system.nx
        off = np.zeros((n, model.system.space.ndx))
        for i in range(n):
            whole = (np.concatenate([state[:nx], model.values]) for state in (x[i], self.values[i]))
            off[i] = model.minus(*whole)[:off.shape[1]]
        errors = dict(zip(model.system.space.tangent_names, np.sqrt(np.mean(off**2, axis=0)).tolist() if n else (), strict=False))
        return Estimation(model.space.names, self.values[:n], errors, tuple(one.name for one in model.parameters), self.seconds[:n])
