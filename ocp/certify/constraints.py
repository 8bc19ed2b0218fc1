"""How far a motion leaves its constraints: one entry for each name, at the knots and between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.certify.motion import INSIDE, Motion
from ocp.problem import At, Constraint, Linkage, Sense, Violation

Array = np.ndarray

#: constraints are sampled this much more closely between knots than anything is integrated: they may touch for a moment only
SAMPLED = 4


def excess(constraint: Constraint, values: Array) -> Array:
    """How far rows of values [k, nc] lie outside the constraint, [k, nc] (cones: [k, 1]); zero inside."""
    if constraint.sense is Sense.CONE:
        return np.maximum(0.0, np.linalg.norm(values[:, 1:], axis=1, keepdims=True) - values[:, :1])
    lower = np.asarray(constraint.lower)
    upper = lower if constraint.sense is Sense.EQUAL else np.asarray(constraint.upper)
    return np.maximum(0.0, np.maximum(lower - values, values - upper))


def violations(motion: Motion, tolerance: float, between: float) -> Iterator[Violation]:
    """One entry per named constraint of a phase, bounds and boundary states included; between: the tolerance between knots."""
    for found in _violations(motion, tolerance):
        yield replace(found, tolerance_between=max(between, found.tolerance))


def passage(before: Motion, after: Motion, tolerance: float) -> Violation:
    """How far the start of a phase is from where the reset puts it, or from the end of the phase before."""
    x, phase = before.trajectory.x[-1], after.phase
    there = x if phase.reset is None else np.asarray(phase.reset(x, after.p)).ravel()
    gap = np.abs(np.asarray(after.minus(there, after.trajectory.x[0])).ravel())
    worst = int(np.argmax(np.nan_to_num(gap, nan=np.inf)))
    return Violation(f"{before.phase.name} to {phase.name}", float(gap[worst]), 0.0, float(after.trajectory.t[0]),
                     phase.system.space.tangent_names[worst], tolerance)


def linked(linkage: Linkage, motions: Sequence[Motion], tolerance: float) -> Violation:
    """How far ends of phases are from what links them."""
    states = [motions[i].trajectory.x[0 if at is At.START else -1] for i, at in linkage.ends]
    durations = [m.trajectory.t[-1] - m.trajectory.t[0] for m in motions]
    known = {name: value for m in reversed(motions)  # the first phase that has it, as in the program
             for name, value in zip(m.phase.system.parameters, m.p, strict=True)}
    value = np.asarray(linkage.function(*states, durations, [known[name] for name in linkage.parameters])).ravel()
    over = np.maximum(0.0, np.maximum(np.asarray(linkage.lower) - value, value - np.asarray(linkage.upper)))
    worst = int(np.argmax(np.nan_to_num(over, nan=np.inf)))
    return Violation(linkage.name, float(over[worst]), 0.0, float(motions[linkage.ends[-1][0]].trajectory.t[-1]),
                     linkage.components()[worst], tolerance)


def _violations(motion: Motion, tolerance: float) -> Iterator[Violation]:
    phase, system, trajectory = motion.phase, motion.phase.system, motion.trajectory
    t = trajectory.t
    inner, _ = motion.nodes(SAMPLED * motion.panels)
    states, between, between_u = trajectory.x, motion.state(inner), motion.control(inner)
    for i, name in enumerate(system.space.names):
        yield from _bound(f"bound {name}", phase.x_lower[i], phase.x_upper[i], (t, states[:, i]), (inner, between[:, i]), tolerance)
    for i, name in enumerate(system.controls):
        yield from _bound(f"bound {name}", phase.u_lower[i], phase.u_upper[i],
                          (trajectory.t_u, trajectory.u[:, i]), (inner, between_u[:, i]), tolerance)
    for label, boundary, k in (("start", phase.start, 0), ("final", phase.final, -1)):
        if boundary is None or not any(boundary.fixed):
            continue
        gap = np.asarray(motion.minus(np.asarray(boundary.value), states[k])).ravel() * np.asarray(boundary.fixed, float)
        worst = int(np.argmax(np.abs(np.nan_to_num(gap, nan=np.inf))))
        yield Violation(f"{label} state", float(np.abs(gap[worst])), 0.0, float(t[k]), system.space.tangent_names[worst], tolerance)
    for start in system.space.quaternions:
        norms = [np.abs(np.linalg.norm(x[:, start:start + 4], axis=1) - 1) for x in (states, between)]
        worst = int(np.argmax(norms[0]))
        yield Violation(f"unit quaternion {system.space.names[start]}", float(norms[0][worst]), float(norms[1].max()),
                        float(t[worst]), system.space.names[start], max(tolerance, 1e-5))
    if not phase.duration.lower <= t[-1] - t[0] + tolerance or not t[-1] - t[0] - tolerance <= phase.duration.upper:
        over = max(phase.duration.lower - (t[-1] - t[0]), (t[-1] - t[0]) - phase.duration.upper)
        yield Violation("duration", float(over), 0.0, float(t[-1]), "duration", tolerance)
    for index, low, high in phase.free_parameters:
        over = max(0.0, low - motion.p[index], motion.p[index] - high)
        yield Violation(f"bound {system.parameters[index]}", float(over), 0.0, float(t[0]), system.parameters[index], tolerance)
    for constraint in phase.constraints:
        yield _constraint(motion, constraint, (inner, between, between_u), tolerance)


def _constraint(motion: Motion, constraint: Constraint, inner: Any, tolerance: float) -> Violation:
    trajectory, beside, function = motion.trajectory, np.zeros((1, constraint.size)), constraint.function
    t, x = trajectory.t, trajectory.x
    if constraint.at is At.INTEGRAL:
        t, at = t[-1:], excess(constraint, motion.integral(lambda *here: motion.call(function, *here))[None, :])
    elif constraint.at is At.PATH:
        if function.jac_sparsity(0, 2).nnz():  # holds where the method holds controls, which need not be at knots
            t = trajectory.t_u if trajectory.t_path is None else trajectory.t_path
            x = motion.state(t)
        # a held control belongs to the segment on its right
        last = trajectory.t[-2] + INSIDE * (trajectory.t[-1] - trajectory.t[-2])
        at = excess(constraint, motion.call(function, t, x, motion.control(np.minimum(t, last))))
        beside = excess(constraint, motion.call(function, *inner))
    else:
        k = slice(0, 1) if constraint.at is At.START else slice(len(t) - 1, len(t))
        t = t[k]
        at = excess(constraint, motion.call(function, t, x[k], trajectory.u[k]))
    row, column = np.unravel_index(int(np.argmax(np.nan_to_num(at, nan=np.inf))), at.shape)
    components = constraint.components()
    return Violation(constraint.name, float(at[row, column]), float(np.max(beside)), float(t[row]),
                     components[min(int(column), len(components) - 1)], tolerance, soft=constraint.soft is not None)


def _bound(name: str, lower: float, upper: float, knots: tuple[Array, Array], inner: tuple[Array, Array],
           tolerance: float) -> Iterator[Violation]:
    if np.isinf(lower) and np.isinf(upper):
        return
    at, beside = (np.maximum(0.0, np.maximum(lower - values, values - upper)) for _, values in (knots, inner))
    worst = int(np.argmax(np.nan_to_num(at, nan=np.inf)))
    yield Violation(name, float(at[worst]), float(np.max(beside, initial=0.0)), float(knots[0][worst]),
                    name.removeprefix("bound "), tolerance)
