"""Violations of the constraints of a motion: one entry for each name, at the knots and between them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ocp.certify.events import zoom
from ocp.certify.motion import INSIDE, Motion
from ocp.certify.sizes import constraint_sizes, variation
from ocp.problem import At, Bounds, Constraint, Linkage, Sense, Trajectory, Violation
from ocp.thresholds import ROUNDING, SCALES, SEARCH

Array = np.ndarray


def violations(motion: Motion, tolerance: float, between: float, integrated: float,
               redundant: tuple[Sequence[bool], Sequence[bool]] = ((), ()), known: Container[str] = ()) -> Iterator[Violation]:
    """One entry per named constraint of a phase, bounds and boundary states included, but for those of ``known`` names. tolerance,
    between, integrated: at knots, between them, and for redundant components of the start and final state, which hold to the
    accuracy of the integration; relative to the scale of the constraint (``ocp.certify.scale``). Entries have the units of their
    values."""
    for size, found in _violations(motion, redundant, max(integrated / tolerance, 1.0), known):
        if found.name not in known:
            own = tolerance * size
            yield replace(found, tolerance=own, tolerance_between=max(between, tolerance) * size)


def passage(before: Motion, after: Motion, tolerance: float) -> Violation:
    """Distance of the start of a phase from its reset, or from the end of the phase before, relative to the scales of the
    states."""
    x, phase = before.trajectory.x[-1], after.phase
    there = x if phase.reset is None else np.asarray(phase.reset(x, after.p)).ravel()
    gap = np.abs(np.asarray(after.minus(there, after.trajectory.x[0])).ravel()) / after.scale
    worst = int(np.argmax(np.nan_to_num(gap, nan=np.inf)))
    return Violation(f"{before.phase.name} to {phase.name}", float(gap[worst]), 0.0, float(after.trajectory.t[0]),
                     phase.system.space.tangent_names[worst], tolerance)


def linked(linkage: Linkage, motions: Sequence[Motion], tolerance: float, integrated: float, redundant: Sequence[bool] = ()
           ) -> Violation:
    """Violations of linkages by the ends of phases; integrated: tolerance of redundant equations."""
    states = [motions[i].trajectory.x[0 if at is At.START else -1] for i, at in linkage.ends]
    durations = [m.trajectory.t[-1] - m.trajectory.t[0] for m in motions]
    known = {name: value for m in reversed(motions)  # the first phase that has it, as in the program
             for name, value in zip(m.phase.system.parameters, m.p, strict=True)}
    value = np.asarray(linkage.function(*states, durations, [known[name] for name in linkage.parameters])).ravel()
    over = Bounds(linkage.lower, linkage.upper).violation(value)
    size = _linkage_sizes(linkage, motions, states, durations, [known[name] for name in linkage.parameters], value)
    size[np.flatnonzero(redundant)] *= max(integrated / tolerance, 1.0)
    worst = int(np.argmax(np.nan_to_num(over / size, nan=np.inf)))
    return Violation(linkage.name, float(over[worst]), 0.0, float(motions[linkage.ends[-1][0]].trajectory.t[-1]),
                     linkage.components()[worst], tolerance * float(size[worst]))


def _linkage_sizes(linkage: Linkage, motions: Sequence[Motion], states: list[Array], durations: list[float], known: list[float],
                   value: Array) -> Array:
    """Variation of the components of a linkage when one state or duration varies by its scale; ones for constant components."""
    found = np.zeros(len(value))

    def tried(states: list[Array], durations: list[float]) -> None:
        moved = np.abs(np.asarray(linkage.function(*states, durations, known)).ravel() - value)
        np.maximum(found, np.where(np.isfinite(moved), moved, 0.0), out=found)

    for k, (number, _) in enumerate(linkage.ends):
        for e, size in zip(np.eye(len(states[k])), motions[number].scales.coordinates, strict=True):
            tried([*states[:k], states[k] + size * e, *states[k + 1:]], durations)
    for k, duration in enumerate(durations):
        tried(states, [*durations[:k], 2 * duration, *durations[k + 1:]])
    return np.where(found > 0, found, 1.0)


def _violations(motion: Motion, redundant: tuple[Sequence[bool], Sequence[bool]], wider: float, known: Container[str]
                ) -> Iterator[tuple[float, Violation]]:
    """(scale of the constraint, its violation), path constraints of known names left out; wider: factor of the tolerance for
    redundant conditions."""
    phase, system, trajectory = motion.phase, motion.phase.system, motion.trajectory
    t, states, scales = trajectory.t, trajectory.x, motion.scales
    look = motion.look if motion.finite and not motion.stepped else None
    yield from _bounds(system.space.names, phase.state_bounds, (t, states), None if look is None else (look.t, look.x),
                       scales.coordinates)
    yield from _bounds(system.inputs, phase.control_bounds, (trajectory.t_u, trajectory.u),
                       None if look is None else (look.t, look.u), scales.control)
    for label, boundary, k, loose in (("start", phase.start, 0, redundant[0]), ("final", phase.final, -1, redundant[1])):
        if boundary is None or not any(boundary.fixed):
            continue
        gap = np.abs(np.asarray(motion.minus(np.asarray(boundary.value), states[k])).ravel()) * np.asarray(boundary.fixed, float)
        size = motion.scale * (np.where(loose, wider, 1.0) if any(loose) else 1.0)
        worst = int(np.argmax(np.nan_to_num(gap / size, nan=np.inf)))
        yield float(size[worst]), Violation(f"{label} state", float(gap[worst]), 0.0, float(t[k]),
                                            system.space.tangent_names[worst], 0.0)
    for start in system.space.quaternions:
        norms = [np.abs(np.linalg.norm(x[:, start:start + 4], axis=1) - 1) for x in (states, states if look is None else look.x)]
        worst = int(np.argmax(norms[0]))
        yield 10.0, Violation(f"unit quaternion {system.space.names[start]}", float(norms[0][worst]), float(norms[1].max()),
                              float(t[worst]), system.space.names[start], 0.0)
    over = max(phase.duration.lower - motion.duration, motion.duration - phase.duration.upper)
    if over > 0:
        yield motion.duration, Violation("duration", float(over), 0.0, motion.span[1], "duration", 0.0)
    for index, low, high in phase.free_parameters:
        over = max(0.0, low - motion.p[index], motion.p[index] - high)
        yield float(scales.parameters[index]), Violation(f"bound {system.parameters[index]}", float(over), 0.0, float(t[0]),
                                                         system.parameters[index], 0.0)
    yield from (_constraint(motion, constraint) for constraint in phase.constraints if constraint.name not in known)


def _constraint(motion: Motion, constraint: Constraint) -> tuple[float, Violation]:
    trajectory, function = motion.trajectory, constraint.function
    t, x, beside = trajectory.t, trajectory.x, None
    if constraint.at is At.INTEGRAL:
        t, values = t[-1:], motion.integral(lambda *here: motion.call(function, *here))[None, :]
        size = motion.duration * constraint_sizes(motion, function, trajectory.t, motion.call(
            function, trajectory.t, x, motion.control(_inside(trajectory))))
    elif constraint.at is At.PATH:
        if function.jac_sparsity(0, 2).nnz():  # holds where the method holds controls, which need not be at knots
            t = trajectory.t_u if trajectory.t_path is None else trajectory.t_path
            x = motion.state(t)
        # a piecewise-constant control belongs to the segment on its right
        values = motion.call(function, t, x, motion.returned(np.minimum(t, _inside(trajectory)[-1])))
        if motion.finite and not motion.stepped:
            beside = _hunted(motion, constraint)
        size = constraint_sizes(motion, function, t, values)
    else:
        k = slice(0, 1) if constraint.at is At.START else slice(len(t) - 1, len(t))
        t = t[k]
        values = motion.call(function, t, x[k], trajectory.u[k])
        size = constraint_sizes(motion, function, t, values)
    if constraint.sense is Sense.CONE:
        size = np.array([float(np.max(size))])
    at = np.maximum(0.0, constraint.excess(values))
    if beside is not None:  # an end where other conditions hold it is as close as the motion between knots
        at[[end for end, met in zip((0, -1), constraint.met, strict=True) if met]] = 0.0
    row, column = np.unravel_index(int(np.argmax(np.nan_to_num(at / size, nan=np.inf))), at.shape)
    components, worst_between = constraint.components(), 0.0
    when: float | None = None
    if beside is not None:
        times, over = beside
        size = _where_flat(motion, constraint, times, over, size)
        scaled = np.nan_to_num(over / size, nan=np.inf)
        place, which = np.unravel_index(int(np.argmax(scaled)), scaled.shape)
        # in the unit of the component that is worst at knots, whose tolerance the entry carries
        worst_between, when = float(over[place, which] / size[which] * size[column]), float(times[place])
    where = components[min(int(column), len(components) - 1)]
    return float(size[column]), Violation(
        constraint.name, float(at[row, column]), worst_between, float(t[row]), where, 0.0,
        soft=constraint.soft is not None, time_between=when)


def _where_flat(motion: Motion, constraint: Constraint, times: Array, over: Array, size: Array) -> Array:
    """Scales of the components, reduced if their gradient nearly vanishes at the point of the largest violation: a wall like ((x -
    a)/h)^2 >= 1 has a large range but no gradient at its middle. The distance matters, and therefore the variation with small moves
    there."""
    worst = int(np.argmax(np.nan_to_num(np.max(over / size, axis=1), nan=np.inf)))
    if not np.any(over[worst] > 0) or constraint.sense is Sense.CONE:
        return size
    t, small = times[[worst]], SEARCH.wall_deviation
    felt = variation(motion, lambda *at: motion.call(constraint.function, *at), t, motion.state(t), motion.control(t), small)[0]
    return np.asarray(np.maximum(np.minimum(size, felt / small), ROUNDING.negligible * size))


def _inside(trajectory: Trajectory) -> Array:
    """The knots, the last one just before the end, where the last piecewise-constant control still applies."""
    t = trajectory.t.copy()
    t[-1] = t[-2] + INSIDE * (t[-1] - t[-2])
    return t


def _hunted(motion: Motion, constraint: Constraint) -> tuple[Array, Array]:
    """Evaluation points [k] with the largest violations or smallest distances, the worst times beside them; and the violations of
    the components there [k, nc]."""
    look = motion.look

    def over(t: Array) -> Array:
        return constraint.excess(motion.call(constraint.function, t, motion.state(t), motion.control(t)))

    rows = constraint.excess(motion.call(constraint.function, look.t, look.x, look.u))
    peaks = _peaks(look.t, np.max(rows, axis=1))
    if not len(peaks):
        return look.t, np.maximum(0.0, rows)
    low, high = look.t[np.maximum(peaks - 1, 0)], look.t[np.minimum(peaks + 1, len(look.t) - 1)]
    with np.errstate(invalid="ignore"):
        times, _ = zoom(lambda t, _: np.max(over(t), axis=1), low, high)
    return np.concatenate([look.t, times]), np.maximum(0.0, np.concatenate([rows, over(times)]))


def _peaks(t: Array, values: Array) -> Array:
    """Samples that are local maxima and might hide a violation: already violated, or nearer to the bound than to a neighbour."""
    if len(t) < 3:
        return np.zeros(0, dtype=int)
    with np.errstate(invalid="ignore"):
        inner = values[1:-1]
        i = 1 + np.flatnonzero((inner >= values[:-2]) & (inner >= values[2:]))
        fall = np.maximum(values[i] - values[i - 1], values[i] - values[i + 1])
        i = i[values[i] + 2 * fall > 0]
    return np.asarray(i[np.argsort(-values[i], kind="stable")[:SEARCH.max_peaks]])


def _bounds(names: Sequence[str], bounds: Bounds, knots: tuple[Array, Array], inner: tuple[Array, Array] | None,
            sizes: Array) -> Iterator[tuple[float, Violation]]:
    """knots, inner: times and values [k, n]."""
    # a bound is met no more exactly than numbers of its magnitude are solved for
    nearest = bounds.nearest(knots[1] if inner is None else np.vstack([knots[1], inner[1]]))
    sizes = np.maximum(sizes, SCALES.constant * np.abs(nearest))
    for i in np.flatnonzero(bounds.bounded).tolist():
        at, between, when = bounds[i].violation(knots[1][:, i]), 0.0, None
        worst = int(np.argmax(np.nan_to_num(at, nan=np.inf)))
        if inner is not None:
            beside = bounds[i].violation(inner[1][:, i])
            place = int(np.argmax(np.nan_to_num(beside, nan=np.inf)))
            between, when = float(beside[place]), float(inner[0][place])
        yield float(sizes[i]), Violation(f"bound {names[i]}", float(at[worst]), between, float(knots[0][worst]), names[i], 0.0,
                                         time_between=when)
