"""An interior-point method in compiled loops, with a factorisation along the intervals of optimal control.

    prepare -> load (elements) -> plan (order) -> advance: begin, then iterations of [second, direction, search, move]
"""

from pathlib import Path

import dynamics
from dynamics.kernels.binaries import discard_stale

_below = Path(dynamics.__file__).parent
discard_stale(str(Path(__file__).parent), str(_below / "loops"), str(_below / "kernels"))
