"""The robot model and how to get one: build, synthesise, or read from URDF and MJCF."""

from dynamics.model.builder import Builder
from dynamics.model.model import (
    GRAVITY, Body, BodyInertia, Frame, Geometry, Joint, Limits, Mimic, Model, Placement,
)

__all__ = ["GRAVITY", "Body", "BodyInertia", "Builder", "Frame", "Geometry", "Joint", "Limits", "Mimic", "Model", "Placement"]
