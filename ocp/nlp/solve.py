"""The door to the solvers of nonlinear programs: a solver is prepared once and solves from any number of starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ocp.errors import ProblemError
from ocp.nlp import fatrop, ipopt
from ocp.nlp.options import SolverOptions
from ocp.nlp.program import NLP, outside, worst_violations
from ocp.nlp.result import NLPResult, Progress, Run, Warm, WatchPoint
from ocp.nlp.scaling import Scaling, scaled
from ocp.problem import Finding, Kind, Status


def _interior_point(nlp: NLP, options: SolverOptions, made: dict[Any, Any]) -> Run:
    from ocp.nlp.interior_point.prepare import prepare  # compiled loops take half a second to load

    return prepare(nlp, options, made)


#: solver -> what makes a run of a program, options, and what was made for a program with the same functions and other limits
BACK_ENDS: dict[str, Callable[[NLP, SolverOptions, dict[Any, Any]], Run]] = {
    "ipopt": ipopt.prepare, "interior_point": _interior_point, "fatrop": lambda nlp, options, made: fatrop.prepare(nlp, options)}


#: how much more than the tolerance an unscaled violation may be before a finding says so
SLACK = 10.0

#: an objective that falls by so many times its first sizes at points that violate less than so much falls without bound
FALLS, FEASIBLE = 1e8, 1e-6

#: what a sum may be off by rounding, as a part of the sizes of its terms
ROUNDING = 2.0 ** -44


@dataclass(frozen=True, eq=False)
class Solver:
    """A program and options made ready: only the solve itself is left to do. One solve at a time. again(program): a run of
    a program with the same functions and other limits, for which what was made serves again."""

    nlp: NLP
    options: SolverOptions
    run: Run
    again: Callable[[NLP], Run]
    findings: tuple[Finding, ...] = ()

    def moved(self, nlp: NLP) -> Solver:
        """For a program with the same functions and other bounds, limits and guess."""
        return Solver(nlp, self.options, self.again(nlp), self.again, self.findings)

    def solve(self, warm: Warm | None = None, x0: ArrayLike | None = None, progress: Progress | None = None,
              watch_point: WatchPoint | None = None) -> NLPResult:
        """Solve from the primal-dual point ``warm``, else from x0 [n], else from the program's own guess.

        Raises ProblemError where both are given or their sizes are wrong.
        """
        if warm is not None and x0 is not None:
            raise ProblemError("give a warm start or x0, not both: a warm start has its own x", where="nlp")
        start = np.array(self.nlp.x0 if x0 is None else x0, dtype=float)
        given = {"x0": (start, self.nlp.n)}
        if warm is not None:
            given = {"warm.x": (warm.x, self.nlp.n), "warm.lam_x": (warm.lam_x, self.nlp.n), "warm.lam_g": (warm.lam_g, self.nlp.m)}
        for name, (value, size) in given.items():
            if np.shape(value) != (size,):
                raise ProblemError(f"{name} needs {size} values, got shape {np.shape(value)}", where="nlp")
        found = self.run(start, warm, progress, watch_point)
        if found.status in (Status.ITERATION_LIMIT, Status.STALLED, Status.DIVERGED) and (falls := _falls(found)):
            found = replace(found, status=Status.UNBOUNDED, ending=falls)
        if found.status is Status.STALLED and _rounded(self.nlp, found):
            found = replace(found, status=Status.CONVERGED, ending=None,
                            findings=(*found.findings, Finding(Kind.ROUNDING_REACHED)))
        return replace(found, findings=(*self.findings, *found.findings)) if self.findings else found


def _rounded(nlp: NLP, found: NLPResult) -> bool:
    """Whether no constraint is off by more than rounding of its own terms, and the gradient of the Lagrangian by no more than that
    of its largest."""
    x = found.x
    g, gradient, jacobian = nlp.g(x).full().ravel(), nlp.grad(x)[1].full().ravel(), nlp.jac(x)[1].sparse()
    if not all(np.all(np.isfinite(part)) for part in (x, g, gradient, jacobian.data, found.lam_g, found.lam_x)):
        return False
    slope = gradient + jacobian.T @ found.lam_g + found.lam_x
    by_rows = abs(jacobian) @ abs(x) + abs(g)
    by_columns = abs(gradient) + abs(jacobian).T @ abs(found.lam_g) + abs(found.lam_x)
    return bool(np.all(outside(g, nlp.g_lower, nlp.g_upper) <= ROUNDING * by_rows)
                and np.all(outside(x, nlp.x_lower, nlp.x_upper) <= ROUNDING * abs(x))
                and np.max(abs(slope), initial=0.0) <= ROUNDING * np.max(by_columns, initial=0.0))


def _falls(found: NLPResult) -> Finding | None:
    """That the objective of feasible iterates falls without bound; None where it does not."""
    values = [row["objective"] for row in found.iterations if row["inf_pr"] <= FEASIBLE]
    if len(values) < 4 or not values[-1] < -FALLS * max(map(abs, values[:3])) or not np.isfinite(values[-1]):
        return None
    return Finding(Kind.OBJECTIVE_UNBOUNDED, data={"first": values[0], "last": values[-1]})


def _scaled_runs(nlp: NLP, options: SolverOptions, factors: Scaling | None, run_of: Callable[[NLP], Run]
                 ) -> tuple[Callable[[NLP], Run], tuple[Finding, ...]]:
    """Runs of the scaled program, whatever its limits, in the terms of the program itself. run_of: of a program as it is."""
    inner, way = scaled(nlp, options.scaling if factors is None else factors)

    def again(own: NLP) -> Run:
        run = run_of(way.limited(inner, own))

        def outer(x0: np.ndarray, warm: Warm | None, progress: Progress | None, watch_point: WatchPoint | None) -> NLPResult:
            found = way.result(run(x0 / way.scaling.columns, None if warm is None else way.down(warm),
                                   *way.seen_by(progress, watch_point)))
            return replace(found, findings=(*found.findings, *unscaled_violation(own, found, options.tolerance)))

        return outer

    return again, (way.scaling.finding,)


def unscaled_violation(nlp: NLP, found: NLPResult, tolerance: float) -> tuple[Finding, ...]:
    """That constraints which hold to the tolerance once they are scaled are violated by more; () where they are not."""
    worst = worst_violations(nlp, found.x, 1) if found.status is Status.CONVERGED else ()
    return tuple(Finding(Kind.UNSCALED_VIOLATION, name=name, value=value, tolerance=tolerance)
                 for name, value in worst if value > SLACK * tolerance)


def prepare_solver(nlp: NLP, options: SolverOptions, factors: Scaling | None = None) -> Solver:
    """The chosen back end made ready for the program. factors: of its scaling, in the place of those of the options."""
    if options.hessian == "gauss_newton" and nlp.gauss_newton is None:
        raise ProblemError("hessian gauss_newton, but the program has none; use hessian exact", where="nlp")
    made: dict[Any, Any] = {}

    def again(own: NLP) -> Run:
        return BACK_ENDS[options.solver](own, options, made)

    if options.scaling == "none" and factors is None:
        return Solver(nlp, options, again(nlp), again)
    outer, findings = _scaled_runs(nlp, options, factors, again)
    return Solver(nlp, options, outer(nlp), outer, findings)


def solve_nlp(nlp: NLP, options: SolverOptions, progress: Progress | None = None, watch_point: WatchPoint | None = None,
              warm: Warm | None = None, solver: str | None = None) -> NLPResult:
    """Solve from ``nlp.x0``, or from the point ``warm`` of an earlier solve, with ``solver`` (None: as the options say).

    watch_point: ``(due, take)``; where ``due()`` says so after an iteration, ``take(point, iterations)`` gets its point and the
    rows of the log so far.

    An interrupt (Ctrl-C, or KeyboardInterrupt raised by ``progress``) ends the solve with an iterate and Status.INTERRUPTED; a
    second Ctrl-C interrupts Python as usual. Any other exception of ``progress`` is raised again.
    """
    chosen = options if solver is None else replace(options, solver=solver)
    return prepare_solver(nlp, chosen).solve(warm, None, progress, watch_point)
