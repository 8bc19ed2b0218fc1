"""Quantities of robots for costs and constraints, as expressions of configuration and velocity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynamics import algorithms as alg
from dynamics import spatial
from dynamics.lie import se3, so3
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


@dataclass(frozen=True)
class RobotTerms:
    """Robot quantities for costs and constraints, as expressions of q [nq] and v [nv]."""

    model: Model

    def position(self, frame: str, q: Expr) -> Expr:
        """World position [3] (m) of a frame origin."""
        return alg.frame_pose(self.model, q, frame).p

    def velocity(self, frame: str, q: Expr, v: Expr) -> Expr:
        """Velocity [3] (m/s) of a frame origin, world axes."""
        return spatial.linear(alg.frame_velocity(self.model, q, v, frame, "world_aligned"))

    def com(self, q: Expr) -> Expr:
        """World position [3] (m) of the centre of mass."""
        return alg.centre_of_mass(self.model, q)

    def energy(self, q: Expr, v: Expr) -> Expr:
        """Total mechanical energy (J)."""
        return alg.total_energy(self.model, q, v)

    def angular_momentum(self, frame: str, about: str, q: Expr, v: Expr) -> Expr:
        """Angular momentum [3] (kg m^2/s), world axes, about the origin of the frame ``about``, of the body that ``frame`` belongs
        to and of all that this body carries; of the whole robot where the frame is fixed to the world."""
        point = alg.frame_pose(self.model, q, about).p
        return alg.subtree_angular_momentum(self.model, q, v, self.model.frame(frame).body, point)

    def pose_error(self, frame: str, q: Expr, rotation: np.ndarray, position: np.ndarray) -> Expr:
        """log(target^-1 actual) [6]: [linear; angular], target axes at the identity of the error; m and rad."""
        actual = alg.frame_pose(self.model, q, frame)
        target = spatial.Transform(spatial.constant(rotation), spatial.constant(position))
        relative = spatial.compose(spatial.inverse(target), actual)
        return se3.log(se3.Pose(relative.R, relative.p))

    def orientation_error(self, frame: str, q: Expr, rotation: np.ndarray) -> Expr:
        """Rotation vector [3] (rad) of target^-1 actual."""
        return so3.log(spatial.constant(rotation).T @ alg.frame_pose(self.model, q, frame).R)
