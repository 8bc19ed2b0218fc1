"""The robot: a frozen tree of bodies, joints and frames. Data only; algorithms live in ``dynamics.algorithms``.

Body ``i`` hangs from body ``parent`` (-1 is the world) by joint ``i``; bodies are in topological order, so
``parent < i``. Joint coordinates are slices of ``q`` [nq] and ``v`` [nv]. A mimic joint owns no coordinate: it reads the
slice of the joint it follows, ``q_j = multiplier * q_leader + offset``, so the coupling is exact in every algorithm.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from dynamics.errors import ModelError, UnknownNameError
from dynamics.joints import JointKind, record
from dynamics.model.records import (
    GRAVITY,
    IDENTITY,
    Body,
    BodyInertia,
    Frame,
    Geometry,
    Joint,
    Limits,
    Matrix,
    Mimic,
    Placement,
    Vector,
)
from dynamics.model.validation import validate


@dataclass(frozen=True)
class Model:
    """A tree-structured robot. Build with :class:`dynamics.model.builder.Builder` or a reader.

    Raises ModelError on construction when names repeat, the order is not topological, a joint kind or axis is unknown,
    masses are negative or an inertia is not symmetric. (The builder refuses inertias that are not positive semidefinite;
    the readers keep what a file says and note it.)
    """

    name: str
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...] = ()
    gravity: Vector = GRAVITY
    configurations: Mapping[str, Vector] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a reader changed or could not carry over, in plain words

    def __post_init__(self) -> None:
        validate(self.bodies, self.frames, self.gravity)
        for name, q in self.configurations.items():
            if len(q) != self.nq:
                raise ModelError(f"has {len(q)} coordinates, the model has nq = {self.nq}", element=f"configuration {name!r}")

    # ---- sizes and slices -----------------------------------------------------------------------------------------
    @cached_property
    def _slices(self) -> tuple[tuple[slice, slice], ...]:
        place: dict[str, tuple[slice, slice]] = {}
        iq = iv = 0
        for body in self.bodies:
            kind, mimic = record(body.joint), body.joint.mimic
            if mimic is None:
                place[body.joint.name] = (slice(iq, iq + kind.nq), slice(iv, iv + kind.nv))
                iq, iv = iq + kind.nq, iv + kind.nv
        return tuple(place[b.joint.mimic.leader if b.joint.mimic else b.joint.name] for b in self.bodies)

    @cached_property
    def nq(self) -> int:
        """Length of the configuration vector."""
        return sum(self.kind(i).nq for i, b in enumerate(self.bodies) if b.joint.mimic is None)

    @cached_property
    def nv(self) -> int:
        """Length of the velocity vector (degrees of freedom)."""
        return sum(self.kind(i).nv for i, b in enumerate(self.bodies) if b.joint.mimic is None)

    def kind(self, i: int) -> JointKind:
        """The record of joint ``i``, its parameters bound."""
        return record(self.bodies[i].joint)

    @property
    def factors(self) -> tuple[tuple[JointKind, slice, slice], ...]:
        """The configuration manifold as a product: records of joints that are no chains, where they sit in q and in v."""
        out = []
        for i, body in enumerate(self.bodies):
            if body.joint.mimic is None:
                q, v = self.q_slice(i).start, self.v_slice(i).start
                out += [(s.kind, slice(q + s.q, q + s.q + s.kind.nq), slice(v + s.v, v + s.v + s.kind.nv))
                        for s in self.kind(i).chain if s.kind.nv]
        return tuple(out)

    def q_slice(self, i: int) -> slice:
        """Where the coordinates of joint ``i`` (of its leader, for a mimic joint) sit in q."""
        return self._slices[i][0]

    def v_slice(self, i: int) -> slice:
        """Where the velocity of joint ``i`` (of its leader, for a mimic joint) sits in v."""
        return self._slices[i][1]

    @property
    def has_coupling(self) -> bool:
        """True when a mimic joint makes two bodies share a coordinate."""
        return any(b.joint.mimic for b in self.bodies)

    # ---- names ----------------------------------------------------------------------------------------------------
    def body_index(self, name: str) -> int:
        """Index of a body. Raises UnknownNameError."""
        return _index("body", name, [b.name for b in self.bodies])

    def joint_index(self, name: str) -> int:
        """Index of the body that a joint carries. Raises UnknownNameError."""
        return _index("joint", name, [b.joint.name for b in self.bodies])

    def frame(self, name: str) -> Frame:
        """A frame by name; every body name is a frame too (its own body frame). Raises UnknownNameError."""
        for frame in self.frames:
            if frame.name == name:
                return frame
        for i, body in enumerate(self.bodies):
            if body.name == name:
                return Frame(name, i)
        if name == "world":
            return Frame("world", -1)
        raise UnknownNameError("frame", name, [f.name for f in self.frames] + [b.name for b in self.bodies])

    @cached_property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the components of q: the joint name, or ``joint.component`` when a joint has several."""
        return tuple(n for i, b in enumerate(self.bodies) if not b.joint.mimic
                     for n in _component_names(b.joint.name, self.kind(i).q_names))

    @cached_property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the components of v, as for q."""
        return tuple(n for i, b in enumerate(self.bodies) if not b.joint.mimic
                     for n in _component_names(b.joint.name, self.kind(i).v_names))

    def children(self, i: int) -> tuple[int, ...]:
        """Indices of the bodies whose parent is body i."""
        return tuple(j for j, b in enumerate(self.bodies) if b.parent == i)

    @cached_property
    def mass(self) -> float:
        """Total mass [kg]."""
        return float(sum(b.inertia.mass for b in self.bodies))

    @cached_property
    def built(self) -> dict[object, Callable[..., object]]:
        """Functions that algorithms built of this model and keep: ``dynamics.algorithms.built``."""
        return {}

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that dynamics depends on; the same robot gives the same fingerprint anywhere."""
        record = [self.gravity, [(b.name, b.parent, repr(b.joint), repr(b.inertia)) for b in self.bodies],
                  [repr(f) for f in self.frames]]
        return hashlib.sha256(json.dumps(record).encode()).hexdigest()

    # ---- limits ---------------------------------------------------------------------------------------------------
    def limit(self, which: str) -> np.ndarray:
        """Stacked limit vector: ``lower``/``upper`` [nq], ``velocity``/``effort`` [nv]; infinite where there is none.

        Mimic joints tighten the limits of their leader, except ``effort``, which is that of the leader's own drive.
        """
        if which not in ("lower", "upper", "velocity", "effort"):
            raise ModelError(f"no limit {which!r}; known: lower, upper, velocity, effort")
        out = np.full(self.nq if which in ("lower", "upper") else self.nv, -np.inf if which == "lower" else np.inf)
        for i, body in enumerate(self.bodies):
            joint, kind = body.joint, self.kind(i)
            values = getattr(joint.limits, which)
            if joint.mimic is None:
                if values is not None:
                    out[self.q_slice(i) if which in ("lower", "upper") else self.v_slice(i)] = values
            elif which == "velocity" and values is not None and joint.mimic.multiplier != 0.0:
                at = self.v_slice(i).start
                out[at] = min(out[at], values[0] / abs(joint.mimic.multiplier))
            elif which in ("lower", "upper") and kind.nv == 1 and joint.mimic.multiplier != 0.0:
                # a follower's range seen from its leader; a negative multiplier exchanges the ends
                m, b = joint.mimic.multiplier, joint.mimic.offset
                end = joint.limits.lower if (which == "lower") == (m > 0) else joint.limits.upper
                if end is not None:
                    bound, at = (end[0] - b) / m, self.q_slice(i).start
                    out[at] = max(out[at], bound) if which == "lower" else min(out[at], bound)
        return out


def _component_names(joint: str, names: tuple[str, ...]) -> list[str]:
    return [joint] if len(names) == 1 else [f"{joint}.{n}" for n in names]


def _index(kind: str, name: str, known: list[str]) -> int:
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return known.index(name)


__all__ = ["GRAVITY", "IDENTITY", "Body", "BodyInertia", "Frame", "Geometry", "Joint", "Limits", "Matrix", "Mimic", "Model",
           "Placement", "Vector"]
