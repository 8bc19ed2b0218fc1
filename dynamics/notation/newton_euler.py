"""Newton-Euler equations in maximal coordinates: every body cut free, every joint's reaction an unknown.

    I A + v x* I v = I g + f - sum over children of their f      6 equations of each body
    A = A_parent + S a + dS/dt v + v x S v                         6 of each joint: what it lets through
    S' f = tau - damping v - armature a                            one of each coordinate: what its motor gives

unknown are a [nv], the accelerations A [6] and the wrenches f [6] from parent to body: one linear system, no recursion and no
Jacobian. Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), section 3.3.2, in spatial vectors of each body.
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import kinematics, tree
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


class CutFree(NamedTuple):
    """acceleration a [nv]; bodies [6, n]: A = d/dt of each body twist, body coordinates; reactions [6, n]: wrench on each body
    from its parent at the body's origin, body coordinates (N, N m), what the motor gives included."""

    acceleration: Expr
    bodies: Expr
    reactions: Expr


def cut_free(model: Model, q: Expr, v: Expr, tau: Expr) -> CutFree:
    """Solve all bodies and joints at once, q [nq], v and tau [nv] (numbers, or MX). Mimic joints share the coordinate's
    equation."""
    q, v, tau = tree.as_column(q), tree.as_column(v), tree.as_column(tau)
    tree.check_sizes(model, q=(q, model.nq), v=(v, model.nv), tau=(tau, model.nv))
    n, nv = len(model.bodies), model.nv
    K, right = tree.zeros(12 * n + nv, 12 * n + nv, q, v), tree.zeros(12 * n + nv, 1, q, v, tau)
    twists, poses = kinematics.body_velocities(model, q, v), kinematics.body_poses(model, q)
    motors = slice(12 * n, 12 * n + nv)
    for i, body in enumerate(model.bodies):
        own, held = slice(6 * i, 6 * i + 6), slice(6 * (n + i), 6 * (n + i) + 6)  # rows of the body and its joint
        A, f = slice(nv + 6 * i, nv + 6 * i + 6), slice(nv + 6 * (n + i), nv + 6 * (n + i) + 6)  # columns of A and of f
        inertia = spatial.inertia_from_com(body.inertia.mass, body.inertia.com, body.inertia.inertia)
        I = ca.horzcat(*(spatial.apply_inertia(inertia, ca.DM.eye(6)[:, k]) for k in range(6)))
        gravity = spatial.motion(poses[i].R.T @ spatial.constant(model.gravity), spatial.constant((0.0, 0.0, 0.0)))
        K[own, A], K[own, f] = I, -ca.DM.eye(6)
        momentum = spatial.apply_inertia(inertia, twists[i])
        right[own] = spatial.apply_inertia(inertia, gravity) - spatial.cross_force(twists[i], momentum)
        X, S, vs = tree.parent_transform(model, i, q), tree.coupled_subspace(model, i, q), model.v_slice(i)
        K[held, A] = ca.DM.eye(6)
        K[held, vs] = -S
        bias = tree.joint_bias(model, i, q, v)
        right[held] = spatial.cross_motion(twists[i], S @ v[vs]) + (0 if bias is None else bias)
        if body.parent >= 0:
            above = slice(6 * body.parent, 6 * body.parent + 6)
            K[above, f] = ca.horzcat(*(spatial.force_to_parent(X, ca.DM.eye(6)[:, k]) for k in range(6)))
            K[held, slice(nv + above.start, nv + above.stop)] = \
                -ca.horzcat(*(spatial.motion_to_child(X, ca.DM.eye(6)[:, k]) for k in range(6)))
        K[slice(motors.start + vs.start, motors.start + vs.stop), f] = S.T
    K[motors, :nv] = ca.diag(tree.diagonal(model, "armature"))
    right[motors] = tau - tree.diagonal(model, "damping") * v
    x = ca.solve(K, right)
    return CutFree(x[:nv], ca.reshape(x[nv:nv + 6 * n], 6, n), ca.reshape(x[nv + 6 * n:], 6, n))
