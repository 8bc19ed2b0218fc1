"""Options of iLQR, and what it cannot enforce. Imports no Numba, so that asking costs nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ocp.derivatives import EXECUTIONS
from ocp.errors import ProblemError, check_choices, check_fractions, check_positive
from ocp.integrators import STEPS
from ocp.options import MethodOptions
from ocp.problem import At, Constraint, Linkage, Phase, Problem, Sense

MIN_ITERATIONS = 150
"""Whoever allows fewer iterations than this wants no other starts."""


@dataclass(frozen=True)
class Tuning:
    """How iLQR searches: choices that few problems need to change. Costs are in the unit of the cost.

    globalisation: of the gaps: "merit" weighs them against the cost, "filter" accepts what improves on either; "auto": merit, but
        for "multiple" without hard constraints what either of the two accepts.
    gap_tolerance: largest sum of gaps of a converged solution.
    convexify: what happens to a full Hessian that the sweep cannot use: "gauss_newton" moves it towards the Gauss-Newton Hessian,
        "project" takes the nearest positive semidefinite matrix of every stage, "shift" only regularises.
    polish: "newton" ends with Newton's method on the optimality conditions of all knots together, with the active constraints as
        equations; "auto" does so where the rest of the search falls short of its tolerances.
    retry: "auto" tries other starts where hard constraints or gaps cannot be met, or the first rollout runs away: the motion that
        controls by inverse dynamics carry, the straight line of states from the start to the prescribed final state, then the
        controls of the guess alone (or its states, where these did not count); an attempt with others to come is given up where
        violation and gaps have not halved within 150 iterations. Of failures the one that misses least is the result; the notes
        tell them all. "never", or fewer than 150 iterations allowed: as asked and no more.
    penalty, penalty_max: of the augmented Lagrangian that holds hard constraints: at the start, and where the constraints are
        given up as infeasible.
    armijo: smallest accepted ratio of actual to expected decrease. step_min: shortest trial step.
    regularisation, regularisation_max: mu, which is added to Quu, at the start, and beyond which the solve has stalled.
    """

    CHOICES: ClassVar[Mapping[str, Sequence[str]]] = {
        "globalisation": ("auto", "merit", "filter"), "convexify": ("shift", "gauss_newton", "project"),
        "polish": ("auto", "newton", "never"), "retry": ("auto", "never")}

    globalisation: str = "auto"
    gap_tolerance: float = 1e-9
    convexify: str = "gauss_newton"
    polish: str = "auto"
    retry: str = "auto"
    penalty: float = 10.0
    penalty_max: float = 1e10
    armijo: float = 0.1
    step_min: float = 1e-6
    regularisation: float = 0.0
    regularisation_max: float = 1e12

    def __post_init__(self) -> None:
        where = "ilqr.tuning"
        check_choices(self, self.CHOICES, where)
        check_positive(self, ("gap_tolerance", "penalty", "penalty_max", "regularisation_max"), where)
        check_fractions(self, ("armijo", "step_min"), where)
        if not 0 <= self.regularisation <= self.regularisation_max:
            raise ProblemError(f"regularisation must lie between 0 and regularisation_max, got {self.regularisation!r}",
                               where=where)


@dataclass(frozen=True)
class StepOptions(MethodOptions):
    """Of methods that make one step of an integrator in each interval, under a control that is constant over it.

    integrator: one of ``ocp.integrators``, implicit ones included; of those that look back (bdf2) every phase begins anew with
        one step of sdirk2, and gains and values are by the present state, the state before moved alike.
    kernels: "tuned" takes ten times the time for machine code that is up to a quarter faster: for long searches.
    """

    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {
        **MethodOptions.CHOICES, "kernels": ("auto", "tuned", "compiled", "interpreted"), "integrator": STEPS}

    intervals: int = 100
    integrator: str = "rk4"


@dataclass(frozen=True)
class ILQROptions(StepOptions):
    """Options of ``ocp.shooting.ilqr.solve``.

    cost_quadrature: "integrator" integrates running costs with the tableau of the integrator, "rectangle" sums
        h times the cost at the knots 0 ... N-1.
    execution: of the dynamics and their analytic derivatives: "generated" code for this problem; "loops" over the robot, compiled
        once for all robots; "auto" takes loops for large robots. See ``ocp.derivatives`` for both.
    hessian: "gauss_newton" drops the second derivatives of the dynamics (iLQR); "full" adds them, contracted with the
        costates (DDP: quadratic convergence); "auto" takes Gauss-Newton's far from the solution and the full one near it.
    shooting: "single" rolls out with the feedback gains (closed loop), "open" without them; "feasible" starts from the states of
        the guess, keeps the gaps and closes them as steps are taken (FDDP); "multiple" moves states and controls along the linear
        model, every step leaving its own gap, until the model predicts what closing all gaps by feedback costs; then "single".
    control_bounds: "clamped" enforces them in every step of the sweep and of the rollouts; `"rows"` leaves them to the augmented
        Lagrangian, for unstable systems whose clamped controls could not follow a plan any more.
    threads: that differentiate the stages; the numbers are the same for any.
    max_iterations: limit on accepted or refused steps of every attempt; four times as many from the motion of inverse dynamics.
    tolerance: the method has converged when the projected gradient of the discrete cost (largest component) and the
        improvement that the quadratic model still expects are both at most ``tolerance * max(unit, |cost|)``, looser where that is
        less than one (``ocp.shooting.engine.scale``); the unit is the size of the cost where the search
        begins (``ocp.shooting.engine.unit``), and every other option that is one of a cost is in it.
    constraint_tolerance: largest violation of a hard constraint at the knots, in the unit of its row
        (``ocp.shooting.row_units``: one for ordinary numbers).
    tuning: how it searches.
    """

    METHOD: ClassVar[str] = "ilqr"
    FIXED: ClassVar[Mapping[str, str | float]] = {  # options of earlier versions, which their runs name, and what they are now
        "cost_tolerance": 0.0, "polish_tolerance": 1e-9, "penalty_growth": 10.0, "inner_tolerance": 0.1, "max_outer": 60,
        "step_reduction": 0.5, "regularise": "control", "regularisation_min": 1e-8, "state_limit": 1e8}
    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {
        **StepOptions.CHOICES, "cost_quadrature": ("integrator", "rectangle"), "execution": EXECUTIONS,
        "hessian": ("auto", "gauss_newton", "full"), "shooting": ("single", "open", "feasible", "multiple"),
        "control_bounds": ("clamped", "rows")}
    MIN_COUNTS: ClassVar[Mapping[str, int]] = {**MethodOptions.MIN_COUNTS, "threads": 1}

    max_iterations: int = 500
    tolerance: float = 1e-8
    cost_quadrature: str = "integrator"
    execution: str = "auto"
    hessian: str = "auto"
    shooting: str = "single"
    control_bounds: str = "clamped"
    threads: int = 1
    constraint_tolerance: float = 1e-7
    tuning: Tuning = Tuning()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, ("tolerance", "constraint_tolerance"), self.METHOD)

    @property
    def retries(self) -> bool:
        """Whether other starts are wanted where the first fails."""
        return self.tuning.retry != "never" and self.max_iterations >= MIN_ITERATIONS


def unsupported(problem: Problem) -> list[str]:
    """One sentence for each thing that the problem asks for and iLQR cannot enforce; empty when it can serve it."""
    return [*_durations(problem),
            *(sentence for i, phase in enumerate(problem.phases) for sentence in _constraints(phase, first=i == 0)),
            *(f"linkage {linkage.name!r} of the start alone (make it a constraint at the start){_source(linkage)}"
              for linkage in problem.linkages if all(end == (0, At.START) for end in linkage.ends))]


def linked(problem: Problem) -> list[str]:
    """One sentence for each linkage, for methods that cannot enforce any."""
    return [f"linkage {linkage.name!r} between ends of phases{_source(linkage)}" for linkage in problem.linkages]


def _source(asked: Constraint | Linkage) -> str:
    return f", at {asked.where}" if asked.where else ""


def _durations(problem: Problem) -> Iterator[str]:
    """Residual costs are scaled by the root of a free duration, which has no derivative at zero."""
    free = False
    for phase in problem.phases:
        free = free or phase.duration.free
        residual = any(cost.weights is not None for cost in phase.costs if cost.at is At.PATH)
        if free and residual and not phase.duration.lower > 0:
            yield (f"free duration of phase {phase.name!r} down to {phase.duration.lower:g} s with residual costs (give a lower "
                   "bound above 0)")


def _constraints(phase: Phase, first: bool) -> Iterator[str]:
    for constraint in phase.constraints:
        if constraint.at is At.INTEGRAL:
            yield (f"integral constraint {constraint.name!r} (make the integral a state, with a bound at the end)"
                   f"{_source(constraint)}")
        elif constraint.soft is not None:
            if constraint.sense is Sense.CONE:
                yield (f"soft second-order cone {constraint.name!r} (only components between bounds can be soft)"
                       f"{_source(constraint)}")
        elif first and constraint.at is At.START and _prescribed(phase) and not _holds_at_start(phase, constraint):
            yield f"constraint {constraint.name!r} (start): the fixed start state violates it{_source(constraint)}"


def _prescribed(phase: Phase) -> bool:
    return phase.start is not None and phase.start.complete


def _holds_at_start(phase: Phase, constraint: Constraint) -> bool:
    # with every component of the start state fixed, a constraint there leaves nothing to enforce
    assert phase.start is not None
    system = phase.system
    arguments = (0.0, phase.start.value, np.zeros(system.nu), system.parameter_values)
    value = np.asarray(constraint.function(*arguments)).ravel()
    if constraint.sense is Sense.CONE:
        return bool(np.linalg.norm(value[1:]) <= value[0] + 1e-9)
    return bool(np.all(constraint.bounds.excess(value) <= 1e-9 * (1 + np.abs(value))))
