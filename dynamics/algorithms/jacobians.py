"""Geometric Jacobians of frames in every representation, and their drift term dJ/dt v."""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import kinematics, tree
from dynamics.algorithms.built import built_once
from dynamics.algorithms.kinematics import support
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform


@built_once
def frame_jacobian(model: Model, q: Expr, frame: str, reference: str = "body") -> Expr:
    """J [6, nv] with twist = J v. reference as in :func:`dynamics.algorithms.kinematics.frame_velocity`."""
    q = tree.as_column(q)
    named = model.frame(frame)
    poses = kinematics.poses_of(model, q, support(model, named.body))
    W_H_F = kinematics.frame_pose(model, q, frame)
    J = tree.zeros(6, model.nv, q)
    for i in poses:
        F_H_B = spatial.compose(spatial.inverse(W_H_F), poses[i])
        # several joints may share a slice when one mimics another on the same chain: accumulate
        J[:, model.v_slice(i)] += spatial.motion_to_parent(F_H_B, tree.coupled_subspace(model, i, q))
    return kinematics.from_body(J, W_H_F, reference)


def body_jacobians(model: Model, q: Expr) -> list[Expr]:
    """J [6, nv] of every body in its own coordinates, by one recursion from the root: ``J_i = i_X_p J_p + S_i``."""
    q = tree.as_column(q)
    tree.check_sizes(model, q=(q, model.nq))
    out: list[Expr] = []
    for i, body in enumerate(model.bodies):
        J = tree.zeros(6, model.nv, q)
        if body.parent >= 0:
            J = J + spatial.motion_to_child(tree.parent_transform(model, i, q), out[body.parent])
        J[:, model.v_slice(i)] += tree.coupled_subspace(model, i, q)
        out.append(J)
    return out


def relative_jacobian(model: Model, q: Expr, base: str, frame: str) -> Expr:
    """J [6, nv] of ``frame`` as an observer on ``base`` sees it, in the axes of ``base``.

    ``J v = [d/dt (B_o_F); B_w_BF]``: derivative of the components of F's origin in B, and angular velocity of F in B. Joints
    before both frames, a floating base among them, do not appear in it. Raises UnknownNameError.
    """
    q = tree.as_column(q)
    W_H_B, W_H_F = kinematics.frame_pose(model, q, base), kinematics.frame_pose(model, q, frame)
    B_H_F = spatial.compose(spatial.inverse(W_H_B), W_H_F)
    # B_v_BF = B_X_F F_v_WF - B_v_WB, moved from the origin of B to that of F. Common joints are left out, not cancelled:
    # what an observer cannot see must be structurally zero
    ours, theirs = support(model, model.frame(frame).body), support(model, model.frame(base).body)
    poses = kinematics.poses_of(model, q, sorted({*ours, *theirs}))
    J = tree.zeros(6, model.nv, q)
    for sign, bodies in ((1, [i for i in ours if i not in theirs]), (-1, [i for i in theirs if i not in ours])):
        for i in bodies:
            B_H_i = spatial.compose(spatial.inverse(W_H_B), poses[i])
            J[:, model.v_slice(i)] += sign * spatial.motion_to_parent(B_H_i, tree.coupled_subspace(model, i, q))
    at_F = Transform(ca.DM.eye(3), B_H_F.p)
    return spatial.motion_to_child(at_F, J)


@built_once
def frame_jacobian_drift(model: Model, q: Expr, v: Expr, frame: str, reference: str = "body") -> Expr:
    """``dJ/dt v`` [6]: the acceleration of the frame when a = 0.

    ``body``: derivative of the left-trivialised twist; ``world_aligned``: classical acceleration of the frame origin and
    angular acceleration, world axes; ``world``: derivative of the right-trivialised twist.
    """
    q, v = tree.as_column(q), tree.as_column(v)
    named = model.frame(frame)
    if named.body < 0:
        return ca.DM(6, 1)
    offset = tree.placement_transform(named.placement)
    zero = ca.DM(model.nv, 1)
    twists = kinematics.velocities_of(model, q, v, support(model, named.body))
    acceleration = spatial.motion_to_child(offset, kinematics.accelerations_of(model, q, v, zero, twists)[named.body])
    twist = spatial.motion_to_child(offset, twists[named.body])
    W_H_F = kinematics.frame_pose(model, q, frame)
    if reference == "world_aligned":
        # the frame's axes turn with omega: d/dt (R v) = R (dv + omega x v), for the linear and the angular part
        turn = spatial.angular(twist)
        acceleration = acceleration + spatial.motion(ca.cross(turn, spatial.linear(twist)), ca.DM(3, 1))
    return kinematics.from_body(acceleration, W_H_F, reference)
