"""Notation: velocities, accelerations, wrenches, inertias and Jacobians in every frame and representation, and adapters.

    representation  left, mixed, right, kindr: one table, the linear maps it implies, conversions
    twists, wrenches, accelerations, inertia    one concept each, on poses and 6-vectors
    jacobians, moving_base                      the same for robots: Jacobians, equations of motion, change of base
    hamel, differentials                        equations of motion and pose differentials by differentiation alone
    tagged                                      records that carry frame names and refuse wrong compositions
    notation                                    6-vectors of other books and libraries
    libraries, adapters                         states in the coordinates of Pinocchio, MuJoCo, Drake and kindr
"""

from dynamics.frames import (
    accelerations,
    adapters,
    differentials,
    hamel,
    inertia,
    jacobians,
    libraries,
    moving_base,
    notation,
    representation,
    tagged,
    twists,
    wrenches,
)
from dynamics.frames.representation import REPRESENTATIONS, as_pose, convert_twist, convert_twist_rate, convert_wrench

__all__ = [
    "REPRESENTATIONS", "accelerations", "adapters", "as_pose", "convert_twist", "convert_twist_rate", "convert_wrench",
    "differentials", "hamel", "inertia", "jacobians", "libraries", "moving_base", "notation", "representation", "tagged",
    "twists", "wrenches",
]
