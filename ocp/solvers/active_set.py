"""Least squares between bounds, exactly, in compiled loops: the finish of every level of a hierarchy.

    minimise  1/2 |B z - e|² + 1/2 |s|²   subject to   lower <= C z <= upper,   lower - s <= D z <= upper + s

B of any rank; rows may repeat each other. The slacks s of soft rows are no unknowns: a soft row outside its ends is a row of the
least squares, one inside is none, so the cost is piecewise quadratic with a continuous gradient. A working set (hard rows held at
one of their ends, soft rows outside theirs) makes it linear; no normal equations are formed, so nothing is squared.
`exchange` corrects a guessed set in few steps and may not close (primal-dual active set: Hintermueller, Ito, Kunisch 2003);
`descend` walks from a feasible point and always does (primal active set: Nocedal and Wright 2006, 16.5, with Bland's rule where it
stands still; between hard rows Newton's method with an exact line search: Madsen, Nielsen 1990).

A row adds a direction to those before it where more of it is left than ``tolerance`` of its own length, whatever its units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamics.kernels.linked import linked
from ocp.solvers.blocks import Blocks, matrix, vector, whole
from ocp.solvers.factors import INLINE, OPTIONS, VIEWS, back, dot, factor, least_squares, onto, reflect, turn_rows

Array = NDArray[np.float64]
Side = NDArray[np.int8]

TOLERANCE = 1e-7  # share of a row's length from which it adds a direction: turning by less leaves errors near the share itself
_ROUNDING = 1e-12  # relative size of violations and multipliers that rounding makes
_EXCHANGES = 12
_FEW = 24  # steps from a guessed set after which it was no good guess
_HALVINGS = 60  # of a step: then its length is known to rounding

FLOATS = ("B", "e", "b_size", "C", "c_size", "lower", "upper", "z", "y", "target", "row", "rate", "turned", "H", "h_tau", "h_norms",
          "least", "gap", "P", "p_tau", "p_norms", "right", "step", "tail", "G", "g_tau", "g_right", "slope")
INTS = ("side", "held", "h_order", "p_order", "g_order", "seen")


class Problem(NamedTuple):
    """Views of the arrays of one programme, and its sizes in use: kb rows of B, mc rows of C, the last ``soft`` of which are D, nz
    unknowns. b_size, c_size: lengths of the rows before they were reduced, by which what is left of them is judged; of hard rows
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
    slope: Array
    side: NDArray[np.int64]
    held: NDArray[np.int64]
    h_order: NDArray[np.int64]
    p_order: NDArray[np.int64]
    g_order: NDArray[np.int64]
    seen: NDArray[np.int64]


def sizes(kb: int, mc: int, nz: int, soft: int) -> tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]:
    """(shapes of the arrays of numbers, of integers) for programmes of at most these sizes."""
    k, m, n, tall = kb + 1, mc + 1, nz + 1, kb + soft + 1
    most = max(tall, nz + 1, mc + 1)
    shapes = {"B": (k, n), "turned": (k, n), "e": (k,), "b_size": (k,), "C": (m, n),
              "P": (tall, n), "H": (m, n), "G": (n, tall), "right": (tall,)}
    shapes |= dict.fromkeys(("c_size", "lower", "upper", "y", "row", "rate", "gap"), (m,)) | dict.fromkeys(("z", "target"), (n,))
    return ({name: shapes.get(name, (most,)) for name in FLOATS},
            {"side": (m,), "held": (m,), "h_order": (most,), "p_order": (most,), "g_order": (most,), "seen": (_EXCHANGES + 1,)})


@linked(**VIEWS)
def problem(w: np.ndarray, iw: np.ndarray, floats: int, ints: int, size: tuple[int, int, int, int], tolerance: float) -> Problem:
    """The programme of size (kb, mc, nz, soft) whose arrays begin at number ``floats`` and ``ints`` of the table."""
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
def _times(A: np.ndarray, rows: int, n: int, x: np.ndarray, out: np.ndarray) -> None:
    """out = A x of the first rows."""
    for i in range(rows):
        total = 0.0
        for c in range(n):
            total += A[i, c] * x[c]
        out[i] = total


