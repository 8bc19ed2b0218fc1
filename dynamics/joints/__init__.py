"""Joints: one factory per kind, one table. Adding a kind is adding a factory here, or ``register``; every algorithm and every loop
serves it."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from dynamics.errors import ModelError, near
from dynamics.joints.composite import COMPOSITE
from dynamics.joints.curve import SPLINE_CURVE
from dynamics.joints.euler import EULER
from dynamics.joints.exponential import EXPONENTIAL
from dynamics.joints.free import FREE_2D, FREE_3D, FREE_3D_REVERSED
from dynamics.joints.kind import Family, JointKind
from dynamics.joints.one_dof import CONTINUOUS, FIXED, PRISMATIC, REVOLUTE
from dynamics.joints.planar import PLANAR
from dynamics.joints.rotational import FREE_FLYER, SPHERICAL
from dynamics.joints.splines import FRAME_SPLINE, SPLINE_SURFACE
from dynamics.joints.translational import PLANAR_TRANSLATION, TRANSLATION
from dynamics.joints.universal import UNIVERSAL
from dynamics.tables import Table

KINDS = Table("a joint kind", (
    FIXED, REVOLUTE, CONTINUOUS, PRISMATIC, UNIVERSAL, PLANAR, SPHERICAL, FREE_FLYER, EULER, PLANAR_TRANSLATION, TRANSLATION,
    EXPONENTIAL, FREE_2D, FREE_3D, FREE_3D_REVERSED, SPLINE_CURVE, FRAME_SPLINE, SPLINE_SURFACE, COMPOSITE), ModelError)
FIELDS = ("chart", "parts", "points", "frames", "grid")  # of a Joint, beside its axes


def register(family: Family) -> None:
    """Let robots of this process have joints of one more kind, named as the family is. Raises ModelError where the name is taken.

    See ``JointKind`` for what a record tells; ``dynamics.joints.moving.from_pose`` makes S and its rates from the pose alone.
    """
    for field in family.takes:
        if field not in FIELDS:
            raise ModelError(f"no joint field {field!r}{near(field, FIELDS)}", element=f"joint kind {family.name!r}")
    KINDS.register(family)


def record(joint: Any) -> JointKind:
    """The record of a joint (``dynamics.model.records.Joint``), its parameters bound; equal joints share one.

    Raises ModelError for an unknown kind, and for parameters that are missing, wrong, or not those of the kind.
    """
    axes = tuple(tuple(float(x) for x in axis) for axis in joint.axes)
    try:
        return _record(joint.kind, axes, *(getattr(joint, field) for field in FIELDS))
    except ModelError as error:
        raise ModelError(error.message, element=error.element or f"joint {joint.name!r}") from None
    except ValueError as error:
        raise ModelError(str(error), element=f"joint {joint.name!r}") from error


@lru_cache(maxsize=4096)
def _record(name: str, axes: Any, *fields: Any) -> JointKind:
    if name not in KINDS:
        raise ModelError(f"unknown joint kind {name!r}{near(name, KINDS)}")
    family = KINDS[name]
    if len(axes) != family.n_axes:
        raise ModelError(f"kind {name!r} needs {family.n_axes} axes, got {len(axes)}")
    for axis in axes:
        if len(axis) != 3 or not abs(sum(x * x for x in axis) ** 0.5 - 1.0) < 1e-9:
            raise ModelError(f"axis {axis} must be a unit vector of three numbers")
    for field, value in zip(FIELDS, fields, strict=True):
        if bool(value) != (field in family.takes):
            raise ModelError(f"kind {name!r} needs {field}" if field in family.takes else f"kind {name!r} takes no {field}")
    return family.make(SimpleNamespace(axes=axes, **dict(zip(FIELDS, fields, strict=True))))


__all__ = ["KINDS", "Family", "JointKind", "record", "register"]
