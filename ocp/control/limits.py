"""Joint limits as bounds on tangent steps, and starts within them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics.model.model import Model
from ocp.control.arrays import Box
from ocp.errors import ProblemError

Array = NDArray[np.float64]


def limit_box(model: Model, limits: bool = True) -> Box:
    """Limits of the flat coordinates in the order of v; components of rotations have none. limits=False: none at all."""
    lower, upper = model.limit("lower"), model.limit("upper")
    box = Box(np.full(model.nv, -np.inf), np.full(model.nv, np.inf), np.full(model.nv, -1, dtype=np.int64))
    for i, body in enumerate(model.bodies):
        kind = model.kind(i)
        if body.joint.mimic is None and kind.nv and kind.is_vector_space:
            qs, vs = model.q_slice(i), model.v_slice(i)
            box.at[vs] = np.arange(qs.start, qs.stop)
            if limits:
                box.lower[vs], box.upper[vs] = lower[qs], upper[qs]
    bad = np.flatnonzero(box.lower > box.upper)
    if bad.size:
        i = int(bad[0])
        raise ProblemError(
            f"lower limit {box.lower[i]:.6g} above upper limit {box.upper[i]:.6g}", where=f"joint {model.velocity_names[i]!r}"
        )
    return box


def violations(model: Model, q: ArrayLike, box: Box) -> dict[str, float]:
    """Coordinates outside their limits and by how much (rad or m), by name."""
    q, out = np.asarray(q, float), {}
    for i, at in enumerate(box.at):
        if at >= 0 and (excess := max(box.lower[i] - q[at], q[at] - box.upper[i])) > 0.0:
            out[model.velocity_names[i]] = float(excess)
    return out


def velocity_bounds(
    model: Model, q: ArrayLike, box: Box, dt: float, *, gain: float = 1.0, speed: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Bounds [nv] on a velocity applied for dt (s): within ``speed`` (default: the model's velocity limits), and no further than
    the fraction ``gain`` of the way to a position limit. Always lower <= upper: outside a limit the bounds ask for a return, at the
    velocity limit at most, so any start can recover."""
    if not dt > 0.0 or not 0.0 < gain <= 1.0:
        raise ProblemError(f"expected dt > 0 and 0 < gain <= 1, got {dt!r} and {gain!r}", where="velocity_bounds")
    fastest = model.limit("velocity") if speed is None else np.broadcast_to(np.asarray(speed, float), (model.nv,))
    q, flat = np.asarray(q, float), box.at >= 0
    lower, upper = -fastest.astype(float), fastest.astype(float)
    here = q[box.at[flat]]
    lower[flat] = np.clip(gain * (box.lower[flat] - here) / dt, -fastest[flat], fastest[flat])
    upper[flat] = np.clip(gain * (box.upper[flat] - here) / dt, -fastest[flat], fastest[flat])
    return lower, upper


@dataclass(frozen=True, eq=False)
class Sampler:
    """Where random configurations come from: lower, upper [nq] of a uniform draw; quaternions: slices of q drawn uniform on the
    sphere."""

    lower: Array
    upper: Array
    quaternions: tuple[slice, ...]

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """[count, nq] configurations."""
        out = rng.uniform(self.lower, self.upper, (count, self.lower.size))
        for qs in self.quaternions:
            x = rng.standard_normal((count, 4))
            out[:, qs] = x / np.linalg.norm(x, axis=1, keepdims=True)
        return out


def sampler(model: Model, q0: ArrayLike, extent: float = 1.0) -> Sampler:
    """Uniform within the limits. Coordinates without limits: one turn for angles, ``extent`` (m) around q0 for lengths."""
    q0, angular = np.asarray(q0, float), alg.configuration.velocity_kinds(model)
    lower, upper = np.array(model.limit("lower")), np.array(model.limit("upper"))
    quaternions = []
    for i, body in enumerate(model.bodies):
        kind = model.kind(i)
        if body.joint.mimic is not None or not kind.nv:
            continue
        qs, vs = model.q_slice(i), model.v_slice(i)
        if kind.is_vector_space:
            for at, turns in zip(range(qs.start, qs.stop), angular[vs], strict=True):
                span, centre = (np.pi, 0.0) if turns else (extent, q0[at])
                low, high = lower[at], upper[at]
                lower[at] = low if np.isfinite(low) else (high - 2 * span if np.isfinite(high) else centre - span)
                upper[at] = high if np.isfinite(high) else (low + 2 * span if np.isfinite(low) else centre + span)
                if turns and upper[at] - lower[at] > 2 * np.pi:  # the same poses, nearer to rest
                    middle = min(max(0.0, lower[at] + np.pi), upper[at] - np.pi)
                    lower[at], upper[at] = middle - np.pi, middle + np.pi
        else:
            lower[qs], upper[qs] = q0[qs], q0[qs]
            if kind.quaternion is not None:
                where = slice(qs.start + kind.quaternion.start, qs.start + kind.quaternion.stop)
                quaternions.append(where)
                flat = [k for k in range(qs.start, qs.stop) if not where.start <= k < where.stop]
                lower[flat], upper[flat] = q0[flat] - extent, q0[flat] + extent
            else:  # a group in as many coordinates as velocities, such as the plane's motions
                span_of = np.where(angular[vs], np.pi, extent)
                lower[qs], upper[qs] = q0[qs] - span_of, q0[qs] + span_of
    return Sampler(lower, upper, tuple(quaternions))
