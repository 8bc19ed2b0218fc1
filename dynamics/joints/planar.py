"""Planar joint: SE(2) in the x-y plane of the joint frame, q = (x, y, theta), v = body twist (vx, vy, omega)."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics.joints.kind import Expr, Family, JointKind, sample_box
from dynamics.joints.one_dof import rotation_about
from dynamics.lie import se2
from dynamics.spatial import Transform, motion


def _transform(q: Expr) -> Transform:
    return Transform(rotation_about((0, 0, 1), q[2]), ca.vertcat(q[0], q[1], 0))


def _subspace(q: Expr) -> Expr:
    return ca.sparsify(motion(ca.DM([[1, 0, 0], [0, 1, 0], [0, 0, 0]]), ca.DM([[0, 0, 0], [0, 0, 0], [0, 0, 1]])))


def _rate(q: Expr) -> Expr:
    c, s = ca.cos(q[2]), ca.sin(q[2])
    return ca.blockcat([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def _jet(q: Expr, d: Expr) -> Expr:
    # second order of the SE(2) exponential: translation rho + theta x rho / 2
    x, y = d[0] - d[2] * d[1] / 2, d[1] + d[2] * d[0] / 2
    c, s = ca.cos(q[2]), ca.sin(q[2])
    return ca.vertcat(q[0] + c * x - s * y, q[1] + s * x + c * y, q[2] + d[2])


def _random(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return np.concatenate([sample_box(rng, lower[:2], upper[:2], 1.0), sample_box(rng, lower[2:], upper[2:], np.pi)])


_PLANAR = JointKind(
    name="planar", nq=3, nv=3, q_names=("x", "y", "theta"), v_names=("vx", "vy", "omega"),
    neutral=(0.0, 0.0, 0.0), transform=_transform, subspace=_subspace, bias=None,
    plus=se2.integrate, minus=se2.difference, rate=_rate, rate_inverse=lambda q: _rate(q).T, jet=_jet,
    transport=lambda d: se2.adjoint(se2.exp(-d)), right_jacobian=se2.right_jacobian,
    random=_random, is_vector_space=False, group="planar", angular=(False, False, True), coordinate_units=("m", "m", "rad"),
)
PLANAR = Family("planar", 0, lambda joint: _PLANAR)
