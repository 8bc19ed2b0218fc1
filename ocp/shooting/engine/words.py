"""What went wrong, in the user's words."""

from __future__ import annotations

import numpy as np

from ocp.problem import Status
from ocp.shooting.engine import iterate as it
from ocp.shooting.engine import record as r
from ocp.shooting.engine.multipliers import Multipliers
from ocp.shooting.engine.record import Store
from ocp.shooting.engine.scale import scale
from ocp.shooting.engine.unit import gradient
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon


def lost(horizon: Horizon, store: Store, multipliers: Multipliers, options: ILQROptions, k: int,
         given: bool = False) -> tuple[Status, str]:
    """Why the rollout of the guess ended at knot k; given: its states are those of the guess, not of the rollout."""
    path, stage = store.path, horizon.kind(k)
    x, cost, place = path.x[k, :stage.space.nx], path.cost[k], horizon.place(k, path.x)
    after = (store.spare.after[0] if given else path.x[k + 1])[:stage.after.nx] if k < horizon.stages else np.zeros(0)
    if np.isfinite(cost) and np.all(np.abs(after) <= options.state_limit) and (name := multipliers.not_finite(k)):
        return Status.NOT_A_NUMBER, f"the constraint {name} is not finite at {place} (rollout of the guess)"
    if k == horizon.stages:
        return Status.NOT_A_NUMBER, f"the final cost is {cost} at {place} (rollout of the guess)"
    names = stage.after.names
    bad = [i for i in range(len(after)) if not np.isfinite(after[i])]
    large = [i for i in range(len(after)) if abs(after[i]) > options.state_limit]
    growing = bool(np.max(np.abs(x)) > np.sqrt(options.state_limit))
    where = f"in the step from {place} (rollout of the initial guess)"
    if large and (not bad or growing):
        return Status.DIVERGED, f"state {names[large[0]]!r} exceeds {options.state_limit:.3g} {where}"
    if bad:
        state = ", ".join(f"{name} = {value:.6g}" for name, value in zip(stage.space.names, x, strict=True))
        listed = ", ".join(repr(names[i]) for i in bad)
        status, leg = Status.DIVERGED if growing else Status.NOT_A_NUMBER, horizon.leg(k)
        why = leg.stretch.failure(options.integrator, float(horizon.t[k]), x, path.u[k], float(horizon.h[k]))
        step = f"step {k - leg.first}: {why}; " if why else ""
        return status, f"{step}state {listed} becomes {after[bad[0]]} {where}, from {state}"
    return Status.NOT_A_NUMBER, f"the running cost is {cost} {where}"


def ended(ending: int, horizon: Horizon, store: Store, options: ILQROptions) -> tuple[Status, str]:
    """How a minimisation ended."""
    state = store.state
    if ending == it.CONVERGED:
        return Status.CONVERGED, (f"projected gradient {state[r.GRADIENT]:.3g}, expected decrease "
                                  f"{-(state[r.LINEAR] + state[r.QUADRATIC]):.3g}, cost {store.path.cost.sum():.9g}")
    scaled = options.tolerance * scale.py_func(store.settings[r.UNIT], state[r.COST])
    if ending == it.INDEFINITE:
        if (words := first_not_finite(horizon, store)) is not None:
            return Status.NOT_A_NUMBER, words
        return Status.STALLED, (f"Quu is not positive definite at {horizon.place(int(state[r.FAILED]), store.path.x)} even with "
                                f"regularisation {store.settings[r.MU_MOST]:.3g}")
    if ending == it.STUCK:
        why = "; the last trial rollout diverged" if state[r.LOST] >= 0 else ""
        return Status.STALLED, (f"no step decreases the cost with regularisation {state[r.FAILED]:.3g}; projected gradient "
                                f"{state[r.GRADIENT]:.3g}, tolerance {scaled:.3g}{why}")
    if ending == it.LEVEL:
        if state[r.VIOLATION] <= options.constraint_tolerance and (own := gradient(store)) <= scaled:
            return Status.CONVERGED, (f"the cost is at its rounding level, cost {store.path.cost.sum():.9g}; projected gradient "
                                      f"{own:.3g} by controls in parts of their size")
        return Status.STALLED, ("the cost is at its rounding level and the projected gradient stays at "
                                f"{state[r.SMALLEST]:.3g}, above its tolerance {scaled:.3g}")
    return Status.NOT_A_NUMBER, not_a_number(horizon, store)


def not_a_number(horizon: Horizon, store: Store) -> str:
    """What is not finite, in words."""
    return first_not_finite(horizon, store) or "the costates overflow: the rollout is too sensitive; shorten the horizon"


def first_not_finite(horizon: Horizon, store: Store) -> str | None:
    """The first derivative that is not finite, in words; None if all are."""
    model, held = store.model, store.held
    for k in range(horizon.stages + 1):
        stage = horizon.kind(k)
        n, names = stage.space.ndx, stage.space.tangent_names + stage.controls
        size = len(names)
        place = horizon.place(k, store.path.x)
        if k < horizon.stages:
            found = np.argwhere(~np.isfinite(model.F[k, :stage.after.ndx, :size]))
            if len(found):
                i, j = found[0]
                return (f"the derivative of the dynamics is {model.F[k, i, j]} at {place}, component "
                        f"{stage.after.tangent_names[i]!r} by {names[j]!r}")
        if stage.rows.count:
            bad = ~np.isfinite(held.C[k, :stage.rows.count, :size]) & (held.holds[k, :stage.rows.count, None] > 0)
            if bad.any():
                i, j = np.argwhere(bad)[0]
                return f"the derivative of constraint {stage.rows.names[i]!r} is {held.C[k, i, j]} at {place}, by {names[j]!r}"
        found = np.argwhere(~np.isfinite(model.g[k, :size]))
        if len(found):
            return f"the derivative of the cost is {model.g[k, found[0][0]]} at {place}, component {names[found[0][0]]!r}"
        H = np.tril(model.H[k, :size, :size])
        found = np.argwhere(~np.isfinite(H))
        if len(found):
            i, j = found[0]
            what = "cost" if i < n or j < n else "cost by the controls"
            return f"the second derivative of the {what} is {H[i, j]} at {place}, components {names[i]!r} and {names[j]!r}"
    return None
