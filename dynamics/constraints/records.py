"""Closures of loops, rods and couplings of joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np

from dynamics import spatial
from dynamics.constraints.constraint import Constraint, FrameConstraint, misaligned, point, unfolded
from dynamics.errors import ModelError, near
from dynamics.forces.force import Place, check_place
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.model.rigid import rotation_from_z
from dynamics.spatial import Transform

CLOSURES = {"fixed": ("all", "all"), "revolute": ("all", "tilt"), "prismatic": ("across", "all"),
            "cylindrical": ("across", "tilt"), "spherical": ("all", ""), "planar": ("along", "tilt")}
"""Directions that a joint between two frames constrains: of the position (all of it, across the axis, along the axis) and of the
rotation (all of it, the tilt of the axis, nothing). The complement of the joint's motion subspace, in functions that are smooth at
every angle."""


class HeldAxes(NamedTuple):
    """Constrained directions of a closure: axes of the position [k, 3], the axis [3], two directions across it [2, 3]."""

    rows: Expr
    axis: Expr
    across: Expr


@dataclass(frozen=True)
class Closure(FrameConstraint):
    """A joint between two frames of the robot (or the world) that its tree does not have: the loop is closed.

    joint: one of ``CLOSURES``; axis [3]: of its rotation or translation (planar: the normal), the same in both frames, which
    coincide but for the joint's own motion. g: rows of the position of ``second`` in ``first`` [m], then of the rotation R between
    them: of ``R axis`` across the axis, or of the skew part of R, ``unfolded``. A revolute closure in a planar mechanism has three
    rows that repeat what the tree says already; that is allowed.
    """

    name: str
    first: str
    second: str
    joint: str = "fixed"
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)

    def check(self, model: Model) -> None:
        where = f"constraint {self.name!r}"
        if self.joint not in CLOSURES:
            raise ModelError(f"no closure by a joint of kind {self.joint!r}{near(self.joint, CLOSURES)}", element=where)
        if model.frame(self.first).body == model.frame(self.second).body:
            raise ModelError(f"frames {self.first!r} and {self.second!r} are fixed to the same body", element=where)
        if len(self.axis) != 3 or not any(self.axis):
            raise ModelError(f"axis must be three numbers, not all zero; got {self.axis}", element=where)

    def _fixed_axes(self) -> HeldAxes:
        """(rows of the position [k, 3], axis [3], two directions across it [2, 3])."""
        axis = np.asarray(self.axis, float) / np.linalg.norm(self.axis)
        across = rotation_from_z(tuple(axis.tolist()))[:, :2].T
        rows = {"all": np.eye(3), "across": across, "along": axis[None, :]}[CLOSURES[self.joint][0]]
        return HeldAxes(spatial.constant(rows), spatial.constant(axis), spatial.constant(across))

    @property
    def frames(self) -> tuple[str, ...]:
        return self.first, self.second

    def aligned(self, poses: Sequence[Transform], t: Expr) -> Expr:
        R, (_, axis, _) = poses[0].R.T @ poses[1].R, self._fixed_axes()
        return {"all": lambda: (ca.trace(R) - 1) / 2, "tilt": lambda: ca.dot(axis, R @ axis), "": lambda: ca.DM(0, 1)}[
            CLOSURES[self.joint][1]]()

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        relative, (rows, axis, across) = spatial.compose(spatial.inverse(poses[0]), poses[1]), self._fixed_axes()
        R, p = relative
        # twist of B relative to A in the axes of B: B_v_WB - B_X_A A_v_WA
        twist = twists[1] - spatial.motion_to_child(relative, twists[0])
        spin, turn = spatial.angular(twist), R @ ca.cross(spatial.angular(twist), axis)
        held, rate = {
            "all": lambda: misaligned(R, spin),
            "tilt": lambda: unfolded(across @ (R @ axis), ca.dot(axis, R @ axis), across @ turn, ca.dot(axis, turn)),
            "": lambda: (ca.DM(0, 1), ca.DM(0, 1))}[CLOSURES[self.joint][1]]()
        return ca.vertcat(rows @ p, held), ca.vertcat(rows @ (R @ spatial.linear(twist)), rate)


@dataclass(frozen=True)
class Rod(FrameConstraint):
    """Two points at a constant distance [m] that is not zero: ``g = |x2 - x1| - length``."""

    name: str
    first: Place
    second: Place
    length: float

    def check(self, model: Model) -> None:
        for place in (self.first, self.second):
            check_place(model, place, self.name)
        if not 0.0 < self.length < float("inf"):
            raise ModelError(f"length must be positive, got {self.length:g}", element=f"constraint {self.name!r}")

    @property
    def frames(self) -> tuple[str, ...]:
        return self.first.frame, self.second.frame

    def relation(self, poses: Sequence[Transform], twists: Sequence[Expr], t: Expr) -> tuple[Expr, Expr]:
        (a, va), (b, vb) = (point(pose, twist, place.position)
                            for pose, twist, place in zip(poses, twists, (self.first, self.second), strict=True))
        between = b - a
        length = ca.norm_2(between)
        return length - self.length, ca.dot(between / length, vb - va)


@dataclass(frozen=True)
class Coupling(Constraint):
    """``sum ratio q + offset = 0`` of joints with one coordinate each: a differential, a belt, synchronous legs.

    ratios: (joint, ratio). Two joints are coupled exactly, without a constraint, by ``Mimic``.
    """

    name: str
    ratios: tuple[tuple[str, float], ...]
    offset: float = 0.0

    def check(self, model: Model) -> None:
        known = [n for n in model.coordinate_names if n in model.velocity_names]
        if not self.ratios:
            raise ModelError("couples no joints", element=f"constraint {self.name!r}")
        for joint, ratio in self.ratios:
            if joint not in known:
                raise ModelError(f"no joint of one coordinate named {joint!r}{near(joint, known)}",
                                 element=f"constraint {self.name!r}")
            if not np.isfinite(ratio) or ratio == 0.0:
                raise ModelError(f"ratio of {joint!r} must be finite and not zero, got {ratio:g}",
                                 element=f"constraint {self.name!r}")

    def value(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        return sum((ratio * q[model.coordinate_names.index(joint)] for joint, ratio in self.ratios), ca.DM(self.offset))

    def jacobian(self, model: Model, q: Expr, t: Expr = 0.0) -> Expr:
        J = ca.DM(1, model.nv)
        for joint, ratio in self.ratios:
            J[0, model.velocity_names.index(joint)] += ratio
        return J

    def remaining(self, model: Model) -> Constraint | None:
        return self if all(joint in model.velocity_names for joint, _ in self.ratios) else None
