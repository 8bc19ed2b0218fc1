"""Rigid-body dynamics in CasADi: Lie groups, joints, models, algorithms and their derivatives. Knows nothing of control.

    robot = dynamics.load("ur5.urdf")
    tau = robot.inverse_dynamics(q, v, a)          # numbers, or symbols of one's own casadi.Opti
"""

from dynamics.errors import ModelError, UnknownNameError
from dynamics.functions import FUNCTIONS, make, make_frame
from dynamics.model import Builder, Model
from dynamics.robot import Robot, load

__all__ = ["FUNCTIONS", "Builder", "Model", "ModelError", "Robot", "UnknownNameError", "load", "make", "make_frame"]
