"""Sequential quadratic programming with exact or Gauss-Newton Hessians, a filter line search and an elastic mode.

Every iteration solves the quadratic program of ``ocp.nlp.sqp.quadratic`` at the iterate, warm from the active set before; steps are
accepted by a filter of violation and objective with second-order corrections (Fletcher and Leyffer 2002; Waechter and Biegler 2006,
Sec. 2.3 and 2.4). Where no step is accepted, or the linearised constraints contradict each other, elastic programs reduce the
violation alone until the filter takes a point. Near a regular solution the method is Newton's on the active set.
"""

from __future__ import annotations

import time

import numpy as np

from ocp.nlp.options import SolverOptions
from ocp.nlp.program import NLP
from ocp.nlp.result import NLPResult, Progress, Run, Warm, WatchPoint, told
from ocp.nlp.sqp.arrays import Arrays
from ocp.nlp.sqp.filter import GAMMA, Filter
from ocp.nlp.sqp.interior import Answer, Quadratic
from ocp.nlp.sqp.kkt_system import system
from ocp.nlp.sqp.quadratic import solve_quadratic
from ocp.nlp.watch import Watch, interrupts
from ocp.problem import Status

#: of the filter; Waechter and Biegler 2006, Sec. 3.1 and 2.3
DELTA, S_THETA, S_PHI, ETA = 1.0, 1.1, 2.3, 1e-4
CORRECTIONS, RESTORATIONS, SHORTEST = 4, 100, 1e-8
#: of a violation in the elastic program, relative to the largest multiplier
PRICE = 10.0
#: steps so small, relative to the iterate, change nothing any more
STILL = 1e-13
#: relative noise of objective and rows
ROUNDING = 10 * np.finfo(float).eps


def prepare(nlp: NLP, options: SolverOptions) -> Run:
    """A function that solves the program by SQP, from one start after another. The iterate stays inside the bounds.

    A warm start gives x, multipliers and, by their signs, the active set; its barrier parameter means nothing here. An interrupt
    ends a solve with the last iterate, as with IPOPT.
    """
    model = Arrays(nlp, options)

    def run(x0: np.ndarray, warm: Warm | None, progress: Progress | None, watch_point: WatchPoint | None) -> NLPResult:
        started = time.perf_counter()
        model.calls, model.seconds = 0, 0.0
        watch = Watch(progress, watch_point)
        x = np.clip(x0 if warm is None else warm.x, nlp.x_lower, nlp.x_upper)
        lam = (np.zeros(nlp.n), np.zeros(nlp.m)) if warm is None else (np.array(warm.lam_x), np.array(warm.lam_g))
        with interrupts(watch.interrupt), np.errstate(all="ignore"):  # trial points may leave the domain of the functions
            course = _Course(model, options, watch, x, lam[0], lam[1], warm is not None)
            status, why = course.run()
        if watch.error is not None:
            raise watch.error
        status, message = told(nlp, course.x, status, "SQP", why)
        return NLPResult(
            x=course.x, lam_x=course.lam_x, lam_g=course.lam_g, f=float(nlp.f(course.x)), status=status, message=message,
            iterations=tuple(course.log), n_evaluations=model.calls,
            seconds={"solver": time.perf_counter() - started, "functions": model.seconds})

    return run


