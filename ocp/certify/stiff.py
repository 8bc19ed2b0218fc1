"""An implicit integrator for stiff stretches: Radau IIA of five stages, order 9, L-stable, with full Newton steps.

Many initial-value problems over s in [0, 1] advance side by side, each with a step of its own, so that one call of the field serves
all of them. Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.5 (methods) and IV.8 (Newton's method);
the error of a step is judged by two halves of it, with the stage order 5, which is what stiff components see.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray

#: field(rows [k], s [k], y [k, d]) -> [k, d]; its Jacobian by y -> [k, d, d]
Field = Callable[[Array, Array, Array], Array]

STAGES = 5
NEWTON, ATTEMPTS, SMALLEST = 12, 4000, 1e-13
#: entries of the matrices of Newton's method that are factorised at once
ENTRIES = 20_000_000


def _polynomials(degree: int, at: Array) -> tuple[Array, Array]:
    """Legendre polynomials on [0, 1] up to this degree, and their integrals from 0: [k, degree + 1] each."""
    values = np.polynomial.legendre.legvander(2 * at - 1, degree + 1)
    integrals = np.empty((len(at), degree + 1))
    integrals[:, 0] = at
    for k in range(1, degree + 1):
        integrals[:, k] = (values[:, k + 1] - values[:, k - 1]) / (2 * (2 * k + 1))
    return values[:, :degree + 1], integrals


def _tableau() -> tuple[Array, Array]:
    """Nodes c [s] and weights A [s, s]; the last row of A gives the end of the step. Nodes: zeros of P_s - P_{s-1} on [0, 1]."""
    series = np.zeros(STAGES + 1)
    series[STAGES], series[STAGES - 1] = 1.0, -1.0
    c = (np.sort(np.polynomial.legendre.legroots(series).real) + 1) / 2
    c[-1] = 1.0
    values, integrals = _polynomials(STAGES - 1, c)
    return c, np.linalg.solve(values.T, integrals.T).T


NODES, A = _tableau()


def _halves() -> tuple[Array, Array]:
    """From the stages of a step, as rises from where it begins, to those of its halves, as rises from the same place."""
    support = np.r_[0.0, NODES]
    base = np.vander(support, increasing=True)
    return tuple(np.linalg.solve(base.T, np.vander(at, len(support), increasing=True).T).T[:, 1:]
                 for at in (NODES / 2, (1 + NODES) / 2))  # type: ignore[return-value]


FIRST, SECOND = _halves()


def integrate(field: Field, jacobian: Field, y: Array, rtol: float, atol: float | Array) -> Array | None:
    """Values [n, d] at s = 1 of ``dy_i/ds = field(i, s, y_i)`` from y [n, d] at s = 0; None where no step succeeds or they are too
    many. Tolerances: of every step, ``atol + rtol |y|`` in every component."""
    if not y.shape[1]:
        return y
    together = max(1, ENTRIES // (STAGES * y.shape[1]) ** 2)
    found = [_together(field, jacobian, np.arange(len(y))[i:i + together], y[i:i + together], rtol, atol)
             for i in range(0, len(y), together)]
    return None if any(one is None for one in found) else np.concatenate([one for one in found if one is not None])


def _together(field: Field, jacobian: Field, rows: Array, y: Array, rtol: float, atol: float | Array) -> Array | None:
    y, s, h = y.copy(), np.zeros(len(y)), np.ones(len(y))
    for _ in range(ATTEMPTS):
        act = np.flatnonzero(s < 1)
        if not len(act):
            return y
        at, begin, length, size = rows[act], s[act], h[act], atol + rtol * np.abs(y[act])
        zero = np.zeros((len(act), STAGES, y.shape[1]))
        with np.errstate(all="ignore"):
            whole, good = _step(field, jacobian, at, begin, length, y[act], zero, size)
            one, first = _step(field, jacobian, at, begin, length / 2, y[act], FIRST @ whole, size)
            middle = y[act] + one[:, -1]
            guess = SECOND @ whole - one[:, -1:]
            two, second = _step(field, jacobian, at, begin + length / 2, length / 2, middle, guess, size)
            error = np.max(np.abs(one[:, -1] + two[:, -1] - whole[:, -1]) / size, axis=1) / (2**STAGES - 1)
        good &= first & second & np.isfinite(error)
        taken = good & (error <= 1)
        y[act[taken]] = (middle + two[:, -1])[taken]
        s[act[taken]] = np.where(h[act[taken]] >= 1 - s[act[taken]], 1.0, s[act[taken]] + h[act[taken]])
        factor = np.where(good, np.clip(0.9 * np.maximum(error, 1e-10, where=good, out=np.ones_like(error)) ** (-1 / (STAGES + 1)),
                                        0.1, 8.0), 0.2)
        h[act] *= factor
        if np.any(h[act] < SMALLEST):
            return None
        h = np.minimum(h, np.where(s < 1, 1 - s, 1.0))
        h[s + h > 1 - 1e-12] = (1 - s)[s + h > 1 - 1e-12]
    return None


def _step(field: Field, jacobian: Field, rows: Array, s: Array, h: Array, y: Array, z: Array, size: Array) -> tuple[Array, Array]:
    """Stages [k, s, d] of a step, as rises from y, from the guess z; and which rows converged [k]. ``z_i = h sum_j a_ij f_j``."""
    k, d = y.shape
    z, done, lost = z.copy(), np.zeros(k, dtype=bool), np.zeros(k, dtype=bool)
    for _ in range(NEWTON):
        go = np.flatnonzero(~done & ~lost)
        if not len(go):
            break
        n = len(go)
        which, times = np.repeat(rows[go], STAGES), (s[go, None] + h[go, None] * NODES).ravel()
        stages = (y[go, None] + z[go]).reshape(n * STAGES, d)
        f = field(which, times, stages).reshape(n, STAGES, d)
        J = jacobian(which, times, stages).reshape(n, STAGES, d, d)
        residual = z[go] - h[go, None, None] * (A @ f)
        matrix = -np.einsum("k,ij,kjab->kiajb", h[go], A, J).reshape(n, STAGES * d, STAGES * d)
        matrix[:, np.arange(STAGES * d), np.arange(STAGES * d)] += 1.0
        usable = np.isfinite(matrix).all(axis=(1, 2)) & np.isfinite(residual).all(axis=(1, 2))
        lost[go[~usable]] = True
        go, matrix, residual = go[usable], matrix[usable], residual[usable]
        try:
            move = np.linalg.solve(matrix, residual.reshape(len(go), STAGES * d, 1)).reshape(len(go), STAGES, d)
        except np.linalg.LinAlgError:
            lost[go] = True
            break
        z[go] -= move
        done[go] = np.max(np.abs(move) / size[go, None], axis=(1, 2)) < 1e-2
    return z, done
