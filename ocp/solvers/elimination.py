"""The equations at the head of a hierarchy, solved for as many unknowns: what is left to decide is the other unknowns.

    y = T x + t   rows of the levels of equations that stand above every inequality, weighed; y = 0 is asked for

An exchange step takes a row y_p and an unknown x_j that is in it, and solves for x_j: then T says x_j and all other rows by y_p and
the unknowns left (Gauss and Jordan's elimination, in place: Stiefel 1960, "Note on Jordan elimination, linear programming and
Tchebycheff approximation"). Levels go in their order, so a row in which no unknown is left depends on rows of its own level and of
those above. Where such rows contradict each other their level is met in the least squares: with y those that were exchanged and
K y + t those that depend, (1 + K'K) y = -K't.

Sparse rows stay sparse: an unknown is chosen whose column has few numbers (Markowitz 1957), and rather one that no level but the
first speaks of. So forces leave the equations of a floating base, and efforts, alone in their columns, cost nothing.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers.factors import OPTIONS, dot
from ocp.solvers.stack import ROUNDING, Stack, padded, product

_CLEAR = 1e-6  # share of its length from which a row surely says something new
_PIVOT = 1e-3  # share of a row's largest number that its pivot has at least
_WANTED = 1e3  # how much rather an unknown is eliminated that the first level alone speaks of
_CONTRADICTION_TOLERANCE = 1e-12  # relative; rows that depend on each other contradict each other by more


@linked(**OPTIONS)
def _load(s: Stack, levels: int) -> tuple[int, int]:
    """T, t, and what a unit of each column counts as a pivot; returns (rows, columns). Unknowns that are alone in their columns
    come last, beyond these columns, and have their equations solved for them: that changes no other equation."""
    n, rows, columns = s.state[0], 0, 0
    for k in range(levels):
        rows += s.counts[k, 0]
    for c in range(n):
        s.trial[c], s.aside[c], s.in_span[c] = 0.0, 0.0, _WANTED
    for i in range(s.counts[0, 0], s.A.shape[0]):
        for c in range(s.a_span[i, 0], s.a_span[i, 1]):
            s.in_span[c] = 1.0 if s.A[i, c] != 0.0 else s.in_span[c]
    for i in range(rows):
        root = s.a_root[i]**2
        s.rows[i], s.norms[i] = -1, root * dot(s.A, i, s.A, i, s.a_span[i, 0], s.a_span[i, 1])
        s.length[i] = np.sqrt(s.norms[i])
        for c in range(s.a_span[i, 0], s.a_span[i, 1]):
            s.trial[c] += root * s.A[i, c]**2
        for c in range(s.a_span[i, 0], s.a_span[i, 1]):
            s.aside[c] += 1.0 if s.A[i, c] != 0.0 else 0.0
    for c in range(n):
        if s.aside[c] == 1.0:
            p = 0
            while s.A[p, c] == 0.0:
                p += 1
            if s.rows[p] < 0 and s.trial[c] >= _PIVOT**2 * s.norms[p]:
                s.rows[p] = c
                continue
        s.column_of[columns] = c
        s.pick[columns] = s.in_span[c] / (s.aside[c] * np.sqrt(s.trial[c])) if s.trial[c] > 0.0 else 0.0
        columns += 1
    ordered = columns == 0 or s.column_of[columns - 1] == columns - 1
    for i in range(rows):
        scale = s.a_root[i] if s.rows[i] < 0 else -1.0 / s.A[i, s.rows[i]]
        if ordered:
            for c in range(columns):
                s.T[i, c] = scale * s.A[i, c]
        else:
            for c in range(columns):
                s.T[i, c] = scale * s.A[i, s.column_of[c]]
        for c in range(columns, padded(columns)):
            s.T[i, c] = 0.0
        s.t[i] = scale * (product(s.A, i, s.a_span, s.x) - s.b[i])
    return rows, columns


@linked(**OPTIONS)
def _pivot(s: Stack, p: int, left: int) -> int:
    """The column of the unknown for which row p is solved."""
    most, best, j = 0.0, 0.0, 0
    for c in range(left):
        most = max(most, abs(s.T[p, c]))
    for c in range(left):
        size = abs(s.T[p, c])
        if size >= _PIVOT * most and size * s.pick[c] > best:
            best, j = size * s.pick[c], c
    return j


@linked(**OPTIONS)
def _exchange(s: Stack, p: int, j: int, left: int, rows: int, columns: int, first: int, last: int) -> None:
    """Row p for the unknown in column j, which becomes column left - 1 and y_p in it. Norms of what is left in the rows first ...
    last follow."""
    y, wide = left - 1, padded(columns)
    s.column_of[j], s.column_of[y], s.pick[j] = s.column_of[y], s.column_of[j], s.pick[y]
    for i in range(rows):
        s.T[i, j], s.T[i, y] = s.T[i, y], s.T[i, j]
    scale = -1.0 / s.T[p, y]
    s.T[p, y] = -1.0
    for c in range(wide):
        s.trial[c] = s.T[p, c] * scale
        s.T[p, c] = s.trial[c]
    s.t[p] *= scale
    s.rows[p] = s.column_of[y]
    for i in range(rows):
        share = s.T[i, y]
        if i == p or share == 0.0:
            continue
        s.T[i, y] = 0.0
        for c in range(wide):
            s.T[i, c] += share * s.trial[c]
        s.t[i] += share * s.t[p]
        if first <= i < last and s.rows[i] < 0:
            s.norms[i] = dot(s.T, i, s.T, i, 0, y)


@linked(**OPTIONS)
def _level(s: Stack, first: int, last: int, left: int, rows: int, columns: int) -> int:
    """Exchange the rows first ... last of a level for some of the first ``left`` columns; returns how many columns are left, -1
    where a row says hardly anything new. In ``order``: the rows that were exchanged, for columns from the last one back."""
    tiny = (ROUNDING * s.state[0])**2
    for i in range(first, last):
        if s.rows[i] < 0:
            s.norms[i] = dot(s.T, i, s.T, i, 0, left)
    while True:
        p = -1
        for i in range(first, last):
            if s.rows[i] < 0 and s.norms[i] > tiny * s.length[i]**2 and (p < 0 or s.norms[i] > s.norms[p]):
                p = i
        if p < 0:
            return left
        if s.norms[p] < (_CLEAR * s.length[p])**2:
            return -1
        _exchange(s, p, _pivot(s, p, left), left, rows, columns, first, last)
        s.order[columns - left] = p
        left -= 1


@linked(**OPTIONS)
def _settle(s: Stack, first: int, last: int, above: int, own: int, columns: int) -> None:
    """aside [above ... above + own] = y of the level's exchanged rows in the least squares; those of levels above are there."""
    worst = 0.0
    for a in range(own):
        s.aside[above + a] = 0.0
    for i in range(first, last):
        if s.rows[i] < 0:
            s.norms[i] = s.t[i]
            for a in range(above):
                s.norms[i] += s.T[i, columns - 1 - a] * s.aside[a]
            worst = max(worst, abs(s.norms[i]) / (1.0 + s.a_root[i] * abs(s.b[i])))
    if own == 0 or worst <= _CONTRADICTION_TOLERANCE:
        return
    y = columns - 1 - above
    for a in range(own):
        for b in range(a + 1):
            s.F[a, b] = 1.0 if a == b else 0.0
        s.in_span[a] = 0.0
    for i in range(first, last):
        if s.rows[i] < 0:
            for a in range(own):
                share = s.T[i, y - a]
                s.in_span[a] -= share * s.norms[i]
                for b in range(a + 1):
                    s.F[a, b] += share * s.T[i, y - b]
    for a in range(own):  # Cholesky
        for b in range(a + 1):
            total = s.F[a, b] - dot(s.F, a, s.F, b, 0, b)
            s.F[a, b] = np.sqrt(total) if a == b else total / s.F[b, b]
        total = s.in_span[a]
        for c in range(a):
            total -= s.F[a, c] * s.in_span[c]
        s.in_span[a] = total / s.F[a, a]
    for a in range(own - 1, -1, -1):
        total = s.in_span[a]
        for c in range(a + 1, own):
            total -= s.F[c, a] * s.aside[above + c]
        s.aside[above + a] = total / s.F[a, a]


