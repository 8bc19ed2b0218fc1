"""Rigid-body dynamics in CasADi: Lie groups, joints, models, algorithms and their derivatives. Knows nothing of control."""

from dynamics.errors import ModelError, UnknownNameError
from dynamics.functions import FUNCTIONS, make, make_frame
from dynamics.model import Builder, Model

__all__ = ["FUNCTIONS", "Builder", "Model", "ModelError", "UnknownNameError", "make", "make_frame"]
