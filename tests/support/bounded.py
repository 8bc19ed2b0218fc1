"""Least squares between bounds for Python, by ``ocp.solvers.active_set``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamics.kernels.linked import linked
from ocp.solvers.active_set import descend, optimal
from ocp.solvers.blocks import Blocks
from ocp.solvers.factors import VIEWS
from ocp.solvers.working_set import FLOATS, TOLERANCE, Array, problem, sizes

Side = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Bounded:
    """The data: A [k, n], e [k], C [m, n], lower and upper [m]. Rows of C are judged by their own lengths."""

    A: Array
    e: Array
    C: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Found:
    """x [n]; y [m]: multipliers, A'(A x - e) + C'y = 0, y > 0 at the upper end, y < 0 at the lower; side [m]: -1, 0, 1 as held."""

    x: Array
    y: Array
    side: Side


@linked(**VIEWS)
def _solve(w: np.ndarray, iw: np.ndarray, kb: int, mc: int, nz: int) -> bool:
    p = problem(w, iw, 0, len(FLOATS), (kb, mc, nz, 0), TOLERANCE)
    return descend(p, False) and optimal(p, 1e-7)


def solve_bounded(data: Bounded, feasible: Array) -> Found | None:
    """The optimum by `descend` from a feasible point [n]; None where rounding keeps it from closing."""
    kb, (mc, nz) = data.e.size, data.C.shape
    blocks, length = Blocks(*sizes(kb, mc, nz, 0)), np.linalg.norm(data.C, axis=1)
    length[length == 0.0] = 1.0
    for name, value in (("B", data.A), ("C", data.C / length[:, None])):
        getattr(blocks, name)[:value.shape[0], :nz] = value
    for name, value in (("e", data.e), ("lower", data.lower / length), ("upper", data.upper / length), ("z", feasible),
                        ("b_size", np.linalg.norm(data.A, axis=1))):
        getattr(blocks, name)[:value.size] = value
    if not _solve(blocks.numbers, blocks.integers, kb, mc, nz):
        return None
    z, y, side = (getattr(blocks, name) for name in ("z", "y", "side"))
    return Found(z[:nz].copy(), y[:mc] / length, side[:mc].astype(np.int8))
