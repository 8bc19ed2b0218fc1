"""Quadratic programs: OSQP finds the active set, one exact linear solve finds the answer.

    minimise  1/2 x' P x + q' x   subject to   l <= A x <= u

P is symmetric positive semidefinite; rows with l = u are equations; infinite ends are allowed. OSQP (Stellato, Banjac, Goulart,
Bemporad, Boyd 2020, "OSQP: an operator splitting solver for quadratic programs") stops at a finite accuracy. Its answer says
which rows are active; the optimality conditions on that set are linear equations, and solving them (and exchanging the rows
that turn out wrong) leaves only rounding errors. Where that fails an interior-point method of our own gives the active set, and
where that fails, too, OSQP goes on to a finer accuracy. Every residual is computed
here from P, q, A, l, u; OSQP's own are not used. Nothing depends on time: the same input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import splu

from ocp.errors import ProblemError, check_counts, positive
from ocp.solvers.interior_qp import interior_point

Array = NDArray[np.float64]

#: accuracies that OSQP is asked for in turn; after each one the exact step is tried
_STAGES = (1e-3, 1e-6)
_DENSE = 600  # unknowns up to which the optimality conditions are factorised as a dense matrix
_EPS = 1e-9  # accuracy that OSQP is driven to where the exact step does not close earlier
_ADAPTS = 50  # iterations between changes of its step size: never time, which would make answers depend on the machine
_EXCHANGES = 30  # most corrections of the active set in one exact step


class QPStatus(Enum):
    """How a solve ended; the value is the sentence for people."""

    SOLVED = "optimal to the accuracy asked for"
    INACCURATE = "best point found, but its residuals exceed the accuracy asked for"
    INFEASIBLE = "no point satisfies all constraints (certificate verified)"
    UNBOUNDED = "the cost falls without bound (direction verified)"


@dataclass(frozen=True, eq=False)
class QP:
    """Data of one program. P [n, n] symmetric positive semidefinite, q [n], A [m, n], l and u [m]; dense or sparse.

    Stored as copies: float64 vectors and CSC matrices. Raises ProblemError for wrong sizes, an unsymmetric P, l > u, or
    entries that are not finite (l, u: not numbers; l = inf; u = -inf).
    """

    P: Any
    q: Any
    A: Any = None
    l: Any = None
    u: Any = None

    def __post_init__(self) -> None:
        q = np.array(self.q, float).ravel()
        n = q.size
        P = sp.csc_matrix(self.P, dtype=float, copy=True)
        A = sp.csc_matrix((0, n)) if self.A is None else sp.csc_matrix(self.A, dtype=float, copy=True)
        m = A.shape[0]
        l = np.full(m, -np.inf) if self.l is None else np.array(self.l, float).ravel()
        u = np.full(m, np.inf) if self.u is None else np.array(self.u, float).ravel()
        for name, shape, expected in (("P", P.shape, (n, n)), ("A", A.shape, (m, n)), ("l", l.shape, (m,)), ("u", u.shape, (m,))):
            if shape != expected:
                raise ProblemError(f"{name} has shape {shape}, expected {expected} (q has {n} entries, A {m} rows)", where="QP")
        for name, values in (("P", P.data), ("q", q), ("A", A.data)):
            if not np.isfinite(values).all():
                raise ProblemError(f"{name} has entries that are not finite", where="QP")
        asymmetry = abs(P - P.T).max() if n else 0.0
        if asymmetry > 1e-9 * (1.0 + abs(P).max()):
            raise ProblemError(f"P is not symmetric (largest difference {asymmetry:.3g})", where="QP")
        wrong = np.flatnonzero(~(l <= u) | (l == np.inf) | (u == -np.inf))
        if wrong.size:
            i = int(wrong[0])
            raise ProblemError(f"row {i} of A: lower bound {l[i]} exceeds upper bound {u[i]}", where="QP")
        for name, value in (("P", P), ("q", q), ("A", A), ("l", l), ("u", u)):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of unknowns."""
        return int(self.q.size)

    @property
    def m(self) -> int:
        """Number of rows of A."""
        return int(self.l.size)


@dataclass(frozen=True)
class QPOptions:
    """accuracy: largest residual (relative, see `Residuals.worst`) of an answer called solved. max_iterations: of OSQP, in all.
    check_interval: iterations between its tests of convergence. finish: try the exact step (otherwise OSQP's point is returned as
    it is)."""

    accuracy: float = 1e-8
    max_iterations: int = 20000
    check_interval: int = 25
    finish: bool = True

    def __post_init__(self) -> None:
        positive(self.accuracy, "QPOptions.accuracy")
        check_counts(self, {"max_iterations": 1, "check_interval": 1}, "QPOptions")


