"""Build a Model body by body, in any order of convenience; the Model itself stays frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dynamics.errors import ModelError, UnknownNameError, near
from dynamics.joints import record
from dynamics.model.model import (
    GRAVITY,
    Body,
    BodyInertia,
    Frame,
    Geometry,
    Joint,
    Limits,
    Mimic,
    Model,
    Placement,
)
from dynamics.model.rigid import compose, placement
from dynamics.model.validation import smallest_inertia

_WORLD = "world"


@dataclass
class Builder:
    """Collects bodies and frames; ``build()`` returns the frozen Model.

    >>> arm = Builder("pendulum")
    >>> arm.body("bob", parent="world", joint=Joint("hinge", "revolute", axes=((0.0, 1.0, 0.0),)),
    ...          inertia=BodyInertia(mass=1.0, com=(0.0, 0.0, -0.5)))
    0
    >>> arm.build().nv
    1
    """

    name: str
    gravity: tuple[float, ...] = GRAVITY
    configurations: dict[str, tuple[float, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _bodies: list[Body] = field(default_factory=list)
    _frames: list[Frame] = field(default_factory=list)
    _start: Model | None = None

    @classmethod
    def of(cls, model: Model) -> Builder:
        """A builder that holds a model already. Joints that are added are neutral in its named configurations, which is noted."""
        return cls(model.name, model.gravity, {}, list(model.notes), list(model.bodies), list(model.frames), model)

    def body(self, name: str, *, parent: str, joint: Joint, inertia: BodyInertia | None = None,
             geometry: Sequence[Geometry] = ()) -> int:
        """Add a body hanging from ``parent`` (a body or frame already added, or "world"); returns its index."""
        index, seat = self._seat(parent)
        placed = joint if seat == Placement() else replace(joint, placement=compose(seat, joint.placement))
        self._bodies.append(Body(name, index, placed, inertia or BodyInertia(), tuple(geometry)))
        return len(self._bodies) - 1

    def frame(self, name: str, *, body: str, placement: Placement | None = None) -> None:
        """Add a named frame fixed to ``body`` (a body, another frame or "world")."""
        index, seat = self._seat(body)
        self._frames.append(Frame(name, index, compose(seat, placement or Placement())))

    def build(self) -> Model:
        """The frozen Model. Raises ModelError naming what is wrong, inertias that no rigid body has included."""
        made = Model(self.name, tuple(self._bodies), tuple(self._frames), self.gravity, {}, tuple(self.notes))
        for body in self._bodies:
            if (negative := smallest_inertia(body)) is not None:
                raise ModelError(f"inertia about the centre of mass is not positive semidefinite (eigenvalue {negative:.3g})",
                                 element=f"body {body.name!r}")
        carried = made if self._start is None else _with_configurations(made, self._start)
        return replace(carried, configurations={**carried.configurations, **self.configurations})

    def _seat(self, name: str) -> tuple[int, Placement]:
        """The body that a name belongs to, -1 for the world, and the placement on it."""
        if name == _WORLD:
            return -1, Placement()
        for i, body in enumerate(self._bodies):
            if body.name == name:
                return i, Placement()
        for frame in self._frames:
            if frame.name == name:
                return frame.body, frame.placement
        known = [*(b.name for b in self._bodies), *(f.name for f in self._frames)]
        raise ModelError(f"parent body {name!r} has not been added yet{near(name, known)}")


def joint(name: str, kind: str, *, axes: Sequence[Sequence[float]] = (), position: Sequence[float] = (0.0, 0.0, 0.0),
          rotation: Any = None, **keywords: Any) -> Joint:
    """A joint from what is known of it: axes of any length but zero; position [3] (m), rotation [3, 3] of its frame in the parent.

    keywords: other fields of a Joint, and lower, upper, velocity, effort of its limits; one number for the damping, the friction,
    the armature or a limit holds for every coordinate. Raises ModelError, UnknownNameError for an unknown field.

    >>> joint("wrist", "universal", axes=[(1, 0, 0), (0, 2, 0)], damping=0.1).damping
    (0.1, 0.1)
    """
    units = []
    for axis in axes:
        length = math.hypot(*axis)  # of any numbers that a float holds
        if not 0.0 < length < math.inf:
            raise ModelError(f"axis {tuple(axis)} has no direction", element=f"joint {name!r}")
        units.append(tuple(float(x) / length for x in axis))
    placed = Placement(position=tuple(float(x) for x in position)) if rotation is None else placement(rotation, position)
    return _filled(Joint(name, kind, placed, tuple(units)), keywords)


def _filled(plain: Joint, keywords: Mapping[str, Any]) -> Joint:
    """The joint with the fields ``keywords``, those of its limits among them."""
    known = [f.name for f in fields(Joint) if f.name not in ("name", "limits")]
    ends = [f.name for f in fields(Limits)]
    for key in keywords:
        if key not in (*known, *ends):
            raise UnknownNameError("field of a joint", key, [*known, *ends])
    plainly = ("kind", "placement", "axes", "mimic", "chart", "parts", "frames")
    made = replace(plain, **{key: value for key, value in keywords.items() if key in plainly})
    if "points" in keywords:
        made = replace(made, points=tuple(tuple(float(x) for x in point) for point in keywords["points"]))
    if "grid" in keywords:
        made = replace(made, grid=tuple(tuple(tuple(float(x) for x in point) for point in row) for row in keywords["grid"]))
    shape = record(made)

    def spread(key: str) -> tuple[float, ...]:
        value = np.atleast_1d(np.asarray(keywords[key], float))
        size = shape.nq if key in ("lower", "upper") else shape.nv
        return tuple(np.repeat(value, size).tolist() if value.size == 1 else value.tolist())

    limits = {key: None if keywords[key] is None else spread(key) for key in ends if key in keywords}
    own: dict[str, Any] = {key: spread(key) for key in ("armature", "damping", "friction") if key in keywords}
    return replace(made, limits=replace(made.limits, **limits), **own)


def change_joint(model: Model, name: str, kind: str | None = None, **keywords: Any) -> Model:
    """The same robot with one joint changed; fields as for ``joint``.

    With a kind it is a joint of its own, of which only the placement is that of the old one unless it is given: limits, damping,
    friction and armature of the old one are gone, which is noted. Without a kind all stays but what is given. Raises as ``joint``.
    """
    i = model.joint_index(name)
    old = model.bodies[i].joint
    followers = [b.joint.name for b in model.bodies if b.joint.mimic is not None and b.joint.mimic.leader == name]
    if followers and kind is not None:
        raise ModelError(f"is followed by {', '.join(map(repr, followers))} and cannot change its kind", element=f"joint {name!r}")
    pose: dict[str, Any] = {"position": old.placement.position, "rotation": np.asarray(old.placement.rotation)}
    pose |= {key: keywords.pop(key) for key in tuple(pose) if key in keywords}
    if kind is None:
        if "axes" in keywords:
            keywords["axes"] = joint(name, old.kind, axes=keywords["axes"]).axes
        made = _filled(replace(old, placement=placement(pose["rotation"], pose["position"])), keywords)
    else:
        made = joint(name, kind, **pose, **keywords)
    lost = [what for what in ("damping", "friction", "armature", "mimic") if getattr(old, what) and not getattr(made, what)]
    lost += [f"{what} limit" for what, end in vars(old.limits).items() if end is not None and getattr(made.limits, what) is None]
    note = (f"joint {name!r} is {made.kind} now; gone: {', '.join(lost)}",) if lost else ()
    bodies = tuple(replace(b, joint=made) if k == i else b for k, b in enumerate(model.bodies))
    return _with_configurations(replace(model, bodies=bodies, configurations={}, notes=(*model.notes, *note)), model)


def _with_configurations(model: Model, before: Model) -> Model:
    """The model with the named configurations that ``before`` has; joints that are new or of another kind are neutral there."""
    if not before.configurations:
        return model
    old = {(body.joint.name, body.joint.kind, before.kind(i).q_names): before.q_slice(i) for i, body in enumerate(before.bodies)}
    new, found = [], {name: np.empty(model.nq) for name in before.configurations}
    for i, body in enumerate(model.bodies):
        kind, at = model.kind(i), old.get((body.joint.name, body.joint.kind, model.kind(i).q_names))
        if body.joint.mimic is not None or not kind.nq:
            continue
        new += [body.joint.name] if at is None else []
        for name, q in found.items():
            q[model.q_slice(i)] = kind.neutral if at is None else before.configurations[name][at]
    note = (f"joints {', '.join(map(repr, new))} are neutral in the named configurations",) if new else ()
    return replace(model, configurations={name: tuple(q.tolist()) for name, q in found.items()}, notes=(*model.notes, *note))


def replace_limits(model: Model, limits: Mapping[str, Limits]) -> Model:
    """The same robot with other limits for the named joints. Raises UnknownNameError."""
    changed = {model.joint_index(name): limit for name, limit in limits.items()}
    bodies = tuple(replace(b, joint=replace(b.joint, limits=changed[i])) if i in changed else b
                   for i, b in enumerate(model.bodies))
    return replace(model, bodies=bodies)


__all__ = ["Body", "BodyInertia", "Builder", "Frame", "Geometry", "Joint", "Limits", "Mimic", "Placement", "change_joint", "joint",
           "replace_limits"]
