"""FATROP (Vanroye, Sathya, De Schutter, Decre 2023): an interior-point method with a structured Riccati factorisation.

It wants unknowns and rows stage by stage and the dynamics as ``x_{k+1} - F_k(x_k, u_k) = 0``; the program is permuted and its
constraints are scaled to that, and everything that comes back is returned in the order and with the signs of the program.

CasADi's interface knows neither callbacks nor a guess of multipliers, and FATROP may loop for ever on NaN. Therefore the functions
that it gets ring a bell in every iteration and at every trial point, never return NaN, and once a stop is wanted let every trial
point fail, after which FATROP returns within a few steps of its line search.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from ocp.nlp.check_stages import check_stages
from ocp.nlp.ipopt import MU_LEAST, QUIET, hessian, overdetermined
from ocp.nlp.options import SolverOptions
from ocp.nlp.program import NLP, kkt, not_finite
from ocp.nlp.result import NLPResult, Progress, Run, Warm, WatchPoint, ended
from ocp.nlp.stages import permuted
from ocp.nlp.unfolded import through_copies
from ocp.nlp.watch import Buffered, Watch, interrupts
from ocp.problem import Finding, Kind, Status

#: what functions return for NaN and infinities, and where a stop is wanted
REFUSAL = 1e100
#: trial points without a new iteration after which FATROP is stopped: its line search takes at most dozens
TRIALS = 2000
#: by how much residuals of an answer may exceed the tolerance, which FATROP applies to its own scaling
SLACK = 100.0


#: data of its endings
SOLVER = {"solver": "fatrop"}

#: after a tiny step FATROP 1.1 moves multipliers of bounds but, for a step length of zero, never those of equations: where only
#: multipliers are left to find it goes on for ever. Without its detection of tiny steps both move
NO_TINY_STEPS = {"tiny_step_tol": 0.0}


class _Ring(Buffered):
    """A function of vectors that tells Python what it was called with and returns a number. The vectors come in one piece: each
    argument of a callback costs as much as a hundred numbers."""

    def __init__(self, sizes: tuple[int, ...], answer: Callable[..., float]):
        ends, self.answer = np.cumsum(sizes).tolist(), answer
        self.parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        super().__init__("ring", [(sum(sizes), 1)])

    def ring(self, *vectors: ca.MX) -> ca.MX:
        return self(ca.vertcat(*vectors))

    def eval_buffer(self, arguments: Any, results: Any) -> int:
        given = np.frombuffer(arguments[0], dtype=float).copy()
        value = self.answer(*(given[part] for part in self.parts))
        if results[0] is not None:
            results[0].cast("d")[0] = value
        return 0


class _Order:
    """Between the program's order and FATROP's: new -> old, old -> new, and factors of rows."""

    def __init__(self, nlp: NLP):
        coefficient = check_stages(nlp)
        assert nlp.stages is not None
        self.columns, self.rows = nlp.stages.columns, nlp.stages.rows
        self.columns_back, self.rows_back = np.argsort(self.columns), np.argsort(self.rows)
        self.scale = np.ones(nlp.m)  # of the program's rows, so that the next state has the factor 1
        self.shift = np.zeros(nlp.m)
        for rows in nlp.stages.dynamics:
            self.scale[rows] = 1.0 / coefficient[rows]
            self.shift[rows] = nlp.g_lower[rows]
        self.pattern, self.entries = permuted(nlp.jac.sparsity_out(1), self.rows, self.columns)
        self.factor = self.scale[self.rows[np.array(self.pattern.row(), dtype=int)]]

    def forward(self, g: Any) -> Any:
        """Constraints of the program (numbers or symbols) as FATROP gets them."""
        return ((g - self.shift) * self.scale)[self.rows.tolist()]

    def back(self, lam: Any) -> Any:
        """Multipliers of FATROP's constraints as those of the program's."""
        return lam[self.rows_back.tolist()] * self.scale

    def bounds(self, nlp: NLP) -> dict[str, np.ndarray]:
        return {"lbx": nlp.x_lower[self.columns], "ubx": nlp.x_upper[self.columns],
                "lbg": self.forward(nlp.g_lower), "ubg": self.forward(nlp.g_upper)}


class _Course:
    """Iterates of one solve as FATROP's functions see them, in FATROP's order until they leave here."""

    def __init__(self, nlp: NLP, order: _Order, pattern: ca.Sparsity):
        self.nlp, self.order = nlp, order
        self.bounds = order.bounds(nlp)
        self.given = {name: ca.DM(value.tolist()) for name, value in self.bounds.items()}
        self.i, self.j = (np.array(index, dtype=int) for index in pattern.get_triplet())
        # the gradient of the Lagrangian that no bound can take: either sign, none, or one
        x_lower, x_upper = self.bounds["lbx"], self.bounds["ubx"]
        self.up, self.down = (np.where((x_lower < x_upper) & ~np.isfinite(b), 1.0, 0.0) for b in (x_lower, x_upper))
        n, m = nlp.n, nlp.m
        # CasADi's functions do not keep them alive
        self.rings = {"iteration": _Ring((n, m), self.iteration), "trial": _Ring((1,), self.trial),
                      "gradient": _Ring((n, 1, n), self.gradient), "jacobian": _Ring((n, m, len(self.i)), self.jacobian)}
        self.begin(Watch())

    def begin(self, watch: Watch) -> None:
        self.watch, self.trials, self.lost = watch, 0, False
        self.log: list[dict[str, float]] = []
        self.x = self.lam = self.of_gradient = self.of_jacobian = np.empty(0)

    def gradient(self, x: np.ndarray, f: np.ndarray, gradient: np.ndarray) -> float:
        self.of_gradient, self.f, self.grad = x, float(f[0]), gradient
        return 0.0

    def jacobian(self, x: np.ndarray, g: np.ndarray, nonzeros: np.ndarray) -> float:
        self.of_jacobian, self.g, self.J = x, g, nonzeros
        return 0.0

    def iteration(self, x: np.ndarray, lam: np.ndarray) -> float:
        if not self.watch.stop:
            self.trials = 0
            self.note(x, lam)
            self.watch.heard(lambda first: tuple(self.log[first:]), lambda rows: self.point())
        return 0.0

    def note(self, x: np.ndarray, lam: np.ndarray) -> None:
        """A row of the log for an iterate; FATROP has evaluated gradient and Jacobian there, or they are evaluated now."""
        order, before, self.x, self.lam = self.order, self.x, x, lam
        if not np.array_equal(x, self.of_gradient):
            f, gradient = self.nlp.grad(x[order.columns_back].tolist())
            self.gradient(x, np.array([float(f)]), gradient.full().ravel()[order.columns])
        if not np.array_equal(x, self.of_jacobian):
            g, J = self.nlp.jac(x[order.columns_back].tolist())
            self.jacobian(x, order.forward(g.full().ravel()), np.array(J.nonzeros())[order.entries] * order.factor)
        slope = self.lagrangian_gradient()
        outside = np.maximum(self.bounds["lbg"] - self.g, self.g - self.bounds["ubg"])
        self.log.append({"iteration": len(self.log), "objective": self.f, "inf_pr": float(np.max(outside, initial=0.0)),
                         "inf_du": float(max(np.max(slope * self.up, initial=0.0), np.max(-slope * self.down, initial=0.0))),
                         "d_norm": float(np.max(np.abs(x - before))) if len(before) else 0.0})

    def lagrangian_gradient(self) -> np.ndarray:
        return self.grad + np.bincount(self.j, self.J * self.lam[self.i], len(self.x))

    def point(self) -> Warm:
        """The last iterate: bounds take what they can of the gradient of the Lagrangian."""
        x, lam_g = self.x[self.order.columns_back], self.order.back(self.lam)
        slope = self.lagrangian_gradient()[self.order.columns_back]
        lowest, highest = np.isfinite(self.nlp.x_lower), np.isfinite(self.nlp.x_upper)
        lam_x = np.clip(-slope, np.where(lowest, -np.inf, 0.0), np.where(highest, np.inf, 0.0))
        return Warm(x, lam_x, lam_g, _barrier(self.nlp, x, lam_x, lam_g))

    def trial(self, value: np.ndarray) -> float:
        self.trials += 1
        if self.trials > TRIALS:
            self.lost = self.watch.stop = True
        return REFUSAL if self.watch.stop else 0.0


def prepare(nlp: NLP, options: SolverOptions) -> Run:
    """A function that solves the program with FATROP, from one start after another.

    A warm start gives its x and barrier parameter; FATROP estimates multipliers on its own. An answer counts as converged only
    where residuals evaluated here hold. Interrupts: as with IPOPT; the iterate that comes back is the last one.

    Raises ProblemError where the program states no stages, or stages that are not those of its functions.
    """
    if nlp.stages is None and nlp.timeline is not None:
        return through_copies(nlp, nlp.timeline, lambda made: prepare(made, options))
    order = _Order(nlp)
    course = _Course(nlp, order, order.pattern)
    solvers: dict[float | None, ca.Function] = {}

    def run(x0: np.ndarray, warm: Warm | None, progress: Progress | None, watch_point: WatchPoint | None) -> NLPResult:
        started = time.perf_counter()
        start = x0 if warm is None else np.array(warm.x)
        if _lost_start(nlp, start):
            return NLPResult(start, np.zeros(nlp.n), np.zeros(nlp.m), float(nlp.f(start)), Status.NOT_A_NUMBER,
                             Finding(Kind.NOT_FINITE, data={**SOLVER, "found": not_finite(nlp, start)}), (),
                             {"solver": time.perf_counter() - started, "functions": 0.0}, 0)
        mu = None if warm is None else max(warm.mu, MU_LEAST)
        if mu not in solvers:
            for other in [key for key in solvers if key is not None]:
                del solvers[other]
            solvers[mu] = _solver(nlp, options, order, course, mu)
        solver, watch = solvers[mu], Watch(progress, watch_point)
        course.begin(watch)
        with interrupts(watch.interrupt):
            answer = solver(x0=start[order.columns].tolist(), **course.given)
        if watch.error is not None:
            raise watch.error
        stats = solver.stats()
        x, lam_x, lam_g = (answer[key].full().ravel() for key in ("x", "lam_x", "lam_g"))
        if watch.stop and len(course.x):
            last = course.point()
        else:
            if not np.array_equal(x, course.x) and np.all(np.isfinite(x)):
                course.note(x, lam_g)  # the last iterate needs no Hessian
                watch.heard(lambda first: tuple(course.log[first:]), lambda rows: course.point())
            last = Warm(x[order.columns_back], lam_x[order.columns_back], order.back(lam_g), 0.0)
        x, lam_x, lam_g = last.x, last.lam_x, last.lam_g
        status, ending = _verdict(nlp, options, course, last, bool(stats["success"]))
        return NLPResult(
            x=x, lam_x=lam_x, lam_g=lam_g, f=float(nlp.f(x.tolist())), status=status, ending=ending, iterations=tuple(course.log),
            seconds={"solver": time.perf_counter() - started,
                     "functions": sum(v for k, v in stats.items() if k.startswith("t_wall_nlp"))},
            n_evaluations=sum(v for k, v in stats.items() if k.startswith("n_call_nlp")), mu=_barrier(nlp, x, lam_x, lam_g),
            findings=overdetermined(nlp),
        )

    solvers[None] = _solver(nlp, options, order, course, None)
    return run


def _solver(nlp: NLP, options: SolverOptions, order: _Order, course: _Course, mu: float | None) -> ca.Function:
    """CasADi's solver object. It takes ready derivatives from its function cache, by name; none is formed by CasADi."""
    assert nlp.stages is not None
    nx, nu, ng = nlp.stages.sizes
    functions = _functions(nlp, options, order, course)
    own: dict[str, Any] = {
        "print_level": 0, "max_iter": max(0, options.max_iterations - 1),
        "tol": options.tolerance, "tol_acceptable": options.tolerance, "constr_viol_tol": options.tolerance, **NO_TINY_STEPS}
    if mu is not None:
        own |= {"mu_init": mu, "bound_push": MU_LEAST, "bound_frac": MU_LEAST}
    x = ca.MX.sym("x", nlp.n)
    program = {"x": x, "f": functions["nlp_f"](x, ca.MX(0, 1)), "g": functions["nlp_g"](x, ca.MX(0, 1))}
    return ca.nlpsol("fatrop", "fatrop", program, {
        "structure_detection": "manual", "N": nlp.stages.intervals, "nx": nx, "nu": nu, "ng": ng, "cache": functions,
        **QUIET, "calc_lam_p": False, "fatrop": own})


