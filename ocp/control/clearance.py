"""Distances between simple shapes carried by the robot, with gradients, for collision avoidance.

A ball, a capsule (all points within a radius of a segment) and a half-space. The distance between two shapes is that of their
cores (point, segment, plane) less the radii. Its gradient needs no derivative of the closest points: they move along the cores
at first order, so the rate of the distance is the relative velocity of the material points there, along the line between them.
Closest points of two segments: Ericson 2005, Real-Time Collision Detection, 5.1.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.kernels import Kernel, compile_kernel
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from ocp.control.task_kernel import RobotKey
from ocp.errors import ProblemError

Array = NDArray[np.float64]
Point = tuple[float, float, float]


@dataclass(frozen=True)
class Ball:
    """All points within ``radius`` (m) of ``centre`` [3] (m, axes of ``frame``)."""

    frame: str
    radius: float
    centre: Point = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Capsule:
    """All points within ``radius`` (m) of the segment from ``start`` to ``end`` [3] (m, axes of ``frame``)."""

    frame: str
    radius: float
    start: Point
    end: Point


@dataclass(frozen=True)
class HalfSpace:
    """The forbidden side of a plane through ``point`` [3] (m) of ``frame``; ``normal`` [3] points to the free side."""

    normal: Point
    point: Point = (0.0, 0.0, 0.0)
    frame: str = "world"


@dataclass(frozen=True)
class Clearance:
    """``first`` and ``second`` at least ``margin`` (m) apart. A half-space goes second."""

    first: Ball | Capsule
    second: Ball | Capsule | HalfSpace
    margin: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.first, HalfSpace):
            raise ProblemError("a half-space must be the second shape", where=f"clearance {self.name!r}")
        for shape in (self.first, self.second):
            if not isinstance(shape, HalfSpace) and not shape.radius >= 0.0:
                raise ProblemError(f"the radius must not be negative, got {shape.radius!r}", where=f"clearance {self.name!r}")
            if isinstance(shape, HalfSpace) and not np.linalg.norm(shape.normal) > 0.0:
                raise ProblemError("the normal has no direction", where=f"clearance {self.name!r}")


@dataclass(frozen=True, eq=False)
class ClearanceKernel:
    """kernel: q [nq] -> h [k] (m: distance less the required clearance, negative inside), G [k, nv] with dh/dt = G v; names [k]."""

    model: Model
    kernel: Kernel
    names: tuple[str, ...]

    def __call__(self, q: ArrayLike) -> tuple[Array, Array]:
        h, G = self.kernel(q)
        return np.atleast_1d(np.asarray(h, float)).reshape(-1), np.asarray(G, float).reshape(len(self.names), self.model.nv)


def compile_clearances(model: Model, clearances: Sequence[Clearance], mode: str = "auto") -> ClearanceKernel:
    """Compiled distances, kept for the next call. Raises UnknownNameError for frames, ProblemError for no clearance."""
    if not clearances:
        raise ProblemError("needs at least one clearance", where="compile_clearances")
    return _compiled(RobotKey(model), tuple(clearances), mode)


@lru_cache(maxsize=64)
def _compiled(robot: RobotKey, clearances: tuple[Clearance, ...], mode: Any) -> ClearanceKernel:
    model, q = robot.model, ca.SX.sym("q", robot.model.nq)
    values, gradients, names = [], [], []
    for clearance in clearances:
        for number, (h, G) in enumerate(_rows(model, q, clearance)):
            values.append(h - clearance.margin)
            gradients.append(G)
            names.append(clearance.name or f"{clearance.first.frame} and {clearance.second.frame}")
            if number:
                names[-1] += f" ({number + 1})"
    outputs = ca.cse([ca.densify(ca.vertcat(*values)), ca.densify(ca.vertcat(*gradients))])
    function = ca.Function("clearances", [q], outputs, ["q"], ["h", "G"])
    return ClearanceKernel(model, compile_kernel(function, mode), tuple(names))


def _rows(model: Model, q: Expr, clearance: Clearance) -> list[tuple[Expr, Expr]]:
    first = _core(model, q, clearance.first)
    if isinstance(clearance.second, HalfSpace):
        plane = clearance.second
        pose = alg.frame_pose(model, q, plane.frame)
        n = pose.R @ spatial.constant(np.asarray(plane.normal) / np.linalg.norm(plane.normal))
        origin = spatial.act_point(pose, spatial.constant(plane.point))
        # the ends decide: one smooth constraint for each
        rows = []
        for x in first:
            turning = _point_jacobian(model, q, plane.frame, x)  # of the point of the plane's body that is at x
            rows.append(
                (
                    ca.dot(n, x - origin) - clearance.first.radius,
                    n.T @ (_point_jacobian(model, q, clearance.first.frame, x) - turning),
                )
            )
        return rows
    second = _core(model, q, clearance.second)
    x, y = _closest(first, second)
    line = x - y
    length = ca.sqrt(ca.dot(line, line) + 1e-24)  # cores that meet have no direction: the gradient is zero there, not NaN
    relative = _point_jacobian(model, q, clearance.first.frame, x) - _point_jacobian(model, q, clearance.second.frame, y)
    return [(length - clearance.first.radius - clearance.second.radius, (line / length).T @ relative)]


def _core(model: Model, q: Expr, shape: Ball | Capsule) -> tuple[Expr, ...]:
    pose = alg.frame_pose(model, q, shape.frame)
    points = (shape.centre,) if isinstance(shape, Ball) else (shape.start, shape.end)
    return tuple(spatial.act_point(pose, spatial.constant(p)) for p in points)


def _point_jacobian(model: Model, q: Expr, frame: str, x: Expr) -> Expr:
    """J [3, nv] of the velocity of the material point of ``frame`` that is at x (world)."""
    if model.frame(frame).body < 0:
        return ca.SX(3, model.nv)
    J = alg.frame_jacobian(model, q, frame, "world_aligned")
    return spatial.linear(J) - spatial.hat(x - alg.frame_pose(model, q, frame).p) @ spatial.angular(J)


def _closest(first: tuple[Expr, ...], second: tuple[Expr, ...]) -> tuple[Expr, Expr]:
    """Closest points of two cores of one or two points each."""
    a1, a2 = first[0], second[0]
    if len(first) == 1 and len(second) == 1:
        return a1, a2
    if len(first) == 1:
        return a1, _on_segment(second, a1)
    if len(second) == 1:
        return _on_segment(first, a2), a2
    d1, d2, r = first[1] - a1, second[1] - a2, a1 - a2
    a, e, b, c, f = ca.dot(d1, d1), ca.dot(d2, d2), ca.dot(d1, d2), ca.dot(d1, r), ca.dot(d2, r)
    denominator = a * e - b * b
    parallel = denominator <= 1e-12 * a * e
    s = ca.if_else(parallel, 0.5, _unit_interval((b * f - c * e) / ca.if_else(parallel, 1.0, denominator)))
    t = _unit_interval((b * s + f) / e)
    s = _unit_interval((b * t - c) / a)
    return a1 + s * d1, a2 + t * d2


def _on_segment(segment: tuple[Expr, ...], x: Expr) -> Expr:
    d = segment[1] - segment[0]
    return segment[0] + _unit_interval(ca.dot(x - segment[0], d) / ca.dot(d, d)) * d


def _unit_interval(value: Expr) -> Expr:
    return ca.fmin(ca.fmax(value, 0.0), 1.0)
