"""What a hybrid simulator knows of a robot that touches planes: contacts point by point, and one kernel of everything by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import algorithms as alg
from dynamics.constraints import Contact, FlatContact, PointContact
from dynamics.errors import UnknownNameError
from dynamics.forces.force import Place
from dynamics.kernels import Kernel, compile_many
from dynamics.mechanism import Mechanism
from dynamics.mechanism.constrained import reduced, stacked
from ocp.errors import ProblemError

Array = NDArray[np.float64]
Expr = Any


Box = Sequence[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Touch:
    """One point that may touch a plane: its record, friction, restitution, the plane's axes [3, 3] (rows: tangents, normal), and
    the box [3, 2] (m, world) in which there is a plane."""

    name: str
    record: Contact
    friction: float
    restitution: float
    axes: Array
    within: Array


def touches(contacts: Sequence[Contact], restitution: float | Mapping[str, float] = 0.0, within: Mapping[str, Box] | None = None
            ) -> tuple[Touch, ...]:
    """Every point of the contacts, named as its contact, with a number where there are several.

    restitution: e in [0, 1], of all or by name; within: boxes of the world by name, outside of which a plane ends. Raises
    ProblemError for what does not say how it slides or tips, UnknownNameError.
    """
    names, boxes = [contact.name for contact in contacts], within or {}
    for name in (*(restitution if isinstance(restitution, Mapping) else ()), *boxes):
        if name not in names:
            raise UnknownNameError("contact", name, names)
    found = []
    for contact in contacts:
        where = f"contact {contact.name!r}"
        e = float(restitution.get(contact.name, 0.0) if isinstance(restitution, Mapping) else restitution)
        if not 0.0 <= e <= 1.0:
            raise ProblemError(f"restitution must lie between 0 and 1, got {e:g}", where=where)
        slides = isinstance(contact, PointContact) and contact.slides
        if contact.friction is None and not slides:
            raise ProblemError("needs a coefficient of friction: what slides and what holds depends on it", where=where)
        points = _points(contact, where)
        for k, record in enumerate(points):
            name = contact.name if len(points) == 1 else f"{contact.name} {k}"
            box = np.array(boxes.get(contact.name, ((-np.inf, np.inf),) * 3), float)
            if box.shape != (3, 2) or not (box[:, 0] < box[:, 1]).all():
                raise ProblemError(f"'within' is no box: {box.tolist()}", where=where)
            found.append(Touch(name, record, contact.friction or 0.0, e, np.array(contact.axes), box))
    return tuple(found)


def _points(contact: Contact, where: str) -> tuple[Contact, ...]:
    if isinstance(contact, PointContact):
        if contact.places:
            raise ProblemError("is held at places; a plant finds them itself", where=where)
        return tuple(replace(contact, points=(point,), slides=False) for point in contact.points)
    if isinstance(contact, FlatContact):
        if contact.half_sizes is None:
            raise ProblemError("is flat, and without half_sizes it is not known where it tips; give them", where=where)
        side = np.array(_across(contact.axis)) @ np.diag(contact.half_sizes)
        corners = [np.asarray(contact.position) + side @ (a, b) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
        return tuple(PointContact(contact.name, contact.frame, ((float(x), float(y), float(z)),), contact.normal, contact.height,
                                  contact.friction) for x, y, z in corners)
    return (contact,)


def _across(axis: Sequence[float]) -> Array:
    from dynamics.model.rigid import rotation_from_z

    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    return np.asarray(rotation_from_z((x, y, z)))[:, :2]


@dataclass(frozen=True, eq=False)
class Terms:
    """At one state: M [nv, nv]; f [nv] all forces but those of contacts and constraints; rate [nq] = dq/dt; by point: at [n, 3] (m,
    axes of the plane, the last its gap), J [3 n, nv] and drift [3 n]; of closed loops: g, J_b and drift_b; J_p [3 k, nv] of pushed
    frames, world axes; energy (J)."""

    M: Array
    f: Array
    rate: Array
    at: Array
    J: Array
    drift: Array
    g: Array
    J_b: Array
    drift_b: Array
    J_p: Array
    energy: float


@dataclass(frozen=True, eq=False)
class Touching:
    """A mechanism and the points of it that may touch: ``terms`` and ``plus`` are compiled. frames: those that are pushed."""

    mechanism: Mechanism
    points: tuple[Touch, ...]
    frames: tuple[str, ...]
    kernel: Kernel
    plus: Kernel

    def terms(self, q: Array, v: Array, u: Array) -> Terms:
        """Everything by the state (q [nq], v [nv]) and the controls u [nu]."""
        M, f, rate, at, J, drift, g, J_b, drift_b, J_p, energy = self.kernel(q, v, u)
        nv = v.size
        return Terms(np.reshape(M, (nv, nv)), np.reshape(f, nv), np.reshape(rate, -1), np.reshape(at, (-1, 3)),
                     np.reshape(J, (-1, nv)), np.reshape(drift, -1), np.reshape(g, -1), np.reshape(J_b, (-1, nv)),
                     np.reshape(drift_b, -1), np.reshape(J_p, (-1, nv)), float(energy))


def compile_touching(mechanism: Mechanism, contacts: Sequence[Contact], restitution: float | Mapping[str, float] = 0.0,
                     frames: Sequence[str] = (), mode: str = "auto", within: Mapping[str, Box] | None = None) -> Touching:
    """Constraints of the mechanism that are no contacts stay closed for ever. Raises what `touches` raises, ModelError."""
    model = mechanism.model
    for contact in contacts:
        contact.check(model)
    points = touches(contacts, restitution, within)
    closures = reduced([c for c in mechanism.constraints if not isinstance(c, Contact)])
    q, v, u = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("u", mechanism.nu)
    wrenches = mechanism.wrenches(u[len(mechanism.motors):], q) if mechanism.thrusters else {}
    f = mechanism.motor_effort(u) + mechanism.force(q, v) - alg.bias_force(model, q, v, wrenches)
    at = [_place(model, touch.record, q) for touch in points]
    J = [touch.record.jacobian(model, q) for touch in points]
    drift = [touch.record.drift(model, q, v) for touch in points]
    held = [ca.SX(0, 1), ca.SX(0, model.nv), ca.SX(0, 1)]
    if closures:
        held = [stacked(model, closures, what, *x) for what, x in (
            ("value", (q, 0.0)), ("jacobian", (q, 0.0)), ("drift", (q, v, 0.0)))]
    pushed = [alg.frame_jacobian(model, q, frame, "world_aligned")[:3, :] for frame in frames]  # twists are [linear; angular]
    outputs = [alg.mass_matrix(model, q), f, alg.rate_matrix(model, q) @ v, ca.horzcat(ca.SX(3, 0), *at).T,
               ca.vertcat(ca.SX(0, model.nv), *J), ca.vertcat(ca.SX(0, 1), *drift), *held,
               ca.vertcat(ca.SX(0, model.nv), *pushed), mechanism.energy(q, v)]
    kernel = ca.Function("touching", [q, v, u], ca.cse([ca.densify(ca.SX(x)) for x in outputs]))
    d = ca.SX.sym("d", model.nv)
    plus = ca.Function("plus", [q, d], [ca.densify(ca.SX(alg.integrate(model, q, d)))])
    compiled = compile_many([kernel, plus], mode=mode)  # type: ignore[arg-type]
    return Touching(mechanism, points, tuple(frames), compiled[0], compiled[1])


def _place(model: Any, record: Contact, q: Expr) -> Expr:
    """[3] in axes of the plane; what rolls has no place to be held at, only its gap."""
    gap = record.gap(model, q)
    if isinstance(record, PointContact):
        return ca.vertcat(record.axes[:2, :] @ Place(record.frame, record.points[0]).at(model, q), gap)
    return ca.vertcat(0, 0, gap)
