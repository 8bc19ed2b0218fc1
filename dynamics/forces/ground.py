"""Contact of points with a flat ground, as a force: elastic and damped along the normal, friction that creeps or slides.

With n the normal, T = 1 - n n', depth d = n . (x - x_g) < 0 inside, and xd the point's velocity:

    F = k |d| w n - c (n . xd) n + F_t,    F_t = -k_t T xd  where k_t |T xd| <= mu k |d|,  else -mu k |d| T xd / |T xd|

with w = 1, or, with a dissipation e [s/m], w = max(0, 1 - e n . xd): damping that grows with the depth (Hunt and Crossley, 1975,
Coefficient of restitution interpreted as damping in vibroimpact, Journal of Applied Mechanics 42(2)). It starts from nothing where
a point touches, and never pulls, while c makes the force jump. The smaller of the two laws of friction acts, so that the force is
continuous at the switch. Below it a point on an inclined ground creeps, at the speed at which ``k_t`` balances its weight: no rest
by friction. Source: Sueda, "Analytically differentiable articulated rigid body dynamics", section 1.9.6, with the signs that push
out and slow down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.errors import ModelError
from dynamics.forces.force import Force, Place, check_number, check_place, columns
from dynamics.lie.expression import Expr
from dynamics.lie.operators import norm
from dynamics.model.model import Model


class PointForceAt(NamedTuple):
    """A force on a point [3] (N) and its derivatives [3, 3] by position and velocity."""

    force: Expr
    by_place: Expr
    by_speed: Expr


@dataclass(frozen=True)
class Ground(Force):
    """Points that touch the plane through ``origin`` [3] (m) with a normal [3] that leads out of it.

    k [N/m]; c [N s/m]: damping of the normal motion, acts while inside and may pull; mu: friction of sliding; k_t [N s/m]: of
    creeping; e [s/m]: dissipation, damping as a share of the elastic force.
    """

    name: str
    places: tuple[Place, ...]
    k: float
    c: float = 0.0
    mu: float = 0.0
    k_t: float = 0.0
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    e: float = 0.0

    def check(self, model: Model) -> None:
        if not self.places:
            raise ModelError("needs at least one point", element=f"force {self.name!r}")
        for place in self.places:
            check_place(model, place, self.name)
        for what, value in (("stiffness", self.k), ("damping", self.c), ("friction", self.mu), ("creep", self.k_t),
                            ("dissipation", self.e)):
            check_number(self.name, what, value)
        for what, vector in (("normal", self.normal), ("origin", self.origin)):
            if len(vector) != 3 or not np.all(np.isfinite(vector)) or (what == "normal" and not any(vector)):
                raise ModelError(f"{what} must be three finite numbers, got {vector}", element=f"force {self.name!r}")

    def law(self, x: Expr, speed: Expr) -> PointForceAt:
        """The force [3] on a point at x with this velocity, and its derivatives [3, 3] by both; zero outside."""
        n = spatial.constant(np.asarray(self.normal, float) / np.linalg.norm(self.normal))
        T = spatial.constant(np.eye(3)) - n @ n.T
        d = ca.dot(n, x - spatial.constant(self.origin))
        a = T @ speed
        pace, most = norm(a), self.mu * self.k * ca.fmax(-d, 0)
        sliding = self.k_t * pace > most
        t = a / ca.if_else(sliding, pace, 1)
        friction = ca.if_else(sliding, -most * t, -self.k_t * a)
        by_x = ca.if_else(sliding, self.mu * self.k * (t @ n.T), ca.DM(3, 3))
        by_speed = ca.if_else(sliding, -most * (T - t @ t.T) / ca.if_else(sliding, pace, 1), -self.k_t * T)
        inside, out = d < 0, ca.dot(n, speed)
        grip = ca.fmax(0, 1 - self.e * out) if self.e else 1
        by_out = self.c - self.k * d * self.e * (grip > 0) if self.e else self.c
        return PointForceAt(inside * (friction - (self.k * d * grip + self.c * out) * n),
                            inside * (by_x - self.k * grip * (n @ n.T)), inside * (by_speed - by_out * (n @ n.T)))

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        total: Expr = ca.DM(model.nv, 1)
        for place in self.places:
            J = place.jacobian(model, q)
            total = total + J.T @ self.law(place.at(model, q), J @ v)[0]
        return total

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        total: Expr = ca.DM(model.nv, model.nv)
        for place in self.places:
            x, J, H = place.motion(model, q)
            F, by_x, by_speed = self.law(x, J @ v)
            total = total + J.T @ by_x @ J + columns(model, [h.T @ F + J.T @ (by_speed @ (h @ v)) for h in H])
        return total

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        total: Expr = ca.DM(model.nv, model.nv)
        for place in self.places:
            J = place.jacobian(model, q)
            total = total + J.T @ self.law(place.at(model, q), J @ v)[2] @ J
        return total

    def energy(self, model: Model, q: Expr) -> Expr:
        n = spatial.constant(np.asarray(self.normal, float) / np.linalg.norm(self.normal))
        depths = (ca.dot(n, place.at(model, q) - spatial.constant(self.origin)) for place in self.places)
        return sum((self.k / 2 * ca.fmin(d, 0) ** 2 for d in depths), ca.DM(0))

    def remaining(self, model: Model) -> Force | None:
        moving = tuple(place for place in self.places if model.frame(place.frame).body >= 0)
        return Ground(**{**vars(self), "places": moving}) if moving else None
