"""Shooting: a controlled rollout, its expansion knot by knot, and a Riccati sweep that improves it."""

from pathlib import Path

import dynamics
from dynamics.kernels.binaries import discard_stale

_below = Path(dynamics.__file__).parent
discard_stale(str(Path(__file__).parent), str(_below / "loops"), str(_below / "kernels"))
