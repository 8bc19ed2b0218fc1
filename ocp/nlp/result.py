"""Warm starts and results of solvers of nonlinear programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ocp.interrupts import Progress
from ocp.nlp.program import NLP, not_finite, worst_violations
from ocp.problem import Finding, Kind, Status


@dataclass(frozen=True)
class NLPResult:
    """The last iterate x [n], multipliers lam_x [n] and lam_g [m], objective f, and how the solve went.

    mu: barrier parameter of the last iteration, with which a warm start goes on (0 where there is no barrier)
    iterations: one mapping per iteration with iteration, objective, inf_pr, inf_du, mu, d_norm, alpha_pr, alpha_du and
    regularization, as the solver reports them (scaled problem); seconds: "solver" in all, "functions" of which in the
    functions of the program; n_evaluations: calls of f, g, grad, jac and hess together; ending: why the solver did not converge;
    findings: about the solve.
    """

    x: np.ndarray
    lam_x: np.ndarray
    lam_g: np.ndarray
    f: float
    status: Status
    ending: Finding | None
    iterations: tuple[Mapping[str, float], ...]
    seconds: Mapping[str, float]
    n_evaluations: int
    mu: float = 0.0
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Warm:
    """A primal-dual point from which a solve goes on: x [n], multipliers lam_x [n] and lam_g [m] (signs: ``ocp.nlp.program``),
    barrier parameter mu; retry_mu: that of a second try from the same point, where the first does not end within some
    iterations (``interior_point`` alone), 0 for none."""

    x: np.ndarray
    lam_x: np.ndarray
    lam_g: np.ndarray
    mu: float
    retry_mu: float = 0.0


#: ``(due, take)``: where ``due()`` says so after an iteration, ``take(point, rows of the log)`` gets its point
WatchPoint = tuple[Callable[[], bool], Callable[[Warm, tuple[Mapping[str, float], ...]], Any]]

#: from x0 [n] or a warm start to a result: what every back end makes of a program and options
Run = Callable[[np.ndarray, Warm | None, Progress | None, WatchPoint | None], NLPResult]


def ended(nlp: NLP, x: np.ndarray, status: Status, how: Finding) -> tuple[Status, Finding | None]:
    """Status and ending of a solve. how: what the solver returned; data of the ending are its own, what is not finite at x, and
    the largest violations there."""
    if status is Status.NOT_A_NUMBER or not np.all(np.isfinite(x)):
        return Status.NOT_A_NUMBER, Finding(Kind.NOT_FINITE, data={**how.data, "found": not_finite(nlp, x)})
    if status is Status.CONVERGED:
        return status, None
    worst = worst_violations(nlp, x)
    data = {**how.data, "violations": worst}
    if status in (Status.INFEASIBLE, Status.INTERRUPTED):
        return status, Finding(Kind.LARGEST_VIOLATION, name=worst[0][0], value=worst[0][1], data=data) if worst else None
    return status, replace(how, data=data)
