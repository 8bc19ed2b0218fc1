"""Receding horizon in closed loop: a compiled solver against a simulated plant, with deadlines."""

from ocp.mpc.closed_loop import run
from ocp.mpc.options import DELAYS, MPCOptions, Tracked
from ocp.mpc.result import ClosedLoop, Ending, StepTimes, Tracking, Violation
from ocp.plants import Disturbances, Kick, PlantSpec, Push

__all__ = [
    "DELAYS", "ClosedLoop", "Disturbances", "Ending", "Kick", "MPCOptions", "PlantSpec", "Push", "StepTimes", "Tracked",
    "Tracking", "Violation", "run",
]