@dataclass(frozen=True)
class Residuals:
    """Distance of (x, y) from optimality, each the largest absolute entry.

    primal: violation of l <= A x <= u. dual: P x + q + A' y. complementarity: min(|multiplier|, distance to its bound) over the
    rows (a multiplier pushing against an infinite end counts in full). worst: the largest of the three, rows beside 1 + |A x| of
    their own, costs and multipliers beside 1 + the largest of |P x|, |q|, |A' y|.
    """

    primal: float
    dual: float
    complementarity: float
    worst: float


@dataclass(frozen=True, eq=False)
class QPResult:
    """x [n], multipliers y [m] (P x + q + A' y = 0; y > 0 pushes down from u, y < 0 up from l), status, residuals computed
    here, iterations of OSQP, active: -1 (at l), 0, +1 (at u) per row, exact: the exact step gave the answer, objective at x.

    For INFEASIBLE, y is the certificate: A' y = 0 and u'max(y, 0) + l'min(y, 0) < 0. For UNBOUNDED, x is the direction.
    """

    x: Array
    y: Array
    status: QPStatus
    residuals: Residuals
    iterations: int
    active: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    exact: bool = False
    objective: float = np.nan

    @property
    def ok(self) -> bool:
        """Whether the program is solved."""
        return self.status is QPStatus.SOLVED