def _functions(nlp: NLP, options: SolverOptions, order: _Order, course: _Course) -> dict[str, ca.Function]:
    """The program in FATROP's order, with bells, under the names by which CasADi's interface looks them up."""
    y, p, sigma, lam = ca.MX.sym("x", nlp.n), ca.MX.sym("p", 0), ca.MX.sym("lam_f"), ca.MX.sym("lam_g", nlp.m)
    x, rings = y[order.columns_back.tolist()], course.rings
    (f, gradient), (g, jacobian) = nlp.grad(x), nlp.jac(x)
    gradient, g, J = gradient[order.columns.tolist()], order.forward(g), _entries(jacobian, order.entries) * order.factor
    slope = _guarded(gradient) + rings["gradient"].ring(y, f, gradient)
    J = ca.MX(order.pattern, _guarded(J) + rings["jacobian"].ring(y, g, J))
    second = hessian(nlp, options)
    full, entries = permuted(second.sparsity_out(0), order.columns, order.columns, symmetric=True)
    H = ca.MX(full, _guarded(_entries(second(x, sigma + rings["iteration"].ring(y, lam), order.back(lam)), entries)))
    unused = ca.MX.zeros(nlp.n)  # the interface asks for gradients of the Lagrangian and never reads them
    made = {
        "nlp_f": ([y, p], [_guarded(nlp.f(x))], ["x", "p"], ["f"]),
        "nlp_g": ([y, p], [_guarded(order.forward(nlp.g(x))) + rings["trial"].ring(y[0])], ["x", "p"], ["g"]),
        "nlp_grad_f": ([y, p], [slope], ["x", "p"], ["grad_f_x"]),
        "nlp_jac_g": ([y, p], [_guarded(g), J], ["x", "p"], ["g", "jac_g_x"]),
        "nlp_hess_l": ([y, p, sigma, lam], [unused, H], ["x", "p", "lam_f", "lam_g"], ["grad_gamma_x", "hess_gamma_x_x"]),
        "nlp_grad": ([y, p, sigma, lam], [f, g, unused, ca.MX(0, 1)], ["x", "p", "lam_f", "lam_g"],
                     ["f", "g", "grad_gamma_x", "grad_gamma_p"]),
    }
    return {name: ca.Function(name, *parts) for name, parts in made.items()}


