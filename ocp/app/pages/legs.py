"""A solution phase by phase, as the plots and tables of a run need it, for one phase or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ocp.bridge.efforts import Efforts, drive_efforts
from ocp.problem.problem import Phase, Problem
from ocp.problem.solution import Solution, Trajectory

FEWEST_SAMPLES, MAX_SAMPLES, TARGET_SAMPLES = 3, 24, 480  # per interval, and in all


@dataclass(frozen=True)
class Samples:
    """A solution on a fine grid: t [k], x [k, nx], u [k, nu] by the method's own interpolants."""

    t: np.ndarray
    x: np.ndarray
    u: np.ndarray


@dataclass(frozen=True)
class Leg:
    """A phase and its trajectory."""

    phase: Phase
    trajectory: Trajectory

    @cached_property
    def samples(self) -> Samples:
        """The interpolants on a grid that touches both sides of every knot, so that jumps stay vertical."""
        path = self.trajectory
        knots = np.unique(np.concatenate([np.asarray(path.t, float), np.asarray(path.t_u, float)]))
        if len(path.t):
            knots = knots[(knots >= path.t[0]) & (knots <= path.t[-1])]
        t = knots
        if len(knots) > 1:
            per = int(np.clip(TARGET_SAMPLES // (len(knots) - 1), FEWEST_SAMPLES, MAX_SAMPLES))
            inside = np.linspace(1e-9, 1.0 - 1e-9, per)
            t = (knots[:-1, None] + np.diff(knots)[:, None] * inside).ravel()
            t[0], t[-1] = knots[0], knots[-1]
        return Samples(t, np.asarray(path.state(t), float).reshape(len(t), path.x.shape[1]),
                       np.asarray(path.control(t), float).reshape(len(t), path.u.shape[1]))

    @property
    def at_knots(self) -> np.ndarray:
        """Controls and algebraic unknowns [N+1, nu] at the knots."""
        path = self.trajectory
        return np.asarray(path.control(path.t), float).reshape(len(path.t), self.phase.system.nu)

    @cached_property
    def drives(self) -> Efforts | None:
        """What the drives of a robot give; None of what is no robot."""
        return drive_efforts(self.phase.system)

    @property
    def span(self) -> tuple[float, float]:
        """When it begins and ends [s]."""
        t = self.trajectory.t
        return (float(t[0]), float(t[-1])) if len(t) else (0.0, 1.0)


def legs(solution: Solution) -> tuple[Leg, ...]:
    """The phases of a solution with their trajectories, in order of time."""
    paths = solution.parts or (solution.trajectory,)
    return tuple(Leg(phase, path) for phase, path in zip(solution.problem.phases, paths, strict=True))


def alike(found: Sequence[Leg]) -> bool:
    """Whether all phases have the same states and controls, so that their arrays can follow one another."""
    return len({(leg.phase.system.space.names, leg.phase.system.inputs) for leg in found}) == 1


def union(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Every name once, in order of appearance."""
    return tuple(dict.fromkeys(name for group in names for name in group))


def widened(values: np.ndarray, own: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Columns [k, len(names)] from those of ``own``; NaN where a name is not among them."""
    out = np.full((len(values), len(names)), np.nan)
    for i, name in enumerate(names):
        if name in own:
            out[:, i] = values[:, list(own).index(name)]
    return out


def chosen(problem: Problem, found: Sequence[Leg]) -> tuple[dict[str, float], dict[str, float]]:
    """(durations [s], parameters) that the solver chose, by name; durations by phase."""
    durations = {leg.phase.name: leg.span[1] - leg.span[0] for leg in found if leg.phase.duration.free}
    parameters = {phase.system.parameters[i]: float(phase.system.parameter_values[i]) for phase in problem.phases
                  for i, _, _ in phase.free_parameters}
    return durations, parameters
