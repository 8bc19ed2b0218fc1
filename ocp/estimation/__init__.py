"""State and parameter estimation: an extended Kalman filter, and moving horizons on the machinery of receding ones."""

from ocp.estimation.kalman import KalmanFilter
from ocp.estimation.model import EstimatedParameter, EstimationModel, Sensor
from ocp.estimation.moving_horizon import MovingHorizon

__all__ = ["EstimatedParameter", "EstimationModel", "KalmanFilter", "MovingHorizon", "Sensor"]
