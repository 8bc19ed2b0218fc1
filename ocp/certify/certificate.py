"""All checks together: tolerances, and the certificate of a solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ocp.certify import constraints, dynamics, objective
from ocp.certify.motion import Motion
from ocp.errors import ProblemError
from ocp.problem import Certificate, Residual, Solution

#: the sum of all defects, times this, is what discretisation may take the objective away from its quadrature
BY_DEFECTS = 10.0


@dataclass(frozen=True)
class Tolerances:
    """What a solution must hold to be certified; override any of them under ``accept:`` in a problem file.

    stationarity, complementarity: scaled KKT residuals, the usual 1e-6 of nonlinear programming
    violation: every named hard constraint at the knots, absolute, in its own unit
    violation_between: the same between knots, where a direct method promises only its order of accuracy
    gap_segment: one segment re-integrated, scaled; a mesh that misses this misrepresents the dynamics
    gap_total: start to end re-integrated in open loop, scaled; unstable motions amplify it, hence the looser default
    error_estimate: integral over a segment of the defect between knots, scaled
    energy: energy balance error divided by the energy exchanged
    objective: the objective against its quadrature along the trajectory, over 1 + its magnitude; for a coarse mesh is no lie, ten
        times the sum of all defects is allowed besides, up to error_estimate
    point: trajectory and objective against the point whose optimality is judged, over 1 + their magnitudes
    """

    stationarity: float = 1e-6
    complementarity: float = 1e-6
    violation: float = 1e-6
    violation_between: float = 1e-4
    gap_segment: float = 1e-3
    gap_total: float = 5e-2
    error_estimate: float = 1e-2
    energy: float = 1e-2
    objective: float = 1e-5
    point: float = 1e-8

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ProblemError(f"must be positive, got {value}", where=f"accept.{name}")


def certify(solution: Solution, tolerances: Tolerances | None = None, deadline: float | None = None) -> Solution:
    """The same solution with its certificate. A trajectory that contains NaN gets one that holds nothing.

    deadline: a value of ``time.perf_counter()`` after which no further check begins; what was left out does not hold.
    """
    tolerances = tolerances or Tolerances()
    phases = solution.problem.phases
    motions = [Motion(phase, part) for phase, part in zip(phases, solution.parts or (solution.trajectory,), strict=True)]
    stationarity, complementarity = _optimality(solution)
    again = [dynamics.gaps(motion) for motion in motions]
    defects = [dynamics.defects(motion) for motion in motions]
    gap, gap_at = _largest([(one.segment, one.at) for one in again])
    defect, defect_at = _largest([_worst(motion, values) for motion, values in zip(motions, defects, strict=True)])
    total, _ = _largest([(one.total, "") for one in again])
    balances = [b for b in (dynamics.energy_balance(motion) for motion in motions) if b is not None]
    found = [(motion.phase, v) for motion in motions
             for v in constraints.violations(motion, tolerances.violation, tolerances.violation_between)]
    named = [v if len(phases) == 1 else replace(v, name=f"{phase.name}: {v.name}") for phase, v in found]
    passages = [constraints.passage(*pair, tolerances.violation) for pair in zip(motions[:-1], motions[1:], strict=True)]
    links = [constraints.linked(linkage, motions, tolerances.violation) for linkage in solution.problem.linkages]
    certificate = Certificate(
        stationarity=Residual("stationarity", stationarity, tolerances.stationarity),
        complementarity=Residual("complementarity", complementarity, tolerances.complementarity),
        violations=(*named, *passages, *links),
        gap_segment=Residual("segment re-integration gap", gap, tolerances.gap_segment, gap_at),
        gap_total=Residual("total re-integration gap", total, tolerances.gap_total),
        error_estimate=Residual("defect between knots", defect, tolerances.error_estimate, defect_at),
        energy=Residual("energy balance", float(np.max(balances)), tolerances.energy) if balances else None,
        objective=_objective(solution, motions, float(sum(values.sum() for values in defects)), tolerances),
        point=_point(solution, tolerances),
    )
    notes = solution.notes
    if any(one.implicit for one in again):
        notes = (*notes, "certificate: stiff, integrated again by an implicit method (Radau IIA, order 9)")
    extra = dict(solution.extra) | {"certificate_segment_gap": _by_segment([one.by_segment for one in again]),
                                    "certificate_segment_defect": _by_segment(defects)}
    return replace(solution, certificate=certificate, notes=notes, extra=extra)


def _objective(solution: Solution, motions: Sequence[Motion], defects: float, tolerances: Tolerances) -> Residual:
    """The objective beside its quadrature; the tolerance follows the solution's own error estimate."""
    value, doubt = objective.integrated(motions, solution.options.get("cost_quadrature") == "rectangle")
    size = 1 + abs(solution.objective)
    allowed = tolerances.objective + min(BY_DEFECTS * defects + doubt / size, max(tolerances.objective, tolerances.error_estimate))
    return Residual("objective against its quadrature", abs(solution.objective - value) / size,
                    allowed if np.isfinite(allowed) else tolerances.objective,
                    f"({solution.objective:.9g} reported, {value:.9g} integrated along the trajectory)")


def _point(solution: Solution, tolerances: Tolerances) -> Residual | None:
    found = objective.disagreement(solution)
    return None if found is None else Residual("distance from the point of the multipliers", found[0], tolerances.point, found[1])


def _worst(motion: Motion, defects: np.ndarray) -> tuple[float, str]:
    t, worst = motion.trajectory.t, int(np.argmax(defects))
    return float(defects[worst]), f"on [{t[worst]:.6g}, {t[worst + 1]:.6g}] s" if motion.finite else ""


def _largest(found: list[tuple[float, str]]) -> tuple[float, str]:
    """The largest of several numbers and where it stands; NaN counts as larger than any."""
    return max(found, key=lambda one: np.inf if np.isnan(one[0]) else one[0])


def _by_segment(values: list[np.ndarray]) -> np.ndarray:
    """Values of all segments, with a zero for the instant between two phases."""
    return np.concatenate([np.r_[0.0, v] if i else v for i, v in enumerate(values)])


def _optimality(solution: Solution) -> tuple[float, float]:
    """Scaled first-order residuals, from what the method left; NaN (never holds) when it left nothing."""
    if solution.optimality is None:
        return float("nan"), float("nan")
    stationarity, complementarity = solution.optimality.residuals()
    return float(stationarity), float(complementarity)
