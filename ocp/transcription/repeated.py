"""Path equations that are redundant by their gradients: more of them than controls can satisfy make no regular program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.problem import At, Constraint, Finding, Kind, Phase, Problem, Sense
from ocp.thresholds import REACH, ROUNDING


def crowded(problem: Problem) -> bool:
    """Whether a phase has at least as many path equations as inputs, so that no finer mesh leaves more unknowns open."""
    return any(sum(len(c.lower) for c in _equations(phase)) >= phase.system.nu for phase in problem.phases)


def repeated(problem: Problem) -> tuple[Finding, ...]:
    """A finding for each row of a path equation whose gradient by states and inputs is everywhere made of those before it."""
    several = len(problem.phases) > 1
    return tuple(replace(one, phase=phase.name if several else "") for phase in problem.phases for one in _repeated(phase))


def _equations(phase: Phase) -> list[Constraint]:
    return [c for c in phase.constraints if c.at is At.PATH and c.sense is Sense.EQUAL and c.soft is None]


def _repeated(phase: Phase) -> Iterator[Finding]:
    rows, system, rng = _equations(phase), phase.system, np.random.default_rng(0)
    names = [name for c in rows for name in c.components()]
    functions, slopes = [_jacobian_of(c.function) for c in rows], []
    middle = len(phase.guess.s) // 2
    for _ in range(REACH.points if len(names) > 1 else 0):
        x, u = (part[middle] + rng.uniform(-0.5, 0.5, part.shape[1]) for part in (phase.guess.x, phase.guess.u))
        t = rng.uniform() * phase.duration.guess
        slopes.append(np.vstack([slope(t, x, u, system.parameter_values).full() for slope in functions]))
    if not slopes or not np.all(np.isfinite(slopes)):
        return
    own: list[int] = []
    for i, name in enumerate(names):
        if not all(_made(J[i], J[own]) for J in slopes):
            own.append(i)
            continue
        needed = tuple(names[j] for j in own if not all(_made(J[i], J[[k for k in own if k != j]]) for J in slopes))
        yield Finding(Kind.REDUNDANT_EQUATION, name=name, data={"repeats": needed})


def _jacobian_of(function: ca.Function) -> ca.Function:
    t, x, u, p = arguments = [ca.MX.sym(function.name_in(i), function.numel_in(i)) for i in range(4)]
    return ca.Function("slope", arguments, [ca.densify(ca.jacobian(function(*arguments), ca.vertcat(x, u)))])


def _made(row: np.ndarray, others: np.ndarray) -> bool:
    """Whether a row is a combination of others."""
    rest = row - np.linalg.lstsq(others.T, row, rcond=None)[0] @ others if len(others) else row
    return bool(np.linalg.norm(rest) <= ROUNDING.negligible * np.linalg.norm(row))