def _entries(matrix: ca.MX, pick: np.ndarray) -> ca.MX:
    """Some nonzeros of a matrix as a column, also where the matrix is a row."""
    return ca.vec(matrix.nz[pick.tolist()])


def _guarded(value: ca.MX) -> ca.MX:
    """The vector with REFUSAL for NaN: C's fmin and fmax return the other argument."""
    return ca.fmax(-REFUSAL, ca.fmin(REFUSAL, value))


def _barrier(nlp: NLP, x: np.ndarray, lam_x: np.ndarray, lam_g: np.ndarray) -> float:
    """Mean product of multiplier and distance over the inequalities: the barrier parameter of a point on the central path."""
    g, products = nlp.g(x.tolist()).full().ravel(), []
    for value, lower, upper, lam in ((x, nlp.x_lower, nlp.x_upper, lam_x), (g, nlp.g_lower, nlp.g_upper, lam_g)):
        distance = np.where(lam > 0, upper - value, value - lower)
        counts = (lower < upper) & np.isfinite(distance)
        products.append(np.abs(lam[counts] * distance[counts]))
    every = np.concatenate(products)
    return float(np.mean(every)) if len(every) else 0.0


def _lost_start(nlp: NLP, x: np.ndarray) -> bool:
    """Whether a function is not finite at the start."""
    at = x.tolist()
    values = [*nlp.grad(at), *nlp.jac(at)]
    return not all(np.all(np.isfinite(v.nonzeros())) for v in values)


