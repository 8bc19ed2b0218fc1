"""Analytic Jacobians: rates of end-effector coordinates chi = (chi_P, chi_R), for every pair of position and rotation charts.

Positions are those of ``dynamics.lie.position.CHARTS`` (cartesian, cylindrical, spherical), rotations those of
``dynamics.lie.rotation.PARAMETERISATIONS`` (matrix, quaternion, angle_axis, rotation_vector and the twelve Euler sequences);
a matrix counts nine coordinates, stacked by columns. Twists are ``[I_v; I_w]``, world axes at the frame's origin
(``world_aligned``). With ``E_e = blkdiag(E_P, E_R)``: ``w = E_e dchi/dt`` and ``J_0 = E_e J_A`` (Hutter et al., Robot Dynamics
lecture notes, ETH Zurich, HS 2023, Eqs. 2.189-2.192). Where chi has more than three rotation coordinates, ``E_e E_e^+ = 1``,
while ``E_e^+ E_e`` only projects onto the directions that keep the constraint (unit length, orthonormal columns).

A chart's singularity raises ``ChartSingularityError`` for numbers and gives inf or NaN in a graph.
"""

from __future__ import annotations

import casadi as ca

from dynamics import spatial
from dynamics.algorithms import jacobian_rate, jacobians, kinematics, tree
from dynamics.lie import position as positions
from dynamics.lie import rotation as rotations
from dynamics.lie.expression import Expr
from dynamics.model.model import Model
from dynamics.spatial import Transform


def coordinate_names(position: str, rotation: str) -> tuple[str, ...]:
    """Names of the m coordinates; raises ValueError with near misses for unknown charts."""
    chart, entry = positions.chart(position), rotations.parameterisation(rotation)
    return (*(f"position.{n}" for n in chart.components), *(f"rotation.{n}" for n in entry.components))


def coordinate_count(position: str, rotation: str) -> int:
    """m: 3 for the position and 3, 4 or 9 for the rotation."""
    return len(coordinate_names(position, rotation))


def coordinates_of(pose: Transform, position: str, rotation: str) -> Expr:
    """chi [m] of a pose, in the unique ranges of the charts."""
    chi_R = rotations.parameterisation(rotation).from_matrix(pose.R)
    return ca.vertcat(positions.from_cartesian(position, pose.p), ca.vec(chi_R))


def pose_of(chi: Expr, position: str, rotation: str) -> Transform:
    """The pose that chi [m] stands for."""
    chi_P, chi_R = _split(chi, position, rotation)
    return Transform(rotations.parameterisation(rotation).to_matrix(chi_R), positions.to_cartesian(position, chi_P))


def frame_coordinates(model: Model, q: Expr, frame: str, position: str, rotation: str) -> Expr:
    """End-effector configuration ``chi_e(q)`` [m] of a frame, Eq. 2.137."""
    return coordinates_of(kinematics.frame_pose(model, q, frame), position, rotation)


# ------------------------------------------------------------------------------------------------ twists and rates
def twist_map(chi: Expr, position: str, rotation: str) -> Expr:
    """``E_e(chi)`` [6, m]: ``[I_v; I_w] = E_e dchi/dt``."""
    chi_P, chi_R = _split(chi, position, rotation)
    return ca.diagcat(positions.velocity_map(position, chi_P), rotations.parameterisation(rotation).velocity_world(chi_R))


def rate_map(chi: Expr, position: str, rotation: str) -> Expr:
    """``E_e^+(chi)`` [m, 6]: ``dchi/dt = E_e^+ [I_v; I_w]``, right inverse of :func:`twist_map`."""
    chi_P, chi_R = _split(chi, position, rotation)
    return ca.diagcat(positions.rate_map(position, chi_P), rotations.parameterisation(rotation).rate_world(chi_R))


