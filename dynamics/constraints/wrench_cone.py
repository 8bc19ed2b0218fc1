"""What a rectangular sole can press on a plane: the wrench cone by its faces.

Four corners that only push, with friction |f_x|, |f_y| <= mu f_z each, give the force f and the moment m at the centre exactly
where U (f, m) <= 0 (Caron, Pham, Nakamura 2015, "Stability of surface contacts for humanoid robots: closed-form formulae of the
contact wrench cone for rectangular support areas"): friction, the centre of pressure within the rectangle, and a moment about the
normal between ends that depend on both.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray


def wrench_cone(half_sizes: tuple[float, float], friction: float) -> NDArray[np.floating[Any]]:
    """U [16, 6] over (f_x, f_y, f_z, m_x, m_y, m_z) (N, N m; on the sole, at its centre, z along the normal): rows 0 to 3 are
    friction, 4 to 7 the centre of pressure, 8 to 15 the moment about the normal. half_sizes (m): along x and y."""
    (X, Y), mu = half_sizes, friction
    rows = [(s * (k == 0), s * (k == 1), -mu, 0.0, 0.0, 0.0) for k in (0, 1) for s in (1.0, -1.0)]
    rows += [(0.0, 0.0, -reach, s * (k == 0), s * (k == 1), 0.0) for k, reach in ((0, Y), (1, X)) for s in (1.0, -1.0)]
    rows += [(s * Y, r * X, -mu * (X + Y), turn * s * mu, turn * r * mu, turn)
             for turn, s, r in itertools.product((1.0, -1.0), repeat=3)]
    return np.array(rows)
