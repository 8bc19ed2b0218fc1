"""Sparse quadratic programs with a Hessian that may be indefinite: active sets first, an interior point where they do not settle.

    minimise 1/2 d' (H + delta I) d + c' d   subject to   row_lower <= A d <= row_upper,   lower <= d <= upper

delta is the smallest tried regularisation that makes H positive definite where it matters. With the active set of a neighbouring
program one factorisation gives the exact answer (semismooth Newton, Hintermueller, Ito, Kunisch 2002); else Mehrotra's
predictor-corrector method (Nocedal and Wright 2006, Algorithm 16.4) finds the set.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.nlp.sqp.interior import ROUGH, Answer, Quadratic, inequalities, interior
from ocp.nlp.sqp.kkt_system import regularised

EXCHANGES = 12
ACCURATE = 1e-11  # asked of the interior point where its active set at first accuracy is not the answer's
FEASIBLE, NEARLY = 1e-9, 1e-8  # relative errors of an active set, and of the best one where they go round in circles


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
    if guess is not None or not inequalities(qp).any():
        found, tried = _by_active_set(qp, np.where(equations, 2, guess if guess is not None else 0), last_delta, least_delta)
        if found is not None:
            return found
    if tries >= 2 and quick is not None and (guess := quick.active(qp, max(least_delta, last_delta))) is not None:
        found, more = _by_active_set(qp, np.where(equations, 2, guess), last_delta, least_delta)
        tried += more
        if found is not None:
            return replace(found, systems=tried)
    inner: Answer | None = None
    for accuracy in (ROUGH, ACCURATE) if tries >= 3 else ():
        closer = interior(qp, equations, last_delta, least_delta, accuracy)
        if closer is None:
            break
        inner = closer
        found, more = _by_active_set(qp, inner.active, inner.delta, least_delta)
        tried += inner.systems + more
        if found is not None:
            return replace(found, systems=tried)
    return None if inner is None else replace(inner, systems=tried)


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