def twist_rate(chi: Expr, rate: Expr, second: Expr, position: str, rotation: str) -> Expr:
    """``[I_a; I_psi]`` [6] ``= E_e d2chi/dt2 + dE_e/dt dchi/dt``: classical acceleration of the origin and angular one."""
    chi_P, chi_R = _split(chi, position, rotation)
    rate_P, rate_R = _split(rate, position, rotation)
    second_P, second_R = _split(second, position, rotation)
    return spatial.motion(positions.acceleration(position, chi_P, rate_P, second_P),
                          rotations.angular_acceleration(rotation, chi_R, rate_R, second_R, "world"))


def second_rate(chi: Expr, rate: Expr, twist_rate: Expr, position: str, rotation: str) -> Expr:
    """``d2chi/dt2`` [m] from ``[I_a; I_psi]`` [6]: inverse of :func:`twist_rate` that keeps the constraint of the chart."""
    chi_P, chi_R = _split(chi, position, rotation)
    rate_P, rate_R = _split(rate, position, rotation)
    twist_rate = tree.as_column(twist_rate)
    return ca.vertcat(positions.second_rate(position, chi_P, rate_P, spatial.linear(twist_rate)),
                      ca.vec(rotations.second_rate(rotation, chi_R, rate_R, spatial.angular(twist_rate), "world")))


# ------------------------------------------------------------------------------------------------ Jacobians
def analytic_jacobian(model: Model, q: Expr, frame: str, position: str, rotation: str) -> Expr:
    """``J_A(q)`` [m, nv] ``= dchi_e/dq`` along the tangent: ``dchi_e/dt = J_A v``. Raises UnknownNameError, ValueError."""
    q = tree.as_column(q)
    chi = frame_coordinates(model, q, frame, position, rotation)
    return analytic_from_geometric(jacobians.frame_jacobian(model, q, frame, "world_aligned"), chi, position, rotation)


def analytic_from_geometric(J_0: Expr, chi: Expr, position: str, rotation: str) -> Expr:
    """``J_A = E_e^+ J_0`` [m, n] from a geometric Jacobian [6, n] in world axes at the frame's origin."""
    return rate_map(chi, position, rotation) @ J_0


def geometric_from_analytic(J_A: Expr, chi: Expr, position: str, rotation: str) -> Expr:
    """``J_0 = E_e J_A`` [6, n] from an analytic Jacobian [m, n], Eq. 2.192."""
    return twist_map(chi, position, rotation) @ J_A


def analytic_jacobian_rate(model: Model, q: Expr, v: Expr, frame: str, position: str, rotation: str) -> Expr:
    """``dJ_A/dt`` [m, nv] along the motion v, so that ``d2chi/dt2 = J_A a + dJ_A/dt v``."""
    q, v = tree.as_column(q), tree.as_column(v)
    chi = frame_coordinates(model, q, frame, position, rotation)
    J_0 = jacobians.frame_jacobian(model, q, frame, "world_aligned")
    J_0_rate = jacobian_rate.frame_jacobian_rate(model, q, v, frame, "world_aligned")
    back = rate_map(chi, position, rotation)
    return back @ J_0_rate + rate_map_rate(chi, back @ (J_0 @ v), position, rotation) @ J_0


def rate_map_rate(chi: Expr, rate: Expr, position: str, rotation: str) -> Expr:
    """``dE_e^+/dt`` [m, 6] along dchi/dt, by algorithmic differentiation of :func:`rate_map`."""
    m = coordinate_count(position, rotation)
    x, dx = ca.SX.sym("chi", m), ca.SX.sym("rate", m)
    along = ca.reshape(ca.jtimes(ca.vec(ca.densify(rate_map(x, position, rotation))), x, dx), m, 6)
    return ca.Function("rate_map_rate", [x, dx], [ca.sparsify(along)])(chi, rate)


def _split(chi: Expr, position: str, rotation: str) -> tuple[Expr, Expr]:
    """chi_P [3] and chi_R in the shape of its parameterisation; ValueError for a wrong length."""
    chi, m = tree.as_column(chi), coordinate_count(position, rotation)
    if chi.shape != (m, 1):
        raise ValueError(f"{position} position and {rotation} rotation have {m} coordinates, got shape {tuple(chi.shape)}")
    return chi[:3], ca.reshape(chi[3:], *rotations.parameterisation(rotation).shape)
