"""Joints with a unit quaternion (w, x, y, z): spherical (SO(3)) and free-flyer (SE(3)), velocities in the body frame."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics.joints.kind import Expr, Family, JointKind, sample_box
from dynamics.lie import quaternion, se3, so3
from dynamics.spatial import Transform, constant, motion

_W, _V = ("w", "x", "y", "z"), ("wx", "wy", "wz")


def _quaternion_jet(q: Expr, d: Expr) -> Expr:
    # second order of the quaternion exponential: (1 - |d|^2 / 8, d / 2)
    return quaternion.product(q, ca.vertcat(1 - ca.dot(d, d) / 8, d / 2))


_SPHERICAL = JointKind(
    name="spherical", nq=4, nv=3, q_names=_W, v_names=_V, neutral=(1.0, 0.0, 0.0, 0.0),
    transform=lambda q: Transform(quaternion.to_matrix(q), constant(np.zeros(3))),
    subspace=lambda q: ca.sparsify(motion(ca.DM(3, 3), ca.DM.eye(3))), bias=None,
    plus=quaternion.integrate, minus=quaternion.difference,
    rate=quaternion.rate_map, rate_inverse=quaternion.rate_map_inverse, jet=_quaternion_jet,
    transport=lambda d: so3.exp(-d), right_jacobian=so3.right_jacobian,
    random=lambda rng, lower, upper: quaternion.random(rng),
    is_vector_space=False, group="spherical", angular=(True, True, True), quaternion=slice(0, 4), coordinate_units=("",) * 4,
)


def _free_transform(q: Expr) -> Transform:
    return Transform(quaternion.to_matrix(q[3:7]), q[0:3])


def _free_rate(q: Expr) -> Expr:
    return ca.diagcat(quaternion.to_matrix(q[3:7]), quaternion.rate_map(q[3:7]))


def _free_rate_inverse(q: Expr) -> Expr:
    return ca.diagcat(quaternion.to_matrix(q[3:7]).T, quaternion.rate_map_inverse(q[3:7]))


def _free_jet(q: Expr, d: Expr) -> Expr:
    rho, theta = d[0:3], d[3:6]
    p = q[0:3] + quaternion.to_matrix(q[3:7]) @ (rho + ca.cross(theta, rho) / 2)
    return ca.vertcat(p, _quaternion_jet(q[3:7], theta))


def _free_random(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return np.concatenate([sample_box(rng, lower[:3], upper[:3], 1.0), quaternion.random(rng)])


_FREE_FLYER = JointKind(
    name="free_flyer", nq=7, nv=6, q_names=("px", "py", "pz", *_W), v_names=("vx", "vy", "vz", *_V),
    neutral=(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), transform=_free_transform,
    subspace=lambda q: ca.DM.eye(6), bias=None,
    plus=se3.integrate, minus=se3.difference, rate=_free_rate, rate_inverse=_free_rate_inverse, jet=_free_jet,
    transport=lambda d: se3.adjoint(se3.exp(-d)), right_jacobian=se3.right_jacobian,
    random=_free_random, is_vector_space=False, group="free", quaternion=slice(3, 7),
    angular=(False, False, False, True, True, True), coordinate_units=("m",) * 3 + ("",) * 4,
)
SPHERICAL = Family("spherical", 0, lambda joint: _SPHERICAL)
FREE_FLYER = Family("free_flyer", 0, lambda joint: _FREE_FLYER)
