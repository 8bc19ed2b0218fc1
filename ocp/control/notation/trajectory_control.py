"""Following trajectories by inverse differential kinematics with feedback of the tracking error.

    position      v = J_P+ (dr* + k Δr),       Δr = r* - r
    orientation   v = J_R+ (ω* + k Δφ),        Δφ = rotVec(C* C'), world axes
    pose          v = [J_P; J_R]+ of both

Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), Eqs. 2.256-2.258. Away from singularities the error obeys
d/dt Δ = -k Δ (for the rotation exactly so, about a fixed axis, when the target is constant): it decays as exp(-k t) and does
not drift. Held for a time step dt it is multiplied by 1 - k dt: stable for 0 < k dt < 2, gone in one step at k dt = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics.kernels import Kernel, compile_kernel
from dynamics.model.model import Model
from ocp.control.notation.numerical_ik import rotation_error
from ocp.control.pseudo_inverse import damped_inverse, null_space_projector, pseudo_inverse
from ocp.control.task_kernel import RobotKey
from ocp.errors import ProblemError, positive

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tracker:
    """A frame to be led. kernel: (q, r* [3], C* [3, 3]) -> Δr [3] (m), Δφ [3] (rad), J [6, nv], all in world axes."""

    model: Model
    frame: str
    kernel: Kernel


def compile_tracker(model: Model, frame: str) -> Tracker:
    """Raises UnknownNameError for the frame."""
    return Tracker(model, frame, _kernel(RobotKey(model), frame))


@lru_cache(maxsize=64)
def _kernel(robot: RobotKey, frame: str) -> Kernel:
    q, r, C = ca.SX.sym("q", robot.model.nq), ca.SX.sym("r", 3), ca.SX.sym("C", 3, 3)
    pose = alg.frame_pose(robot.model, q, frame)
    J = alg.frame_jacobian(robot.model, q, frame, "world_aligned")
    outputs = ca.cse([ca.densify(r - pose.p), ca.densify(rotation_error(pose.R, C)), ca.densify(J)])
    return compile_kernel(ca.Function("tracker", [q, r, C], outputs, ["q", "r", "C"], ["dr", "dphi", "J"]))


def position_control(
    tracker: Tracker,
    q: ArrayLike,
    position: ArrayLike,
    velocity: ArrayLike,
    gain: float,
    *,
    damping: float = 0.0,
    null_motion: ArrayLike | None = None,
) -> Array:
    """Velocity [nv] that leads the frame's origin along position [3] (m), velocity [3] (m/s); gain k [1/s]. null_motion [nv]:
    for the redundancy; damping: λ of the inverse."""
    dr, _, J = tracker.kernel(q, position, np.eye(3))
    return _invert(J[:3], np.asarray(velocity, float) + _gain(gain) * dr, damping, null_motion)


def orientation_control(
    tracker: Tracker,
    q: ArrayLike,
    rotation: ArrayLike,
    angular_velocity: ArrayLike,
    gain: float,
    *,
    damping: float = 0.0,
    null_motion: ArrayLike | None = None,
) -> Array:
    """Velocity [nv] that leads the frame's axes along rotation [3, 3], angular velocity [3] (rad/s, world axes); gain k
    [1/s]."""
    _, dphi, J = tracker.kernel(q, np.zeros(3), rotation)
    return _invert(J[3:], np.asarray(angular_velocity, float) + _gain(gain) * dphi, damping, null_motion)


def pose_control(
    tracker: Tracker,
    q: ArrayLike,
    position: ArrayLike,
    rotation: ArrayLike,
    velocity: ArrayLike,
    angular_velocity: ArrayLike,
    gain: float,
    rotation_gain: float | None = None,
    *,
    damping: float = 0.0,
    null_motion: ArrayLike | None = None,
) -> Array:
    """Both at once; rotation_gain: that of Δφ where it is another than that of Δr."""
    dr, dphi, J = tracker.kernel(q, position, rotation)
    turn = _gain(gain if rotation_gain is None else rotation_gain)
    wanted = np.concatenate([np.asarray(velocity, float) + _gain(gain) * dr, np.asarray(angular_velocity, float) + turn * dphi])
    return _invert(J, wanted, damping, null_motion)


def error_ratio(gain: float, dt: float) -> float:
    """1 - k dt: the remaining share of the error after one step of dt (s) with constant control."""
    return 1.0 - _gain(gain) * dt


def gain_limit(dt: float) -> float:
    """2 / dt: with constant control over steps of dt (s) the loop is stable for smaller gains."""
    positive(dt, "gain_limit.dt")
    return 2.0 / dt


def _gain(gain: float) -> float:
    if not gain >= 0.0:
        raise ProblemError(f"must not be negative, got {gain!r}", where="trajectory control, gain")
    return gain


def _invert(J: Array, w: Array, damping: float, null_motion: ArrayLike | None) -> Array:
    J = np.asarray(J)
    v = (damped_inverse(J, damping) if damping > 0.0 else pseudo_inverse(J, 1e-9)) @ w
    return v if null_motion is None else v + null_space_projector(J, 1e-9) @ np.asarray(null_motion, float)
