"""All checks together: tolerances, and the certificate of a solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from ocp.algebraic import restored
from ocp.certify import constraints, curvature, dynamics, jumps, objective
from ocp.certify.motion import Motion
from ocp.errors import ProblemError
from ocp.interrupts import CERTIFICATE_S, Activity, Stopped, check, closing
from ocp.problem import SOLVED, TOO_FAST, Certificate, Residual, Solution, Statement, Violation
from ocp.splits import joined

#: the sum of all defects, times this, is what discretisation may take the objective away from its quadrature
BY_DEFECTS = 10.0
#: a gradient counts this much beside what a Newton step gains: it costs its square, yet tells whether multipliers are right
BY_SLOPE = 0.3
T = TypeVar("T")
#: where a check stands for which there was no time
NOT_DONE = "(not done: the time was up)"
#: running costs that turn more often are beyond meshes that are found by refining
FAST = 1500


@dataclass(frozen=True)
class Tolerances:
    """What a solution must hold to be certified; override any of them under ``accept:`` in a problem file. All are relative to the
    sizes of what they judge (``ocp.certify.scale``), so that no unit matters.

    stationarity: the larger of what one more Newton step would change of the objective and the gradient of the Lagrangian
    complementarity: sum of the products of multipliers and distances to their bounds, over the size of the objective
    violation: every named hard constraint at the knots
    violation_between: the same between knots, where a direct method promises only its order of accuracy
    gap_segment: one segment re-integrated; a mesh that misses this misrepresents the dynamics
    gap_total: start to end re-integrated in open loop, over the mean growth of errors on the way
    error_estimate: integral over a segment of the defect between knots
    energy: energy balance error divided by the energy exchanged
    objective: the objective against its quadrature along the trajectory; for a coarse mesh is no lie, ten times the sum of all
        defects is allowed besides, up to error_estimate
    objective_error: half the bar of the objective, over its size
    point: trajectory and objective against the point whose optimality is judged, over their magnitudes
    """

    stationarity: float = 1e-4
    complementarity: float = 1e-3
    violation: float = 1e-6
    violation_between: float = 1e-4
    gap_segment: float = 2e-3
    gap_total: float = 5e-2
    error_estimate: float = 1e-2
    energy: float = 1e-2
    objective: float = 1e-5
    objective_error: float = 1e-2
    point: float = 1e-8

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ProblemError(f"must be positive, got {value}", where=f"accept.{name}")


@dataclass
class _Checks:
    """Checks one after another; left_out: names of those that there was no time for."""

    left_out: list[str] = field(default_factory=list)

    def done(self, name: str, of: Callable[[], T], otherwise: T) -> T:
        """What a check finds, ``otherwise`` where the time is up before."""
        try:
            check(Activity.CERTIFICATE)
            return of()
        except Stopped:
            if name not in self.left_out:
                self.left_out.append(name)
            return otherwise

    def violations(self, motion: Motion, tolerances: Tolerances) -> list[Violation]:
        """Of all constraints of a phase; NaN for those that there was no time for."""
        found: list[Violation] = []
        try:
            for one in constraints.violations(motion, tolerances.violation, tolerances.violation_between, tolerances.gap_segment):
                found.append(one)
                check(Activity.CERTIFICATE)
        except Stopped:
            nan, seen = float("nan"), {one.name for one in found}
            missing = [c.name for c in motion.phase.constraints if c.name not in seen] or ([] if seen else ["bounds"])
            self.left_out += [f"constraint {name!r}" for name in missing]
            found += [Violation(name, nan, nan, nan, "", tolerances.violation) for name in missing]
        return found


def certify(solution: Solution, tolerances: Tolerances | None = None) -> Solution:
    """The same solution with its certificate. A trajectory that contains NaN gets one that holds nothing.

    Where the time is up (``ocp.interrupts``), checks that are not done do not hold, and the certificate names them.
    """
    with threadpool_limits(1), closing(CERTIFICATE_S):  # matrices are small: threads only wait for each other
        return _certified(solution, tolerances or Tolerances())


def _certified(solution: Solution, tolerances: Tolerances) -> Solution:
    own, nan = _Checks(), float("nan")
    seen = restored(solution)  # unknowns that a method eliminates are looked at, too
    phases = seen.problem.phases
    motions = [Motion(phase, part) for phase, part in zip(phases, seen.parts or (seen.trajectory,), strict=True)]
    size, varied = own.done("size of the objective", lambda: objective.size(motions), (1.0, 1.0))
    again = [own.done("re-integration", partial(dynamics.gaps, motion), dynamics.unknown(motion, NOT_DONE[1:-1]))
             for motion in motions]
    defects = [own.done("defect between knots", partial(dynamics.defects, motion),
                        np.full(len(motion.trajectory.t) - 1, nan)) for motion in motions]
    gap, gap_at = _largest([(one.segment, one.at) for one in again])
    defect, defect_at = _largest([_worst(motion, values) for motion, values in zip(motions, defects, strict=True)])
    total, total_at = _largest([(one.total, one.total_at) for one in again])
    balances = [b for b in (own.done("energy balance", partial(dynamics.energy_balance, motion),
                                     None if motion.phase.system.energy is None else nan) for motion in motions) if b is not None]
    found = [(motion.phase, v) for motion in motions for v in own.violations(motion, tolerances)]
    named = [v if len(phases) == 1 else replace(v, name=f"{phase.name}: {v.name}") for phase, v in found]
    passages = [own.done(f"{a.phase.name} to {b.phase.name}", partial(constraints.passage, a, b, tolerances.violation),
                         Violation(f"{a.phase.name} to {b.phase.name}", nan, nan, nan, "", tolerances.violation))
                for a, b in zip(motions[:-1], motions[1:], strict=True)]
    links = [own.done(f"linkage {linkage.name!r}", partial(
        constraints.linked, linkage, motions, tolerances.violation, tolerances.gap_segment),
        Violation(linkage.name, nan, nan, nan, "", tolerances.violation)) for linkage in solution.problem.linkages]
    stationarity, complementarity, kind, curved = own.done(
        "optimality", lambda: _optimality(solution, motions, size, varied, tolerances), _no_optimality(tolerances, NOT_DONE))
    quadrature = own.done("objective against its quadrature", lambda: _objective(
        solution, _whole(seen, motions), float(sum(values.sum() for values in defects)), size, tolerances),
        Residual("objective against its quadrature", nan, tolerances.objective, NOT_DONE))
    unknown: Residual | None = Residual("distance from the point of the multipliers", nan, tolerances.point, NOT_DONE)
    point = own.done("distance from the point of the multipliers", lambda: _point(solution, size, tolerances), unknown)
    none: list[float] = []
    widths = own.done("resolution", lambda: [one.look.width for one in motions if one.finite and not one.stepped], none)
    certificate = Certificate(
        stationarity=stationarity, complementarity=complementarity, violations=(*named, *passages, *links), second_order=kind,
        gap_segment=Residual("segment re-integration gap", gap, tolerances.gap_segment, gap_at),
        gap_total=Residual("total re-integration gap", total, tolerances.gap_total, total_at),
        error_estimate=Residual("defect between knots", defect, tolerances.error_estimate, defect_at),
        energy=Residual("energy balance", float(np.max(balances)), tolerances.energy) if balances else None,
        objective=quadrature, point=point, objective_size=size, resolution=max(widths, default=None),
        left_out=tuple(own.left_out),
    )
    notes = solution.notes
    if any(one.implicit for one in again):
        notes = (*notes, "certificate: stiff, integrated again by an implicit method (Radau IIA, order 9)")
    extra = dict(solution.extra) | {"certificate_segment_gap": _by_segment([one.by_segment for one in again]),
                                    "certificate_segment_defect": _by_segment(defects)}
    return replace(solution, certificate=certificate, notes=notes, extra=extra, escape=curved)


def _whole(seen: Solution, motions: Sequence[Motion]) -> Sequence[Motion]:
    """The motions of a problem whose controls are split, for its own costs."""
    whole = joined(seen)
    return motions if whole is seen else [Motion(phase, part) for phase, part in
                                          zip(whole.problem.phases, whole.parts or (whole.trajectory,), strict=True)]


def _objective(solution: Solution, motions: Sequence[Motion], defects: float, size: float, tolerances: Tolerances) -> Residual:
    """The objective beside its quadrature; the tolerance follows the solution's own error estimate."""
    value, doubt = objective.integrated(motions, size, solution.options.get("cost_quadrature") == "rectangle")
    allowed = tolerances.objective + min(BY_DEFECTS * defects + doubt / size, max(tolerances.objective, tolerances.error_estimate))
    where = f"({solution.objective:.9g} reported, {value:.9g} integrated along the trajectory"
    residual = Residual("objective against its quadrature", abs(solution.objective - value) / size,
                        allowed if np.isfinite(allowed) else tolerances.objective, f"{where})")
    if residual.holds or solution.status not in SOLVED or (turns := objective.turns(motions)) <= FAST:
        return residual
    return replace(residual, where=f"{where}; {TOO_FAST} {turns} times on the way, which asks for as many intervals: put their "
                                   "mean over a turn in their place, or shorten the motion)")


