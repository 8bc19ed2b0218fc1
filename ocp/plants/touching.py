"""The robot of a hybrid simulator with its contact planes: contacts point by point, and one kernel of everything by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics import algorithms as alg
from dynamics.constraints import Contact, FlatContact, PointContact
from dynamics.errors import UnknownNameError
from dynamics.forces.force import Place
from dynamics.kernels import Kernel, compile_many
from dynamics.lie.expression import Expr
from dynamics.mechanism import Mechanism
from dynamics.mechanism.constrained import reduced, stacked
from dynamics.model.model import Model
from ocp.errors import ProblemError

Array = NDArray[np.float64]

Box = Sequence[tuple[float, float]]


def touches(contacts: Sequence[Contact], restitution: float | Mapping[str, float] | None = None,
            within: Mapping[str, Box] | None = None) -> tuple[Contact, ...]:
    """Every point of the contacts that may touch, each with three equations. restitution, within: in place of those of the
    contacts, of all or by name. Raises ProblemError for what does not say how it slides or tips, ModelError, UnknownNameError."""
    names, boxes = [contact.name for contact in contacts], within or {}
    bounce = restitution if isinstance(restitution, Mapping) else {} if restitution is None else dict.fromkeys(names, restitution)
    for name in (*bounce, *boxes):
        if name not in names:
            raise UnknownNameError("contact", name, names)
    found: list[Contact] = []
    for contact in contacts:
        contact = contact.but(restitution=float(bounce.get(contact.name, contact.restitution)),
                              within=boxes.get(contact.name, contact.within))
        contact.check_numbers()
        points = contact.apart()
        for wrong, words in (
                (isinstance(contact, PointContact) and contact.places, "has fixed positions; a plant finds them itself"),
                (isinstance(points[0], FlatContact), "is flat, and without half_sizes it is not known where it tips; give them"),
                (points[0].friction is None, "needs a coefficient of friction: what slides and what holds depends on it")):
            if wrong:
                raise ProblemError(words, where=f"contact {contact.name!r}")
        found += points
    return tuple(found)


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
    points: tuple[Contact, ...]
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


def compile_touching(mechanism: Mechanism, contacts: Sequence[Contact], restitution: float | Mapping[str, float] | None = None,
                     frames: Sequence[str] = (), mode: str = "auto", within: Mapping[str, Box] | None = None) -> Touching:
    """Constraints of the mechanism that are no contacts stay closed for ever. Raises what `touches` raises, ModelError."""
    model = mechanism.model
    points = touches([contact.but(slip=None) for contact in contacts], restitution, within)
    for point in points:
        point.check(model)
    closures = reduced([c for c in mechanism.constraints if not isinstance(c, Contact)])
    q, v, u = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("u", mechanism.nu)
    wrenches = mechanism.wrenches(u[len(mechanism.motors):], q) if mechanism.thrusters else {}
    f = mechanism.motor_effort(u) + mechanism.force(q, v) - alg.bias_force(model, q, v, wrenches)
    at = [_contact_point(model, point, q) for point in points]
    J = [point.jacobian(model, q) for point in points]
    drift = [point.drift(model, q, v) for point in points]
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


def _contact_point(model: Model, record: Contact, q: Expr) -> Expr:
    """[3] in axes of the plane; what rolls has no point to be held at, only its gap."""
    gap = record.gap(model, q)
    if isinstance(record, PointContact):
        return ca.vertcat(record.axes[:2, :] @ Place(record.frame, record.points[0]).at(model, q), gap)
    return ca.vertcat(0, 0, gap)
