"""The extended Kalman filter (Simon 2006, "Optimal State Estimation", section 13.2), on the tangent space of the state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocp.estimation.model import EstimationModel

Array = np.ndarray


class KalmanFilter:
    """x [nx]: estimate of the state, then of parameters; P [ndx, ndx]: its covariance; t [s].

    ``reset(x)``, then ``step(y)`` for the first measurement and ``step(y, u)`` for those after it, u the control since the last.
    """

    def __init__(self, model: EstimationModel):
        self.model = model
        self.reset(np.array(model.system.space.neutral, float))

    def reset(self, x: Sequence[float] | Array, t: float = 0.0) -> None:
        """Begin at what is known of the state [nx] before the first measurement."""
        self.x, self.P, self.t = self.model.start(x), np.diag(self.model.first_deviation**2), t

    def step(self, y: Array, u: Array | None = None) -> Array:
        """The estimate with one measurement [m] more; u [nu]: the control that acted since the last one."""
        if u is not None:
            self.x, self.P = predicted(self.model, self.t, self.x, self.P, u)
            self.t += self.model.period
        acting = np.zeros(self.model.system.nu) if u is None else u
        self.x, self.P = corrected(self.model, self.t, self.x, self.P, acting, y)
        return self.x

    @property
    def deviation(self) -> Array:
        """Standard deviations [ndx] of the estimate, as the filter believes."""
        return np.sqrt(np.diag(self.P))


def corrected(model: EstimationModel, t: float, x: Array, P: Array, u: Array, y: Array, about: Array | None = None
              ) -> tuple[Array, Array]:
    """Mean and covariance with a measurement, linearised about a state, default x."""
    z = x if about is None else about
    _, _, seen, H = model.at(t, z, u)
    away = model.minus(z, x)
    R = np.diag(model.blur**2)
    gain = np.linalg.solve(H @ P @ H.T + R, H @ P).T
    step = away + gain @ (np.asarray(y, float) - seen - H @ away)
    rest = np.eye(len(P)) - gain @ H
    return model.plus(z, step), rest @ P @ rest.T + gain @ R @ gain.T


def predicted(model: EstimationModel, t: float, x: Array, P: Array, u: Array, about: Array | None = None) -> tuple[Array, Array]:
    """Mean and covariance one period later under a control, linearised about a state, default x."""
    z = x if about is None else about
    there, A, _, _ = model.at(t, z, u)
    return model.plus(there, A @ model.minus(z, x)), A @ P @ A.T + np.diag(model.noise**2)
