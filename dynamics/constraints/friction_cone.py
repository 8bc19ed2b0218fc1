"""Cones of friction, for all packages: the exact cone of a point, pyramids that stand for it, and the wrench cone of a sole.

A force is (f_t1, f_t2, f_n) in the axes of the plane. The exact cone is ``|f_t| <= mu f_n``. A pyramid of k sides says so in
inequalities, ``n_i . f_t <= mu c f_n`` with n_i at the angles 2 pi i / k from the first tangent: "inner" lies within the cone,
c = cos(pi / k), what it allows does not slip; "outer" holds the cone, c = 1, what it forbids slips.

Four corners of a rectangle that only push, with friction |f_x|, |f_y| <= mu f_z each, give the force f and the moment m at its
centre exactly where U (f, m) <= 0 (Caron, Pham, Nakamura 2015, "Stability of surface contacts for humanoid robots: closed-form
formulae of the contact wrench cone for rectangular support areas"): friction, the centre of pressure within the rectangle, and a
moment about the normal between ends that depend on both.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dynamics.errors import ModelError
from dynamics.lie.expression import Expr

Array = NDArray[np.float64]
PYRAMIDS = ("inner", "outer")
ON_SIDE = 0.02  # rad: motion so near to the normal of a side is opposed by a point within the side, else by a corner


@dataclass(frozen=True)
class Cone:
    """The admissible set of friction over mu f_n: a disc (sides 0), or a polygon within ("inner") or around it ("outer") whose
    sides have their normals at the angles heading + 2 pi i / sides (rad) from the first tangent. Raises ModelError."""

    sides: int = 0
    pyramid: str = "inner"
    heading: float = 0.0

    def __post_init__(self) -> None:
        if self.sides and self.sides < 3 or self.pyramid not in PYRAMIDS:
            raise ModelError(f"a pyramid has at least 3 sides and is 'inner' or 'outer', got {self.sides} and {self.pyramid!r}",
                             element="cone")

    @cached_property
    def normals(self) -> Array:
        """[sides, 2] of the sides; axes are exact."""
        angle = self.heading + 2 * np.pi * np.arange(self.sides) / max(self.sides, 1)
        found = np.column_stack([np.cos(angle), np.sin(angle)])
        return np.where(np.abs(found) < 1e-15, 0.0, found)

    @cached_property
    def apothem(self) -> float:
        """Distance of the sides from the middle."""
        return float(np.cos(np.pi / self.sides)) if self.sides and self.pyramid == "inner" else 1.0

    def rows(self, friction: float) -> Array:
        """D [sides, 3] over (f_t1, f_t2, f_n): D f <= 0 within the pyramid."""
        return np.column_stack([self.normals, np.full(self.sides, -friction * self.apothem)])

    def size(self, x: Array) -> Array:
        """[..] of friction [.., 2]: at most mu f_n within the cone."""
        if not self.sides:
            return np.asarray(np.hypot(x[..., 0], x[..., 1]))
        return np.asarray((x @ self.normals.T).max(axis=-1) / self.apothem)

    def nearest(self, z: Array, most: float) -> tuple[Array, Array, Array]:
        """(x [2], its derivatives by z [2, 2] and by most [2]): the nearest point to z [2] of those with a size up to most."""
        if float(self.size(z)) <= most:
            return z, np.eye(2), np.zeros(2)
        if not self.sides:
            along = z / float(np.hypot(z[0], z[1]))
            return most * along, most / float(np.hypot(z[0], z[1])) * (np.eye(2) - np.outer(along, along)), along
        n, c, half = self.normals, self.apothem, np.tan(np.pi / self.sides)
        k = int((n @ z).argmax())
        side = np.array([-n[k, 1], n[k, 0]])
        if abs(side @ z) <= c * most * half:
            return c * most * n[k] + (side @ z) * side, np.outer(side, side), c * n[k]
        corner = c * (n[k] + np.sign(side @ z) * half * side)
        return most * corner, np.zeros((2, 2)), corner

    def against(self, slip: Array) -> Array:
        """[2]: friction is -mu f_n times this, where a point moves along the unit vector slip [2]."""
        if not self.sides:
            return slip
        n, half = self.normals, np.tan(np.pi / self.sides)
        k = int((n @ slip).argmax())
        side = np.array([-n[k, 1], n[k, 0]])
        return np.asarray(self.apothem * (n[k] + np.clip((side @ slip) / ON_SIDE, -1.0, 1.0) * half * side))


EXACT = Cone()
PYRAMID = Cone(4)
"""The four-sided pyramid inside the cone."""


def second_order(friction: float, force: Expr) -> Expr:
    """``(mu f_n, f_t)`` [3]: in the second-order cone where a point with this force does not slip."""
    return ca.vertcat(friction * force[2], force[0], force[1])


def wrench_cone(half_sizes: tuple[float, float], friction: float) -> Array:
    """U [16, 6] over (f_x, f_y, f_z, m_x, m_y, m_z) (N, N m; on the sole, at its centre, z along the normal): rows 0 to 3 are
    friction, 4 to 7 the centre of pressure, 8 to 15 the moment about the normal. half_sizes (m): along x and y."""
    (X, Y), mu = half_sizes, friction
    rows = [(s * (k == 0), s * (k == 1), -mu, 0.0, 0.0, 0.0) for k in (0, 1) for s in (1.0, -1.0)]
    rows += [(0.0, 0.0, -reach, s * (k == 0), s * (k == 1), 0.0) for k, reach in ((0, Y), (1, X)) for s in (1.0, -1.0)]
    rows += [(s * Y, r * X, -mu * (X + Y), turn * s * mu, turn * r * mu, turn)
             for turn, s, r in itertools.product((1.0, -1.0), repeat=3)]
    return np.array(rows)
