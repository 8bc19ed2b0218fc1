"""An implicit integrator for stiff stretches: Radau IIA of five stages, order 9, L-stable.

Many initial-value problems over s in [0, 1] advance side by side, each with a step of its own, so that one call of the field
serves all of them. Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.5 (methods) and IV.8 (Newton's
method, with the Jacobian where a step begins, and with those of all stages where that does not contract); the error of a step is
judged by two halves of it, with the stage order 5, which is what stiff components see.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocp.interrupts import Activity, check
from ocp.thresholds import REINTEGRATION, ROUNDING

Array = np.ndarray

#: field(rows [k], s [k], y [k, d]) -> [k, d]; its Jacobian by y -> [k, d, d]
Field = Callable[[Array, Array, Array], Array]

#: of the method, which has order 9
STAGES = 5


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
    """From the stages of a step to those of its halves, both as differences from its start."""
    support = np.r_[0.0, NODES]
    base = np.vander(support, increasing=True)
    return tuple(np.linalg.solve(base.T, np.vander(at, len(support), increasing=True).T).T[:, 1:]
                 for at in (NODES / 2, (1 + NODES) / 2))  # type: ignore[return-value]


FIRST, SECOND = _halves()


def integrate(field: Field, jacobian: Field, y: Array, rtol: float, atol: float | Array) -> Array | None:
    """Values [n, d] at s = 1 of ``dy_i/ds = field(i, s, y_i)`` from y [n, d] at s = 0; None where no step succeeds or they are too
    many. Tolerances: of every step, ``atol + rtol |y|`` in every component."""
    found = _in_batches(field, jacobian, y, rtol, atol, False)
    return None if found is None else found[0]


def grown(field: Field, jacobian: Field, y: Array, rtol: float, atol: float | Array) -> tuple[Array, Array] | None:
    """As ``integrate``, and the derivatives [n, d, d] of the ends by the beginnings: those of the method's own steps."""
    return _in_batches(field, jacobian, y, rtol, atol, True)


