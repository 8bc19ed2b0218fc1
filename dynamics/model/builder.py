"""Build a Model body by body, in any order of convenience; the Model itself stays frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynamics.errors import ModelError
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

    def body(self, name: str, *, parent: str, joint: Joint, inertia: BodyInertia | None = None,
             geometry: Sequence[Geometry] = ()) -> int:
        """Add a body hanging from ``parent`` (a body already added, or "world"); returns its index."""
        self._bodies.append(Body(name, self._index(parent), joint, inertia or BodyInertia(), tuple(geometry)))
        return len(self._bodies) - 1

    def frame(self, name: str, *, body: str, placement: Placement | None = None) -> None:
        """Add a named frame fixed to ``body`` (or "world")."""
        self._frames.append(Frame(name, self._index(body), placement or Placement()))

    def build(self) -> Model:
        """The frozen Model. Raises ModelError naming what is wrong, inertias that no rigid body has included."""
        for body in self._bodies:
            if (negative := smallest_inertia(body)) is not None:
                raise ModelError(f"inertia about the centre of mass is not positive semidefinite (eigenvalue {negative:.3g})",
                                 element=f"body {body.name!r}")
        return Model(self.name, tuple(self._bodies), tuple(self._frames), self.gravity,
                     dict(self.configurations), tuple(self.notes))

    def _index(self, name: str) -> int:
        if name == _WORLD:
            return -1
        for i, body in enumerate(self._bodies):
            if body.name == name:
                return i
        raise ModelError(f"parent body {name!r} has not been added yet (added: {[b.name for b in self._bodies]})")


def replace_limits(model: Model, limits: Mapping[str, Limits]) -> Model:
    """The same robot with other limits for the named joints. Raises UnknownNameError."""
    from dataclasses import replace

    changed = {model.joint_index(name): limit for name, limit in limits.items()}
    bodies = tuple(replace(b, joint=replace(b.joint, limits=changed[i])) if i in changed else b
                   for i, b in enumerate(model.bodies))
    return replace(model, bodies=bodies)


__all__ = ["Builder", "Joint", "Body", "BodyInertia", "Placement", "Limits", "Mimic", "Frame", "Geometry", "replace_limits"]
