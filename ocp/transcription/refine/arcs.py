"""A phase cut at the jumps of its controls into arcs, each a phase of its own with a free length, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.problem import At, Bounds, Duration, Guess, Linkage, Phase, Problem, Sense, Solution, Trajectory, relinked
from ocp.thresholds import MESH_CHANGE, ROUNDING, SWITCHES
from ocp.transcription.refine.plan import Plan, rounded


@dataclass(frozen=True)
class Jump:
    """A jump of a control at a ``fraction`` of its phase, seen between two control points."""

    fraction: float
    before: float
    after: float


@dataclass(frozen=True)
class Arc:
    """A stretch of a phase between two jumps, as a plan of its own."""

    begin: float
    end: float
    plan: Plan


def arcs_of(plan: Plan) -> list[Arc]:
    """The arcs of a mesh between its switching times."""
    cuts = [0, *sorted(plan.jumps), plan.intervals]
    found = []
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        begin, end = plan.edges[a], plan.edges[b]
        inner = tuple((e - begin) / (end - begin) for e in plan.edges[a + 1:b])
        found.append(Arc(begin, end, Plan((0.0, *inner, 1.0), plan.degrees[a:b])))
    return found


def stretched(arcs: Sequence[Arc], lengths: Sequence[float]) -> Plan:
    """One plan of arcs that last so long; those that have vanished are left out."""
    total = sum(lengths)
    there = [(arc, length) for arc, length in zip(arcs, lengths, strict=True) if length > 2 * SWITCHES.vanished * total]
    ends = np.concatenate([[0.0], np.cumsum([length for _, length in there])])
    ends = ends / ends[-1]
    edges: list[float] = [0.0]
    degrees: list[int] = []
    jumps: set[int] = set()
    for i, (arc, _) in enumerate(there):
        if i:
            jumps.add(len(degrees))
        edges += [float(ends[i] + (ends[i + 1] - ends[i]) * e) for e in arc.plan.edges[1:]]
        degrees += arc.plan.degrees
    edges[-1] = 1.0
    return Plan(rounded(edges), tuple(degrees), frozenset(jumps))


def cut_into(problem: Problem, solution: Solution, parts: Sequence[Trajectory], arcs: Sequence[Sequence[Arc]],
         jumps: Sequence[Sequence[Jump]]) -> Problem:
    """The problem with every phase cut into its arcs, whose lengths are free and add up to what the phase may last.

    What bounds a control along an arc holds it there: arcs of free length would be cut so that polynomials overshoot to their gain.
    """
    phases: list[Phase] = []
    linkages: list[Linkage] = []
    first: list[int] = []
    for phase, found, part, own, there in zip(problem.phases, solution.problem.phases, parts, arcs, jumps, strict=True):
        first.append(len(phases))
        start, T = float(part.t[0]), duration_of(part)
        system = replace(phase.system, parameter_values=found.system.parameter_values)
        for i, arc in enumerate(own):
            is_first, is_last = i == 0, i == len(own) - 1
            length = (arc.end - arc.begin) * T
            duration = replace(phase.duration, guess=T) if phase.duration.free else phase.duration
            if len(own) > 1:
                shortest = SWITCHES.vanished * T
                duration = Duration(shortest, MESH_CHANGE.max_change * length + 0.1 * T, max(length, 2 * SWITCHES.vanished * T))
            kept = {At.PATH, At.INTEGRAL, *([At.START] if is_first else []), *([At.FINAL] if is_last else [])}
            held = _with_active_bounds(replace(phase, system=system), part, arc, there) if len(own) > 1 else phase
            phases.append(replace(
                held, name=phase.name if len(own) == 1 else f"{phase.name}.{i}", system=system, duration=duration,
                guess=_arc_guess(part, arc, start, T),
                start=phase.start if is_first else None, final=phase.final if is_last else None,
                costs=tuple(c for c in phase.costs if c.at in kept), constraints=tuple(c for c in held.constraints if c.at in kept),
                reset=phase.reset if is_first else None))
    first.append(len(phases))
    count = len(phases)
    for i, phase in enumerate(problem.phases):
        if first[i + 1] - first[i] > 1:
            x, T, p = ca.SX.sym("x", phase.system.nx), ca.SX.sym("T", count), ca.SX.sym("p", 0)
            total = ca.Function("length", [x, T, p], [ca.sum1(T[first[i]:first[i + 1]])])
            linkages.append(Linkage(f"length of {phase.name}", ((first[i + 1] - 1, At.FINAL),), total, (phase.duration.lower,),
                                    (phase.duration.upper,)))
    linkages += [relinked(linkage, first) for linkage in problem.linkages]
    return Problem(problem.name, tuple(phases), linkages=tuple(linkages))


def _with_active_bounds(phase: Phase, part: Trajectory, arc: Arc, jumps: Sequence[Jump]) -> Phase:
    """The phase with bounds of controls, and path constraints on them, as equalities where they are active along the arc."""
    start, T = float(part.t[0]), duration_of(part)
    s = (np.asarray(part.t_u) - start) / T
    inside = (s >= arc.begin) & (s <= arc.end)
    for jump in jumps:
        inside &= ~((s > jump.before) & (s < jump.after)) | (s == jump.fraction)
    middle = (arc.begin + arc.end) / 2
    apart = [abs(s - jump.fraction) > ROUNDING.beside for jump in jumps]  # a control on a switch is not determined
    inside = inside & np.all(apart, axis=0) if apart else inside
    if not np.any(inside):
        inside = np.arange(len(s)) == int(np.argmin(np.abs(s - middle)))
    u = part.u[inside]
    controls = phase.control_bounds.fixed_where_active(u, SWITCHES.close * np.ptp(part.u, axis=0), SWITCHES.active_share)
    states = _held_states(phase, part, arc, start, T, int(np.sum(controls.width > 0)))
    constraints = []
    t, p = start + T * s[inside], np.asarray(phase.system.parameter_values)
    x = np.asarray(part.state(np.clip(t, part.t[0], part.t[-1])))
    fixed = controls.width == 0
    for c in phase.constraints:
        if c.at is At.PATH and c.soft is None and c.sense is Sense.BOX:
            by_control = np.array(ca.DM(c.function.jac_sparsity(0, 2), 1))
            value = np.asarray(c.function(t[None, :], x.T, u.T, np.repeat(p[:, None], len(t), axis=1))).T
            reach = _largest_change(c.function, np.column_stack([t, x, u]), p, np.ptp(part.u, axis=0))
            undecided = np.any((by_control > 0) & ~fixed, axis=1)
            room = np.where(undecided, SWITCHES.close * reach, 0.0)
            rows = c.bounds.fixed_where_active(value, room, SWITCHES.active_share)
            c = replace(c, lower=rows.lower, upper=rows.upper)
        constraints.append(c)
    return phase.with_bounds(states=states, controls=controls, constraints=tuple(constraints))


def _largest_change(function: ca.Function, points: np.ndarray, p: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """How much each row of a constraint changes at most, at points (t, x, u) [k, 1 + nx + nu], when controls move by their
    ranges."""
    given = [ca.MX.sym(function.name_in(i), function.sparsity_in(i)) for i in range(4)]
    slope = ca.Function("slope", given, [ca.jacobian(function(*given), given[2])])
    nx = function.size1_in(1)
    return np.asarray(np.max([np.abs(np.asarray(slope(a[0], a[1:1 + nx], a[1 + nx:], p))) @ ranges for a in points], axis=0))


def _held_states(phase: Phase, part: Trajectory, arc: Arc, start: float, T: float, free: int) -> Bounds:
    """The bounds of states, as equalities where they are active all along the arc; otherwise polynomials of low degree would pass
    them between the nodes. free: controls that nothing holds; without as many, nothing could hold the states."""
    if not phase.system.space.is_vector_space:
        return phase.state_bounds
    s = np.concatenate([np.linspace(a, b, 5)[1:-1] for a, b in zip(arc.plan.edges[:-1], arc.plan.edges[1:], strict=True)])
    x = np.asarray(part.state(np.clip(start + T * (arc.begin + (arc.end - arc.begin) * s), part.t[0], part.t[-1])))
    # others are held by derivatives of their own: their controls would not be determined
    by_control = np.array(ca.DM(phase.system.rate.jac_sparsity(0, 2), 1)).any(axis=1)
    ends = {i: [end.value[i] for end, here in ((phase.start, arc.begin == 0.0), (phase.final, arc.end == 1.0))
                if here and end is not None and end.fixed[i]] for i in range(x.shape[1])}
    room = np.where(by_control, SWITCHES.close * np.ptp(part.x, axis=0), 0.0)
    found = phase.state_bounds.fixed_where_active(x, room, SWITCHES.active_share, ends)
    return found if np.sum(found.width == 0) <= free else phase.state_bounds


def _arc_guess(part: Trajectory, arc: Arc, start: float, T: float) -> Guess:
    """The solution along an arc, a little inside its ends so that no control of a neighbour is seen."""
    s = np.linspace(0.0, 1.0, 4 * len(arc.plan.degrees) * max(arc.plan.degrees) + 1)
    fraction = arc.begin + (arc.end - arc.begin) * s
    inside = arc.begin + (arc.end - arc.begin) * np.clip(s, 1e-3, 1 - 1e-3)
    within = (part.t[0], part.t[-1])
    return Guess(s, np.asarray(part.state(np.clip(start + T * fraction, *within))),
                 np.asarray(part.control(np.clip(start + T * inside, *within))).reshape(len(s), -1))


def duration_of(part: Trajectory) -> float:
    """Duration of a trajectory [s]."""
    return float(part.t[-1] - part.t[0])
