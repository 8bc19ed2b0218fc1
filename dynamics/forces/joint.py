"""Forces at joints: springs, dampers, elastic stops and smoothed dry friction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from dynamics.errors import ModelError
from dynamics.forces.force import Force, check_number
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


class Owned(NamedTuple):
    """The body that a joint carries, and what is the joint's among coordinates and velocities."""

    body: int
    q: slice
    v: slice


@dataclass(frozen=True)
class _AtJoint(Force):
    """A force at one joint that owns its coordinates."""

    name: str
    joint: str

    def check(self, model: Model) -> None:
        body = model.bodies[model.joint_index(self.joint)]
        if body.joint.mimic is not None:
            raise ModelError(f"the joint {self.joint!r} follows {body.joint.mimic.leader!r}; act on that one",
                             element=f"force {self.name!r}")
        if model.kind(model.joint_index(self.joint)).nv == 0:
            raise ModelError(f"the joint {self.joint!r} does not move", element=f"force {self.name!r}")

    def remaining(self, model: Model) -> Force | None:
        return self if any(body.joint.name == self.joint and model.kind(i).nv for i, body in enumerate(model.bodies)) else None

    def _slices(self, model: Model) -> Owned:
        i = model.joint_index(self.joint)
        return Owned(i, model.q_slice(i), model.v_slice(i))

    def _spread(self, model: Model, block: Expr, square: bool = False) -> Expr:
        """A block of the joint's own inside [nv] or [nv, nv]."""
        _, _, vs = self._slices(model)
        total = type(block)(model.nv, model.nv if square else 1)
        if square:
            total[vs, vs] = block
        else:
            total[vs] = block
        return total


@dataclass(frozen=True)
class JointSpring(_AtJoint):
    """``f = -k (q [-] rest)``, the gradient of ``k/2 |q [-] rest|^2``: of the angle or length of simple joints, of the rotation
    vector of a spherical joint, of both parts of a free one.

    stiffness_of: k [N m/rad or N/m]; rest: coordinates [nq of the joint] without force, None: the neutral ones.
    """

    k: float = 0.0
    rest: tuple[float, ...] | None = None

    def check(self, model: Model) -> None:
        super().check(model)
        check_number(self.name, "stiffness", self.k)
        nq = model.kind(model.joint_index(self.joint)).nq
        if self.rest is not None and len(self.rest) != nq:
            raise ModelError(f"rest needs {nq} coordinates, got {len(self.rest)}", element=f"force {self.name!r}")

    def _stretch(self, model: Model, q: Expr) -> Expr:
        i, qs, _ = self._slices(model)
        kind = model.kind(i)
        return kind.minus(ca.DM(kind.neutral if self.rest is None else self.rest), q[qs])

    def _gradient(self, model: Model, q: Expr) -> tuple[Expr, Expr]:
        """The stretch d and its derivative along the right perturbation of q, the inverse of the right Jacobian at d."""
        i, _, _ = self._slices(model)
        d, kind = self._stretch(model, q), model.kind(i)
        return d, ca.DM.eye(kind.nv) if kind.is_vector_space else ca.solve(kind.right_jacobian(d), ca.DM.eye(kind.nv))

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        d, by_q = self._gradient(model, q)
        return self._spread(model, -self.k * (by_q.T @ d))

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        i, _, _ = self._slices(model)
        kind = model.kind(i)
        if kind.is_vector_space:
            return self._spread(model, -self.k * type(q).eye(kind.nv), square=True)
        # the gradient of a squared distance on a group; its curvature is that of the function of d alone
        d, by_q = self._gradient(model, q)
        z = ca.SX.sym("d", kind.nv)
        inner = ca.solve(kind.right_jacobian(z), ca.SX.eye(kind.nv)).T @ z
        slope = ca.Function("slope", [z], [ca.jacobian(inner, z)])(d)
        return self._spread(model, -self.k * (slope @ by_q), square=True)

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        return ca.DM(model.nv, model.nv)

    def energy(self, model: Model, q: Expr) -> Expr:
        d = self._stretch(model, q)
        return self.k / 2 * ca.dot(d, d)


