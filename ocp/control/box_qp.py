"""The quadratic program over a box, exactly, for compiled loops and for the plain ones of ``ocp.control.engine``.

    minimise  1/2 x' H x + g' x   subject to  lower <= x <= upper

Projected Newton on the bounds that hold (Bertsekas 1982; Tassa, Mansard, Todorov 2014, section II.C): finitely many steps.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.control.arrays import Work

_ITERATIONS = 100
_HALVINGS = 60
_ARMIJO = 0.1


@linked(error_model="numpy")
def _factor(H: np.ndarray, at: int, row: int, rows: np.ndarray, n: int, L: np.ndarray) -> bool:
    """Cholesky factor of H[rows[:n], rows[:n]] into the lower triangle of L[:n, :n]; False where there is none."""
    for j in range(n):
        for i in range(j, n):
            total = H[at + rows[i] * row + rows[j]]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                if not 0.0 < total < np.inf:
                    return False
                L[j, j] = np.sqrt(total)
            else:
                L[i, j] = total / L[j, j]
    return True


@linked(error_model="numpy")
def _backsolve(L: np.ndarray, n: int, x: np.ndarray) -> None:
    """x[:n] <- (L L')^-1 x[:n]."""
    for i in range(n):
        total = x[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, n):
            total -= L[k, i] * x[k]
        x[i] = total / L[i, i]


@linked(error_model="numpy")
def _times(H: np.ndarray, at: int, row: int, m: int, x: np.ndarray, i: int) -> float:
    """Row i of a symmetric matrix, of which the lower triangle is stored, times x."""
    value = 0.0
    for j in range(m):
        value += H[at + max(i, j) * row + min(i, j)] * x[j]
    return value


@linked(error_model="numpy")
def _length(H: np.ndarray, at: int, row: int, lower: np.ndarray, upper: np.ndarray, x: np.ndarray, work: Work, count: int) -> float:
    """Projected line search on the exact quadratic along the step of ``count`` free unknowns; 0 where nothing decreases."""
    gradient, step, move, free, m, length = work.gradient, work.step, work.move, work.free, x.size, 1.0
    for _ in range(_HALVINGS):
        for i in range(m):
            move[i] = 0.0
        for a in range(count):
            i = free[a]
            move[i] = min(max(x[i] + length * step[a], lower[i]), upper[i]) - x[i]
        linear, curvature = 0.0, 0.0
        for i in range(m):
            linear += gradient[i] * move[i]
            curvature += move[i] * _times(H, at, row, m, move, i)
        if linear + 0.5 * curvature <= _ARMIJO * linear:
            return length
        length *= 0.5
    return 0.0


@linked(error_model="numpy")
def box_qp(H: np.ndarray, at: int, row: int, g: np.ndarray, lower: np.ndarray, upper: np.ndarray, x: np.ndarray,
           work: Work) -> int:
    """Solve for x, starting from what it holds (from the nearest point of the box, or of zero where it is not a number).

    H: flat; its lower triangle is read, rows ``row`` apart from index ``at``. g, x [m]; lower, upper [m] or longer. Leaves in
    ``work.free`` the unknowns strictly inside, or held by no multiplier; returns their number, -1 when H is not positive definite
    there, -2 when the iteration limit is reached.
    """
    L, gradient, step, free = work.L, work.gradient, work.step, work.free
    m, minimised = g.size, -1  # the second: how many unknowns are free of which x is the minimum already
    for i in range(m):
        x[i] = min(max(x[i] if x[i] == x[i] else 0.0, lower[i]), upper[i])
    for _ in range(_ITERATIONS):
        count, same = 0, True
        for i in range(m):
            gradient[i] = g[i] + _times(H, at, row, m, x, i)
            low, high = x[i] == lower[i], x[i] == upper[i]
            if not ((low and high) or (low and gradient[i] > 0.0) or (high and gradient[i] < 0.0)):
                same = same and count < minimised and free[count] == i
                free[count] = i
                count += 1
        if count == 0 or (same and count == minimised):
            return count
        for a in range(count):
            step[a] = -gradient[free[a]]
        if not _factor(H, at, row, free, count, L):
            return -1
        _backsolve(L, count, step)
        inside, small = True, True
        for a in range(count):
            i = free[a]
            inside = inside and lower[i] <= x[i] + step[a] <= upper[i]
            small = small and abs(step[a]) <= 1e-14 * (1.0 + abs(x[i]))
        if small:
            return count
        # a step that ends inside is the minimum over the free unknowns
        length = 1.0 if inside else _length(H, at, row, lower, upper, x, work, count)
        if length == 0.0:
            return count  # no decrease left above rounding
        minimised = count if inside else -1
        for a in range(count):
            i = free[a]
            x[i] = min(max(x[i] + length * step[a], lower[i]), upper[i])
    return -2
