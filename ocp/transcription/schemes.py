"""Collocation schemes as small records; Kelly 2017 = M. Kelly, An Introduction to Trajectory Optimization,
SIAM Review 59(4), 2017.

In an interval of length h a scheme has nodes at the fractions ``nodes`` [s], the first at 0 and the last at 1, shared
with the neighbours. With the states X [s] and rates F [s] of one component at these nodes it holds

    defects        defect_state @ X + h defect_rate @ F = 0     [s - 1]
    integral       h quadrature @ cost at the nodes
    control(r)     sum_i u_i sum_p control[i, p] r^p            r in [0, 1]
    state(r)       x_0 + h sum_i f_i sum_p state[i, p] r^(p+1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Scheme:
    """A collocation scheme (symbols: module docstring); ``order``: of its global error. Checks itself."""

    name: str
    order: int
    nodes: tuple[float, ...]
    defect_state: Table
    defect_rate: Table
    quadrature: tuple[float, ...]
    control: Table
    state: Table

    @property
    def size(self) -> int:
        """Nodes of one interval, both ends included."""
        return len(self.nodes)

    def __post_init__(self) -> None:
        for condition, error in self.conditions().items():
            if not error <= 1e-14:
                raise ValueError(f"scheme {self.name!r} breaks its condition {condition!r} by {error:.3g}")

    def conditions(self) -> dict[str, float]:
        """Errors of the conditions that make this a collocation scheme of its order; all zero up to rounding.

        The collocation polynomial of degree s must satisfy the defects exactly: they vanish for x = r^p, p = 0 .. s.
        """
        c, powers = np.array(self.nodes), np.arange(self.size)
        D, W, w = np.array(self.defect_state), np.array(self.defect_rate), np.array(self.quadrature)
        control, state = np.array(self.control), np.array(self.state)
        defects = [D @ c**0] + [D @ c**p + W @ (p * c ** (p - 1)) for p in range(1, self.size + 1)]
        return {
            "first node at 0, last at 1": abs(c[0]) + abs(c[-1] - 1),
            "weights sum to 1": abs(w.sum() - 1),
            "quadrature order": max(abs(w @ c**p - 1 / (p + 1)) for p in range(self.order)),
            "defects exact for polynomials": float(np.max(np.abs(defects))),
            "as many independent defects as new nodes": abs(float(np.linalg.matrix_rank(D)) - (self.size - 1)),
            "control through its nodes": float(np.max(np.abs(control @ c ** powers[:, None] - np.eye(self.size)))),
            "state rate equals control basis": float(np.max(np.abs(state * (powers + 1) - control))),
        }


#: trapezoidal rule: linear control, quadratic state; Kelly 2017, Sec. 3
TRAPEZOID = Scheme(
    name="trapezoid", order=2, nodes=(0.0, 1.0),
    defect_state=((-1.0, 1.0),), defect_rate=((-1 / 2, -1 / 2),),
    quadrature=(1 / 2, 1 / 2),
    control=((1.0, -1.0), (0.0, 1.0)),
    state=((1.0, -1 / 2), (0.0, 1 / 2)),
)

#: separated Hermite-Simpson: quadratic control, cubic state; Kelly 2017, Sec. 4 and Eqs. 4.10-4.12. The first defect is
#: the Hermite midpoint, the second Simpson's rule.
HERMITE_SIMPSON = Scheme(
    name="hermite_simpson", order=4, nodes=(0.0, 1 / 2, 1.0),
    defect_state=((-1 / 2, 1.0, -1 / 2), (-1.0, 0.0, 1.0)),
    defect_rate=((-1 / 8, 0.0, 1 / 8), (-1 / 6, -2 / 3, -1 / 6)),
    quadrature=(1 / 6, 2 / 3, 1 / 6),
    control=((1.0, -3.0, 2.0), (0.0, 4.0, -4.0), (0.0, -1.0, 2.0)),
    state=((1.0, -3 / 2, 2 / 3), (0.0, 2.0, -4 / 3), (0.0, -1 / 2, 2 / 3)),
)

SCHEMES = {scheme.name: scheme for scheme in (TRAPEZOID, HERMITE_SIMPSON)}
