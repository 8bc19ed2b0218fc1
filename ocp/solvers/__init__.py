"""Quadratic programs: one at a time, and in strict order."""

from pathlib import Path

import dynamics
from dynamics.kernels.binaries import discard_stale

discard_stale(str(Path(__file__).parent), str(Path(dynamics.__file__).parent / "kernels"))
