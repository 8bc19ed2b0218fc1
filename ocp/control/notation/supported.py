"""Dynamics and control of a robot on its supports: forces that hold it, motions that respect them, torques that command those.

    M a + h + J_c' F_c = S' tau,   J_c a + dJ_c/dt v = 0

F_c [c] is the force of the robot ON its supports, as in Hutter et al., Robot Dynamics lecture notes (ETH Zurich, HS 2023), Eq.
3.57; what the ground gives back is -F_c. M [n, n], h [n] bias forces, J_c [c, n] with drift dJ_c/dt v [c], S [k, n] which
velocities are driven. Rows of J_c may repeat each other (extended feet): inverses are pseudo-inverses, forces the smallest ones.
NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocp.control.pseudo_inverse import null_space_projector, pseudo_inverse
from ocp.errors import ProblemError

Array = NDArray[np.float64]

RANK = 1e-10


@dataclass(frozen=True, eq=False)
class Supported:
    """A robot on supports at one state. inertia Λ_c [c, c] = (J_c M⁻¹ J_c')⁺; projector N_c [n, n] = 1 - M⁻¹ J_c' Λ_c J_c: motions
    that the supports allow, with N_c' M = M N_c (Eqs. 3.62, 3.63, 3.68)."""

    M: Array
    h: Array
    J: Array
    drift: Array
    S: Array
    inertia: Array
    projector: Array

    def force(self, torque: ArrayLike) -> Array:
        """``F_c = Λ_c (J_c M⁻¹ (S' tau - h) + dJ_c/dt v)`` [c] (N) on the supports: known without a sensor (Eq. 3.62)."""
        free = np.linalg.solve(self.M, self.S.T @ np.asarray(torque, float) - self.h)
        return self.inertia @ (self.J @ free + self.drift)

    def acceleration(self, torque: ArrayLike) -> Array:
        """a [n] under the torque [k]: the supports do not accelerate."""
        push = self.S.T @ np.asarray(torque, float) - self.h - self.J.T @ self.force(torque)
        return np.asarray(np.linalg.solve(self.M, push))

    def torque(self, acceleration: ArrayLike, null_torque: ArrayLike | None = None) -> Array:
        """``(N_c' S')⁺ N_c' (M a* + h)`` [k], the smallest torque for a* [n], plus the part of null_torque [k] that changes only
        the forces between the supports (Eqs. 3.100, 3.101).

        It gives a* exactly if a* keeps the supports and ``uncommanded`` is 0; otherwise it is the least-squares fit.
        """
        reach = self.projector.T @ self.S.T
        out = pseudo_inverse(reach, RANK) @ (self.projector.T @ (self.M @ np.asarray(acceleration, float) + self.h))
        return out if null_torque is None else out + null_space_projector(reach, RANK) @ np.asarray(null_torque, float)

    def impulse(self, velocity: ArrayLike) -> Array:
        """``Λ_c J_c u⁻`` [c] (N s) that the supports get when they stop points that arrive with velocity u⁻ [n] (Eq. 3.67)."""
        return self.inertia @ (self.J @ np.asarray(velocity, float))

    def after_impact(self, velocity: ArrayLike) -> Array:
        """``u⁺ = N_c u⁻`` [n]: without rebound (Eq. 3.70)."""
        return self.projector @ np.asarray(velocity, float)

    def impact_energy(self, velocity: ArrayLike) -> float:
        """``-1/2 (J_c u⁻)' Λ_c J_c u⁻`` (J): change of the kinetic energy, never positive (Eq. 3.72)."""
        speed = self.J @ np.asarray(velocity, float)
        return -0.5 * float(speed @ self.inertia @ speed)

    @property
    def internal(self) -> int:
        """Number of independent torques that move nothing."""
        return self.S.shape[0] - int(np.linalg.matrix_rank(self.projector.T @ self.S.T, tol=1e-9))

    @property
    def uncommanded(self) -> int:
        """Motions that the supports allow and no torque commands."""
        free = self.M.shape[0] - int(np.linalg.matrix_rank(self.J, tol=1e-9)) if self.J.size else self.M.shape[0]
        return free - int(np.linalg.matrix_rank(self.projector.T @ self.S.T, tol=1e-9))


def supported(M: ArrayLike, h: ArrayLike, J: ArrayLike, drift: ArrayLike, S: ArrayLike) -> Supported:
    """Raises ProblemError for sizes that do not fit."""
    M, h, J, drift, S = (np.asarray(x, float) for x in (M, h, J, drift, S))
    n, c = M.shape[0], drift.size
    J = J.reshape(c, n) if J.size == c * n else J
    if M.shape != (n, n) or h.shape != (n,) or J.shape != (c, n) or S.ndim != 2 or S.shape[1] != n:
        raise ProblemError(f"M {M.shape}, h {h.shape}, J {J.shape}, drift {drift.shape} and S {S.shape} do not fit together",
                           where="supported")
    across = np.linalg.solve(M, J.T)
    inertia = pseudo_inverse(J @ across, RANK) if c else np.zeros((0, 0))
    return Supported(M, h, J, drift, S, inertia, np.eye(n) - across @ inertia @ J)


@dataclass(frozen=True, eq=False)
class VirtualModel:
    """torque [k]; force [c] on the supports; missing [n - k]: what the supports could not give of the base's wrench (0: exact)."""

    torque: Array
    force: Array
    missing: Array


def virtual_model(g: ArrayLike, J_c: ArrayLike, forces: Sequence[tuple[ArrayLike, ArrayLike]], S: ArrayLike) -> VirtualModel:
    """Torques that make a robot at rest move as if only virtual forces pulled at it, by its supports: (J_v [m, n], F_v [m]) each.

    ``F_c`` is the smallest force on the supports that balances gravity and pulls on what no motor drives, by pseudo-inverse (Eqs.
    3.117, 3.118, 3.120); then ``tau = g + Σ J_v' F_v + Σ J_c' F_c`` in the driven joints (Eq. 3.121; g = -Σ J_g' F_g). Without
    forces these are the quasi-static torques. Moments act by a rotation Jacobian. g [n] (N, N m), J_c [c, n], S [k, n] as
    above.
    """
    g, J_c, S = (np.asarray(x, float) for x in (g, J_c, S))
    wanted = g + sum((np.asarray(J, float).T @ np.asarray(F, float) for J, F in forces), np.zeros(g.size))
    passive = np.linalg.svd(S)[2][S.shape[0]:]  # directions that span what no motor drives
    balance = passive @ J_c.T
    force = -pseudo_inverse(balance, RANK) @ (passive @ wanted)
    return VirtualModel(pseudo_inverse(S.T) @ (wanted + J_c.T @ force), force, passive @ wanted + balance @ force)
