"""How a search ended: its status and a finding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocp.problem import Finding, Kind, Status
from ocp.shooting.engine import iterate as it
from ocp.shooting.engine import record as r
from ocp.shooting.engine.multipliers import Multipliers
from ocp.shooting.engine.record import Engine
from ocp.shooting.engine.scale import scale
from ocp.shooting.engine.unit import gradient
from ocp.shooting.options import ILQROptions
from ocp.shooting.stages.horizon import Horizon


def lost(horizon: Horizon, store: Engine, multipliers: Multipliers, options: ILQROptions, k: int,
         from_guess: bool = False) -> tuple[Status, Finding]:
    """Why the rollout of the guess ended at knot k; from_guess: its states are those of the guess, not of the rollout."""
    path, stage = store.path, horizon.kind(k)
    x, cost, (phase, time) = path.x[k, :stage.space.nx], float(path.cost[k]), horizon.locate(k, path.x)
    after = (store.spare.after[0] if from_guess else path.x[k + 1])[:stage.after.nx] if k < horizon.stages else np.zeros(0)
    if np.isfinite(cost) and np.all(np.abs(after) <= r.MAX_STATE) and (name := multipliers.not_finite(k)) is not None:
        return Status.NOT_A_NUMBER, Finding(Kind.PATH_CONSTRAINT_NOT_FINITE, phase, name, time=time)
    if k == horizon.stages:
        return Status.NOT_A_NUMBER, Finding(Kind.FINAL_COST_NOT_FINITE, phase, time=time, value=cost)
    names = stage.after.names
    bad = [i for i in range(len(after)) if not np.isfinite(after[i])]
    large = [i for i in range(len(after)) if abs(after[i]) > r.MAX_STATE]
    growing = bool(np.max(np.abs(x)) > np.sqrt(r.MAX_STATE))
    if large and (not bad or growing):
        return Status.DIVERGED, Finding(Kind.STATE_TOO_LARGE, phase, names[large[0]], time=time, value=float(after[large[0]]),
                                        tolerance=r.MAX_STATE)
    if bad:
        status, leg = Status.DIVERGED if growing else Status.NOT_A_NUMBER, horizon.leg(k)
        why = leg.stretch.failure(options.integrator, float(horizon.t[k]), x, path.u[k], float(horizon.h[k]))
        data: dict[str, Any] = {"states": tuple(names[i] for i in bad),
                                "from": dict(zip(stage.space.names, x.tolist(), strict=True))}
        if why is not None:
            data |= {"step": k - leg.first, "failure": why._asdict()}
        return status, Finding(Kind.STATE_NOT_FINITE, phase, names[bad[0]], time=time, value=float(after[bad[0]]), data=data)
    return Status.NOT_A_NUMBER, Finding(Kind.RUNNING_COST_NOT_FINITE, phase, time=time, value=cost)


def ended(ending: int, horizon: Horizon, store: Engine, options: ILQROptions) -> tuple[Status, Finding]:
    """How a minimisation ended."""
    state, cost = store.state, float(store.path.cost.sum())
    projected = float(state[r.GRADIENT])
    if ending == it.CONVERGED:
        return Status.CONVERGED, Finding(Kind.GRADIENT_CONVERGED, value=projected, data={
            "decrease": -float(state[r.LINEAR] + state[r.QUADRATIC]), "cost": cost})
    scaled = float(options.tolerance * scale.py_func(store.settings[r.UNIT], state[r.COST]))
    if ending == it.INDEFINITE:
        if (found := first_not_finite(horizon, store)) is not None:
            return Status.NOT_A_NUMBER, found
        phase, time = horizon.locate(int(state[r.FAILED]), store.path.x)
        return Status.STALLED, Finding(Kind.HESSIAN_INDEFINITE, phase, time=time, data={
            "regularisation": float(store.settings[r.MU_MOST])})
    if ending == it.STUCK:
        return Status.STALLED, Finding(Kind.NO_DECREASE, value=projected, tolerance=scaled, data={
            "regularisation": float(state[r.FAILED]), "diverged": bool(state[r.LOST] >= 0)})
    if ending == it.LEVEL:
        if state[r.VIOLATION] <= options.constraint_tolerance and (own := gradient(store)) <= scaled:
            return Status.CONVERGED, Finding(Kind.COST_AT_ROUNDING, value=float(own), tolerance=scaled, data={"cost": cost})
        return Status.STALLED, Finding(Kind.GRADIENT_ABOVE_ROUNDING, value=float(state[r.SMALLEST]), tolerance=scaled)
    return Status.NOT_A_NUMBER, not_a_number(horizon, store)


def not_a_number(horizon: Horizon, store: Engine) -> Finding:
    """What is not finite."""
    return first_not_finite(horizon, store) or Finding(Kind.COSTATES_OVERFLOW)


def first_not_finite(horizon: Horizon, store: Engine) -> Finding | None:
    """The first derivative that is not finite; None if all are."""
    model, conset = store.model, store.conset
    for k in range(horizon.stages + 1):
        stage = horizon.kind(k)
        n, names = stage.space.ndx, stage.space.tangent_names + stage.controls
        size = len(names)
        phase, time = horizon.locate(k, store.path.x)
        if k < horizon.stages:
            found = np.argwhere(~np.isfinite(model.F[k, :stage.after.ndx, :size]))
            if len(found):
                i, j = found[0]
                return Finding(Kind.DYNAMICS_DERIVATIVE_NOT_FINITE, phase, component=stage.after.tangent_names[i], time=time,
                               value=float(model.F[k, i, j]), data={"by": names[j]})
        if stage.rows.count:
            bad = ~np.isfinite(conset.C[k, :stage.rows.count, :size]) & (conset.holds[k, :stage.rows.count, None] > 0)
            if bad.any():
                i, j = np.argwhere(bad)[0]
                return Finding(Kind.CONSTRAINT_DERIVATIVE_NOT_FINITE, phase, stage.rows.names[i], time=time,
                               value=float(conset.C[k, i, j]), data={"by": names[j]})
        found = np.argwhere(~np.isfinite(model.g[k, :size]))
        if len(found):
            i = found[0][0]
            return Finding(Kind.COST_DERIVATIVE_NOT_FINITE, phase, time=time, value=float(model.g[k, i]), data={"by": names[i]})
        H = np.tril(model.H[k, :size, :size])
        found = np.argwhere(~np.isfinite(H))
        if len(found):
            i, j = found[0]
            return Finding(Kind.COST_HESSIAN_NOT_FINITE, phase, time=time, value=float(H[i, j]), data={
                "by": (names[i], names[j]), "controls": bool(i >= n and j >= n)})
    return None
