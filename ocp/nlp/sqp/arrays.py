"""The functions of a program as arrays, for methods that are written here."""

from __future__ import annotations

import time
from typing import Any

import casadi as ca
import numpy as np

from ocp.nlp.ipopt import hessian
from ocp.nlp.options import SolverOptions
from ocp.nlp.program import NLP, S_MAX, outside
from ocp.nlp.sqp.elastic import Elastic
from ocp.nlp.sqp.kkt_system import factorise, pattern, system
from ocp.nlp.sqp.quadratic import Quick

#: multipliers estimated larger than this are no use; Waechter and Biegler 2006, Sec. 3.6
LARGEST_ESTIMATE = 1e3


class Arrays:
    """Values and derivatives, counted and timed, and what is built once from their patterns."""

    def __init__(self, nlp: NLP, options: SolverOptions):
        self.nlp, self.second = nlp, hessian(nlp, options)
        upper, jacobian = self.second.sparsity_out(0), nlp.jac.sparsity_out(1)
        self.shape = pattern(nlp.n, nlp.m, upper.get_triplet(), jacobian.get_triplet())
        self.i, self.j = (np.array(k, dtype=int) for k in jacobian.get_triplet())
        self.entries = upper.nnz()
        every = np.arange(nlp.n)
        row, column = (np.array(k, dtype=int) for k in upper.get_triplet())
        self.elastic = Elastic(nlp.n, nlp.m, (row, column), (self.i, self.j))
        self.nearest = Elastic(nlp.n, nlp.m, (every, every), (self.i, self.j))
        self.quick = Quick(upper, jacobian)
        self.empty = system(self.shape, np.zeros(self.entries), np.zeros(len(self.i)))
        self.calls, self.seconds = 0, 0.0

    def _call(self, function: ca.Function, *arguments: Any) -> list[np.ndarray]:
        began = time.perf_counter()
        found = function.call([ca.DM(a) for a in arguments])
        self.calls, self.seconds = self.calls + 1, self.seconds + time.perf_counter() - began
        return [np.array(value.nonzeros()) for value in found]

    def values(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(self._call(self.nlp.f, x)[0][0]), self._call(self.nlp.g, x)[0]

    def first(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and nonzeros of the Jacobian."""
        return self._call(self.nlp.grad, x)[1], self._call(self.nlp.jac, x)[1]

    def hess(self, x: np.ndarray, lam_g: np.ndarray) -> np.ndarray:
        return self._call(self.second, x, 1.0, lam_g)[0]

    def transposed(self, J: np.ndarray, lam: np.ndarray) -> np.ndarray:
        return np.bincount(self.j, J * lam[self.i], self.nlp.n)

    def times(self, J: np.ndarray, d: np.ndarray) -> np.ndarray:
        return np.bincount(self.i, J * d[self.j], self.nlp.m)

    def estimate(self, gradient: np.ndarray, J: np.ndarray) -> np.ndarray:
        """Multipliers of the equations [m] that make the slope of the Lagrangian least in the mean square; 0 where that fails."""
        nlp = self.nlp
        free, equations = nlp.x_lower < nlp.x_upper, nlp.g_lower == nlp.g_upper
        given = system(self.shape, np.zeros(self.entries), J)
        solve = factorise(given, np.ones(nlp.n), np.zeros(nlp.m), np.concatenate([free, equations]))
        if solve is None:
            return np.zeros(nlp.m)
        lam = solve(np.concatenate([np.where(free, -gradient, 0.0), np.zeros(nlp.m)]))[nlp.n:]
        return np.where(equations, lam, 0.0) if np.max(np.abs(lam), initial=0.0) <= LARGEST_ESTIMATE else np.zeros(nlp.m)

    def theta(self, g: np.ndarray) -> float:
        return float(np.sum(outside(g, self.nlp.g_lower, self.nlp.g_upper)))

    def errors(self, x: np.ndarray, g: np.ndarray, slope: np.ndarray, lam_x: np.ndarray,
               lam_g: np.ndarray) -> tuple[float, float, float]:
        """Stationarity and complementarity, scaled as in ``ocp.nlp.kkt``, and the largest violation."""
        nlp = self.nlp
        free = nlp.x_lower < nlp.x_upper
        value, lam = np.concatenate([x, g]), np.concatenate([lam_x, lam_g])
        low, high = np.concatenate([nlp.x_lower, nlp.g_lower]), np.concatenate([nlp.x_upper, nlp.g_upper])
        s_d = max(S_MAX, float(np.abs(lam).sum()) / max(1, len(lam))) / S_MAX
        distance = np.where(lam > 0, high - value, value - low)
        products = np.abs(lam) * np.where(np.isfinite(distance), np.abs(distance), 1.0)
        inequality = low < high
        s_c = max(S_MAX, float(np.abs(lam[inequality]).sum()) / max(1, 2 * int(inequality.sum()))) / S_MAX
        stationarity = float(np.max(np.abs(slope + lam_x)[free], initial=0.0)) / s_d
        complementarity = float(np.max(products[inequality], initial=0.0)) / s_c
        return stationarity, complementarity, float(np.max(outside(g, nlp.g_lower, nlp.g_upper), initial=0.0))
