"""The programme of a level whose limits, or those of the levels above, are in the way: least squares between bounds.

In z, what is left to decide, and one slack for each row of D of its own.
"""

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers.active_set import Problem
from ocp.solvers.factors import OPTIONS, factor, turn_basis
from ocp.solvers.stack import DECIDED, TINY, Stack, product

DONE, ASK, FAILED, CAREFUL = range(4)

_PUSHES = 1e-9  # share of a level's gradient from which a multiplier counts as one


@linked(**OPTIONS)
def _costs(s: Stack, p: Problem, r: int, soft: int, used: int, tall: bool) -> int:
    """Rows of the least squares: those of A in what is left to decide, and the slacks. Returns how many."""
    for i in range(used + soft):
        p.e[i] = 0.0
        for c in range(r + soft):
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
    return used + soft


@linked(**OPTIONS)
def _reduced_row(s: Stack, p: Problem, i: int, at: int, top: int, r: int, nz: int) -> float:
    """Row i of D in what is left to decide, as row ``at`` of C, without its slack. Returns its length."""
    squares = 0.0
    for j in range(r):
        total = 0.0
        for c in range(s.d_span[i, 0], s.d_span[i, 1]):
            total += s.D[i, c] * s.Z[top + j, c]
        p.C[at, j] = total
        squares += total * total
    for c in range(r, nz):
        p.C[at, c] = 0.0
    return float(np.sqrt(squares))


@linked(**OPTIONS)
def fill(s: Stack, p: Problem, k: int, top: int, used: int, tall: bool, first: int, last: int,
         pending: bool) -> tuple[int, int, int, int]:
    """Fill the programme of a level: rows of D up to ``first`` are hard, to ``last`` soft, with a slack each. Returns
    (kb, mc, nz, code)."""
    r, soft = s.state[0] - top, last - first
    nz, mc = r + soft, 0
    kb = _costs(s, p, r, soft, used, tall)
    far = 1.0
    for i in range(first):
        s.w[i] = product(s.D, i, s.d_span, s.x)
        far = max(far, 1.0 + abs(s.w[i]))
    for i in range(last):
        length = _reduced_row(s, p, i, mc, top, r, nz)
        if i < first:
            below, above = s.lower[i] - s.w[i], s.upper[i] - s.w[i]
            if not pending and (below > 1e-6 * far or above < -1e-6 * far):
                return kb, mc, nz, FAILED
            if length <= DECIDED * s.d_size[i]:
                tiny = 100.0 * TINY * (1.0 + abs(s.w[i]))
                if pending and (below > tiny or above < -tiny):
                    return kb, mc, nz, CAREFUL
                continue
            if not pending:  # the point at hand holds them, by construction; what rounding took from it is given back
                below, above = min(below, 0.0), max(above, 0.0)
            scale = 1.0 / length
        else:
            w = product(s.D, i, s.d_span, s.x)
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


@linked(**OPTIONS)
def start(s: Stack, p: Problem, r: int, used: int) -> None:
    for c in range(p.nz):
        p.z[c] = s.along[c] if c < used else 0.0


@linked(**OPTIONS)
def feasible(p: Problem, r: int, soft: int) -> None:
    """z at a point that holds every row: where x is, slacks as they have to be."""
    for c in range(p.nz):
        p.z[c] = 0.0
    for i in range(soft):
        row = p.mc - soft + i
        p.z[r + i] = min(-p.lower[row], 0.0) + max(-p.upper[row], 0.0)


@linked(**OPTIONS)
def accept(s: Stack, p: Problem, k: int, top: int, seen: int, soft: int, how: int) -> int:
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
        held = factor(s.F, pushing, n - top, s.tau, s.order, s.norms, DECIDED, 0.0, True)
        turn_basis(s.F, s.order, s.tau, held, n - top, s.Z, top, s.Z.shape[1], s.along)
        top += held
    return top
