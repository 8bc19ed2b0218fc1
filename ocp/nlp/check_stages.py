"""Whether what a program states about its stages is true of its functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ocp.errors import ProblemError
from ocp.nlp.program import NLP

#: how far the second point of the check lies from the guess, relative to ``max(1, |x|)``
AWAY = 1e-2


def check_stages(nlp: NLP) -> np.ndarray:
    """[m] the constant coefficients with which constraints of the dynamics hold the next state (path constraints: -1), once the
    statement ``nlp.stages`` is found to be true of the patterns of Jacobian and Hessian and of the Jacobian's values at two points.

    Raises ProblemError naming the first row and column where it is not.
    """
    stages = nlp.stages
    if stages is None:
        raise ProblemError("the program has no stages", where="nlp")
    for what, order, names in (("column", stages.columns, nlp.variables), ("row", stages.rows, nlp.constraints)):
        _check_partition(what, order, names)
    place, row_place = _stage_of(nlp.n, zip(stages.states, stages.controls, strict=True)), np.empty(nlp.m, dtype=int)
    coefficient, follows = -np.ones(nlp.m), np.full(nlp.m, -1)
    for k, path in enumerate(stages.path):
        row_place[path] = k
        if k < stages.intervals:
            row_place[stages.dynamics[k]] = k
            follows[stages.dynamics[k]] = stages.states[k + 1]
    for i in np.flatnonzero((follows >= 0) & (nlp.g_lower != nlp.g_upper)):
        raise ProblemError(f"belongs to the dynamics but is not an equation: {nlp.g_lower[i]:.6g} to {nlp.g_upper[i]:.6g}",
                           where=nlp.constraints[i])
    r, c = (np.array(i, dtype=int) for i in nlp.jac.sparsity_out(1).get_triplet())
    next_state = follows[r] == c
    for e in np.flatnonzero((place[c] != row_place[r]) & ~next_state):
        k = row_place[r[e]]
        own = f", the next state of which is {nlp.variables[follows[r[e]]]!r}" if follows[r[e]] >= 0 else ""
        raise ProblemError(f"depends on {nlp.variables[c[e]]!r} of stage {place[c[e]]}, but is a constraint of stage {k}{own}",
                           where=nlp.constraints[r[e]])
    for i in sorted(set(np.flatnonzero(follows >= 0)) - set(r[next_state])):
        raise ProblemError(f"does not depend on its next state {nlp.variables[follows[i]]!r}", where=nlp.constraints[i])
    start = np.clip(nlp.x0, nlp.x_lower, nlp.x_upper)
    shifts = np.random.default_rng(0).uniform(-AWAY, AWAY, nlp.n) * np.maximum(1.0, np.abs(start))
    values = [np.array(nlp.jac(x)[1].nonzeros())[next_state] for x in (start, start + shifts)]
    for i, j, one, other in zip(r[next_state], c[next_state], *values, strict=True):
        if not (np.isfinite(one) and one != 0 and abs(one - other) <= 1e-9 * abs(one)):
            raise ProblemError(f"must depend on its next state {nlp.variables[j]!r} by a constant factor other than 0, got "
                               f"{one:.6g} at one point and {other:.6g} at another", where=nlp.constraints[i])
        coefficient[i] = one
    r, c = (np.array(i, dtype=int) for i in nlp.hess.sparsity_out(0).get_triplet())
    for e in np.flatnonzero(place[r] != place[c]):
        raise ProblemError(f"the Hessian couples {nlp.variables[r[e]]!r} of stage {place[r[e]]} and {nlp.variables[c[e]]!r} of "
                           f"stage {place[c[e]]}", where="nlp")
    return coefficient


def _check_partition(what: str, order: np.ndarray, names: Sequence[str]) -> None:
    count = len(names)
    for i in order[(order < 0) | (order >= count)]:
        raise ProblemError(f"stages: {what} {i} does not exist; there are {count}", where="nlp")
    times = np.bincount(order, minlength=count).tolist()
    for i, found in enumerate(times):
        if found != 1:
            raise ProblemError(f"stages: this {what} belongs to {found or 'no'} stage{'s' if found else ''}", where=names[i])


def _stage_of(count: int, parts: Iterator[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    place = np.empty(count, dtype=int)
    for k, pair in enumerate(parts):
        for part in pair:
            place[part] = k
    return place
