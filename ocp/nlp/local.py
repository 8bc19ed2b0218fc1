"""A nonlinear program at a point: values and first and second derivatives, with what every unknown stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray

#: kinds of unknowns
COORDINATE, TANGENT, CONTROL, DURATION, PARAMETER = range(5)


@dataclass(frozen=True, eq=False)
class Owners:
    """Owners of the unknowns [n]: kind; phase (0 where it matters not); component, of the state, the control or the parameters
    of the system; share: the part of the phase that belongs to it, 1 for what belongs to all of it."""

    kind: Array
    phase: Array
    component: Array
    share: Array

    @staticmethod
    def empty(n: int) -> Owners:
        """Owners of n unknowns before any is assigned."""
        return Owners(np.full(n, PARAMETER), np.zeros(n, dtype=int), np.full(n, -1), np.ones(n))

    def put(self, columns: Array, kind: int, phase: int, component: Any, share: Any = 1.0) -> None:
        """Assign columns to components of a phase."""
        self.kind[columns], self.phase[columns] = kind, phase
        self.component[columns], self.share[columns] = component, share


@dataclass(frozen=True, eq=False)
class Local:
    """minimise f(x) subject to lower <= g <= upper, x_lower <= x <= x_upper at a point; signs of multipliers as in ``NLP``.

    x, gradient (of f), lam_x [n]; g, lam_g [m]; jacobian [m, n], hessian [n, n] of the Lagrangian, both halves; exact: whether the
    Hessian is; owners of the unknowns.
    """

    x: Array
    x_lower: Array
    x_upper: Array
    lam_x: Array
    g: Array
    g_lower: Array
    g_upper: Array
    lam_g: Array
    gradient: Array
    jacobian: sp.csr_matrix
    hessian: sp.csr_matrix
    owners: Owners

    def lagrangian_gradient(self) -> Array:
        """Gradient of the Lagrangian [n]."""
        return np.asarray(self.gradient + self.jacobian.T @ self.lam_g + self.lam_x)


def cells(fractions: Array) -> Array:
    """The share of [0, 1] that belongs to each of these evaluation points, which increase."""
    if len(fractions) < 2:
        return np.ones(len(fractions))
    edges = np.concatenate([fractions[:1], (fractions[1:] + fractions[:-1]) / 2, fractions[-1:]])
    return np.asarray(np.maximum(np.diff(edges), 1e-9))
