"""All checks together: tolerances, and the certificate of a solution."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from ocp.certify import constraints, curvature, dynamics, jumps, objective
from ocp.certify.design import better_value
from ocp.certify.hamiltonian import hamiltonians
from ocp.certify.minimum_principle import Better, better_controls, waiting
from ocp.certify.motion import Motion
from ocp.errors import ProblemError
from ocp.interrupts import CERTIFICATE_S, Activity, Stopped, check, closing
from ocp.problem import SOLVED, Certificate, Finding, Kind, Linkage, Residual, Solution, Statement, Violation
from ocp.reductions import invert, judged_in_pieces, origins, redundant
from ocp.reductions.algebraic_equations import with_equations
from ocp.reductions.chain import Redundant
from ocp.thresholds import VERDICTS

T = TypeVar("T")
Redundancy = tuple[Sequence[bool], Sequence[bool]]


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of a certified solution; override any of them under ``accept:`` in a problem file. All are relative to the
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
    objective_error: half the error bound of the objective, over its scale
    minimum_principle: what controls with a smaller Hamiltonian than the motion's would gain, over the scale of the objective
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
    minimum_principle: float = 1e-2
    objective_error: float = 1e-2
    point: float = 1e-8

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ProblemError(f"must be positive, got {value}", where=f"accept.{name}")


@dataclass
class _Checks:
    """The checks one after another; left_out: names of those omitted for lack of time."""

    left_out: list[str] = field(default_factory=list)

    def done(self, name: str, of: Callable[[], T], otherwise: T) -> T:
        """The result of a check, ``otherwise`` if the time is up before."""
        try:
            check(Activity.CERTIFICATE)
            return of()
        except Stopped:
            if name not in self.left_out:
                self.left_out.append(name)
            return otherwise

    def violations(self, motion: Motion, of_program: Sequence[Motion], tolerances: Tolerances, dropped: Redundancy
                   ) -> list[Violation]:
        """Of the conditions of a phase, and of those that reductions added: the objective of the program is that of the motion only
        if these hold, too. NaN for those omitted for lack of time."""
        found: list[Violation] = []
        own = (tolerances.violation, tolerances.violation_between, tolerances.gap_segment)
        try:
            for one in constraints.violations(motion, *own, dropped):
                found.append(one)
                check(Activity.CERTIFICATE)
            for piece in of_program:
                if piece is not motion:
                    found += constraints.violations(piece, *own, dropped, {one.name for one in found})
        except Stopped:
            seen = {one.name for one in found}
            missing = [c.name for c in motion.phase.constraints if c.name not in seen] or ([] if seen else ["bounds"])
            self.left_out += [f"constraint {name!r}" for name in missing]
            found += [_not_examined(name, tolerances) for name in missing]
        return found


def _not_examined(name: str, tolerances: Tolerances) -> Violation:
    nan = float("nan")
    return Violation(name, nan, nan, nan, "", tolerances.violation)


def certify(solution: Solution, tolerances: Tolerances | None = None) -> Solution:
    """The same solution with its certificate. A trajectory that contains NaN gets one in which nothing holds. After the time limit
    (``ocp.interrupts``) the remaining checks do not hold, and the certificate names them."""
    # matrices are small: threads only wait for each other; infinite rates at a knot make these checks NaN
    with threadpool_limits(1), closing(CERTIFICATE_S), np.errstate(invalid="ignore"):
        return _certified(solution, tolerances or Tolerances())


def _certified(solution: Solution, tolerances: Tolerances) -> Solution:
    own, nan = _Checks(), float("nan")
    program = invert(solution, keep_controls=True)  # the controls are those of the unknowns whose optimality is judged
    given = invert(program)
    phases, pieces = given.problem.phases, origins(program.problem)
    of_given = _motions(given)
    # with the same states; kinks that reductions took out of costs do not cut their integration
    motions = of_given if given is program else _motions(program, [of_given[i] for i in pieces])
    judged = motions if judged_in_pieces(program.problem) else of_given
    named_phases = [phase.name if len(phases) > 1 else "" for phase in phases]
    names = [named_phases[i] for i in pieces]
    size, varied = own.done("scale of the objective", lambda: objective.size(motions), (1.0, 1.0))
    again, whole = _integrated(own, motions, of_given, judged)
    defects = [own.done("defect between knots", partial(dynamics.defects, motion),
                        np.full(len(motion.trajectory.t) - 1, nan)) for motion in motions]
    balances = [b for b in (own.done("energy balance", partial(dynamics.energy_balance, motion),
                                     None if motion.phase.system.energy is None else nan) for motion in motions) if b is not None]
    dropped = redundant(solution.problem)
    violations = _violations(own, of_given, [[one for one, i in zip(motions, pieces, strict=True) if i == number]
                                             for number in range(len(phases))], dropped, tolerances)
    violations += _links(own, [(linkage, of_given) for linkage in given.problem.linkages] + [
        (linkage, motions) for linkage in program.problem.linkages[len(given.problem.linkages):]],  # that reductions added
        () if dropped is None else dropped.linkages, tolerances)
    quadrature = own.done("objective against its quadrature", lambda: _objective(
        solution, judged, float(sum(values.sum() for values in defects)), size, tolerances),
        Residual(Kind.OBJECTIVE, nan, tolerances.objective, cause=Kind.NOT_EXAMINED))
    unknown: Residual | None = Residual(Kind.POINT, nan, tolerances.point, cause=Kind.NOT_EXAMINED)
    point = own.done("consistency of the multipliers",
                     lambda: objective.disagreement(solution, size, tolerances.point), unknown)
    not_compared: Compared = (Residual(Kind.MINIMUM_PRINCIPLE, nan, tolerances.minimum_principle, cause=Kind.NOT_EXAMINED), ())
    principle, better = own.done(
        "minimum principle", lambda: _minimum_principle(program, motions, size, tolerances), not_compared)
    stationarity, complementarity, kind, curved = own.done(
        "optimality", lambda: _optimality(solution, motions, size, varied, tolerances, principle),
        _no_optimality(tolerances, Kind.NOT_EXAMINED))
    unjudged = principle is None or principle.cause is Kind.NOT_EXAMINED
    kind = replace(kind, weak=unjudged and not all(one.stepped for one in motions))
    none: list[float] = []
    widths = own.done("resolution", lambda: [one.look.width for one in motions if one.finite and not one.stepped], none)
    every = [*zip(again, names, strict=True), *zip(whole, named_phases if whole else [], strict=True)]
    certificate = Certificate(
        stationarity=stationarity, complementarity=complementarity, violations=tuple(violations), second_order=kind,
        gap_segment=objective.largest([one.segment_residual(tolerances.gap_segment, name) for one, name in every]),
        gap_total=objective.largest([one.total_residual(tolerances.gap_total, name) for one, name in every]),
        error_estimate=objective.largest([_defect(*one, tolerances.error_estimate)
                                          for one in zip(motions, names, defects, strict=True)]),
        energy=Residual(Kind.ENERGY, float(np.max(balances)), tolerances.energy) if balances else None,
        objective=quadrature, point=point, minimum_principle=principle, objective_size=size, resolution=max(widths, default=None),
        left_out=tuple(own.left_out),
    )
    stiff = (Finding(Kind.STIFF),) if any(one.implicit for one in again) else ()
    worth = 0.0 if own.left_out else _worth(program, motions, again)
    gap = 0.0 if principle is None else principle.value * size
    extra = dict(solution.extra) | {"certificate_segment_gap": _by_segment([one.by_segment for one in again]),
                                    "certificate_segment_defect": _by_segment(defects), "certificate_gap_cost": np.array([worth]),
                                    "certificate_hamiltonian_gap": np.array([gap])}
    return replace(solution, certificate=certificate, findings=(*solution.findings, *stiff), extra=extra, escape=curved,
                   better_controls=better if principle is not None and not principle.holds else None)


def _integrated(own: _Checks, motions: list[Motion], of_given: list[Motion], judged: list[Motion]
                ) -> Iterator[list[dynamics.Gaps]]:
    """Both re-integrations: of the program, and of the problem where it is another. Where reductions keep the phases and their
    states, the motion of the program is the one that was given."""
    same = _states(motions) == _states(of_given)
    for of in (judged if same else motions, [] if same or judged is motions else of_given):
        yield [own.done("re-integration", partial(dynamics.gaps, motion), dynamics.unknown(motion)) for motion in of]


def _violations(own: _Checks, motions: Sequence[Motion], pieces: Sequence[Sequence[Motion]], dropped: Redundant | None,
                tolerances: Tolerances) -> list[Violation]:
    """Of phases, made of these pieces, and of the passages between them; dropped: conditions that are redundant."""
    found = []
    for number, (motion, own_pieces) in enumerate(zip(motions, pieces, strict=True)):
        without = ((), ()) if dropped is None else (dropped.start[number], dropped.final[number])
        name = motion.phase.name if len(motions) > 1 else ""
        found += [replace(v, phase=name) for v in own.violations(motion, own_pieces, tolerances, without)]
    for a, b in zip(motions[:-1], motions[1:], strict=True):
        name = f"{a.phase.name} to {b.phase.name}"
        found.append(own.done(name, partial(constraints.passage, a, b, tolerances.violation), _not_examined(name, tolerances)))
    return found


def _links(own: _Checks, linkages: Sequence[tuple[Linkage, Sequence[Motion]]], dropped: Sequence[Sequence[bool]],
           tolerances: Tolerances) -> list[Violation]:
    """Of linkages between these motions; dropped: which equations of the first ones are redundant."""
    found = []
    for number, (linkage, of) in enumerate(linkages):
        without = dropped[number] if number < len(dropped) else ()
        of_linkage = partial(constraints.linked, linkage, of, tolerances.violation, tolerances.gap_segment, without)
        found.append(own.done(f"linkage {linkage.name!r}", of_linkage, _not_examined(linkage.name, tolerances)))
    return found


def _motions(solution: Solution, wholes: Sequence[Motion] = ()) -> list[Motion]:
    """The motions of the phases, whose algebraic equations are ordinary constraints; wholes: the motions of which they are
    pieces."""
    return [Motion(with_equations(phase), part, whole) for phase, part, whole in itertools.zip_longest(
        solution.problem.phases, solution.parts or (solution.trajectory,), wholes)]


def _states(motions: Sequence[Motion]) -> list[tuple[int, ...]]:
    """Knots and states of motions."""
    return [motion.trajectory.x.shape for motion in motions]


def _objective(solution: Solution, motions: Sequence[Motion], defects: float, size: float, tolerances: Tolerances) -> Residual:
    """The objective beside its quadrature; the tolerance follows the solution's own error estimate."""
    value, doubt = objective.integrated(motions, size, solution.options.get("cost_quadrature") == "rectangle")
    of_mesh = VERDICTS.defect_factor * defects + doubt / size
    allowed = tolerances.objective + min(of_mesh, max(tolerances.objective, tolerances.error_estimate))
    data = {"reported": solution.objective, "integrated": value}
    residual = Residual(Kind.OBJECTIVE, abs(solution.objective - value) / size,
                        allowed if np.isfinite(allowed) else tolerances.objective, data=data)
    if residual.holds or solution.status not in SOLVED or (rotations := objective.rotations(motions)) <= VERDICTS.max_turns:
        return residual
    return replace(residual, cause=Kind.OSCILLATING_COST, data={**data, "turns": rotations})


