"""Forces along the straight lines that join points: springs with dampers, and cables that only pull.

The length L(q) of the path has the gradient g = dL/dq and the Hessian W; a tension T(L, dL/dt) then acts as f = -T g, with
``K = -g' (T_L g + T_r (W v)') - T W`` and ``D = -T_r g' g``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from dynamics.errors import ModelError
from dynamics.forces.force import Force, Place, check_number, check_place, columns
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


class Path(NamedTuple):
    """Length L [m] of a path, its gradient g [1, nv] and its Hessian W [nv, nv] (column k: dg/dq_k)."""

    L: Expr
    g: Expr
    W: Expr


def path_length(model: Model, places: tuple[Place, ...], q: Expr) -> Expr:
    """L [m] of straight lines from point to point."""
    at = [place.at(model, q) for place in places]
    return sum(ca.norm_2(b - a) for a, b in zip(at[:-1], at[1:], strict=True))


def path_gradient(model: Model, places: tuple[Place, ...], q: Expr) -> Expr:
    """g = dL/dq [1, nv]."""
    at, J = [place.at(model, q) for place in places], [place.jacobian(model, q) for place in places]
    total: Expr = ca.DM(1, model.nv)
    for k in range(len(places) - 1):
        e = at[k + 1] - at[k]
        total = total + (e / ca.norm_2(e)).T @ (J[k + 1] - J[k])
    return total


def path(model: Model, places: tuple[Place, ...], q: Expr) -> Path:
    """Length, gradient and Hessian."""
    moving = [place.motion(model, q) for place in places]
    W: Expr = ca.DM(model.nv, model.nv)
    for one, two in zip(moving[:-1], moving[1:], strict=True):
        e, J = two.x - one.x, two.J - one.J
        length = ca.norm_2(e)
        n = e / length
        across = (J - n @ (n.T @ J)) / length
        bend = columns(model, [(n.T @ (b - a)).T for a, b in zip(one.H, two.H, strict=True)])
        W = W + across.T @ J + bend
    return Path(path_length(model, places, q), path_gradient(model, places, q), W)


@dataclass(frozen=True)
class Spring(Force):
    """A spring and a damper along a path of straight lines: ``T = k (L - length) + c dL/dt`` pulls where it is positive and pushes
    where it is negative.

    places: at least two points that do not meet; k [N/m]; c [N s/m]; length [m]: without force.
    """

    name: str
    places: tuple[Place, ...]
    k: float
    length: float
    c: float = 0.0

    def check(self, model: Model) -> None:
        if len(self.places) < 2:
            raise ModelError("needs at least two points", element=f"force {self.name!r}")
        for place in self.places:
            check_place(model, place, self.name)
        check_number(self.name, "stiffness", self.k)
        check_number(self.name, "damping", self.c)
        check_number(self.name, "length", self.length)

    def tension(self, L: Expr, rate: Expr) -> Expr:
        """T [N]."""
        return self.k * (L - self.length) + self.c * rate

    def partials(self, L: Expr, rate: Expr) -> tuple[Expr, Expr]:
        """(dT/dL, dT/d(dL/dt))."""
        return self.k, self.c

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        g = path_gradient(model, self.places, q)
        return -g.T * self.tension(path_length(model, self.places, q), g @ v)

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        L, g, W = path(model, self.places, q)
        rate = g @ v
        by_length, by_rate = self.partials(L, rate)
        return -g.T @ (by_length * g + by_rate * (W.T @ v).T) - self.tension(L, rate) * W

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        g = path_gradient(model, self.places, q)
        return -self.partials(path_length(model, self.places, q), g @ v)[1] * (g.T @ g)

    def energy(self, model: Model, q: Expr) -> Expr:
        return self.k / 2 * (path_length(model, self.places, q) - self.length) ** 2

    def remaining(self, model: Model) -> Force | None:
        return self if len({model.frame(place.frame).body for place in self.places}) > 1 else None


@dataclass(frozen=True)
class Cable(Spring):
    """The same under tension only: ``T = max(0, k (L - length) + c dL/dt)`` where L > length, else 0.

    The force has a kink where the cable becomes taut, and a jump there where c > 0.
    """

    def _taut(self, L: Expr, rate: Expr) -> Expr:
        return ca.logic_and(self.length < L, super().tension(L, rate) > 0)

    def tension(self, L: Expr, rate: Expr) -> Expr:
        return ca.if_else(self._taut(L, rate), super().tension(L, rate), 0)

    def partials(self, L: Expr, rate: Expr) -> tuple[Expr, Expr]:
        pull = self._taut(L, rate)
        return ca.if_else(pull, self.k, 0), ca.if_else(pull, self.c, 0)

    def energy(self, model: Model, q: Expr) -> Expr:
        L = path_length(model, self.places, q)
        return ca.if_else(self.length < L, self.k / 2 * (L - self.length) ** 2, 0)


@dataclass(frozen=True)
class Bushing(Force):
    """A spring and damper of the same strength in all directions between two points that may meet:
    ``F = k (x2 - x1) + c (dx2/dt - dx1/dt)``, an attraction. k [N/m], c [N s/m]."""

    name: str
    first: Place
    second: Place
    k: float
    c: float = 0.0

    def check(self, model: Model) -> None:
        for place in (self.first, self.second):
            check_place(model, place, self.name)
        check_number(self.name, "stiffness", self.k)
        check_number(self.name, "damping", self.c)

    def _relative(self, model: Model, q: Expr) -> tuple[Expr, Expr]:
        return (self.second.at(model, q) - self.first.at(model, q),
                self.second.jacobian(model, q) - self.first.jacobian(model, q))

    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        e, J = self._relative(model, q)
        return -J.T @ (self.k * e + self.c * (J @ v))

    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        one, two = self.first.motion(model, q), self.second.motion(model, q)
        J, H = two.J - one.J, [b - a for a, b in zip(one.H, two.H, strict=True)]
        F = self.k * (two.x - one.x) + self.c * (J @ v)
        return columns(model, [-h.T @ F - J.T @ (self.k * J[:, k] + self.c * (h @ v)) for k, h in enumerate(H)])

    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        _, J = self._relative(model, q)
        return -self.c * (J.T @ J)

    def energy(self, model: Model, q: Expr) -> Expr:
        e, _ = self._relative(model, q)
        return self.k / 2 * ca.dot(e, e)

    def remaining(self, model: Model) -> Force | None:
        return self if model.frame(self.first.frame).body != model.frame(self.second.frame).body else None

