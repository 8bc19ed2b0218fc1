"""The unit of the cost, so that no iteration depends on what a cost is measured in.

Tolerances have a floor, penalties and regularisations a first value. All of these are numbers for a cost of size one where the
search begins, and are multiplied by the size that this cost then has. Limits of penalties and multipliers grow with it, too, but do
not shrink: rows in small numbers need large ones.
"""

from __future__ import annotations

import numpy as np

from ocp.shooting.engine import record as r
from ocp.shooting.engine.record import Store

NONE = 1e-100
"""A penalty that is none."""


def find(store: Store, penalty: float) -> None:
    """Give the store of a path that was expanded with the penalty ``NONE`` the unit of its cost, and this penalty in that unit.
    Where there are rows the path has to be priced and expanded anew."""
    store.held.mu[:] = penalty
    measure(store, min((one for one in sizes(store) if 0.0 < one < np.inf), default=1.0))
    path, plan, unit, S = store.path, store.plan, store.settings[r.UNIT], len(store.path.u)
    store.state[r.GRADIENT] = np.abs(np.clip(  # it was cut off at bounds in another unit
        store.policy.gradient, unit * (path.u - plan.upper[:S]), unit * (path.u - plan.lower[:S]))).max(initial=0.0)


def sizes(store: Store) -> tuple[float, float]:
    """How large the cost of an expanded path is: by its values, and by what controls add that move a tenth of their range, or a
    fifth of their own size without one. The Hessians must be those of the cost alone."""
    plan, path, model = store.plan, store.path, store.model
    bent, own = 0.0, np.abs(path.u).max(axis=0)
    for k, (n, m) in enumerate(zip(model.n[:-1], model.m[:-1], strict=True)):
        ranges = 0.5 * (plan.upper[k, :m] - plan.lower[k, :m])
        moves = 0.2 * np.where(np.isfinite(ranges), ranges, np.where(own[:m] > 0, own[:m], 1.0))
        bent += 0.5 * float(np.abs(np.diagonal(model.H[k, n:n + m, n:n + m])) @ moves**2)
    return float(np.abs(path.cost).sum()), bent


def measure(store: Store, unit: float) -> None:
    """Turn the numbers of a store at its start, which are for a unit of one, into those for this unit."""
    store.held.mu[:] *= unit
    store.settings[[r.MU_LEAST, r.MU_MOST]] *= unit
    store.settings[r.UNIT] = unit
    store.state[r.MU] *= unit