def _worth(solution: Solution, motions: Sequence[Motion], again: Sequence[dynamics.Gaps]) -> float:
    """The change of the objective, to first order, with the re-integrated states; 0 without costates."""
    return sum(one.worth(found.ends) for one, found in zip(hamiltonians(solution, motions), again, strict=True)
               if one is not None and found.ends is not None)


#: what better controls would gain, None where a phase has no costates, and these by phase
Compared = tuple[Residual | None, tuple[Better | None, ...]]


def _minimum_principle(solution: Solution, motions: Sequence[Motion], size: float, tolerances: Tolerances) -> Compared:
    """The gain by better controls, in total and by phase; None if a phase has no costates."""
    other = better_value(solution.problem, motions)
    if other is not None and other.gain > tolerances.minimum_principle * size:
        return Residual(Kind.MINIMUM_PRINCIPLE, other.gain / size, tolerances.minimum_principle, cause=Kind.BETTER_PARAMETER,
                        data={"name": other.name, "value": other.value}), (None,) * len(motions)
    known = hamiltonians(solution, motions)
    if any(one is None for one in known):
        return None, ()
    better = tuple(better_controls(one) for one in known if one is not None)
    gains = [0.0 if one is None else one.gain for one in better]
    worst = int(np.argmax(gains))
    residual = Residual(Kind.MINIMUM_PRINCIPLE, sum(gains) / size, tolerances.minimum_principle,
                        motions[worst].phase.name if len(motions) > 1 else "")
    rest, when = max(waiting(one) for one in known if one is not None)
    if rest > sum(gains):
        return replace(residual, value=rest / size, time=when, cause=Kind.WAITING), (None,) * len(motions)
    if (found := better[worst]) is None:
        return replace(residual, cause=Kind.CONVEX_HAMILTONIAN), better
    return residual if found.gain == 0 else replace(residual, time=found.time), better


