"""A force: one record with its value and the exact derivatives of that value. Every execution reads it the same way.

A record gives a generalised force f(q, v) [nv] on a Model. Derivatives are those of ``design`` conventions: K = df/dq along the
right perturbation ``q [+] d``, D = df/dv. A force with a potential V(q) and a dissipation d(v) = v' f_d has f = -dV/dq + f_d.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import frame_hessian, frame_jacobian, frame_pose
from dynamics.errors import ModelError
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


class Force(ABC):
    """A force of the mechanism itself: a spring, a damper, a drag. Records are frozen, compare by value and have a ``repr`` that
    tells everything, from which the fingerprint of a mechanism is made."""

    name: str

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raises ModelError or UnknownNameError where the record does not fit the robot, naming the force."""

    @abstractmethod
    def effort(self, model: Model, q: Expr, v: Expr) -> Expr:
        """Generalised force f [nv], N and N m. q: [nq]; v: [nv]."""

    @abstractmethod
    def stiffness(self, model: Model, q: Expr, v: Expr) -> Expr:
        """K = df/dq [nv, nv], column k along tangent direction k."""

    @abstractmethod
    def damping(self, model: Model, q: Expr, v: Expr) -> Expr:
        """D = df/dv [nv, nv]."""

    def energy(self, model: Model, q: Expr) -> Expr:
        """Potential V(q) [J] of the part that has one; 0 for a force without."""
        return ca.DM(0)

    def remaining(self, model: Model) -> Force | None:
        """What is left of the force on a robot some of whose joints were locked; None where it acted on those alone."""
        return self


class PointMotion(NamedTuple):
    """A point of the robot: world position x [3] (m), Jacobian J [3, nv] of its velocity, slices dJ/dq_k [3, nv]."""

    x: Expr
    J: Expr
    H: tuple[Expr, ...]


@dataclass(frozen=True)
class Place:
    """A point by its coordinates [3] (m) in a frame; the frame ``world`` holds fixed points."""

    frame: str = "world"
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def at(self, model: Model, q: Expr) -> Expr:
        """World position [3] (m)."""
        return spatial.act_point(frame_pose(model, q, self.frame), spatial.constant(self.position))

    def jacobian(self, model: Model, q: Expr) -> Expr:
        """J [3, nv] of the point's velocity in the world."""
        J = frame_jacobian(model, q, self.frame, "world_aligned")
        arm = frame_pose(model, q, self.frame).R @ spatial.constant(self.position)
        return spatial.linear(J) - spatial.hat(arm) @ spatial.angular(J)

    def motion(self, model: Model, q: Expr) -> PointMotion:
        """Position, Jacobian and kinematic Hessian."""
        arm = frame_pose(model, q, self.frame).R @ spatial.constant(self.position)
        J = frame_jacobian(model, q, self.frame, "world_aligned")
        turning = spatial.angular(J)

        def slice_of(k: int, H: Expr) -> Expr:
            # the arm turns with the frame: d(R r)/dq_k = w_k x R r
            turned = spatial.hat(spatial.hat(turning[:, k]) @ arm)
            return spatial.linear(H) - spatial.hat(arm) @ spatial.angular(H) - turned @ turning

        slices = frame_hessian(model, q, self.frame, "world_aligned")
        return PointMotion(self.at(model, q), spatial.linear(J) - spatial.hat(arm) @ turning,
                           tuple(slice_of(k, H) for k, H in enumerate(slices)))


def check_place(model: Model, place: Place, force: str) -> None:
    """Raises UnknownNameError for a frame that the robot lacks."""
    model.frame(place.frame)
    if len(place.position) != 3:
        raise ModelError(f"a point has three coordinates, got {place.position}", element=f"force {force!r}")


def check_number(force: str, what: str, value: float, *, least: float = 0.0) -> None:
    """Raises ModelError for a coefficient that is not finite or below ``least``."""
    if not least <= value < float("inf"):
        raise ModelError(f"{what} must be finite and at least {least:g}, got {value:g}", element=f"force {force!r}")


def columns(model: Model, parts: Sequence[Expr]) -> Expr:
    """[n, nv] from one column for each tangent direction."""
    return ca.horzcat(*parts) if parts else ca.DM(0, model.nv)

