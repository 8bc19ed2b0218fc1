"""Diagnosis and remedy of answers that are no minimum because there is none: controls that approach the infimum switch ever faster
(``ocp.strategy.relaxation``), or are impulses.

An impulse on a mesh is a control that lasts for an interval, so that it doubles where every interval is cut in two, while its
integral stays. A control without bounds whose square, or whose magnitude, is integrable grows by less: as t^-a, a < 1, by 2^a.
Rates grow with an impulse, and the cost of its interval stays finite. If running costs are quadratic in the control, that cost
doubles, and the peak belongs to a boundary layer that the mesh does not resolve yet (coercivity: Cesari 1983, Optimization: Theory
and Applications, chapter 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ocp.certify.motion import Motion
from ocp.certify.objective import running
from ocp.problem import At, Finding, Kind, Phase, Residual, Trajectory
from ocp.strategy.answer import answered
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import ANSWERS, DIAGNOSES, ROUNDING


def no_minimum(search: Search, state: State) -> Finding | None:
    """Diagnosis: the relaxed problem costs less, or a control grows with the mesh like an impulse."""
    found, finer = answered(state), state.finer
    if found.ending is not None and found.ending.kind is Kind.RELAXED_IS_LOWER:
        return Finding(Kind.NOT_ATTAINED, value=found.ending.value)
    if finer is None:
        return None
    parts = [(one.parts or (one.trajectory,)) for one in (found, finer)]
    for phase, part, other in zip(found.problem.phases, *parts, strict=True):
        for i in _unlimited(phase):
            before, after = float(np.max(np.abs(part.u[:, i]))), float(np.max(np.abs(other.u[:, i])))
            motions = [Motion(phase, one) for one in (part, other)]
            much = ROUNDING.negligible * float(motions[1].scales.wide_control[i])  # less is what rounding leaves
            if after >= ANSWERS.impulse_growth * before > much and _impulsive(other, i) and _unlike_layers(motions, i):
                return Finding(Kind.NOT_ATTAINED, phase.name if len(parts[0]) > 1 else "", phase.system.inputs[i],
                               time=float(other.t_u[np.argmax(np.abs(other.u[:, i]))]), value=finer.objective,
                               data={"before": before, "after": after})
    return None


def not_attained(search: Search, state: State, why: Finding) -> State:
    """The answer without an error bound of its objective, because no minimum exists."""
    found = answered(state)
    assert found.certificate is not None
    nothing = Residual(Kind.OBJECTIVE_ERROR, float("inf"), search.tolerances.objective_error, why.phase, time=why.time,
                       cause=Kind.NOT_ATTAINED, data={"name": why.name, "infimum": why.value, **why.data})
    certificate = replace(found.certificate, objective_error=nothing)
    return replace(state, answer=replace(found, certificate=certificate), finer=None)


def _unlimited(phase: Phase) -> list[int]:
    """Controls without bounds and without path constraints."""
    free = ~np.isfinite(phase.control_bounds.width)
    for c in phase.constraints:
        if c.at is At.PATH and c.soft is None:
            free[np.asarray(c.function.jac_sparsity(0, 2).get_col(), dtype=int)] = False
    return np.flatnonzero(free[:len(phase.system.controls)]).tolist()


def _impulsive(part: Trajectory, i: int) -> bool:
    """Whether the peak interval of a control contributes a significant part of its integral."""
    u, t = np.abs(part.u[:, i]), part.t_u
    whole = float(np.sum(np.diff(t) * (u[1:] + u[:-1]) / 2))
    return float(u.max() * _interval(part, i)) > DIAGNOSES.max_rel_difference * whole


def _interval(part: Trajectory, i: int) -> float:
    """Length [s] of the interval in which a control has its peak."""
    k = int(np.searchsorted(part.t, part.t_u[np.argmax(np.abs(part.u[:, i]))], side="right")) - 1
    return float(np.diff(part.t)[np.clip(k, 0, len(part.t) - 2)])


def _unlike_layers(motions: Sequence[Motion], i: int) -> bool:
    """Whether rates at the peak grow with the control on the finer mesh, while the quadratic part of the running cost of the
    interval does not (which distinguishes impulses from boundary layers)."""
    effects, squares = [], []
    for motion in motions:
        k = int(np.argmax(np.abs(motion.trajectory.u[:, i])))
        t, u = motion.trajectory.t_u[[k]], motion.trajectory.u[[k]]
        x, one = motion.state(t), np.arange(u.shape[1]) == i
        inputs = [np.where(one, part * u, u) for part in (0, 1, 2)]
        none, once, twice = (float(running(motion, t, x, own)[0]) for own in inputs)
        squares.append((twice - 2 * once + none) * _interval(motion.trajectory, i))
        rates = [motion.rates(t, x, own)[0] for own in inputs[:2]]
        effects.append(float(np.max(np.abs(rates[1] - rates[0]) / motions[0].scales.coordinates, initial=0.0)))
    quadratic = squares[0] > 0 and squares[1] >= ANSWERS.impulse_growth**2 / 2 * squares[0]
    return effects[1] >= ANSWERS.impulse_growth * effects[0] and not quadratic