class _Course:
    """One solve: the iterate and what was learnt on the way."""

    def __init__(self, model: Arrays, options: SolverOptions, watch: Watch, x: np.ndarray, lam_x: np.ndarray, lam_g: np.ndarray,
                 warm: bool):
        self.model, self.options, self.watch = model, options, watch
        self.x, self.lam_x, self.lam_g = x, lam_x, lam_g
        self.f, self.g = model.values(x)
        self.log: list[dict[str, float]] = []
        self.delta = 0.0
        self.filter = Filter(model.theta(self.g))
        self.active = _signs(model.nlp, lam_x, lam_g) if warm else None

    def run(self) -> tuple[Status, str]:
        model, nlp, tolerance = self.model, self.model.nlp, self.options.tolerance
        step, alpha, systems, still = 0.0, 0.0, 0, 0
        for k in range(self.options.max_iterations + 1):
            gradient, J = model.first(self.x)
            if not all(np.all(np.isfinite(v)) for v in (self.f, self.g, gradient, J)):
                return Status.NOT_A_NUMBER, ""
            if k == 0 and self.active is None:
                self.lam_g = model.estimate(gradient, J)
            slope = gradient + model.transposed(J, self.lam_g)
            errors = model.errors(self.x, self.g, slope, self.lam_x, self.lam_g)
            self.log.append({"iteration": k, "objective": self.f, "inf_pr": errors[2], "inf_du": errors[0],
                             "complementarity": errors[1], "d_norm": step, "alpha_pr": alpha, "regularization": self.delta,
                             "systems": systems})
            if self.watch.heard(lambda first: tuple(self.log[first:]), lambda rows: Warm(self.x, self.lam_x, self.lam_g, 0.0)):
                return Status.INTERRUPTED, "interrupted"
            if max(errors) <= tolerance:
                return Status.CONVERGED, ""
            if k == self.options.max_iterations:
                break
            h = model.hess(self.x, self.lam_g)
            qp = Quadratic(system(model.shape, h, J), gradient, nlp.g_lower - self.g, nlp.g_upper - self.g,
                           nlp.x_lower - self.x, nlp.x_upper - self.x)
            answer = solve_quadratic(qp, self.active, self.delta, model.quick)
            elastic = answer is None
            if elastic:
                price = PRICE * (1.0 + float(np.max(np.abs(self.lam_g), initial=0.0)))
                for least in (0.0, 1.0, 1e3, 1e6):
                    answer = model.elastic.solve(h, J, qp, price, self.delta, least)
                    if answer is not None:
                        break
            before = self.x
            if answer is not None:
                systems = answer.systems
                self.delta, self.active = answer.delta if answer.delta > 0 else self.delta, answer.active
                alpha = self._search(qp, answer, gradient, correct=not elastic)
                if elastic:
                    self.active = None
            if answer is None or alpha == 0.0:
                if self.watch.stop:
                    return Status.INTERRUPTED, "interrupted"
                if answer is not None and model.theta(self.g) <= tolerance:
                    small = float(np.max(np.abs(answer.d), initial=0.0)) <= 1e-12 * (1 + float(np.max(np.abs(self.x), initial=0.0)))
                    return Status.STALLED, "steps are as small as rounding" if small else "no step makes progress"
                if not self._restore():
                    infeasible = errors[2] > np.sqrt(tolerance)
                    return (Status.INFEASIBLE, "") if infeasible else (Status.STALLED, "no step makes progress")
                alpha = 1.0
            step = float(np.max(np.abs(self.x - before), initial=0.0))
            still = still + 1 if step <= STILL * (1 + float(np.max(np.abs(self.x), initial=0.0))) else 0
            if still >= 3:
                return Status.STALLED, "steps are as small as rounding"
            if np.max(np.abs(self.x), initial=0.0) > 1e20:
                return Status.DIVERGED, "the iterates grow without bound"
        return Status.ITERATION_LIMIT, "Maximum Iterations Exceeded"

    def _search(self, qp: Quadratic, answer: Answer, gradient: np.ndarray, correct: bool) -> float:
        """Accepts a point along the step, and returns the length of the step taken; 0 where none is accepted."""
        model, d = self.model, answer.d
        theta, slope, alpha = model.theta(self.g), float(gradient @ d), 1.0
        while alpha > SHORTEST and not self.watch.stop:
            f, g = model.values(self.x + alpha * d)
            if self._accept(theta, slope, alpha, f, g):
                self._move(alpha * d, alpha, answer, f, g)
                return alpha
            farther = correct and alpha == 1.0 and np.all(np.isfinite(g)) and model.theta(g) >= theta
            if farther and self._correct(qp, answer, g, theta, slope):
                return 1.0
            alpha *= 0.5
        return 0.0

    def _correct(self, qp: Quadratic, answer: Answer, g: np.ndarray, theta: float, slope: float) -> bool:
        """Second-order corrections: the active rows once more, linearised about the point that the full step has reached."""
        nlp, d, last = self.model.nlp, answer.d, theta
        for _ in range(CORRECTIONS):
            ahead = g - qp.row_values(d)
            again = Quadratic(qp.system, qp.c, nlp.g_lower - ahead, nlp.g_upper - ahead, qp.lower, qp.upper)
            corrected = solve_quadratic(again, answer.active, answer.delta, None, answer.delta, tries=1)
            if corrected is None:
                return False
            d = corrected.d
            f, g = self.model.values(self.x + d)
            if self._accept(theta, slope, 1.0, f, g):
                self._move(d, 1.0, answer, f, g)
                return True
            now = self.model.theta(g)
            if not now < 0.99 * last:
                return False
            last = now
        return False

    def _accept(self, theta: float, slope: float, alpha: float, f: float, g: np.ndarray) -> bool:
        """Whether the filter and the iterate allow the trial point; enlarges the filter where violation decided."""
        if not (np.isfinite(f) and np.all(np.isfinite(g))):
            return False
        ahead, loose = self.model.theta(g), ROUNDING * abs(self.f)
        noise = ROUNDING * (1 + float(np.max(np.abs(self.g), initial=0.0))) * max(1, len(g))
        if not self.filter.takes(max(0.0, ahead - noise), f - loose):
            return False
        descent = slope < 0 and alpha * (-slope) ** S_PHI > DELTA * theta ** S_THETA
        if descent and theta <= self.filter.least:
            return bool(f <= self.f + ETA * alpha * slope + loose)
        if ahead <= (1 - GAMMA) * theta + noise or f - loose <= self.f - GAMMA * theta:
            if theta > noise:
                self.filter.add(theta, self.f)
            return True
        return False

    def _move(self, step: np.ndarray, alpha: float, answer: Answer, f: float, g: np.ndarray) -> None:
        nlp = self.model.nlp
        self.x = np.clip(self.x + step, nlp.x_lower, nlp.x_upper)
        self.f, self.g = f, g
        self.lam_x = self.lam_x + alpha * (answer.lam_x - self.lam_x)
        self.lam_g = self.lam_g + alpha * (answer.lam_g - self.lam_g)

    def _restore(self) -> bool:
        """Elastic steps until the filter takes the point; whether it did."""
        model, nlp = self.model, self.model.nlp
        first = model.theta(self.g)
        self.filter.add(first, self.f)
        x, g, weight = self.x, self.g, 1.0
        for _ in range(RESTORATIONS):
            theta = model.theta(g)
            gradient, J = model.first(x)
            if self.watch.stop or not np.all(np.isfinite(J)):
                return False
            qp = Quadratic(model.empty, np.zeros(nlp.n), nlp.g_lower - g, nlp.g_upper - g, nlp.x_lower - x, nlp.x_upper - x)
            answer = model.nearest.solve(np.full(nlp.n, weight), J, qp, 1.0)
            if answer is None:
                return False
            d = answer.d
            left = model.theta(g + model.times(J, d))
            if x is not self.x and theta <= 0.9 * first:
                f = model.values(x)[0]
                if np.isfinite(f) and self.filter.takes(theta, f):
                    self.x, self.f, self.g, self.active = x, f, g, None
                    self.lam_x, self.lam_g = np.zeros(nlp.n), model.estimate(gradient, J)
                    return True
            if theta - left <= 1e-8 * theta:
                return False
            f, ahead = model.values(np.clip(x + d, nlp.x_lower, nlp.x_upper))
            gain = theta - model.theta(ahead) if np.all(np.isfinite(ahead)) else -np.inf
            if gain < 0.1 * (theta - left):
                weight *= 10.0
                if weight > 1e12:
                    return False
                continue
            weight = max(1e-6, weight / 5 if gain > 0.5 * (theta - left) else weight)
            x, g = np.clip(x + d, nlp.x_lower, nlp.x_upper), ahead
        return False


def _signs(nlp: NLP, lam_x: np.ndarray, lam_g: np.ndarray) -> np.ndarray:
    """The active set that multipliers show."""
    lam = np.concatenate([lam_x, lam_g])
    least = 1e-6 * max(1.0, float(np.max(np.abs(lam), initial=0.0)))
    return np.where(lam > least, 1, np.where(lam < -least, -1, 0))