@linked(**OPTIONS)
def _sort(s: Stack, left: int, rows: int) -> None:
    """The columns that are left in the order of their unknowns: levels that have nothing to say of the last ones, as motions of
    forces, have zeros at the end of their rows in the matrix."""
    for c in range(left):
        least = c
        for k in range(c + 1, left):
            least = k if s.column_of[k] < s.column_of[least] else least
        if least != c:
            s.column_of[c], s.column_of[least] = s.column_of[least], s.column_of[c]
            for p in range(rows):
                s.T[p, c], s.T[p, least] = s.T[p, least], s.T[p, c]


@linked(**OPTIONS)
def _straighten(s: Stack, left: int, exchanged: int) -> None:
    """Rows of Z orthonormal over the unknowns that are not alone, and x as near to where it was (``trial``) as they allow: least
    changes of x, not of the unknowns that happen to be left, stay within limits."""
    n, top = s.state[0], s.state[2]
    for a in range(left):
        for b in range(padded(a + 1)):  # what is right of the diagonal is not looked at
            s.F[a, b] = 0.0
        s.F[a, a] = 1.0
    k = 0
    while k + 4 <= exchanged:  # Z Z' = 1 + T'T; by fours: less to load and store
        i, j, l, m = s.order[k], s.order[k + 1], s.order[k + 2], s.order[k + 3]
        for a in range(left):
            p, q, r, t = s.T[i, a], s.T[j, a], s.T[l, a], s.T[m, a]
            if p != 0.0 or q != 0.0 or r != 0.0 or t != 0.0:
                for b in range(padded(a + 1)):
                    s.F[a, b] += p * s.T[i, b] + q * s.T[j, b] + r * s.T[l, b] + t * s.T[m, b]
        k += 4
    for c in range(k, exchanged):
        i = s.order[c]
        for a in range(left):
            for b in range(padded(a + 1)):
                s.F[a, b] += s.T[i, a] * s.T[i, b]
    for j in range(s.Z.shape[1]):
        s.in_span[j] = 0.0
    for k in range(exchanged):
        j = s.rows[s.order[k]]
        s.in_span[j] = s.x[j] - s.trial[j]
    for a in range(left - 1, -1, -1):  # Cholesky of the matrix, L'L, upwards, and Z alike: zeros below stay
        i, b, wide = top + a, left - 4, padded(a + 1)
        while b > a:
            p, q, r, t, k = s.F[b, a], s.F[b + 1, a], s.F[b + 2, a], s.F[b + 3, a], top + b
            for c in range(wide):
                s.F[a, c] -= p * s.F[b, c] + q * s.F[b + 1, c] + r * s.F[b + 2, c] + t * s.F[b + 3, c]
            for j in range(s.Z.shape[1]):
                s.Z[i, j] -= p * s.Z[k, j] + q * s.Z[k + 1, j] + r * s.Z[k + 2, j] + t * s.Z[k + 3, j]
            b -= 4
        for k in range(a + 1, b + 4):
            share = s.F[k, a]
            for c in range(wide):
                s.F[a, c] -= share * s.F[k, c]
            for j in range(s.Z.shape[1]):
                s.Z[i, j] -= share * s.Z[top + k, j]
        scale, change = 1.0 / np.sqrt(s.F[a, a]), 0.0
        for c in range(wide):
            s.F[a, c] *= scale
        for j in range(s.Z.shape[1]):
            s.Z[i, j] *= scale
            change += s.Z[i, j] * s.in_span[j]
        for j in range(n):
            s.x[j] -= change * s.Z[i, j]


