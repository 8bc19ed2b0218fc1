"""Control in the space of a task: its inertia, its motion, its forces.

    Λ w' + μ + p = F,   Λ = (J M⁻¹ J')⁻¹,   μ = Λ (J M⁻¹ b - dJ/dt v),   p = Λ J M⁻¹ g

M [n, n] mass matrix, b and g [n] Coriolis and gravity forces (M a + b + g = tau), J [m, n] the task's Jacobian with velocity
w = J v and drift dJ/dt v [m], F [m] the force of the robot's motors at the task, tau = J' F. Hutter et al., Robot Dynamics lecture
notes (ETH Zurich, HS 2023), sections 3.8.2 to 3.9.4; Khatib 1987. Here Λ is a pseudo-inverse: directions that no joint moves get no
force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics import algorithms as alg
from dynamics.kernels import Kernel, compile_kernel
from dynamics.lie import euler
from dynamics.model.model import Model
from ocp.control.notation.numerical_ik import rotation_error
from ocp.control.notation.prioritised import Prioritised, solve_levels, stacked
from ocp.control.pseudo_inverse import pseudo_inverse
from ocp.control.task_kernel import RobotKey
from ocp.errors import ProblemError, positive

Array = NDArray[np.float64]

RANK = 1e-10  # share of the largest singular value of J M⁻¹ J' below which a direction of the task does not move


@dataclass(frozen=True, eq=False)
class TaskDynamics:
    """inertia Λ [m, m], coriolis μ [m], gravity p [m], in the units of the task's force; and what they were made of."""

    inertia: Array
    coriolis: Array
    gravity: Array
    M: Array
    b: Array
    g: Array
    J: Array
    drift: Array

    def torque(self, acceleration: ArrayLike) -> Array:
        """``J' (Λ w'* + μ + p)`` [n]: gives the task the acceleration [m] (Eq. 3.90). A redundant robot feels b and g beside it."""
        return self.J.T @ (self.inertia @ np.asarray(acceleration, float) + self.coriolis + self.gravity)

    def torque_all_compensated(self, acceleration: ArrayLike) -> Array:
        """``J' Λ (w'* - dJ/dt v) + b + g`` [n]: the same acceleration, with b and g compensated in every joint (Eq. 3.95)."""
        return self.J.T @ (self.inertia @ (np.asarray(acceleration, float) - self.drift)) + self.b + self.g

    def hybrid_torque(self, selection: Selection, acceleration: ArrayLike, force: ArrayLike) -> Array:
        """``J' (Λ S_M w'* + S_F F_c + μ + p)`` [n]: motion where the task is free, the force [m] of the robot on its environment
        where it is not (Eq. 3.97)."""
        motion, push = np.asarray(acceleration, float), np.asarray(force, float)
        return self.J.T @ (self.inertia @ (selection.motion @ motion) + selection.force @ push + self.coriolis + self.gravity)


def task_dynamics(M: ArrayLike, b: ArrayLike, g: ArrayLike, J: ArrayLike, drift: ArrayLike) -> TaskDynamics:
    """Raises ProblemError for sizes that do not fit."""
    M, b, g, J, drift = (np.asarray(x, float) for x in (M, b, g, J, drift))
    n, m = M.shape[0], drift.size
    if M.shape != (n, n) or b.shape != (n,) or g.shape != (n,) or J.shape != (m, n):
        raise ProblemError(f"M {M.shape}, b {b.shape}, g {g.shape}, J {J.shape} and drift {drift.shape} do not fit together",
                           where="task_dynamics")
    across = np.linalg.solve(M, J.T)
    inertia = pseudo_inverse(J @ across, RANK)
    return TaskDynamics(inertia, inertia @ (across.T @ b - drift), inertia @ (across.T @ g), M, b, g, J, drift)


@dataclass(frozen=True)
class Gains:
    """Feedback of an error: stiffness k_p and damping k_d, per unit of mass: error'' + k_d error' + k_p error = 0."""

    stiffness: float
    damping: float

    def __post_init__(self) -> None:
        if not (self.stiffness >= 0.0 and self.damping >= 0.0):
            raise ProblemError(f"must not be negative: stiffness {self.stiffness!r}, damping {self.damping!r}", where="Gains")

    @classmethod
    def tuned(cls, frequency: float, damping_ratio: float = 1.0) -> Gains:
        """k_p = ω², k_d = 2 D ω for a natural frequency (Hz), ω = 2π frequency, and D (1: no overshoot)."""
        positive(frequency, "Gains.tuned.frequency")
        omega = 2 * np.pi * frequency
        return cls(omega**2, 2 * damping_ratio * omega)

    @property
    def frequency(self) -> float:
        """Natural frequency (Hz)."""
        return float(np.sqrt(self.stiffness)) / (2 * np.pi)

    @property
    def damping_ratio(self) -> float:
        """D = k_d / (2 √k_p)."""
        return self.damping / (2 * float(np.sqrt(self.stiffness)))

    def acceleration(self, error: ArrayLike, rate: ArrayLike, wanted: ArrayLike = 0.0) -> Array:
        """``wanted + k_p error + k_d rate``; error: target minus actual, rate: its derivative."""
        return np.asarray(wanted, float) + self.stiffness * np.asarray(error, float) + self.damping * np.asarray(rate, float)