def _point(solution: Solution, size: float, tolerances: Tolerances) -> Residual | None:
    found = objective.disagreement(solution, size)
    return None if found is None else Residual("distance from the point of the multipliers", found[0], tolerances.point, found[1])


def _worst(motion: Motion, defects: np.ndarray) -> tuple[float, str]:
    t, worst = motion.trajectory.t, int(np.argmax(defects))
    if motion.stepped:
        return 0.0, "(nothing lies between steps)"
    return float(defects[worst]), f"on [{t[worst]:.6g}, {t[worst + 1]:.6g}] s" if motion.finite else ""


def _largest(found: list[tuple[float, str]]) -> tuple[float, str]:
    """The largest of several numbers and where it stands; NaN counts as larger than any."""
    return max(found, key=lambda one: np.inf if np.isnan(one[0]) else one[0])


def _by_segment(values: list[np.ndarray]) -> np.ndarray:
    """Values of all segments, with a zero for the instant between two phases."""
    return np.concatenate([np.r_[0.0, v] if i else v for i, v in enumerate(values)])


#: first-order conditions, what kind of point it is, and a direction that leads down from it
Optimum = tuple[Residual, Residual, Statement, np.ndarray | None]


def _no_optimality(tolerances: Tolerances, where: str = "") -> Optimum:
    nan = float("nan")
    return (Residual("stationarity", nan, tolerances.stationarity, where), Residual("complementarity", nan,
            tolerances.complementarity, where), Statement("second order", "not examined", False), None)


