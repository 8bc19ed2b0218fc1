"""Diagnosis and remedy of answers that are no minimum because there is none: controls that approach the infimum switch ever faster
(``ocp.strategy.relaxation``), or are impulses.

An impulse on a mesh is a control that lasts for an interval, so that it doubles where every interval is cut in two, while its
integral stays. A control without bounds whose square, or whose own size, is integrable grows by less: as t^-a, a < 1, by 2^a.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ocp.certify.motion import Motion
from ocp.problem import At, Finding, Kind, Phase, Residual, Trajectory
from ocp.strategy.answer import answered
from ocp.strategy.records import State
from ocp.strategy.search import Search
from ocp.thresholds import ANSWERS, DIAGNOSES, ROUNDING


def no_minimum(search: Search, state: State) -> Finding | None:
    """That the relaxed problem costs less, or a control grows with the mesh as an impulse does."""
    found, finer = answered(state), state.finer
    if found.ending is not None and found.ending.kind is Kind.RELAXED_IS_LOWER:
        return Finding(Kind.NOT_ATTAINED, value=found.ending.value)
    if finer is None:
        return None
    parts = [(one.parts or (one.trajectory,)) for one in (found, finer)]
    for phase, part, other in zip(found.problem.phases, *parts, strict=True):
        for i in _unlimited(phase):
            before, after = float(np.max(np.abs(part.u[:, i]))), float(np.max(np.abs(other.u[:, i])))
            much = ROUNDING.negligible * float(Motion(phase, other).scales.wide_control[i])  # less is what rounding leaves
            if after >= ANSWERS.impulse_growth * before > much and _impulsive(other, i):
                return Finding(Kind.NOT_ATTAINED, phase.name if len(parts[0]) > 1 else "", phase.system.inputs[i],
                               time=float(other.t_u[np.argmax(np.abs(other.u[:, i]))]), value=finer.objective,
                               data={"before": before, "after": after})
    return None


def not_attained(search: Search, state: State, why: Finding) -> State:
    """The answer, whose objective has no error bound: it is no minimum."""
    found = answered(state)
    assert found.certificate is not None
    nothing = Residual(Kind.OBJECTIVE_ERROR, float("inf"), search.tolerances.objective_error, why.phase, time=why.time,
                       cause=Kind.NOT_ATTAINED, data={"name": why.name, "infimum": why.value, **why.data})
    certificate = replace(found.certificate, objective_error=nothing)
    return replace(state, answer=replace(found, certificate=certificate), finer=None)


def _unlimited(phase: Phase) -> list[int]:
    """Controls that neither bounds nor path constraints hold."""
    free = ~np.isfinite(phase.control_bounds.width)
    for c in phase.constraints:
        if c.at is At.PATH and c.soft is None:
            free[np.asarray(c.function.jac_sparsity(0, 2).get_col(), dtype=int)] = False
    return np.flatnonzero(free[:len(phase.system.controls)]).tolist()


def _impulsive(part: Trajectory, i: int) -> bool:
    """Whether a control does in the interval of its peak what counts beside all that it does."""
    u, t, every = np.abs(part.u[:, i]), part.t_u, part.t
    k = int(np.clip(np.searchsorted(every, t[np.argmax(u)], side="right") - 1, 0, len(every) - 2))
    whole = float(np.sum(np.diff(t) * (u[1:] + u[:-1]) / 2))
    return float(u.max() * (every[k + 1] - every[k])) > DIAGNOSES.max_rel_difference * whole