@dataclass(frozen=True)
class JointDamper(_AtJoint):
    """``f = -c v - c2 |v| v`` at each velocity of the joint: c [N m s/rad or N s/m], c2 [N m s^2/rad^2 or N s^2/m^2]."""

    c: float = 0.0
    quadratic: float = 0.0

    def check(self, model: Model) -> None:
        super().check(model)
        check_number(self.name, "damping", self.c)
        check_number(self.name, "quadratic damping", self.quadratic)

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        own = v[self._slices(model)[2]]
        return self._spread(model, -self.c * own - self.quadratic * ca.fabs(own) * own)

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        return ca.DM(model.nv, model.nv)

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        own = v[self._slices(model)[2]]
        return self._spread(model, ca.diag(-self.c - 2 * self.quadratic * ca.fabs(own)), square=True)


@dataclass(frozen=True)
class JointFriction(_AtJoint):
    """Dry friction made smooth: ``f = -level tanh(v / speed)`` at each velocity of the joint.

    level [N m or N]; speed [rad/s or m/s]: at three times this speed 99.5 % of the level act, and below it the joint creeps.
    """

    level: float = 0.0
    speed: float = 0.01

    def check(self, model: Model) -> None:
        super().check(model)
        check_number(self.name, "friction", self.level)
        if not 0.0 < self.speed < float("inf"):
            raise ModelError(f"speed must be positive, got {self.speed:g}", element=f"force {self.name!r}")

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        return self._spread(model, -self.level * ca.tanh(v[self._slices(model)[2]] / self.speed))

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        return ca.DM(model.nv, model.nv)

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        slope = 1 - ca.tanh(v[self._slices(model)[2]] / self.speed) ** 2
        return self._spread(model, ca.diag(-self.level / self.speed * slope), square=True)


@dataclass(frozen=True)
class JointStop(_AtJoint):
    """Elastic end stops: ``f = k (lower - q) - c v`` where q < lower, ``k (upper - q) - c v`` where q > upper, else 0; at every
    coordinate of a joint whose velocities are the rates of its coordinates.

    lower, upper: one number for each coordinate [rad or m]; k [N m/rad or N/m]; c [N m s/rad or N s/m]. With c > 0 the force jumps
    at the stop, and a joint that leaves it fast is held back.
    """

    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    k: float = 0.0
    c: float = 0.0

    def check(self, model: Model) -> None:
        super().check(model)
        check_number(self.name, "stiffness", self.k)
        check_number(self.name, "damping", self.c)
        kind = model.kind(model.joint_index(self.joint))
        if not kind.is_vector_space:
            raise ModelError(f"a joint of kind {kind.name!r} has no coordinates to limit",
                             element=f"force {self.name!r}")
        if not len(self.lower) == len(self.upper) == kind.nq or any(a > b for a, b in zip(self.lower, self.upper, strict=True)):
            raise ModelError(f"lower and upper need {kind.nq} numbers each, lower below upper; got {self.lower} and {self.upper}",
                             element=f"force {self.name!r}")

    def _overrun(self, model: Model, q: Expr) -> tuple[Expr, Expr]:
        """How far q is beyond its stops, with sign, and whether it is."""
        own, low, high = q[self._slices(model)[1]], ca.DM(self.lower), ca.DM(self.upper)
        return ca.fmax(own - high, 0) - ca.fmax(low - own, 0), ca.logic_or(own < low, own > high)

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        over, meets = self._overrun(model, q)
        return self._spread(model, -self.k * over - self.c * meets * v[self._slices(model)[2]])

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        return self._spread(model, ca.diag(-self.k * self._overrun(model, q)[1]), square=True)

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        return self._spread(model, ca.diag(-self.c * self._overrun(model, q)[1]), square=True)

    def energy(self, model: Model, q: Expr) -> Expr:
        over, _ = self._overrun(model, q)
        return self.k / 2 * ca.dot(over, over)
