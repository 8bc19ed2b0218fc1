"""Least squares between bounds (``ocp.solvers.working_set``), exactly, in compiled loops: the finish of every level of a hierarchy.

`exchange` corrects a guessed set in few steps and may not close (primal-dual active set: Hintermueller, Ito, Kunisch 2003);
`descend` walks from a feasible point and always does (primal active set: Nocedal and Wright 2006, 16.5, with Bland's rule where it
stalls; between hard constraints Newton's method with an exact line search: Madsen, Nielsen 1990).
"""

from __future__ import annotations

import numpy as np

from dynamics.kernels.linked import linked
from ocp.solvers.factors import INLINE, OPTIONS
from ocp.solvers.working_set import EXCHANGES, Problem, append, factor_active, gradient, largest, minimise, missed, times

_ROUNDING = 1e-12  # relative size of violations and multipliers that rounding makes
_MAX_STEPS_FROM_GUESS = 24  # steps from a guessed set after which it was no good guess
_HALVINGS = 60  # of a step: then its length is known to rounding


@linked(**INLINE)
def _wrong(p: Problem, i: int, push: float) -> bool:
    """Whether the multiplier of an active constraint has the wrong sign."""
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
    for count in range(EXCHANGES):
        key = np.int64(1469598103934665603)  # wraps around, as hashes do
        for i in range(p.mc):
            key = (key ^ (p.side[i] + 2)) * np.int64(1099511628211)
        again = False  # not yet a circle: where costs are flat z moves on with the same rows
        for i in range(count):
            again = again or p.seen[i] == key
        p.seen[count] = key
        minimise(p, factor_active(p, True))
        far, push = 1.0 + largest(p.z, p.nz), _ROUNDING * (1.0 + largest(p.y, p.mc))
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
        total += p.rate[i] * missed(p, i, p.row[i] + t * p.rate[i])
    return total


@linked(**OPTIONS)
def _lowest(p: Problem, most: float) -> float:
    """The share, at most ``most``, of target at which the cost is least: its derivative is piecewise linear and rises. Where no
    soft row passes an end on the way it is ``most``."""
    start, curve, passes = 0.0, 0.0, False
    for i in range(p.mc - p.soft, p.mc):
        passes = passes or (p.lower[i] != p.upper[i] and np.sign(missed(p, i, p.row[i] + most * p.rate[i])) != p.side[i])
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
    """Drop the active constraint with the worst multiplier of wrong sign, or the first one where the iterates stall."""
    push, worst, leaving = _ROUNDING * (1.0 + largest(p.y, p.mc)), 0.0, -1
    for i in range(p.mc - p.soft):
        if _wrong(p, i, push) and (leaving < 0 or (stuck <= 3 and abs(p.y[i]) > worst)):
            leaving, worst = i, abs(p.y[i])
    if leaving >= 0:
        p.side[leaving] = 0
    return leaving >= 0


@linked(**OPTIONS)
def descend(p: Problem, holding: bool) -> bool:
    """From a feasible z, without active constraints or with those of side, which z touches, for a few changes. Returns convergence:
    without active constraints False only where rounding prevents it."""
    hard = p.mc - p.soft
    for i in range(p.mc):
        if p.lower[i] == p.upper[i]:
            p.side[i] = 1
        elif i >= hard:
            at = 0.0
            for c in range(p.nz):
                at += p.C[i, c] * p.z[c]
            p.side[i] = np.sign(missed(p, i, at))
        elif not holding:
            p.side[i] = 0
    stuck, k, first = 0, 0, -1
    for _ in range(_MAX_STEPS_FROM_GUESS if holding else 60 + 12 * (p.mc + p.nz)):
        for c in range(p.nz):
            p.target[c] = p.z[c]
        k = append(p, first, k) if first >= 0 else factor_active(p, False)
        minimise(p, k)
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
            times(p.C, p.mc, p.nz, p.z, p.row)
            times(p.C, p.mc, p.nz, p.target, p.rate)
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
                    side = np.sign(missed(p, i, p.row[i] + share * p.rate[i]))
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
    gradient(p)
    free, pushed = 0.0, 0.0
    for c in range(p.nz):
        total = 0.0
        for i in range(hard):
            if p.y[i] != 0.0:
                total += p.C[i, c] * p.y[i]
        pushed = max(pushed, abs(total))
        p.gradient[c] += total
    miss = largest(p.gradient, p.nz)
    for c in range(p.nz):
        total = 0.0
        for i in range(p.kb):
            total += p.B[i, c] * p.e[i]
        free = max(free, abs(total))
    size, far = 1.0 + max(free, pushed), 1.0 + largest(p.z, p.nz)
    if not miss <= tolerance * size:
        return False
    for i in range(hard):
        above, below, own = p.upper[i] - p.row[i], p.row[i] - p.lower[i], far + abs(p.row[i])
        gap = min(max(p.y[i], 0.0), abs(above)) + min(max(-p.y[i], 0.0), abs(below))
        if not (min(above, below) >= -tolerance * own and gap <= tolerance * max(size, own)):
            return False
    return True
