"""From the iterate of a search to a polished one: what ``ocp.shooting.polish`` needs, evaluated by the compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ocp.shooting.engine import record as r
from ocp.shooting.engine.iterate import EXPAND, LAGRANGIAN, ROLLOUT_OF_GUESS
from ocp.shooting.engine.record import FULL, Engine
from ocp.shooting.kkt import Knot, Multipliers, costates
from ocp.shooting.polish import Polished, PolishOptions, polish
from ocp.shooting.stages.horizon import Horizon
from ocp.shooting.stages.rows import BELOW

Array = np.ndarray
Perform = Callable[[int], int]
MAX_EXCHANGES = 12
"""Corrections of the active set in one Newton step; a point that needs more is not near enough."""


class Discrete:
    """The discrete problem of a store, evaluated at any point. ``exact``: Hessians of the Lagrangian, not those of Gauss-Newton;
    the store must have the kernels for them. ``perform``: lets the compiled loops do a task (``ocp.shooting.engine.iterate``).
    Gradients, Hessians and multipliers are in the unit of the cost."""

    def __init__(self, horizon: Horizon, store: Engine, exact: bool, perform: Perform):
        self.horizon, self.store, self.exact, self.perform = horizon, store, exact, perform
        self.unit = float(store.settings[r.UNIT])
        self.indices = [np.flatnonzero(store.conset.holds[k, :horizon.kind(k).rows.count]) for k in range(horizon.stages + 1)]

    def evaluate(self, x: Sequence[Array], u: Sequence[Array], multipliers: Multipliers) -> list[Knot]:
        """Values and derivatives at every knot. Raises ArithmeticError where the problem cannot be evaluated."""
        horizon, store = self.horizon, self.store
        path, conset = store.path, store.conset
        for k, row in enumerate(x):
            path.x[k, :len(row)] = row
        for k, row in enumerate(u):
            path.u[k, :len(row)] = row
        store.settings[FULL] = float(self.exact)
        failed = self.perform(ROLLOUT_OF_GUESS)
        if failed < 0:
            conset.gradient[:] = 0.0
            for k, rows in enumerate(self.indices):
                store.policy.costate[k, :len(multipliers.costate[k])] = self.unit * multipliers.costate[k]
                conset.gradient[k, rows] = self.unit * multipliers.rows[k]
            failed = self.perform(LAGRANGIAN)
        if failed >= 0:
            phase, t = horizon.locate(int(failed), path.x)
            raise ArithmeticError(f"cannot be evaluated at t = {t:.6g} s" + (f" of phase {phase!r}" if phase else ""))
        return [self._knot(k) for k in range(horizon.stages + 1)]

    def _knot(self, k: int) -> Knot:
        stage, store, rows = self.horizon.kind(k), self.store, self.indices[k]
        model, conset = store.model, store.conset
        n, m = stage.space.ndx, stage.nu
        z = n + m
        H = np.tril(model.H[k, :z, :z])
        more = {} if not len(rows) else {"c": conset.c[k, rows], "C": conset.C[k][rows, :z], "kind": stage.rows.kind[rows],
                                         "size": stage.rows.size[rows]}
        if k < self.horizon.stages:
            more |= {"F": model.F[k, :stage.after.ndx, :z].copy(), "gap": store.path.gap[k, :stage.after.ndx].copy(),
                     "u": store.path.u[k, :m].copy(), "lower": store.plan.lower[k, :m], "upper": store.plan.upper[k, :m]}
        return Knot(n, model.g[k, :z] / self.unit, (H + np.tril(H, -1).T) / self.unit, **more)

    def retract(self, x: Sequence[Array], dx: Sequence[Array]) -> list[Array]:
        """``x [+] dx`` knot by knot."""
        found = []
        for k, (a, b) in enumerate(zip(x, dx, strict=True)):
            space = self.horizon.kind(k)
            found.append(a + b if space.space.is_vector_space else np.asarray(space.plus(a, b)).ravel())
        return found

    def point(self) -> tuple[list[Array], list[Array], Multipliers]:
        """Path and multiplier estimates of the store as they stand."""
        horizon, store = self.horizon, self.store
        x = [store.path.x[k, :horizon.kind(k).space.nx].copy() for k in range(horizon.stages + 1)]
        u = [store.path.u[k, :horizon.kind(k).nu].copy() for k in range(horizon.stages)]
        rows = tuple(store.conset.gradient[k, rows] / self.unit for k, rows in enumerate(self.indices))
        zero = Multipliers(tuple(np.zeros(horizon.kind(k).space.ndx) for k in range(horizon.stages + 1)), rows)
        return x, u, costates(self.evaluate(x, u, zero), rows)


def polished(horizon: Horizon, store: Engine, exact: bool, tolerance: float, perform: Perform) -> Polished:
    """Polish the iterate of a store in place: path, multipliers and an expansion that belongs to them. A point that cannot be
    improved stays."""
    discrete = Discrete(horizon, store, exact, perform)
    x, u, multipliers = discrete.point()
    scale = max(1.0, abs(float(store.path.cost.sum())) / discrete.unit)
    found = polish(discrete.evaluate, discrete.retract, x, u, multipliers, PolishOptions(tolerance=tolerance, scale=scale,
                                                                                         max_steps=8, max_exchanges=MAX_EXCHANGES))
    for k, row in enumerate(found.x):
        store.path.x[k, :len(row)] = row
    for k, row in enumerate(found.u):
        store.path.u[k, :len(row)] = row
    perform(ROLLOUT_OF_GUESS)
    store.conset.lam[:] = 0.0
    for k, rows in enumerate(discrete.indices):
        signs = np.where(horizon.kind(k).rows.kind[rows] <= BELOW, 1.0, -1.0)
        store.conset.lam[k, rows] = signs * discrete.unit * found.multipliers.rows[k]
    perform(EXPAND)
    store.state[r.GAP] = float(np.abs(store.path.gap).sum())
    return found
