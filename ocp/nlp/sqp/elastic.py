"""Quadratic programs whose rows may be violated at a price: always feasible, whatever the linearised constraints contradict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ocp.nlp.sqp.interior import Answer, Quadratic
from ocp.nlp.sqp.kkt_system import pattern, system
from ocp.nlp.sqp.quadratic import solve_quadratic

Triplets = tuple[np.ndarray, np.ndarray]


class Elastic:
    """minimise q(d) + price sum (p + q)  subject to  row_lower <= A d + p - q <= row_upper,  bounds on d,  p, q >= 0."""

    def __init__(self, n: int, m: int, h: Triplets, a: Triplets):
        """h, a: rows and columns of the nonzeros of the upper triangle of the Hessian of q and of A [m, n]."""
        self.n, self.m = n, m
        rows = np.arange(m)
        self.shape = pattern(n + 2 * m, m, h, (np.concatenate([a[0], rows, rows]), np.concatenate([a[1], n + rows, n + m + rows])))

    def solve(self, h: np.ndarray, a: np.ndarray, qp: Quadratic, price: float, last_delta: float = 0.0,
              least_delta: float = 0.0) -> Answer | None:
        """The answer in the unknowns and rows of ``qp``, whose own system is not looked at; None where it cannot be computed."""
        n, m = self.n, self.m
        given = system(self.shape, h, np.concatenate([a, np.ones(m), -np.ones(m)]))
        both = Quadratic(given, np.concatenate([qp.c, np.full(2 * m, price)]), qp.row_lower, qp.row_upper,
                         np.concatenate([qp.lower, np.zeros(2 * m)]), np.concatenate([qp.upper, np.full(2 * m, np.inf)]))
        found = solve_quadratic(both, None, last_delta, None, least_delta)
        if found is None:
            return None
        active = np.concatenate([found.active[:n], found.active[n + 2 * m:]])
        return replace(found, d=found.d[:n], lam_x=found.lam_x[:n], active=active)
