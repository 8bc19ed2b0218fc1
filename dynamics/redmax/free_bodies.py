"""Maximal coordinates: every body of a robot on its own, the joints as constraints between them.

Such a robot is a mechanism like any other, of free-flyers and closures; its velocities are the twists that J of
``dynamics.redmax.kinematics`` gives. At the level of velocities the joints are rows too: of the twist of a body relative to its
parent those that the joint does not allow. Source: Sueda, sections 1.10 and 1.12.

>>> from dynamics.model.synthetic import serial_chain
>>> robot = in_maximal_coordinates(serial_chain(2))  # simulated, or optimised, like any other
>>> robot.model.nv, [c.name for c in robot.constraints]
(12, ['j0', 'j1'])
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import body_poses, body_velocities, tree
from dynamics.constraints import Closure
from dynamics.errors import ModelError
from dynamics.lie import quaternion
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism
from dynamics.model.model import Body, Frame, Joint, Model

CLOSED_BY = {"fixed": "fixed", "revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic", "spherical": "spherical",
             "exponential": "spherical", "euler": "spherical", "planar": "planar", "free_2d": "planar"}
FREE = ("free_flyer", "free_3d", "free_3d_reversed")


def in_maximal_coordinates(model: Model) -> Mechanism:
    """The same bodies on free-flyers, and a closure for every joint, named as it. Armature, damping, limits of joints stay behind.

    Raises ModelError for a joint that no closure stands for, or one that follows another.
    """
    frames = list(model.frames)
    closures = []
    for body in model.bodies:
        joint, where = body.joint, f"joint {body.joint.name!r}"
        if joint.mimic is not None:
            raise ModelError("mimics another joint, which a loop closure cannot express", element=where)
        if joint.kind in FREE:
            continue
        if joint.kind not in CLOSED_BY:
            raise ModelError(f"kind {joint.kind!r} has no closure; known: {', '.join((*CLOSED_BY, *FREE))}", element=where)
        frames.append(Frame(f"{joint.name} seat", body.parent, joint.placement))
        axis = joint.axes[0] if joint.axes else (0.0, 0.0, 1.0)
        closures.append(Closure(joint.name, frames[-1].name, body.name, CLOSED_BY[joint.kind], tuple(axis)))  # type: ignore[arg-type]
    return Mechanism(replace(apart(model), frames=tuple(frames)), constraints=tuple(closures))


def apart(model: Model) -> Model:
    """The same bodies and frames on free-flyers."""
    bodies = tuple(Body(b.name, -1, Joint(f"{b.joint.name} free", "free_flyer"), b.inertia, b.geometry) for b in model.bodies)
    return Model(model.name, bodies, tuple(model.frames), model.gravity)


def maximal_state(model: Model, q: Expr, v: Expr) -> tuple[Expr, Expr]:
    """Coordinates [7n] and velocities [6n] of the same robot in maximal coordinates."""
    poses = body_poses(model, q)
    return (ca.vertcat(*(ca.vertcat(pose.p, quaternion.from_matrix(pose.R)) for pose in poses)),
            ca.vertcat(*body_velocities(model, q, v)))


def joint_rows(model: Model, q: Expr) -> Expr:
    """G [m, 6n] with ``G J = 0``: for every joint the rows of ``phi_i - X phi_parent`` that it does not allow, in the body's axes.

    Rows are dropped where S is made of unit vectors: hinge about z, all but the turn about z. Raises ModelError for a joint whose S
    moves, or that follows another.
    """
    n, q = len(model.bodies), tree.as_column(q)
    rows = [tree.zeros(0, 6 * n, q)]
    for i, body in enumerate(model.bodies):
        kind = model.kind(i)
        if kind.slices is not None or body.joint.mimic is not None:
            raise ModelError(f"the motion subspace of kind {kind.name!r} varies, or the joint mimics another: there are no "
                             "independent equations", element=f"joint {body.joint.name!r}")
        held = ca.DM(_complement(np.array(ca.DM(kind.subspace(ca.DM(kind.neutral))))))
        block = tree.zeros(held.shape[0], 6 * n, q)
        block[:, 6 * i:6 * i + 6] = held
        if body.parent >= 0:
            X = spatial.motion_to_child(tree.parent_transform(model, i, q), ca.DM.eye(6))
            block[:, 6 * body.parent:6 * body.parent + 6] = -held @ X
        rows.append(block)
    return ca.vertcat(*rows)


def joint_rows_drift(model: Model, q: Expr, twists: Expr) -> Expr:
    """``dG/dt phi`` [m] of :func:`joint_rows` along twists phi [6n]: ``d(-X)/dt phi_p = (phi_i - X phi_p) x X phi_p``."""
    q, twists = tree.as_column(q), tree.as_column(twists)
    out = [tree.zeros(0, 1, q, twists)]
    for i, body in enumerate(model.bodies):
        S = np.array(ca.DM(model.kind(i).subspace(ca.DM(model.kind(i).neutral))))
        held = ca.DM(_complement(S))
        if body.parent < 0:
            out.append(ca.DM(held.shape[0], 1))
            continue
        above = twists[6 * body.parent:6 * body.parent + 6]
        seen = spatial.motion_to_child(tree.parent_transform(model, i, q), above)
        out.append(held @ spatial.cross_motion(twists[6 * i:6 * i + 6] - seen, seen))
    return ca.vertcat(*out)


def _complement(S: np.ndarray) -> np.ndarray:
    """Rows [6 - k, 6] orthogonal to the columns of S [6, k]."""
    if np.all(np.isin(S, (0.0, 1.0))) and np.all(S.sum(axis=0) == 1.0):
        return np.eye(6)[S.sum(axis=1) == 0.0]
    return np.linalg.svd(S)[0][:, S.shape[1]:].T


def post_stabilised(mechanism: Mechanism, q: Expr, M: Expr) -> Expr:
    """The step d [nv] back to the constraints that is smallest in the metric M: ``q [+] d`` is off by the square of what q is off.

    Source: Cline and Pai 2003, "Post-stabilization for rigid body simulation with contact and constraints".
    """
    g = ca.vertcat(*(c.value(mechanism.model, q) for c in mechanism.constraints))
    J = ca.vertcat(*(c.jacobian(mechanism.model, q) for c in mechanism.constraints))
    across = ca.solve(ca.densify(M), ca.densify(J.T))
    # rows may repeat each other: the smallest solution of J d = -g is the same
    return across @ ca.solve(ca.densify(J @ across + 1e-12 * ca.trace(J @ across) * ca.DM.eye(J.shape[0])), -g)


__all__ = ["apart", "in_maximal_coordinates", "joint_rows", "joint_rows_drift", "maximal_state", "post_stabilised"]
