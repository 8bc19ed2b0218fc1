"""A guess on a new mesh from the solution on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ocp.problem import Guess, Phase, Problem, Trajectory
from ocp.thresholds import ROUNDING
from ocp.transcription.mesh import Mesh


def continued(problem: Problem, parts: Sequence[Trajectory], solved: Problem, meshes: Sequence[Mesh]) -> Problem:
    """The same problem with trajectories of its phases as its guess, sampled where the meshes have states and controls, and with
    the parameters of the problem as it was solved."""
    return replace(problem, phases=tuple(_from_solution(phase, found, part, mesh) for phase, found, part, mesh in zip(
        problem.phases, solved.phases, parts, meshes, strict=True)))


def _from_solution(phase: Phase, found: Phase, part: Trajectory, mesh: Mesh) -> Phase:
    s = np.unique(np.concatenate([[0.0], mesh.fractions, mesh.control_fractions, [1.0]]))
    s = s[np.r_[True, np.diff(s) > 1e-14]]
    s[-1] = 1.0
    start, T = float(part.t[0]), float(part.t[-1] - part.t[0])
    times = np.clip(start + T * s, part.t[0], part.t[-1])
    controls = _sides(part, mesh, s, start, T)
    duration = replace(phase.duration, guess=T) if phase.duration.free else phase.duration
    system = replace(phase.system, parameter_values=found.system.parameter_values)
    return replace(phase, guess=Guess(s, np.asarray(part.state(times)), controls), duration=duration, system=system)


def _sides(part: Trajectory, mesh: Mesh, s: np.ndarray, start: float, T: float) -> np.ndarray:
    """Controls at the fractions s; at an edge the value of the side that has a control point there."""
    from_left = mesh.shapes[0].points[-1] == 1.0
    at_edge = np.min(np.abs(s[:, None] - mesh.edges[None, 1:]), axis=1) < ROUNDING.rounding
    moved = np.where(at_edge & from_left, s - 1e-10, s)
    return np.asarray(part.control(np.clip(start + T * moved, part.t[0], part.t[-1]))).reshape(len(s), -1)