def residuals(qp: QP, x: ArrayLike, y: ArrayLike) -> Residuals:
    """Residuals of the optimality conditions at (x, y)."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    Px, z, Ay = qp.P @ x, qp.A @ x, qp.A.T @ y
    primal = np.maximum(np.maximum(qp.l - z, z - qp.u), 0.0)
    above, below = np.abs(qp.u - z), np.abs(z - qp.l)
    up, down, far, scale = np.maximum(y, 0.0), np.maximum(-y, 0.0), 1.0 + np.abs(z), 1.0 + max(map(_largest, (Px, qp.q, Ay)))
    gap = np.maximum(np.minimum(up, above), np.minimum(down, below))
    share = np.maximum(np.minimum(up / scale, above / far), np.minimum(down / scale, below / far))
    dual = _largest(Px + qp.q + Ay)
    return Residuals(_largest(primal), dual, _largest(gap), max(_largest(primal / far), dual / scale, _largest(share)))


def solve_qp(qp: QP, options: QPOptions | None = None, *, x0: ArrayLike | None = None, y0: ArrayLike | None = None) -> QPResult:
    """Solve one program. x0 [n], y0 [m]: starting point and multipliers (warm start).

    Raises ProblemError when P is not positive semidefinite or a start has the wrong size.
    """
    options = options or QPOptions()
    x, y = _start(qp.n, x0, "x0"), _start(qp.m, y0, "y0")
    if qp.n == 0:
        return _graded(qp, x, y, 0, False, options)
    if qp.m == 0:
        return _unconstrained(qp, options)
    warm = x0 is not None or y0 is not None
    if warm and options.finish and _semidefinite(qp) and (tried := _exact(qp, x, y, options.accuracy)) is not None:
        return _graded(qp, *tried, 0, True, options)
    solver = _setup(qp, options)
    if warm:
        solver.warm_start(x=x.copy(), y=y.copy())
    iterations = 0
    for stage in (*(s for s in _STAGES if options.finish and s > _EPS), _EPS):
        if stage == _EPS and options.finish and qp.n + qp.m <= _DENSE:
            point = interior_point(qp.P.toarray(), qp.q, qp.A.toarray(), qp.l, qp.u)
            if point is not None and (tried := _exact(qp, *point, options.accuracy)) is not None:
                return _graded(qp, *tried, iterations, True, options)
        left = options.max_iterations - iterations
        if left <= 0:
            break
        solver.update_settings(eps_abs=stage, eps_rel=stage, max_iter=left)
        answer = solver.solve(raise_error=False)
        iterations += int(answer.info.iter)
        ended = _ending(qp, answer, iterations)
        if ended is not None:
            return ended
        if answer.x is None or not np.isfinite(answer.x).all():
            break
        x, y = np.array(answer.x, float), np.array(answer.y, float)
        if options.finish and (tried := _exact(qp, x, y, options.accuracy)) is not None:
            return _graded(qp, *tried, iterations, True, options)
    return _graded(qp, x, y, iterations, False, options)


def _setup(qp: QP, options: QPOptions) -> Any:
    import osqp  # with its generator of code a twentieth of a second that inverse kinematics need not wait for

    solver = osqp.OSQP()
    try:
        # OSQP's own polishing is off: it prints when nothing is active, and the exact step here does more
        solver.setup(sp.triu(qp.P, format="csc"), qp.q.copy(), qp.A.copy(), qp.l.copy(), qp.u.copy(), verbose=False,
                     polishing=False, warm_starting=True, rho=0.1, sigma=1e-6, alpha=1.6,
                     scaling=10, adaptive_rho=1, adaptive_rho_interval=_ADAPTS,
                     check_termination=options.check_interval, eps_prim_inf=1e-7, eps_dual_inf=1e-7)
    except (osqp.OSQPException, ValueError) as error:
        low = float(np.linalg.eigvalsh(qp.P.toarray()).min()) if qp.n <= 2000 else float("nan")
        raise ProblemError(f"OSQP refuses the problem ({error}); smallest eigenvalue of P: {low:.3g}", where="QP") from error
    return solver


def _semidefinite(qp: QP) -> bool:
    """P has no negative eigenvalue that matters (where it is dense): a point that is only stationary is not an optimum."""
    if qp.n > _DENSE:
        return True
    P = qp.P.toarray()
    return int(scipy.linalg.lapack.dpotrf(P + 1e-9 * (1.0 + _largest(P)) * np.eye(qp.n))[1]) == 0


def _ending(qp: QP, answer: Any, iterations: int) -> QPResult | None:
    """The result when OSQP claims that there is no solution and its certificate holds; None otherwise."""
    import osqp

    status = answer.info.status_val
    if status == osqp.SolverStatus.OSQP_NON_CVX:
        raise ProblemError("P is not positive semidefinite", where="QP")
    empty = Residuals(np.inf, np.inf, np.inf, 1.0)
    if status in (osqp.SolverStatus.OSQP_PRIMAL_INFEASIBLE, osqp.SolverStatus.OSQP_PRIMAL_INFEASIBLE_INACCURATE):
        y = np.array(answer.prim_inf_cert, float)
        if _proves_infeasible(qp, y):
            return QPResult(np.full(qp.n, np.nan), y / _largest(y), QPStatus.INFEASIBLE, empty, iterations)
    if status in (osqp.SolverStatus.OSQP_DUAL_INFEASIBLE, osqp.SolverStatus.OSQP_DUAL_INFEASIBLE_INACCURATE):
        d = np.array(answer.dual_inf_cert, float)
        if _proves_unbounded(qp, d):
            return QPResult(d / _largest(d), np.full(qp.m, np.nan), QPStatus.UNBOUNDED, empty, iterations)
    return None


def _proves_infeasible(qp: QP, y: Array) -> bool:
    size = _largest(y)
    if not np.isfinite(size) or size == 0.0:
        return False
    y = y / size
    up, down = np.where(y > 1e-9, y, 0.0), np.where(y < -1e-9, y, 0.0)
    if np.isinf(qp.u[up > 0]).any() or np.isinf(qp.l[down < 0]).any():
        return False
    support = float(qp.u[up > 0] @ up[up > 0] + qp.l[down < 0] @ down[down < 0])
    # a point x would have to pay |A'y| |x| = -support: |x| beyond a million times the data is no point
    return support < 0.0 and _largest(qp.A.T @ (up + down)) <= 1e-6 * -support


def _proves_unbounded(qp: QP, d: Array) -> bool:
    size = _largest(d)
    if not np.isfinite(size) or size == 0.0:
        return False
    d = d / size
    slope, z = float(qp.q @ d), qp.A @ d
    slack = 1e-6 * abs(slope)
    return (
        slope < 0.0
        and _largest(qp.P @ d) <= slack
        and bool(((z <= slack) | np.isinf(qp.u)).all() and ((z >= -slack) | np.isinf(qp.l)).all())
    )


def _exact(qp: QP, x: Array, y: Array, accuracy: float) -> tuple[Array, Array] | None:
    """(x, y) of the optimality conditions on the active set near the given point, or None when no set closes.

    A row is taken as active where its multiplier outweighs its distance from the bound (Stellato et al. 2020, section 4). Then
    violated rows enter and rows with a multiplier of the wrong sign leave until nothing changes (primal-dual active set,
    Hintermueller, Ito, Kunisch 2003). Each solve is for the smallest correction, so singular P or dependent constraints do no harm.
    """
    z, equal = qp.A @ x, qp.l == qp.u
    side = np.where(equal, 2, 0) + np.where(~equal & (z - qp.l < -y), -1, 0) + np.where(~equal & (qp.u - z < y), 1, 0)
    seen: set[bytes] = set()
    for _ in range(_EXCHANGES):
        key = side.astype(np.int8).tobytes()
        if key in seen:
            return None
        seen.add(key)
        rows = np.flatnonzero(side)
        bound = np.where(side[rows] == -1, qp.l[rows], qp.u[rows])
        y_set, solve = y[rows], _factorised(qp, rows)
        if solve is None:
            return None
        for _ in range(2):  # the second pass is iterative refinement
            step = solve(np.concatenate([-(qp.P @ x + qp.q + qp.A[rows].T @ y_set), bound - qp.A[rows] @ x]))
            x, y_set = x + step[: qp.n], y_set + step[qp.n :]
        if not (np.isfinite(x).all() and np.isfinite(y_set).all()):
            return None
        y = np.zeros(qp.m)
        y[rows] = y_set
        state = residuals(qp, x, y)
        if state.worst <= min(1e-12, accuracy):
            return x, y
        z = qp.A @ x
        tiny = 1e-13 * (1.0 + np.abs(z))
        leaving = ((side == -1) & (y > 0.0)) | ((side == 1) & (y < 0.0))
        new = np.where(leaving, 0, side)
        new = np.where((side == 0) & (z < qp.l - tiny), -1, np.where((side == 0) & (z > qp.u + tiny), 1, new))
        if (new == side).all():
            return (x, y) if state.worst <= accuracy else None
        side = new
    return None


def _factorised(qp: QP, rows: NDArray[np.int64]) -> Callable[[Array], Array] | None:
    """Solver of K s = right for K = [P A'; A 0]; the smallest s where K is singular (flat costs, dependent constraints)."""
    A, size = qp.A[rows], qp.n + rows.size
    if size > _DENSE:
        K = sp.bmat([[qp.P, A.T], [A, None]], format="csc")
        for shift in (0.0, 1e-12 * (1.0 + abs(K).max())):
            sign = np.where(np.arange(size) < qp.n, shift, -shift)
            try:
                lu = splu((K + sp.diags(sign)).tocsc())
            except RuntimeError:
                continue
            return lambda right, lu=lu: _refined(lu.solve, K, right)  # type: ignore[misc]
        return None
    D = np.zeros((size, size))
    D[: qp.n, : qp.n], D[qp.n :, : qp.n] = qp.P.toarray(), A.toarray()
    D[: qp.n, qp.n :] = D[qp.n :, : qp.n].T
    factor, pivots, _ = scipy.linalg.lapack.dgetrf(D)
    diagonal = np.abs(np.diag(factor))
    if diagonal.min() > 1e-11 * diagonal.max():
        return lambda right: np.asarray(scipy.linalg.lapack.dgetrs(factor, pivots, right)[0])
    return lambda right: np.asarray(scipy.linalg.lstsq(D, right, cond=1e-12, lapack_driver="gelsy")[0])


def _refined(solve: Callable[[Array], Array], K: Any, right: Array) -> Array:
    s = solve(right)
    for _ in range(5):
        s = s + solve(right - K @ s)
    return np.asarray(s)


def _unconstrained(qp: QP, options: QPOptions) -> QPResult:
    P = qp.P.toarray()
    values, vectors = np.linalg.eigh(P)
    top = max(float(np.abs(values).max()), 1e-300)
    if values.min() < -1e-9 * top:
        raise ProblemError(f"P is not positive semidefinite (eigenvalue {values.min():.3g})", where="QP")
    kept = values > 1e-13 * top
    loose = vectors[:, ~kept] @ (vectors[:, ~kept].T @ qp.q)
    if _largest(loose) > 1e-9 * (1.0 + _largest(qp.q)):
        return QPResult(-loose / _largest(loose), np.zeros(0), QPStatus.UNBOUNDED, Residuals(np.inf, np.inf, np.inf, 1.0), 0)
    x = -vectors[:, kept] @ ((vectors[:, kept].T @ qp.q) / values[kept])
    return _graded(qp, x, np.zeros(0), 0, True, options)


def _graded(qp: QP, x: Array, y: Array, iterations: int, exact: bool, options: QPOptions) -> QPResult:
    state = residuals(qp, x, y)
    status = QPStatus.SOLVED if state.worst <= options.accuracy else QPStatus.INACCURATE
    z = qp.A @ x
    near = 1e-9 * (1.0 + np.abs(z))
    active = np.where(qp.u - z <= near, 1, np.where(z - qp.l <= near, -1, 0)).astype(np.int8)
    objective = float(0.5 * x @ (qp.P @ x) + qp.q @ x)
    return QPResult(x, y, status, state, iterations, active, exact, objective)


def _start(size: int, value: ArrayLike | None, name: str) -> Array:
    if value is None:
        return np.zeros(size)
    array = np.array(value, float).ravel()
    if array.size != size or not np.isfinite(array).all():
        raise ProblemError(f"expected {size} finite numbers, got an array of {array.size}", where=f"solve_qp.{name}")
    return array


def _largest(values: Any) -> float:
    return float(np.abs(values).max(initial=0.0))
