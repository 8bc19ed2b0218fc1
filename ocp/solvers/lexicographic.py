"""Down the levels of a hierarchy in compiled loops: what `ocp.solvers.hqp` describes.

The equations at the head are solved for as many unknowns (`elimination`). A level below turns Z so that its first rows are the
directions that it decides.

A level of inequalities alone is put off: rows that hold at a point of a level below hold, whatever that point is. Where none is
found, or a row cannot hold, everything is done once more with that level solved in its turn (``careful``).
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers.active_set import descend, exchange, optimal
from ocp.solvers.elimination import eliminate
from ocp.solvers.factors import OPTIONS, VIEWS, back, factor, go_on, least_squares, turn_basis
from ocp.solvers.level_program import ASK, CAREFUL, DONE, FAILED, accept, fill
from ocp.solvers.stack import ROUNDING, Stack, holds, measure, problem_of, product, report, stack, widen
from ocp.solvers.working_set import Problem

NONE, HELD, ENGINE, DESCENT = range(4)  # how the active set of a level was found


@linked(**OPTIONS)
def _rows(s: Stack, k: int, first: int, tolerance: float) -> tuple[int, int]:
    """F, e, length: level k in the null space of the levels before it, and ``pivot_tolerance``, the pivot below which a row is
    zero; returns (rows, columns: zeros follow)."""
    n, top, reach = s.state[0], s.state[2], 0
    if k == s.state[1]:  # the least norm
        most = 0.0
        for i in range(n):
            most = max(most, s.unit[i])
        for i in range(n):
            root = s.unit[i] / most
            s.e[i], s.length[i], s.pivot_tolerance[i] = -root * s.x[i], root, tolerance * root
            for j in range(n - top):
                s.F[i, j] = root * s.Z[top + j, i]
        return n, n - top
    for m in range(s.counts[k, 0]):
        i = first + m
        squares, root = 0.0, s.a_root[i]
        for c in range(s.a_span[i, 0], s.a_span[i, 1]):
            squares += s.A[i, c] * s.A[i, c]
        s.length[m] = root * np.sqrt(squares)
        s.pivot_tolerance[m] = tolerance * s.length[m]
        s.e[m] = root * (s.b[i] - product(s.A, i, s.a_span, s.x))
        for j in range(n - top):
            total = 0.0
            for c in range(s.a_span[i, 0], s.a_span[i, 1]):
                total += s.A[i, c] * s.Z[top + j, c]
            s.F[m, j] = root * total
            if total != 0.0 and j >= reach:
                reach = j + 1
    return s.counts[k, 0], reach


@linked(**OPTIONS)
def _decide(s: Stack, p: Problem, k: int, a_first: int) -> tuple[bool, bool]:
    """trial: the least squares of level k, as if no limit were in the way. Directions that are but more than rounding are seen, not
    used: levels below leave them alone. Returns (whether there are more equations than unknowns,
    whether nothing that it sees is left: then Z is not turned)."""
    n, top, used, seen, tall, last = s.state[0], s.state[2], 0, 0, False, False
    m, reach = _rows(s, k, a_first, p.tolerance)
    if m:
        used = factor(s.F, m, reach, s.tau, s.order, s.norms, s.pivot_tolerance)
        seen = go_on(s.F, used, m, reach, s.tau, s.order, s.norms, s.pivot_tolerance, ROUNDING * n / p.tolerance)
        if used:
            tall = least_squares(s.F, s.order, m, used, s.e, s.in_span, p.G, p.g_tau, p.g_order, p.g_right)
        last = seen == reach  # nothing is left: the step is all that is needed of the directions
        if not last:
            turn_basis(s.F, s.order, s.tau, seen, reach, s.Z, top, s.Z.shape[1], s.aside)
    s.state[4] = seen
    s.rank[k] = used
    for j in range(n - top):
        s.aside[j] = s.in_span[j] if j < used else 0.0
    if last:
        back(s.F, s.order, s.tau, seen, seen, s.aside)
    for c in range(n):
        s.trial[c] = s.x[c]
    for j in range(seen):
        for c in range(s.trial.size):
            s.trial[c] += s.aside[j] * s.Z[top + j, c]
    return tall, last


@linked(**OPTIONS)
def _walk(s: Stack, p: Problem, level: int, careful: bool, guessed: bool) -> tuple[int, int, int, int, int]:
    """From ``level`` to the last; guessed: the answer of that level's program is in p. Returns (code, level, kb, mc, soft); ASK:
    the program of that level is in p, and its active set is wanted."""
    n, levels, top = s.state[0], s.state[1], s.state[2]
    a_first, d_first = s.counts[:level, 0].sum(), s.counts[:level, 1].sum()
    for k in range(level, levels + 1):
        top, pending, soft = s.state[2], s.state[3] != 0, s.counts[k, 1] if k < levels else 0
        if guessed:
            s.state[2], s.state[3], guessed = accept(s, p, k, s.how[k]), 0, False
            widen(s, d_first, d_first + soft)
        else:
            s.how[k], s.rank[k] = NONE, 0
            if top < n:
                tall, last = _decide(s, p, k, a_first)
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
                    mc, code = fill(s, p, k, tall, d_first, d_first + soft, pending)
                    return ASK if code == DONE else code, k, s.state[4], mc, soft
        if k < levels:
            a_first, d_first = a_first + s.counts[k, 0], d_first + soft
    return DONE, levels, 0, 0, 0


@linked(**OPTIONS)
def _feasible(p: Problem) -> bool:
    """Whether the hard constraints hold at z = 0."""
    holds = True
    for i in range(p.mc - p.soft):
        holds = holds and p.lower[i] <= 0.0 <= p.upper[i]
    return holds


@linked(**VIEWS)
def advance(w: np.ndarray, iw: np.ndarray, sizes: np.ndarray, tolerance: float, careful: bool, guessed: bool, methods: int) -> int:
    """From the start (guessed: from the level that asked, whose guess is in z and side) to the end, or to where an engine has to
    be asked: then sizes [kb, mc, nz, level, soft] says what is in the arrays. methods: which may be taken to an active set, a sum
    of
    1 (last active set), 2 (that of the engine), 4 (descent after it), 8 (before). Returns a code."""
    s = stack(w, iw)
    level, code, how = sizes[3] if guessed else 0, DONE, ENGINE
    kb, mc, soft = sizes[0], sizes[1], sizes[4]
    if not guessed:
        measure(s)
        level = eliminate(s)
        code, level, kb, mc, soft = _walk(s, problem_of(w, iw, (0, 0, 0, 0), tolerance), level, careful, False)
    while guessed or code == ASK:
        p = problem_of(w, iw, (kb, mc, s.state[0] - s.state[2], soft), tolerance)
        if not guessed:
            how = HELD
            for c in range(p.nz):
                p.z[c] = s.in_span[c] if c < s.rank[level] else 0.0
        closed = methods & (2 if guessed else 1) != 0 and exchange(p) and optimal(p, 1e-7)
        if not closed:
            for c in range(p.nz):  # at x every hard constraint holds
                p.z[c] = 0.0
            if not guessed and s.state[3] != 0 and not _feasible(p):
                return CAREFUL
            how = DESCENT
            closed = methods & (4 if guessed else 8) != 0 and descend(p, False) and optimal(p, 1e-7)
            if not closed:
                sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] = kb, mc, p.nz, level, soft
                if guessed:
                    return FAILED
                for c in range(p.nz):
                    p.z[c] = 0.0
                return ASK
        guessed = False
        s.how[level] = how
        code, level, kb, mc, soft = _walk(s, p, level, careful, True)
    sizes[3] = level
    if code == DONE and not report(s):
        return FAILED
    return code
