"""State and parameter estimation: an extended Kalman filter, and moving horizons on the machinery of receding ones."""

from ocp.estimation.kalman import KalmanFilter
from ocp.estimation.model import EstimatedParameter, EstimateSpec, EstimationModel, Sensor
from ocp.estimation.moving_horizon import MovingHorizon

Estimator = KalmanFilter | MovingHorizon

__all__ = ["EstimateSpec", "EstimatedParameter", "EstimationModel", "Estimator", "KalmanFilter", "MovingHorizon", "Sensor",
           "estimator"]


def estimator(spec: EstimateSpec) -> Estimator:
    """The estimator that a record describes."""
    return KalmanFilter(spec.model) if spec.method == "kalman" else \
        MovingHorizon(spec.model, spec.window, spec.iterations, spec.state_bounds)
