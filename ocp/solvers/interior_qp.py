"""Quadratic programs by a dense interior-point method, for those whose active set OSQP does not find.

Mehrotra's predictor and corrector (Mehrotra 1992, "On the implementation of a primal-dual interior point method"; Nocedal and
Wright 2006, 16.6), for an equilibrated program (Ruiz 2001): a finite accuracy, but hardly sensitive to scaling and degeneracy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ITERATIONS = 80
_ACCURACY = 1e-10  # of the equilibrated program, absolute
_SHIFT = 1e-10  # keeps the factors finite; refinement takes its effect away


def interior_point(P: Array, q: Array, A: Array, l: Array, u: Array) -> tuple[Array, Array] | None:
    """(x [n], y [m]) near the optimum of 1/2 x'Px + q'x, l <= A x <= u, with P x + q + A'y = 0; None where it gets nowhere."""
    (n, m), d, e = (q.size, l.size), np.ones(q.size), np.ones(l.size)
    P, A = P.copy(), A.copy()
    for _ in range(10):
        columns, rows = (np.sqrt(v) for v in (np.abs(np.vstack([P, A])).max(0), np.abs(A).max(1, initial=0.0)))
        columns[columns == 0.0], rows[rows == 0.0] = 1.0, 1.0
        P, A, d, e = P / np.outer(columns, columns), A / np.outer(rows, columns), d / columns, e / rows
    cost = 1.0 / max(float(np.abs(q * d).max()), float(np.abs(P).max()), 1e-300)
    P, q, l, u = P * cost, q * d * cost, l * e, u * e
    equal = l == u
    upper, lower = np.flatnonzero(np.isfinite(u) & ~equal), np.flatnonzero(np.isfinite(l) & ~equal)
    E, b, G, h = A[equal], l[equal], np.vstack([A[upper], -A[lower]]), np.r_[u[upper], -l[lower]]
    x, y, s, z = np.zeros(n), np.zeros(b.size), np.ones(h.size), np.ones(h.size)
    for k in range(_ITERATIONS):
        dual, primal, gap = P @ x + q + E.T @ y + G.T @ z, E @ x - b, G @ x + s - h
        mean = float(s @ z) / max(h.size, 1)
        if k and max(mean, *(float(np.abs(r).max(initial=0.0)) for r in (dual, primal, gap))) < _ACCURACY:
            break
        K = np.block([[P + (G.T * (z / s)) @ G, E.T], [E, np.zeros((b.size, b.size))]])
        shift = np.r_[np.full(n, _SHIFT), np.full(b.size, -_SHIFT)]
        with np.errstate(all="ignore"):
            factors = scipy.linalg.lapack.dgetrf(K + np.diag(shift))[:2]
            step = _step(K, factors, (dual, primal, gap, s * z), (G, s, z))
            if k == 0:  # its end is where to start from (Nocedal and Wright 2006, 16.6)
                x, y, s, z = x + step[0], y + step[1], np.maximum(1.0, np.abs(s + step[2])), np.maximum(1.0, np.abs(z + step[3]))
                continue
            if h.size:
                far = _length(s, z, step)
                centre = (float((s + far * step[2]) @ (z + far * step[3])) / h.size / mean)**3
                step = _step(K, factors, (dual, primal, gap, s * z + step[2] * step[3] - centre * mean), (G, s, z))
            far = 1.0 if not h.size else min(1.0, 0.99 * _length(s, z, step, np.inf))
        if not all(np.isfinite(part).all() for part in step):
            break
        x, y, s, z = (now + far * part for now, part in zip((x, y, s, z), step, strict=True))
    multipliers = np.zeros(m)
    multipliers[equal] = y
    multipliers[upper] += z[:upper.size]
    multipliers[lower] -= z[upper.size:]
    x, y = x * d, multipliers * e / cost
    return (x, y) if np.isfinite(x).all() and np.isfinite(y).all() else None


def _length(s: Array, z: Array, step: tuple[Array, ...], most: float = 1.0) -> float:
    """How far s and z may go along their steps before one of them is zero."""
    return min(most, *(float((-v[d < 0.0] / d[d < 0.0]).min(initial=np.inf)) for v, d in ((s, step[2]), (z, step[3]))))


def _step(K: Array, factors: Any, residuals: tuple[Array, ...], rows: tuple[Array, Array, Array]) -> tuple[Array, ...]:
    """(dx, dy, ds, dz) that take the residuals (dual, primal, gap, s z) to zero, with three refinements."""
    (dual, primal, gap, product), (G, s, z) = residuals, rows
    right = -np.r_[dual + G.T @ ((z * gap - product) / s), primal]
    step = np.zeros(right.size)
    for _ in range(4):
        step = step + scipy.linalg.lapack.dgetrs(*factors, right - K @ step)[0]
    dx, dy = step[:dual.size], step[dual.size:]
    ds = -gap - G @ dx
    return dx, dy, ds, -(product + z * ds) / s