def _defect(motion: Motion, phase: str, defects: np.ndarray, tolerance: float) -> Residual:
    """The largest defect of a segment of a phase."""
    t, worst = motion.trajectory.t, int(np.argmax(defects))
    if motion.stepped:
        return Residual(Kind.ERROR_ESTIMATE, 0.0, tolerance, phase, cause=Kind.DISCRETE_TIME)
    span = (float(t[worst]), float(t[worst + 1])) if motion.finite else None
    return Residual(Kind.ERROR_ESTIMATE, float(defects[worst]), tolerance, phase, span)


def _by_segment(values: list[np.ndarray]) -> np.ndarray:
    """Values of all segments, with a zero for the instant between two phases."""
    return np.concatenate([np.r_[0.0, v] if i else v for i, v in enumerate(values)])


#: first-order conditions, the kind of point, and a descent direction from it
Optimum = tuple[Residual, Residual, Statement, np.ndarray | None]


def _no_optimality(tolerances: Tolerances, cause: Kind | None = None) -> Optimum:
    nan = float("nan")
    return (Residual(Kind.STATIONARITY, nan, tolerances.stationarity, cause=cause),
            Residual(Kind.COMPLEMENTARITY, nan, tolerances.complementarity, cause=cause), Statement(Kind.POINT_NOT_EXAMINED), None)


