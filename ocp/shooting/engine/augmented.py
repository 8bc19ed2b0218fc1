"""The augmented Lagrangian of hard constraints at the knots, in Numba.

For rows c with multipliers lam and penalties mu (Rockafellar's form, which keeps the multiplier estimate in the terms):

    equality      lam c + mu c^2 / 2                              multiplier  lam + mu c
    c <= 0        (max(0, lam + mu c)^2 - lam^2) / (2 mu)         multiplier  max(0, lam + mu c)
    cone K        (|P(lam - mu c)|^2 - |lam|^2) / (2 mu)          multiplier  P(lam - mu c), P the projection onto K

The derivative by c is the multiplier (minus it for a cone); the second derivative is mu on the active rows, for a cone mu times
the derivative of the projection. Rockafellar 1976; Howell, Jackson, Manchester 2019 (ALTRO); Shapiro and Sun 2004 for cones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dynamics.kernels.calls import address_of, row_address
from ocp.shooting.engine.knots import Call, run
from ocp.shooting.stages.rows import BELOW, CONE, EQUAL

Array = np.ndarray


class Held(NamedTuple):
    """Rows of one place at M knots.

    value, jacobian, curvature: kernels; kind, size [r] as in ``constraints.Rows``; first [r]: the knot from which a row holds;
    start: knot of the first row of the arrays; lam [M, r], mu [r]: multipliers and penalties. The expansion leaves c and slope
    [M, r] (derivative of the terms by c), Cx [M, r, n] and Cu [M, r, m]. xx, uu, ux, cone [r, r]: scratch.
    """

    value: Call
    jacobian: Call
    curvature: Call
    kind: Array
    size: Array
    first: Array
    start: int
    lam: Array
    mu: Array
    c: Array
    slope: Array
    Cx: Array
    Cu: Array
    xx: Array
    uu: Array
    ux: Array
    cone: Array


@njit(cache=True)
def _bind(kernel: Call, t: Array, x: Array, u: Array, p: Array, k: int, j: int) -> None:
    kernel.arg[0] = row_address(t, k)
    kernel.arg[1] = row_address(x, k)
    kernel.arg[2] = row_address(u, j)
    kernel.arg[3] = address_of(p)


@njit(cache=True)
def _project(z0: float, norm: float) -> tuple[float, float]:
    """(new axis, factor of the other components) of the projection of (z0, w), |w| = norm, onto the cone."""
    if norm <= z0:
        return z0, 1.0
    if norm <= -z0:
        return 0.0, 0.0
    axis = 0.5 * (z0 + norm)
    return axis, axis / norm


@njit(cache=True)
def terms(held: Held, i: int, k: int) -> float:
    """Value of the augmented terms of the rows c[i], which stand at knot k; fills slope[i]. NaN where a row is not finite."""
    c, lam, mu, slope = held.c[i], held.lam[i], held.mu, held.slope[i]
    total = 0.0
    for r in range(c.shape[0]):
        if k >= held.first[r] and not np.isfinite(c[r]):
            return np.nan
    r = 0
    while r < c.shape[0]:
        if k < held.first[r]:
            slope[r] = 0.0
            r += 1
        elif held.kind[r] == EQUAL:
            slope[r] = lam[r] + mu[r] * c[r]
            total += c[r] * (lam[r] + 0.5 * mu[r] * c[r])
            r += 1
        elif held.kind[r] == BELOW:
            slope[r] = max(0.0, lam[r] + mu[r] * c[r])
            total += (slope[r] * slope[r] - lam[r] * lam[r]) / (2.0 * mu[r])
            r += 1
        else:
            end = r + held.size[r]
            norm, size = 0.0, 0.0
            for s in range(r, end):
                size += lam[s] * lam[s]
                if s > r:
                    norm += (lam[s] - mu[r] * c[s]) ** 2
            axis, factor = _project(lam[r] - mu[r] * c[r], np.sqrt(norm))
            slope[r] = -axis
            length = axis * axis
            for s in range(r + 1, end):
                slope[s] = -factor * (lam[s] - mu[r] * c[s])
                length += slope[s] * slope[s]
            total += (length - size) / (2.0 * mu[r])
            r = end
    return total


@njit(cache=True)
def penalty(held: Held, t: Array, x: Array, u: Array, p: Array, k: int, i: int, j: int) -> float:
    """Augmented terms at row k of t and x and row j of u, with multipliers of row i. NaN where the rows cannot be evaluated."""
    if held.kind.shape[0] == 0:
        return 0.0
    _bind(held.value, t, x, u, p, k, j)
    held.value.res[0] = row_address(held.c, i)
    if run(held.value) != 0:
        return np.nan
    return float(terms(held, i, k))


@njit(cache=True)
def slopes(held: Held, t: Array, x: Array, u: Array, p: Array, k: int, i: int, j: int, lx: Array, lu: Array) -> int:
    """Add the gradients of the augmented terms to lx [n] and lu [m]; leaves c, slope, Cx and Cu for ``stiffness``."""
    rows = held.kind.shape[0]
    if rows == 0:
        return 0
    _bind(held.jacobian, t, x, u, p, k, j)
    held.jacobian.res[0] = row_address(held.c, i)
    held.jacobian.res[1] = row_address(held.Cx, i)
    held.jacobian.res[2] = row_address(held.Cu, i)
    if run(held.jacobian) != 0:
        return 1
    if np.isnan(terms(held, i, k)):
        return 1
    for r in range(rows):
        w = held.slope[i, r]
        if w != 0.0:
            for s in range(lx.shape[0]):
                lx[s] += w * held.Cx[i, r, s]
            for s in range(lu.shape[0]):
                lu[s] += w * held.Cu[i, r, s]
    return 0


@njit(cache=True)
def _weights(held: Held, i: int, k: int) -> None:
    """Second derivatives [r, r] of the terms by c, block diagonal, into ``cone``."""
    W, c, lam = held.cone, held.c[i], held.lam[i]
    rows = c.shape[0]
    for a in range(rows):
        for b in range(rows):
            W[a, b] = 0.0
    r = 0
    while r < rows:
        mu = held.mu[r]
        if k < held.first[r]:
            r += 1
        elif held.kind[r] == EQUAL:
            W[r, r] = mu
            r += 1
        elif held.kind[r] == BELOW:
            W[r, r] = mu if lam[r] + mu * c[r] > 0.0 else 0.0
            r += 1
        else:
            end = r + held.size[r]
            z0, norm = lam[r] - mu * c[r], 0.0
            for s in range(r + 1, end):
                norm += (lam[s] - mu * c[s]) ** 2
            norm = np.sqrt(norm)
            if norm <= z0:
                for s in range(r, end):
                    W[s, s] = mu
            elif norm > -z0:
                # derivative of 1/2 (1 + z0 / |w|) (|w|, w)
                W[r, r] = 0.5 * mu
                for a in range(r + 1, end):
                    unit = (lam[a] - mu * c[a]) / norm
                    W[r, a] = W[a, r] = 0.5 * mu * unit
                    for b in range(r + 1, end):
                        other = (lam[b] - mu * c[b]) / norm
                        W[a, b] = -0.5 * mu * z0 / norm * unit * other
                    W[a, a] += 0.5 * mu * (1.0 + z0 / norm)
            r = end


@njit(cache=True)
def stiffness(held: Held, t: Array, x: Array, u: Array, p: Array, k: int, i: int, j: int, exact: bool, lxx: Array, luu: Array,
              lux: Array) -> int:
    """Add the Hessians of the augmented terms, after ``slopes``: ``C' W C``, and if exact the curvature of the rows."""
    rows, n, m = held.kind.shape[0], lxx.shape[0], luu.shape[0]
    if rows == 0:
        return 0
    _weights(held, i, k)
    for a in range(rows):
        for b in range(rows):
            w = held.cone[a, b]
            if w == 0.0:
                continue
            Cx, Cu, Dx, Du = held.Cx[i, a], held.Cu[i, a], held.Cx[i, b], held.Cu[i, b]
            for r in range(n):
                if Cx[r] != 0.0:
                    for s in range(n):
                        lxx[r, s] += w * Cx[r] * Dx[s]
            for r in range(m):
                if Cu[r] != 0.0:
                    for s in range(m):
                        luu[r, s] += w * Cu[r] * Du[s]
                    for s in range(n):
                        lux[r, s] += w * Cu[r] * Dx[s]
    if not exact:
        return 0
    _bind(held.curvature, t, x, u, p, k, j)
    held.curvature.arg[4] = row_address(held.slope, i)
    held.curvature.res[0] = address_of(held.xx)
    held.curvature.res[1] = address_of(held.uu)
    held.curvature.res[2] = address_of(held.ux)
    if run(held.curvature) != 0:
        return 1
    for r in range(n):
        for s in range(n):
            lxx[r, s] += held.xx[r, s]
    for r in range(m):
        for s in range(m):
            luu[r, s] += held.uu[r, s]
        for s in range(n):
            lux[r, s] += held.ux[r, s]
    return 0


@njit(cache=True)
def violations(held: Held, start: int, out: Array) -> None:
    """Largest violation of every row over the knots, from the c of the last ``slopes`` or ``penalty``; start: knot of row 0.
    A cone counts in its first row."""
    rows = held.kind.shape[0]
    for r in range(rows):
        out[r] = 0.0
    for i in range(held.c.shape[0]):
        for r in range(rows):
            if start + i < held.first[r]:
                continue
            c = held.c[i, r]
            if held.kind[r] == EQUAL:
                out[r] = max(out[r], abs(c))
            elif held.kind[r] == BELOW:
                out[r] = max(out[r], c)
            elif held.kind[r] == CONE:
                norm = 0.0
                for s in range(r + 1, r + held.size[r]):
                    norm += held.c[i, s] ** 2
                out[r] = max(out[r], np.sqrt(norm) - c)


@njit(cache=True)
def update(held: Held) -> None:
    """Take over the multipliers that the terms at hand estimate (slope; minus it for cones)."""
    for i in range(held.lam.shape[0]):
        for r in range(held.kind.shape[0]):
            held.lam[i, r] = held.slope[i, r] if held.kind[r] <= BELOW else -held.slope[i, r]
