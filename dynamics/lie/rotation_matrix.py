"""Rotation matrices A_R_B (3 x 3): elementary rotations, bases, projection to SO(3), rates.

A_R_B takes components in B to components in A; its columns are the axes of B in A. The same matrix, read as an
active rotation, turns the axes of A into those of B. Angular velocities are those of B relative to A, in A
("world") or in B ("body"). A matrix written as a vector (9 x 1) is stacked by columns.
Source: Gehring et al., "Kindr cheat sheet"; Hutter et al. 2023, "Robot dynamics lecture notes", Eqs. 2.18-2.31.
"""

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.lie import so3
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix, rows, scalar

TOLERANCE = 1e-9
"""Largest entry of RᵀR - I that `checked` and `from_basis` accept."""


def about_x(angle: ExpressionLike) -> Expression:
    """Rotation by `angle` (rad) about x."""
    return about(0, angle)


def about_y(angle: ExpressionLike) -> Expression:
    """Rotation by `angle` (rad) about y."""
    return about(1, angle)


def about_z(angle: ExpressionLike) -> Expression:
    """Rotation by `angle` (rad) about z."""
    return about(2, angle)


def about(axis: int, angle: ExpressionLike) -> Expression:
    """Elementary rotation by `angle` (rad) about the coordinate axis 0, 1 or 2 (Hutter 2023, Eqs. 2.26-2.28)."""
    angle = scalar(angle, "angle")
    if axis not in (0, 1, 2):
        raise ValueError(f"axis: expected 0, 1 or 2, got {axis!r}")
    sine, cosine = ca.sin(angle), ca.cos(angle)
    if axis == 0:
        return rows((1.0, 0.0, 0.0), (0.0, cosine, -sine), (0.0, sine, cosine))
    if axis == 1:
        return rows((cosine, 0.0, sine), (0.0, 1.0, 0.0), (-sine, 0.0, cosine))
    return rows((cosine, -sine, 0.0), (sine, cosine, 0.0), (0.0, 0.0, 1.0))


def checked(rotation: ArrayLike, name: str = "rotation") -> NDArray[np.float64]:
    """The numeric matrix (3, 3) itself; `ValueError` unless it is orthonormal to `TOLERANCE` and right-handed."""
    r = np.asarray(rotation, dtype=float)
    if r.shape != (3, 3):
        raise ValueError(f"{name}: expected shape (3, 3), got {r.shape}")
    defect = np.abs(r.T @ r - np.eye(3)).max()
    if not defect <= TOLERANCE:
        raise ValueError(f"{name}: expected orthonormal columns, got |RᵀR - I| = {defect:.3g}")
    if np.linalg.det(r) < 0.0:
        raise ValueError(f"{name}: left-handed, det = -1; expected a right-handed triad (z = x × y)")
    return r


def from_basis(x_axis: ArrayLike, y_axis: ArrayLike, z_axis: ArrayLike) -> NDArray[np.float64]:
    """A_R_B (3, 3) from the axes of B given in A; `ValueError` unless they are a right-handed orthonormal triad."""
    axes = [np.asarray(axis, dtype=float) for axis in (x_axis, y_axis, z_axis)]
    return checked(np.stack(axes, axis=1), "basis")


def project(drifted: ArrayLike) -> NDArray[np.float64]:
    """The rotation (3, 3) nearest to a numeric matrix in the Frobenius norm, from its singular value decomposition.

    `ValueError` for det <= 0, from where the nearest rotation is not the one that drifted.
    Source: Higham 1989, "Matrix nearness problems and applications", section 3 (with det +1).
    """
    m = np.asarray(drifted, dtype=float)
    if m.shape != (3, 3):
        raise ValueError(f"drifted: expected shape (3, 3), got {m.shape}")
    determinant = np.linalg.det(m)
    if not determinant > 0.0:
        raise ValueError(f"drifted: expected a positive determinant, got {determinant:.3g}")
    left, _, right = np.linalg.svd(m)
    return np.asarray(left @ right)


def rate_map(rotation: ExpressionLike) -> Expression:
    """N (9 x 3) with vec(Ṙ) = N ω for the body-frame ω: Ṙ = R ω^."""
    r = matrix(rotation, 3, 3, "rotation")
    return ca.horzcat(*(ca.vec(ca.mtimes(r, so3.hat(unit))) for unit in np.eye(3)))


def rate_map_inverse(rotation: ExpressionLike) -> Expression:
    """N⁺ (3 x 9) with ω = N⁺ vec(Ṙ) in the body frame: the vector of Rᵀ Ṙ, N⁺ = ½ Nᵀ."""
    return 0.5 * rate_map(rotation).T


def rate_map_world(rotation: ExpressionLike) -> Expression:
    """N (9 x 3) with vec(Ṙ) = N ω for the world-frame ω: Ṙ = ω^ R."""
    r = matrix(rotation, 3, 3, "rotation")
    return ca.horzcat(*(ca.vec(ca.mtimes(so3.hat(unit), r)) for unit in np.eye(3)))


def rate_map_world_inverse(rotation: ExpressionLike) -> Expression:
    """N⁺ (3 x 9) with ω = N⁺ vec(Ṙ) in the world frame: the vector of Ṙ Rᵀ, N⁺ = ½ Nᵀ."""
    return 0.5 * rate_map_world(rotation).T


def curvature(rotation: ExpressionLike, rate: ExpressionLike) -> Expression:
    """The part ω^ω^R = Ṙ Rᵀ Ṙ (3 x 3) of R̈ that holds R on SO(3); R̈ = ω̇^ R + this, ω and ω̇ in the world frame."""
    r, dr = matrix(rotation, 3, 3, "rotation"), matrix(rate, 3, 3, "rate")
    return ca.mtimes(dr, ca.mtimes(r.T, dr))


def from_vector(entries: ExpressionLike) -> Expression:
    """Matrix (3 x 3) of its columns stacked (9 x 1)."""
    return ca.reshape(column(entries, 9, "entries"), 3, 3)
