"""Guesses perturbed by smooth random waves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ocp.guesses.sampling import INTERVALS, ranges, sample_guess
from ocp.problem import Boundary, Guess, Phase, Problem

#: lowest and highest number of half waves of a perturbation over a phase
WAVES = (1, 4)


def perturbed(problem: Problem, seed: Any, size: float) -> Problem:
    """The problem with smooth random waves added to its guess, which leave the ends of the states as they are.

    seed: of random numbers, or what has ``normal`` and ``uniform`` like ``np.random.Generator``; size: of the waves relative to the
    range of each component: the distance between finite bounds, else 1 + the largest magnitude in the guess. Controls stay inside
    their bounds, free durations are scaled by up to 1 + size.
    """
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    phases = []
    for phase in problem.phases:
        space = phase.system.space
        s = np.union1d(np.linspace(0.0, 1.0, INTERVALS + 1), phase.guess.s)
        x, u = sample_guess(phase.guess, space, s)
        step = _waves(rng, s, space.ndx, ends=False) * size * ranges(phase, x)
        x = space.moved(x, step)
        bounds = phase.control_bounds
        reach = bounds.width_or(1.0 + np.abs(u).max(axis=0, initial=0.0))
        u = bounds.clip(u + _waves(rng, s, phase.system.nu, ends=True) * size * reach)
        duration = phase.duration
        if duration.free:
            scaled = duration.guess * (1.0 + size) ** rng.uniform(-1.0, 1.0)
            duration = replace(duration, guess=float(np.clip(scaled, duration.lower, duration.upper)))
        phases.append(replace(phase, guess=Guess(s, x, u), duration=duration))
    return replace(problem, phases=tuple(phases))


def with_moved_ends(phase: Phase, normal: Callable[..., np.ndarray], size: float, start: bool = True) -> Phase:
    """The phase with a guess whose free ends are elsewhere, what lies between by as much as its time says. normal(size=n):
    random numbers; size: as of ``perturbed``; start: whether the start moves, too."""
    guess, space = phase.guess, phase.system.space
    reach = size * ranges(phase, guess.x)
    begin, end = (normal(size=space.ndx) * reach * _free(boundary, space.ndx) if moves else np.zeros(space.ndx)
                  for boundary, moves in ((phase.start, start), (phase.final, True)))
    step = np.outer(1.0 - guess.s, begin) + np.outer(guess.s, end)
    return replace(phase, guess=replace(guess, x=phase.state_bounds.clip(space.moved(guess.x, step))))


def _free(boundary: Boundary | None, size: int) -> np.ndarray:
    return np.ones(size) if boundary is None else ~np.array(boundary.fixed)


def _waves(rng: Any, s: np.ndarray, count: int, ends: bool) -> np.ndarray:
    """Sums of a few half waves [k, count] of magnitude about one half; zero at the ends unless ``ends``."""
    modes = np.arange(WAVES[0], WAVES[1] + 1)
    weights = rng.normal(size=(count, len(modes))) / (2 * np.sqrt(len(modes)))
    basis = np.sin(np.pi * modes[:, None] * s) if not ends else np.cos(np.pi * (modes[:, None] - 1) * s)
    return np.asarray((weights @ basis).T)
