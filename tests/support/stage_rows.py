"""Rows of a stage with the values of the dynamics that they hold, as the engine puts them together."""

import numpy as np


def held(stage, *at):
    """(k [n], T [n, w]) of a stage at (t, x, u, p)."""
    T, k = (np.asarray(part) for part in stage.expand(*at, 0.1)[3:])
    return k, T.T


def slopes(stage, *at):
    """(c [r], C [r, w]) at (t, x, u, p)."""
    k, T = held(stage, *at)
    c, C, B = (np.asarray(part) for part in stage.rows.jacobian(*at, k))
    return c.ravel(), C.T + B.T @ T


def curvature(stage, *at_and_y):
    """Hessian [ndx + nu, w] of y' c, on and below the diagonal, at (t, x, u, p) and y."""
    *at, y = at_and_y
    k, T = held(stage, *at)
    return np.asarray(stage.rows.curvature(*at, k, T.T, y)).T
