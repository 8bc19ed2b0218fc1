"""Floating bases: the hybrid velocity u of the robotics literature beside the model velocity v, and everything in terms of it.

The model velocity of a floating base is its body twist, ``[B_v_B; B_w_IB]``. Hutter et al. (Robot Dynamics lecture notes, ETH
Zurich, HS 2023, Eq. 2.261), the Kindr cheat sheet and MuJoCo use the hybrid ``u = [I_v_B; B_w_IB; joints]``: linear velocity of
the base origin in world axes, angular velocity in base axes. ``u = B(q) v`` with B orthogonal.

The floating base is the one body that hangs from the world by a free-flyer; it may stand anywhere in the tree's order, and the
other coordinates keep their indices.
"""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import configuration, jacobian_rate, jacobians, kinematic_hessian, kinematics, tree
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform


def base_index(model: Model) -> int:
    """Index of the floating base. Raises ModelError when there is none, or more than one."""
    found = [i for i, b in enumerate(model.bodies) if b.joint.kind == "free_flyer" and b.parent < 0]
    if len(found) != 1:
        names = ", ".join(repr(model.bodies[i].name) for i in found) or "none"
        raise ModelError(f"expected one body hanging from the world by a free_flyer joint, found {names}",
                         element=f"model {model.name!r}")
    return found[0]


def base_pose(model: Model, q: Expr) -> Transform:
    """World pose of the floating base: rotation C_IB [3, 3] and origin I_r_IB [3] (m)."""
    q = tree.as_column(q)
    tree.check_sizes(model, q=(q, model.nq))
    return tree.parent_transform(model, base_index(model), q)


# ------------------------------------------------------------------------------------------------ velocities
def _with_base_block(model: Model, block: Expr) -> Expr:
    """[nv, nv]: ``block`` [6, 6] in the base's slice, identity elsewhere."""
    vs = model.v_slice(base_index(model))
    return ca.diagcat(ca.DM.eye(vs.start), block, ca.DM.eye(model.nv - vs.stop))


def hybrid_from_body(model: Model, q: Expr) -> Expr:
    """B(q) [nv, nv] with ``u = B v``."""
    return _with_base_block(model, ca.diagcat(base_pose(model, q).R, ca.DM.eye(3)))


def body_from_hybrid(model: Model, q: Expr) -> Expr:
    """B(q)^-1 [nv, nv], its transpose: ``v = B^-1 u``."""
    return _with_base_block(model, ca.diagcat(base_pose(model, q).R.T, ca.DM.eye(3)))


def body_from_hybrid_rate(model: Model, q: Expr, v: Expr) -> Expr:
    """``d(B^-1)/dt`` [nv, nv] along the motion v (model velocity): ``dR^T/dt = -w^ R^T``."""
    R = base_pose(model, q).R
    omega = spatial.angular(tree.as_column(v)[model.v_slice(base_index(model))])
    return _base_only(model, ca.diagcat(-(spatial.hat(omega) @ R.T), ca.DM(3, 3)))


def hybrid_from_body_rate(model: Model, q: Expr, v: Expr) -> Expr:
    """``dB/dt`` [nv, nv] along the motion v (model velocity): ``dR/dt = R w^``."""
    R = base_pose(model, q).R
    omega = spatial.angular(tree.as_column(v)[model.v_slice(base_index(model))])
    return _base_only(model, ca.diagcat(R @ spatial.hat(omega), ca.DM(3, 3)))


def _base_only(model: Model, block: Expr) -> Expr:
    vs = model.v_slice(base_index(model))
    return ca.diagcat(ca.DM(vs.start, vs.start), block, ca.DM(model.nv - vs.stop, model.nv - vs.stop))


def hybrid_acceleration(model: Model, q: Expr, v: Expr, a: Expr) -> Expr:
    """``du/dt`` [nv] from v and a: world acceleration ``R (dv + w x v)`` of the base origin, ``B_psi = dB_w/dt``."""
    v, a = tree.as_column(v), tree.as_column(a)
    return hybrid_from_body(model, q) @ a + hybrid_from_body_rate(model, q, v) @ v