@linked(**INLINE)
def _largest(x: np.ndarray, n: int) -> float:
    most = 0.0
    for i in range(n):
        most = max(most, abs(x[i]))
    return most


@linked(**INLINE)
def _missed(p: Problem, i: int, at: float) -> float:
    """By how much row i is beyond its ends; negative: below."""
    return max(at - p.upper[i], 0.0) + min(at - p.lower[i], 0.0)


@linked(**OPTIONS)
def _pull(p: Problem) -> None:
    """slope = B' (B z - e) + D' s, the gradient; of soft rows y = s, and row = C z."""
    for c in range(p.nz):
        p.slope[c] = 0.0
    for i in range(p.kb):
        total = -p.e[i]
        for c in range(p.nz):
            total += p.B[i, c] * p.z[c]
        for c in range(p.nz):
            p.slope[c] += total * p.B[i, c]
    _times(p.C, p.mc, p.nz, p.z, p.row)
    for i in range(p.mc - p.soft, p.mc):
        p.y[i] = _missed(p, i, p.row[i])
        if p.y[i] != 0.0:
            for c in range(p.nz):
                p.slope[c] += p.y[i] * p.C[i, c]


@linked(**OPTIONS)
def _held(p: Problem, at_ends: bool) -> int:
    """H: the factor of the hard rows of side, turned: B turned by it; gap: how far rows are from their ends (or none). Returns how
    many directions they hold."""
    h = 0
    for i in range(p.mc - p.soft):
        p.y[i] = 0.0
        if p.side[i] != 0:
            p.held[h], p.least[h] = i, p.tolerance
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
def _append(p: Problem, new: int, k: int) -> int:
    """H and turned with one more row, of which something is left beside those that are held; returns k + 1."""
    h = -1
    for i in range(p.mc - p.soft):
        h += 1 if p.side[i] != 0 else 0
    for c in range(p.nz):
        p.step[c] = p.C[new, c]
    onto(p.H, p.h_order, p.h_tau, k, p.nz, p.step, 0)
    for c in range(p.nz):
        p.H[h, c] = p.step[c]
    p.held[h], p.gap[h] = new, 0.0
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
    """P, right, least: the rows of the least squares after the step of the k directions that are held; returns how many."""
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
def _minimise(p: Problem, k: int) -> None:
    """z becomes the minimiser nearest to it with the k directions of H held and soft rows of side as costs, y the multipliers."""
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
    _pull(p)
    onto(p.H, p.h_order, p.h_tau, k, p.nz, p.slope, 0)
    for i in range(k - 1, -1, -1):
        total = -p.slope[i]
        for r in range(i + 1, k):
            total -= p.H[p.h_order[r], i] * p.y[p.held[p.h_order[r]]]
        p.y[p.held[p.h_order[i]]] = total / p.H[p.h_order[i], i]


@linked(**INLINE)
def _wrong(p: Problem, i: int, push: float) -> bool:
    """Whether the multiplier of a held row says that it should leave."""
    return p.lower[i] != p.upper[i] and ((p.side[i] < 0 and p.y[i] > push) or (p.side[i] > 0 and p.y[i] < -push))


