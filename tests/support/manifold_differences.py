"""Differences along a state manifold: derivatives of functions of (x, u) in z = (dx, du) at dx = 0."""

from __future__ import annotations

import itertools

import numpy as np


def columns(f, plus, x, u, n, step=1e-5):
    """Central differences of f(x [+] dx, u + du): [len f, n + len u]."""
    found = []
    for direction in step * np.eye(n + len(u)):
        ends = [np.atleast_1d(f(plus(x, sign * direction[:n]), u + sign * direction[n:])) for sign in (1, -1)]
        found.append((ends[0] - ends[1]) / (2 * step))
    return np.column_stack(found)


def hessian(f, plus, x, u, n, step=2e-4):
    """Hessian [n + len u, same] of the scalar f along exp, off-diagonals by polarisation."""
    size, known = n + len(u), {}

    def value(d):
        key = d.tobytes()
        if key not in known:
            known[key] = float(f(plus(x, d[:n]), u + d[n:]))
        return known[key]

    H, eye = np.zeros((size, size)), step * np.eye(size)
    for i, j in itertools.combinations_with_replacement(range(size), 2):
        a, b = eye[i], eye[j]
        H[i, j] = H[j, i] = (value(a + b) - value(a - b) - value(b - a) + value(-a - b)) / (4 * step**2)
    return H
