"""Least squares between bounds, exactly, in compiled loops: the finish of every level of a hierarchy.

    minimise  1/2 |B z - e|²   subject to   lower <= C z <= upper

B of any rank; rows of C may repeat each other. A working set (rows held at one of their ends) makes it linear; no normal
equations are formed, so nothing is squared. `exchange` corrects a guessed set in few steps and may not close (primal-dual active
set: Hintermueller, Ito, Kunisch 2003); `descend` walks from a feasible point and always does (primal active set: Nocedal and Wright
2006, 16.5, with Bland's rule where it stands still).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamics.kernels.linked import linked
from ocp.solvers.blocks import Blocks, matrix, vector, whole
from ocp.solvers.factors import INLINE, OPTIONS, VIEWS, back, factor, least_squares, onto, turn_rows

Array = NDArray[np.float64]
Side = NDArray[np.int8]

_DEPENDENT = 1e-7  # relative size below which a row adds nothing to those that are held already: rounding of reduced rows is less
_ROUNDING = 1e-12  # relative size of violations and multipliers that rounding makes
_EXCHANGES = 12
_FEW = 24  # steps from a guessed set after which it was no good guess
_TINY = 1e-300

FLOATS = ("B", "e", "C", "lower", "upper", "z", "y", "target", "row", "H", "h_tau", "h_norms", "gap", "P", "p_tau", "p_norms",
          "right", "step", "tail", "G", "g_tau", "g_norms", "g_right", "slope")
INTS = ("side", "held", "h_order", "p_order", "g_order", "seen")


class Problem(NamedTuple):
    """Views of the arrays of one programme, and its sizes in use: kb rows of B, mc rows of C, nz unknowns. The rest is work."""

    kb: int
    mc: int
    nz: int
    B: Array
    e: Array
    C: Array
    lower: Array
    upper: Array
    z: Array
    y: Array
    target: Array
    row: Array
    H: Array
    h_tau: Array
    h_norms: Array
    gap: Array
    P: Array
    p_tau: Array
    p_norms: Array
    right: Array
    step: Array
    tail: Array
    G: Array
    g_tau: Array
    g_norms: Array
    g_right: Array
    slope: Array
    side: NDArray[np.int64]
    held: NDArray[np.int64]
    h_order: NDArray[np.int64]
    p_order: NDArray[np.int64]
    g_order: NDArray[np.int64]
    seen: NDArray[np.int64]


def sizes(kb: int, mc: int, nz: int) -> tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]:
    """(shapes of the arrays of numbers, of integers) for programmes of at most these sizes."""
    k, m, n, most = kb + 1, mc + 1, nz + 1, max(kb, nz, mc) + 1
    shapes = {"B": (k, n), "e": (k,), "C": (m, n), "lower": (m,), "upper": (m,), "z": (n,), "y": (m,), "target": (n,), "row": (m,),
              "H": (m, n), "h_tau": (most,), "h_norms": (most,), "gap": (m,), "P": (k, n), "p_tau": (most,), "p_norms": (most,),
              "right": (k,), "step": (most,), "tail": (most,), "G": (most, most), "g_tau": (most,), "g_norms": (most,),
              "g_right": (most,), "slope": (most,)}
    return {name: shapes[name] for name in FLOATS}, {"side": (m,), "held": (m,), "h_order": (most,), "p_order": (most,),
                                                     "g_order": (most,), "seen": (_EXCHANGES + 1,)}


@linked(**VIEWS)
def problem(w: np.ndarray, iw: np.ndarray, floats: int, ints: int, kb: int, mc: int, nz: int) -> Problem:
    """The programme whose arrays begin at number ``floats`` and ``ints`` of the table."""
    f, i = floats, ints
    return Problem(kb, mc, nz, matrix(w, iw, f), vector(w, iw, f + 1), matrix(w, iw, f + 2), vector(w, iw, f + 3),
                   vector(w, iw, f + 4), vector(w, iw, f + 5), vector(w, iw, f + 6), vector(w, iw, f + 7), vector(w, iw, f + 8),
                   matrix(w, iw, f + 9), vector(w, iw, f + 10), vector(w, iw, f + 11), vector(w, iw, f + 12),
                   matrix(w, iw, f + 13), vector(w, iw, f + 14), vector(w, iw, f + 15), vector(w, iw, f + 16),
                   vector(w, iw, f + 17), vector(w, iw, f + 18), matrix(w, iw, f + 19), vector(w, iw, f + 20),
                   vector(w, iw, f + 21), vector(w, iw, f + 22), vector(w, iw, f + 23), whole(iw, i), whole(iw, i + 1),
                   whole(iw, i + 2), whole(iw, i + 3), whole(iw, i + 4), whole(iw, i + 5))


@linked(**INLINE)
def _times(A: np.ndarray, rows: int, n: int, x: np.ndarray, out: np.ndarray) -> float:
    """out = A x of the first rows; the largest absolute entry."""
    most = 0.0
    for i in range(rows):
        total = 0.0
        for c in range(n):
            total += A[i, c] * x[c]
        out[i] = total
        most = max(most, abs(total))
    return most


@linked(**INLINE)
def _largest(x: np.ndarray, n: int) -> float:
    most = 0.0
    for i in range(n):
        most = max(most, abs(x[i]))
    return most


@linked(**OPTIONS)
def _pull(p: Problem) -> float:
    """slope = B' (B z - e); the largest entry."""
    for c in range(p.nz):
        p.slope[c] = 0.0
    for i in range(p.kb):
        total = -p.e[i]
        for c in range(p.nz):
            total += p.B[i, c] * p.z[c]
        for c in range(p.nz):
            p.slope[c] += total * p.B[i, c]
    return _largest(p.slope, p.nz)


