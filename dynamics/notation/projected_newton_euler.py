"""Projected Newton-Euler equations: M, g and f as sums over bodies, projected by the Jacobians of their centres of mass.

Independent equations of motion, ``M du/dt - h = W lambda`` with ``h = f - g``: nothing here uses the recursions of
``mass_matrix`` or ``inverse_dynamics``. Source: Kindr cheat sheet, "Projected Newton-Euler equations". Mind the sign: this h
is what pushes (applied minus gyroscopic forces), the bias force of the rest of the package is ``tau - h``; and gravity is one
of the applied forces f.

velocity: ``house`` (v, base twist in base axes; any robot) or ``hybrid`` (u of :mod:`dynamics.algorithms.floating_base`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import floating_base, jacobian_rate, jacobians, kinematics, moving_frames, tree
from dynamics.errors import ModelError, near
from dynamics.lie.expression import Expr
from dynamics.model.model import Body, Model

VELOCITIES = ("house", "hybrid")


class Applied(NamedTuple):
    """A force [3] (N, world axes) at a point [3] (m, in the frame) and a torque [3] (N m, world axes) on a frame."""

    frame: str
    force: Expr = (0.0, 0.0, 0.0)
    point: Expr = (0.0, 0.0, 0.0)
    torque: Expr = (0.0, 0.0, 0.0)


def mass_matrix(model: Model, q: Expr, velocity: str = "house") -> Expr:
    """``M = sum J_COM^T m J_COM + J_R^T Theta J_R`` [nv, nv], all in body axes, where Theta is constant; plus the armature."""
    q = tree.as_column(q)
    M = ca.diag(tree.diagonal(model, "armature"))
    for body, J in zip(model.bodies, jacobians.body_jacobians(model, q), strict=True):
        J_com, J_R = _at_com(J, body)
        theta = spatial.constant(body.inertia.inertia)
        M = M + body.inertia.mass * (J_com.T @ J_com) + J_R.T @ theta @ J_R
    back, _ = _velocity(model, q, None, velocity)
    return M if back is None else back.T @ M @ back


def gyroscopic_force(model: Model, q: Expr, v: Expr, velocity: str = "house") -> Expr:
    """``g = sum J_COM^T m dJ_COM/dt u + J_R^T (Theta dJ_R/dt u + Omega x Theta Omega)`` [nv], Omega = J_R u in body axes.

    v is the velocity in the representation asked for.
    """
    q, v = tree.as_column(q), tree.as_column(v)
    back, back_rate = _velocity(model, q, v, velocity)
    house = v if back is None else back @ v
    total = tree.zeros(model.nv, 1, q, v)
    # dJ_u/dt u = dJ/dt v + J d(B^-1)/dt u where the velocity is hybrid
    extra = None if back_rate is None else back_rate @ v
    rates = jacobian_rate.body_jacobian_rates(model, q, house)
    for body, J, J_rate in zip(model.bodies, jacobians.body_jacobians(model, q), rates, strict=True):
        J_com, J_R = _at_com(J, body)
        linear, angular = (part @ house for part in _at_com(J_rate, body))
        omega = J_R @ house
        linear = linear + ca.cross(omega, J_com @ house)  # the rows turn with the body: derivative in world axes
        if extra is not None:
            linear, angular = linear + J_com @ extra, angular + J_R @ extra
        theta = spatial.constant(body.inertia.inertia)
        moment = theta @ angular + ca.cross(omega, theta @ omega)
        total = total + body.inertia.mass * (J_com.T @ linear) + J_R.T @ moment
    if extra is not None:
        total = total + ca.diag(tree.diagonal(model, "armature")) @ extra
    return total if back is None else back.T @ total


def applied_force(model: Model, q: Expr, applied: Sequence[Applied] = (), joint_force: Expr | None = None,
                  velocity: str = "house") -> Expr:
    """``f = sum J_Q^T f_Q + J_R^T t`` [nv], with the weight ``m g`` of every body at its centre of mass among the forces.

    joint_force [nv] (N or N m): actuation, added in model coordinates. Raises UnknownNameError.
    """
    q = tree.as_column(q)
    total = tree.zeros(model.nv, 1, q)
    if joint_force is not None:
        total = total + tree.as_column(joint_force)
    poses = kinematics.body_poses(model, q)
    for body, pose, J in zip(model.bodies, poses, jacobians.body_jacobians(model, q), strict=True):
        total = total + _at_com(J, body)[0].T @ (pose.R.T @ ca.DM(model.gravity)) * body.inertia.mass
    for item in applied:
        J_Q = moving_frames.point_jacobian(model, q, item.frame, tree.as_column(item.point))
        J_R = spatial.angular(jacobians.frame_jacobian(model, q, item.frame, "world_aligned"))
        total = total + J_Q.T @ tree.as_column(item.force) + J_R.T @ tree.as_column(item.torque)
    back, _ = _velocity(model, q, None, velocity)
    return total if back is None else back.T @ total


def combined_force(model: Model, q: Expr, v: Expr, applied: Sequence[Applied] = (), joint_force: Expr | None = None,
                   velocity: str = "house") -> Expr:
    """``h = f - g`` [nv] of ``M du/dt - h = W lambda``, damping of the joints included."""
    q, v = tree.as_column(q), tree.as_column(v)
    back, _ = _velocity(model, q, v, velocity)
    lost = ca.diag(tree.diagonal(model, "damping")) @ (v if back is None else back @ v)
    return applied_force(model, q, applied, joint_force, velocity) - gyroscopic_force(model, q, v, velocity) \
        - (lost if back is None else back.T @ lost)


def body_kinetic_energies(model: Model, q: Expr, v: Expr) -> Mapping[str, Expr]:
    """``m v_COM^2 / 2 + Omega^T Theta Omega / 2`` (J) of every body by name; the armature is not counted."""
    q, v = tree.as_column(q), tree.as_column(v)
    out = {}
    for body, J in zip(model.bodies, jacobians.body_jacobians(model, q), strict=True):
        J_com, J_R = _at_com(J, body)
        speed, omega = J_com @ v, J_R @ v
        theta = spatial.constant(body.inertia.inertia)
        out[body.name] = body.inertia.mass * ca.dot(speed, speed) / 2 + ca.dot(omega, theta @ omega) / 2
    return out


# ------------------------------------------------------------------------------------------------ pieces
def _at_com(J: Expr, body: Body) -> tuple[Expr, Expr]:
    """(J_COM, J_R), each [3, nv] in body axes, from a body's Jacobian at its origin; alike for the rate of a Jacobian."""
    return spatial.linear(J) - spatial.hat(spatial.constant(body.inertia.com)) @ spatial.angular(J), spatial.angular(J)


def _velocity(model: Model, q: Expr, v: Expr | None, velocity: str) -> tuple[Expr | None, Expr | None]:
    """(B^-1, d(B^-1)/dt) of a hybrid velocity, None for the model velocity. Raises ModelError."""
    if velocity not in VELOCITIES:
        raise ModelError(f"no velocity named {velocity!r}{near(velocity, VELOCITIES)}")
    if velocity == "house":
        return None, None
    back = floating_base.body_from_hybrid(model, q)
    return back, None if v is None else floating_base.body_from_hybrid_rate(model, q, back @ v)
