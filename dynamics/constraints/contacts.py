"""Kinds of contacts: points, lines and patches of points, flat soles, wheels and balls that roll.

All rows are in the axes of the plane: two tangents, then the normal, which points away from the ground. The multipliers are then
forces on the robot in these axes. Where on the plane a contact lies is free: tangential equations constrain velocities alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import spatial
from dynamics.algorithms import contact_kinematics, frame_pose
from dynamics.constraints.constraint import Constraint, FrameConstraint, point, unfolded
from dynamics.constraints.contact import Contact, Vector, check_axis, plane_axes
from dynamics.constraints.friction_cone import Cone, second_order, wrench_cone
from dynamics.errors import ModelError
from dynamics.forces.force import Place
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform

Array = NDArray[np.float64]
STAND_IN = Cone(8)
"""The pyramid that stands for an exact cone where inequalities are needed."""


@dataclass(frozen=True)
class PointContact(Contact):
    """Points of a frame that do not slip on the plane: one point, a line of two, a patch of more (whose rows repeat each other).

    points: coordinates [3] (m) in the frame; places: world positions where they are fixed, one for each; empty: wherever they touch
    the plane. slides: no tangential rows, one of the normal for each point.
    """

    name: str
    frame: str
    points: tuple[Vector, ...] = ((0.0, 0.0, 0.0),)
    normal: Vector = (0.0, 0.0, 1.0)
    height: float = 0.0
    friction: float | None = None
    places: tuple[Vector, ...] = ()
    slides: bool = False

    def check_numbers(self) -> None:
        super().check_numbers()
        where = self._where
        if not self.points:
            raise ModelError("has no points", element=where)
        for at in (*self.points, *self.places):
            if len(at) != 3 or not np.all(np.isfinite(at)):
                raise ModelError(f"a point needs three finite coordinates, got {at}", element=where)
        if not self.places and np.linalg.matrix_rank(np.subtract(self.points, self.points[0]), tol=1e-9) > 2:
            raise ModelError("the points are not coplanar", element=where)
        if self.places and len(self.places) != len(self.points):
            raise ModelError(f"{len(self.places)} positions for {len(self.points)} points", element=where)
        if self.slides and (self.places or self.friction is not None):
            raise ModelError("a sliding contact has neither friction nor fixed positions", element=where)

    def apart(self) -> tuple[PointContact, ...]:
        return _each(self, self.points, 0.0 if self.slides else self.friction)

    @property
    def velocity_rows(self) -> tuple[int, ...]:
        return () if self.slides or self.places else tuple(3 * i + k for i in range(len(self.points)) for k in (0, 1))

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        kept, none = (self.axes[2, :], ca.DM(0, 1)) if self.slides else (self.axes, ca.DM(2, 1))
        moving = [point(poses[0], twists[0], at) for at in self.points]
        if self.places:
            held = [self.axes @ (x - spatial.constant(place)) for (x, _), place in zip(moving, self.places, strict=True)]
        else:
            held = [ca.vertcat(none, self.axes[2, :] @ x - self.height) for x, _ in moving]
        return ca.vertcat(*held), ca.vertcat(*(kept @ velocity for _, velocity in moving))

    @property
    def reduced(self) -> Constraint:
        return self if len(self.points) == 1 else Patch(self.name, self)

    def spread(self, model: Model, q: Expr, multipliers: Expr) -> Expr:
        if len(self.points) == 1:
            return multipliers
        forces = Patch(self.name, self).basis @ multipliers
        if self.slides:
            return forces
        turned = self.axes @ (frame_pose(model, q, self.frame).R @ ca.reshape(forces, 3, len(self.points)))
        return ca.reshape(turned, 3 * len(self.points), 1)

    def touching(self, model: Model, q: Expr) -> Expr:
        return ca.horzcat(*(Place(self.frame, point).at(model, q) for point in self.points))

    def pushes(self, force: Expr) -> Expr:
        return force if self.slides else force[2::3]

    def cones(self, force: Expr) -> tuple[Expr, ...]:
        if self.friction is None:
            return ()
        return tuple(second_order(self.friction, force[3 * i:3 * i + 3]) for i in range(len(self.points)))

    # ---- the only point of a contact, as controllers see it: forces f [3] (N, world axes) on the robot ------------------------
    @cached_property
    def contact_point(self) -> contact_kinematics.Contact:
        """The contact point, for Jacobians."""
        return contact_kinematics.Contact(self.frame, self.points[0])

    def limits(self) -> tuple[Array, Array, Array]:
        """(D [sides + 1, 3], lower, upper [sides + 1]): lower <= D f <= upper; the pyramid's sides, then the normal force. Of a
        point that slides the normal force alone."""
        cone = self.pyramid.rows(self.friction or 0.0) @ self.plane if self.slip is None else np.zeros((0, 3))
        return (np.vstack([cone, self.plane[2]]), np.r_[np.full(len(cone), -np.inf), self.least],
                np.r_[np.zeros(len(cone)), self.most])

    @property
    def pyramid(self) -> Cone:
        """The pyramid that is its cone, or stands for it."""
        return self.cone if self.cone.sides else STAND_IN

    def equations(self) -> tuple[Array, Array]:
        """(N [k, 3], F [2, 3] or [0, 3]): N a = 0, F f = 0 is the law of its friction."""
        if self.slip is None:
            return np.eye(3), np.zeros((0, 3))
        across, n = self.plane[:2], self.plane[2]
        return n[None, :], across + (self.friction or 0.0) * np.outer(across @ np.asarray(self.slip), n)

    def used(self, force: ArrayLike) -> float:
        """The share of its friction that a force uses: 1 on the cone, more outside; infinite where it pulls."""
        f = self.plane @ np.asarray(force, float)
        across, most = float(np.hypot(f[0], f[1])), (self.friction or 0.0) * float(f[2])
        if across <= 1e-6:
            return 0.0 if f[2] > -1e-6 else float("inf")
        return across / most if most > 0.0 else float("inf")


@dataclass(frozen=True)
class Patch(FrameConstraint):
    """Several points of a rigid body in rows that do not repeat each other: an orthonormal basis of what the points can do.

    In the axes of the body the velocities of the points are a constant matrix times its twist, so that the basis is constant: a
    line has five rows, a patch six; points that slide have two or three.
    """

    name: str
    contact: PointContact

    def check(self, model: Model) -> None:
        self.contact.check(model)

    @property
    def gains(self) -> tuple[float, float]:  # type: ignore[override]
        """Feedback gains of the contact against drift."""
        return self.contact.gains

    @property
    def frames(self) -> tuple[str, ...]:
        return self.contact.frames

    @property
    def basis(self) -> ca.DM:
        """[rows of the contact, r], orthonormal columns; in the axes of the body where the points do not slide."""
        points = np.asarray(self.contact.points)
        rows = np.column_stack([np.ones(len(points)), points]) if self.contact.slides else np.vstack(
            [np.column_stack([np.eye(3), -np.array(spatial.hat(ca.DM(r)))]) for r in points])
        columns, values, _ = np.linalg.svd(rows, full_matrices=False)
        return ca.DM(columns[:, values > 1e-9 * values[0]])

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        found = self.contact.relation(poses, twists, t)
        if self.contact.slides:
            return self.basis.T @ found[0], self.basis.T @ found[1]
        count, turn = len(self.contact.points), poses[0].R.T @ self.contact.axes.T
        own = (ca.reshape(turn @ ca.reshape(x, 3, count), 3 * count, 1) for x in found)
        g, rate = (self.basis.T @ x for x in own)
        return g, rate


@dataclass(frozen=True)
class FlatContact(Contact):
    """A sole that lies flat on the plane and neither slips nor turns: six equations, force and moment at its origin.

    position [3] (m): the origin in the frame; axis [3]: of the frame, along the normal. half_sizes (m): of a rectangle around the
    origin along the tangents of the plane, in which the centre of pressure has to stay; None: not limited. With friction they limit
    the moment about the normal as well, to what the corners can give (`wrench_cone`). It is meant for a sole that does not yaw far
    from the tangents, for others take a patch of points.
    """

    name: str
    frame: str
    position: Vector = (0.0, 0.0, 0.0)
    axis: Vector = (0.0, 0.0, 1.0)
    normal: Vector = (0.0, 0.0, 1.0)
    height: float = 0.0
    friction: float | None = None
    half_sizes: tuple[float, float] | None = None

    def check_numbers(self) -> None:
        super().check_numbers()
        check_axis(self.name, "axis", self.axis)
        if self.half_sizes is not None and (len(self.half_sizes) != 2 or not all(0 < x < np.inf for x in self.half_sizes)):
            raise ModelError(f"half_sizes must be two positive lengths, got {self.half_sizes}", element=self._where)

    def apart(self) -> tuple[Contact, ...]:
        """The corners of the rectangle; itself where it has none."""
        if self.half_sizes is None:
            return (self,)
        side = plane_axes(self.axis)[:2].T @ np.diag(self.half_sizes)
        corners = [np.asarray(self.position) + side @ (a, b) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
        return _each(self, corners, self.friction)

    @property
    def velocity_rows(self) -> tuple[int, ...]:
        return 0, 1, 5

    def aligned(self, poses: Sequence[Transform], t: Expr) -> Expr:
        axis = np.asarray(self.axis, float) / np.linalg.norm(self.axis)
        return self.axes[2, :] @ (poses[0].R @ spatial.constant(axis))

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        pose, axis = poses[0], np.asarray(self.axis, float) / np.linalg.norm(self.axis)
        up = self.axes @ (pose.R @ spatial.constant(axis))
        turn = self.axes @ (pose.R @ spatial.angular(twists[0]))
        tilt = ca.cross(turn, up)
        at, velocity = point(pose, twists[0], self.position)
        lean, rate = unfolded(ca.vertcat(-up[1], up[0]), up[2], ca.vertcat(-tilt[1], tilt[0]), tilt[2])
        return (ca.vertcat(0, 0, self.axes[2, :] @ at - self.height, lean, 0), ca.vertcat(self.axes @ velocity, rate, turn[2]))

    def touching(self, model: Model, q: Expr) -> Expr:
        if self.half_sizes is None:
            return Place(self.frame, self.position).at(model, q)
        return ca.horzcat(*(corner.touching(model, q) for corner in self.apart()))

    def pushes(self, force: Expr) -> Expr:
        if self.half_sizes is None:
            return force[2]
        a, b = self.half_sizes
        # the centre of pressure is (-m_2, m_1) / f_n
        rows = ca.vertcat(force[2], a * force[2] - force[4], a * force[2] + force[4], b * force[2] - force[3],
                          b * force[2] + force[3])
        turning = wrench_cone(self.half_sizes, self.friction)[8:] if self.friction is not None else np.zeros((0, 6))
        return ca.vertcat(rows, -ca.DM(turning) @ force)

    def cones(self, force: Expr) -> tuple[Expr, ...]:
        return () if self.friction is None else (second_order(self.friction, force),)


@dataclass(frozen=True)
class RollingContact(Contact):
    """A wheel or a ball that rolls on the plane without slipping: the material point that touches is at rest.

    radius [m] around the origin of the frame; axis [3] of a wheel, a disc of no width, in the frame; None: a ball.
    """

    name: str
    frame: str
    radius: float
    axis: Vector | None = None
    normal: Vector = (0.0, 0.0, 1.0)
    height: float = 0.0
    friction: float | None = None

    def check_numbers(self) -> None:
        super().check_numbers()
        if self.axis is not None:
            check_axis(self.name, "axis", self.axis)
        if not 0.0 < self.radius < np.inf:
            raise ModelError(f"radius must be positive, got {self.radius:g}", element=self._where)

    def apart(self) -> tuple[Contact, ...]:
        return (self,)

    @property
    def velocity_rows(self) -> tuple[int, ...]:
        return 0, 1

    def _arm(self, R: Expr) -> Expr:
        """From the centre to the lowest point [3], axes of the plane: down, in the plane of the wheel. R: of the frame."""
        down = -spatial.constant((0.0, 0.0, 1.0))
        if self.axis is None:
            return self.radius * down
        axis = np.asarray(self.axis, float) / np.linalg.norm(self.axis)
        across = self.axes @ (R @ spatial.constant(axis))
        within = down + across[2] * across
        return self.radius * within / ca.sqrt(ca.dot(within, within))

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        (R, p), arm = poses[0], self._arm(poses[0].R)
        velocity = self.axes @ (R @ spatial.linear(twists[0])) + ca.cross(self.axes @ (R @ spatial.angular(twists[0])), arm)
        return ca.vertcat(0, 0, self.axes[2, :] @ p + arm[2] - self.height), velocity

    def touching(self, model: Model, q: Expr) -> Expr:
        R, p = frame_pose(model, q, self.frame)
        return p + self.axes.T @ self._arm(R)

    def pushes(self, force: Expr) -> Expr:
        return force[2]

    def cones(self, force: Expr) -> tuple[Expr, ...]:
        return () if self.friction is None else (second_order(self.friction, force),)


def _each(contact: Contact, points: Iterable[Iterable[float]], friction: float | None) -> tuple[PointContact, ...]:
    """The contact at each of some points of its frame."""
    places = tuple((float(x), float(y), float(z)) for x, y, z in points)
    names = [contact.name] if len(places) == 1 else [f"{contact.name} {k}" for k in range(len(places))]
    return tuple(PointContact(name, contact.frame, (place,), contact.normal, contact.height, friction, **contact.terms)
                 for name, place in zip(names, places, strict=True))
