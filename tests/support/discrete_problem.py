"""A horizon of shooting as the discrete problem that polishing sees: its CasADi Functions evaluated knot by knot, no engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from stage_rows import curvature, slopes

from ocp.methods import make_options
from ocp.shooting.kkt import Knot, Multipliers, costates
from ocp.shooting.stages.horizon import Horizon, build


def flat(value):
    return np.asarray(value, dtype=float).ravel()


@dataclass(frozen=True)
class Discrete:
    """exact: with the full Hessian, not that of Gauss-Newton."""

    horizon: Horizon
    exact: bool

    def _arguments(self, k, x, u):
        h, stage = self.horizon, self.horizon.kind(k)
        return stage, (h.t[k], x[k], u[k] if k < h.stages else np.zeros(0), h.p[k, :stage.step.size1_in(3)])

    def evaluate(self, x, u, multipliers):
        """The knots at a point; curvature of steps and rows by the multipliers."""
        h, holds, knots = self.horizon, self.horizon.holds(), []
        for k in range(h.stages + 1):
            stage, at = self._arguments(k, x, u)
            n, m = stage.space.ndx, stage.nu
            g, F, H = (np.asarray(value) for value in stage.expand(*at, h.h[k])[:3])
            if self.exact:
                costate = multipliers.costate[k + 1] if k < h.stages else np.zeros(0)
                H = np.asarray(stage.hessian(*at, h.h[k], costate))
            H = H.T[:, :n + m]
            more = {}
            if stage.rows.count:
                c, C = slopes(stage, *at)
                kept = holds[k, :stage.rows.count] == 1
                more = {"c": flat(c)[kept], "C": C[kept, :n + m], "kind": stage.rows.kind[kept],
                        "size": stage.rows.size[kept]}
                if self.exact:
                    w = np.zeros(stage.rows.count)
                    w[kept] = multipliers.rows[k]
                    H = H + curvature(stage, *at, w)[:, :n + m]
            if k < h.stages:
                after = stage.step(*at, h.h[k])[0]
                gap = flat(h.kind(k + 1).difference(x[k + 1], after))
                more |= {"F": F.T[:, :n + m], "gap": gap, "u": at[2], "lower": h.lower[k, :m], "upper": h.upper[k, :m]}
            knots.append(Knot(n, flat(g)[:n + m], np.tril(H) + np.tril(H, -1).T, **more))
        return knots

    def retract(self, x, dx):
        return [flat(self.horizon.kind(k).plus(a, b)) for k, (a, b) in enumerate(zip(x, dx, strict=True))]

    def rollout(self, x0, u):
        x = [np.asarray(x0, float)]
        for k in range(self.horizon.stages):
            stage, at = self._arguments(k, x, u)
            x.append(flat(stage.step(*at, self.horizon.h[k])[0]))
        return x

    def cost(self, x, u):
        """Sum of all costs but those at a prescribed start."""
        found = 0.0
        for k in range(self.horizon.stages + 1):
            stage, at = self._arguments(k, x, u)
            found += float(stage.step(*at, self.horizon.h[k])[1])
        return found

    def start(self, x, u, weights):
        """Multipliers of rows that hold, from weights [S+1, r], with costates by a backward sweep."""
        rows = [np.asarray(w)[:len(held)][held == 1] for w, held in zip(weights, self.horizon.holds(), strict=True)]
        zero = Multipliers(tuple(np.zeros(self.horizon.kind(k).space.ndx) for k in range(len(x))), tuple(rows))
        return costates(self.evaluate(x, u, zero), rows)

    def point(self, optimality):
        """x, u and multipliers of a solution by shooting, cut to their sizes."""
        x = [optimality.x[k, :self.horizon.kind(k).space.nx].copy() for k in range(self.horizon.stages + 1)]
        u = [optimality.u[k, :self.horizon.kind(k).nu].copy() for k in range(self.horizon.stages)]
        return x, u, self.start(x, u, optimality.weights)


def discrete(problem, exact=True, **options):
    """The horizon of a problem with the options of iLQR."""
    return Discrete(build(problem, make_options("ilqr", options | {"hessian": "full" if exact else "gauss_newton"})), exact)