@linked(**OPTIONS)
def _hold(p: Problem, at_ends: bool) -> None:
    """z becomes the minimiser nearest to it with the rows of side at their ends (or where they are), y their multipliers."""
    h = 0
    for i in range(p.mc):
        p.y[i] = 0.0
        if p.side[i] != 0:
            p.held[h] = i
            total = 0.0
            for c in range(p.nz):
                p.H[h, c] = p.C[i, c]
                total += p.C[i, c] * p.z[c]
            p.gap[h] = (p.lower[i] if p.side[i] < 0 else p.upper[i]) - total if at_ends else 0.0
            h += 1
    k = factor(p.H, h, p.nz, p.h_tau, p.h_order, p.h_norms, _TINY, _DEPENDENT, True) if h else 0
    for i in range(k):
        total = p.gap[p.h_order[i]]
        for c in range(i):
            total -= p.H[p.h_order[i], c] * p.step[c]
        p.step[i] = total / p.H[p.h_order[i], i]
    for i in range(p.kb):
        total = p.e[i]
        for c in range(p.nz):
            p.P[i, c] = p.B[i, c]
            total -= p.B[i, c] * p.z[c]
        p.right[i] = total
    left = p.nz - k
    if k:
        turn_rows(p.H, p.h_order, p.h_tau, k, p.nz, p.P, p.kb)
        for i in range(p.kb):
            for c in range(k):
                p.right[i] -= p.P[i, c] * p.step[c]
            for c in range(left):
                p.P[i, c] = p.P[i, k + c]
    for c in range(left):
        p.tail[c] = 0.0
    if left and p.kb:
        j = factor(p.P, p.kb, left, p.p_tau, p.p_order, p.p_norms, _TINY, _ROUNDING, True)
        least_squares(p.P, p.p_order, p.kb, j, p.right, p.tail, p.G, p.g_tau, p.g_order, p.g_norms, p.g_right)
        back(p.P, p.p_order, p.p_tau, j, left, p.tail)
    for c in range(left):
        p.step[k + c] = p.tail[c]
    back(p.H, p.h_order, p.h_tau, k, p.nz, p.step)
    for c in range(p.nz):
        p.z[c] += p.step[c]
    if k:
        _pull(p)
        onto(p.H, p.h_order, p.h_tau, k, p.nz, p.slope, 0)
        for i in range(k - 1, -1, -1):
            total = -p.slope[i]
            for r in range(i + 1, k):
                total -= p.H[p.h_order[r], i] * p.y[p.held[p.h_order[r]]]
            p.y[p.held[p.h_order[i]]] = total / p.H[p.h_order[i], i]


@linked(**OPTIONS)
def exchange(p: Problem) -> bool:
    """From z and the rows that side takes as held: violated rows enter, rows with a multiplier of the wrong sign leave; where
    none is violated the rest is a descent. Returns whether a set closed; then z, y and side are the answer."""
    for i in range(p.mc):
        if p.lower[i] == p.upper[i]:
            p.side[i] = 1
    for count in range(_EXCHANGES):
        key = np.int64(1469598103934665603)  # wraps around, as hashes do
        for i in range(p.mc):
            key = (key ^ (p.side[i] + 2)) * np.int64(1099511628211)
        again = False  # not yet a circle: where costs are flat z moves on with the same rows
        for i in range(count):
            again = again or p.seen[i] == key
        p.seen[count] = key
        _hold(p, True)
        _times(p.C, p.mc, p.nz, p.z, p.row)
        far, push = 1.0 + _largest(p.z, p.nz), _ROUNDING * (1.0 + _largest(p.y, p.mc))
        changed, within = False, True
        for i in range(p.mc):
            tiny = _ROUNDING * (far + abs(p.row[i]))
            under, over = p.lower[i] - p.row[i], p.row[i] - p.upper[i]
            within = within and under <= 100.0 * tiny and over <= 100.0 * tiny
            if p.side[i] != 0:
                if p.lower[i] != p.upper[i] and ((p.side[i] < 0 and p.y[i] > push) or (p.side[i] > 0 and p.y[i] < -push)):
                    p.side[i] = 0
                    changed = True
            elif under > tiny or over > tiny:
                p.side[i] = -1 if under > tiny else 1
                changed = True
        if not changed:
            return within
        if within:
            return descend(p, True)
        if again:
            return False
    return False


