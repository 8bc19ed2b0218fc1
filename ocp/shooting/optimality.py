"""Optimality of a shooting solution by an independent method: a reverse sweep in plain NumPy over the CasADi interpreter.

It shares neither the loops nor the tangent-space derivatives of the solver: the adjoint ``y_k = dL/dx + (df/dx)' y_{k+1}`` runs
in the ambient coordinates (no ``rate``, no ``rate_inverse``), with reverse-mode derivatives of the step itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocp.guesses.sampling import polyline
from ocp.nlp.local import Local
from ocp.problem import Trajectory
from ocp.shooting.local import adjoints, localised, measured
from ocp.shooting.stages.horizon import Horizon
from ocp.shooting.stages.rows import BELOW, CONE


@dataclass(frozen=True)
class ShootingOptimality:
    """Shooting's data for the certificate: the discrete problem and the returned point: x [S+1, nx], u [S, M], and the
    derivatives of the Lagrangian by the hard constraints, weights [S+1, r] (multipliers; minus them for cones)."""

    horizon: Horizon
    x: np.ndarray
    u: np.ndarray
    weights: np.ndarray

    def gradient(self) -> np.ndarray:
        """Gradient [S, M] of the Lagrangian of the discrete problem in the controls, with the states following the dynamics."""
        return adjoints(self.horizon, self.x, self.u, self.weights)[1]

    def _products(self) -> float:
        """Largest product of a multiplier and its row (for a cone, of the whole cone)."""
        largest = 0.0
        for k in range(self.horizon.stages + 1):
            rows = self.horizon.kind(k).rows
            if not rows.count:
                continue
            product = self.weights[k, :rows.count] * np.asarray(rows.value(*self.horizon.at(k, self.x, self.u))).ravel()
            for r, kind in enumerate(rows.kind):
                if kind == BELOW:
                    largest = max(largest, abs(product[r]))
                elif kind == CONE:
                    largest = max(largest, abs(product[r:r + rows.size[r]].sum()))
        return largest

    def projected(self, gradient: np.ndarray) -> np.ndarray:
        """``clip(gradient, u - upper, u - lower)`` [S, M]: zero exactly where the first-order conditions with control
        bounds hold, the gradient itself far inside them."""
        h, S = self.horizon, self.horizon.stages
        return np.clip(gradient, self.u - h.upper[:S], self.u - h.lower[:S])

    def residuals(self) -> tuple[float, float]:
        """(stationarity, complementarity), both divided by ``max(1, |cost|)``: the largest projected gradient, and the largest
        product of a bound multiplier (what the projection took from the gradient) and the distance to its bound."""
        scale, S = max(1.0, abs(self.cost())), self.horizon.stages
        gradient = self.gradient()
        projected = self.projected(gradient)
        multiplier = gradient - projected
        slack = np.where(multiplier > 0, self.u - self.horizon.lower[:S], self.horizon.upper[:S] - self.u)
        product = np.where(multiplier == 0, 0.0, multiplier * np.where(multiplier == 0, 0.0, slack))
        return float(np.max(np.abs(projected))) / scale, max(float(np.max(np.abs(product))), self._products()) / scale

    def defects(self) -> list[np.ndarray]:
        """``x_{k+1} - step(x_k, u_k)`` of every stage in ambient coordinates: rounding only, for a rollout."""
        return [self.x[k + 1, :self.horizon.kind(k).after.nx] - np.asarray(self._step(k)[0]).ravel()
                for k in range(self.horizon.stages)]

    def cost(self) -> float:
        """The discrete total cost, summed again."""
        return self.horizon.constant + sum(float(self._step(k)[1]) for k in range(self.horizon.stages + 1))

    def motion(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """Times [N+1], states [N+1, nx] and controls [N, nu] of each phase at the returned point."""
        found = []
        for leg in self.horizon.legs:
            knots, system = slice(leg.first, leg.last + 1), leg.stretch.phase.system
            theta = self.x[leg.first, system.nx:leg.stretch.space.nx]
            t = float(leg.stretch.clock(0.0, theta)) + float(leg.stretch.pace(theta)) * self.horizon.t[knots]
            found.append((t, self.x[knots, :system.nx], self.u[leg.first:leg.last, :system.nu]))
        return tuple(found)

    def local(self) -> Local:
        """The discrete problem at the returned point, knot after knot (state, control) in tangent spaces; the Hessian by central
        differences of the adjoint, so that neither the loops nor their derivatives take part."""
        return localised(self.horizon, self.x, self.u, self.weights)

    def moved(self, direction: np.ndarray) -> tuple[Trajectory, ...]:
        """The trajectories of the phases, the unknowns of ``local`` moved by so much, interpolated between knots."""
        x, u = self._moved(direction)
        u = np.clip(u, self.horizon.lower[:len(u)], self.horizon.upper[:len(u)])
        parts = ShootingOptimality(self.horizon, x, u, self.weights).motion()
        return tuple(polyline(leg.stretch.phase.system.space, *part) for leg, part in zip(self.horizon.legs, parts, strict=True))

    def values(self, direction: np.ndarray) -> tuple[float, np.ndarray]:
        """Cost and rows [m] of ``local``, its unknowns moved by so much [n]."""
        return measured(self.horizon, *self._moved(direction))

    def _moved(self, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, u, at = self.x.copy(), self.u.copy(), 0
        for k in range(self.horizon.stages + 1):
            stage = self.horizon.kind(k)
            n, m = stage.space.ndx, stage.nu if k < self.horizon.stages else 0
            x[k, :stage.space.nx] = np.asarray(stage.plus(x[k, :stage.space.nx], direction[at:at + n])).ravel()
            if m:
                u[k, :m] += direction[at + n:at + n + m]
            at += n + m
        return x, u

    def _step(self, k: int) -> tuple[Any, Any]:
        after, cost, *_ = self.horizon.kind(k).step(*self.horizon.at(k, self.x, self.u), self.horizon.h[k])
        return after, cost
