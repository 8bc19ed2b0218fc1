"""The one door from a robot to a controlled system with its limits."""

from ocp.bridge.constraints import closed, effort_constraints, shared_effort_constraints, start_constraints
from ocp.bridge.efforts import Efforts, drive_efforts
from ocp.bridge.motion import equations_of_motion, inverse_effort, mechanism_of, model_space, motor_shares, row_names, state_limits
from ocp.bridge.systems import (
    accelerations,
    designed_system,
    inner,
    inverse_dynamics_system,
    residual_dynamics_system,
    robot_system,
)

__all__ = ["Efforts", "accelerations", "closed", "designed_system", "drive_efforts", "effort_constraints",
           "equations_of_motion", "inner", "inverse_dynamics_system", "inverse_effort", "mechanism_of", "model_space",
           "motor_shares", "residual_dynamics_system", "robot_system", "row_names", "shared_effort_constraints",
           "start_constraints", "state_limits"]
