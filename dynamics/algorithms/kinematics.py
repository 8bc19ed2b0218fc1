"""Forward kinematics: poses, twists and accelerations of bodies and frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import tree
from dynamics.algorithms.built import built_once
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform


def body_poses(model: Model, q: Expr) -> list[Transform]:
    """World pose ``W_H_B`` of every body. q: [nq]."""
    return list(poses_of(model, q, range(len(model.bodies))).values())


def poses_of(model: Model, q: Expr, bodies: Iterable[int]) -> dict[int, Transform]:
    """World poses of bodies by number, parents before their children: all of them, or those on the path to one (``support``)."""
    q = tree.as_column(q)
    tree.check_sizes(model, q=(q, model.nq))
    poses: dict[int, Transform] = {}
    for i in bodies:
        local, parent = tree.parent_transform(model, i, q), model.bodies[i].parent
        poses[i] = local if parent < 0 else spatial.compose(poses[parent], local)
    return poses


def support(model: Model, body: int) -> list[int]:
    """Bodies on the path from the root to ``body`` (included)."""
    path: list[int] = []
    while body >= 0:
        path.append(body)
        body = model.bodies[body].parent
    return path[::-1]


@built_once
def frame_pose(model: Model, q: Expr, frame: str) -> Transform:
    """World pose of a named frame (or body). Raises UnknownNameError."""
    named = model.frame(frame)
    offset = tree.placement_transform(named.placement)
    return offset if named.body < 0 else spatial.compose(
        poses_of(model, q, support(model, named.body))[named.body], offset)


def body_velocities(model: Model, q: Expr, v: Expr) -> list[Expr]:
    """Left-trivialised twist ``B_v_WB`` [6] of every body. RBDA (4.x), v_i = X v_parent + S v."""
    return list(velocities_of(model, q, v, range(len(model.bodies))).values())


def velocities_of(model: Model, q: Expr, v: Expr, bodies: Iterable[int]) -> dict[int, Expr]:
    """The same of bodies by number, as ``poses_of``."""
    q, v = tree.as_column(q), tree.as_column(v)
    tree.check_sizes(model, q=(q, model.nq), v=(v, model.nv))
    twists: dict[int, Expr] = {}
    for i in bodies:
        twists[i], parent = tree.coupled_subspace(model, i, q) @ part(v, model.v_slice(i)), model.bodies[i].parent
        if parent >= 0:
            twists[i] = spatial.motion_to_child(tree.parent_transform(model, i, q), twists[parent]) + twists[i]
    return twists


def body_accelerations(model: Model, q: Expr, v: Expr, a: Expr) -> list[Expr]:
    """Spatial acceleration [6] of every body in body coordinates (derivative of the body twist), without gravity."""
    return list(accelerations_of(model, q, v, a, velocities_of(model, q, v, range(len(model.bodies)))).values())


def accelerations_of(model: Model, q: Expr, v: Expr, a: Expr, twists: Mapping[int, Expr]) -> dict[int, Expr]:
    """The same of the bodies that these twists are of."""
    q, v, a = tree.as_column(q), tree.as_column(v), tree.as_column(a)
    accelerations: dict[int, Expr] = {}
    for i in twists:
        S, vs = tree.coupled_subspace(model, i, q), model.v_slice(i)
        acc = S @ part(a, vs) + spatial.cross_motion(twists[i], S @ part(v, vs))
        bias = tree.joint_bias(model, i, q, v)
        if bias is not None:
            acc = acc + bias
        if (parent := model.bodies[i].parent) >= 0:
            acc = acc + spatial.motion_to_child(tree.parent_transform(model, i, q), accelerations[parent])
        accelerations[i] = acc
    return accelerations


def frame_velocity(model: Model, q: Expr, v: Expr, frame: str, reference: str = "body") -> Expr:
    """Twist [6] of a frame. reference: ``body`` (left-trivialised), ``world`` (right-trivialised, at the world origin)
    or ``world_aligned`` (mixed: at the frame's origin, world axes). Raises UnknownNameError, ModelError."""
    named = model.frame(frame)
    if named.body < 0:
        return ca.DM(6, 1)
    offset = tree.placement_transform(named.placement)
    local = spatial.motion_to_child(offset, velocities_of(model, q, v, support(model, named.body))[named.body])
    return from_body(local, frame_pose(model, q, frame), reference)


def from_body(B_v: Expr, W_H_B: Transform, reference: str) -> Expr:
    """Motion vectors [6, k] from body coordinates to the chosen reference."""
    if reference == "body":
        return B_v
    if reference == "world":
        return spatial.motion_to_parent(W_H_B, B_v)
    if reference == "world_aligned":
        return spatial.motion(W_H_B.R @ spatial.linear(B_v), W_H_B.R @ spatial.angular(B_v))
    from dynamics.errors import ModelError, near

    raise ModelError(f"unknown reference {reference!r}{near(reference, ('body', 'world', 'world_aligned'))}")
