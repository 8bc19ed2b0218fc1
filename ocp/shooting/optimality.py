"""Optimality of a shooting solution by a second road: a reverse sweep in plain NumPy over the CasADi interpreter.

It shares neither the loops nor the tangent-space derivatives of the solver: the adjoint
``y_k = dL/dx + (df/dx)' y_{k+1}`` runs in the ambient coordinates (no ``rate``, no
``rate_inverse``), with reverse-mode derivatives of the step itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.problem import Solution
from ocp.shooting.stages.rows import BELOW, CONE, Rows
from ocp.shooting.stages.stage import Stages


@dataclass(frozen=True)
class ShootingOptimality:
    """What shooting leaves for the certificate: the Functions of the discrete problem, step h [s], parameters p,
    control bounds lower, upper [nu], and the returned point: t [N+1], x [N+1, nx], u [N, nu]; rows of hard constraints before and
    at the last knot, and the derivatives of the Lagrangian by them, [N, r] and [r] (multipliers; minus them for cones)."""

    stages: Stages
    h: float
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    t: np.ndarray
    x: np.ndarray
    u: np.ndarray
    rows: tuple[Rows, Rows] | None = None
    weights: tuple[np.ndarray, np.ndarray] = (np.zeros((0, 0)), np.zeros(0))

    def gradient(self) -> np.ndarray:
        """Gradient [N, nu] of the Lagrangian of the discrete problem in the controls, with the states following the dynamics."""
        found = np.empty_like(self.u)
        y = self.stages.adjoint_final(self.t[-1], self.x[-1], self.p)
        if self.rows is not None and self.rows[1].count:
            y += self.rows[1].adjoint(self.t[-1], self.x[-1], self.u[-1], self.p, self.weights[1])[0]
        for k in range(len(self.u) - 1, -1, -1):
            y, slope = self.stages.adjoint(self.t[k], self.x[k], self.u[k], self.p, self.h, y)
            if self.rows is not None and self.rows[0].count:
                by_x, by_u = self.rows[0].adjoint(self.t[k], self.x[k], self.u[k], self.p, self.weights[0][k])
                y, slope = y + by_x, slope + by_u
            found[k] = np.asarray(slope).ravel()
        return found

    def _products(self) -> float:
        """Largest product of a multiplier and its row (for a cone, of the whole cone)."""
        if self.rows is None:
            return 0.0
        largest = 0.0
        places = [(0, k, self.weights[0][k]) for k in range(len(self.u))] + [(1, len(self.u), self.weights[1])]
        for which, k, w in places:
            rows = self.rows[which]
            if not rows.count:
                continue
            product = w * np.asarray(rows.value(self.t[k], self.x[k], self.u[min(k, len(self.u) - 1)], self.p)).ravel()
            for r, kind in enumerate(rows.kind):
                if kind == BELOW:
                    largest = max(largest, abs(product[r]))
                elif kind == CONE:
                    largest = max(largest, abs(product[r:r + rows.size[r]].sum()))
        return largest

    def projected(self, gradient: np.ndarray) -> np.ndarray:
        """``clip(gradient, u - upper, u - lower)`` [N, nu]: zero exactly where the first-order conditions with control
        bounds hold, the gradient itself far inside them."""
        return np.clip(gradient, self.u - self.upper, self.u - self.lower)

    def residuals(self) -> tuple[float, float]:
        """(stationarity, complementarity), both divided by ``max(1, |cost|)``: the largest projected gradient, and
        the largest product of a bound multiplier (what the projection took from the gradient) and the distance to its
        bound."""
        scale = max(1.0, abs(self.cost()))
        gradient = self.gradient()
        projected = self.projected(gradient)
        multiplier = gradient - projected
        slack = np.where(multiplier > 0, self.u - self.lower, self.upper - self.u)
        product = np.where(multiplier == 0, 0.0, multiplier * np.where(multiplier == 0, 0.0, slack))
        return float(np.max(np.abs(projected))) / scale, max(float(np.max(np.abs(product))), self._products()) / scale

    def defects(self) -> np.ndarray:
        """``x_{k+1} - step(x_k, u_k)`` [N, nx] in ambient coordinates: rounding only, for a rollout."""
        after = [np.asarray(self._step(k)[0]).ravel() for k in range(len(self.u))]
        return self.x[1:] - np.array(after)

    def cost(self) -> float:
        """The discrete total cost, summed again."""
        total = self.stages.constant + float(self.stages.final(self.t[-1], self.x[-1], self.p))
        return total + sum(float(self._step(k)[1]) for k in range(len(self.u)))

    def _step(self, k: int) -> tuple[Any, Any]:
        after, cost = self.stages.step(self.t[k], self.x[k], self.u[k], self.p, self.h)
        return after, cost


def discrete_gradient(solution: Solution) -> np.ndarray:
    """Gradient [N, nu] of the discrete total cost at a shooting solution. Raises TypeError for other methods."""
    if not isinstance(solution.optimality, ShootingOptimality):
        raise TypeError(f"a solution by shooting is needed, this one is by {solution.method!r}")
    return solution.optimality.gradient()
