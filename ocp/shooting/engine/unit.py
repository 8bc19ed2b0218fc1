"""The unit of the cost, so that no iteration depends on what a cost is measured in.

Tolerances have a minimum, penalties and regularisations a first value. All of these are numbers for a cost of size one where the
search begins, and are multiplied by the size that this cost then has. Limits of penalties and multipliers grow with it, too, but do
not shrink: constraints in small numbers need large ones.
"""

from __future__ import annotations

import numpy as np

from ocp.shooting.engine import record as r
from ocp.shooting.engine.record import Engine

NONE = 1e-100
"""A penalty that is none."""


def find(store: Engine, penalty: float) -> None:
    """Give the store of a path that was expanded with the penalty ``NONE`` the unit of its cost, and this penalty in that unit.
    Where there are constraints the path has to be priced and expanded anew."""
    store.conset.mu[:] = penalty
    measure(store, min((one for one in sizes(store) if 0.0 < one < np.inf), default=1.0))
    path, plan, unit, S = store.path, store.plan, store.settings[r.UNIT], len(store.path.u)
    store.state[r.GRADIENT] = np.abs(np.clip(  # it was cut off at bounds in another unit
        store.policy.gradient, unit * (path.u - plan.upper[:S]), unit * (path.u - plan.lower[:S]))).max(initial=0.0)


def sizes(store: Engine) -> tuple[float, float]:
    """How large the cost of an expanded path is: by its values, and by what controls add that move a tenth of their range, or a
    fifth of their magnitude without one. The Hessians must be those of the cost alone."""
    model, far, bent = store.model, 0.2 * moves(store), 0.0
    for kind in range(len(store.plan.nx)):
        if len(k := np.flatnonzero(store.plan.which[:-1] == kind)):
            n, m = int(model.n[k[0]]), int(model.m[k[0]])
            curved = np.abs(np.einsum("kii->ki", model.H[:, n:n + m, n:n + m]))
            bent += 0.5 * float(np.vdot(curved[k], far[k, :m]**2))
    return float(np.abs(store.path.cost).sum()), bent


def moves(store: Engine) -> np.ndarray:
    """Half the range of every control, or its magnitude along the path without one [S, M]."""
    plan, path, S = store.plan, store.path, len(store.path.u)
    own = np.abs(path.u).max(axis=0)
    ranges = 0.5 * (plan.upper[:S] - plan.lower[:S])
    return np.where(np.isfinite(ranges), ranges, np.where(own > 0, own, 1.0))


def gradient(store: Engine) -> float:
    """The largest entry of the projected gradient where every control is measured by its size, in whatever unit it stands."""
    plan, path, unit, S, far = store.plan, store.path, store.settings[r.UNIT], len(store.path.u), moves(store)
    far = np.where(far > 0, far, 1.0)  # held fast by its bounds
    used = np.arange(path.u.shape[1]) < np.asarray(store.model.m)[:S, None]
    slope = np.clip(far * store.policy.gradient, unit * (path.u - plan.upper[:S]) / far, unit * (path.u - plan.lower[:S]) / far)
    return float(np.max(np.abs(slope), where=used, initial=0.0))


def measure(store: Engine, unit: float) -> None:
    """Turn the numbers of a store at its start, which are for a unit of one, into those for this unit."""
    store.conset.mu[:] *= unit
    store.settings[r.MU_LEAST] *= unit
    store.settings[r.MU_MOST] *= unit
    store.settings[r.UNIT] = unit
    store.state[r.MU] *= unit
