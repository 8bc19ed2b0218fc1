"""Sparse quadratic programs with a Hessian that may be indefinite: active sets first, an interior point where they do not settle.

    minimise 1/2 d' (H + delta I) d + c' d   subject to   row_lower <= A d <= row_upper,   lower <= d <= upper

delta is the smallest tried regularisation that makes H positive definite where it matters. With the active set of a neighbouring
program one factorisation gives the exact answer (semismooth Newton, Hintermueller, Ito, Kunisch 2002); else Mehrotra's
predictor-corrector method (Nocedal and Wright 2006, Algorithm 16.4) finds the set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from ocp.nlp.kkt_system import System, regularised

EXCHANGES = 12
INTERIOR = 60
ROUGH, ACCURATE = 1e-6, 1e-11  # of the interior point: before the active set is tried, and where that fails
SHORT, STUCK = 1e-2, 8  # so many shorter steps in a row: the rows contradict each other
FEASIBLE, NEARLY = 1e-9, 1e-8  # relative errors of an active set, and of the best one where they go round in circles


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


class Quick:
    """PIQP (Schwan, Jiang, Kuhn, Jones 2023) through CasADi: fast on convex programs; its active set is a guess and no more."""

    def __init__(self, upper: ca.Sparsity, jacobian: ca.Sparsity):
        self.solver = None
        if ca.has_conic("piqp"):
            hessian = (upper + upper.T) + ca.Sparsity.diag(upper.size1())
            self.solver = ca.conic("quick", "piqp", {"h": hessian, "a": jacobian}, {"error_on_fail": False, "print_time": False})
            self.i, self.j = (np.array(k, dtype=int) for k in hessian.get_triplet())
            self.hessian, self.jacobian = hessian, jacobian

    def active(self, qp: Quadratic, delta: float) -> np.ndarray | None:
        """An active set [n + m], or None where PIQP found none."""
        if self.solver is None:
            return None
        n = len(qp.c)
        whole = qp.system.pattern.matrix(qp.system.base)
        H = whole[:n, :n]
        values = np.asarray(H[self.i, self.j]).ravel() + delta * (self.i == self.j)
        ar, ac = (np.array(k, dtype=int) for k in self.jacobian.get_triplet())
        A = np.asarray(whole[n + ar, ac]).ravel() if len(ar) else np.empty(0)
        found = self.solver(h=ca.DM(self.hessian, values), a=ca.DM(self.jacobian, A), g=qp.c, lba=qp.row_lower, uba=qp.row_upper,
                            lbx=qp.lower, ubx=qp.upper)
        if not self.solver.stats()["success"]:
            return None
        d, lam = found["x"].full().ravel(), np.concatenate([found["lam_x"].full().ravel(), found["lam_a"].full().ravel()])
        value = np.concatenate([d, qp.row_values(d)])
        return np.where((lam > 0) & (lam > qp.high - value), 1, np.where((lam < 0) & (-lam > value - qp.low), -1, 0))


def solve_quadratic(qp: Quadratic, guess: np.ndarray | None, last_delta: float, quick: Quick | None = None,
                    least_delta: float = 0.0, tries: int = 3) -> Answer | None:
    """The local solution, or None where no feasible point was found. guess [n + m]: an active set; last_delta: the regularisation
    of a neighbouring program; tries: 1 the guess alone, 2 also a quick one, 3 also the interior point."""
    equations = qp.low == qp.high
    tried = 0
    if guess is not None or not _inequalities(qp).any():
        found, tried = _by_active_set(qp, np.where(equations, 2, guess if guess is not None else 0), last_delta, least_delta)
        if found is not None:
            return found
    if tries >= 2 and quick is not None and (guess := quick.active(qp, max(least_delta, last_delta))) is not None:
        found, more = _by_active_set(qp, np.where(equations, 2, guess), last_delta, least_delta)
        tried += more
        if found is not None:
            return replace(found, systems=tried)
    for accuracy in (ROUGH, ACCURATE) if tries >= 3 else ():
        inner = _interior(qp, equations, last_delta, least_delta, accuracy)
        if inner is None:
            return None
        found, more = _by_active_set(qp, inner.active, inner.delta, least_delta)
        tried += inner.systems + more
        if found is not None:
            return replace(found, systems=tried)
    return replace(inner, systems=tried) if tries >= 3 else None


def _inequalities(qp: Quadratic) -> np.ndarray:
    return (qp.low < qp.high) & (np.isfinite(qp.low) | np.isfinite(qp.high))


def _by_active_set(qp: Quadratic, active: np.ndarray, last_delta: float, least_delta: float) -> tuple[Answer | None, int]:
    n, rows = len(qp.c), len(qp.row_lower)
    low, high, seen = qp.low, qp.high, set()
    delta, best, least = least_delta, None, NEARLY
    for count in range(1, EXCHANGES + 1):
        active = np.where((active == -1) & ~np.isfinite(low) | (active == 1) & ~np.isfinite(high), 0, active)
        if (key := active.tobytes()) in seen:
            break
        seen.add(key)
        bound = np.where(active == -1, low, np.where(active > 0, high, 0.0))
        fixed, rows_on = active[:n] != 0, active[n:] != 0
        try:
            solve, delta = regularised(qp.system, np.zeros(n), np.zeros(rows), np.concatenate([~fixed, rows_on]), delta, last_delta)
        except ArithmeticError:
            break
        held = np.where(fixed, bound[:n], 0.0)
        moved = qp.system.times(np.concatenate([held, np.zeros(rows)]))  # what fixed columns contribute to the other equations
        z = solve(np.concatenate([np.where(fixed, held, -qp.c - moved[:n]), np.where(rows_on, bound[n:] - moved[n:], 0.0)]))
        d, y = z[:n], np.where(rows_on, z[n:], 0.0)
        slope = qp.system.times(np.concatenate([d, y]))[:n] + delta * d + qp.c
        lam, value = np.concatenate([np.where(fixed, -slope, 0.0), y]), np.concatenate([d, qp.row_values(d)])
        outside = np.maximum(low - value, value - high) / (1 + np.abs(value))
        wrong = np.where(active == 1, -lam, np.where(active == -1, lam, 0.0)) / (1 + float(np.max(np.abs(lam), initial=0.0)))
        error = float(max(np.max(outside, initial=0.0), np.max(wrong, initial=0.0)))
        if error <= least:
            best, least = Answer(d, lam[:n], y, active, delta, count, True), error
        if error <= FEASIBLE:
            return best, count
        new = np.where(wrong > FEASIBLE, 0, active)
        new[(active == 0) & (low - value > FEASIBLE * (1 + np.abs(value)))] = -1
        new[(active == 0) & (value - high > FEASIBLE * (1 + np.abs(value)))] = 1
        active = new
    return best, len(seen)


def _interior(qp: Quadratic, equations: np.ndarray, last_delta: float, least_delta: float, accuracy: float) -> Answer | None:
    """Mehrotra's method with slacks s for columns and rows that have bounds."""
    n, m = len(qp.c), len(qp.row_lower)
    ineq = _inequalities(qp)
    low, high = np.where(ineq, qp.low, -np.inf), np.where(ineq, qp.high, np.inf)
    has_low, has_high = ineq & np.isfinite(low), ineq & np.isfinite(high)
    fixed = equations[:n]
    on = np.concatenate([~fixed, ineq[n:] | equations[n:]])
    target = np.where(equations, qp.low, 0.0)
    d = np.where(fixed, qp.lower, 0.0)
    y = np.zeros(m)
    width = np.where(has_low & has_high, high - low, np.inf)
    push = np.minimum(1.0, 0.25 * width)
    value = np.concatenate([d, qp.system.times(np.concatenate([d, y]))[n:]])
    s = np.where(has_low, np.maximum(value, low + push), value)
    s = np.where(has_high, np.minimum(s, high - push), s)
    size = max(1.0, float(np.max(np.abs(qp.c), initial=0.0)))
    zl, zu = np.where(has_low, min(size, 1e2), 0.0), np.where(has_high, min(size, 1e2), 0.0)
    count_z = max(1, int(has_low.sum() + has_high.sum()))
    delta, rows, stuck = least_delta, ineq[n:], 0
    sl_at = np.where(has_low, low, 0.0)
    su_at = np.where(has_high, high, 0.0)
    for k in range(INTERIOR):
        sl, su = np.where(has_low, s - sl_at, 1.0), np.where(has_high, su_at - s, 1.0)
        whole = qp.system.times(np.concatenate([d, y]))
        value = np.concatenate([d, qp.system.times(np.concatenate([d, np.zeros(m)]))[n:]])
        z = zu - zl
        dual = whole[:n] + delta * d + qp.c + z[:n]
        dual[fixed] = 0.0
        gap = np.where(ineq, value - s, np.where(equations, value - target, 0.0))
        mu = float((zl * sl).sum() + (zu * su).sum()) / count_z
        errors = (float(np.max(np.abs(dual), initial=0.0)) / (size + np.max(np.abs(z), initial=0.0)), float(np.max(np.abs(gap), initial=0.0)),
                  mu / (1 + np.max(np.abs(z), initial=0.0)))
        if max(errors) <= accuracy:
            break
        if not np.isfinite(max(errors)) or stuck >= STUCK:
            return None
        w = zl / sl + zu / su
        minus = np.where(rows, 1.0 / np.maximum(w[n:], 1e-20), 0.0)
        try:
            solve, delta = regularised(qp.system, np.where(fixed, 0.0, w[:n]), minus, on, delta, last_delta)
        except ArithmeticError:
            return None
        dual = whole[:n] + delta * d + qp.c + z[:n]

        def step(rl: np.ndarray, ru: np.ndarray) -> tuple[np.ndarray, ...]:
            # rl, ru: what zl sl and zu su are to change by
            r = ru / su - rl / sl  # = dz - w ds
            rhs = np.empty(n + m)
            rhs[:n] = -dual - np.where(ineq[:n], w[:n] * gap[:n] + r[:n], 0.0)
            rhs[:n][fixed] = 0.0
            rhs[n:] = np.where(rows, -gap[n:] - minus * r[n:], np.where(equations[n:], -gap[n:], 0.0))
            out = solve(rhs)
            dd, dy = out[:n], np.where(on[n:], out[n:], 0.0)
            moved = np.concatenate([dd, qp.system.times(np.concatenate([dd, np.zeros(m)]))[n:]])
            ds = np.where(ineq, moved + gap, 0.0)
            return dd, dy, ds, np.where(has_low, (rl - zl * ds) / sl, 0.0), np.where(has_high, (ru + zu * ds) / su, 0.0)

        def longest(ds: np.ndarray, dzl: np.ndarray, dzu: np.ndarray) -> tuple[float, float]:
            primal = min(_longest(sl[has_low], ds[has_low]), _longest(su[has_high], -ds[has_high]))
            return primal, min(_longest(zl[has_low], dzl[has_low]), _longest(zu[has_high], dzu[has_high]))

        _, _, ds, dzl, dzu = step(-zl * sl, -zu * su)
        ap, ad = longest(ds, dzl, dzu)
        predicted = float((has_low * (zl + ad * dzl) * (sl + ap * ds)).sum() + (has_high * (zu + ad * dzu) * (su - ap * ds)).sum()) / count_z
        goal = mu * (predicted / mu) ** 3 if mu > 0 else 0.0
        dd, dy, ds, dzl, dzu = step(goal - zl * sl - dzl * ds, goal - zu * su + dzu * ds)
        ap, ad = longest(ds, dzl, dzu)
        a = min(1.0, 0.995 * min(ap, ad))
        stuck = stuck + 1 if a < SHORT else 0
        d, s = d + a * dd, s + a * ds
        y = y + a * dy
        zl, zu = zl + a * dzl, zu + a * dzu
        # rows carry their multiplier in y; keep both the same
        zl[n:], zu[n:] = np.where(rows & has_low[n:], zl[n:], 0.0), np.where(rows & has_high[n:], zu[n:], 0.0)
    else:
        return None
    z = zu - zl
    active = np.where(has_high & (zu > np.where(has_high, su_at - s, np.inf)), 1, np.where(has_low & (zl > np.where(has_low, s - sl_at, np.inf)), -1, 0))
    active = np.where(equations, 2, active)
    lam_x = np.where(fixed, -(whole[:n] + delta * d + qp.c), z[:n])
    return Answer(d, lam_x, y, active, delta, k + 1, False)


def _longest(value: np.ndarray, change: np.ndarray) -> float:
    down = change < 0
    return float(np.min(-value[down] / change[down], initial=1.0 / 0.995))
