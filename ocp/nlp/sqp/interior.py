"""Mehrotra's predictor-corrector method for sparse quadratic programs (Nocedal and Wright 2006, Algorithm 16.4).

    minimise 1/2 d' (H + delta I) d + c' d   subject to   row_lower <= A d <= row_upper,   lower <= d <= upper

Columns and rows that have bounds get a slack each; multipliers of bounds are ``zl, zu >= 0``. Where H is indefinite, delta is
raised until every system has the inertia of a convex program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocp.nlp.sqp.kkt_system import Solve, System, regularised

LIMIT = 60
ROUGH = 1e-6
FARTHER = 1e3  # errors that grow so much after an answer was found are rounding
TO_BOUNDARY = 0.995
SHORT, STUCK = 1e-2, 8  # so many shorter steps in a row: the rows contradict each other


@dataclass(frozen=True, eq=False)
class Quadratic:
    system: System
    c: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def row_values(self, d: np.ndarray) -> np.ndarray:
        """A d [m]."""
        return self.system.times(np.concatenate([d, np.zeros(len(self.row_lower))]))[len(d):]

    @property
    def low(self) -> np.ndarray:
        return np.concatenate([self.lower, self.row_lower])

    @property
    def high(self) -> np.ndarray:
        return np.concatenate([self.upper, self.row_upper])


@dataclass(frozen=True, eq=False)
class Answer:
    """d [n], multipliers of columns [n] and rows [m], active [n + m]: -1 lower, 1 upper, 0 neither, 2 equation; delta; how many
    systems were factorised; exact: whether it is the solution of one active set."""

    d: np.ndarray
    lam_x: np.ndarray
    lam_g: np.ndarray
    active: np.ndarray
    delta: float
    systems: int
    exact: bool


def inequalities(qp: Quadratic) -> np.ndarray:
    """[n + m] columns and rows that have bounds and are no equations."""
    return (qp.low < qp.high) & (np.isfinite(qp.low) | np.isfinite(qp.high))


def interior(qp: Quadratic, equations: np.ndarray, last_delta: float, least_delta: float, accuracy: float) -> Answer | None:
    """The best answer on the way to residuals of ``accuracy``, relative to costs and multipliers; None where not even ROUGH was
    reached."""
    run = _Interior(qp, equations, least_delta)
    with np.errstate(all="ignore"):  # where the rows contradict each other, slacks end at 0 and multipliers grow without bound
        best, least = None, ROUGH
        for k in range(LIMIT):
            error = run.measure()
            if error <= least:
                best, least = run.answer(k), error
            lost = not np.isfinite(error) or run.stuck >= STUCK or (best is not None and error > FARTHER * least)
            if error <= accuracy or lost or not run.step(last_delta):
                break
    return best


class _Interior:
    """The iterate: d, slacks s [n + m], multipliers y [m] of rows, zl and zu [n + m] of lower and upper bounds."""

    def __init__(self, qp: Quadratic, equations: np.ndarray, delta: float):
        self.qp, self.equations, self.delta, self.stuck = qp, equations, delta, 0
        self.n = n = len(qp.c)
        self.bounded = inequalities(qp)
        self.has_low, self.has_high = self.bounded & np.isfinite(qp.low), self.bounded & np.isfinite(qp.high)
        self.low, self.high = np.where(self.has_low, qp.low, 0.0), np.where(self.has_high, qp.high, 0.0)
        self.fixed, self.rows = equations[:n], self.bounded[n:]
        self.on = np.concatenate([~self.fixed, self.rows | equations[n:]])
        self.size = max(1.0, float(np.max(np.abs(qp.c), initial=0.0)))
        self.d = np.where(self.fixed, qp.lower, 0.0)
        value = np.concatenate([self.d, qp.row_values(self.d)])
        push = np.minimum(1.0, 0.25 * np.where(self.has_low & self.has_high, self.high - self.low, np.inf))
        s = np.where(self.has_low, np.maximum(value, self.low + push), value)
        self.s = np.where(self.has_high, np.minimum(s, self.high - push), s)
        start = min(self.size, 100.0)
        self.zl, self.zu = np.where(self.has_low, start, 0.0), np.where(self.has_high, start, 0.0)
        self.y = np.where(self.rows, (self.zu - self.zl)[n:], 0.0)  # steps keep both the same
        self.count = max(1, int(self.has_low.sum() + self.has_high.sum()))

    def measure(self) -> float:
        """Residuals at the iterate, and the largest of them, relative."""
        qp, n = self.qp, self.n
        self.sl, self.su = np.where(self.has_low, self.s - self.low, 1.0), np.where(self.has_high, self.high - self.s, 1.0)
        value = np.concatenate([self.d, qp.row_values(self.d)])
        self.slope = qp.system.times(np.concatenate([self.d, self.y]))[:n] + self.delta * self.d + qp.c
        z = self.zu - self.zl
        self.dual = self.slope + z[:n]
        target = np.where(self.bounded, self.s, np.where(self.equations, qp.low, value))
        self.gap = value - target
        self.mu = float((self.zl * self.sl).sum() + (self.zu * self.su).sum()) / self.count
        largest = float(np.max(np.abs(z), initial=0.0))
        mean = float((self.zl + self.zu).sum()) / self.count
        return max(float(np.max(np.abs(self.dual[~self.fixed]), initial=0.0)) / (self.size + largest),
                   float(np.max(np.abs(self.gap), initial=0.0)), 100 * self.mu / max(100.0, mean))

    def step(self, last_delta: float) -> bool:
        n = self.n
        self.w = self.zl / self.sl + self.zu / self.su
        if not np.all(np.isfinite(self.w)):
            return False
        self.minus = np.where(self.rows, 1.0 / np.maximum(self.w[n:], 1e-20), 0.0)
        try:
            solve, self.delta = regularised(self.qp.system, np.where(self.fixed, 0.0, self.w[:n]), self.minus, self.on, self.delta,
                                            last_delta)
        except ArithmeticError:
            return False
        _, _, ds, dzl, dzu = self._direction(solve, -self.zl * self.sl, -self.zu * self.su)
        ap, ad = self._longest(ds, dzl, dzu)
        lower = self.has_low * (self.zl + ad * dzl) * (self.sl + ap * ds)
        upper = self.has_high * (self.zu + ad * dzu) * (self.su - ap * ds)
        goal = self.mu * (float((lower + upper).sum()) / self.count / self.mu) ** 3 if self.mu > 0 else 0.0
        dd, dy, ds, dzl, dzu = self._direction(solve, goal - self.zl * self.sl - dzl * ds, goal - self.zu * self.su + dzu * ds)
        a = min(1.0, TO_BOUNDARY * min(self._longest(ds, dzl, dzu)))
        self.stuck = self.stuck + 1 if a < SHORT else 0
        self.d, self.s, self.y = self.d + a * dd, self.s + a * ds, self.y + a * dy
        self.zl, self.zu = self.zl + a * dzl, self.zu + a * dzu
        self.y = np.where(self.rows, (self.zu - self.zl)[n:], self.y)
        return True

    def _direction(self, solve: Solve, rl: np.ndarray, ru: np.ndarray) -> tuple[np.ndarray, ...]:
        """The Newton step; rl, ru: what ``zl sl`` and ``zu su`` are to change by."""
        n, has = self.n, self.bounded
        r = ru / self.su - rl / self.sl  # = dz - w ds
        columns = -self.dual - np.where(has[:n], self.w[:n] * self.gap[:n] + r[:n], 0.0)
        rows = np.where(self.rows, -self.gap[n:] - self.minus * r[n:], np.where(self.equations[n:], -self.gap[n:], 0.0))
        found = solve(np.concatenate([np.where(self.fixed, 0.0, columns), rows]))
        dd, dy = found[:n], np.where(self.on[n:], found[n:], 0.0)
        ds = np.where(has, np.concatenate([dd, self.qp.row_values(dd)]) + self.gap, 0.0)
        dzl = np.where(self.has_low, (rl - self.zl * ds) / self.sl, 0.0)
        return dd, dy, ds, dzl, np.where(self.has_high, (ru + self.zu * ds) / self.su, 0.0)

    def _longest(self, ds: np.ndarray, dzl: np.ndarray, dzu: np.ndarray) -> tuple[float, float]:
        """Steps to the boundary of slacks and of multipliers."""
        low, high = self.has_low, self.has_high
        return (min(_reach(self.sl[low], ds[low]), _reach(self.su[high], -ds[high])),
                min(_reach(self.zl[low], dzl[low]), _reach(self.zu[high], dzu[high])))

    def answer(self, systems: int) -> Answer:
        n = self.n
        near_high, near_low = self.has_high & (self.zu > self.su), self.has_low & (self.zl > self.sl)
        active = np.where(self.equations, 2, np.where(near_high, 1, np.where(near_low, -1, 0)))
        lam_x = np.where(self.fixed, -self.slope, (self.zu - self.zl)[:n])
        return Answer(self.d, lam_x, self.y, active, self.delta, systems, False)


def _reach(value: np.ndarray, change: np.ndarray) -> float:
    down = change < 0
    return float(np.min(-value[down] / change[down], initial=1.0 / TO_BOUNDARY))
