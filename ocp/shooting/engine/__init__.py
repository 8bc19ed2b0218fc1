"""The solver in compiled loops over the knots: rollout, expansion, LQ sweep, search."""

from pathlib import Path

import dynamics
from dynamics.kernels.binaries import discard_stale

_here, _below = Path(__file__).parent, Path(dynamics.__file__).parent
discard_stale(str(_here), str(_here.parent / "robot"), str(_here.parents[1] / "control"), str(_below / "loops"),
              str(_below / "kernels"))
