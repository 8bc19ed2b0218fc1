"""Lie groups SO(2), SO(3), SE(2), SE(3) and every parameterisation of rotations and positions, as CasADi expressions."""

from dynamics.lie import (
    angle_axis,
    euler,
    operators,
    perturbation,
    position,
    quaternion,
    rotation,
    rotation_matrix,
    rotation_vector,
    rpy,
    se2,
    se3,
    series,
    so2,
    so3,
)
from dynamics.lie.se3 import Pose

__all__ = [
    "Pose",
    "angle_axis",
    "euler",
    "operators",
    "perturbation",
    "position",
    "quaternion",
    "rotation",
    "rotation_matrix",
    "rotation_vector",
    "rpy",
    "se2",
    "se3",
    "series",
    "so2",
    "so3",
]
