"""Steps that reduce the violation of linearised constraints alone: always feasible, whatever the constraints contradict."""

from __future__ import annotations

import numpy as np

from ocp.nlp.kkt_system import pattern, system
from ocp.nlp.quadratic import Quadratic, solve_quadratic


class Elastic:
    """minimise weight/2 |d|^2 + sum (p + q)  subject to  row_lower <= J d + p - q <= row_upper,  bounds on d,  p, q >= 0."""

    def __init__(self, n: int, m: int, i: np.ndarray, j: np.ndarray):
        self.n, self.m = n, m
        every, rows = np.arange(n), np.arange(m)
        a = np.concatenate([i, rows, rows]), np.concatenate([j, n + rows, n + m + rows])
        self.shape = pattern(n + 2 * m, m, (every, every), a)

    def step(self, J: np.ndarray, row_lower: np.ndarray, row_upper: np.ndarray, lower: np.ndarray, upper: np.ndarray,
             weight: float) -> np.ndarray | None:
        """d [n], or None where it cannot be computed."""
        n, m = self.n, self.m
        price = np.concatenate([np.zeros(n), np.ones(2 * m)])
        given = system(self.shape, np.full(n, weight), np.concatenate([J, np.ones(m), -np.ones(m)]))
        nothing, free = np.zeros(2 * m), np.full(2 * m, np.inf)
        qp = Quadratic(given, price, row_lower, row_upper, np.concatenate([lower, nothing]), np.concatenate([upper, free]))
        answer = solve_quadratic(qp, None, 0.0)
        return None if answer is None else answer.d[:n]
