"""The state of a search as arrays, and a search that goes on from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ocp.errors import ProblemError
from ocp.problem.checkpoint import Checkpoint, check_layout, layout, log_arrays, text
from ocp.shooting.engine import record as r
from ocp.shooting.engine.unit import measure
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon

if TYPE_CHECKING:
    from ocp.shooting.engine.multipliers import Multipliers
    from ocp.shooting.engine.record import Engine

_STATE = (r.MU, r.MU_FACTOR, r.GAP_PRICE, r.BLEND)
"""Regularisation and price of gaps that a search has learnt."""


def stages(horizon: Horizon) -> dict[str, np.ndarray]:
    """Identity of the path and the multipliers of a horizon: labels of all stages, names of all constraints."""
    return {**layout("ilqr", horizon.problem),
            "stages": text([horizon.kind(k).label for k in range(horizon.stages + 1)]),
            "rows": text([f"{kind.label}: {name}" for kind in horizon.kinds for name in kind.rows.names])}


def save(horizon: Horizon, store: Engine, multipliers: Multipliers, schedule: np.ndarray | None, log: list[Mapping[str, Any]],
         iteration: int, attempt: int = 1) -> Checkpoint:
    """Copies of what a search needs to go on: path, multipliers and penalties, regularisation, schedule."""
    path, conset = store.path, store.conset
    saved = {
        **stages(horizon), "iterations": np.array([iteration]), "cost": np.array([path.cost.sum() + horizon.constant]),
        "t": store.plan.t.copy(), "x": path.x.copy(), "u": path.u.copy(), "gap": path.gap.copy(),
        "multipliers": conset.lam.copy(), "penalties": conset.mu.copy(), "regularisation": store.state[list(_STATE)].copy(),
        "hessian": store.settings[[r.FULL, r.FIRST_BLEND]].copy(),
        "violations": multipliers.previous.copy(), "attempt": np.array([attempt]),
        "unit": store.settings[[r.UNIT]].copy(), **log_arrays(log),
    }
    if schedule is not None:
        saved["schedule"] = schedule.copy()
    return saved


def restore(checkpoint: Checkpoint, horizon: Horizon, options: ILQROptions, store: Engine) -> bool:
    """Write a checkpoint into the store. Returns whether its states count, that is, have gaps still to be closed.

    Raises ProblemError for a checkpoint of another problem or one whose path is not finite.
    """
    check_layout(checkpoint, stages(horizon))
    measure(store, float(checkpoint.get("unit", np.ones(1))[0]))
    path, conset = store.path, store.conset
    for name, into in (("x", path.x), ("u", path.u), ("gap", path.gap), ("multipliers", conset.lam), ("penalties", conset.mu)):
        if name not in checkpoint or np.shape(checkpoint[name]) != into.shape:
            raise ProblemError(f"has no {name} of shape {into.shape}", where="checkpoint")
        into[:] = checkpoint[name]
    used = [(path.x[k, :horizon.kind(k).space.nx], path.u[k:k + 1, :horizon.kind(k).nu]) for k in range(horizon.stages + 1)]
    if not all(np.all(np.isfinite(x)) and np.all(np.isfinite(u)) for x, u in used):
        raise ProblemError("holds states or controls that are not finite", where="checkpoint")
    # other limits of the options hold at once
    path.u[:] = np.clip(path.u, horizon.lower[:-1, :path.u.shape[1]], horizon.upper[:-1, :path.u.shape[1]])
    store.state[list(_STATE)] = checkpoint["regularisation"]
    if options.hessian == "auto":
        store.settings[[r.FULL, r.FIRST_BLEND]] = checkpoint["hessian"]
    return options.shooting in ("feasible", "multiple") and bool(np.any(path.gap))


def schedule_of(checkpoint: Checkpoint, options: ILQROptions) -> np.ndarray | None:
    """Where the outer iterations stood, as ``ocp.shooting.engine.outer`` counts them; None before the first."""
    from ocp.shooting.engine.outer import SCHEDULE, STALLS, TOLERANCE

    if "schedule" not in checkpoint:
        return None
    found = np.array(checkpoint["schedule"], dtype=float)
    if found.shape != (SCHEDULE,):
        raise ProblemError("was written by another version and cannot be resumed", where="checkpoint")
    found[[TOLERANCE, STALLS]] = max(options.tolerance, found[TOLERANCE]), 0.0
    return found
