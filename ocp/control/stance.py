"""Where a robot stands: points on surfaces that only push, and hold sideways by friction.

f [3] (N, world axes) is the force of the surface ON the robot: n·f ≥ 0 and |f - n n·f| ≤ μ n·f. For the force of the robot on the
surface, F = -f, every sign of f turns. A flat foot is several stances on one link.

A pyramid of k sides stands for the cone as inequalities, t_i·f ≤ μ' n·f with t_i at the angles 2π i / k. "inner" lies within the
cone, μ' = μ cos(π/k): what it allows does not slip. "outer" holds the cone, μ' = μ: what it forbids slips.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.algorithms.contact_kinematics import Contact
from ocp.errors import ProblemError

Array = NDArray[np.float64]

PYRAMIDS = ("inner", "outer")


@dataclass(frozen=True)
class Stance:
    """A point [3] (m) of ``frame`` on a surface with normal [3] (world axes, out of the surface; made a unit) and friction μ.

    least, most: bounds of the normal force (N); ``most`` grows or shrinks while a stance is taken up or given up. sides, pyramid:
    of the cone's stand-in; heading: angle (rad) of its first side about the normal. slip [3]: None for a point that stands; for one
    that slides its direction, of length 1 or less (0: friction unknown); its friction is then -μ n·f slip, and only its normal is
    held. Raises ProblemError for μ ≤ 0 and the like.
    """

    frame: str
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    friction: float = 0.6
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    least: float = 0.0
    most: float = float("inf")
    sides: int = 4
    pyramid: str = "inner"
    heading: float = 0.0
    name: str = ""
    slip: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        where = f"stance {self.name or self.frame!r}"
        if not self.friction > 0.0:
            raise ProblemError(f"friction must be positive, got {self.friction!r}", where=where)
        if not 0.0 <= self.least <= self.most:
            raise ProblemError(f"expected 0 <= least <= most, got {self.least!r} and {self.most!r}", where=where)
        if self.sides < 3 or self.pyramid not in PYRAMIDS:
            raise ProblemError(f"expected at least 3 sides and one of {PYRAMIDS}, got {self.sides} and {self.pyramid!r}",
            where=where)
        length = float(np.linalg.norm(self.normal))
        if len(self.normal) != 3 or not 0.0 < length < np.inf:
            raise ProblemError(f"normal has no direction: {self.normal!r}", where=where)
        object.__setattr__(self, "normal", tuple(float(x) / length for x in self.normal))
        object.__setattr__(self, "name", self.name or self.frame)

    @property
    def contact(self) -> Contact:
        """The contact point, for Jacobians."""
        return Contact(self.frame, self.point)

    @property
    def slope(self) -> float:
        """μ' of the pyramid's sides."""
        return self.friction * (float(np.cos(np.pi / self.sides)) if self.pyramid == "inner" else 1.0)

    def tangents(self) -> Array:
        """[sides, 3] unit vectors across the normal, towards the sides. The first lies in the plane of the normal and the world's x
        (y where the normal is x), turned by ``heading``."""
        n = np.asarray(self.normal)
        along = np.eye(3)[0] if abs(n[0]) < 0.9 else np.eye(3)[1]
        first = along - n * (n @ along)
        first /= np.linalg.norm(first)
        angle = self.heading + 2 * np.pi * np.arange(self.sides) / self.sides
        return np.asarray(np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * np.cross(n, first))

    def rows(self) -> tuple[Array, Array, Array, tuple[str, ...]]:
        """(D [sides + 1, 3], lower, upper [sides + 1], names): lower <= D f <= upper; the pyramid's sides, then the normal
        force. Of a point that slides the normal force alone."""
        if self.slip is not None:
            return np.array([self.normal]), np.array([self.least]), np.array([self.most]), (f"{self.name}: normal force",)
        D = np.vstack([self.tangents() - self.slope * np.asarray(self.normal), self.normal])
        names = (*(f"{self.name}: friction {i}" for i in range(self.sides)), f"{self.name}: normal force")
        return D, np.r_[np.full(self.sides, -np.inf), self.least], np.r_[np.zeros(self.sides), self.most], names

    def slides(self) -> tuple[Array, Array]:
        """(N [k, 3], F [2, 3] or [0, 3]) of a point: N a is held at rest, F f = 0 is the law of its friction."""
        if self.slip is None:
            return np.eye(3), np.zeros((0, 3))
        n, across = np.asarray(self.normal), self.tangents()[[0, -1 if self.sides == 3 else self.sides // 4]]
        across = np.linalg.qr(np.column_stack([n, *across]))[0][:, 1:].T
        return n[None, :], across + self.friction * np.outer(across @ np.asarray(self.slip), n)

    def inside(self, force: ArrayLike, slack: float = 0.0) -> bool:
        """The force on the robot lies in the exact cone, up to slack (N)."""
        f = np.asarray(force, float)
        normal = float(f @ np.asarray(self.normal))
        across = float(np.linalg.norm(f - normal * np.asarray(self.normal)))
        return normal >= -slack and across <= self.friction * normal + slack
