"""Universal joint: rotation about a first axis, then about a second axis fixed in the intermediate frame."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics.joints.kind import Axes, Expr, JointKind, sample_box, vector_space
from dynamics.joints.one_dof import rotation_about
from dynamics.spatial import Transform, constant, motion


def _transform(axes: Axes, q: Expr) -> Transform:
    return Transform(rotation_about(axes[0], q[0]) @ rotation_about(axes[1], q[1]), constant(np.zeros(3)))


def _subspace(axes: Axes, q: Expr) -> Expr:
    # the first axis seen from the child turns with the second angle: S = [R2^T a1, a2], not constant
    first = rotation_about(axes[1], q[1]).T @ constant(axes[0])
    return motion(ca.DM(3, 2), ca.horzcat(first, constant(axes[1])))


def _bias(axes: Axes, q: Expr, v: Expr) -> Expr:
    # d/dt (R2^T a1) = -(a2 v2) x (R2^T a1), times v1
    first = rotation_about(axes[1], q[1]).T @ constant(axes[0])
    return motion(ca.DM(3, 1), -(ca.skew(constant(axes[1])) @ first) * (v[0] * v[1]))


UNIVERSAL = JointKind(
    name="universal", nq=2, nv=2, n_axes=2, q_names=("q1", "q2"), v_names=("v1", "v2"), neutral=(0.0, 0.0),
    transform=_transform, subspace=_subspace, bias=_bias,
    random=lambda rng, lower, upper: sample_box(rng, lower, upper, np.pi), angular=(True, True), **vector_space(2),
)
