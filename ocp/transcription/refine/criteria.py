"""When a refinement may stop, and which errors of intervals decide what the next mesh is.

``ByMesh``: every interval reaches a tolerance of its own (``refine: h | p | hp``). ``ByCertificate``: the certificate holds, and
errors are what it measures, in parts of what it allows: gaps of segments, defects, and what leaves bounds and constraints between
nodes (``refine: certificate``). Both are functions of a solution and of the verdict on the pass before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ocp import nlp
from ocp.problem import Finding, Kind, Phase, Problem, Solution, Trajectory
from ocp.thresholds import CRITERION, MESH_CHANGE, ROUNDING, TIGHTENING
from ocp.transcription.refine.error import Estimate, Estimator, PhaseErrors
from ocp.transcription.refine.finer_rule import PhaseFunctions
from ocp.transcription.refine.margins import Margins
from ocp.transcription.refine.plan import Plans

Array = np.ndarray
#: from a solution to the same solution with its certificate
Judge = Callable[[Solution], Solution]

#: evaluation points in an interval where bounds are looked at; parabolas give peaks between them
SAMPLES_PER_INTERVAL = 24


@dataclass(frozen=True, eq=False)
class Verdict:
    """Verdict of a criterion on a pass. solution: with its certificate, where that decides; errors: by phase, beside the tolerance
    of the policy; margins: of the next pass; finding: the error; worst: the largest of all; estimated: of these by the estimator
    alone; allowed: overshoots between nodes that the last certificate allowed, by constraint."""

    solution: Solution
    errors: tuple[PhaseErrors, ...]
    margins: tuple[Margins, ...]
    finding: Finding
    worst: float
    estimated: float = 0.0
    allowed: Mapping[str, float] = field(default_factory=dict)

    @property
    def largest(self) -> float:
        """The largest relative error of all intervals."""
        return float(max(np.max(errors.total) for errors in self.errors))


class Criterion(Protocol):
    """still: relative change of the objective that is none; shift: change of an edge at a jump that is none, as a part of its
    phase."""

    still: float
    shift: float

    def look(self, solution: Solution, estimate: Estimate, plans: Plans, margins: tuple[Margins, ...], before: Verdict | None
             ) -> Verdict:
        """Judge a solution by its estimated errors."""

    def accurate(self, passes: Sequence[Pass], shaped: bool) -> bool:
        """Whether the last pass is accurate enough; shaped: whether the shape of controls counts."""

    def undetermined(self, passes: Sequence[Pass]) -> bool:
        """Whether all that is left is controls that the objective does not feel, as along a singular arc: motions are as accurate
        as asked, and another mesh changed the objective by less than the tolerance asks of it."""


class Pass(Protocol):
    """A pass as criteria see it."""

    @property
    def estimate(self) -> Estimate:
        """Estimated errors of the pass."""

    @property
    def verdict(self) -> Verdict:
        """The judgement of the pass."""


class ByMesh:
    """Every interval reaches this tolerance."""

    def __init__(self, tolerance: float):
        self.tolerance = self.shift = tolerance
        self.still = MESH_CHANGE.aim * tolerance

    def look(self, solution: Solution, estimate: Estimate, plans: Plans, margins: tuple[Margins, ...], before: Verdict | None
             ) -> Verdict:
        """Judge a solution by its estimated errors."""
        return Verdict(solution, estimate.phases, margins, estimate.finding(solution.problem), estimate.largest)

    def accurate(self, passes: Sequence[Pass], shaped: bool) -> bool:
        """Whether the last pass meets the tolerance."""
        return passes[-1].verdict.largest <= self.tolerance or (not shaped and self.undetermined(passes))

    def undetermined(self, passes: Sequence[Pass]) -> bool:
        """Whether the remaining error concerns controls that the objective does not determine."""
        return len(passes) > 1 and passes[-1].estimate.motion <= self.tolerance and same(passes[-2:], self.still)


class ByCertificate:
    """The certificate holds. Errors are relative to what it allows: the tolerance of the policy is 1. allowed: gap and defect of a
    segment, as the certificate judges them."""

    def __init__(self, judge: Judge, estimator: Estimator, allowed: tuple[float, float]):
        self.judge, self.estimator, self.of_segment = judge, estimator, allowed
        self.still = self.shift = ROUNDING.resolution

    def look(self, solution: Solution, estimate: Estimate, plans: Plans, margins: tuple[Margins, ...], before: Verdict | None
             ) -> Verdict:
        """Judge a solution by its certificate."""
        allowed = before.allowed if before is not None else {}
        overshoots = self._overshoots(solution, allowed)
        states = [np.nan_to_num(np.maximum(own.gap / self.of_segment[0], own.defect / self.of_segment[1]), nan=np.inf)
                  for own in estimate.phases]
        over = max(one.worst for one in overshoots)
        certificate, estimated = None, max(float(np.max(state)) for state in states)
        idle = before is not None and self._idle(solution, estimated, before)
        if (estimated <= CRITERION.screen or idle) and over <= 1:
            solution = self.judge(solution)
            certificate = solution.certificate
            assert certificate is not None
            allowed = {v.label: v.tolerance_between for v in certificate.violations}
            overshoots = self._overshoots(solution, allowed)
            over = max(one.worst for one in overshoots)
            states = self._measured(solution, estimate, plans)
        errors, new = [], []
        for own, state, one, margin in zip(estimate.phases, states, overshoots, margins, strict=True):
            near = one.near & (margin.times < TIGHTENING.max_passes)[:, None]
            (nx, m), chosen = (part.shape[1] for part in (one.states, one.rows)), (near & one.bad)[:, :, None]
            new.append(margin.grown(np.where(chosen[:, :nx], one.states, 0.0), np.where(chosen[:, nx:nx + m], one.rows, 0.0)))
            errors.append(replace(own, state=state, control=np.zeros_like(state), integral=np.zeros_like(state),
                                  path=np.max(np.where(near, 0.0, one.ratio), axis=1, initial=0.0)))
        worst = max(over, *(float(np.max(state)) for state in states))
        if certificate is None:
            finding = Finding(Kind.TOO_COARSE, value=worst, tolerance=1.0)
        elif certificate.holds:
            finding = Finding(Kind.CERTIFIED)
        else:
            failures = certificate.failures
            finding = Finding(Kind.NOT_CERTIFIED, data={"first": failures[0], "failures": len(failures)})
        return Verdict(solution, tuple(errors), tuple(new), finding, worst, estimated, allowed)

    def _idle(self, solution: Solution, estimated: float, before: Verdict) -> bool:
        """Whether another mesh changed neither the objective nor the estimates much: these may be of states that only rounding
        moves, and only the certificate can tell."""
        return (abs(solution.objective - before.solution.objective) <= self.still * objective_size(solution)
                and estimated > CRITERION.min_progress * before.estimated)

    def _measured(self, solution: Solution, estimate: Estimate, plans: Plans) -> list[Array]:
        """Errors of the states of intervals as the certificate measured them. Where a check of the whole motion fails, all share
        in it by their size, in one of the objective by what their quadrature misses."""
        certificate = solution.certificate
        assert certificate is not None
        gaps, defects = (_by_phase(solution.extra[f"certificate_segment_{name}"], plans) for name in ("gap", "defect"))
        objective = 0.0 if certificate.objective is None else _ratio(certificate.objective)
        missed = np.concatenate([own.cost for own in estimate.phases])
        by_cost = objective > 1 and np.isfinite(missed).all() and missed.any()
        checks = (certificate.gap_total, certificate.energy, None if by_cost else certificate.objective)
        whole = max(_ratio(check) for check in checks if check is not None)
        worst = max(np.max(np.nan_to_num(own.of_motion.total, posinf=1e300)) for own in estimate.phases)
        found = []
        for gap, defect, own in zip(gaps, defects, estimate.phases, strict=True):
            state = np.maximum(gap / certificate.gap_segment.tolerance, defect / certificate.error_estimate.tolerance)
            state = np.nan_to_num(state, nan=np.inf)
            if whole > 1:
                with np.errstate(invalid="ignore"):  # infinite beside infinite is NaN here, and all of it below
                    share = np.maximum(state / max(float(np.max(state)), 1e-300), own.of_motion.total / max(worst, 1e-300))
                state = np.maximum(state, min(whole, CRITERION.max_demand) * np.nan_to_num(share, nan=1.0, posinf=1.0))
            if by_cost:
                state = np.maximum(state, min(objective, CRITERION.max_demand) * own.cost / np.mean(missed))
            found.append(state)
        return found

    def accurate(self, passes: Sequence[Pass], shaped: bool) -> bool:
        """Whether the last pass is certified."""
        certificate = passes[-1].verdict.solution.certificate
        return certificate is not None and certificate.holds

    def undetermined(self, passes: Sequence[Pass]) -> bool:
        """False: the certificate judges the motion alone."""
        return False

    def _overshoots(self, solution: Solution, allowed: Mapping[str, float]) -> list[_Overshoots]:
        """Overshoots of bounds of states and path constraints between nodes, by interval; the allowance, by the last
        certificate."""
        parts = solution.parts or (solution.trajectory,)
        return [self._in_phase(functions, phase, part, f"{phase.name}: " if len(parts) > 1 else "", allowed)
                for functions, phase, part in zip(self.estimator.phases, solution.problem.phases, parts, strict=True)]

    def _in_phase(self, functions: PhaseFunctions, phase: Phase, part: Trajectory, prefix: str, allowed: Mapping[str, float]
                  ) -> _Overshoots:
        """Along the motion that the certificate judges: algebraic unknowns solve their equations at every point."""
        places = np.clip(np.linspace(0.0, 1.0, SAMPLES_PER_INTERVAL), ROUNDING.beside, 1.0 - ROUNDING.beside)
        t = part.t[:-1, None] + np.diff(part.t)[:, None] * places
        flat, N, system = t.ravel(), len(part.t) - 1, phase.system
        x = np.asarray(part.state(flat)).reshape(len(flat), -1)
        names = [f"bound {name}" for name in system.space.names]
        values, bounds = [x], phase.state_bounds
        if functions.path_names:
            u = np.asarray(part.control(flat)).reshape(len(flat), -1)
            p = np.asarray(system.parameter_values, dtype=float)
            if functions.inputs is not None and allowed:
                u = functions.inputs(flat, x, u, np.repeat(p[:, None], len(flat), axis=1))
            first = len(system.controls)  # those are clipped to their bounds, and parabolas through them are not
            values += [functions(flat, x, u, p, x, float(part.t[-1] - part.t[0]))[2], u[:, first:]]
            bounds = bounds.joined(functions.path_bounds).joined(phase.control_bounds[first:])
            names += [*functions.path_constraints, *(f"bound {name}" for name in system.algebraic)]
        every, nx, m = np.concatenate(values, axis=1), x.shape[1], len(functions.path_names)
        every, measured = (own.reshape(N, SAMPLES_PER_INTERVAL, -1) for own in (every, functions.in_units(every, nx)))
        low, high = bounds.arrays
        over, ratio = (np.stack([np.maximum(0.0, _peaks(-own) + low), np.maximum(0.0, _peaks(own) - high)], axis=2)
                       for own in (every, measured))
        solved = next((c.name for c in phase.constraints if c.function is system.residual), None)
        limit = np.array([np.inf if name == solved else allowed.get(prefix + name, np.inf) for name in names])
        ratio = np.nan_to_num(np.max(ratio, axis=2) / limit, nan=np.inf)
        near = (low != high) & (np.max(over, axis=2) <= CRITERION.max_overshoot * np.ptp(every, axis=(0, 1)))
        near[:, nx + m:] = False  # unknowns that are solved for have no tightened bounds
        return _Overshoots(over[:, :nx], over[:, nx:nx + m], ratio, near, ratio > MESH_CHANGE.aim)


@dataclass(frozen=True, eq=False)
class _Overshoots:
    """states [N, nx, 2], rows [N, m, 2]: by how much, below and above; of states, rows and unknowns [N, nx + m + nz]: ratio, in
    parts of what is allowed; near, whether tightening can mend it; bad, whether it calls for some."""

    states: Array
    rows: Array
    ratio: Array
    near: Array
    bad: Array

    @property
    def worst(self) -> float:
        """The largest ratio."""
        return float(np.max(self.ratio, initial=0.0))


def _peaks(values: Array) -> Array:
    """The largest of values [N, k, m] at equally spaced evaluation points, and of parabolas through three neighbours: [N, m]."""
    before, here, after = values[:, :-2], values[:, 1:-1], values[:, 2:]
    bend, slope = 2 * here - before - after, after - before
    inside = (bend > 0) & (np.abs(slope) <= 2 * bend)  # the top between the outer two
    top = here + np.where(inside, slope**2 / (8 * np.where(inside, bend, 1.0)), 0.0)
    return np.maximum(np.max(values, axis=1), np.max(top, axis=1))


def same(passes: Sequence[Pass], still: float) -> bool:
    """Whether the objective of these passes is the same, relative to its scale."""
    values = [p.verdict.solution.objective for p in passes]
    return max(values) - min(values) <= still * objective_size(passes[-1].verdict.solution)


def objective_size(solution: Solution) -> float:
    """Of the objective of a transcription's solution."""
    found = solution.optimality
    return abs(solution.objective) if found is None else nlp.objective_size(found.nlp, found.x)


def _ratio(check: Any) -> float:
    return float(np.nan_to_num(check.value / check.tolerance, nan=np.inf, posinf=np.inf))


def _by_phase(values: Array, plans: Plans) -> list[Array]:
    """Values of all segments, with one of no meaning between phases, phase by phase."""
    found, first = [], 0
    for plan in plans:
        found.append(np.asarray(values)[first:first + plan.intervals])
        first += plan.intervals + 1
    return found


def first_margins(problem: Problem, plans: Plans, estimator: Estimator) -> tuple[Margins, ...]:
    """Constraints before any tightening."""
    return tuple(Margins.none(plan.intervals, phase.system.nx, len(functions.path_names))
                 for phase, plan, functions in zip(problem.phases, plans, estimator.phases, strict=True))
