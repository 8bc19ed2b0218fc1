"""The same robot in Pinocchio, and states in its order: quaternions (x, y, z, w), unbounded angles as (cos, sin)."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from dynamics.model import Model


def build(model: Model) -> pin.Model:
    """Body by body through Pinocchio's own joints (it has no universal joint, and mimic joints are left out here)."""
    twin = pin.Model()
    twin.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
    ids: list[int] = []
    for body in model.bodies:
        joint = body.joint
        make = {
            "revolute": lambda j: pin.JointModelRevoluteUnaligned(np.array(j.axes[0])),
            "continuous": lambda j: pin.JointModelRevoluteUnaligned(np.array(j.axes[0])),
            "prismatic": lambda j: pin.JointModelPrismaticUnaligned(np.array(j.axes[0])),
            "spherical": lambda j: pin.JointModelSpherical(),
            "planar": lambda j: pin.JointModelPlanar(),
            "free_flyer": lambda j: pin.JointModelFreeFlyer(),
        }[joint.kind]
        placement = pin.SE3(np.array(joint.placement.rotation), np.array(joint.placement.position))
        index = twin.addJoint(0 if body.parent < 0 else ids[body.parent], make(joint), placement, joint.name)
        inertia = body.inertia
        twin.appendBodyToJoint(
            index, pin.Inertia(inertia.mass, np.array(inertia.com), np.array(inertia.inertia)), pin.SE3.Identity())
        twin.addFrame(pin.Frame(body.name, index, 0, pin.SE3.Identity(), pin.FrameType.BODY))
        ids.append(index)
    for frame in model.frames:
        placement = pin.SE3(np.array(frame.placement.rotation), np.array(frame.placement.position))
        index = ids[frame.body] if frame.body >= 0 else 0
        twin.addFrame(pin.Frame(frame.name, index, 0, placement, pin.FrameType.OP_FRAME))
    armature = [x for b in model.bodies for x in (b.joint.armature or (0.0,) * model.kind(model.body_index(b.name)).nv)]
    twin.armature = np.array(armature)
    return twin


def configuration(model: Model, q: np.ndarray) -> np.ndarray:
    """Our q in Pinocchio's coordinates, for twins made by :func:`build`."""
    parts = []
    for i, body in enumerate(model.bodies):
        x, kind = np.asarray(q)[model.q_slice(i)], body.joint.kind
        if kind == "spherical":
            x = x[[1, 2, 3, 0]]
        elif kind == "free_flyer":
            x = np.r_[x[:3], x[[4, 5, 6, 3]]]
        elif kind == "planar":
            x = np.r_[x[:2], np.cos(x[2]), np.sin(x[2])]
        parts.append(x)
    return np.concatenate(parts)