@linked(**OPTIONS)
def eliminate(s: Stack) -> int:
    """x, Z and top after the levels of equations above every inequality. Returns how many levels that are: none where a row of them
    says hardly anything new, which asks for orthogonal factors."""
    n, levels, first = s.state[0], 0, 0
    while levels < s.state[1] and s.counts[levels, 1] == 0:
        levels += 1
    rows, columns = _load(s, levels)
    left = columns
    for k in range(levels):
        last, before = first + s.counts[k, 0], left
        left = _level(s, first, last, left, rows, columns)
        if left < 0:
            levels, rows, columns, left = 0, 0, n, n
            for c in range(n):
                s.column_of[c] = c
            break
        s.rank[k], s.how[k] = 0, 0
        for i in range(first, last):
            s.rank[k] += 1 if s.rows[i] >= 0 else 0
        _settle(s, first, last, columns - before, before - left, columns)
        first = last
    top = n - left
    _sort(s, left, rows)
    for c in range(left):
        for j in range(n):
            s.Z[top + c, j] = 0.0
        s.Z[top + c, s.column_of[c]] = 1.0
    for j in range(n):
        s.trial[j] = s.x[j]
    for p in range(rows):
        j = s.rows[p]
        if j >= 0:
            s.x[j] += s.t[p]
            for a in range(columns - left):
                s.x[j] += s.T[p, columns - 1 - a] * s.aside[a]
            for c in range(left):
                s.Z[top + c, j] = s.T[p, c]
    s.state[2] = top
    _straighten(s, left, columns - left)
    return levels
