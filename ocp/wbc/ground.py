"""The ground below a robot with a floating base, what of it may touch the ground besides its contacts, and whether it stands.

The ground is the lowest plane without ends that a contact of the file has and that faces upwards. A robot falls when a part of it
that is no contact touches the ground, when its base has lost most of its height above it, or lies on its side. At the end of a run
it stands if its extrapolated centre of mass c + v sqrt(h/g) lies over the points that touch: beyond them no force at these points
brings it to rest (Hof, Gazendam, Sinke 2005, "The condition for dynamic stability"), and if its base leans no further than its
tasks ask.

Bodies are as large as the box of even density with their inertia, and as long as from joint to joint: no mesh is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from dynamics import algorithms as alg
from dynamics.constraints import Contact, PointContact
from dynamics.mechanism import Mechanism
from dynamics.model.model import Model
from dynamics.model.records import BodyInertia
from ocp.control.limits import limit_box
from ocp.problem import Finding, Kind
from ocp.thresholds import CLOSED_LOOPS

Array = NDArray[np.float64]
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / 2


@dataclass(frozen=True, eq=False)
class Ground:
    """A plane n x = height below a mechanism whose base flies, and its state at the start [nq + nv]."""

    mechanism: Mechanism
    base: int
    normal: Array
    height: float
    friction: float
    start: Array
    carriers: frozenset[int]  # bodies that carry contacts

    @classmethod
    def below(cls, mechanism: Mechanism, contacts: Sequence[Contact], start: Array) -> Ground | None:
        """None for a robot without floating base, or without a contact with the ground."""
        model, weight = mechanism.model, np.asarray(mechanism.model.gravity, float)
        base = next((i for i, body in enumerate(model.bodies) if body.joint.kind == "free_flyer"), None)
        if base is None or not weight.any():
            return None
        level = [c for c in contacts if c.within is None and faces_up(c, weight)]
        if not level:
            return None
        at = start[model.q_slice(base)][:3]
        lowest = max(level, key=lambda c: float(c.plane[2] @ at) - c.height)
        carriers = frozenset(model.frame(c.frame).body for c in contacts)
        return cls(mechanism, base, lowest.plane[2], lowest.height, lowest.friction or 0.0, start, carriers)

    @cached_property
    def parts(self) -> tuple[PointContact, ...]:
        """Points of bodies above the ground at the start, as contacts of a plant, named by their bodies."""
        model, q = self.mechanism.model, self.start[: self.mechanism.model.nq]
        found = list(_extents(model, self.base, self.carriers))
        high = np.ravel(self._heights(found)(q).full()) > CLOSED_LOOPS.clear if found else ()
        n: list[float] = self.normal.tolist()
        return tuple(PointContact(f"part {k} of {name}", name, ((float(at[0]), float(at[1]), float(at[2])),), (n[0], n[1], n[2]),
                                  self.height, self.friction)
                     for k, ((name, at), above) in enumerate(zip(found, high, strict=True)) if above)

    def _heights(self, points: Sequence[tuple[str, Array]]) -> ca.Function:
        model = self.mechanism.model
        q = ca.SX.sym("q", model.nq)
        poses = dict(zip((body.name for body in model.bodies), alg.body_poses(model, q), strict=True))
        rows = [ca.dot(ca.DM(self.normal), poses[name].p + poses[name].R @ ca.DM(at)) - self.height for name, at in points]
        return ca.Function("heights", [q], [ca.densify(ca.SX(ca.vertcat(*rows)))])

    @cached_property
    def _gaps(self) -> ca.Function:
        """q -> gaps of the base's origin and of the parts."""
        base = self.mechanism.model.bodies[self.base].name
        return self._heights([(base, np.zeros(3)), *((part.frame, np.array(part.points[0])) for part in self.parts)])

    @cached_property
    def _motion(self) -> ca.Function:
        """(q, v) -> mass centre and its velocity [3]."""
        model = self.mechanism.model
        q, v = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
        return ca.Function("mass_centre", [q, v], [ca.densify(ca.SX(x)) for x in (
            alg.centre_of_mass(model, q), alg.centre_of_mass_jacobian(model, q) @ v)])

    def tilt(self, x: Array) -> float:
        """Angle (rad) between an upright axis of the base at the start and now."""
        at = self.mechanism.model.q_slice(self.base).start
        before, now = (_turn(state[at + 3: at + 7]).T @ self.normal for state in (self.start, x))
        return float(np.arccos(np.clip(before @ now, -1.0, 1.0)))

    def fallen(self, x: Array, t: float) -> Finding | None:
        """Why the robot has fallen, or None."""
        nq = self.mechanism.model.nq
        base, *parts = np.ravel(self._gaps(x[:nq]).full())
        name = self.mechanism.model.bodies[self.base].name
        if parts and min(parts) <= CLOSED_LOOPS.touching:
            worst = int(np.argmin(parts))
            return Finding(Kind.BODY_ON_GROUND, name=self.parts[worst].frame, time=t, value=float(base),
                           tolerance=CLOSED_LOOPS.touching, data={"gap": float(parts[worst]), "base": name})
        least = CLOSED_LOOPS.low * self._start_height
        if base < least:
            return Finding(Kind.BASE_SANK, name=name, time=t, value=float(base), tolerance=least)
        if (tilt := self.tilt(x)) > CLOSED_LOOPS.lying:
            return Finding(Kind.BASE_TILTED, name=name, time=t, value=tilt, tolerance=CLOSED_LOOPS.lying)
        return None

    @cached_property
    def _start_height(self) -> float:
        return float(np.ravel(self._gaps(self.start[: self.mechanism.model.nq]).full())[0])

    def unsteady(self, x: Array, t: float, touching: Array, upright: bool) -> Iterator[Finding]:
        """Reasons that the robot will not stay standing at the end. touching [k, 3]: points that touch the ground; upright: the
        base is where a task wants it, so that leaning is no fault."""
        model, name = self.mechanism.model, self.mechanism.model.bodies[self.base].name
        c, v = (np.ravel(y.full()) for y in self._motion(x[: model.nq], x[model.nq:]))
        if not len(touching):
            yield Finding(Kind.NOTHING_HOLDS, name=name, time=t, value=float(c @ self.normal) - self.height)
            return
        height = max(float((c - touching.mean(axis=0)) @ self.normal), 0.0)
        across = np.linalg.svd(self.normal[None])[2][1:]
        beyond = outside(touching @ across.T, across @ (c + v * np.sqrt(height / np.linalg.norm(model.gravity))))
        if beyond > CLOSED_LOOPS.support:
            yield Finding(Kind.TIPPING, name=name, time=t, value=beyond, tolerance=CLOSED_LOOPS.support)
        if not upright and (tilt := self.tilt(x)) > CLOSED_LOOPS.leaning:
            yield Finding(Kind.LEANING, name=name, time=t, value=tilt, tolerance=CLOSED_LOOPS.leaning)


