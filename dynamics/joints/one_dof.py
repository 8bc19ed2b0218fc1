"""Joints of at most one degree of freedom about or along a fixed axis: fixed, revolute, continuous, prismatic."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from dynamics.joints.kind import Expr, Family, JointKind, sample_box, vector_space
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


def _record(name: str, transform: Callable[[Expr], Transform], S: ca.DM, angular: bool, span: float) -> JointKind:
    return JointKind(
        name=name, nq=1, nv=1, q_names=("q",), v_names=("v",), neutral=(0.0,),
        transform=transform, subspace=lambda q: S, bias=None, group="line",
        random=lambda rng, lower, upper: sample_box(rng, lower, upper, span), angular=(angular,), **vector_space(1),
    )


def revolute(axis: tuple[float, ...], name: str = "revolute") -> JointKind:
    """Rotation about a unit axis through the origin of the joint frame."""
    return _record(name, lambda q: Transform(rotation_about(axis, q), constant(np.zeros(3))),
                   ca.sparsify(motion(ca.DM(3, 1), constant(axis))), True, np.pi)


def prismatic(axis: tuple[float, ...]) -> JointKind:
    """Translation along a unit axis."""
    return _record("prismatic", lambda q: Transform(constant(np.eye(3)), constant(axis) * q),
                   ca.sparsify(motion(constant(axis), ca.DM(3, 1))), False, 1.0)


_FIXED = JointKind(
    name="fixed", nq=0, nv=0, q_names=(), v_names=(), neutral=(),
    transform=lambda q: identity(), subspace=lambda q: ca.DM(6, 0), bias=None,
    random=lambda rng, lower, upper: np.zeros(0), **vector_space(0),
)
FIXED = Family("fixed", 0, lambda joint: _FIXED)
REVOLUTE = Family("revolute", 1, lambda joint: revolute(joint.axes[0]))
CONTINUOUS = Family("continuous", 1, lambda joint: revolute(joint.axes[0], "continuous"))
PRISMATIC = Family("prismatic", 1, lambda joint: prismatic(joint.axes[0]))
