"""Down the levels of a hierarchy in compiled loops: what `ocp.solvers.hqp` describes.

The equations at the head are solved for as many unknowns (`elimination`). A level below turns Z so that its first rows are the
directions that it decides.

A level of inequalities alone is put off: rows that hold at a point of a level below hold, whatever that point is. Where none is
found, or a row cannot hold, everything is done once more with that level solved in its turn (``careful``).
"""

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers.active_set import Problem, descend, exchange, optimal
from ocp.solvers.elimination import eliminate
from ocp.solvers.factors import OPTIONS, VIEWS, back, factor, least_squares, turn_basis
from ocp.solvers.level_programme import ASK, CAREFUL, DONE, FAILED, accept, feasible, fill, start
from ocp.solvers.stack import Stack, holds, measure, problem_of, product, report, stack, widen

NONE, HELD, ENGINE, DESCENT = range(4)  # how the active set of a level was found

_ZERO = 1e-13  # relative; what rounding makes of a row that depends on others


@linked(**OPTIONS)
def _rows(s: Stack, k: int, first: int, top: int, n: int) -> tuple[int, float, int]:
    """F, e: what level k asks of what is left; returns (rows, norm of the level, columns: zeros follow)."""
    size, reach = 0.0, 0
    if k == s.state[1]:  # the least norm
        for i in range(n):
            s.e[i] = -s.x[i]
            for j in range(n - top):
                s.F[i, j] = s.Z[top + j, i]
        return n, np.sqrt(n), n - top
    for m in range(s.counts[k, 0]):
        i = first + m
        length, root = 0.0, s.a_root[i]
        for c in range(s.a_span[i, 0], s.a_span[i, 1]):
            length += s.A[i, c] * s.A[i, c]
        size += root * root * length
        s.e[m] = root * (s.b[i] - product(s.A, i, s.a_span, s.x))
        for j in range(n - top):
            total = 0.0
            for c in range(s.a_span[i, 0], s.a_span[i, 1]):
                total += s.A[i, c] * s.Z[top + j, c]
            s.F[m, j] = root * total
            if total != 0.0 and j >= reach:
                reach = j + 1
    return s.counts[k, 0], np.sqrt(size), reach


@linked(**OPTIONS)
def _decide(s: Stack, p: Problem, k: int, a_first: int, tolerance: float) -> tuple[int, bool, bool]:
    """trial: the least squares of level k, as if no limit were in the way. Returns (directions used, whether there are more rows
    than that, whether nothing that it sees is left: then Z is not turned)."""
    n, top = s.state[0], s.state[2]
    m, size, reach = _rows(s, k, a_first, top, n)
    seen, used, tall, last = 0, 0, False, False
    if m:
        seen = factor(s.F, m, reach, s.tau, s.order, s.norms, _ZERO * max(m, n - top) * size, 0.0, True)
        while used < seen and abs(s.F[s.order[used], used]) > tolerance * size:
            used += 1
        if used:
            tall = least_squares(s.F, s.order, m, used, s.e, s.along, p.G, p.g_tau, p.g_order, p.g_norms, p.g_right)
        last = seen == reach  # nothing is left: the step is all that is needed of the directions
        if not last:
            turn_basis(s.F, s.order, s.tau, seen, reach, s.Z, top, s.Z.shape[1], s.aside)
    s.state[4] = seen
    s.rank[k] = used
    for j in range(n - top):
        s.aside[j] = s.along[j] if j < used else 0.0
    if last:
        back(s.F, s.order, s.tau, seen, seen, s.aside)
    for c in range(n):
        s.trial[c] = s.x[c]
    for j in range(seen if last else used):
        for c in range(s.trial.size):
            s.trial[c] += s.aside[j] * s.Z[top + j, c]
    return used, tall, last


@linked(**OPTIONS)
def _walk(s: Stack, p: Problem, level: int, tolerance: float, careful: bool, guessed: bool) -> tuple[int, int, int, int, int]:
    """From ``level`` to the last; guessed: the answer of that level's programme is in p. Returns (code, level, kb, mc, nz); ASK:
    the programme of that level is in p, and its active set is wanted."""
    n, levels, top = s.state[0], s.state[1], s.state[2]
    a_first, d_first = s.counts[:level, 0].sum(), s.counts[:level, 1].sum()
    for k in range(level, levels + 1):
        top, pending, soft = s.state[2], s.state[3] != 0, s.counts[k, 1] if k < levels else 0
        if guessed:
            s.state[2], s.state[3], guessed = accept(s, p, k, top, s.state[4], soft, s.how[k]), 0, False
            widen(s, d_first, d_first + soft)
        else:
            s.how[k], s.rank[k] = NONE, 0
            if top < n:
                used, tall, last = _decide(s, p, k, a_first, tolerance)
                decides = k == levels or s.counts[k, 0] > 0
                if holds(s, d_first, soft, pending):
                    for c in range(n):
                        s.x[c] = s.trial[c]
                    s.state[2], s.state[3] = top + s.state[4], 1 if pending and not decides else 0
                elif not decides and not careful:
                    s.state[3] = 1  # put off
                elif pending and soft and not careful:
                    return CAREFUL, k, 0, 0, 0
                else:
                    if last:
                        turn_basis(s.F, s.order, s.tau, s.state[4], s.state[4], s.Z, top, s.Z.shape[1], s.aside)
                    kb, mc, nz, code = fill(s, p, k, top, used, tall, d_first, d_first + soft, pending)
                    return ASK if code == DONE else code, k, kb, mc, nz
        if k < levels:
            a_first, d_first = a_first + s.counts[k, 0], d_first + soft
    return DONE, levels, 0, 0, 0


@linked(**VIEWS)
def advance(w: np.ndarray, iw: np.ndarray, sizes: np.ndarray, tolerance: float, careful: bool, guessed: bool, roads: int) -> int:
    """From the start (guessed: from the level that asked, whose guess is in z and side) to the end, or to where an engine has to
    be asked: then sizes [kb, mc, nz, level, unknowns that are no slacks] says what is in the arrays. roads: which may be taken to
    an active set, a sum of 1 (rows held last), 2 (those of the engine), 4 (descent after it), 8 (before). Returns a code."""
    s = stack(w, iw)
    level, code, how = sizes[3] if guessed else 0, DONE, ENGINE
    kb, mc, nz = sizes[0], sizes[1], sizes[2]
    if not guessed:
        measure(s)
        level = eliminate(s)
        code, level, kb, mc, nz = _walk(s, problem_of(w, iw, 0, 0, 0), level, tolerance, careful, False)
    while guessed or code == ASK:
        p = problem_of(w, iw, kb, mc, nz)
        soft = s.counts[level, 1] if level < s.state[1] else 0
        r = nz - soft
        if not guessed:
            how = HELD
            start(s, p, r, s.rank[level])
        closed = roads & (2 if guessed else 1) != 0 and exchange(p) and optimal(p, 1e-7)
        if not closed:
            feasible(p, r, soft)
            if not guessed and s.state[3] != 0:
                return CAREFUL
            how = DESCENT
            closed = roads & (4 if guessed else 8) != 0 and descend(p, False) and optimal(p, 1e-7)
            if not closed:
                sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] = kb, mc, nz, level, r
                if guessed:
                    return FAILED
                feasible(p, r, soft)
                return ASK
        guessed = False
        s.how[level] = how
        code, level, kb, mc, nz = _walk(s, p, level, tolerance, careful, True)
    sizes[3] = level
    if code == DONE and not report(s):
        return FAILED
    return code
