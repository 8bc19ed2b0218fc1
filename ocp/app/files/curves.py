"""Functions through given points, as expressions without branches: straight lines, and natural cubic splines.

Between two places every piece is a polynomial in the argument held inside the piece; a sum of them is the whole function.
``values`` has a row for every place; several columns are several functions at once.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

SX = Any


def lines(at: SX, places: np.ndarray, values: SX) -> SX:
    """Straight lines through the points, level outside: [m, 1] of values [n, m]."""
    result = values[0, :].T
    for i, step in enumerate(np.diff(places)):
        result += (values[i + 1, :] - values[i, :]).T * ca.fmin(ca.fmax((at - places[i]) / step, 0), 1)
    return result


def spline(at: SX, places: np.ndarray, values: SX) -> SX:
    """The natural cubic spline through the points, going straight on outside: twice continuously differentiable everywhere.

    [m, 1] of values [n, m]. de Boor 2001, A Practical Guide to Splines, chapter IV (free end conditions).
    """
    h = np.diff(places)
    slopes = ca.DM(_slopes(places)) @ values  # linear in the values
    result = values[0, :].T + slopes[0, :].T * ca.fmin(at - places[0], 0) + slopes[-1, :].T * ca.fmax(at - places[-1], 0)
    for i, step in enumerate(h):
        s = ca.fmin(ca.fmax(at - places[i], 0), step)
        secant = (values[i + 1, :] - values[i, :]).T / step
        first, second = slopes[i, :].T, slopes[i + 1, :].T
        result += first * s + (3 * secant - 2 * first - second) / step * s**2 + (first + second - 2 * secant) / step**2 * s**3
    return result


def _slopes(places: np.ndarray) -> np.ndarray:
    """The slopes at the places [n, n] per value: continuity of the second derivative inside, none at the ends."""
    n, h = len(places), np.diff(places)
    A, B = np.zeros((n, n)), np.zeros((n, n))
    A[0, :2], A[-1, -2:] = (2, 1), (1, 2)
    B[0, :2], B[-1, -2:] = np.array([-3, 3]) / h[0], np.array([-3, 3]) / h[-1]
    for i in range(1, n - 1):
        A[i, i - 1 : i + 2] = 1 / h[i - 1], 2 / h[i - 1] + 2 / h[i], 1 / h[i]
        B[i, i - 1 : i + 2] = -3 / h[i - 1] ** 2, 3 / h[i - 1] ** 2 - 3 / h[i] ** 2, 3 / h[i] ** 2
    found: np.ndarray = np.linalg.solve(A, B)
    return found
