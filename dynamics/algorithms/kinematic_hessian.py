"""The kinematic Hessian: derivative of a frame Jacobian in every direction of the configuration's tangent space.

``H_k = dJ/dq_k`` is the derivative of J along ``q [+] s e_k`` (right perturbation, body frame) at s = 0, so it is defined on
floating bases and spherical joints alike and ``dJ/dt = sum_k H_k v_k``. With columns J_i of joint I and direction k of
joint K, both on the way from the root to the frame,

    world (right-trivialised):  H_k,i = J_k x J_i             K before I, or K = I;  0 otherwise
    body (left-trivialised):    H_k,i = J_i x J_k             K strictly after I;    0 otherwise
    world_aligned (mixed):      H_k,i = [w_k x l_i; w_k x w_i] K before I, or K = I;  [w_i x l_k; 0] otherwise

with l, w the linear and angular parts of a column, plus the turning of a non-constant subspace when K = I. The first two are
Traversaro and Saccon, Multibody dynamics notation, Eqs. 37 and 41, column by column. The mixed form is that of the Kindr
cheat sheet, Eq. 15 (after Hourtash 2005, The kinematic Hessian and higher derivatives), which orders columns by their index;
with more than one degree of freedom in a joint that is wrong, and the joints have to be ordered instead, as here.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.algorithms import jacobian_rate, jacobians, kinematics, tree
from dynamics.model.model import Model

Expr = Any


def frame_hessian(model: Model, q: Expr, frame: str, reference: str = "body") -> tuple[Expr, ...]:
    """The slices ``H_k`` [6, nv], k = 0 .. nv - 1: column i of ``H_k`` is the derivative of ``J_i`` in direction k.

    reference: ``body``, ``world`` or ``world_aligned``, as in ``frame_jacobian``; :func:`tensor` stacks numeric slices.
    Raises UnknownNameError, ModelError.
    """
    q = tree.as_column(q)
    tree.check_sizes(model, q=(q, model.nq))
    named = model.frame(frame)
    W_H_E = kinematics.frame_pose(model, q, frame)
    chain = jacobians.support(model, named.body)
    slices = [tree.zeros(6, model.nv, q) for _ in range(model.nv)]
    poses = kinematics.poses_of(model, q, chain)
    columns, turns = [], []
    for i in chain:
        E_H_i = spatial.compose(spatial.inverse(W_H_E), poses[i])
        E_S = spatial.motion_to_parent(E_H_i, tree.coupled_subspace(model, i, q))
        columns.append(kinematics.from_body(E_S, W_H_E, reference))
        turns.append([None if turn is None else kinematics.from_body(spatial.motion_to_parent(E_H_i, turn), W_H_E, reference)
                      for turn in _turning(model, i, q)])
    for at_i, body_i in enumerate(chain):
        vi, J_i = model.v_slice(body_i), columns[at_i]
        for at_k, body_k in enumerate(chain):
            for k in range(columns[at_k].shape[1]):
                change = _pair(columns[at_k][:, k], J_i, at_k <= at_i, reference)
                own = turns[at_i][k] if at_k == at_i else None
                # joints may share a slice when one mimics another on the same chain: accumulate
                for part in (change, own):
                    if part is not None:
                        slices[model.v_slice(body_k).start + k][:, vi] += part
    return tuple(slices)


def _pair(J_k: Expr, J_i: Expr, before: bool, reference: str) -> Expr | None:
    """Derivative of the columns J_i [6, n] in direction k, for K before or equal to I, or after it; None for zero."""
    if reference == "world":
        return spatial.cross_motion(J_k, J_i) if before else None
    if reference == "body":
        return None if before else -spatial.cross_motion(J_k, J_i)
    if before:
        return jacobian_rate.rotated(spatial.angular(J_k), J_i)
    return spatial.motion(-(spatial.hat(spatial.linear(J_k)) @ spatial.angular(J_i)), ca.DM(3, J_i.shape[1]))


def _turning(model: Model, i: int, q: Expr) -> list[Expr | None]:
    """Derivative of joint i's own subspace [6, nv_i] in each of its directions, None where S is constant."""
    n = model.kind(i).nv
    out = []
    for k in range(n):
        direction = np.zeros(model.nv)
        direction[model.v_slice(i).start + k] = 1.0
        out.append(jacobian_rate.subspace_rate(model, i, q, ca.DM(direction)))
    return out


def contract(slices: tuple[Expr, ...], v: Expr) -> Expr:
    """``dJ/dt = sum_k H_k v_k`` [6, nv] from the slices and a velocity v [nv]."""
    v = tree.as_column(v)
    total = ca.DM(6, len(slices)) if slices else ca.DM(6, 0)
    for k, H_k in enumerate(slices):
        total = total + H_k * v[k]
    return total


def tensor(slices: tuple[Expr, ...]) -> np.ndarray:
    """Numeric slices as one array [6, nv, nv] indexed ``[row, column i of J, direction k]``."""
    if not slices:
        return np.zeros((6, 0, 0))
    return np.stack([np.array(ca.DM(H_k)) for H_k in slices], axis=2)
