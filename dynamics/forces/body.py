"""Forces on bodies: a constant pull at a point, and the resistance of a fluid."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import frame_hessian, frame_jacobian
from dynamics.errors import ModelError
from dynamics.forces.force import Force, Place, check_number, check_place, columns
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


@dataclass(frozen=True)
class PointForce(Force):
    """A force [3] (N) that keeps its direction in the world, at a point of the robot: a weight, a wind, a push."""

    name: str
    place: Place
    force: tuple[float, float, float]

    def check(self, model: Model) -> None:
        check_place(model, self.place, self.name)
        if len(self.force) != 3 or any(abs(x) == float("inf") or x != x for x in self.force):
            raise ModelError(f"needs three finite components, got {self.force}", element=f"force {self.name!r}")

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        return self.place.jacobian(model, q).T @ spatial.constant(self.force)

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        F = spatial.constant(self.force)
        return columns(model, [h.T @ F for h in self.place.motion(model, q).H])

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        return ca.DM(model.nv, model.nv)

    def energy(self, model: Model, q: Expr) -> Expr:
        return -ca.dot(spatial.constant(self.force), self.place.at(model, q))

    def remaining(self, model: Model) -> Force | None:
        return self if model.frame(self.place.frame).body >= 0 else None


@dataclass(frozen=True)
class Drag(Force):
    """Resistance of a medium at rest, component by component of the twist V of a frame in its own axes:
    ``w = -linear V - quadratic |V| V``.

    linear [6]: N s/m, then N m s/rad; quadratic [6]: N s^2/m^2, then N m s^2/rad^2; order [translation; rotation].
    """

    name: str
    frame: str
    linear: tuple[float, ...] = (0.0,) * 6
    quadratic: tuple[float, ...] = (0.0,) * 6

    def check(self, model: Model) -> None:
        model.frame(self.frame)
        for what in ("linear", "quadratic"):
            values = getattr(self, what)
            if len(values) != 6:
                raise ModelError(f"{what} needs six values [translation; rotation], got {len(values)}",
                                 element=f"force {self.name!r}")
            for value in values:
                check_number(self.name, what, value)

    def _twist(self, model: Model, q: Expr, v: Expr) -> tuple[Expr, Expr]:
        J = frame_jacobian(model, q, self.frame, "body")
        return J, J @ v

    def _wrench(self, V: Expr) -> tuple[Expr, Expr]:
        """The wrench on the body and its derivative by V, a diagonal."""
        first, second = spatial.constant(self.linear), spatial.constant(self.quadratic)
        return -first * V - second * ca.fabs(V) * V, -first - 2 * second * ca.fabs(V)

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        J, V = self._twist(model, q, v)
        return J.T @ self._wrench(V)[0]

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        J, V = self._twist(model, q, v)
        w, slope = self._wrench(V)
        return columns(model, [H.T @ w + J.T @ (slope * (H @ v)) for H in frame_hessian(model, q, self.frame, "body")])

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        J, V = self._twist(model, q, v)
        return J.T @ (ca.diag(self._wrench(V)[1]) @ J)

    def remaining(self, model: Model) -> Force | None:
        return self if model.frame(self.frame).body >= 0 else None
