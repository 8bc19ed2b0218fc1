"""The same URDF in Pinocchio, with its coordinates matched to ours by joint name."""

from __future__ import annotations

import numpy as np


def build(pin, path, free_flyer: bool):
    if free_flyer:
        return pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    return pin.buildModelFromUrdf(str(path))


def configuration(pin, twin, model, q) -> np.ndarray:
    """Pinocchio's configuration for our q: quaternions x y z w, continuous joints as cosine and sine."""
    out = pin.neutral(twin)
    for i, body in enumerate(model.bodies):
        kind, name = body.joint.kind, body.joint.name
        if kind == "fixed":
            continue
        assert twin.existJointName(name), name
        joint = twin.joints[twin.getJointId(name)]
        part = np.asarray(q)[model.q_slice(i)]
        if body.joint.mimic is not None:
            part = body.joint.mimic.multiplier * part + body.joint.mimic.offset
        if kind == "free_flyer":
            part = np.array([*part[:3], *part[4:], part[3]])
        elif joint.nq == 2 and joint.nv == 1:
            part = np.array([np.cos(part[0]), np.sin(part[0])])
        assert joint.nq == len(part), name
        out[joint.idx_q:joint.idx_q + joint.nq] = part
    return out
