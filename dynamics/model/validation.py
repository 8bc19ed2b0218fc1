"""Checks made once, when a Model is built, so that no algorithm has to doubt its input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from dynamics.errors import ModelError, near
from dynamics.joints import record
from dynamics.model.records import BEYOND, Body, Frame, Joint, computable

# Inertia tensors in real robot files are rounded; a relative slack of 1e-6 separates rounding from nonsense.
INERTIA_SLACK = 1e-6


def validate(bodies: Sequence[Body], frames: Sequence[Frame], gravity: Sequence[float]) -> None:
    """Raise ModelError naming the body or joint at fault."""
    for what, names in (("body", [b.name for b in bodies]), ("joint", [b.joint.name for b in bodies]),
                        ("frame", [f.name for f in frames])):
        repeated = [n for n, count in Counter(names).items() if count > 1]
        if repeated:
            raise ModelError(f"{what} name {repeated[0]!r} appears {Counter(names)[repeated[0]]} times; names must differ")
    for i, body in enumerate(bodies):
        if not -1 <= body.parent < i:
            raise ModelError(f"parent index {body.parent} must be -1 (world) or a body before it (< {i})",
                             element=f"body {body.name!r}")
        _joint(body)
        _inertia(body)
    _mimics(bodies)
    for frame in frames:
        if not -1 <= frame.body < len(bodies):
            raise ModelError(f"refers to body index {frame.body}, which does not exist", element=f"frame {frame.name!r}")
    if len(gravity) != 3 or not computable(gravity):
        raise ModelError(f"gravity must be three finite numbers in m/s^2, got {gravity}")


def friction_note(joints: Iterable[Joint]) -> str | None:
    """Whose dry friction a file gives: it has no smooth law, and the algorithms leave it out. None where there is none."""
    names = [repr(joint.name) for joint in joints if any(joint.friction)]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"dry friction of {', '.join(names[:3])}{more} is ignored; the force joint_friction models it" if names else None


def _joint(body: Body) -> None:
    joint = body.joint
    where = f"joint {joint.name!r}"
    kind = record(joint)
    R = np.asarray(joint.placement.rotation, float)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-8) or np.linalg.det(R) < 0:
        raise ModelError("placement rotation is not a rotation matrix", element=where)
    if not computable(joint.placement.position):
        raise ModelError(f"the position {BEYOND}", element=where)
    for field, size in (("armature", kind.nv), ("damping", kind.nv), ("friction", kind.nv)):
        values = getattr(joint, field)
        if len(values) not in (0, size):
            raise ModelError(f"{field} needs {size} values (or none), got {len(values)}", element=where)
        if any(not computable(x) or x < 0 for x in values):
            raise ModelError(f"{field} must be finite and not negative, got {tuple(values)}", element=where)
    for field, size in (("lower", kind.nq), ("upper", kind.nq), ("velocity", kind.nv), ("effort", kind.nv)):
        values = getattr(joint.limits, field)
        if values is not None and len(values) != size:
            raise ModelError(f"limit {field} needs {size} values, got {len(values)}", element=where)
        if values is not None and any(np.isnan(x) for x in values):
            raise ModelError(f"limit {field} must not be NaN, got {tuple(values)}", element=where)
    lower, upper = joint.limits.lower, joint.limits.upper
    if lower is not None and upper is not None and any(a > b for a, b in zip(lower, upper, strict=True)):
        raise ModelError(f"lower limit {lower} exceeds upper limit {upper}", element=where)


def _inertia(body: Body) -> None:
    where, inertia = f"body {body.name!r}", body.inertia
    if not np.isfinite(inertia.mass) or inertia.mass < 0:
        raise ModelError(f"mass must be finite and not negative, got {inertia.mass}", element=where)
    tensor = np.asarray(inertia.inertia, float)
    if tensor.shape != (3, 3) or not np.all(np.isfinite(tensor)):
        raise ModelError("inertia must be a finite 3 x 3 matrix", element=where)
    if not computable(inertia.mass, inertia.com, tensor):
        raise ModelError(f"mass, mass centre and inertia {BEYOND}", element=where)
    if not np.allclose(tensor, tensor.T, rtol=1e-9, atol=1e-14):
        raise ModelError("inertia matrix is not symmetric", element=where)


def smallest_inertia(body: Body) -> float | None:
    """The negative eigenvalue [kg m^2] of an inertia that no rigid body has, or None for a physical one."""
    tensor = np.asarray(body.inertia.inertia, float)
    smallest = float(np.linalg.eigvalsh(tensor)[0])
    return smallest if smallest < -INERTIA_SLACK * max(1e-12, float(np.abs(tensor).max())) else None


def _mimics(bodies: Sequence[Body]) -> None:
    joints = {b.joint.name: b.joint for b in bodies}
    for joint in joints.values():
        if joint.mimic is None:
            continue
        where = f"joint {joint.name!r}"
        if joint.mimic.leader not in joints:
            raise ModelError(f"mimics unknown joint {joint.mimic.leader!r}{near(joint.mimic.leader, joints)}", element=where)
        leader = joints[joint.mimic.leader]
        if leader.mimic is not None:
            raise ModelError(f"mimics {leader.name!r}, which itself mimics {leader.mimic.leader!r}; "
                             "name the independent joint instead", element=where)
        if record(joint).nv != 1 or record(leader).nv != 1:
            raise ModelError(f"mimic needs joints of one degree of freedom, got {joint.kind!r} following {leader.kind!r}",
                             element=where)
