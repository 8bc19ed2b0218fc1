"""The hierarchy as it is written: one constrained programme per level over all unknowns, nothing reduced. Slow, and for comparison.

    level k:  minimise  |w|² + |s|²   subject to   A x - w = b,   lower <= D x - s <= f,
                                                   A_i x = A_i x_i,   lower_i - s_i <= D_i x <= f_i + s_i   for the levels i above

Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), Eq. 3.108, with inequalities (Escande, Mansard, Wieber 2014).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bounded import Bounded, solve_bounded
from numpy.typing import NDArray

from ocp.solvers.levels import Answers, Form, HQPResult, HQPStatus, Level, check_levels
from ocp.solvers.qp import QP, QPOptions, solve_qp

Array = NDArray[np.float64]


def solve_cascade(levels: Sequence[Level], options: QPOptions | None = None) -> HQPResult:
    """The lexicographic optimum, what no level decides by the least |x|. Raises ProblemError."""
    levels = check_levels(levels)
    n = levels[0].n
    C, lower, upper = np.zeros((0, n)), np.zeros(0), np.zeros(0)
    x, iterations = np.zeros(n), 0
    for level in (*levels, Level("least norm", A=np.eye(n), b=np.zeros(n))):
        qp = _programme(level, C, lower, upper)
        w = level.D @ x
        slack = np.maximum(w - level.f, 0.0) + np.minimum(w - level.lower, 0.0)
        feasible = np.r_[x, level.A @ x - level.b, slack]
        answer = solve_qp(qp, options, x0=feasible)
        iterations += answer.iterations
        if answer.ok:
            x = answer.x[:n]
        else:  # nearly dependent rows: from the feasible point to the optimum without an engine
            root = np.sqrt(qp.P.toarray())
            found = solve_bounded(Bounded(root, np.zeros(qp.n), qp.A.toarray(), np.minimum(qp.l, qp.A @ feasible),
                                          np.maximum(qp.u, qp.A @ feasible)), feasible)
            if found is None:
                return HQPResult(np.full(n, np.nan), HQPStatus.FAILED, None, level.name, iterations=iterations)
            x = found.x[:n]
        reached, w = level.A @ x, level.D @ x
        C = np.vstack([C, level.A, level.D])
        lower = np.r_[lower, reached, np.minimum(level.lower, w)]
        upper = np.r_[upper, reached, np.maximum(level.f, w)]
    answers = _answers(levels, x)
    return HQPResult(x, HQPStatus.SOLVED, answers, iterations=iterations,
                     gave_way=any(answers.slack(level.name).any() for level in levels))


def _programme(level: Level, C: Array, lower: Array, upper: Array) -> QP:
    n, rows, limits, above = level.n, level.b.size, level.f.size, lower.size
    P = np.diag(np.r_[np.zeros(n), level.weights])
    A = np.block([
        [level.A, -np.eye(rows), np.zeros((rows, limits))],
        [level.D, np.zeros((limits, rows)), -np.eye(limits)],
        [C, np.zeros((above, rows + limits))],
    ])
    return QP(P, np.zeros(n + rows + limits), A, np.r_[level.b, level.lower, lower], np.r_[level.b, level.f, upper])


def _answers(levels: Sequence[Level], x: Array) -> Answers:
    at = [(level, level.D @ x) for level in levels]
    slack = [np.maximum(w - level.f, 0.0) + np.minimum(w - level.lower, 0.0) for level, w in at]
    side = [np.where(w >= level.f - 1e-9, 1, np.where(w <= level.lower + 1e-9, -1, 0)) for level, w in at]
    counts, k = tuple((level.b.size, level.f.size) for level in levels), len(levels)
    form = Form(tuple(level.name for level in levels), counts, tuple(level.limits for level in levels), "osqp",
                (0, sum(rows for rows, _ in counts), 0, k, 2 * k + 1))
    return Answers(form, np.concatenate([*(level.A @ x - level.b for level in levels), *slack]),
                   np.concatenate([np.full(k, 2), np.zeros(k + 1, np.int64), *side]))
