"""The program of a level whose limits, or those of the levels above, are in the way: least squares between bounds.

In z, what is left to decide; rows of D of the level's own are soft.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers.factors import OPTIONS, factor, turn_basis
from ocp.solvers.stack import END_TOLERANCE, ROUNDING, Stack, product
from ocp.solvers.working_set import Problem

DONE, ASK, FAILED, CAREFUL = range(4)

_PUSHES = 1e-9  # share of a level's gradient from which a multiplier counts as one


@linked(**OPTIONS)
def _costs(s: Stack, p: Problem, k: int, tall: bool) -> None:
    """The least squares of A in what is left to decide: the factor's, each row of the length that was left of it beside others.
    Where that was too little to say anything, the direction is to stay, by ten times so little: then the answer is unique."""
    used = s.rank[k]
    for i in range(s.state[4]):
        for c in range(s.state[0] - s.state[2]):
            p.B[i, c] = 0.0
        if i >= used:
            p.B[i, i] = p.b_size[i] = 10.0 * s.pivot_tolerance[s.order[i]]
            p.e[i] = 0.0
        elif tall:
            p.e[i], p.b_size[i] = p.g_right[i], abs(p.G[i, i])
            for c in range(i, used):
                p.B[i, c] = p.G[c, i]
        else:
            p.e[i], p.b_size[i] = s.e[s.order[i]], abs(s.F[s.order[i], i])
            for c in range(i + 1):
                p.B[i, c] = s.F[s.order[i], c]


@linked(**OPTIONS)
def _reduced_row(s: Stack, p: Problem, i: int, at: int, top: int, r: int) -> float:
    """Row i of the matrix D in the free unknowns, as row ``at`` of C. Returns its length."""
    squares = 0.0
    for j in range(r):
        total = 0.0
        for c in range(s.d_span[i, 0], s.d_span[i, 1]):
            total += s.D[i, c] * s.Z[top + j, c]
        p.C[at, j] = total
        squares += total * total
    return float(np.sqrt(squares))


@linked(**OPTIONS)
def fill(s: Stack, p: Problem, k: int, tall: bool, first: int, last: int, pending: bool) -> tuple[int, int]:
    """Fill the program of a level: rows of D up to ``first`` are hard, of length one, to ``last`` soft, weighed.
    Returns (rows of C, code)."""
    top, mc, far = s.state[2], 0, 1.0
    r = s.state[0] - top
    _costs(s, p, k, tall)
    for i in range(last):
        s.w[i] = product(s.D, i, s.d_span, s.x)
        far = max(far, 1.0 + abs(s.w[i])) if i < first else far
    for i in range(last):
        length, below, above = _reduced_row(s, p, i, mc, top, r), s.lower[i] - s.w[i], s.upper[i] - s.w[i]
        little, none = length <= p.tolerance * s.d_size[i], length <= ROUNDING * s.state[0] * s.d_size[i]
        scale, p.c_size[mc] = s.d_root[i], 0.0 if none else s.d_root[i] * length
        if i < first:
            if not pending and (below > 1e-6 * far or above < -1e-6 * far):
                return mc, FAILED
            tiny = 100.0 * END_TOLERANCE * (1.0 + abs(s.w[i]))
            if little and pending and (below > tiny or above < -tiny):
                return mc, CAREFUL
            if none:
                continue
            if not pending:  # the point at hand holds them, by construction; what rounding took from it is given back
                below, above = min(below, 0.0), max(above, 0.0)
            scale, p.c_size[mc] = 1.0 / length, 1.0
        for j in range(r):
            p.C[mc, j] = 0.0 if i >= first and little else scale * p.C[mc, j]
        p.lower[mc], p.upper[mc] = scale * below, scale * above
        s.which[mc] = i
        side = s.sides[k, i]
        p.side[mc] = 0 if (side < 0 and np.isinf(below)) or (side > 0 and np.isinf(above)) else side
        mc += 1
    return mc, DONE


@linked(**OPTIONS)
def accept(s: Stack, p: Problem, k: int, how: int) -> int:
    """x and Z after the program of a level: what it decides, and the rows that push. Returns the new top."""
    n, top, seen, largest_push, pushing = s.state[0], s.state[2], s.state[4], 1e-30, 0
    for c in range(p.nz):
        total = 0.0
        for i in range(p.kb):
            total += p.B[i, c] * p.e[i]
        largest_push = max(largest_push, abs(total))
    for row in range(p.mc - p.soft, p.mc):
        largest_push = max(largest_push, max(p.lower[row], -p.upper[row]) * p.c_size[row])
    s.how[k] = how
    for i in range(s.sides.shape[1]):
        s.sides[k, i], s.memory[k, i] = 0, 0.0
    for i in range(p.mc):
        s.sides[k, s.which[i]], s.memory[k, s.which[i]] = p.side[i], p.y[i]
        if p.c_size[i] > 0.0 and abs(p.y[i]) * p.c_size[i] > _PUSHES * largest_push:
            length = _reduced_row(s, p, s.which[i], i, top, p.nz)
            for c in range(p.nz - seen):
                s.F[pushing, c] = p.C[i, seen + c] / length
            s.pivot_tolerance[pushing] = ROUNDING * n * s.d_size[s.which[i]] / length
            pushing += 1
    for j in range(p.nz):
        for c in range(n):
            s.x[c] += p.z[j] * s.Z[top + j, c]
    top += seen
    if pushing and top < n:
        held = factor(s.F, pushing, n - top, s.tau, s.order, s.norms, s.pivot_tolerance)
        turn_basis(s.F, s.order, s.tau, held, n - top, s.Z, top, s.Z.shape[1], s.in_span)
        top += held
    return top
