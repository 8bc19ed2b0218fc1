"""Common parts of recursions over the tree: joint coordinates (mimic included), transforms and motion subspaces."""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca

from dynamics import spatial
from dynamics.errors import ModelError, UnknownNameError
from dynamics.joints.kind import part
from dynamics.lie.expression import Expr
from dynamics.model.model import Model, Placement
from dynamics.spatial import Transform


def placement_transform(placement: Placement) -> Transform:
    """A constant placement as a Transform with sparse constants."""
    return Transform(spatial.constant(placement.rotation), spatial.constant(placement.position))


def check_sizes(model: Model, **vectors: tuple[Expr, int]) -> None:
    """Raise ModelError when a vector has the wrong length; ``q=(q, model.nq)`` and so on."""
    for name, (value, size) in vectors.items():
        if value.shape != (size, 1):
            raise ModelError(f"{name} has shape {tuple(value.shape)}, expected ({size}, 1)", element=f"model {model.name!r}")


def as_column(value: Expr) -> Expr:
    """Accept CasADi columns, NumPy vectors and lists alike."""
    return value if isinstance(value, ca.SX | ca.MX | ca.DM) else ca.DM(value)


def zeros(rows: int, columns: int, *like: Expr) -> Expr:
    """An all-zero (structurally empty) matrix of the widest expression type among ``like``: MX over SX over DM."""
    for kind in (ca.MX, ca.SX):
        if any(isinstance(x, kind) for x in like):
            return kind(rows, columns)
    return ca.DM(rows, columns)


def joint_configuration(model: Model, i: int, q: Expr) -> Expr:
    """Coordinates of joint i, through its coupling when it mimics another joint."""
    own, mimic = part(q, model.q_slice(i)), model.bodies[i].joint.mimic
    return own if mimic is None else mimic.multiplier * own + mimic.offset


def joint_velocity(model: Model, i: int, v: Expr) -> Expr:
    """Velocity of joint i, through its coupling when it mimics another joint."""
    own, mimic = part(v, model.v_slice(i)), model.bodies[i].joint.mimic
    return own if mimic is None else mimic.multiplier * own


def parent_transform(model: Model, i: int, q: Expr) -> Transform:
    """Pose of body i in its parent body."""
    joint = model.bodies[i].joint
    moved = model.kind(i).transform(joint_configuration(model, i, q))
    return spatial.compose(placement_transform(joint.placement), moved)


def coupled_subspace(model: Model, i: int, q: Expr) -> Expr:
    """S [6, nv_i] with respect to the model's own velocity slice (a mimic joint's multiplier is inside)."""
    joint = model.bodies[i].joint
    S = model.kind(i).subspace(joint_configuration(model, i, q))
    return S if joint.mimic is None else S * joint.mimic.multiplier


def joint_bias(model: Model, i: int, q: Expr, v: Expr) -> Expr | None:
    """``dS/dt v`` [6] of joint i, or None where S is constant."""
    bias = model.kind(i).bias
    return None if bias is None else bias(joint_configuration(model, i, q), joint_velocity(model, i, v))


def wrench_by_body(model: Model, f_ext: Mapping[str, Expr] | None) -> dict[int, Expr]:
    """External wrenches by body index. Raises UnknownNameError for a body that the model does not have."""
    if not f_ext:
        return {}
    names = {b.name: i for i, b in enumerate(model.bodies)}
    for name in f_ext:
        if name not in names:
            raise UnknownNameError("body", name, names)
    return {names[name]: as_column(wrench) for name, wrench in f_ext.items()}


def diagonal(model: Model, which: str) -> ca.DM:
    """Stacked ``armature`` or ``damping`` [nv]; a mimic joint's share reaches its leader with the multiplier squared."""
    total = ca.DM(model.nv, 1)
    for i, body in enumerate(model.bodies):
        values = getattr(body.joint, which)
        if values:
            scale = body.joint.mimic.multiplier ** 2 if body.joint.mimic else 1.0
            total[model.v_slice(i)] += scale * ca.DM(values)
    return ca.sparsify(total)