def _optimality(solution: Solution, motions: Sequence[Motion], size: float, varied: float, tolerances: Tolerances) -> Optimum:
    """First-order conditions in the sizes of the problem, what kind of point it is, and a direction that leads down from it."""
    unknown, left = _no_optimality(tolerances), solution.optimality
    if left is None or not all(motion.finite for motion in motions):
        return unknown
    raw = f"(KKT residuals as they stand: {', '.join(f'{value:.1e}' for value in left.residuals())})"
    local = left.local()
    found = None if local is None else curvature.judge(local, motions, size, varied)
    if local is None or found is None:
        return unknown
    words = f"{found.kind}{_discrete(found, solution)}"
    if not found.minimum:
        words += f": {found.below} of {found.free} free directions lead down"
    stationarity = max(BY_SLOPE * found.slope, found.decrease if found.minimum else 0.0)
    jump, told = jumps.unseen(solution, motions)
    if not jump / varied <= max(tolerances.stationarity, stationarity):
        stationarity, raw = jump / varied, told
    return (Residual("stationarity", stationarity, tolerances.stationarity, raw),
            Residual("complementarity", curvature.complementarity(local, size), tolerances.complementarity),
            Statement("second order", words, found.minimum), found.direction)


def _discrete(found: curvature.Curvature, solution: Solution) -> str:
    """Why the statement speaks of the discrete problem alone; empty where curvature speaks for the continuous one, too."""
    if all(phase.steps is not None for phase in solution.problem.phases):
        return ""
    held = solution.options.get("controls") == "held" or (solution.method != "collocation" and "controls" not in solution.options)
    reasons = [word for word, why in (("constraints push", found.pushing > 0), ("controls are held", held),
                                      ("directions are flat", found.kind == curvature.FLAT_MINIMUM)) if why]
    return f" of the discrete problem ({', '.join(reasons)})" if reasons else ""