@linked(**OPTIONS)
def exchange(p: Problem) -> bool:
    """From z and the set that side says: violated rows enter, hard rows with a multiplier of the wrong sign and soft rows within
    their ends leave; where no hard row is violated the rest is a descent. Returns whether a set closed; then z, y and side are the
    answer."""
    hard = p.mc - p.soft
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
        _minimise(p, _held(p, True))
        far, push = 1.0 + _largest(p.z, p.nz), _ROUNDING * (1.0 + _largest(p.y, p.mc))
        changed, within = False, True
        for i in range(p.mc):
            tiny, before = _ROUNDING * (far + abs(p.row[i])), p.side[i]
            under, over = p.lower[i] - p.row[i], p.row[i] - p.upper[i]
            within = within and (i >= hard or (under <= 100.0 * tiny and over <= 100.0 * tiny))
            if i < hard and before != 0:
                p.side[i] = 0 if _wrong(p, i, push) else before
            elif p.lower[i] != p.upper[i]:
                near = i >= hard and before != 0  # at its end it stays, whichever side of it rounding says
                if under > tiny or (near and before < 0 and under >= -tiny):
                    p.side[i] = -1
                elif over > tiny or (near and before > 0 and over >= -tiny):
                    p.side[i] = 1
                else:
                    p.side[i] = 0
            changed = changed or p.side[i] != before
        if not changed:
            return within
        if within:
            return descend(p, True)
        if again:
            return False
    return False


@linked(**OPTIONS)
def _steepness(p: Problem, start: float, curve: float, t: float) -> float:
    """The derivative of the cost along target, t of the way."""
    total = start + t * curve
    for i in range(p.mc - p.soft, p.mc):
        total += p.rate[i] * _missed(p, i, p.row[i] + t * p.rate[i])
    return total


@linked(**OPTIONS)
def _lowest(p: Problem, most: float) -> float:
    """The share, at most ``most``, of target at which the cost is least: its derivative is piecewise linear and rises. Where no
    soft row passes an end on the way it is ``most``."""
    start, curve, passes = 0.0, 0.0, False
    for i in range(p.mc - p.soft, p.mc):
        passes = passes or (p.lower[i] != p.upper[i] and np.sign(_missed(p, i, p.row[i] + most * p.rate[i])) != p.side[i])
    if not passes:
        return most
    for i in range(p.kb):
        own, at = 0.0, -p.e[i]
        for c in range(p.nz):
            own += p.B[i, c] * p.target[c]
            at += p.B[i, c] * p.z[c]
        start += own * at
        curve += own * own
    low, high, below, above = 0.0, most, _steepness(p, start, curve, 0.0), _steepness(p, start, curve, most)
    if above <= 0.0 or below >= 0.0:
        return most
    for k in range(_HALVINGS):
        if high - low <= _ROUNDING * high:
            break
        t = 0.5 * (low + high) if k % 3 == 2 else low + (high - low) * below / (below - above)
        now = _steepness(p, start, curve, t)
        if abs(now) <= _ROUNDING * (abs(start) + curve):
            return t
        if now < 0.0:
            low, below = t, now
        else:
            high, above = t, now
    return 0.5 * (low + high)


@linked(**OPTIONS)
def _leave(p: Problem, stuck: int) -> bool:
    """Of the held rows whose multiplier is wrong the worst is let go, or the first, where nothing moved for a while."""
    push, worst, leaving = _ROUNDING * (1.0 + _largest(p.y, p.mc)), 0.0, -1
    for i in range(p.mc - p.soft):
        if _wrong(p, i, push) and (leaving < 0 or (stuck <= 3 and abs(p.y[i]) > worst)):
            leaving, worst = i, abs(p.y[i])
    if leaving >= 0:
        p.side[leaving] = 0
    return leaving >= 0


