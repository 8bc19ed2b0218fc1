"""A body that slides along a curve without turning: one degree of freedom, the cubic spline through ``Joint.points``.

The coordinate s [m] is 0 at the first point and grows by the chord from each point to the next. The curve has continuous curvature;
beyond its ends it goes on straight. Points are in the joint frame; at s = 0 the body's frame sits at the first of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics.joints.kind import Expr, Family, JointKind, Slices, sample_box, vector_space
from dynamics.spatial import Transform, constant, motion


def truncated_cube(u: Expr, order: int) -> Expr:
    """``max(0, u)^3``, or its derivative of order up to 3: all splines are sums of these."""
    return (1.0, 3.0, 6.0)[order] * ca.fmax(u, 0) ** (3 - order) if order < 3 else 6.0 * (u > 0)


class Cubic(NamedTuple):
    """A natural spline p0 + slope s + sum jumps_k max(0, s - knots_k)^3: knots [n], linear [3], jumps [n, 3]."""

    knots: np.ndarray
    linear: np.ndarray
    jumps: np.ndarray


def _natural(points: np.ndarray) -> Cubic:
    """Knots [n], slope at the start [3] and jumps [n, 3] of a natural spline p0 + slope s + sum jump_k max(0, s - knot_k)^3."""
    with np.errstate(over="ignore"):
        chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
        knots, n = np.concatenate([[0.0], np.cumsum(chords)]), len(points)
        if not np.all(chords > 0) or not np.isfinite(knots[-1] ** 3):
            raise ValueError("neighbouring points of a curve must differ, by lengths whose cube is finite")
    # unknowns: linear, jumps; conditions: the points, then no second and third derivative beyond the last
    A = np.zeros((n + 1, n + 1))
    A[: n - 1, 0] = knots[1:]
    A[: n - 1, 1:] = np.maximum(0.0, knots[1:, None] - knots[None, :]) ** 3
    A[n - 1, 1:], A[n, 1:] = 1.0, knots
    found = np.linalg.solve(A, np.vstack([points[1:] - points[0], np.zeros((2, 3))]))
    return Cubic(knots, found[0], found[1:])


def _make(joint: Any) -> JointKind:
    points = np.asarray(joint.points, float)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2 or not np.all(np.isfinite(points)):
        raise ValueError("a curve needs at least two points of three finite numbers each")
    knots, linear, jumps = _natural(points)

    def transform(q: Expr) -> Transform:
        p = constant(points[0]) + constant(linear) * q
        for knot, jump in zip(knots, jumps, strict=True):
            p = p + constant(jump) * truncated_cube(q - knot, 0)
        return Transform(constant(np.eye(3)), p)

    def random(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return sample_box(rng, np.where(np.isfinite(lower), lower, 0.0), np.where(np.isfinite(upper), upper, knots[-1]), 1.0)

    def derivative(q: Expr, order: int) -> Expr:
        """Of the position [3], and no rotation: a motion vector."""
        p = constant(linear) if order == 1 else ca.DM(3, 1)
        for knot, jump in zip(knots, jumps, strict=True):
            p = p + constant(jump) * truncated_cube(q - knot, order)
        return motion(p, ca.DM(3, 1))

    return JointKind(
        name="spline_curve", nq=1, nv=1, q_names=("s",), v_names=("v",), neutral=(0.0,), random=random, angular=(False,),
        transform=transform, subspace=lambda q: derivative(q, 1), bias=lambda q, v: derivative(q, 2) * v**2,
        slices=lambda q: Slices([derivative(q, 2)], lambda k, l: derivative(q, 3)), **vector_space(1))


SPLINE_CURVE = Family("spline_curve", 0, _make, takes=("points",))
