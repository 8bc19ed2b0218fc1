"""The same robot without charts of rotations: joints in Euler angles or rotation vectors become joints in quaternions.

Bodies, frames, their motions and the order of velocities stay. The rates of a chart become angular velocities [3] in the body's
axes, ``omega = S(q) dq/dt``, its three coordinates a unit quaternion (w, x, y, z). Universal joints stay as they are, and are never
singular: ``S' S`` is constant (Sueda, "Analytically differentiable articulated rigid body dynamics", Eqs. 2.41-2.44).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dynamics.errors import ModelError
from dynamics.joints import record
from dynamics.joints.charts import VECTOR
from dynamics.mechanism.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.model.records import Joint, Limits


class Turn(NamedTuple):
    """A rotation in a chart: the joint that it is, or is a part of; the chart; where its three coordinates begin in q, and its
    rates in v."""

    joint: str
    chart: str
    q: int
    v: int


def charted_rotations(model: Model) -> tuple[Turn, ...]:
    """All rotations of a model in charts of three coordinates, in the order of q."""
    return tuple(Turn(body.joint.name, chart, model.q_slice(i).start + q, model.v_slice(i).start + v)
                 for i, body in enumerate(model.bodies) if body.joint.mimic is None for chart, q, v in _charts(body.joint))


def _charts(joint: Joint) -> Iterator[tuple[str, int, int]]:
    """(chart, first of its coordinates, first of its rates) of each rotation inside a joint."""
    if joint.kind in ("euler", "exponential"):
        yield joint.chart or VECTOR, 0, 0
    elif joint.kind in ("free_3d", "free_3d_reversed"):
        first = 3 if joint.kind == "free_3d" else 0
        yield joint.chart, first, first
    q = v = 0
    for part in joint.parts:
        yield from ((chart, q + a, v + b) for chart, a, b in _charts(part))
        q, v = q + record(part).nq, v + record(part).nv


def in_quaternions(mechanism: Mechanism, joints: Collection[str]) -> Mechanism:
    """The mechanism with these joints in quaternions; limits of their coordinates, and named configurations, are left out.

    Armature, damping and motors of such a joint then belong to its angular velocity: the motion is the same one only where they are
    zero. Raises ModelError for forces and constraints that are written in the coordinates of these joints.
    """
    return _rejointed(mechanism, joints, _turned)


def _rejointed(mechanism: Mechanism, joints: Collection[str], change: Callable[[Joint], Joint]) -> Mechanism:
    """With other joints in the place of these, whose velocities keep their order."""
    items: tuple[Any, ...] = (*mechanism.forces, *mechanism.constraints)
    for item in items:
        # a closure has a joint of its own, which is a kind
        if (joint := getattr(item, "joint", None)) in joints and not hasattr(item, "axis"):
            raise ModelError("acts on its coordinates", element=f"{item.name!r} at joint {joint!r}")
    model = mechanism.model
    bodies = tuple(replace(body, joint=change(body.joint)) if body.joint.name in joints else body for body in model.bodies)
    other = replace(model, bodies=bodies, configurations={})
    names = dict(zip(model.velocity_names, other.velocity_names, strict=True))
    motors = (replace(motor, gears=tuple((names[v], ratio) for v, ratio in motor.gears)) for motor in mechanism.motors)
    return replace(mechanism, model=other, motors=tuple(motors))


def in_charts(mechanism: Mechanism, names: Mapping[Turn, str]) -> Mechanism:
    """The mechanism with rotations in other sequences of Euler angles, of joints that consist of one; the same restrictions as of
    :func:`in_quaternions`. Raises ModelError for joints of several parts."""
    chosen = {turn.joint: name for turn, name in names.items() if name != turn.chart}
    for body in mechanism.model.bodies:
        if body.joint.name in chosen and body.joint.parts:
            raise ModelError("consists of several parts, whose charts are not switched", element=f"joint {body.joint.name!r}")
    return _rejointed(mechanism, chosen, lambda joint: replace(joint, chart=chosen[joint.name], limits=Limits()))


def _turned(joint: Joint) -> Joint:
    if joint.kind in ("euler", "exponential"):
        return replace(joint, kind="spherical", chart="", limits=Limits())
    if joint.kind in ("free_3d", "free_3d_reversed"):
        move, turn = Joint("p", "translation"), Joint("r", "spherical")
        parts = (move, turn) if joint.kind == "free_3d" else (turn, move)
        return replace(joint, kind="composite", chart="", parts=parts, limits=Limits())
    return replace(joint, parts=tuple(map(_turned, joint.parts)), limits=Limits())
