"""Points of moving bodies: the rigid-body formulas for velocity and acceleration, and differentiation in a moving frame.

The first half works on plain 3-vectors, the second on points fixed to a frame of a Model. All angular velocities and
accelerations are absolute, all vectors of one formula are in the same axes. Equation numbers: Hutter et al., Robot Dynamics
lecture notes (ETH Zurich, HS 2023).
"""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import jacobian_rate, jacobians, kinematics, tree
from dynamics.lie.expression import Expr
from dynamics.model.model import Model


# ------------------------------------------------------------------------------------------------ 3-vectors
def rigid_body_velocity(v_B: Expr, omega: Expr, r_BP: Expr) -> Expr:
    """Velocity [3] (m/s) of P fixed to a body: ``v_B + omega x r_BP``, Eq. 2.121."""
    v_B, omega, r_BP = map(tree.as_column, (v_B, omega, r_BP))
    return v_B + ca.cross(omega, r_BP)


def rigid_body_acceleration(a_B: Expr, omega: Expr, omega_dot: Expr, r_BP: Expr) -> Expr:
    """Acceleration [3] (m/s^2) of P fixed to a body: ``a_B + omega_dot x r + omega x (omega x r)``, Eq. 2.122."""
    a_B, omega, omega_dot, r_BP = map(tree.as_column, (a_B, omega, omega_dot, r_BP))
    return a_B + ca.cross(omega_dot, r_BP) + ca.cross(omega, ca.cross(omega, r_BP))


def derivative_in_moving_frame(B_r: Expr, B_r_dot: Expr, B_omega_AB: Expr) -> Expr:
    """Components in B of the time derivative taken in A of a vector: ``dB_r/dt + B_omega_AB x B_r`` [3], Eq. 2.129.

    B_r: the vector in B; B_r_dot: derivative of these components; B_omega_AB: angular velocity of B in A (rad/s), in B.
    """
    B_r, B_r_dot, B_omega_AB = map(tree.as_column, (B_r, B_r_dot, B_omega_AB))
    return B_r_dot + ca.cross(B_omega_AB, B_r)


def second_derivative_in_moving_frame(B_r: Expr, B_r_dot: Expr, B_r_ddot: Expr, B_omega_AB: Expr,
                                      B_omega_AB_dot: Expr) -> Expr:
    """Components in B of the second time derivative taken in A: relative, Coriolis, Euler and centripetal terms [3].

    :func:`derivative_in_moving_frame` applied twice; B_omega_AB_dot is the derivative of the components in B.
    """
    B_r, B_r_dot, B_r_ddot, w, w_dot = map(tree.as_column, (B_r, B_r_dot, B_r_ddot, B_omega_AB, B_omega_AB_dot))
    return B_r_ddot + 2 * ca.cross(w, B_r_dot) + ca.cross(w_dot, B_r) + ca.cross(w, ca.cross(w, B_r))


# ------------------------------------------------------------------------------------------------ points of a robot
def point_position(model: Model, q: Expr, frame: str, point: Expr) -> Expr:
    """World position [3] (m) of a point [3] given in ``frame`` and fixed to it. Raises UnknownNameError."""
    return spatial.act_point(kinematics.frame_pose(model, q, frame), tree.as_column(point))


def _arm(model: Model, q: Expr, frame: str, point: Expr) -> Expr:
    return kinematics.frame_pose(model, q, frame).R @ tree.as_column(point)


def point_velocity(model: Model, q: Expr, v: Expr, frame: str, point: Expr) -> Expr:
    """World velocity [3] (m/s) of a point [3] fixed to ``frame``."""
    twist = kinematics.frame_velocity(model, q, v, frame, "world_aligned")
    return rigid_body_velocity(spatial.linear(twist), spatial.angular(twist), _arm(model, q, frame, point))


def point_acceleration(model: Model, q: Expr, v: Expr, a: Expr, frame: str, point: Expr) -> Expr:
    """World acceleration [3] (m/s^2) of a point [3] fixed to ``frame``, gravity not counted."""
    J = jacobians.frame_jacobian(model, q, frame, "world_aligned")
    acceleration = J @ tree.as_column(a) + jacobians.frame_jacobian_drift(model, q, v, frame, "world_aligned")
    omega = spatial.angular(J) @ tree.as_column(v)
    return rigid_body_acceleration(spatial.linear(acceleration), omega, spatial.angular(acceleration),
                                   _arm(model, q, frame, point))


def point_jacobian(model: Model, q: Expr, frame: str, point: Expr) -> Expr:
    """``J_P`` [3, nv], world axes: velocity of the point [3] (m) fixed to ``frame`` is ``J_P v``."""
    J = jacobians.frame_jacobian(model, q, frame, "world_aligned")
    return spatial.linear(J) - spatial.hat(_arm(model, q, frame, point)) @ spatial.angular(J)


def point_jacobian_rate(model: Model, q: Expr, v: Expr, frame: str, point: Expr) -> Expr:
    """``dJ_P/dt`` [3, nv] of :func:`point_jacobian` along the motion v [nv]."""
    J = jacobians.frame_jacobian(model, q, frame, "world_aligned")
    rate = jacobian_rate.frame_jacobian_rate(model, q, v, frame, "world_aligned")
    arm = _arm(model, q, frame, point)
    swing = ca.cross(spatial.angular(J) @ tree.as_column(v), arm)
    return spatial.linear(rate) - spatial.hat(arm) @ spatial.angular(rate) - spatial.hat(swing) @ spatial.angular(J)