def outside(points: Array, at: Array) -> float:
    """Distance (m) of a point [d] from the convex hull of points [k, d]: non-negative least squares, weights adding up to one."""
    scale = 1e6 * max(1.0, float(np.abs(points - at).max()))
    weights = nnls(np.vstack([(points - at).T, np.full(len(points), scale)]), np.append(np.zeros(len(at)), scale))[0]
    return float(np.linalg.norm(weights @ points / weights.sum() - at))


def beyond_limits(model: Model, t: Array, x: Array) -> Iterator[Finding]:
    """Joints that moved faster than their limits allow, or beyond their range, along states x [k, nq + nv] at times t [k]."""
    fastest, box = model.limit("velocity"), limit_box(model)
    for i, name in enumerate(model.velocity_names):
        speed = np.abs(x[:, model.nq + i])
        k = int(np.argmax(speed))
        if speed[k] > (1.0 + CLOSED_LOOPS.limits) * fastest[i]:
            yield Finding(Kind.JOINT_SPEED, name=name, time=float(t[k]), value=float(speed[k]), tolerance=float(fastest[i]),
                          data={"percent": 100.0 * float(speed[k] / fastest[i] - 1.0)})
        if box.at[i] >= 0:
            q = x[:, box.at[i]]
            over = np.maximum(box.lower[i] - q, q - box.upper[i])
            k = int(np.argmax(over))
            if over[k] > CLOSED_LOOPS.limits:
                yield Finding(Kind.JOINT_RANGE, name=name, time=float(t[k]), value=float(over[k]), tolerance=CLOSED_LOOPS.limits)


def faces_up(contact: Contact, gravity: Array) -> bool:
    """Whether the plane of a contact is ground and no wall."""
    return -float(contact.plane[2] @ gravity) >= CLOSED_LOOPS.level * float(np.linalg.norm(gravity))


def _extents(model: Model, base: int, carriers: frozenset[int]) -> Iterator[tuple[str, Array]]:
    """(body, point in it [3]): corners of the base, and of bodies at the ends of the tree that carry no contact their mass centre;
    of all others the joints that they carry."""
    for i, body in enumerate(model.bodies):
        if not _descends(model, i, base):
            continue
        children = model.children(i)
        if i == base and i not in carriers:
            yield from ((body.name, corner) for corner in _box(body.inertia))
        elif not children and i not in carriers and body.inertia.mass > 0:
            yield body.name, np.asarray(body.inertia.com, float)
        if i != base:
            for k in children:
                at = np.asarray(model.bodies[k].joint.placement.position, float)
                if np.linalg.norm(at) > CLOSED_LOOPS.link:
                    yield body.name, at


def _descends(model: Model, i: int, base: int) -> bool:
    while i > base:
        i = model.bodies[i].parent
    return i == base


def _box(inertia: BodyInertia) -> Array:
    """Corners [8, 3] of the box of even density with a mass and an inertia, in the axes of the body."""
    moments, axes = np.linalg.eigh(np.array(inertia.inertia, float))
    squares = 6.0 * (moments.sum() - 2.0 * moments) / max(inertia.mass, 1e-12)
    sides = np.sqrt(np.maximum(squares, 0.0))
    return np.asarray(np.asarray(inertia.com, float) + (CORNERS * sides) @ axes.T)


def _turn(w: Array) -> Array:
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_quat([w[1], w[2], w[3], w[0]]).as_matrix())
