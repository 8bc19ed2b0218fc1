"""Kinematic control: pseudo-inverses, tasks with priorities, inverse kinematics."""

from pathlib import Path

import dynamics
from dynamics.kernels.binaries import discard_stale

_below = Path(dynamics.__file__).parent
_here = Path(__file__).parent
discard_stale(str(_here), str(_here.parent / "solvers"), str(_below / "loops"), str(_below / "kernels"))
