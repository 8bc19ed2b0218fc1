"""CasADi's values as arrays."""

import casadi as ca
import numpy as np


def number(x):
    return np.array(ca.densify(ca.DM(x)))


def column(x):
    return number(x).ravel()


def num(x):
    """Columns as vectors, everything else as it is."""
    out = number(x)
    return out.ravel() if out.shape[1] == 1 else out


def close(actual, expected, tolerance=1e-13):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=0, atol=tolerance)


def vee(m):
    return np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]) / 2