def body_acceleration(model: Model, q: Expr, u: Expr, u_dot: Expr) -> Expr:
    """The model's ``a = dv/dt`` [nv] from u and du/dt: inverse of :func:`hybrid_acceleration`."""
    u, u_dot = tree.as_column(u), tree.as_column(u_dot)
    back = body_from_hybrid(model, q)
    return back @ u_dot + body_from_hybrid_rate(model, q, back @ u) @ u


def rate_from_hybrid(model: Model, q: Expr) -> Expr:
    """F(q) [nq, nv] with ``dq/dt = F u``: identity for the position, ``H_bar^T / 2`` for the quaternion (Kindr)."""
    return configuration.rate_matrix(model, q) @ body_from_hybrid(model, q)


def hybrid_from_rate(model: Model, q: Expr) -> Expr:
    """F_bar(q) [nv, nq] with ``u = F_bar dq/dt``. ``F_bar F = 1``; ``F F_bar`` only projects onto the tangent space of the unit
    quaternions: a dq/dt that leaves them is not reproduced."""
    return hybrid_from_body(model, q) @ configuration.rate_matrix_inverse(model, q)


# ------------------------------------------------------------------------------------------------ Jacobians for u
def relative_position(model: Model, q: Expr, frame: str) -> Expr:
    """``B_r_BQ`` [3] (m): origin of ``frame`` seen from the base, in base axes; depends on the joints only."""
    return spatial.compose(spatial.inverse(base_pose(model, q)), kinematics.frame_pose(model, q, frame)).p


def spatial_jacobian(model: Model, q: Expr, frame: str) -> Expr:
    """``I_J_Q(q)`` [6, nv] with ``[I_v_Q; I_w_IQ] = I_J_Q u``, block by block (Kindr Eq. 14, lecture notes Eq. 2.268).

    ``[1, -C_IB B_r_BQ^, C_IB B_J_P; 0, C_IB, C_IB B_J_R]``. A frame that does not hang from the base has no base columns.
    """
    q = tree.as_column(q)
    base = base_index(model)
    vs, C = model.v_slice(base), base_pose(model, q).R
    named = model.frame(frame)
    if base not in jacobians.support(model, named.body):
        return jacobians.frame_jacobian(model, q, frame, "world_aligned")
    relative = jacobians.relative_jacobian(model, q, model.bodies[base].name, frame)
    columns = spatial.motion(C @ spatial.linear(relative), C @ spatial.angular(relative))
    arm = relative_position(model, q, frame)
    own = ca.blockcat([[ca.DM.eye(3), -(C @ spatial.hat(arm))], [ca.DM(3, 3), C]])
    return ca.horzcat(columns[:, :vs.start], own, columns[:, vs.stop:])


def spatial_jacobian_rate(model: Model, q: Expr, u: Expr, frame: str) -> Expr:
    """``d(I_J_Q)/dt`` [6, nv] along u, so that ``[I_a_Q; I_psi_Q] = I_J_Q du/dt + dI_J_Q/dt u``."""
    q, u = tree.as_column(q), tree.as_column(u)
    back = body_from_hybrid(model, q)
    v = back @ u
    J = jacobians.frame_jacobian(model, q, frame, "world_aligned")
    rate = jacobian_rate.frame_jacobian_rate(model, q, v, frame, "world_aligned")
    return rate @ back + J @ body_from_hybrid_rate(model, q, v)


def spatial_hessian(model: Model, q: Expr, frame: str) -> tuple[Expr, ...]:
    """Slices ``dI_J_Q/du_k`` [6, nv], k = 0 .. nv - 1: derivative of ``I_J_Q`` along the motion with u = e_k, so that
    ``dI_J_Q/dt = sum_k H_k u_k``. Base translations change nothing; base rotations turn what hangs from the base."""
    q = tree.as_column(q)
    back = body_from_hybrid(model, q)
    J = jacobians.frame_jacobian(model, q, frame, "world_aligned")
    house = kinematic_hessian.frame_hessian(model, q, frame, "world_aligned")
    slices = []
    for k in range(model.nv):
        direction = back[:, k]  # the model velocity of u = e_k
        slices.append(kinematic_hessian.contract(house, direction) @ back
                      + J @ body_from_hybrid_rate(model, q, direction))
    return tuple(slices)
