"""Lie groups SO(2), SO(3), SE(2), SE(3), unit quaternions and roll-pitch-yaw angles as CasADi expressions."""

from dynamics.lie import quaternion, rpy, se2, se3, series, so2, so3
from dynamics.lie.se3 import Pose

__all__ = ["Pose", "quaternion", "rpy", "se2", "se3", "series", "so2", "so3"]
