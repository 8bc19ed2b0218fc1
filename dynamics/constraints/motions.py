"""Constraints that depend on time or hold velocities alone: prescribed motions, skates, and whatever is written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import rate_matrix
from dynamics.constraints.constraint import ByContent, Constraint, FrameConstraint, misaligned, point
from dynamics.constraints.contact import check_axis
from dynamics.errors import ModelError, near
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform


def _derivative(path: ca.Function, t: Expr) -> Expr:
    """d path / dt, in the shape of the path."""
    s = ca.SX.sym("t")
    return ca.Function("derivative", [s], [ca.jtimes(path(s), s, 1)])(t)


def _check_function(name: str, function: ca.Function, inputs: tuple[int, ...], output: tuple[int, int] | None, form: str) -> None:
    """Raises ModelError where the shapes are others; output None: any column."""
    found = [function.size_in(i) for i in range(function.n_in())]
    fits = found == [(n, 1) for n in inputs] and function.n_out() == 1
    if not fits or (function.size_out(0) != output if output else function.size2_out(0) != 1 or function.size1_out(0) == 0):
        outputs = [function.size_out(i) for i in range(function.n_out())]
        wanted = f"{[(n, 1) for n in inputs]} -> {[output] if output else '[(m, 1)]'}"
        raise ModelError(f"needs a function {form} of shapes {wanted}, got {found} -> {outputs}", element=f"constraint {name!r}")


@dataclass(frozen=True, repr=False, eq=False)
class JointMotion(ByContent, Constraint):
    """A joint follows a function of time: its coordinates are ``path(t)``. The multipliers are the efforts that this takes.

    path: CasADi Function t [s] -> coordinates of the joint (rad or m). Joints on a Lie group (spherical, free-flyer, planar) follow
    by ``FrameMotion``.
    """

    name: str
    joint: str
    path: ca.Function

    def check(self, model: Model) -> None:
        where = f"constraint {self.name!r}"
        known = [b.joint.name for b in model.bodies if b.joint.mimic is None and b.joint.kind != "fixed"]
        if self.joint not in known:
            raise ModelError(f"no independent joint named {self.joint!r}{near(self.joint, known)}", element=where)
        kind = model.kind(model.joint_index(self.joint))
        if not kind.is_vector_space:
            raise ModelError(f"the coordinates of {self.joint!r} are no vector; prescribe the motion of its frame", element=where)
        _check_function(self.name, self.path, (1,), (kind.nq, 1), "t -> coordinates")

    def value(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        return q[model.q_slice(model.joint_index(self.joint))] - self.path(t)

    def jacobian(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        return ca.DM.eye(model.nv)[model.v_slice(model.joint_index(self.joint)), :]

    def rate(self, model: Model, q: Expr, v: Expr, t: Expr = 0.0) -> Expr:
        return v[model.v_slice(model.joint_index(self.joint))] - _derivative(self.path, t)

    def remaining(self, model: Model) -> Constraint | None:
        moving = any(b.joint.name == self.joint and b.joint.kind != "fixed" for b in model.bodies)
        return self if moving else None


@dataclass(frozen=True, repr=False, eq=False)
class FrameMotion(ByContent, FrameConstraint):
    """A frame follows a function of time, in its position, its rotation, or both. The multipliers are force and moment.

    position: Function t [s] -> world position [3] (m) of the frame's origin; rotation: Function t -> R [3, 3], the axes of the
    frame in the world; None: free.
    """

    name: str
    frame: str
    position: ca.Function | None = None
    rotation: ca.Function | None = None

    def check(self, model: Model) -> None:
        where = f"constraint {self.name!r}"
        if model.frame(self.frame).body < 0:
            raise ModelError(f"frame {self.frame!r} belongs to the world and does not move", element=where)
        if self.position is None and self.rotation is None:
            raise ModelError("prescribes neither position nor rotation", element=where)
        if self.position is not None:
            _check_function(self.name, self.position, (1,), (3, 1), "t -> position")
        if self.rotation is not None:
            _check_function(self.name, self.rotation, (1,), (3, 3), "t -> R")
            R = np.array(self.rotation(0.3))
            if not np.allclose(R @ R.T, np.eye(3), atol=1e-9) or np.linalg.det(R) < 0:
                raise ModelError("not a rotation matrix", element=where)

    @property
    def frames(self) -> tuple[str, ...]:
        return (self.frame,)

    def aligned(self, poses: Sequence[Transform], t: Expr) -> Expr:
        return ca.DM(0, 1) if self.rotation is None else (ca.trace(self.rotation(t).T @ poses[0].R) - 1) / 2

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        (R, p), twist = poses[0], twists[0]
        held, rates = [], []
        if self.position is not None:
            held.append(p - self.position(t))
            rates.append(R @ spatial.linear(twist) - _derivative(self.position, t))
        if self.rotation is not None:
            wanted = self.rotation(t)
            relative = wanted.T @ R
            prescribed = relative.T @ ca.inv_skew(wanted.T @ _derivative(self.rotation, t))
            away, rate = misaligned(relative, spatial.angular(twist) - prescribed)
            held.append(away)
            rates.append(rate)
        return ca.vertcat(*held), ca.vertcat(*rates)


@dataclass(frozen=True)
class Skate(FrameConstraint):
    """A blade or a thin wheel: a point of a frame does not move along an axis of the frame. Non-holonomic: it may get anywhere.

    position [3] (m) and axis [3] in the frame; the axis points sideways.
    """

    name: str
    frame: str
    axis: tuple[float, float, float]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def check(self, model: Model) -> None:
        if model.frame(self.frame).body < 0:
            raise ModelError(f"frame {self.frame!r} belongs to the world and does not move", element=f"constraint {self.name!r}")
        check_axis(self.name, "axis", self.axis)
        if len(self.position) != 3 or not np.all(np.isfinite(self.position)):
            raise ModelError(f"a point needs three finite coordinates, got {self.position}", element=f"constraint {self.name!r}")

    @property
    def velocity_rows(self) -> tuple[int, ...]:
        return (0,)

    @property
    def frames(self) -> tuple[str, ...]:
        return (self.frame,)

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        pose = poses[0]
        axis = spatial.constant(np.asarray(self.axis, float) / np.linalg.norm(self.axis))
        return ca.DM(1, 1), ca.dot(pose.R @ axis, point(pose, twists[0], self.position)[1])


@dataclass(frozen=True, repr=False, eq=False)
class PositionEquation(ByContent, Constraint):
    """``function(q, t) = 0`` [m]: any differentiable equation of positions and time. function: CasADi Function (q, t) -> g."""

    name: str
    function: ca.Function

    def check(self, model: Model) -> None:
        _check_function(self.name, self.function, (model.nq, 1), None, "(q, t) -> g")

    def value(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        return self.function(q, t)

    def jacobian(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        x, s = ca.SX.sym("q", model.nq), ca.SX.sym("t")
        return ca.Function("J", [x, s], [ca.jacobian(self.function(x, s), x) @ rate_matrix(model, x)])(q, t)

    def rate(self, model: Model, q: Expr, v: Expr, t: Expr = 0.0) -> Expr:
        x, w, s = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("t")
        along = ca.vertcat(rate_matrix(model, x) @ w, 1)
        return ca.Function("rate", [x, w, s], [ca.jtimes(self.function(x, s), ca.vertcat(x, s), along)])(q, v, t)


@dataclass(frozen=True, repr=False, eq=False)
class VelocityEquation(ByContent, Constraint):
    """``A(q, t) v = b(q, t)`` [m], written as ``function(q, v, t) = A v - b``. function: CasADi Function, affine in v."""

    name: str
    function: ca.Function

    def check(self, model: Model) -> None:
        _check_function(self.name, self.function, (model.nq, model.nv, 1), None, "(q, v, t) -> A v - b")
        q, v, t = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("t")
        A = ca.jacobian(self.function(q, v, t), v)
        for row in range(A.shape[0]):
            if ca.depends_on(A[row, :], v):
                raise ModelError(f"row {row} is not affine in v; velocity constraints have the form A(q) v = b(q, t)",
                                 element=f"constraint {self.name!r}")
            if A[row, :].is_zero():
                raise ModelError(f"row {row} does not depend on v; write it as a position constraint",
                                 element=f"constraint {self.name!r}")

    @property
    def velocity_rows(self) -> tuple[int, ...]:
        return tuple(range(self.function.size1_out(0)))

    def value(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        return ca.DM(self.function.size1_out(0), 1)

    def jacobian(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        x, w, s = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("t")
        A = ca.jacobian(self.function(x, w, s), w)
        return ca.Function("A", [x, s], ca.substitute([A], [w], [ca.SX.zeros(model.nv)]))(q, t)

    def rate(self, model: Model, q: Expr, v: Expr, t: Expr = 0.0) -> Expr:
        return self.function(q, v, t)