@dataclass(frozen=True, eq=False)
class Selection:
    """S_M and S_F [6, 6] of a contact frame: which directions of [linear; angular] move, and which are pushed."""

    motion: Array
    force: Array


def selection(rotation: ArrayLike, free_linear: Sequence[bool], free_angular: Sequence[bool]) -> Selection:
    """free_linear, free_angular [3]: which axes of the contact frame the environment leaves free; rotation [3, 3]: the contact's
    axes as columns, in the axes of the task (world). ``S_M = blkdiag(R Σ_p R', R Σ_r R')``, S_F = 1 - S_M.

    The notes print R'ΣR (Eq. 3.99); with their own C that takes contact coordinates to the world, it is C Σ C'. Raises
    ProblemError.
    """
    R = np.asarray(rotation, float)
    if R.shape != (3, 3) or np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0.0:
        raise ProblemError("not a rotation matrix", where="selection.rotation")
    for name, free in (("free_linear", free_linear), ("free_angular", free_angular)):
        if len(free) != 3:
            raise ProblemError(f"expected three flags, got {list(free)!r}", where=f"selection.{name}")
    S = np.zeros((6, 6))
    S[:3, :3] = R @ np.diag(np.asarray(free_linear, float)) @ R.T
    S[3:, 3:] = R @ np.diag(np.asarray(free_angular, float)) @ R.T
    return Selection(S, np.eye(6) - S)


def small_rotation_error(sequence: str, angles: ArrayLike, target: ArrayLike) -> Array:
    """``Δφ ≈ E_R(χ) (χ* - χ)`` [3] (rad, world axes) from Euler angles [3] of a sequence of ``dynamics.lie.euler`` (Eq. 3.92):
    right to first order, and only away from the chart's singularity."""
    E = np.array(euler.angular_velocity_map_world(sequence, np.asarray(angles, float)))
    return np.asarray(E @ (np.asarray(target, float) - np.asarray(angles, float)))


def stacked_accelerations(tasks: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]]) -> Prioritised:
    """a = [J_1; ...]⁺ (w'_1 - dJ_1/dt v; ...) for tasks (J, drift, w'): all of equal priority (Eq. 3.82). Its ``v`` is a."""
    return stacked([(J, np.asarray(wanted, float) - np.asarray(drift, float)) for J, drift, wanted in tasks])


def prioritised_accelerations(tasks: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]]) -> Prioritised:
    """The same in strict order, first task first (Eq. 3.83)."""
    return solve_levels([(J, np.asarray(wanted, float) - np.asarray(drift, float)) for J, drift, wanted in tasks])


@dataclass(frozen=True, eq=False)
class FrameSpace:
    """A frame of a robot as a task: twist w = [linear; angular] in world axes at its origin. kernel: (q, v, r*, C*) -> Δr [3], Δφ
    [3], w [6], J [6, nv], dJ/dt v [6], M, b, g."""

    model: Model
    frame: str
    kernel: Kernel

    def dynamics(self, q: ArrayLike, v: ArrayLike) -> TaskDynamics:
        """Inertia, Coriolis force and gravity of the frame at a state."""
        *_, J, drift, M, b, g = self.kernel(q, v, np.zeros(3), np.eye(3))
        return task_dynamics(M, b, g, J, drift)

    def wanted(self, gains: Gains, q: ArrayLike, v: ArrayLike, position: ArrayLike, rotation: ArrayLike, twist: ArrayLike = 0.0,
               acceleration: ArrayLike = 0.0) -> Array:
        """``w'* = acceleration + k_p [Δr; Δφ] + k_d (w* - w)`` [6], Eq. 3.91; Δφ is the rotation vector from the frame's axes to
        rotation [3, 3] in world axes: it works up to half a turn, where its direction is undefined."""
        dr, dphi, w, *_ = self.kernel(q, v, position, rotation)
        return gains.acceleration(np.r_[dr, dphi], np.asarray(twist, float) - w, acceleration)


def frame_space(model: Model, frame: str) -> FrameSpace:
    """Compiled once for a robot and frame. Raises UnknownNameError."""
    return FrameSpace(model, frame, _frame_kernel(RobotKey(model), frame))


@lru_cache(maxsize=64)
def _frame_kernel(robot: RobotKey, frame: str) -> Kernel:
    model = robot.model
    q, v, r, C = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("r", 3), ca.SX.sym("C", 3, 3)
    pose, J = alg.frame_pose(model, q, frame), alg.frame_jacobian(model, q, frame, "world_aligned")
    drift, g = alg.frame_jacobian_drift(model, q, v, frame, "world_aligned"), alg.gravity_force(model, q)
    outputs = [r - pose.p, rotation_error(pose.R, C), J @ v, J, drift, alg.mass_matrix(model, q),
               alg.bias_force(model, q, v) - g, g]
    return compile_kernel(ca.Function("frame_space", [q, v, r, C], ca.cse([ca.densify(ca.SX(x)) for x in outputs]),
                                      ["q", "v", "r", "C"], ["dr", "dphi", "w", "J", "drift", "M", "b", "g"]))
