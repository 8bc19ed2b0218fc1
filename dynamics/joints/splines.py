"""Joints along cubic B-splines of poses: a curve through frames (one degree of freedom), a surface (two).

Both are products of exponentials ``exp(e_1 f_1(q)) exp(e_2 f_2(q)) ...`` with constant twists e and splines f. With E_i the
twist e_i seen from the moved frame, ``S_j = sum_i E_i df_i/dq_j`` and ``dE_i/dq_k = sum_{m > i} (E_i x E_m) df_m/dq_k``; the
product rule gives the slices. Sources: Kim, Kim and Shin 1995 (cumulative form); Lee and Terzopoulos 2008,
"Spline joints for multibody dynamics".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.joints.curve import truncated_cube
from dynamics.joints.kind import Expr, Family, JointKind, Slices, sample_box, vector_space
from dynamics.joints.one_dof import rotation_about
from dynamics.lie import se3
from dynamics.spatial import Transform, constant

Orders = tuple[int, ...]  # how often a function is differentiated by each coordinate


class Factor(NamedTuple):
    """``exp(twist amount(q))``: twist [6] constant; amount(q, orders): the function or one of its derivatives."""

    twist: np.ndarray
    amount: Callable[[Expr, Orders], Expr]

    def transform(self, q: Expr) -> Transform:
        """The motion about, or along, the constant screw."""
        t, s = ca.DM(self.twist), self.amount(q, (0,) * q.shape[0])
        v, w = spatial.linear(t), spatial.angular(t)
        rate = float(ca.norm_2(w))
        if rate == 0.0:
            return Transform(constant(np.eye(3)), v * s)
        axis = w / rate
        along = axis @ (axis.T @ v)
        moved = along * s + (v - along) * ca.sin(rate * s) / rate + ca.cross(axis, v) * (1 - ca.cos(rate * s)) / rate
        return Transform(rotation_about(tuple(np.asarray(axis).ravel()), rate * s), moved)


def _product(start: Transform, factors: Sequence[Factor], n: int) -> dict[str, Any]:
    """The fields transform, subspace, bias and slices of a product of exponentials in n coordinates."""
    units = [tuple(int(j == k) for j in range(n)) for k in range(n)]

    def times(*along: int) -> Orders:
        return tuple(sum(column) for column in zip(*(units[k] for k in along), strict=True))

    def transform(q: Expr) -> Transform:
        pose = start
        for factor in factors:
            pose = spatial.compose(pose, factor.transform(q))
        return pose

    def carried(q: Expr) -> list[Expr]:
        out, after = [], spatial.identity()
        for factor in reversed(factors):
            out.append(spatial.motion_to_child(after, constant(factor.twist)))
            after = spatial.compose(factor.transform(q), after)
        return out[::-1]

    def turned(q: Expr, E: list[Expr], orders: Orders) -> list[Expr]:
        """``sum_{m > i} (E_i x E_m) f_m`` with f differentiated."""
        out, behind = [], ca.DM(6, 1)
        for factor, e in zip(reversed(factors), reversed(E), strict=True):
            out.append(spatial.cross_motion(e, behind))
            behind = behind + e * factor.amount(q, orders)
        return out[::-1]

    def weighed(q: Expr, columns: list[Expr], orders: Orders) -> Expr:
        return sum((c * f.amount(q, orders) for c, f in zip(columns, factors, strict=True)), ca.DM(6, 1))

    def subspace(q: Expr) -> Expr:
        return ca.horzcat(*(weighed(q, carried(q), times(j)) for j in range(n)))

    def slices(q: Expr) -> Slices:
        E = carried(q)
        D = [turned(q, E, times(k)) for k in range(n)]

        def bent(k: int, l: int) -> list[Expr]:
            """D_l D_k E."""
            out, behind, moved = [], ca.DM(6, 1), ca.DM(6, 1)
            for i in reversed(range(len(factors))):
                f = factors[i].amount
                out.append(spatial.cross_motion(D[l][i], behind) + spatial.cross_motion(E[i], moved))
                behind = behind + E[i] * f(q, times(k))
                moved = moved + D[l][i] * f(q, times(k)) + E[i] * f(q, times(k, l))
            return out[::-1]

        def second(k: int, l: int) -> Expr:
            DD = bent(k, l)
            return ca.horzcat(*(weighed(q, DD, times(j)) + weighed(q, D[k], times(j, l)) + weighed(q, D[l], times(j, k))
                                + weighed(q, E, times(j, k, l)) for j in range(n)))

        return Slices([ca.horzcat(*(weighed(q, D[k], times(j)) + weighed(q, E, times(j, k)) for j in range(n))) for k in range(n)],
                      second)

    def bias(q: Expr, v: Expr) -> Expr:
        return sum((D @ v * v[k] for k, D in enumerate(slices(q).first)), ca.DM(6, 1))

    return {"transform": transform, "subspace": subspace, "bias": bias, "slices": slices}


def cumulative(u: Expr, order: int = 0) -> Expr:
    """The sum of all cubic B-splines from one on: 0 up to u = 0, 1 from u = 3 on; or its derivative of order up to 3."""
    if order < 3:
        u = ca.fmin(u, 3)  # exact beyond
    return sum(weight * truncated_cube(u - knot, order) for knot, weight in enumerate((1, -3, 3, -1))) / 6


def basis(u: Expr, order: int = 0) -> Expr:
    """The cubic B-spline on [0, 4], or its derivative of order up to 3."""
    return cumulative(u, order) - cumulative(u - 1, order)


def _record(name: str, fields: dict[str, Any], names: str, ends: tuple[float, ...]) -> JointKind:
    def random(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return sample_box(rng, np.where(np.isfinite(lower), lower, 0.0), np.where(np.isfinite(upper), upper, ends), 1.0)

    n = len(ends)
    return JointKind(name=name, nq=n, nv=n, q_names=tuple(names), v_names=tuple(f"d{x}" for x in names), neutral=(0.0,) * n,
                     random=random, angular=(False,) * n, coordinate_units=("",) * n, **fields, **vector_space(n))


def _curve(joint: Any) -> JointKind:
    """n frames, coordinate s in [0, n - 3], one unit from frame to frame; the pose has continuous second derivatives."""
    poses = [se3.Pose(ca.DM(p.rotation), ca.DM(p.position)) for p in joint.frames]
    if len(poses) < 4:
        raise ValueError(f"a curve needs at least four frames, got {len(poses)}")
    for k, frame in enumerate(joint.frames):
        R = np.asarray(frame.rotation, float)
        if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-8) or np.linalg.det(R) < 0:
            raise ValueError(f"frame {k} of the curve has no rotation matrix")
    steps = [np.asarray(se3.log(se3.compose(se3.inverse(a), b))).ravel() for a, b in zip(poses[:-1], poses[1:], strict=True)]

    def progress(k: int) -> Callable[[Expr, Orders], Expr]:
        return lambda q, orders: cumulative(q[0] - k + 2, orders[0])

    factors = [Factor(step, progress(k)) for k, step in enumerate(steps)]
    start = Transform(constant(poses[0].R), constant(poses[0].p))
    return _record("frame_spline", _product(start, factors, 1), "s", (len(poses) - 3.0,))


def _surface(joint: Any) -> JointKind:
    """A grid of at least 4 x 4 points of six numbers, translations [m] then small turns [rad] about x, y, z one after the other;
    coordinates in [0, rows - 3] x [0, columns - 3]."""
    try:
        grid = np.array(joint.grid, float)
    except ValueError:
        raise ValueError("rows of a surface's grid differ in length") from None
    if grid.ndim != 3 or grid.shape[2] != 6 or min(grid.shape[:2]) < 4 or not np.all(np.isfinite(grid)):
        raise ValueError(f"a surface needs a grid of at least 4 x 4 points of six finite numbers, got shape {grid.shape}")

    def height(weights: np.ndarray) -> Callable[[Expr, Orders], Expr]:
        def amount(q: Expr, orders: Orders) -> Expr:
            columns = [basis(q[i] - ca.DM(range(weights.shape[i])) + 3, orders[i]) for i in range(2)]
            return ca.bilin(ca.DM(weights), columns[0], columns[1])
        return amount

    factors = [Factor(np.eye(6)[k], height(grid[:, :, k])) for k in range(6)]
    return _record("spline_surface", _product(spatial.identity(), factors, 2), "st", (grid.shape[0] - 3.0, grid.shape[1] - 3.0))


FRAME_SPLINE = Family("frame_spline", 0, _curve, takes=("frames",))
SPLINE_SURFACE = Family("spline_surface", 0, _surface, takes=("grid",))
