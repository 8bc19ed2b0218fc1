"""The robot model and how to get one: build, synthesise, or read from URDF and MJCF."""

from dynamics.model.builder import Builder
from dynamics.model.mjcf import read_mjcf
from dynamics.model.model import (
    GRAVITY,
    Body,
    BodyInertia,
    Frame,
    Geometry,
    Joint,
    Limits,
    Mimic,
    Model,
    Placement,
)
from dynamics.model.robots import find_robot, robot_paths
from dynamics.model.urdf import read_urdf

__all__ = ["GRAVITY", "Body", "BodyInertia", "Builder", "Frame", "Geometry", "Joint", "Limits", "Mimic", "Model", "Placement",
           "find_robot", "read_mjcf", "read_urdf", "robot_paths"]
