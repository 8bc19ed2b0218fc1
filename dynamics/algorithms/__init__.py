"""Algorithms: pure functions of a Model and CasADi expressions, one per file."""

from dynamics.algorithms.centroidal import (
    centre_of_mass,
    centre_of_mass_jacobian,
    kinetic_energy,
    momentum,
    potential_energy,
    subtree_angular_momentum,
    total_energy,
)
from dynamics.algorithms.configuration import (
    difference,
    integrate,
    integrate_partials,
    jet,
    neutral,
    random_configuration,
    rate_matrix,
    rate_matrix_inverse,
)
from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_dynamics import bias_force, gravity_force, inverse_dynamics
from dynamics.algorithms.jacobian_rate import frame_jacobian_rate
from dynamics.algorithms.jacobians import frame_jacobian, frame_jacobian_drift, relative_jacobian
from dynamics.algorithms.kinematic_hessian import frame_hessian
from dynamics.algorithms.kinematics import body_poses, body_velocities, frame_pose, frame_velocity
from dynamics.algorithms.mass_matrix import mass_matrix

__all__ = [
    "bias_force", "body_poses", "body_velocities", "centre_of_mass", "centre_of_mass_jacobian", "difference",
    "forward_dynamics", "frame_hessian", "frame_jacobian", "frame_jacobian_drift", "frame_jacobian_rate",
    "frame_pose", "frame_velocity", "gravity_force", "integrate", "integrate_partials", "inverse_dynamics",
    "jet", "kinetic_energy", "mass_matrix", "momentum", "neutral", "potential_energy", "random_configuration",
    "rate_matrix", "rate_matrix_inverse", "relative_jacobian", "subtree_angular_momentum", "total_energy",
]
