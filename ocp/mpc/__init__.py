"""Receding horizon in closed loop: a compiled solver against a simulated plant, with deadlines."""

from ocp.mpc.closed_loop import run
from ocp.mpc.options import DELAYS, MPCOptions, Tracked
from ocp.mpc.plant import Disturbances, Kick, Plant, PlantSpec, Push
from ocp.mpc.result import ClosedLoop, Ending, StepTimes, Tracking, Violation

__all__ = [
    "DELAYS", "ClosedLoop", "Disturbances", "Ending", "Kick", "MPCOptions", "Plant", "PlantSpec", "Push", "StepTimes", "Tracked",
    "Tracking", "Violation", "run",
]