@linked(**OPTIONS)
def descend(p: Problem, holding: bool) -> bool:
    """From a feasible z without held rows, or holding those of side, which z touches, for a few changes. Returns whether it closed:
    without held rows False only where rounding keeps it from that."""
    hard = p.mc - p.soft
    for i in range(p.mc):
        if p.lower[i] == p.upper[i]:
            p.side[i] = 1
        elif i >= hard:
            at = 0.0
            for c in range(p.nz):
                at += p.C[i, c] * p.z[c]
            p.side[i] = np.sign(_missed(p, i, at))
        elif not holding:
            p.side[i] = 0
    stuck, k, first = 0, 0, -1
    for _ in range(_FEW if holding else 60 + 12 * (p.mc + p.nz)):
        for c in range(p.nz):
            p.target[c] = p.z[c]
        k = _append(p, first, k) if first >= 0 else _held(p, False)
        _minimise(p, k)
        far, length = 0.0, 0.0
        for c in range(p.nz):  # z back to where it was, target where it should go
            aim = p.z[c]
            p.z[c] = p.target[c]
            p.target[c] = aim - p.z[c]
            far += p.z[c] * p.z[c]
            length += p.target[c] * p.target[c]
        length = np.sqrt(length)
        share, first, there = 1.0, -1, True
        if length > _ROUNDING * (1.0 + np.sqrt(far)):
            _times(p.C, p.mc, p.nz, p.z, p.row)
            _times(p.C, p.mc, p.nz, p.target, p.rate)
            for i in range(hard):
                if p.side[i] == 0 and abs(p.rate[i]) > p.tolerance * length:
                    room = max(((p.upper[i] if p.rate[i] > 0.0 else p.lower[i]) - p.row[i]) / p.rate[i], 0.0)
                    if room < share:
                        share, first = room, i
            best = _lowest(p, share)
            there = best >= 1.0
            if best < share:
                share, first = best, -1
            for c in range(p.nz):
                p.z[c] += share * p.target[c]
            for i in range(hard, p.mc):
                if p.lower[i] != p.upper[i]:
                    side = np.sign(_missed(p, i, p.row[i] + share * p.rate[i]))
                    there = there and side == p.side[i]
                    p.side[i] = side
            if first >= 0:
                p.side[first] = 1 if p.rate[first] > 0.0 else -1
            stuck = stuck if share * length <= _ROUNDING else 0
        if there:  # at the minimiser of this set
            if not _leave(p, stuck):
                return True
            stuck += 1
    return False


@linked(**OPTIONS)
def optimal(p: Problem, tolerance: float) -> bool:
    """The optimality conditions hold, relative to the numbers in them: gradient, bounds, signs of multipliers, complementarity."""
    hard = p.mc - p.soft
    _pull(p)
    free, pushed = 0.0, 0.0
    for c in range(p.nz):
        total = 0.0
        for i in range(hard):
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
    for i in range(hard):
        above, below, own = p.upper[i] - p.row[i], p.row[i] - p.lower[i], far + abs(p.row[i])
        gap = min(max(p.y[i], 0.0), abs(above)) + min(max(-p.y[i], 0.0), abs(below))
        if not (min(above, below) >= -tolerance * own and gap <= tolerance * max(size, own)):
            return False
    return True


# ---- for Python ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Bounded:
    """The data: A [k, n], e [k], C [m, n], lower and upper [m]. Rows of C are judged by their own lengths."""

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
    p = problem(w, iw, 0, len(FLOATS), (kb, mc, nz, 0), TOLERANCE)
    return descend(p, False) and optimal(p, 1e-7)


def solve_bounded(data: Bounded, feasible: Array) -> Found | None:
    """The optimum by `descend` from a feasible point [n]; None where rounding keeps it from closing."""
    kb, (mc, nz) = data.e.size, data.C.shape
    blocks, length = Blocks(*sizes(kb, mc, nz, 0)), np.linalg.norm(data.C, axis=1)
    length[length == 0.0] = 1.0
    for name, value in (("B", data.A), ("C", data.C / length[:, None])):
        getattr(blocks, name)[:value.shape[0], :nz] = value
    for name, value in (("e", data.e), ("lower", data.lower / length), ("upper", data.upper / length), ("z", feasible),
                        ("b_size", np.linalg.norm(data.A, axis=1))):
        getattr(blocks, name)[:value.size] = value
    if not _solve(blocks.numbers, blocks.integers, kb, mc, nz):
        return None
    z, y, side = (getattr(blocks, name) for name in ("z", "y", "side"))
    return Found(z[:nz].copy(), y[:mc] / length, side[:mc].astype(np.int8))
