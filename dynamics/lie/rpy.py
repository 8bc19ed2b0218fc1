"""Roll-pitch-yaw angles (roll, pitch, yaw), 3 x 1, rad: turns about the fixed axes x, then y, then z (URDF).

R = R_z(yaw) R_y(pitch) R_x(roll), the same as intrinsic z-y'-x''.

Gimbal lock: at pitch = ±π/2 only yaw ∓ roll is determined. There the symbolic conversions to angles still
return angles of the given rotation, but their derivatives are NaN; `from_matrix_numeric` returns yaw = 0.
"""

import math

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.lie import quaternion
from dynamics.lie.expression import Expression, ExpressionLike, column, matrix, rows

GIMBAL_LOCK = 1e-12
"""cos(pitch) below which `from_matrix_numeric` counts a rotation as gimbal locked."""

_ROTATION_TOLERANCE = 1e-6


def to_matrix(rpy: ExpressionLike) -> Expression:
    """Rotation matrix R_z(yaw) R_y(pitch) R_x(roll) (3 x 3)."""
    rpy = column(rpy, 3, "rpy")
    sr, sp, sy = (ca.sin(rpy[i]) for i in range(3))
    cr, cp, cy = (ca.cos(rpy[i]) for i in range(3))
    sy_sp, cy_sp = sy * sp, cy * sp
    return rows(
        (cy * cp, cy_sp * sr - sy * cr, cy_sp * cr + sy * sr),
        (sy * cp, sy_sp * sr + cy * cr, sy_sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def from_matrix(rotation: ExpressionLike) -> Expression:
    """Angles (roll, pitch, yaw) of a rotation matrix (3 x 3), pitch in [-π/2, π/2], roll and yaw in [-π, π].

    Roll and pitch are read from R_z(-yaw) R, so that the three angles belong together even where the two
    entries behind yaw are down to rounding errors.
    """
    r = matrix(rotation, 3, 3, "rotation")
    yaw = ca.atan2(r[1, 0], r[0, 0])
    return _with_yaw(r, yaw)


def to_quaternion(rpy: ExpressionLike) -> Expression:
    """Unit quaternion (w, x, y, z) of roll-pitch-yaw angles."""
    half = 0.5 * column(rpy, 3, "rpy")
    sr, sp, sy = (ca.sin(half[i]) for i in range(3))
    cr, cp, cy = (ca.cos(half[i]) for i in range(3))
    cc, cs, sc, ss = cy * cp, cy * sp, sy * cp, sy * sp
    return ca.vertcat(cc * cr + ss * sr, cc * sr - ss * cr, cs * cr + sc * sr, sc * cr - cs * sr)


def from_quaternion(q: ExpressionLike) -> Expression:
    """Angles (roll, pitch, yaw) of a unit quaternion (w, x, y, z), ranges as in `from_matrix`."""
    return from_matrix(quaternion.to_matrix(q))


def from_matrix_numeric(rotation: ArrayLike) -> NDArray[np.float64]:
    """Angles (roll, pitch, yaw) (3,) of a numeric rotation matrix (3 x 3), ranges as in `from_matrix`.

    At gimbal lock (cos(pitch) < `GIMBAL_LOCK`) yaw = 0 and roll carries the whole remaining angle.
    Raises `ValueError` when the matrix is not a rotation to 1e-6.
    """
    r = np.asarray(rotation, dtype=float)
    if r.shape != (3, 3):
        raise ValueError(f"rotation: expected shape (3, 3), got {r.shape}")
    defect = np.abs(r.T @ r - np.eye(3)).max()
    determinant = np.cross(r[0], r[1]) @ r[2]
    if not defect <= _ROTATION_TOLERANCE or determinant < 0.0:
        raise ValueError(
            f"rotation: expected a rotation matrix, got |RᵀR - I| = {defect:.3g}, det R = {determinant:.6g}"
        )
    locked = math.hypot(r[0, 0], r[1, 0]) < GIMBAL_LOCK
    yaw = 0.0 if locked else math.atan2(r[1, 0], r[0, 0])
    return _with_yaw(ca.DM(r), ca.DM(yaw)).full().ravel()


def _with_yaw(r: Expression, yaw: Expression) -> Expression:
    sine, cosine = ca.sin(yaw), ca.cos(yaw)
    pitch = ca.atan2(-r[2, 0], cosine * r[0, 0] + sine * r[1, 0])
    roll = ca.atan2(sine * r[0, 2] - cosine * r[1, 2], cosine * r[1, 1] - sine * r[0, 1])
    return ca.vertcat(roll, pitch, yaw)
