"""From the path of a solve to what a solution holds: trajectories of the phases, gains, multipliers, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ocp.problem import Finding, Kind, Trajectory, join
from ocp.shooting.engine import records
from ocp.shooting.stages.horizon import Horizon, Leg

if TYPE_CHECKING:
    from ocp.shooting.engine.record import Engine, Path


def constants(horizon: Horizon, x: np.ndarray) -> dict[str, float]:
    """The free durations and parameters that were chosen."""
    leg = horizon.legs[0]
    nx, count = leg.stretch.phase.system.nx, horizon.constants.chosen
    return dict(zip(horizon.constants.names[:count], x[leg.first, nx:nx + count].tolist(), strict=True))


def chosen_constants(horizon: Horizon, values: Mapping[str, float]) -> tuple[Finding, ...]:
    """A finding for each of the constants, by name; durations by their phase, "" of a single one."""
    own, phases = horizon.constants, [leg.stretch.phase.name for leg in horizon.legs]
    durations = {own.names[at]: phases[i] if len(phases) > 1 else "" for i, at in own.durations.items()}
    return tuple(Finding(Kind.DURATION_CHOSEN, durations[name], value=value) if name in durations else
                 Finding(Kind.PARAMETER_CHOSEN, name=name, value=value) for name, value in values.items())


def trajectories(compiled: records.Compiled, path: Path) -> tuple[Trajectory, tuple[Trajectory, ...]]:
    """The motion as a whole, with NaN in columns that a phase does not have, and phase by phase."""
    parts = tuple(_trajectory(compiled, leg, path) for leg in compiled.horizon.legs)
    return join(parts), parts if len(parts) > 1 else ()


def _trajectory(compiled: records.Compiled, leg: Leg, path: Path) -> Trajectory:
    """The trajectory of a phase."""
    horizon, width = compiled.horizon, path.x.shape[1]
    own = cache(lambda: records.stepper(compiled))  # kernels of its own, once somebody asks between knots

    def between(k: np.ndarray, x: np.ndarray, length: np.ndarray) -> np.ndarray:
        from ocp.shooting.engine import record, rollout

        out = np.empty((len(k), width))
        step, bank, kept = own()
        none, no_size = np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
        plan = record.Plan(horizon.which[k], no_size, no_size, horizon.t[k], length, horizon.p[k], none, none)
        failed = rollout.sample(record.Sampler(bank, step, plan), record.Path(
            x, u[k - leg.first], np.empty(len(k)), none, np.empty((len(k), horizon.inner))), out)
        if failed >= 0:
            time = horizon.locate(int(k[failed]), path.x)[1]
            raise ArithmeticError(f"the step from t = {time:g} s failed ({len(kept)} kernels of its own)")
        return out

    u = path.u[leg.first:leg.last].copy()
    return held_trajectory(horizon, leg, path.x[leg.first:leg.last + 1].copy(), u, between)


def held_trajectory(horizon: Horizon, leg: Leg, x: np.ndarray, u: np.ndarray,
                    between: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Trajectory:
    """Knot states x [N+1, ..] and piecewise-constant controls u [N, ..] of a phase; between knots the integrator itself, with a
    shorter step: between(numbers of the stages [k], their states, lengths of the steps in the time argument [k]) -> states."""
    stretch, system = leg.stretch, leg.stretch.phase.system
    nx, theta = system.nx, x[0, system.nx:stretch.space.nx]
    pace, began = float(stretch.pace(theta)), float(stretch.clock(0.0, theta))
    t = began + pace * horizon.t[leg.first:leg.last + 1]

    def interval(times: np.ndarray) -> np.ndarray:
        slack = 1e-9 * (t[-1] - t[0])
        if not np.all((times >= t[0] - slack) & (times <= t[-1] + slack)):
            raise ValueError(f"time outside the trajectory: [{t[0]:g}, {t[-1]:g}] s")
        return np.clip(np.searchsorted(t, times, side="right") - 1, 0, len(u) - 1)

    def state(times: Any) -> np.ndarray:
        flat = np.atleast_1d(np.asarray(times, dtype=float))
        k = interval(flat)
        out = between(leg.first + k, x[k], (flat - t[k]) / pace)
        at_knot = flat == t[k]
        out[at_knot] = x[k[at_knot]]
        out[flat >= t[-1]] = x[-1]
        return out[0, :nx].copy() if np.ndim(times) == 0 else out[:, :nx].copy()

    def control(times: Any) -> np.ndarray:
        flat = np.atleast_1d(np.asarray(times, dtype=float))
        out = u[interval(flat), :system.nu]
        return out[0] if np.ndim(times) == 0 else out

    return Trajectory(t=t, x=x[:, :nx].copy(), u=u[:, :system.nu].copy(), t_u=t[:-1].copy(), state=state, control=control)


def _alike(leg: Leg, by: np.ndarray) -> np.ndarray:
    """Derivatives [K, .., n] by the carried state of the K knots of a phase, from those [K, .., w] by all that the knots carry: a
    state before moves as the present one does. A view where there is none."""
    n, ndx = leg.stretch.space.ndx, leg.stretch.phase.system.space.ndx
    if leg.two is None:
        return by[..., :n]
    found = by[..., :n].copy()
    found[1:, ..., :ndx] += by[1:, ..., n:n + ndx]
    return found


def extras(horizon: Horizon, store: Engine, swept: bool, chosen: dict[str, float]) -> dict[str, np.ndarray]:
    """Gains and value function (unless they belong to an earlier iterate), costates, multipliers; by phase where there are
    several. Where something is free at the start, the multipliers of its constraints."""
    found: dict[str, np.ndarray] = {}
    policy, conset = store.policy, store.conset
    if len(horizon.chosen) and (count := horizon.kind(0).rows.count):
        found["multipliers_start"] = conset.gradient[0, :count] / horizon.kind(0).rows.unit
    for leg in horizon.legs:
        m = leg.stretch.phase.system.nu
        steps, knots = slice(leg.first, leg.last), slice(leg.first, leg.last + 1)
        here: dict[str, np.ndarray] = {"stage_cost": store.path.cost[knots]}
        if swept:
            here |= {"k": policy.k[steps, :m], "K": _alike(leg, policy.K[steps, :m]), "Vx": _alike(leg, policy.Vx[knots]),
                     "Vxx": _alike(leg, _alike(leg, policy.Vxx[knots]).swapaxes(1, 2)).swapaxes(1, 2),
                     "costate": _alike(leg, policy.costate[knots])}
        path, end = horizon.kind(leg.first).rows, horizon.kind(leg.last).rows
        if path.count or end.count:
            units = np.array([horizon.kind(k).rows.unit for k in range(leg.first, leg.last)])
            here |= {"multipliers_path": conset.gradient[steps, :path.count] / units,
                     "multipliers_final": conset.gradient[leg.last, :end.count] / end.unit}
        label = f"{leg.stretch.phase.name}." if len(horizon.legs) > 1 else ""
        found |= {label + name: value.copy() for name, value in here.items()}
    parameters = [value for name, value in chosen.items() if name in horizon.constants.parameters]
    return found | ({"parameters": np.array(parameters)} if parameters else {})
