"""Multi-precision references for the Lie-group tests, all from power series: no closed form, no small-angle case.

Matrices are NumPy arrays of `mpmath.mpf`, so that `@` works on them.
"""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 45
STEP = mp.mpf(10) ** -10  # central differences: error 1e-20 from the step, 1e-25 from rounding
TINY = mp.mpf(10) ** -50


def exact(x: Any) -> np.ndarray:
    """Array of multi-precision numbers equal to the given doubles."""
    array = np.asarray(x, dtype=object)
    return np.vectorize(mp.mpf, otypes=[object])(array)


def power_series(a: np.ndarray, shift: int) -> np.ndarray:
    """Σ_k shift! a^k / (k + shift)!: the exponential for shift 0, a left Jacobian (of a = ad) for shift 1."""
    total = term = exact(np.eye(len(a)))
    k = 0
    while np.abs(term).max() > TINY:
        k += 1
        term = term @ a / (k + shift)
        total = total + term
    return total


def inverse(a: np.ndarray) -> np.ndarray:
    return exact(np.array(mp.inverse(mp.matrix(a.tolist())).tolist(), dtype=object))


def hat3(phi: np.ndarray) -> np.ndarray:
    x, y, z = phi
    return exact([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def hat_se3(xi: np.ndarray) -> np.ndarray:
    out = exact(np.zeros((4, 4)))
    out[:3, :3], out[:3, 3] = hat3(xi[3:]), xi[:3]
    return out


def hat_se2(xi: np.ndarray) -> np.ndarray:
    return exact([[0, -xi[2], xi[0]], [xi[2], 0, xi[1]], [0, 0, 0]])


def ad_se3(xi: np.ndarray) -> np.ndarray:
    """From the commutator of 4 x 4 matrices, column by column."""
    a = hat_se3(xi)
    columns = []
    for unit in np.eye(6):
        b = hat_se3(exact(unit))
        c = a @ b - b @ a
        columns.append([c[0, 3], c[1, 3], c[2, 3], c[2, 1], c[0, 2], c[1, 0]])
    return exact(columns).T


def ad_se2(xi: np.ndarray) -> np.ndarray:
    a = hat_se2(xi)
    columns = []
    for unit in np.eye(3):
        b = hat_se2(exact(unit))
        c = a @ b - b @ a
        columns.append([c[0, 2], c[1, 2], c[1, 0]])
    return exact(columns).T


def left_product_matrix(q: np.ndarray) -> np.ndarray:
    """Matrix of p -> q p for quaternions (w, x, y, z)."""
    w, x, y, z = q
    return exact([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])


def quaternion_exp(phi: np.ndarray) -> np.ndarray:
    return power_series(left_product_matrix(exact([0, *(phi / 2)])), 0)[:, 0]


def log3(rotation: np.ndarray) -> np.ndarray:
    """Rotation vector from the antisymmetric part (θ < π)."""
    r = rotation
    sine = exact([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / 2
    norm = mp.sqrt(np.dot(sine, sine))
    if norm < TINY:
        return sine
    return sine * (mp.atan2(norm, (r[0, 0] + r[1, 1] + r[2, 2] - 1) / 2) / norm)


def log_se3(pose: np.ndarray) -> np.ndarray:
    phi = log3(pose[:3, :3])
    return np.concatenate([inverse(power_series(hat3(phi), 1)) @ pose[:3, 3], phi])


def log_se2(pose: np.ndarray) -> np.ndarray:
    omega = mp.atan2(pose[1, 0], pose[0, 0])
    turn = exact([[0, -omega], [omega, 0]])
    return np.append(inverse(power_series(turn, 1)) @ pose[:2, 2], omega)


def second_order(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f(x), its derivative along a, and its second derivative along a and b, as doubles."""
    with mp.workdps(DIGITS):
        x, a, b = exact(x), exact(a) * STEP, exact(b) * STEP
        value = f(x)
        first = (f(x + a) - f(x - a)) / (2 * STEP)
        second = (f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)) / (4 * STEP**2)
    return value.astype(float), first.astype(float), second.astype(float)
