"""Rotation about a point by a rotation vector: three coordinates whose rates are the velocities, q = angle times axis [rad].

S is the right Jacobian of SO(3), ``c1 1 - c2 q^ + c3 q q'`` with the Stumpff functions c of |q|^2: smooth at q = 0, singular at
full turns, where ``|q| = 2 pi``. ``reparametrised`` keeps |q| within pi. Source: Gallego and Yezzi 2015 for dR/dq; the form in
Stumpff functions, their derivatives ``2 dc_k/ds = k c_{k+2} - c_{k+1}`` and the second derivatives have no quotient that vanishes.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dynamics.joints.kind import Expr, Family, JointKind, Slices, vector_space
from dynamics.lie import rotation_vector, series, so3
from dynamics.spatial import Transform, constant, motion

_ZERO, _EYE = ca.DM(3, 3), ca.DM.eye(3)


def _slices(q: Expr) -> Slices:
    c = series.stumpff(ca.dot(q, q), 7)
    # along e_k: D_k c_m = t_m q_k, and D_l t_m = u_m q_l
    t = [m * c[m + 2] - c[m + 1] for m in range(6)]
    u = [m * t[m + 2] - t[m + 1] for m in range(4)]
    hat, square, units = so3.hat(q), q @ q.T, [_EYE[:, k] for k in range(3)]

    def mixed(k: int) -> Expr:
        return units[k] @ q.T + q @ units[k].T

    def first(k: int) -> Expr:
        return q[k] * (t[1] * _EYE - t[2] * hat + t[3] * square) - c[2] * so3.hat(units[k]) + c[3] * mixed(k)

    def second(k: int, l: int) -> Expr:
        even = t[1] * _EYE - t[2] * hat + t[3] * square if k == l else _ZERO
        return even + q[k] * q[l] * (u[1] * _EYE - u[2] * hat + u[3] * square) \
            - t[2] * (q[k] * so3.hat(units[l]) + q[l] * so3.hat(units[k])) + t[3] * (q[k] * mixed(l) + q[l] * mixed(k)) \
            + c[3] * (units[k] @ units[l].T + units[l] @ units[k].T)

    return Slices([motion(_ZERO, first(k)) for k in range(3)], lambda k, l: motion(_ZERO, second(k, l)))


def _bias(q: Expr, v: Expr) -> Expr:
    # S(q) is the left Jacobian at -q
    return motion(ca.DM(3, 1), rotation_vector.gamma_rate(-q, -v) @ v)


def _random(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    found = rng.standard_normal(3)
    found *= rng.uniform(0, np.pi) / np.linalg.norm(found)
    return np.clip(found, lower, upper)


def reparametrised(q: ArrayLike, v: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The same rotation and the same body twist with |q| <= pi: q [3] (rad), v = dq/dt [3]. Unchanged where that holds already.

    Raises ValueError at full turns, where the rates of one q are not those of the other.
    """
    q, v = np.asarray(q, float), np.asarray(v, float)
    angle = float(np.linalg.norm(q))
    if angle <= np.pi:
        return q, v
    turns = round(angle / (2 * np.pi))
    if abs(angle - 2 * np.pi * turns) < 1e-9:
        raise ValueError(f"|q| = {angle:.10g} rad is a full turn: the exponential map is singular there")
    new = (1 - 2 * np.pi * turns / angle) * q
    twist = so3.right_jacobian(q) @ v
    return new, np.asarray(ca.solve(so3.right_jacobian(new), twist)).ravel()


_RECORD = JointKind(
    name="exponential", nq=3, nv=3, q_names=("x", "y", "z"), v_names=("dx", "dy", "dz"), neutral=(0.0,) * 3,
    transform=lambda q: Transform(so3.exp(q), constant(np.zeros(3))),
    subspace=lambda q: motion(_ZERO, so3.right_jacobian(q)), bias=_bias, slices=_slices, random=_random,
    angular=(True,) * 3, **vector_space(3))
EXPONENTIAL = Family("exponential", 0, lambda joint: _RECORD)
