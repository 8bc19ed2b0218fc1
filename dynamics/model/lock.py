"""A robot with some of its joints locked: fewer coordinates, the same bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dynamics.errors import ModelError, UnknownNameError
from dynamics.joints import record
from dynamics.model.model import Body, Joint, Model
from dynamics.model.rigid import compose, placement


def lock_joints(model: Model, values: Mapping[str, float | Sequence[float]]) -> Model:
    """The robot whose named joints are fixed at these values: joint name -> coordinates [nq of the joint] (rad, m; quaternions
    are scaled to unit length). Joints that follow a locked one are fixed with it.

    Bodies, frames and their numbers stay; named configurations lose the locked coordinates. Raises UnknownNameError for unknown
    joints, ModelError for joints that follow another or do not move, values of the wrong size, and positions outside limits.
    """
    joints = {body.joint.name: body.joint for body in model.bodies}
    held: dict[str, np.ndarray] = {}
    for name, given in values.items():
        if name not in joints:
            raise UnknownNameError("joint", name, list(joints))
        held[name] = _coordinates(joints[name], given)
    bodies, kept = [], []
    for i, body in enumerate(model.bodies):
        mimic = body.joint.mimic
        if mimic is not None and mimic.leader in held:
            bodies.append(_fixed(body, mimic.multiplier * held[mimic.leader] + mimic.offset))
            continue
        if body.joint.name in held:
            bodies.append(_fixed(body, held[body.joint.name]))
            continue
        bodies.append(body)
        if mimic is None:
            kept += list(range(model.q_slice(i).start, model.q_slice(i).stop))
    configurations = {name: tuple(q[k] for k in kept) for name, q in model.configurations.items()}
    return dataclasses.replace(model, bodies=tuple(bodies), configurations=configurations)


def _coordinates(joint: Joint, values: Any) -> np.ndarray:
    kind, where = record(joint), f"joint {joint.name!r}"
    if joint.mimic is not None:
        raise ModelError(f"follows {joint.mimic.leader!r}; lock that one", element=where)
    if not kind.nq:
        raise ModelError("is fixed already", element=where)
    q = np.atleast_1d(np.asarray(values, dtype=float))
    if q.shape != (kind.nq,) or not np.all(np.isfinite(q)):
        raise ModelError(f"is locked at {values!r}; expected {kind.nq} finite numbers ({', '.join(kind.q_names)})", element=where)
    for step in kind.chain:
        if step.kind.quaternion is not None:
            unit = q[step.coordinates][step.kind.quaternion]  # a view
            length = float(np.linalg.norm(unit))
            if not length > 0:
                raise ModelError("is locked at a quaternion of length zero", element=where)
            unit /= length
    for limit, sign in ((joint.limits.lower, 1), (joint.limits.upper, -1)):
        if limit is not None and np.any(sign * (q - np.asarray(limit)) < -1e-9):
            raise ModelError(f"is locked at {q.tolist()}, outside its limits {joint.limits.lower} ... {joint.limits.upper}",
                             element=where)
    return q


def _fixed(body: Body, q: np.ndarray) -> Body:
    joint = body.joint
    pose = record(joint).transform(ca.DM(q))
    at = compose(joint.placement, placement(np.array(ca.DM(pose.R)), np.array(ca.DM(pose.p)).ravel()))
    return dataclasses.replace(body, joint=Joint(joint.name, "fixed", at))
