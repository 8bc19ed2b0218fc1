"""Down the levels of a hierarchy in compiled loops: what `ocp.solvers.hqp` describes.

x = x0 + sum over rows of Z from ``top`` on; rows above are decided. A level turns Z so that its first rows are the directions that
it decides. Ends of rows of D are those asked for, widened by what levels above could not keep.

A level of inequalities alone is put off: rows that hold at a point of a level below hold, whatever that point is. Where none is
found, or a row cannot hold, everything is done once more with that level solved in its turn (``careful``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ocp.solvers import active_set
from ocp.solvers.active_set import Problem, descend, exchange, optimal, problem
from ocp.solvers.blocks import Blocks, matrix, vector, whole
from ocp.solvers.factors import INLINE, OPTIONS, VIEWS, back, factor, least_squares, turn_basis

DONE, ASK, FAILED, CAREFUL = range(4)
NONE, HELD, ENGINE, DESCENT = range(4)  # how the active set of a level was found

_ZERO = 1e-13  # relative; what rounding makes of a row that depends on others
_DECIDED = 1e-8  # share of a row's length below which what is left to decide does not move it
_PUSHES = 1e-9  # share of a level's gradient from which a multiplier counts as one
_TINY = 1e-12  # relative; how far beyond an end rounding may put a row
_SINGLE = 1e-3  # share of its row from which a number that is alone in its column decides that unknown

_OWN = ("A", "b", "a_root", "D", "low", "high", "d_root", "d_size", "floor", "ceiling", "x", "trial", "Z", "F", "tau", "norms",
        "ask", "along", "aside", "w", "residual", "slack", "memory")
_COUNTS = ("counts", "a_span", "d_span", "order", "which", "rows", "how", "rank", "sides", "end", "state")
_F, _I = len(active_set.FLOATS), len(active_set.FLOATS) + len(_OWN)
_J = _I + len(active_set.INTS)


class Stack(NamedTuple):
    """Views of the arrays of one stack. counts [levels, 2]: rows of A and of D of each; state: n, levels, top, pending, x beyond
    those above, directions that no level decided."""

    A: np.ndarray
    b: np.ndarray
    a_root: np.ndarray
    D: np.ndarray
    low: np.ndarray
    high: np.ndarray
    d_root: np.ndarray
    d_size: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    x: np.ndarray
    trial: np.ndarray
    Z: np.ndarray
    F: np.ndarray
    tau: np.ndarray
    norms: np.ndarray
    e: np.ndarray
    along: np.ndarray
    aside: np.ndarray
    w: np.ndarray
    residual: np.ndarray
    slack: np.ndarray
    memory: np.ndarray
    counts: np.ndarray
    a_span: np.ndarray
    d_span: np.ndarray
    order: np.ndarray
    which: np.ndarray
    rows: np.ndarray
    how: np.ndarray
    rank: np.ndarray
    sides: np.ndarray
    end: np.ndarray
    state: np.ndarray


def space(n: int, counts: list[tuple[int, int]]) -> Blocks:
    """Arrays for n unknowns and levels of (rows of A, rows of D)."""
    R, S, levels = sum(a for a, _ in counts), sum(d for _, d in counts), len(counts)
    slacks, tall = max(d for _, d in counts), max(n, *(a for a, _ in counts)) + 1
    floats, ints = active_set.sizes(n + slacks, S, n + slacks)
    most = max(tall, S) + 1
    floats = {**floats, "A": (R, n), "b": (R,), "a_root": (R,), "D": (S, n), "low": (S,), "high": (S,), "d_root": (S,),
              "d_size": (S,), "floor": (S,), "ceiling": (S,), "x": (n,), "trial": (n,), "Z": (n, n), "F": (most, n), "tau": (most,),
              "norms": (most,), "ask": (most,), "along": (most,), "aside": (most,), "w": (S,), "residual": (R,), "slack": (S,),
              "memory": (levels + 1, S)}
    # factors of a level need the room of its rows as well
    for name in ("g_tau", "g_norms", "g_right"):
        floats[name] = (max(most, *floats[name]),)
    floats["G"] = (most, most) if most > floats["G"][0] else floats["G"]
    ints = {**ints, "g_order": (max(most, *ints["g_order"]),)}
    ints = {**ints, "counts": (levels, 2), "a_span": (R, 2), "d_span": (S, 2), "order": (most,), "which": (S + 1,), "rows": (most,),
            "how": (levels + 1,), "rank": (levels + 1,), "sides": (levels + 1, S), "end": (S,), "state": (8,)}
    made = Blocks(floats, ints)
    made.counts[:] = counts
    made.state[:2] = n, levels
    return made


@njit(**VIEWS)
def stack(w: np.ndarray, iw: np.ndarray) -> Stack:
    f, i = _F, _J
    return Stack(matrix(w, iw, f), vector(w, iw, f + 1), vector(w, iw, f + 2), matrix(w, iw, f + 3), vector(w, iw, f + 4),
                 vector(w, iw, f + 5), vector(w, iw, f + 6), vector(w, iw, f + 7), vector(w, iw, f + 8), vector(w, iw, f + 9),
                 vector(w, iw, f + 10), vector(w, iw, f + 11), matrix(w, iw, f + 12), matrix(w, iw, f + 13), vector(w, iw, f + 14),
                 vector(w, iw, f + 15), vector(w, iw, f + 16), vector(w, iw, f + 17), vector(w, iw, f + 18), vector(w, iw, f + 19),
                 vector(w, iw, f + 20), vector(w, iw, f + 21), matrix(w, iw, f + 22), matrix(iw, iw, i), matrix(iw, iw, i + 1),
                 matrix(iw, iw, i + 2), whole(iw, i + 3), whole(iw, i + 4), whole(iw, i + 5), whole(iw, i + 6), whole(iw, i + 7),
                 matrix(iw, iw, i + 8), whole(iw, i + 9), whole(iw, i + 10))


@njit(**INLINE)
def _product(A: np.ndarray, i: int, span: np.ndarray, x: np.ndarray) -> float:
    total = 0.0
    for c in range(span[i, 0], span[i, 1]):
        total += A[i, c] * x[c]
    return total


@njit(**OPTIONS)
def _spans(A: np.ndarray, span: np.ndarray) -> None:
    for i in range(A.shape[0]):
        first, last = 0, A.shape[1]
        while first < last and A[i, first] == 0.0:
            first += 1
        while last > first and A[i, last - 1] == 0.0:
            last -= 1
        span[i, 0], span[i, 1] = first, last


@njit(**OPTIONS)
def begin(s: Stack) -> None:
    """Nothing is decided but what numbers that are alone in their columns of the first level decide."""
    n, rows = s.state[0], s.counts[0, 0]
    _spans(s.A, s.a_span)
    _spans(s.D, s.d_span)
    for i in range(s.D.shape[0]):
        s.lower[i], s.upper[i] = s.low[i], s.high[i]
        total = 0.0
        for c in range(s.d_span[i, 0], s.d_span[i, 1]):
            total += s.D[i, c] * s.D[i, c]
        s.d_size[i] = np.sqrt(total)
    for i in range(rows):
        s.rows[i] = -1
    top = 0
    if s.counts[0, 1] == 0:
        for c in range(n):
            alone, where = 0, 0
            for i in range(rows):
                if s.A[i, c] != 0.0:
                    alone += 1
                    where = i
                    if alone > 1:
                        break
            if alone == 1 and s.rows[where] < 0:
                length = 0.0
                for j in range(n):
                    length += s.A[where, j] * s.A[where, j]
                if abs(s.A[where, c]) >= _SINGLE * np.sqrt(length):
                    s.rows[where] = c
                    top += 1
    for i in range(rows):
        c = s.rows[i]
        if c >= 0:
            s.x[c] += (s.b[i] - _product(s.A, i, s.a_span, s.x)) / s.A[i, c]
    row = top
    for j in range(n):
        taken = False
        for i in range(rows):
            taken = taken or s.rows[i] == j
        if taken:
            continue
        for c in range(n):
            s.Z[row, c] = 0.0
        s.Z[row, j] = 1.0
        for i in range(rows):
            c = s.rows[i]
            if c >= 0 and s.A[i, j] != 0.0:
                s.Z[row, c] = -s.A[i, j] / s.A[i, c]
        row += 1
    s.state[2], s.state[3], s.state[4] = top, 0, 0


@njit(**OPTIONS)
def _rows(s: Stack, k: int, first: int, top: int, n: int) -> tuple[int, float]:
    """F, e: what level k asks of what is left; returns (rows, norm of the level)."""
    m, size = 0, 0.0
    if k == s.state[1]:  # the least norm
        for i in range(n):
            s.e[i] = -s.x[i]
            for j in range(n - top):
                s.F[i, j] = s.Z[top + j, i]
        return n, np.sqrt(n)
    for i in range(first, first + s.counts[k, 0]):
        length = 0.0
        for c in range(s.a_span[i, 0], s.a_span[i, 1]):
            length += s.A[i, c] * s.A[i, c]
        size += s.a_root[i] * s.a_root[i] * length
        if k == 0 and s.rows[i] >= 0:
            continue
        s.e[m] = s.a_root[i] * (s.b[i] - _product(s.A, i, s.a_span, s.x))
        for j in range(n - top):
            total = 0.0
            for c in range(s.a_span[i, 0], s.a_span[i, 1]):
                total += s.A[i, c] * s.Z[top + j, c]
            s.F[m, j] = s.a_root[i] * total
        m += 1
    return m, np.sqrt(size)


@njit(**OPTIONS)
def _holds(s: Stack, last: int, pending: bool) -> bool:
    """Whether the first rows of D hold at ``trial``, no worse than at x unless that is still to be shown."""
    for i in range(last):
        w = _product(s.D, i, s.d_span, s.trial)
        tiny = _TINY * (1.0 + abs(w))
        if w < s.lower[i] - tiny or w > s.upper[i] + tiny:
            if pending:
                return False
            before = _product(s.D, i, s.d_span, s.x)
            if w < min(s.lower[i], before) - tiny or w > max(s.upper[i], before) + tiny:
                return False
    return True


@njit(**OPTIONS)
def _programme(s: Stack, p: Problem, k: int, top: int, used: int, tall: bool, first: int, last: int,
               pending: bool) -> tuple[int, int, int, int]:
    """Fill the programme of a level: rows of D up to ``first`` are hard, to ``last`` soft, with a slack each. Returns
    (kb, mc, nz, code)."""
    n = s.state[0]
    r, soft = n - top, last - first
    nz, kb, mc = r + soft, used + soft, 0
    for i in range(kb):
        p.e[i] = 0.0
        for c in range(nz):
            p.B[i, c] = 0.0
    for i in range(used):
        if tall:
            p.e[i] = p.g_right[i]
            for c in range(i, used):
                p.B[i, c] = p.G[c, i]
        else:
            p.e[i] = s.e[s.order[i]]
            for c in range(i + 1):
                p.B[i, c] = s.F[s.order[i], c]
    for i in range(soft):
        p.B[used + i, r + i] = 1.0
    far = 1.0
    for i in range(first):
        s.w[i] = _product(s.D, i, s.d_span, s.x)
        far = max(far, 1.0 + abs(s.w[i]))
    for i in range(last):
        length = 0.0
        for j in range(r):
            total = 0.0
            for c in range(s.d_span[i, 0], s.d_span[i, 1]):
                total += s.D[i, c] * s.Z[top + j, c]
            p.C[mc, j] = total
            length += total * total
        length = np.sqrt(length)
        for c in range(r, nz):
            p.C[mc, c] = 0.0
        if i < first:
            below, above = s.lower[i] - s.w[i], s.upper[i] - s.w[i]
            if not pending and (below > 1e-6 * far or above < -1e-6 * far):
                return kb, mc, nz, FAILED
            if length <= _DECIDED * s.d_size[i]:
                tiny = 100.0 * _TINY * (1.0 + abs(s.w[i]))
                if pending and (below > tiny or above < -tiny):
                    return kb, mc, nz, CAREFUL
                continue
            if not pending:  # the point at hand holds them, by construction; what rounding took from it is given back
                below, above = min(below, 0.0), max(above, 0.0)
            scale = 1.0 / length
        else:
            w = _product(s.D, i, s.d_span, s.x)
            below, above, scale = s.lower[i] - w, s.upper[i] - w, s.d_root[i]
            p.C[mc, r + i - first] = -1.0
        for j in range(r):
            p.C[mc, j] *= scale
        p.lower[mc], p.upper[mc] = scale * below, scale * above
        s.which[mc] = i
        side = s.sides[k, i]
        p.side[mc] = 0 if (side < 0 and np.isinf(below)) or (side > 0 and np.isinf(above)) else side
        mc += 1
    return kb, mc, nz, DONE


@njit(**OPTIONS)
def feasible(p: Problem, r: int, soft: int) -> None:
    """z at a point that holds every row: where x is, slacks as they have to be."""
    for c in range(p.nz):
        p.z[c] = 0.0
    for i in range(soft):
        row = p.mc - soft + i
        p.z[r + i] = min(-p.lower[row], 0.0) + max(-p.upper[row], 0.0)


@njit(**OPTIONS)
def _accept(s: Stack, p: Problem, k: int, top: int, seen: int, soft: int, how: int) -> int:
    """x and Z after the programme of a level: what it decides, and the rows that push. Returns the new top."""
    n = s.state[0]
    r, pull = n - top, 1e-30
    for c in range(r):
        total = 0.0
        for i in range(p.kb - soft):
            total += p.B[i, c] * p.e[i]
        pull = max(pull, abs(total))
    for i in range(soft):
        row = p.mc - soft + i
        pull = max(pull, max(p.lower[row], -p.upper[row]))
    s.how[k] = how
    for i in range(s.sides.shape[1]):
        s.sides[k, i], s.memory[k, i] = 0, 0.0
    pushing = 0
    for i in range(p.mc):
        s.sides[k, s.which[i]], s.memory[k, s.which[i]] = p.side[i], p.y[i]
        if p.y[i] == 0.0:
            continue
        length = 0.0
        for c in range(r):
            length += p.C[i, c] * p.C[i, c]
        length = np.sqrt(length)
        if abs(p.y[i]) * max(length, 1e-300) > _PUSHES * pull and length > 0.0:
            for c in range(r - seen):
                s.F[pushing, c] = p.C[i, seen + c] / length
            pushing += 1
    for j in range(r):
        for c in range(n):
            s.x[c] += p.z[j] * s.Z[top + j, c]
    top += seen
    if pushing and top < n:
        held = factor(s.F, pushing, n - top, s.tau, s.order, s.norms, _DECIDED, 0.0, True)
        turn_basis(s.F, s.order, s.tau, held, n - top, s.Z, top, n, s.along)
        top += held
    return top


@njit(**OPTIONS)
def _widen(s: Stack, first: int, last: int) -> None:
    for i in range(first, last):
        w = _product(s.D, i, s.d_span, s.x)
        s.lower[i], s.upper[i] = min(s.low[i], w), max(s.high[i], w)


@njit(**OPTIONS)
def report(s: Stack) -> bool:
    """Residuals, slacks and ends of all rows at x, and in ``state`` whether there is a slack. Returns whether x is finite."""
    total = 0.0
    for c in range(s.x.size):
        total += abs(s.x[c])
    s.state[5] = 0
    for i in range(s.A.shape[0]):
        s.residual[i] = _product(s.A, i, s.a_span, s.x) - s.b[i]
    for i in range(s.D.shape[0]):
        w = _product(s.D, i, s.d_span, s.x)
        near = _DECIDED * (1.0 + abs(w))
        s.slack[i] = w - s.high[i] if w > s.high[i] + near else (w - s.low[i] if w < s.low[i] - near else 0.0)
        s.end[i] = 1 if w >= s.high[i] - near else (-1 if w <= s.low[i] + near else 0)
        if s.slack[i] != 0.0:
            s.state[5] = 1
    return bool(np.isfinite(total))


@njit(**OPTIONS)
def walk(s: Stack, p: Problem, level: int, tolerance: float, careful: bool, guessed: bool) -> tuple[int, int, int, int, int]:
    """From ``level`` to the last; guessed: the programme of that level is loaded, with z and side near its optimum. Returns
    (code, level, kb, mc, nz); ASK: the programme of that level is in p, with a feasible z, and an engine should look for its active
    set."""
    n, levels = s.state[0], s.state[1]
    a_first, d_first = 0, 0
    for k in range(level):
        a_first += s.counts[k, 0]
        d_first += s.counts[k, 1]
    for k in range(level, levels + 1):
        top, pending = s.state[2], s.state[3] != 0
        if not guessed:
            s.how[k], s.rank[k] = NONE, 0
        if top == n:
            if k < levels:
                continue
            break
        soft = s.counts[k, 1] if k < levels else 0
        if not guessed:
            m, size = _rows(s, k, a_first, top, n)
            seen, used, tall, last = 0, 0, False, False
            if m:
                seen = factor(s.F, m, n - top, s.tau, s.order, s.norms, _ZERO * max(m, n - top) * size, 0.0, True)
                while used < seen and abs(s.F[s.order[used], used]) > tolerance * size:
                    used += 1
                if used:
                    tall = least_squares(s.F, s.order, m, used, s.e, s.along, p.G, p.g_tau, p.g_order, p.g_norms, p.g_right)
                last = seen == n - top  # nothing is left: the step is all that is needed of the directions
                if not last:
                    turn_basis(s.F, s.order, s.tau, seen, n - top, s.Z, top, n, s.aside)
            s.state[4] = seen
            s.rank[k] = used + (top if k == 0 else 0)
            for j in range(n - top):
                s.aside[j] = s.along[j] if j < used else 0.0
            if last:
                back(s.F, s.order, s.tau, seen, n - top, s.aside)
            for c in range(n):
                s.trial[c] = s.x[c]
            for j in range(n - top if last else used):
                for c in range(n):
                    s.trial[c] += s.aside[j] * s.Z[top + j, c]
            decides = k == levels or s.counts[k, 0] > 0
            if _holds(s, d_first, pending) if not soft else (_holds(s, d_first, pending) and _within(s, d_first, soft)):
                for c in range(n):
                    s.x[c] = s.trial[c]
                s.state[2] = top + seen
                s.state[3] = 1 if pending and not decides else 0
            elif not decides and not careful:
                s.state[3] = 1  # put off
            else:
                if pending and soft and not careful:
                    return CAREFUL, k, 0, 0, 0
                if last:
                    turn_basis(s.F, s.order, s.tau, seen, n - top, s.Z, top, n, s.aside)
                kb, mc, nz, code = _programme(s, p, k, top, used, tall, d_first, d_first + soft, pending)
                if code != DONE:
                    return code, k, kb, mc, nz
                return ASK, k, kb, mc, nz
        else:
            s.state[2] = _accept(s, p, k, top, s.state[4], soft, s.how[k])
            s.state[3] = 0
            _widen(s, d_first, d_first + soft)
            guessed = False
        if k < levels:
            a_first += s.counts[k, 0]
            d_first += soft
    return DONE, levels, 0, 0, 0


@njit(**OPTIONS)
def _within(s: Stack, first: int, soft: int) -> bool:
    for i in range(first, first + soft):
        w = _product(s.D, i, s.d_span, s.trial)
        tiny = _TINY * (1.0 + abs(w))
        if w < s.lower[i] - tiny or w > s.upper[i] + tiny:
            return False
    return True


@njit(**OPTIONS)
def _point(s: Stack, p: Problem, r: int, used: int) -> None:
    for c in range(p.nz):
        p.z[c] = s.along[c] if c < used else 0.0


@njit(**VIEWS)
def advance(w: np.ndarray, iw: np.ndarray, sizes: np.ndarray, tolerance: float, careful: bool, guessed: bool, roads: int) -> int:
    """From the start (guessed: from the level that asked, whose guess is in z and side) to the end, or to where an engine has to
    be asked: then sizes [kb, mc, nz, level, unknowns that are no slacks] says what is in the arrays. roads: which may be taken to
    an active set, a sum of 1 (rows held last), 2 (those of the engine), 4 (descent after it), 8 (before). Returns a code."""
    s = stack(w, iw)
    level, code, how = sizes[3] if guessed else 0, DONE, ENGINE
    kb, mc, nz = sizes[0], sizes[1], sizes[2]
    if not guessed:
        begin(s)
        code, level, kb, mc, nz = walk(s, problem(w, iw, 0, _I, 0, 0, 0), 0, tolerance, careful, False)
    while guessed or code == ASK:
        p = problem(w, iw, 0, _I, kb, mc, nz)
        soft = s.counts[level, 1] if level < s.state[1] else 0
        r = nz - soft
        if not guessed:
            how = HELD
            _point(s, p, r, s.rank[level] - (s.state[2] if level == 0 else 0))
        closed = roads & (2 if guessed else 1) != 0 and exchange(p) and optimal(p, 1e-7)
        if not closed:
            feasible(p, r, soft)
            if not guessed and s.state[3] != 0:
                return CAREFUL
            how = DESCENT
            closed = roads & (4 if guessed else 8) != 0 and descend(p) and optimal(p, 1e-7)
            if not closed:
                sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] = kb, mc, nz, level, r
                if guessed:
                    return FAILED
                feasible(p, r, soft)
                return ASK
        guessed = False
        s.how[level] = how
        code, level, kb, mc, nz = walk(s, p, level, tolerance, careful, True)
    sizes[3] = level
    if code == DONE and not report(s):
        return FAILED
    return code
