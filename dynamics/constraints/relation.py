"""A relation between frames, whatever moves them, with its derivatives to second order: functions of a handful of variables."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.constraints.constraint import FrameConstraint
from dynamics.lie.expression import Expr
from dynamics.spatial import Transform


class Relation(NamedTuple):
    """Functions of the frames alone, with z = (xi, V, A, W, t) and a displacement xi of each frame. value: k; rows: k and J x by z;
    effort: the wrenches [6 k] of ``w' rate``, their derivatives by xi and t; curvature: gradient and Hessian of phi by z."""

    value: ca.Function
    rows: ca.Function
    effort: ca.Function
    curvature: ca.Function


@lru_cache(maxsize=4096)
def relation(c: FrameConstraint, struck: bool, gravity: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Relation:
    """The relation of a record, differentiated once; struck: of an impact; gravity [3]: what A is less than accelerations by, as
    it is in recursions whose base accelerates against it."""
    k = len(c.frames)
    R, p, t = ca.SX.sym("R", 3, 3 * k), ca.SX.sym("p", 3, k), ca.SX.sym("t")
    xi, V, A, W = (ca.SX.sym(name, 6 * k) for name in ("xi", "V", "A", "W"))
    fixed = [R, p, V, A, W, t]
    poses, twists = c.unpacked(R, p, V)
    g, rate = (ca.densify(ca.SX(x)) for x in c.relation(poses, twists, t))
    fallen = A + ca.vertcat(*(ca.vertcat(x.R.T @ ca.DM(gravity), ca.DM(3, 1)) for x in poses)) if any(gravity) else A
    rows = rate if struck else ca.jacobian(rate, V) @ fallen + c.carried(R, p, V, t) + c.gains[1] * rate + c.gains[0] * g
    Jx = ca.substitute(ca.jacobian(rate, V), V, ca.SX.zeros(6 * k)) @ W
    # every frame displaced along its own axes, exact to second order
    moved = [_displaced(x, s) for x, s in zip(poses, c.unpacked(R, p, xi)[1], strict=True)]
    rows, Jx, rate = ca.substitute([rows, Jx, rate], [R, p], [ca.horzcat(*(x.R for x in moved)), ca.horzcat(*(x.p for x in moved))])
    z, w, multipliers = ca.vertcat(xi, V, A, W, t), ca.SX.sym("w", g.shape[0]), ca.SX.sym("lambda", g.shape[0])
    wrench = ca.gradient(ca.dot(w, rate), V)
    H, gradient = ca.hessian(ca.dot(w, rows) - ca.dot(multipliers, Jx), z)

    def at_rest(name: str, inputs: list[Expr], outputs: list[Expr]) -> ca.Function:
        return ca.Function(name, inputs, ca.cse(ca.substitute(outputs, [xi], [ca.SX.zeros(6 * k)])))

    return Relation(at_rest("value", fixed, [rows]), at_rest("rows", fixed, [ca.jacobian(rows, z), ca.jacobian(Jx, z)]),
                    at_rest("effort", [*fixed, w], [wrench, ca.jacobian(wrench, xi), ca.jacobian(wrench, t)]),
                    at_rest("curvature", [*fixed, w, multipliers], [gradient, H]))


def _displaced(pose: Transform, xi: Expr) -> Transform:
    w, v = spatial.hat(spatial.angular(xi)), spatial.linear(xi)
    return Transform(pose.R @ (ca.SX.eye(3) + w + w @ w / 2), pose.p + pose.R @ (v + w @ v / 2))
