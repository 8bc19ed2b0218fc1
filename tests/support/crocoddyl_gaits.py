"""Crocoddyl's gaits of ANYmal, as files of the gallery, and what states and controls cost in them, by no solver's code.

Nodes are counted as Crocoddyl does: each step of a phase, each impact between phases, the impact at the end. States have one row
more than nodes; that behind the last impact is a function of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from repository import ROOT, shipped

from ocp.problem import At, Cost, Phase, Problem
from ocp.shooting.stages.costs import terms


@dataclass(frozen=True)
class Gait:
    """Cost and iterations of Crocoddyl's FDDP, which stops at an expected decrease of 1e-9, from its quasi-static guess; call: of
    ``crocoddyl.utils.quadruped.SimpleQuadrupedalGaitProblem``."""

    cost: float
    iterations: int
    call: tuple[Any, ...]


GAITS = {
    "anymal_trot": Gait(231.7924777294141, 7, ("createTrottingProblem", 0.15, 0.1, 1e-2, 25, 2)),
    "anymal_walk": Gait(588.6368067889141, 11, ("createWalkingProblem", 0.25, 0.15, 1e-2, 25, 2)),
}


def gait(name: str) -> Problem:
    """The problem of a file."""
    return shipped(ROOT / "problems" / f"{name}.yaml").problem


def nodes(problem: Problem) -> Iterator[tuple[Phase, bool]]:
    """The phase of every node but the last impact, and whether the node is the impact before it."""
    for phase in problem.phases:
        if phase.reset is not None:
            yield phase, True
        yield from ((phase, False) for _ in range(phase.steps or 0))


def probe(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """States [N + 1, nx] and controls [N, nu], N nodes without the last impact, near the start and farther from it with time; they
    fit no dynamics. Forces pull and slip somewhere, and joints leave their limits."""
    phase = problem.phase if len(problem.phases) == 1 else problem.phases[0]
    space, N = phase.system.space, sum(1 for _ in nodes(problem))
    start, d = ca.SX.sym("x", space.nx), ca.SX.sym("d", space.ndx)
    plus = ca.Function("plus", [start, d], [space.plus(start, d)])
    assert phase.start is not None
    k, i, j = np.arange(N + 1)[:, None], np.arange(space.ndx), np.arange(phase.system.nu)
    size = (0.05 + 0.3 * k / N) * np.where(i < space.ndx // 2, 1.0, 10.0)
    x = np.array(plus(ca.repmat(ca.DM(phase.start.value), 1, N + 1), (size * np.sin(0.7 * k + i)).T)).T
    return x, 20.0 * np.sin(0.9 * k[:-1] + 2 * j + 1)


def agreement(problem: Problem, x: np.ndarray, u: np.ndarray) -> tuple[float, float]:
    """Cost of states and controls, and the sum of squares of where nodes lead, seen from the states behind them."""
    total, moved, t, k, before = 0.0, 0.0, 0.0, 0, None
    for phase, struck in nodes(problem):
        if phase is not before:
            total += _ends(before, t, x[k]) if before is not None else 0.0
            taken, before = step(phase), phase
        if struck:
            assert phase.reset is not None
            after = np.array(phase.reset(x[k], [])).ravel()
        else:
            cost, after = (np.array(y).ravel() for y in taken(t, x[k], u[k]))
            total, t = total + float(cost[0]), t + float(phase.system.period or 0.0)
        moved += float(np.sum(_away(phase)(x[k + 1], after).full() ** 2))
        k += 1
    return total + _ends(problem.phases[-1], t, x[k]), moved


def _symbols(phase: Phase) -> list[ca.SX]:
    return [ca.SX.sym("t"), ca.SX.sym("x", phase.system.nx), ca.SX.sym("u", phase.system.nu), ca.SX(0, 1)]


def _sum(costs: tuple[Cost, ...], given: list[ca.SX]) -> ca.SX:
    return sum((cost.expression(*given) for cost in costs), start=ca.SX(0))


def step(phase: Phase) -> ca.Function:
    """(t, x, u) -> cost of a step, state after it."""
    given, h = _symbols(phase), phase.system.period
    after = phase.system.space.plus(given[1], h * phase.system.rate(*given))
    return ca.Function("step", given[:3], [h * _sum(terms(phase, At.PATH), given), after])


def _ends(phase: Phase, t: float, x: np.ndarray) -> float:
    given = _symbols(phase)
    return float(ca.Function("end", given[:3], [_sum(terms(phase, At.FINAL), given)])(t, x, 0))


def _away(phase: Phase) -> ca.Function:
    space = phase.system.space
    a, b = ca.SX.sym("a", space.nx), ca.SX.sym("b", space.nx)
    return ca.Function("away", [a, b], [space.minus(a, b)])
