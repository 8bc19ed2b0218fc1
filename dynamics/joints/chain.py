"""Joints that are others in a row: composite, universal, translations, rotations by Euler angles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.joints.kind import Expr, JointKind, Pose, Slices, Step, part, vector_space
from dynamics.spatial import Transform, constant


def chained(name: str, links: Sequence[tuple[JointKind, Pose]], q_names: Sequence[str], v_names: Sequence[str]
            ) -> JointKind:
    """The joint that moves by these joints one after the other, each placed in the frame of the one before.

    Coordinates and velocities are theirs in a row; so is the manifold.
    """
    steps = _steps(links)
    kinds = [step.kind for step in steps]
    manifold = vector_space(sum(k.nv for k in kinds)) if all(k.is_vector_space for k in kinds) else _manifold(steps)
    nq, nv = sum(k.nq for k in kinds), sum(k.nv for k in kinds)
    varies = ca.SX(_bias(steps, ca.SX.sym("q", nq), ca.SX.sym("v", nv))).nnz() > 0
    return JointKind(
        name=name, nq=nq, nv=nv,
        q_names=tuple(q_names), v_names=tuple(v_names), neutral=tuple(x for k in kinds for x in k.neutral),
        transform=lambda q: _transform(steps, q), subspace=lambda q: _subspace(steps, q),
        bias=(lambda q, v: _bias(steps, q, v)) if varies else None,
        slices=(lambda q: _slices(steps, q)) if varies else None,
        random=lambda rng, lower, upper: np.concatenate(
            [s.kind.random(rng, lower[s.coordinates], upper[s.coordinates]) for s in steps]),
        is_vector_space=all(k.is_vector_space for k in kinds), angular=tuple(x for k in kinds for x in k.angular),
        coordinate_units=tuple(x for k in kinds for x in k.q_units), steps=steps, **manifold)


def _steps(links: Sequence[tuple[JointKind, Pose]]) -> tuple[Step, ...]:
    """Chains inside the chain are opened."""
    out: list[Step] = []
    q = v = 0
    for kind, pose in links:
        for k, inner in enumerate(kind.chain):
            out.append(Step(inner.kind, _compose(pose, inner.pose) if k == 0 else inner.pose, q + inner.q, v + inner.v))
        q, v = q + kind.nq, v + kind.nv
    return tuple(out)


def _compose(a: Any, b: Any) -> Pose:
    if Pose(*b) == Pose():
        return Pose(a.rotation, a.position)
    R = np.asarray(a.rotation)
    p = np.asarray(a.position) + R @ np.asarray(b.position)
    return Pose(tuple(map(tuple, (R @ np.asarray(b.rotation)).tolist())), tuple(p.tolist()))


def _pose(step: Step, q: Expr) -> Transform:
    moved = step.kind.transform(part(q, step.coordinates))
    if step.pose == Pose():
        return moved
    return spatial.compose(Transform(constant(step.pose.rotation), constant(step.pose.position)), moved)


def _transform(steps: tuple[Step, ...], q: Expr) -> Transform:
    total = _pose(steps[0], q)
    for step in steps[1:]:
        total = spatial.compose(total, _pose(step, q))
    return total


def _subspace(steps: tuple[Step, ...], q: Expr) -> Expr:
    S = steps[0].kind.subspace(part(q, steps[0].coordinates))
    for step in steps[1:]:
        S = ca.horzcat(spatial.motion_to_child(_pose(step, q), S), step.kind.subspace(part(q, step.coordinates)))
    return S


def _bias(steps: tuple[Step, ...], q: Expr, v: Expr) -> Expr:
    """The acceleration of the last frame while all velocities stay."""
    twist, total = ca.DM(6, 1), ca.DM(6, 1)
    for step in steps:
        pose, own_q, own_v = _pose(step, q), part(q, step.coordinates), part(v, step.velocities)
        own = ca.mtimes(step.kind.subspace(own_q), own_v)
        above = spatial.motion_to_child(pose, twist)
        total = spatial.motion_to_child(pose, total) + spatial.cross_motion(above, own)
        if step.kind.bias is not None:
            total = total + step.kind.bias(own_q, own_v)
        twist = above + own
    return total


def _slices(steps: tuple[Step, ...], q: Expr) -> Slices:
    """With C the columns of S: a joint k carries the columns of all joints before it, ``D_k C_j = C_j x C_k``; those of its own
    step have the slices of that step, and those after it do not feel it. Once more for the second derivatives."""
    C, after = _subspace(steps, q), spatial.identity()
    n = C.shape[1]
    own: dict[int, Slices] = {}
    for a in reversed(range(len(steps))):
        step = steps[a]
        if step.kind.slices is not None:
            known = step.kind.slices(part(q, step.coordinates))
            own[a] = _carried(known, after)
        after = spatial.compose(_pose(step, q), after)
    owner = [(a, k) for a, step in enumerate(steps) for k in range(step.kind.nv)]

    def first(k: int, j: int) -> Expr:
        (at_j, c_j), (at_k, c_k) = owner[j], owner[k]
        if at_j < at_k:
            return spatial.cross_motion(C[:, j], C[:, k])
        return own[at_j].first[c_k][:, c_j] if at_j == at_k and at_j in own else ca.DM(6, 1)

    D = [[first(k, j) for j in range(n)] for k in range(n)]

    def second(k: int, l: int, j: int) -> Expr:
        (at_j, c_j), (at_k, c_k), (at_l, c_l) = owner[j], owner[k], owner[l]
        if at_j < at_k:
            return spatial.cross_motion(D[l][j], C[:, k]) + spatial.cross_motion(C[:, j], D[l][k])
        if at_j > at_k or at_l < at_j:
            return ca.DM(6, 1)
        if at_l > at_j:
            return spatial.cross_motion(D[k][j], C[:, l])
        return own[at_j].second(c_k, c_l)[:, c_j] if at_j in own else ca.DM(6, 1)

    return Slices([ca.horzcat(*row) for row in D], lambda k, l: ca.horzcat(*(second(k, l, j) for j in range(n))))


def _carried(known: Slices, after: Transform) -> Slices:
    """Seen from a frame that moves with the joint."""
    return Slices([spatial.motion_to_child(after, x) for x in known.first],
                  lambda k, l: spatial.motion_to_child(after, known.second(k, l)))


def _manifold(steps: tuple[Step, ...]) -> dict[str, Any]:
    def row(pieces: Callable[[Step], Expr]) -> Expr:
        return ca.vertcat(*(pieces(s) for s in steps))

    def blocks(pieces: Callable[[Step], Expr]) -> Expr:
        return ca.diagcat(*(pieces(s) for s in steps))

    return {
        "plus": lambda q, d: row(lambda s: s.kind.plus(part(q, s.coordinates), part(d, s.velocities))),
        "minus": lambda q0, q1: row(lambda s: s.kind.minus(part(q0, s.coordinates), part(q1, s.coordinates))),
        "rate": lambda q: blocks(lambda s: s.kind.rate(part(q, s.coordinates))),
        "rate_inverse": lambda q: blocks(lambda s: s.kind.rate_inverse(part(q, s.coordinates))),
        "jet": lambda q, d: row(lambda s: s.kind.jet(part(q, s.coordinates), part(d, s.velocities))),
        "transport": lambda d: blocks(lambda s: s.kind.transport(part(d, s.velocities))),
        "right_jacobian": lambda d: blocks(lambda s: s.kind.right_jacobian(part(d, s.velocities))),
    }
