"""Composite joint: any joints in a row, each placed in the frame of the one before, with massless bodies between."""

from __future__ import annotations

from typing import Any

from dynamics.joints.chain import chained
from dynamics.joints.kind import Family, JointKind

_OWN = ("armature", "damping", "friction", "mimic")  # what the joint has as a whole


def _make(joint: Any) -> JointKind:
    from dynamics.joints import record  # the table of all kinds, this one among them

    names = [part.name for part in joint.parts]
    if len(set(names)) < len(names):
        raise ValueError(f"parts of a composite joint need distinct names, got {', '.join(names)}")
    for part in joint.parts:
        if given := [field for field in _OWN if getattr(part, field)] + ["limits"] * any(vars(part.limits).values()):
            raise ValueError(f"part {part.name!r} gives {given[0]}, which belong to the composite joint")
    records = [(part, record(part)) for part in joint.parts]
    return chained("composite", [(kind, part.placement) for part, kind in records],
                   [f"{part.name}.{n}" if kind.nq > 1 else part.name for part, kind in records for n in kind.q_names],
                   [f"{part.name}.{n}" if kind.nv > 1 else part.name for part, kind in records for n in kind.v_names])


COMPOSITE = Family("composite", 0, _make, takes=("parts",))
