"""Least squares between bounds: the arrays of one program, and its minimiser on a working set.

    minimise  1/2 |B z - e|² + 1/2 |s|²   subject to   lower <= C z <= upper,   lower - s <= D z <= upper + s

B of any rank; rows may repeat each other. The slacks s of soft rows are no unknowns: a soft row outside its ends is a row of the
least squares, one inside is none, so the cost is piecewise quadratic with a continuous gradient. A working set (hard rows held at
one of their ends, soft rows outside theirs) makes it linear; no normal equations are formed, so nothing is squared.

A row adds a direction to those before it where more of it is left than ``tolerance`` of its own length, whatever its units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamics.kernels.linked import linked
from ocp.solvers.blocks import matrix, vector, whole
from ocp.solvers.factors import INLINE, OPTIONS, VIEWS, back, dot, factor, least_squares, onto, reflect, turn_rows

Array = NDArray[np.float64]

TOLERANCE = 1e-7  # share of a row's length from which it adds a direction: turning by less leaves errors near the share itself
EXCHANGES = 12  # of rows, from a guessed set

FLOATS = ("B", "e", "b_size", "C", "c_size", "lower", "upper", "z", "y", "target", "row", "rate", "turned", "H", "h_tau", "h_norms",
          "least", "gap", "P", "p_tau", "p_norms", "right", "step", "tail", "G", "g_tau", "g_right", "gradient")
INTS = ("side", "active", "h_order", "p_order", "g_order", "seen")


class Problem(NamedTuple):
    """Views of the arrays of one program, and its sizes in use: kb rows of B, mc rows of C, the last ``soft`` of which are D, nz
    unknowns. b_size, c_size: lengths of constraint rows of the matrix before they were reduced, for tolerances; of hard constraints
    they are one. The rest is work."""

    kb: int
    mc: int
    nz: int
    soft: int
    tolerance: float
    B: Array
    e: Array
    b_size: Array
    C: Array
    c_size: Array
    lower: Array
    upper: Array
    z: Array
    y: Array
    target: Array
    row: Array
    rate: Array
    turned: Array
    H: Array
    h_tau: Array
    h_norms: Array
    least: Array
    gap: Array
    P: Array
    p_tau: Array
    p_norms: Array
    right: Array
    step: Array
    tail: Array
    G: Array
    g_tau: Array
    g_right: Array
    gradient: Array
    side: NDArray[np.int64]
    active: NDArray[np.int64]
    h_order: NDArray[np.int64]
    p_order: NDArray[np.int64]
    g_order: NDArray[np.int64]
    seen: NDArray[np.int64]


def sizes(kb: int, mc: int, nz: int, soft: int) -> tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]:
    """(shapes of the arrays of numbers, of integers) for programs of at most these sizes."""
    k, m, n, tall = kb + 1, mc + 1, nz + 1, kb + soft + 1
    most = max(tall, nz + 1, mc + 1)
    shapes = {"B": (k, n), "turned": (k, n), "e": (k,), "b_size": (k,), "C": (m, n),
              "P": (tall, n), "H": (m, n), "G": (n, tall), "right": (tall,)}
    shapes |= dict.fromkeys(("c_size", "lower", "upper", "y", "row", "rate", "gap"), (m,)) | dict.fromkeys(("z", "target"), (n,))
    return ({name: shapes.get(name, (most,)) for name in FLOATS},
            {"side": (m,), "active": (m,), "h_order": (most,), "p_order": (most,), "g_order": (most,), "seen": (EXCHANGES + 1,)})


@linked(**VIEWS)
def problem(w: np.ndarray, iw: np.ndarray, floats: int, ints: int, size: tuple[int, int, int, int], tolerance: float) -> Problem:
    """The program of size (kb, mc, nz, soft) whose arrays begin at number ``floats`` and ``ints`` of the table."""
    f, i = floats, ints
    return Problem(size[0], size[1], size[2], size[3], tolerance, matrix(w, iw, f), vector(w, iw, f + 1), vector(w, iw, f + 2),
                   matrix(w, iw, f + 3), vector(w, iw, f + 4), vector(w, iw, f + 5), vector(w, iw, f + 6), vector(w, iw, f + 7),
                   vector(w, iw, f + 8), vector(w, iw, f + 9), vector(w, iw, f + 10), vector(w, iw, f + 11), matrix(w, iw, f + 12),
                   matrix(w, iw, f + 13), vector(w, iw, f + 14), vector(w, iw, f + 15), vector(w, iw, f + 16),
                   vector(w, iw, f + 17), matrix(w, iw, f + 18), vector(w, iw, f + 19), vector(w, iw, f + 20),
                   vector(w, iw, f + 21), vector(w, iw, f + 22), vector(w, iw, f + 23), matrix(w, iw, f + 24),
                   vector(w, iw, f + 25), vector(w, iw, f + 26), vector(w, iw, f + 27), whole(iw, i), whole(iw, i + 1),
                   whole(iw, i + 2), whole(iw, i + 3), whole(iw, i + 4), whole(iw, i + 5))


@linked(**INLINE)
def times(A: np.ndarray, rows: int, n: int, x: np.ndarray, out: np.ndarray) -> None:
    """out = A x of the first rows."""
    for i in range(rows):
        total = 0.0
        for c in range(n):
            total += A[i, c] * x[c]
        out[i] = total


@linked(**INLINE)
def largest(x: np.ndarray, n: int) -> float:
    """Infinity norm of x[:n]."""
    most = 0.0
    for i in range(n):
        most = max(most, abs(x[i]))
    return most


@linked(**INLINE)
def missed(p: Problem, i: int, at: float) -> float:
    """Violation of constraint i; negative: below its lower end."""
    return max(at - p.upper[i], 0.0) + min(at - p.lower[i], 0.0)


@linked(**OPTIONS)
def gradient(p: Problem) -> None:
    """gradient = B' (B z - e) + D' s, the gradient; of soft rows y = s, and row = C z."""
    for c in range(p.nz):
        p.gradient[c] = 0.0
    for i in range(p.kb):
        total = -p.e[i]
        for c in range(p.nz):
            total += p.B[i, c] * p.z[c]
        for c in range(p.nz):
            p.gradient[c] += total * p.B[i, c]
    times(p.C, p.mc, p.nz, p.z, p.row)
    for i in range(p.mc - p.soft, p.mc):
        p.y[i] = missed(p, i, p.row[i])
        if p.y[i] != 0.0:
            for c in range(p.nz):
                p.gradient[c] += p.y[i] * p.C[i, c]


@linked(**OPTIONS)
def factor_active(p: Problem, at_ends: bool) -> int:
    """H: the factor of the hard rows of side, turned: B turned by it; gap: how far rows are from their ends (or none). Returns how
    many directions they hold."""
    h = 0
    for i in range(p.mc - p.soft):
        p.y[i] = 0.0
        if p.side[i] != 0:
            p.active[h], p.least[h] = i, p.tolerance
            total = 0.0
            for c in range(p.nz):
                p.H[h, c] = p.C[i, c]
                total += p.C[i, c] * p.z[c]
            p.gap[h] = (p.lower[i] if p.side[i] < 0 else p.upper[i]) - total if at_ends else 0.0
            h += 1
    k = factor(p.H, h, p.nz, p.h_tau, p.h_order, p.h_norms, p.least) if h else 0
    for i in range(p.kb):
        for c in range(p.nz):
            p.turned[i, c] = p.B[i, c]
    turn_rows(p.H, p.h_order, p.h_tau, k, p.nz, p.turned, p.kb)
    return k


@linked(**OPTIONS)
def append(p: Problem, new: int, k: int) -> int:
    """H and turned with one more independent constraint; returns k + 1."""
    h = -1
    for i in range(p.mc - p.soft):
        h += 1 if p.side[i] != 0 else 0
    for c in range(p.nz):
        p.step[c] = p.C[new, c]
    onto(p.H, p.h_order, p.h_tau, k, p.nz, p.step, 0)
    for c in range(p.nz):
        p.H[h, c] = p.step[c]
    p.active[h], p.gap[h] = new, 0.0
    p.h_order[h] = p.h_order[k]
    p.h_order[k] = h
    reflect(p.H, p.h_order, p.h_tau, k, k + 1, p.nz, p.h_norms)
    for i in range(p.kb):
        share = (p.turned[i, k] + dot(p.H, h, p.turned, i, k + 1, p.nz)) * p.h_tau[k]
        p.turned[i, k] -= share
        for c in range(k + 1, p.nz):
            p.turned[i, c] -= share * p.H[h, c]
    return k + 1


@linked(**OPTIONS)
def _costs(p: Problem, k: int) -> int:
    """P, right, least: the least squares in the space orthogonal to k active constraints; returns the number of equations."""
    rows, left = 0, p.nz - k
    for i in range(p.mc - p.soft, p.mc):
        if p.side[i] != 0:
            total = p.lower[i] if p.side[i] < 0 else p.upper[i]
            for c in range(p.nz):
                p.P[rows, c] = p.C[i, c]
                total -= p.C[i, c] * p.z[c]
            p.right[rows], p.least[rows] = total, p.tolerance * p.c_size[i]
            rows += 1
    turn_rows(p.H, p.h_order, p.h_tau, k, p.nz, p.P, rows)
    for i in range(rows):
        for c in range(k):
            p.right[i] -= p.P[i, c] * p.step[c]
        for c in range(left):
            p.P[i, c] = p.P[i, k + c]
    for i in range(p.kb):
        total = p.e[i]
        for c in range(p.nz):
            total -= p.B[i, c] * p.z[c]
        for c in range(k):
            total -= p.turned[i, c] * p.step[c]
        for c in range(left):
            p.P[rows, c] = p.turned[i, k + c]
        p.right[rows], p.least[rows] = total, p.tolerance * p.b_size[i]
        rows += 1
    return rows


@linked(**OPTIONS)
def minimise(p: Problem, k: int) -> None:
    """z becomes the nearest minimiser on the k active constraints of H, soft constraints of side being costs; y: multipliers."""
    for i in range(k):
        total = p.gap[p.h_order[i]]
        for c in range(i):
            total -= p.H[p.h_order[i], c] * p.step[c]
        p.step[i] = total / p.H[p.h_order[i], i]
    rows, left = _costs(p, k), p.nz - k
    for c in range(left):
        p.tail[c] = 0.0
    if left and rows:
        j = factor(p.P, rows, left, p.p_tau, p.p_order, p.p_norms, p.least)
        least_squares(p.P, p.p_order, rows, j, p.right, p.tail, p.G, p.g_tau, p.g_order, p.g_right)
        back(p.P, p.p_order, p.p_tau, j, left, p.tail)
    for c in range(left):
        p.step[k + c] = p.tail[c]
    back(p.H, p.h_order, p.h_tau, k, p.nz, p.step)
    for c in range(p.nz):
        p.z[c] += p.step[c]
    gradient(p)
    onto(p.H, p.h_order, p.h_tau, k, p.nz, p.gradient, 0)
    for i in range(k - 1, -1, -1):
        total = -p.gradient[i]
        for r in range(i + 1, k):
            total -= p.H[p.h_order[r], i] * p.y[p.active[p.h_order[r]]]
        p.y[p.active[p.h_order[i]]] = total / p.H[p.h_order[i], i]