def _in_batches(field: Field, jacobian: Field, y: Array, rtol: float, atol: float | Array, gradients: bool
                ) -> tuple[Array, Array] | None:
    d = y.shape[1]
    if not d:
        return y, np.zeros((len(y), 0, 0))
    together = max(1, REINTEGRATION.max_matrix_entries // (STAGES * d) ** 2)
    ends, grown = [y[:0]], [np.zeros((0, d, d))]
    for i in range(0, len(y), together):
        one = _together(field, jacobian, np.arange(len(y))[i:i + together], y[i:i + together], rtol, atol, gradients)
        if one is None:
            return None
        ends.append(one[0])
        grown.append(one[1])
    return np.concatenate(ends), np.concatenate(grown)


def _together(field: Field, jacobian: Field, rows: Array, y: Array, rtol: float, atol: float | Array, gradients: bool
              ) -> tuple[Array, Array] | None:
    y, s, h = y.copy(), np.zeros(len(y)), np.ones(len(y))
    grown = np.tile(np.eye(y.shape[1]), (len(y) if gradients else 0, 1, 1))
    for _ in range(REINTEGRATION.max_implicit_steps):
        check(Activity.INTEGRATION)
        act = np.flatnonzero(s < 1)
        if not len(act):
            return y, grown
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
        if gradients and taken.any():
            for start, from_, rise in ((begin, y[act], one), (begin + length / 2, middle, two)):
                grown[act[taken]] = _step_derivative(jacobian, at[taken], start[taken], length[taken] / 2, from_[taken],
                                           rise[taken]) @ grown[act[taken]]
        y[act[taken]] = (middle + two[:, -1])[taken]
        s[act[taken]] = np.where(h[act[taken]] >= 1 - s[act[taken]], 1.0, s[act[taken]] + h[act[taken]])
        factor = np.where(good, np.clip(0.9 * np.maximum(error, 1e-10, where=good, out=np.ones_like(error)) ** (-1 / (STAGES + 1)),
                                        0.1, 8.0), 0.2)
        h[act] *= factor
        if np.any(h[act] < ROUNDING.rounding):
            return None
        h = np.minimum(h, np.where(s < 1, 1 - s, 1.0))
        h[s + h > 1 - 1e-12] = (1 - s)[s + h > 1 - 1e-12]
    return None


def _step(field: Field, jacobian: Field, rows: Array, s: Array, h: Array, y: Array, z: Array, size: Array) -> tuple[Array, Array]:
    """Stages [k, s, d] of a step, as rises from y, from the guess z; and which rows converged [k]. ``z_i = h sum_j a_ij f_j``."""
    k, d = y.shape
    z, done, lost = z.copy(), np.zeros(k, dtype=bool), np.zeros(k, dtype=bool)
    first = _matrix(h, np.repeat(jacobian(rows, s, y)[:, None], STAGES, axis=1))
    last, own = np.full(k, np.inf), ~np.isfinite(first).all(axis=(1, 2))  # own: with the Jacobians of its stages
    first[own] = np.eye(STAGES * d)
    try:
        inverse = np.linalg.inv(first)
    except np.linalg.LinAlgError:
        inverse, own = first, np.ones(k, dtype=bool)
    for _ in range(REINTEGRATION.implicit_newton_steps):
        check(Activity.INTEGRATION)
        go = np.flatnonzero(~done & ~lost)
        if not len(go):
            break
        n = len(go)
        which, times = np.repeat(rows[go], STAGES), (s[go, None] + h[go, None] * NODES).ravel()
        stages = (y[go, None] + z[go]).reshape(n * STAGES, d)
        f = field(which, times, stages).reshape(n, STAGES, d)
        residual = (z[go] - h[go, None, None] * (A @ f)).reshape(n, STAGES * d, 1)
        move = inverse[go] @ residual
        here = own[go]
        if here.any():
            each = np.repeat(here, STAGES)
            matrix = _matrix(h[go[here]], jacobian(which[each], times[each], stages[each]).reshape(-1, STAGES, d, d))
            usable = np.isfinite(matrix).all(axis=(1, 2))
            matrix[~usable] = np.eye(STAGES * d)
            try:
                move[here] = np.linalg.solve(matrix, residual[here])
            except np.linalg.LinAlgError:
                usable[:] = False
            move[np.flatnonzero(here)[~usable]] = np.nan
        move = move.reshape(n, STAGES, d)
        length = np.max(np.abs(move) / size[go, None], axis=(1, 2))
        fails = ~np.isfinite(length) | (length > REINTEGRATION.newton_contraction * last[go])
        again = fails & ~here
        own[go[again]] = True
        lost[go[~np.isfinite(length) & here]] = True
        good = np.isfinite(length)
        z[go[good]] -= move[good]
        last[go] = np.where(again, np.inf, length)
        done[go] = good & (length < 1e-2) & ~again
    return z, done


def _step_derivative(jacobian: Field, rows: Array, s: Array, h: Array, y: Array, z: Array) -> Array:
    """Derivatives [k, d, d] of the ends of steps with respect to their starts; z [k, s, d]: stages, as differences from y."""
    k, d = y.shape
    J = jacobian(np.repeat(rows, STAGES), (s[:, None] + h[:, None] * NODES).ravel(), (y[:, None] + z).reshape(k * STAGES, d))
    ones = np.tile(np.eye(d), (k, STAGES, 1))
    return np.linalg.solve(_matrix(h, J.reshape(k, STAGES, d, d)), ones)[:, -d:]


def _matrix(h: Array, J: Array) -> Array:
    """``1 - h A J`` [k, s d, s d] of Jacobians [k, s, d, d] at the stages."""
    k, d = len(h), J.shape[-1]
    matrix = -np.einsum("k,ij,kjab->kiajb", h, A, J).reshape(k, STAGES * d, STAGES * d)
    matrix[:, np.arange(STAGES * d), np.arange(STAGES * d)] += 1.0
    return matrix