def _verdict(nlp: NLP, options: SolverOptions, course: _Course, point: Warm, success: bool
             ) -> tuple[Status, Finding | None]:
    if course.watch.stop and not course.lost:
        return ended(nlp, point.x, Status.INTERRUPTED, Finding(Kind.SOLVER_STATUS, data=SOLVER))
    found = kkt(nlp, point.x, point.lam_x, point.lam_g) if np.all(np.isfinite(point.x)) else None
    if found is not None:
        worst = {"stationarity": found.stationarity, "complementarity": found.complementarity, "violation": found.largest_violation}
        name = max(worst, key=worst.__getitem__)
        if success and worst[name] <= SLACK * options.tolerance:
            return Status.CONVERGED, None
        if success:
            return ended(nlp, point.x, Status.STALLED, Finding(Kind.SUCCESS_REFUTED, name=name, value=worst[name], data=SOLVER))
        if found.largest_violation > np.sqrt(options.tolerance) and not course.lost and len(course.log) <= options.max_iterations:
            return ended(nlp, point.x, Status.INFEASIBLE, Finding(Kind.SOLVER_STATUS, data=SOLVER))
    limit = len(course.log) > options.max_iterations
    status, kind = (Status.ITERATION_LIMIT, Kind.ITERATION_LIMIT) if limit else (Status.STALLED, Kind.NO_STEP)
    return ended(nlp, point.x, status, Finding(kind, data=SOLVER))