def _optimality(solution: Solution, motions: Sequence[Motion], size: float, varied: float, tolerances: Tolerances,
                principle: Residual | None) -> Optimum:
    """Scaled first-order conditions, the kind of point, and a direction of negative curvature. Flat directions are followed unless
    the minimum principle already shows better controls."""
    unknown, left = _no_optimality(tolerances), solution.optimality
    if left is None or not all(motion.finite for motion in motions):
        return unknown
    residuals = tuple(float(value) for value in left.residuals())
    local = left.local()
    found = None if local is None else curvature.judge(local, motions, size, varied,
                                                        left.values if principle is None or principle.holds else None)
    if local is None or found is None:
        return unknown
    value = max(VERDICTS.gradient_weight * found.gradient, found.decrease if found.minimum else 0.0)
    jump = jumps.unseen(solution, motions)
    stationarity = Residual(Kind.STATIONARITY, value, tolerances.stationarity, data={"kkt_residuals": residuals})
    if not jump.size / varied <= max(tolerances.stationarity, value):
        stationarity = Residual(Kind.STATIONARITY, jump.size / varied, tolerances.stationarity, jump.phase, time=jump.time,
                                cause=jump.cause, data={"unknown": jump.unknown})
    return (stationarity, Residual(Kind.COMPLEMENTARITY, curvature.complementarity(local, size), tolerances.complementarity),
            Statement(found.kind, found.below, found.free, _discrete(found, solution)), found.direction)


def _discrete(found: curvature.Curvature, solution: Solution) -> tuple[Kind, ...]:
    """Reasons why the statement concerns the discrete problem only; empty if it holds for the continuous one, too."""
    if all(phase.steps is not None for phase in solution.problem.phases):
        return ()
    constant = solution.options.get("controls") == "held" or (
        solution.method != "collocation" and "controls" not in solution.options)
    reasons = ((Kind.ACTIVE_CONSTRAINTS, found.pushing > 0), (Kind.PIECEWISE_CONSTANT_CONTROLS, constant),
               (Kind.FLAT_DIRECTIONS, found.kind is Kind.FLAT_MINIMUM))
    return tuple(kind for kind, holds in reasons if holds)
