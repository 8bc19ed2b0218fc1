"""Coulomb's law at several contacts at once: forces (impulses) and accelerations (velocities) that complement each other.

    u = G x + b       0 <= x_n, u_n,  x_n u_n = 0       |x_t| <= mu x_n,  x_t = -mu x_n u_t / |u_t| where u_t is not zero

x and u of a block are [tangent, tangent, normal]. A block of one number is a contact that slides in a known direction: x is its
normal force, u its normal acceleration, and friction is in its column of G, which is then not symmetric. The cone is exact, or a
pyramid (`Cone`): x_t is then what of the pyramid opposes u_t most. Equations and their semismooth Newton steps: Alart and Curnier
1991; between them, from poor starts, block projections (de Saxce and Feng 1998). G may be singular: x is then one of several
solutions, u is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamics.constraints.friction_cone import EXACT, Cone

Array = NDArray[np.float64]
TOLERANCE = 1e-11
"""Residual, relative to the largest force, at which the law holds."""
ROUNDS, NEWTON, SWEEPS = 5, 25, 40


@dataclass(frozen=True, eq=False)
class Law:
    """x, u [rows]; residual: of the projections, relative; holds: at most ``TOLERANCE``."""

    x: Array
    u: Array
    residual: float

    @property
    def holds(self) -> bool:
        """Whether the friction law is met to its tolerance."""
        return self.residual <= TOLERANCE


def coulomb(G: Array, b: Array, friction: Sequence[float | None], cone: Cone = EXACT) -> Law:
    """Solves for blocks of three rows (a friction coefficient each) or of one (None).

    Where no solution is found ``holds`` is false and x is the best seen: with sliding contacts there may be none (Painleve).
    """
    blocks, at = [], 0
    for mu in friction:
        blocks.append((slice(at, at + (1 if mu is None else 3)), mu))
        at = blocks[-1][0].stop
    if not at:
        return Law(np.zeros(0), np.zeros(0), 0.0)
    scales = np.concatenate([np.full(rows.stop - rows.start, _step(G[rows, rows])) for rows, _ in blocks])
    x = np.zeros(at)
    best = x, np.inf
    for k in range(ROUNDS):
        x, residual = _newton(G, b, blocks, scales, x, cone)
        if residual < best[1]:
            best = x, residual
        if residual <= TOLERANCE:
            break
        x = _sweeps(G, b, blocks, scales, np.zeros(at) if k == 0 else best[0], SWEEPS * 2**k, cone)
    x, residual = best
    return Law(x, G @ x + b, residual)


def _step(block: Array) -> float:
    size = float(np.trace(block)) / block.shape[0]
    return 1.0 / size if size > 0.0 else 1.0


def _newton(G: Array, b: Array, blocks: Sequence[tuple[slice, float | None]], scales: Array, x: Array, cone: Cone
            ) -> tuple[Array, float]:
    """(x, relative residual) after damped Newton steps on ``x = projection(x - scale u)``."""
    n = x.size
    error, slope = _equations(G, b, blocks, scales, x, cone)
    for _ in range(NEWTON):
        size = float(np.linalg.norm(error))
        if _relative(error, x, b, scales) <= 0.1 * TOLERANCE:
            break
        # (I - D (I - rho G)) dx = -error
        matrix = np.eye(n) - slope @ (np.eye(n) - scales[:, None] * G)
        step = np.linalg.lstsq(matrix, -error, rcond=1e-12)[0]
        length = 1.0
        for _ in range(8):
            trial = x + length * step
            after, new = _equations(G, b, blocks, scales, trial, cone)
            if np.linalg.norm(after) < (1.0 - 0.1 * length) * size:
                break
            length *= 0.5
        else:
            break
        x, error, slope = trial, after, new
    return _inside(blocks, x, cone), _relative(error, x, b, scales)


def _relative(error: Array, x: Array, b: Array, scales: Array) -> float:
    return float(np.abs(error).max()) / max(float(np.abs(x).max()), float(np.abs(b * scales).max()), 1e-30)


def _equations(G: Array, b: Array, blocks: Sequence[tuple[slice, float | None]], scales: Array, x: Array, cone: Cone
               ) -> tuple[Array, Array]:
    """x - projection(z), and the Jacobian of the projection by z [rows, rows], at z = x - scale u."""
    z = x - scales * (G @ x + b)
    target, slope = np.zeros_like(x), np.zeros((x.size, x.size))
    for rows, mu in blocks:
        n = rows.stop - 1
        if z[n] <= 0.0:
            continue
        target[n], slope[n, n] = z[n], 1.0
        if mu is None:
            continue
        t = slice(rows.start, n)
        target[t], slope[t, t], along = cone.nearest(z[t], mu * z[n])
        slope[t, n] = mu * along
    return x - target, slope


def _inside(blocks: Sequence[tuple[slice, float | None]], x: Array, cone: Cone) -> Array:
    """Rounding errors in the cones are corrected."""
    x = x.copy()
    for rows, mu in blocks:
        n = rows.stop - 1
        x[n] = max(x[n], 0.0)
        if mu is not None:
            t = slice(rows.start, n)
            size = float(cone.size(x[t]))
            if size > mu * x[n]:
                x[t] *= mu * x[n] / size
    return x


def _sweeps(G: Array, b: Array, blocks: Sequence[tuple[slice, float | None]], scales: Array, x: Array, count: int, cone: Cone
            ) -> Array:
    """Block by block: ``x <- projection on the cone of x - scale (u + mu |u_t| n)``; on a pyramid the normal, then friction."""
    x = x.copy()
    for _ in range(count):
        for rows, mu in blocks:
            u, n = G[rows] @ x + b[rows], rows.stop - 1
            if mu is None:
                x[n] = max(0.0, x[n] - scales[n] * u[0])
                continue
            if cone.sides:
                z = x[rows] - scales[rows] * u
                x[n] = max(0.0, z[2])
                x[rows.start:n] = cone.nearest(z[:2], mu * x[n])[0]
                continue
            u[2] += mu * float(np.hypot(u[0], u[1]))
            x[rows] = _projected(x[rows] - scales[rows] * u, mu)
    return x


def _projected(z: Array, mu: float) -> Array:
    """The nearest point of the cone ``|z_t| <= mu z_n``."""
    length = float(np.hypot(z[0], z[1]))
    if length <= mu * z[2]:
        return z
    if mu * length <= -z[2] or not length:
        return np.array([0.0, 0.0, max(z[2], 0.0)]) if not length else np.zeros(3)
    normal = (z[2] + mu * length) / (1.0 + mu * mu)
    return np.array([mu * normal * z[0] / length, mu * normal * z[1] / length, normal])
