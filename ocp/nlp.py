"""Nonlinear programs with named rows and columns, and their solution by IPOPT.

    minimise f(x)   subject to   g_lower <= g(x) <= g_upper,   x_lower <= x <= x_upper

Lagrangian ``L = f(x) + lam_g' g(x) + lam_x' x``. A multiplier is positive where the upper bound is active, negative
where the lower bound is, and of either sign on equalities and fixed variables.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from ocp.errors import ProblemError
from ocp.problem import Status

HESSIANS = ("exact", "limited_memory")

#: smallest barrier parameter, and distance from bounds, of a warm start
MU_LEAST = 1e-11

#: IPOPT's s_max of the KKT error scaling; Waechter and Biegler 2006, Eq. 5 and below
S_MAX = 100.0


@dataclass(frozen=True)
class NLP:
    """A nonlinear program with exact sparse derivatives, each a CasADi Function of the variables x [n].

    f(x) -> f;  g(x) -> g [m];  grad(x) -> (f, gradient [n]);  jac(x) -> (g, Jacobian [m, n], sparse)
    hess(x, sigma, lam_g) -> upper triangle [n, n] of the Hessian of ``sigma f + lam_g' g``, sparse
    variables [n], constraints [m]: a name for each column and row, in the user's words
    diagnose(x): sentences that name each user function that is not finite at x; None where nothing is known
    keep: what the functions call and must live as long as they do
    """

    f: ca.Function
    g: ca.Function
    grad: ca.Function
    jac: ca.Function
    hess: ca.Function
    x0: np.ndarray
    x_lower: np.ndarray
    x_upper: np.ndarray
    g_lower: np.ndarray
    g_upper: np.ndarray
    variables: tuple[str, ...]
    constraints: tuple[str, ...]
    diagnose: Callable[[np.ndarray], tuple[str, ...]] | None = None
    keep: Any = None

    def __post_init__(self) -> None:
        sizes = {"x0": self.n, "x_lower": self.n, "x_upper": self.n, "g_lower": self.m, "g_upper": self.m}
        for name, size in sizes.items():
            if np.shape(getattr(self, name)) != (size,):
                raise ProblemError(f"{name} needs {size} values, got shape {np.shape(getattr(self, name))}", where="nlp")
        columns, rows = (self.x_lower, self.x_upper, self.variables), (self.g_lower, self.g_upper, self.constraints)
        for lower, upper, names in (columns, rows):
            for i in np.flatnonzero(~(lower <= upper)):
                raise ProblemError(f"lower bound {lower[i]:.6g} is not below upper bound {upper[i]:.6g}", where=names[i])

    @property
    def n(self) -> int:
        return len(self.variables)

    @property
    def m(self) -> int:
        return len(self.constraints)


@dataclass(frozen=True)
class IpoptOptions:
    """max_iterations; tolerance: scaled KKT error (IPOPT's ``tol``) and unscaled constraint violation; hessian:
    "exact" or "limited_memory" (BFGS from gradients)."""

    max_iterations: int = 1000
    tolerance: float = 1e-9
    hessian: str = "exact"

    def __post_init__(self) -> None:
        if self.max_iterations < 0:
            raise ProblemError(f"max_iterations must not be negative, got {self.max_iterations}")
        if not 0 < self.tolerance < 1:
            raise ProblemError(f"tolerance must lie between 0 and 1, got {self.tolerance}")
        if self.hessian not in HESSIANS:
            raise ProblemError(f"hessian must be one of {', '.join(HESSIANS)}, got {self.hessian!r}")


@dataclass(frozen=True)
class NLPResult:
    """The last iterate x [n], multipliers lam_x [n] and lam_g [m], objective f, and how the solve went.

    mu: barrier parameter of the last iteration, with which a warm start goes on
    iterations: one mapping per iteration with iteration, objective, inf_pr, inf_du, mu, d_norm, alpha_pr, alpha_du and
    regularization, as IPOPT reports them (scaled problem); seconds: "solver" in all, "functions" of which in the
    functions of the program; n_evaluations: calls of f, g, grad, jac and hess together.
    """

    x: np.ndarray
    lam_x: np.ndarray
    lam_g: np.ndarray
    f: float
    status: Status
    message: str
    iterations: tuple[Mapping[str, float], ...]
    seconds: Mapping[str, float]
    n_evaluations: int
    mu: float = 0.0


@dataclass(frozen=True)
class Warm:
    """A primal-dual point from which a solve goes on: x [n], multipliers lam_x [n] and lam_g [m] (signs: module docstring),
    barrier parameter mu."""

    x: np.ndarray
    lam_x: np.ndarray
    lam_g: np.ndarray
    mu: float


@dataclass(frozen=True)
class KKT:
    """Residuals of the first-order conditions; violation [m] per row and bound_violation [n] per column, unscaled."""

    stationarity: float
    complementarity: float
    violation: np.ndarray
    bound_violation: np.ndarray


WatchPoint = tuple[Callable[[], bool], Callable[[Warm, tuple[Mapping[str, float], ...]], Any]]

_STATUS = {
    "Solve_Succeeded": Status.CONVERGED,
    "Feasible_Point_Found": Status.CONVERGED,
    "Solved_To_Acceptable_Level": Status.STALLED,
    "Search_Direction_Becomes_Too_Small": Status.STALLED,
    "Error_In_Step_Computation": Status.STALLED,
    "Infeasible_Problem_Detected": Status.INFEASIBLE,
    "Maximum_Iterations_Exceeded": Status.ITERATION_LIMIT,
    "Diverging_Iterates": Status.DIVERGED,
    "User_Requested_Stop": Status.INTERRUPTED,
    "Invalid_Number_Detected": Status.NOT_A_NUMBER,
}

_LOG = {"obj": "objective", "inf_pr": "inf_pr", "inf_du": "inf_du", "mu": "mu", "d_norm": "d_norm", "alpha_pr": "alpha_pr",
        "alpha_du": "alpha_du", "regularization_size": "regularization"}


def kkt(nlp: NLP, x: np.ndarray, lam_x: np.ndarray, lam_g: np.ndarray) -> KKT:
    """Residuals of the first-order conditions at x, evaluated from the functions (signs: module docstring).

    stationarity: inf-norm of ``grad f + J' lam_g + lam_x`` over s_d, where a fixed variable is left out because its
    bound takes any force; complementarity: largest ``|multiplier| * distance to its bound`` over s_c, and the
    multiplier itself where that bound is infinite; s_d, s_c as in Waechter and Biegler 2006 below Eq. 5.
    """
    gradient = nlp.grad(x)[1].full().ravel()
    g, jacobian = nlp.jac(x)
    g = g.full().ravel()
    residual = gradient + np.asarray(ca.mtimes(jacobian.T, ca.DM(lam_g))).ravel() + lam_x
    free = nlp.x_lower < nlp.x_upper
    s_d = max(S_MAX, (np.abs(lam_x).sum() + np.abs(lam_g).sum()) / max(1, nlp.n + nlp.m)) / S_MAX
    products, forces = [0.0], [0.0]
    for value, lower, upper, lam in ((x, nlp.x_lower, nlp.x_upper, lam_x), (g, nlp.g_lower, nlp.g_upper, lam_g)):
        for bound, force in ((upper, np.maximum(lam, 0)), (lower, np.maximum(-lam, 0))):
            distance = np.where(np.isfinite(bound), np.abs(bound - value), 1.0)
            products += list((distance * force)[lower < upper])
            forces += list(force[lower < upper])
    s_c = max(S_MAX, float(np.mean(forces))) / S_MAX
    return KKT(
        stationarity=float(np.max(np.abs(residual[free]), initial=0.0)) / s_d,
        complementarity=float(np.max(products)) / s_c,
        violation=_outside(g, nlp.g_lower, nlp.g_upper),
        bound_violation=_outside(np.asarray(x), nlp.x_lower, nlp.x_upper),
    )


def worst_violations(nlp: NLP, x: np.ndarray, count: int = 3) -> tuple[tuple[str, float], ...]:
    """Names and sizes of the ``count`` largest violations among the constraints and the bounds, largest first."""
    rows = _outside(nlp.g(x).full().ravel(), nlp.g_lower, nlp.g_upper)
    columns = _outside(np.asarray(x), nlp.x_lower, nlp.x_upper)
    values = np.concatenate([rows, columns])
    names = [*nlp.constraints, *(f"bound of {name}" for name in nlp.variables)]
    order = np.argsort(-np.nan_to_num(values, nan=np.inf), kind="stable")[:count]
    return tuple((names[i], float(values[i])) for i in order if values[i] != 0)


def not_finite(nlp: NLP, x: np.ndarray, limit: int = 3) -> tuple[str, ...]:
    """Sentences that name what is NaN or infinite at x: user functions, else rows and columns of the program."""
    if nlp.diagnose is not None and (found := nlp.diagnose(x)):
        return found[:limit]
    rows = [f"{name} is not finite" for name, value in zip(nlp.constraints, nlp.g(x).full().ravel(), strict=True)
            if not np.isfinite(value)]
    if not np.isfinite(float(nlp.f(x))):
        rows.insert(0, "the objective is not finite")
    if not rows:
        gradient, jacobian = nlp.grad(x)[1].full().ravel(), nlp.jac(x)[1]
        rows = [f"the derivative of the objective by {name} is not finite"
                for name, value in zip(nlp.variables, gradient, strict=True) if not np.isfinite(value)]
        rows += [f"the derivative of {nlp.constraints[i]} by {nlp.variables[j]} is not finite"
                 for i, j, value in zip(*jacobian.sparsity().get_triplet(), jacobian.nonzeros(), strict=True)
                 if not np.isfinite(value)]
    return tuple(rows[:limit])


def solve_nlp(nlp: NLP, options: IpoptOptions, progress: Callable[[dict[str, float]], Any] | None = None,
              watch_point: WatchPoint | None = None, warm: Warm | None = None) -> NLPResult:
    """Solve with IPOPT (Waechter and Biegler 2006) from ``nlp.x0``, or from the point ``warm`` of an earlier solve.

    watch_point: ``(due, take)``; where ``due()`` says so after an iteration, ``take(point, iterations)`` gets its point and the
    rows of the log so far.

    An interrupt (Ctrl-C, or KeyboardInterrupt raised by ``progress``) ends the solve with the last iterate and
    Status.INTERRUPTED; a second Ctrl-C interrupts Python as usual. Any other exception of ``progress`` is raised again.
    """
    started = time.perf_counter()
    watch = _Watch(progress, None if watch_point is None else (*watch_point, nlp.n, nlp.m))
    settings: dict[str, Any] = {
        "print_time": False, "show_eval_warnings": False, "error_on_fail": False,
        # everything is handed over: no derivative of the program's graph is ever formed by CasADi
        "grad_f": _with_parameter(nlp.grad, "grad_f"), "jac_g": _with_parameter(nlp.jac, "jac_g"),
        "no_nlp_grad": True, "calc_lam_p": False,
        "iteration_callback": watch,
        "ipopt": {
            "print_level": 0, "sb": "yes", "max_iter": options.max_iterations, "tol": options.tolerance,
            "constr_viol_tol": options.tolerance, "bound_relax_factor": min(1e-8, options.tolerance),
        },
    }
    if warm is not None:
        # as near to the bounds as the point was: by default IPOPT moves it inside by a hundredth
        settings["ipopt"] |= {"warm_start_init_point": "yes", "mu_init": max(warm.mu, MU_LEAST)} | dict.fromkeys(
            ("warm_start_bound_push", "warm_start_bound_frac", "warm_start_slack_bound_push", "warm_start_slack_bound_frac",
             "warm_start_mult_bound_push"), MU_LEAST)
    if options.hessian == "exact":
        settings["hess_lag"] = _with_parameter(nlp.hess, "hess_lag")
    else:
        settings["ipopt"]["hessian_approximation"] = "limited-memory"
    x = ca.MX.sym("x", nlp.n)
    solver = ca.nlpsol("ipopt", "ipopt", {"x": x, "f": nlp.f(x), "g": nlp.g(x)}, settings)
    watch.stats = solver.stats
    with _interrupts(watch.interrupt):
        given = {"x0": nlp.x0} if warm is None else {"x0": warm.x, "lam_x0": warm.lam_x, "lam_g0": warm.lam_g}
        found = solver(**given, lbx=nlp.x_lower, ubx=nlp.x_upper, lbg=nlp.g_lower, ubg=nlp.g_upper)
    watch.stats = None
    if watch.error is not None:
        raise watch.error
    stats = solver.stats()
    if watch.stop and stats["return_status"] == "NonIpopt_Exception_Thrown":
        raise KeyboardInterrupt  # a second Ctrl-C, which has cost the iterate
    point = found["x"].full().ravel()
    status, message = _verdict(nlp, point, stats["return_status"], options.tolerance)
    return NLPResult(
        x=point, lam_x=found["lam_x"].full().ravel(), lam_g=found["lam_g"].full().ravel(), f=float(found["f"]),
        status=status, message=message, iterations=_log(stats),
        seconds={"solver": time.perf_counter() - started,
                 "functions": sum(v for k, v in stats.items() if k.startswith("t_wall_nlp"))},
        n_evaluations=sum(v for k, v in stats.items() if k.startswith("n_call_nlp")), mu=_barrier(_log(stats)),
    )


def _barrier(iterations: Sequence[Mapping[str, float]]) -> float:
    return float(iterations[-1].get("mu", 0.0)) if iterations else 0.0


def _verdict(nlp: NLP, x: np.ndarray, returned: str, tolerance: float) -> tuple[Status, str]:
    """Status of IPOPT's return status, and a message in the user's words."""
    worst = worst_violations(nlp, x)
    listed = "; ".join(f"{name}: {value:.3g}" for name, value in worst)
    if returned == "Restoration_Failed":
        infeasible = bool(worst) and not worst[0][1] <= np.sqrt(tolerance)
        status = Status.INFEASIBLE if infeasible else Status.STALLED
    else:
        status = _STATUS.get(returned, Status.FAILED)
    if status is Status.NOT_A_NUMBER or not np.all(np.isfinite(x)):
        found = not_finite(nlp, x)
        return Status.NOT_A_NUMBER, "; ".join(found) or "the functions are finite at the last iterate, but not at a trial point"
    if status is Status.INFEASIBLE:
        return status, f"Most violated: {listed}."
    if status is Status.CONVERGED:
        return status, ""
    return status, f"IPOPT: {returned.replace('_', ' ')}." + (f" Most violated: {listed}." if listed else "")


def _outside(value: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, np.maximum(lower - value, value - upper))


def _with_parameter(function: ca.Function, kind: str) -> ca.Function:
    """The function in the signature that nlpsol expects, which has a parameter vector (empty here) after x."""
    inputs = [ca.MX.sym(function.name_in(i), function.sparsity_in(i)) for i in range(function.n_in())]
    names = {"grad_f": (["x", "p"], ["f", "grad_f_x"]), "jac_g": (["x", "p"], ["g", "jac_g_x"]),
             "hess_lag": (["x", "p", "lam_f", "lam_g"], ["triu_hess_gamma_x_x"])}[kind]
    outputs = function.call(inputs)
    return ca.Function(f"nlp_{kind}", [inputs[0], ca.MX.sym("p", 0), *inputs[1:]], outputs, *names)


def _log(stats: Mapping[str, Any], first: int = 0) -> tuple[Mapping[str, float], ...]:
    columns = {_LOG[key]: values for key, values in stats.get("iterations", {}).items() if key in _LOG}
    length = min((len(v) for v in columns.values()), default=0)
    return tuple({"iteration": k, **{key: float(v[k]) for key, v in columns.items()}} for k in range(first, length))


class _Watch(ca.Callback):
    """Called by IPOPT between iterations: reports progress and stops the solve after an interrupt.

    State is needed here: a signal arrives at any time, and CasADi swallows exceptions of a callback.
    """

    def __init__(self, progress: Callable[[dict[str, float]], Any] | None, point: tuple[Any, Any, int, int] | None = None):
        ca.Callback.__init__(self)
        self.point = point
        self.progress, self.stats, self.stop, self.reported = progress, None, False, 0
        self.error: BaseException | None = None
        self.construct("watch", {})

    def interrupt(self) -> None:
        self.stop = True

    def get_n_in(self) -> int:
        return int(ca.nlpsol_n_out())

    def get_n_out(self) -> int:
        return 1

    def get_name_in(self, i: int) -> str:
        return str(ca.nlpsol_out(i))

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        if self.point is None:
            return ca.Sparsity(0, 0)  # nobody needs the point
        sizes = {"x": self.point[2], "lam_x": self.point[2], "lam_g": self.point[3]}
        return ca.Sparsity.dense(sizes.get(str(ca.nlpsol_out(i)), 0), 1)

    def has_eval_buffer(self) -> bool:
        return True  # several times cheaper than handing over matrices

    def _array(self, arguments: Any, name: str) -> np.ndarray:
        buffer = arguments[[str(ca.nlpsol_out(i)) for i in range(ca.nlpsol_n_out())].index(name)]
        return np.frombuffer(buffer, dtype=float).copy()

    def eval_buffer(self, arguments: Any, results: Any) -> int:
        if self.progress is not None and self.stats is not None and not self.stop:
            try:
                rows = _log(self.stats(), self.reported)
                self.reported += len(rows)
                for row in rows:
                    self.progress(dict(row))
            except KeyboardInterrupt:
                self.stop = True
            except Exception as error:
                self.error, self.stop = error, True
        if self.point is not None and self.stats is not None and not self.stop:
            due, take, _, _ = self.point
            try:
                if due():
                    rows = _log(self.stats())
                    take(Warm(*(self._array(arguments, name) for name in ("x", "lam_x", "lam_g")), _barrier(rows)), rows)
            except KeyboardInterrupt:
                self.stop = True
            except Exception as error:
                self.error, self.stop = error, True
        if results[0] is not None:
            results[0].cast("d")[0] = float(self.stop)
        return 0


@contextmanager
def _interrupts(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call ``interrupt`` at the first Ctrl-C instead of raising; only the main thread may handle signals.

    Without this CasADi turns a KeyboardInterrupt inside a function evaluation into a failure and loses the iterate.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before is None:
        yield
        return

    def handle(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        interrupt()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