@linked(**OPTIONS)
def descend(p: Problem, holding: bool) -> bool:
    """From a feasible z without held rows, or holding those of side, which z touches, for a few changes. Returns whether it closed:
    without held rows False only where rounding keeps it from that."""
    for i in range(p.mc):
        if p.lower[i] == p.upper[i]:
            p.side[i] = 1
        elif not holding:
            p.side[i] = 0
    stuck = 0
    for _ in range(_FEW if holding else 60 + 12 * (p.mc + p.nz)):
        for c in range(p.nz):
            p.target[c] = p.z[c]
        _hold(p, False)
        far, length = 0.0, 0.0
        for c in range(p.nz):  # z back to where it was, target where it should go
            aim = p.z[c]
            p.z[c] = p.target[c]
            p.target[c] = aim - p.z[c]
            far += p.z[c] * p.z[c]
            length += p.target[c] * p.target[c]
        length = np.sqrt(length)
        if length <= _ROUNDING * (1.0 + np.sqrt(far)):
            push = _ROUNDING * (1.0 + _largest(p.y, p.mc))
            worst, leaving = 0.0, -1
            for i in range(p.mc):
                if p.lower[i] == p.upper[i] or not ((p.side[i] < 0 and p.y[i] > push) or (p.side[i] > 0 and p.y[i] < -push)):
                    continue
                if leaving < 0 or (stuck <= 3 and abs(p.y[i]) > worst):
                    leaving, worst = i, abs(p.y[i])
            if leaving < 0:
                return True
            p.side[leaving] = 0
            stuck += 1
            continue
        share, first = 1.0, -1
        for i in range(p.mc):
            if p.side[i] != 0 or p.lower[i] == p.upper[i]:
                continue
            rate, at, size = 0.0, 0.0, 0.0
            for c in range(p.nz):
                rate += p.C[i, c] * p.target[c]
                at += p.C[i, c] * p.z[c]
                size += p.C[i, c] * p.C[i, c]
            if abs(rate) > _DEPENDENT * np.sqrt(size) * length:
                room = max(((p.upper[i] if rate > 0.0 else p.lower[i]) - at) / rate, 0.0)
                if room < share:
                    share, first = room, i
                    p.row[i] = rate
        for c in range(p.nz):
            p.z[c] += share * p.target[c]
        if first >= 0:
            p.side[first] = 1 if p.row[first] > 0.0 else -1
            stuck = stuck if share * length <= _ROUNDING else 0
        else:
            stuck = 0
    return False


@linked(**OPTIONS)
def optimal(p: Problem, tolerance: float) -> bool:
    """The optimality conditions hold, relative to the numbers in them: gradient, bounds, signs of multipliers, complementarity."""
    _pull(p)
    free, pushed = 0.0, 0.0
    for c in range(p.nz):
        total = 0.0
        for i in range(p.mc):
            if p.y[i] != 0.0:
                total += p.C[i, c] * p.y[i]
        pushed = max(pushed, abs(total))
        p.slope[c] += total
    miss = _largest(p.slope, p.nz)
    for c in range(p.nz):
        total = 0.0
        for i in range(p.kb):
            total += p.B[i, c] * p.e[i]
        free = max(free, abs(total))
    size, far = 1.0 + max(free, pushed), 1.0 + _largest(p.z, p.nz)
    if not miss <= tolerance * size:
        return False
    _times(p.C, p.mc, p.nz, p.z, p.row)
    for i in range(p.mc):
        above, below, own = p.upper[i] - p.row[i], p.row[i] - p.lower[i], far + abs(p.row[i])
        gap = min(max(p.y[i], 0.0), abs(above)) + min(max(-p.y[i], 0.0), abs(below))
        if not (min(above, below) >= -tolerance * own and gap <= tolerance * max(size, own)):
            return False
    return True


# ---- for Python ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Bounded:
    """The data: A [k, n], e [k], C [m, n] with rows of length about one, lower and upper [m]."""

    A: Array
    e: Array
    C: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Found:
    """x [n]; y [m]: multipliers, A'(A x - e) + C'y = 0, y > 0 at the upper end, y < 0 at the lower; side [m]: -1, 0, 1 as held."""

    x: Array
    y: Array
    side: Side


@linked(**VIEWS)
def _solve(w: np.ndarray, iw: np.ndarray, kb: int, mc: int, nz: int) -> bool:
    p = problem(w, iw, 0, len(FLOATS), kb, mc, nz)
    return descend(p, False) and optimal(p, 1e-7)


def solve_bounded(data: Bounded, feasible: Array) -> Found | None:
    """The optimum by `descend` from a feasible point [n]; None where rounding keeps it from closing."""
    kb, (mc, nz) = data.e.size, data.C.shape
    blocks = Blocks(*sizes(kb, mc, nz))
    for name, value in (("B", data.A), ("C", data.C)):
        getattr(blocks, name)[:value.shape[0], :nz] = value
    for name, value in (("e", data.e), ("lower", data.lower), ("upper", data.upper), ("z", feasible)):
        getattr(blocks, name)[:value.size] = value
    if not _solve(blocks.numbers, blocks.integers, kb, mc, nz):
        return None
    z, y, side = (getattr(blocks, name) for name in ("z", "y", "side"))
    return Found(z[:nz].copy(), y[:mc].copy(), side[:mc].astype(np.int8))
