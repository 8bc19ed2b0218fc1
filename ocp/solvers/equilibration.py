"""Units in which the rows and unknowns of a stack of levels are about one: answers do not depend on those it is written in.

    x = S z,   rows of A S and D S of length one, the largest row of a level weighs one, the least of what levels demand is one

Alternating: rows by their length, columns by their largest number in these rows (Ruiz 2001, "A scaling algorithm to equilibrate
both rows and columns norms in matrices", alternately rather than at once). The divisor of a row multiplies the root of its
weight, so every level asks the same. A row demands how far it is from being met at x = 0, a level as much as the largest of its
rows; that gives x its unit. All factors are powers of two: nothing is rounded.
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers.factors import INLINE, OPTIONS, VIEWS
from ocp.solvers.stack import Stack, stack
from ocp.solvers.working_set import TOLERANCE

_SWEEPS = 3


@linked(**INLINE)
def _power(size: float) -> float:
    """The power of two next to a size; one for zero."""
    return float(np.exp2(np.floor(np.log2(size) + 0.5))) if size > 0.0 else 1.0


@linked(**OPTIONS)
def _length(A: np.ndarray, i: int, unit: np.ndarray) -> float:
    total = 0.0
    for c in range(unit.size):
        total += (A[i, c] * unit[c])**2
    return float(np.sqrt(total))


@linked(**OPTIONS)
def _widest(A: np.ndarray, unit: np.ndarray, widest: np.ndarray) -> None:
    """widest [n]: at least the largest number of each column in rows of length one."""
    for i in range(A.shape[0]):
        length = _length(A, i, unit)
        for c in range(unit.size):
            widest[c] = max(widest[c], abs(A[i, c]) * unit[c] / length) if length > 0.0 else widest[c]


@linked(**OPTIONS)
def _divide(A: np.ndarray, i: int, unit: np.ndarray, root: np.ndarray, own: np.ndarray) -> None:
    own[i] = _power(_length(A, i, unit))
    root[i] *= own[i]
    for c in range(unit.size):
        A[i, c] *= unit[c] / own[i]


@linked(**OPTIONS)
def _demand(s: Stack) -> float:
    """The least that a level demands, but for those that demand next to nothing beside others; one where none does."""
    a, d, least, whole = 0, 0, np.inf, 0.0
    for again in range(2):
        a, d = 0, 0
        for k in range(s.state[1]):
            most = 0.0
            for i in range(a, a + s.counts[k, 0]):
                length = _length(s.A, i, s.unit)
                most = max(most, abs(s.b[i]) / length) if length > 0.0 else most
            for i in range(d, d + s.counts[k, 1]):
                length = _length(s.D, i, s.unit)
                most = max(most, max(s.low[i], -s.high[i]) / length) if length > 0.0 else most
            whole = max(whole, most)
            if again and most > TOLERANCE * whole:
                least = min(least, most)
            a, d = a + s.counts[k, 0], d + s.counts[k, 1]
    return least if whole > 0.0 else 1.0


@linked(**OPTIONS)
def _scale(s: Stack) -> None:
    for c in range(s.unit.size):
        s.unit[c] = 1.0
    for _ in range(_SWEEPS):
        for c in range(s.unit.size):
            s.trial[c] = 0.0
        _widest(s.A, s.unit, s.trial)
        _widest(s.D, s.unit, s.trial)
        for c in range(s.unit.size):
            s.unit[c] /= _power(s.trial[c])
    demand = _power(_demand(s))
    for c in range(s.unit.size):
        s.unit[c] *= demand
    a, d = 0, 0
    for k in range(s.state[1]):
        most = 0.0
        for i in range(a, a + s.counts[k, 0]):
            _divide(s.A, i, s.unit, s.a_root, s.a_unit)
            s.b[i] /= s.a_unit[i]
            most = max(most, s.a_root[i])
        for i in range(d, d + s.counts[k, 1]):
            _divide(s.D, i, s.unit, s.d_root, s.d_unit)
            s.low[i] /= s.d_unit[i]
            s.high[i] /= s.d_unit[i]
            most = max(most, s.d_root[i])
        level = _power(most)
        for i in range(a, a + s.counts[k, 0]):
            s.a_root[i] /= level
        for i in range(d, d + s.counts[k, 1]):
            s.d_root[i] /= level
        a, d = a + s.counts[k, 0], d + s.counts[k, 1]


@linked(**VIEWS)
def equilibrate(w: np.ndarray, iw: np.ndarray) -> None:
    """Change the units of a loaded stack; `ocp.solvers.stack.report` gives answers in those it was loaded in."""
    _scale(stack(w, iw))
