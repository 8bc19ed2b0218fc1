"""Starts of a multi-start: the guess, and guesses that random waves and free ends take elsewhere."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from ocp.guess import perturbed, ranges
from ocp.problem import Boundary, Phase, Problem

#: how far starts are from the guess, relative to the ranges of states and controls
AWAY = 1.0


def started(problem: Problem, seed: int) -> Problem:
    """The problem with another guess: its own for seed 0, else with waves (``ocp.guess.perturbed``), its ends moved where they are
    free, all in random directions."""
    if not seed:
        return problem
    rng = np.random.default_rng([seed, 1])
    found = perturbed(problem, seed, AWAY)
    return replace(found, phases=tuple(_moved(phase, rng) for phase in found.phases))


def _moved(phase: Phase, rng: np.random.Generator) -> Phase:
    """The phase with a guess whose free ends are elsewhere, what lies between by as much as its time says."""
    guess, space = phase.guess, phase.system.space
    size = AWAY * ranges(phase, guess.x)
    begin, end = (rng.normal(size=space.ndx) * size * _free(boundary, space.ndx) for boundary in (phase.start, phase.final))
    step = np.outer(1.0 - guess.s, begin) + np.outer(guess.s, end)
    x, dx = ca.SX.sym("x", space.nx), ca.SX.sym("dx", space.ndx)
    moved = np.asarray(ca.Function("plus", [x, dx], [space.plus(x, dx)])(guess.x.T, step.T)).T
    return replace(phase, guess=replace(guess, x=phase.state_bounds.clip(moved)))


def _free(boundary: Boundary | None, size: int) -> np.ndarray:
    return np.ones(size) if boundary is None else ~np.array(boundary.fixed)
