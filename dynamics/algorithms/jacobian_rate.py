"""The matrix dJ/dt of a frame Jacobian along a motion, for any tree.

The columns of joint i in body coordinates are ``E_X_i S_i``; differentiating the motion transform gives
``dE_X_i/dt = E_X_i (v_i - i_X_E v_E) x`` (Traversaro and Saccon, Multibody dynamics notation, Eq. 37), and S_i itself turns
where the joint has a non-constant subspace. Columns act on the house velocity v (body twists of free-flyers and spherical
joints), so that ``d/dt (J v) = J a + dJ/dt v``.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import jacobians, kinematics, tree
from dynamics.joints.kind import part
from dynamics.model.model import Model

Expr = Any


def subspace_rate(model: Model, i: int, q: Expr, v: Expr) -> Expr | None:
    """``dS/dt`` [6, nv_i] of joint i in its own body coordinates, or None where S is constant.

    With respect to the model's velocity slice, so the multiplier of a mimic joint is inside.
    """
    kind, joint = model.kind(i), model.bodies[i].joint
    if kind.slices is None:
        return None
    first, own = kind.slices(tree.joint_configuration(model, i, q)).first, tree.joint_velocity(model, i, v)
    value = sum((D * own[k] for k, D in enumerate(first)), ca.DM(6, kind.nv))
    return value if joint.mimic is None else value * joint.mimic.multiplier


def frame_jacobian_rate(model: Model, q: Expr, v: Expr, frame: str, reference: str = "body") -> Expr:
    """``dJ/dt`` [6, nv] of :func:`dynamics.algorithms.jacobians.frame_jacobian` along the motion v [nv].

    reference: ``body`` (derivative of the left-trivialised Jacobian), ``world`` (right-trivialised, at the world origin) or
    ``world_aligned`` (mixed: rows are world axes at the frame's origin). Raises UnknownNameError, ModelError.
    """
    q, v = tree.as_column(q), tree.as_column(v)
    tree.check_sizes(model, q=(q, model.nq), v=(v, model.nv))
    named = model.frame(frame)
    W_H_E = kinematics.frame_pose(model, q, frame)
    J, rate = tree.zeros(6, model.nv, q, v), tree.zeros(6, model.nv, q, v)
    if named.body < 0:
        return kinematics.from_body(rate, W_H_E, reference)
    path = jacobians.support(model, named.body)
    poses, twists = kinematics.poses_of(model, q, path), kinematics.velocities_of(model, q, v, path)
    v_E = spatial.motion_to_child(tree.placement_transform(named.placement), twists[named.body])
    for i in path:
        E_H_i = spatial.compose(spatial.inverse(W_H_E), poses[i])
        S, vs = tree.coupled_subspace(model, i, q), model.v_slice(i)
        if S.shape[1] == 0:
            continue
        seen = twists[i] if reference == "world" else twists[i] - spatial.motion_to_child(E_H_i, v_E)
        own = spatial.cross_motion(seen, S)
        turning = subspace_rate(model, i, q, v)
        if turning is not None:
            own = own + turning
        J[:, vs] += spatial.motion_to_parent(E_H_i, S)
        rate[:, vs] += spatial.motion_to_parent(E_H_i, own)
    if reference == "world_aligned":
        rate = rate + rotated(spatial.angular(v_E), J)  # the axes in which the rows are read turn against the frame
    return kinematics.from_body(rate, W_H_E, reference)


def body_jacobian_rates(model: Model, q: Expr, v: Expr) -> list[Expr]:
    """``dJ/dt`` [6, nv] of every body in its own coordinates along v, by one recursion from the root.

    The derivative of ``J_i = i_X_p J_p + S_i``, with ``d(i_X_p)/dt = -(S_i v_i) x i_X_p``.
    """
    q, v = tree.as_column(q), tree.as_column(v)
    J = jacobians.body_jacobians(model, q)
    out: list[Expr] = []
    for i, body in enumerate(model.bodies):
        rate, vs = tree.zeros(6, model.nv, q, v), model.v_slice(i)
        if body.parent >= 0:
            X = tree.parent_transform(model, i, q)
            own = tree.coupled_subspace(model, i, q) @ part(v, vs)
            rate = rate + spatial.motion_to_child(X, out[body.parent]) \
                - spatial.cross_motion(own, spatial.motion_to_child(X, J[body.parent]))
        turning = subspace_rate(model, i, q, v)
        if turning is not None:
            rate[:, vs] += turning
        out.append(rate)
    return out


def rotated(omega: Expr, columns: Expr) -> Expr:
    """``omega x`` applied to the linear and to the angular part of motion vectors [6, k]."""
    turn = spatial.hat(omega)
    return spatial.motion(turn @ spatial.linear(columns), turn @ spatial.angular(columns))
