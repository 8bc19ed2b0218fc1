"""Joints of at most one degree of freedom about or along a fixed axis: fixed, revolute, continuous, prismatic."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynamics.joints.kind import Axes, Expr, JointKind, sample_box, vector_space
from dynamics.spatial import Transform, constant, identity, motion


def rotation_about(axis: tuple[float, ...], angle: Expr) -> Expr:
    """Rotation matrix about a constant unit axis, ``a a^T + cos (1 - a a^T) + sin a^`` (Rodrigues).

    Written so that an axis along a coordinate direction leaves only its cosine and sine in the graph.
    """
    a = np.asarray(axis, float)
    aa = np.outer(a, a)
    return constant(aa) + constant(np.eye(3) - aa) * ca.cos(angle) + constant(_hat(a)) * ca.sin(angle)


def _hat(a: np.ndarray) -> np.ndarray:
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def _revolute(axes: Axes, q: Expr) -> Transform:
    return Transform(rotation_about(axes[0], q), constant(np.zeros(3)))


def _prismatic(axes: Axes, q: Expr) -> Transform:
    return Transform(constant(np.eye(3)), constant(axes[0]) * q)


def _record(name: str, transform, subspace, angular: bool, span: float) -> JointKind:  # type: ignore[no-untyped-def]
    return JointKind(
        name=name, nq=1, nv=1, n_axes=1, q_names=("q",), v_names=("v",), neutral=(0.0,),
        transform=transform, subspace=subspace, bias=None,
        random=lambda rng, lower, upper: sample_box(rng, lower, upper, span), angular=(angular,), **vector_space(1),
    )


def _rotation_subspace(axes: Axes, q: Expr) -> Expr:
    return ca.sparsify(motion(ca.DM(3, 1), constant(axes[0])))


def _translation_subspace(axes: Axes, q: Expr) -> Expr:
    return ca.sparsify(motion(constant(axes[0]), ca.DM(3, 1)))


REVOLUTE = _record("revolute", _revolute, _rotation_subspace, True, np.pi)
CONTINUOUS = _record("continuous", _revolute, _rotation_subspace, True, np.pi)
PRISMATIC = _record("prismatic", _prismatic, _translation_subspace, False, 1.0)

FIXED = JointKind(
    name="fixed", nq=0, nv=0, n_axes=0, q_names=(), v_names=(), neutral=(),
    transform=lambda axes, q: identity(), subspace=lambda axes, q: ca.DM(6, 0), bias=None,
    random=lambda rng, lower, upper: np.zeros(0), **vector_space(0),
)
