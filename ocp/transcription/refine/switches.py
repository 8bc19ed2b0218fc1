"""Edges where controls jump: found in a solution, put into the mesh, and moved by the optimiser itself.

A control that jumps is a bang-bang arc that begins or ends, and no polynomial follows it: unless an edge lies exactly there, the
interval that holds the jump stays bad however short it is. Edges are found where a control leaves a plateau at a bound and is
at rest again within an interval or two; the first guess keeps the impulse of the control. Then the phase is cut into arcs at these
edges, each a phase of its own with a free length, and solved once more: the lengths are the switching times (Pager and Rao 2022,
Method for solving bang-bang and singular optimal control problems using adaptive Radau collocation, Computational Optimization
and Applications 81).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ocp.problem import At, Finding, Kind, Phase, Problem, Solution, Status, Trajectory, join
from ocp.thresholds import DIAGNOSES, ROUNDING, SWITCHES
from ocp.transcription.mesh import Mesh
from ocp.transcription.refine.arcs import Jump, arcs_of, cut_into, duration_of, stretched
from ocp.transcription.refine.plan import Plan, rounded


@dataclass(frozen=True, eq=False)
class Moved:
    """Meshes with edges at the switches, the trajectories that belong to them, the problem as solved, and what was found; ``found``
    is False where the jumps were no switches after all, and all is as it was."""

    plans: tuple[Plan, ...]
    parts: tuple[Trajectory, ...]
    problem: Problem
    finding: Finding
    found: bool = True


def located(problem: Problem, solution: Solution, plans: Sequence[Plan], after: Sequence[Plan], found: Sequence[Sequence[Jump]],
            meshes_of: Callable[[Problem, tuple[Plan, ...]], tuple[Mesh, ...]],
            run: Callable[[Problem, tuple[Plan, ...], Sequence[Mesh]], Solution]) -> Moved:
    """The meshes ``after`` of the next pass with edges at the jumps ``found`` in a solution.

    plans: the meshes of the solution; meshes_of: makes meshes of plans; run: solves a problem on meshes of these plans. Raises
    KeyboardInterrupt where the user stops that solve.
    """
    parts = solution.parts or (solution.trajectory,)
    several = len(found) > 1
    times = {problem.phases[i].name if several else "": tuple(float(parts[i].t[0]) + jump.fraction * duration_of(parts[i])
                                                              for jump in own) for i, own in enumerate(found) if own}
    inserted = tuple(with_edges(plan, new, own) for plan, new, own in zip(plans, after, found, strict=True))
    if not any(found):
        return Moved(inserted, tuple(parts), solution.problem, Finding(Kind.NO_JUMP_AT_EDGES))
    at = {"times": times}
    still = Moved(inserted, tuple(parts), solution.problem, Finding(Kind.EDGES_AT_JUMPS, data=at))
    if any(c.at is At.INTEGRAL for phase, own in zip(problem.phases, found, strict=True) if own for c in phase.constraints):
        return still
    arcs = [arcs_of(plan) for plan in inserted]
    cut = cut_into(problem, solution, parts, arcs, found)
    flat = tuple(arc.plan for own in arcs for arc in own)
    answer = run(cut, flat, meshes_of(cut, flat))
    if answer.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if answer.status is not Status.CONVERGED:
        return replace(still, finding=Finding(Kind.EDGES_NOT_MOVED, data={**at, "status": answer.status.name}))
    pieces, new_plans, joined = list(answer.parts or (answer.trajectory,)), [], []
    to: dict[str, tuple[float, ...]] = {}
    for i, own in enumerate(arcs):
        mine, pieces = pieces[:len(own)], pieces[len(own):]
        new_plans.append(stretched(own, [duration_of(part) for part in mine]))
        joined.append(join(mine))
        if len(own) > 1:
            to[problem.phases[i].name if several else ""] = tuple(float(part.t[0]) for part in mine[1:])
    sets = list(zip(plans, new_plans, found, strict=True))
    if not unplaced(plans, found) and any(_strayed(*of, SWITCHES.small) for of in sets):
        return replace(still, finding=Finding(Kind.EDGES_STAY, data=at))
    if any(_strayed(*of) for of in sets):
        return Moved(tuple(after), tuple(parts), solution.problem, Finding(Kind.NO_SWITCH, data=at), False)
    first = np.cumsum([0, *(len(own) for own in arcs)])[:-1]
    solved = replace(problem, phases=tuple(replace(phase, system=answer.problem.phases[k].system)
                                           for phase, k in zip(problem.phases, first, strict=True)))
    return Moved(tuple(new_plans), tuple(joined), solved, Finding(Kind.EDGES_MOVED, data={**at, "to": to}))


def jumps_of(problem: Problem, solution: Solution, plans: Sequence[Plan], meshes: Sequence[Mesh], smooth: bool = False
             ) -> list[list[Jump]]:
    """The jumps of controls in each phase of a solution; smooth: whether its controls have been smoothed between them."""
    parts = solution.parts or (solution.trajectory,)
    return [switches(phase, part, mesh, plan, smooth)
            for phase, part, mesh, plan in zip(problem.phases, parts, meshes, plans, strict=True)]


def unplaced(plans: Sequence[Plan], jumps: Sequence[Sequence[Jump]]) -> bool:
    """Whether a control jumps where no edge is for it."""
    return any(jump.fraction not in {plan.edges[k] for k in plan.jumps}
               for plan, own in zip(plans, jumps, strict=True) for jump in own)


def shift(before: Sequence[Plan], after: Sequence[Plan]) -> float:
    """The largest distance of a jump of ``after`` from the nearest of ``before``, as a part of the phase."""
    largest = 0.0
    for old, new in zip(before, after, strict=True):
        known = [old.edges[k] for k in old.jumps]
        largest = max([largest, *(min((abs(new.edges[k] - e) for e in known), default=1.0) for k in new.jumps)])
    return largest


def switches(phase: Phase, part: Trajectory, mesh: Mesh, plan: Plan, smooth: bool = False) -> list[Jump]:
    """Where a control jumps from or to a bound, in order; at the plan's own jump where that is in between. smooth: whether
    controls have been smoothed between their jumps, and so over them. A jump of the plan stays one while the
    control has a step there."""
    start, T = float(part.t[0]), duration_of(part)
    widths = mesh.widths
    known = [plan.edges[k] for k in plan.jumps]
    beyond = 1.0 if smooth else 0.0 if mesh.controls == "polynomial" else 0.5  # others have one value in between
    size, wide = SWITCHES.min_smoothed_jump if smooth else SWITCHES.min_jump, SWITCHES.max_width + beyond
    found: list[Jump] = []
    box = phase.control_bounds.closed_by(part.u)
    for i in range(phase.system.nu):
        u, s = part.u[:, i], mesh.control_fractions
        low, high = box.pairs()[i]
        spread = high - low
        if len(u) < 4 or not float(np.ptp(u)) > 1e-3 * (abs(low) + abs(high)) or not _limited(phase, i):
            continue
        own: list[Jump] = []
        a = 0
        while a < len(u) - 1:
            b = _rest(u, s, a, size * spread, wide, mesh, widths)
            at_bound = min(abs(u[a] - low), abs(u[a] - high)) < 0.02 * spread or (
                b is not None and min(abs(u[b] - low), abs(u[b] - high)) < 0.02 * spread)
            if b is None or not at_bound:
                a += 1
                continue
            place = _impulse(part, i, s[a], s[b], u[a], u[b], low, high, start, T)
            within = [e for e in known if s[a] <= e <= s[b]]
            own.append(Jump(min(within, key=lambda e: abs(e - place)) if within else place, float(s[a]), float(s[b])))
            a = b
        found += [] if _chatters(own, mesh) else own
    found += [Jump(e, e, e) for e in known
              if all(abs(e - jump.fraction) > ROUNDING.coincident for jump in found) and _steps(phase, part, e)]
    found.sort(key=lambda jump: jump.fraction)
    kept: list[Jump] = []
    for jump in found:
        apart = not kept or jump.fraction - kept[-1].fraction > SWITCHES.vanished
        if SWITCHES.vanished < jump.fraction < 1 - SWITCHES.vanished and apart:
            kept.append(jump)
    return kept


def _steps(phase: Phase, part: Trajectory, e: float) -> bool:
    """Whether a control has a step at the fraction e of the phase."""
    t = float(part.t[0]) + duration_of(part) * (e + np.array([-ROUNDING.beside, ROUNDING.beside]))
    before, after = phase.control_bounds.clip(part.control(np.clip(t, part.t[0], part.t[-1])))
    return bool(np.any(np.abs(after - before) > DIAGNOSES.max_rel_difference * np.ptp(part.u, axis=0)))


def _chatters(jumps: Sequence[Jump], mesh: Mesh) -> bool:
    """Whether a control jumps back and forth from interval to interval, as it does along singular arcs, where nothing determines
    it."""
    close = 0
    for before, after in zip(jumps[:-1], jumps[1:], strict=True):
        k = min(int(np.searchsorted(mesh.edges, before.fraction, side="right")) - 1, mesh.intervals - 1)
        close = close + 1 if after.fraction - before.fraction < SWITCHES.chattering_distance * mesh.widths[k] else 0
        if close >= 2:
            return True
    return False


def _limited(phase: Phase, i: int) -> bool:
    """Whether something bounds control i: without a bound no optimum is bang-bang."""
    return bool(phase.control_bounds.bounded[i]) or any(
        c.at is At.PATH and c.function.jac_sparsity(0, 2).nnz() for c in phase.constraints)


def _rest(u: np.ndarray, s: np.ndarray, a: int, jump: float, spread: float, mesh: Mesh, widths: np.ndarray) -> int | None:
    """The control point at which a jump that begins at a ends, or None where none begins there."""
    k = min(int(np.searchsorted(mesh.edges, s[a], side="right")) - 1, len(widths) - 1)
    reach = spread * max(widths[max(0, k - 1):k + 2])
    if abs(u[a + 1] - u[a]) < SWITCHES.small * jump:
        return None
    for b in range(a + 1, len(u)):
        if s[b] - s[a] > reach:
            return None
        size = u[b] - u[a]
        if abs(size) < jump:
            continue
        quiet_before = a == 0 or abs(u[a] - u[a - 1]) <= SWITCHES.small * abs(size)
        quiet_after = b == len(u) - 1 or abs(u[b + 1] - u[b]) <= SWITCHES.small * abs(size)
        if not quiet_before:
            return None
        if quiet_after:
            return b
    return None


def _impulse(part: Trajectory, i: int, a: float, b: float, before: float, after: float, low: float, high: float, start: float,
             T: float) -> float:
    """Where a jump between the fractions a and b leaves the integral of the control as it is."""
    if b - a <= 0.0:
        return a
    r = a + (b - a) * (np.arange(400) + 0.5) / 400
    u = np.clip(np.asarray(part.control(np.clip(start + T * r, part.t[0], part.t[-1])))[:, i], low, high)
    share = (float(np.mean(u)) - after) / (before - after)
    return float(a + (b - a) * min(1.0, max(0.0, share)))


def with_edges(plan: Plan, after: Plan, jumps: Sequence[Jump]) -> Plan:
    """The plan ``after`` with these jumps and no others; no edges remain within a jump or close to it, and intervals of ``plan``
    that hold one lose the cuts that ``after`` made in them."""
    if not jumps:
        return replace(after, jumps=frozenset())
    edges, old, places = np.array(plan.edges), set(plan.edges), [jump.fraction for jump in jumps]
    known = {plan.edges[k] for k in plan.jumps}
    keep = []
    for e in after.edges:
        gone = False
        for jump in jumps:
            if jump.fraction in known:
                continue
            k = min(int(np.searchsorted(edges, jump.fraction, side="right")) - 1, plan.intervals - 1)
            inside = jump.before < e < jump.after or (e not in old and edges[k] < e < edges[k + 1])
            gone = gone or inside or abs(e - jump.fraction) < SWITCHES.small * _width_at(edges, e)
        if e in (0.0, 1.0) or not gone:
            keep.append(e)
    new = rounded(sorted({*keep, *places}))
    degrees = []
    for a, b in zip(new[:-1], new[1:], strict=True):
        k = min(int(np.searchsorted(np.array(after.edges), (a + b) / 2, side="right")) - 1, after.intervals - 1)
        first = min(int(np.searchsorted(edges, (a + b) / 2, side="right")) - 1, plan.intervals - 1)
        fresh = any(jump.fraction not in known and a - ROUNDING.coincident <= jump.fraction <= b + ROUNDING.coincident
                    for jump in jumps)
        degrees.append(min(after.degrees[k], plan.degrees[first]) if fresh else after.degrees[k])
    marks = rounded(places)
    return Plan(new, tuple(degrees), frozenset(k for k, e in enumerate(new) if 0 < k < len(degrees) and e in marks))


def _width_at(edges: np.ndarray, e: float) -> float:
    k = int(np.clip(np.searchsorted(edges, e), 1, len(edges) - 2))
    return float(min(edges[k] - edges[k - 1], edges[k + 1] - edges[k]))


def _strayed(plan: Plan, moved: Plan, jumps: Sequence[Jump], share: float = 1.0) -> bool:
    """Whether an edge was moved further from its jump than a share of an interval, or half of the arcs vanished."""
    edges, widths = np.array(plan.edges), np.diff(plan.edges)
    places = [moved.edges[k] for k in moved.jumps]
    if len(places) < (len(jumps) + 1) // 2:
        return True
    for place in places:
        jump = min(jumps, key=lambda j: abs(j.fraction - place))
        k = min(int(np.searchsorted(edges, jump.fraction, side="right")) - 1, plan.intervals - 1)
        if abs(place - jump.fraction) > share * max(widths[max(0, k - 1):k + 2]):
            return True
    return False
