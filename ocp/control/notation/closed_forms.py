"""Closed forms of inverse kinematics for the textbook arms: every branch, or a precise reason why there is none.

The arms are those of ``dynamics.notation.textbook_robots``. Geometry: Siciliano, Sciavicco, Villani, Oriolo 2009, Robotics,
section 2.12 (two-link triangle, spherical wrist). Angles are in (-pi, pi].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamics.lie import euler
from ocp.errors import ProblemError

Array = NDArray[np.float64]


def planar_arm_ik(x: float, z: float, angle: float, lengths: Sequence[float] = (1.0, 1.0, 1.0), base_height: float = 0.0) -> Array:
    """Joint angles [k, 3] of the planar arm with tip at (x, z) (m) and pitch ``angle`` = q1 + q2 + q3 (rad): elbow one way (q2
    >= 0), then the other; one row at full stretch or full fold.

    x = l1 s1 + l2 s12 + l3 s123, z = l0 + l1 c1 + l2 c12 + l3 c123. Raises ProblemError when the wrist is out of reach, or on
    the first joint of an arm whose first two links are equal (any q1 would do).
    """
    _lengths(lengths, 3)
    l1, l2, l3 = lengths
    # the wrist, measured from +z towards +x as the joint angles are
    rows = _two_link(z - base_height - l3 * np.cos(angle), x - l3 * np.sin(angle), l1, l2, "the wrist of the planar arm")
    return np.array([[q1, q2, _wrap(angle - q1 - q2)] for q1, q2 in rows])


def scara_ik(
    x: float, y: float, z: float, heading: float, lengths: Sequence[float] = (0.4, 0.3), base_height: float = 0.5
) -> Array:
    """(alpha, beta, gamma, zeta) [k, 4] of the SCARA with the tool at (x, y, z) (m) and ``heading`` = alpha + beta + gamma
    (rad).

    Two rows (beta >= 0 first), one at full stretch or fold. Raises ProblemError when (x, y) is out of reach, or on the column
    of an arm with equal links.
    """
    _lengths(lengths, 2)
    rows = _two_link(x, y, lengths[0], lengths[1], "the tool of the SCARA")
    return np.array([[a, b, _wrap(heading - a - b), z - base_height] for a, b in rows])


def wrist_zyx_ik(rotation: ArrayLike) -> Array:
    """(q_z, q_y, q_x) [k, 3] with Rz(q_z) Ry(q_y) Rx(q_x) = rotation [3, 3]: two solutions, |q_y| <= pi/2 first, then (q_z + pi, pi
    - q_y, q_x + pi).

    At q_y = +-pi/2 only a sum or difference of the outer angles is determined: one row, with q_x = 0. Raises ValueError when it
    is no rotation.
    """
    first = euler.from_matrix_numeric("zyx", rotation)
    if np.hypot(*np.asarray(rotation, float)[2, 1:]) < 1e-12:
        return first[None]
    z, y, x = first
    return np.array([[z, y, x], [_wrap(z + np.pi), _wrap(np.pi - y), _wrap(x + np.pi)]])


def _two_link(u: float, v: float, first: float, second: float, what: str) -> list[tuple[float, float]]:
    """(a, b) with first cos(a) + second cos(a + b) = u and the sines alike = v; law of cosines."""
    square, reach = u * u + v * v, first + second
    cosine = (square - first * first - second * second) / (2.0 * first * second)
    if abs(cosine) > 1.0 + 1e-12:
        raise ProblemError(
            f"{what} is {np.sqrt(square):.6g} m away, reach is {abs(first - second):.6g} to {reach:.6g} m", where="closed form"
        )
    if square <= (1e-12 * reach) ** 2:
        raise ProblemError(f"{what} lies on the first joint: any first angle would do", where="closed form")
    cosine = float(np.clip(cosine, -1.0, 1.0))
    out = []
    for b in (np.arccos(cosine), -np.arccos(cosine)) if abs(cosine) < 1.0 else (np.arccos(cosine),):
        a = np.arctan2(v, u) - np.arctan2(second * np.sin(b), first + second * np.cos(b))
        out.append((_wrap(float(a)), float(b)))
    return out


def _wrap(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    return float(np.pi - (np.pi - angle) % (2.0 * np.pi))


def _lengths(lengths: Sequence[float], count: int) -> None:
    if len(lengths) != count or not all(0.0 < length < np.inf for length in lengths):
        raise ProblemError(f"expected {count} positive lengths, got {list(lengths)!r}", where="closed form")
